//! The exchange between a request and its answer, with requests to the client in between.

use std::{
    future::poll_fn, panic::AssertUnwindSafe, pin::Pin, pin::pin, sync::Arc, task::Poll, time::Duration,
};

use futures_util::{FutureExt as _, StreamExt as _, stream::FuturesUnordered};
use kit::{Fault, Kind};
use rmcp::{
    ErrorData, RoleServer,
    model::{InputRequiredResult, InputResponses, ProgressToken},
    service::{Peer, RequestContext},
};
use runtime::Answer;
use tokio::sync::{mpsc, watch};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    LISTENING, McpServer,
    client_requests::{Asking, Lacks, Question, ToClient, gone, put},
    multi_round::{Binding, Open, Whose},
    refused,
};
use crate::{
    backend::Backend,
    client::{Client, Level},
    in_flight::Ticket,
    progress::{Step, notify},
};

/// A request whose answer may take several rounds.
pub(super) struct Asked {
    /// The method.
    pub(super) method: &'static str,
    /// Its params; a later round has to repeat them.
    pub(super) params: serde_json::Value,
    /// The answers that came with it.
    pub(super) responses: Option<InputResponses>,
    /// The handle of the exchange that goes on.
    pub(super) state: Option<String>,
}

/// The outcome of one round.
pub(super) enum Round<T> {
    /// The work is over; all log records of it are sent, unless it became a job.
    Over(T, Box<Exchange<T>>),
    /// The client is asked, and sends the request again.
    Asks(InputRequiredResult),
    /// It takes longer than the caller wants to wait.
    Late(Box<Exchange<T>>),
}

/// The outcome of a request, other than a protocol error.
pub(super) trait Outcome: Send + 'static {
    /// Returns its fault, if it failed.
    fn fault(&self) -> Option<&Fault>;
}

impl Outcome for Answer {
    fn fault(&self) -> Option<&Fault> {
        self.result.as_ref().err()
    }
}

impl<T: Send + 'static> Outcome for Result<T, Fault> {
    fn fault(&self) -> Option<&Fault> {
        self.as_ref().err()
    }
}

pub(super) type Work<T> = Pin<Box<dyn Future<Output = Result<T, ErrorData>> + Send>>;

/// The work on a request, and its messages to the client. Dropping it cancels the work.
pub(super) struct Exchange<T> {
    work: Option<Work<T>>,
    said: mpsc::Receiver<ToClient>,
    lacks: Arc<Lacks>,
    /// Cancels the work.
    pub(super) cancel: CancellationToken,
    progress: Option<watch::Receiver<Option<Step>>>,
    open: Open,
    given: InputResponses,
    /// The client. The work asks it in whatever form it goes on.
    pub(super) client: Client,
}

/// The settings of one round.
#[derive(Clone, Copy)]
struct Manner<'a> {
    peer: &'a Peer<RoleServer>,
    cancelled: &'a CancellationToken,
    /// Whether the client is asked by the answer to its request.
    by_answer: bool,
    /// The least severity of log records that the client wants; `None`: it wants none.
    logs: Option<Level>,
    task_delay: Option<Duration>,
}

enum End<T> {
    Over(Result<T, ErrorData>),
    Asks,
    Late,
}

impl<H: Backend> McpServer<H> {
    /// Answers a request by work that may ask the client. Work that began in an earlier round goes on.
    ///
    /// # Errors
    /// When the state belongs to no exchange, the work panicked, or the client lacks a feature that it needs.
    pub(super) async fn run_rounds<T: Outcome, F>(
        &self,
        asked: Asked,
        context: &RequestContext<RoleServer>,
        task_delay: Option<Duration>,
        begin: impl FnOnce(Client, CancellationToken) -> (F, Option<watch::Receiver<Option<Step>>>),
    ) -> Result<Round<T>, ErrorData>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let Asked { method, params, responses, state } = asked;
        let bound = Binding { method, params, whose: Whose::of(context) };
        let responses = responses.unwrap_or_default();
        let mut exchange = match state {
            Some(state) => {
                let mut exchange = self.rounds.take::<Exchange<T>>(&state, &bound)?;
                exchange.open.answer(responses);
                exchange
            }
            None => Box::new(Exchange::begin(context, self.stop.child_token(), responses, begin)),
        };
        let by_answer = context.protocol_version().is_some_and(|it| it.as_str() >= LISTENING);
        let manner = Manner {
            peer: &context.peer,
            cancelled: &context.ct,
            by_answer,
            logs: self.log_settings.least(context),
            task_delay,
        };
        loop {
            match exchange.round(manner, context.meta.get_progress_token()).await {
                End::Over(Err(error)) => return Err(error),
                End::Over(Ok(outcome)) => {
                    let for_want = outcome.fault().is_some_and(|fault| fault.kind == Kind::Unavailable);
                    return match exchange.lacks.error().filter(|_| for_want && by_answer) {
                        Some(error) => Err(error),
                        None => Ok(Round::Over(outcome, exchange)),
                    };
                }
                End::Late => return Ok(Round::Late(exchange)),
                End::Asks => {
                    let requests = exchange.open.requests();
                    exchange.go_on_alone();
                    match self.rounds.park(bound.clone(), exchange) {
                        Ok(state) => {
                            return Ok(Round::Asks(InputRequiredResult::new(Some(requests), Some(state))));
                        }
                        Err(back) => exchange = back,
                    }
                    exchange.open.give_up(|| {
                        Fault::new(Kind::Unavailable, "too many calls wait for answers of their clients")
                    });
                }
            }
        }
    }
}

impl<H: Backend> McpServer<H> {
    /// Like [`run_rounds`](Self::run_rounds), for work without progress or job: returns its result, or the
    /// requests to the client. It is cancelled when the client cancels its request or disconnects.
    ///
    /// # Errors
    /// Those of [`run_rounds`](Self::run_rounds), and the work's own.
    pub(super) async fn run_rounds_of<T: Send + 'static, F>(
        &self,
        asked: Asked,
        context: &RequestContext<RoleServer>,
        work: impl FnOnce(Client) -> F,
    ) -> Result<Result<T, Box<InputRequiredResult>>, ErrorData>
    where
        F: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        let begin = |client, cancel: CancellationToken| {
            let work = work(client);
            let until_cancelled = async move {
                tokio::select! {
                    biased;
                    done = work => done,
                    () = cancel.cancelled() => Err(Fault::new(Kind::Cancelled, "it was cancelled")),
                }
            };
            (until_cancelled, None)
        };
        match self.run_rounds(asked, context, None, begin).await? {
            Round::Over(done, _) => done.map(Ok).map_err(|fault| refused(&fault)),
            Round::Asks(asks) => Ok(Err(Box::new(asks))),
            Round::Late(_) => Err(ErrorData::internal_error("nobody wanted a task for this", None)),
        }
    }
}

impl<T: Outcome> Exchange<T> {
    fn begin<F>(
        context: &RequestContext<RoleServer>,
        cancel: CancellationToken,
        given: InputResponses,
        begin: impl FnOnce(Client, CancellationToken) -> (F, Option<watch::Receiver<Option<Step>>>),
    ) -> Self
    where
        F: Future<Output = T> + Send + 'static,
    {
        let (asking, said, lacks) = Asking::of(context);
        let client = Client::new(Arc::new(asking));
        let (work, progress) = begin(client.clone(), cancel.clone());
        // A panic would leave the client without an answer.
        let work = AssertUnwindSafe(work).catch_unwind().map(|done| {
            done.map_err(|_| {
                tracing::error!("the work on a request panicked");
                ErrorData::internal_error("haft failed at this call; this is a defect of haft", None)
            })
        });
        Self {
            work: Some(Box::pin(work)),
            said,
            lacks,
            cancel,
            progress,
            open: Open::default(),
            given,
            client,
        }
    }

    /// Goes on until the work is over, the client is asked by an answer, or the time is up.
    async fn round(&mut self, manner: Manner<'_>, token: Option<ProgressToken>) -> End<T> {
        let over = CancellationToken::new();
        let telling = token
            .zip(self.progress.clone())
            .map(|(token, progress)| notify(progress, manner.peer, token, &over));
        let going_on = async {
            let end = self.until(manner).await;
            over.cancel();
            end
        };
        // Both to the end: no progress notification may follow the answer.
        let (end, ()) = tokio::join!(going_on, async {
            if let Some(telling) = telling {
                telling.await;
            }
        });
        end
    }

    async fn until(&mut self, manner: Manner<'_>) -> End<T> {
        let mut put_to_client = FuturesUnordered::new();
        let late = async {
            match manner.task_delay {
                Some(task_delay) => tokio::time::sleep(task_delay).await,
                None => std::future::pending().await,
            }
        };
        let mut late = pin!(late);
        if manner.task_delay.is_some_and(|it| it.is_zero()) {
            return End::Late;
        }
        loop {
            if !self.open.requests().is_empty() {
                return End::Asks;
            }
            let Some(work) = &mut self.work else {
                return End::Over(Err(ErrorData::internal_error(
                    "there is no work left on this request",
                    None,
                )));
            };
            tokio::select! {
                biased;
                done = work => {
                    self.work = None;
                    while let Ok(ToClient::Log(log)) = self.said.try_recv() {
                        log.send(manner.peer, manner.logs).await;
                    }
                    return End::Over(done);
                }
                Some(said) = self.said.recv() => match said {
                    ToClient::Log(log) => log.send(manner.peer, manner.logs).await,
                    // The client is no longer there to be asked.
                    ToClient::Question(_) if manner.cancelled.is_cancelled() => {}
                    ToClient::Question(question) if manner.by_answer => {
                        self.open.add(question, &mut self.given);
                        self.gather(manner).await;
                    }
                    ToClient::Question(question) => put_to_client.push(put(manner.peer, question)),
                },
                Some(()) = put_to_client.next() => {}
                () = manner.cancelled.cancelled(), if !self.cancel.is_cancelled() => self.cancel.cancel(),
                () = late.as_mut(), if !manner.cancelled.is_cancelled() => return End::Late,
            }
        }
    }

    /// Collects the other questions that the work has right now, for the same round.
    async fn gather(&mut self, manner: Manner<'_>) {
        tokio::task::yield_now().await;
        while let Ok(said) = self.said.try_recv() {
            match said {
                ToClient::Log(log) => log.send(manner.peer, manner.logs).await,
                ToClient::Question(question) => self.open.add(question, &mut self.given),
            }
        }
    }

    /// Runs the work in a task of its own from now on, whether or not a request waits for it.
    pub(super) fn go_on_alone(&mut self) {
        if let Some(work) = self.work.take() {
            let alone = AbortOnDropHandle::new(tokio::spawn(work));
            self.work = Some(Box::pin(async move {
                alone.await.unwrap_or_else(|error| {
                    Err(ErrorData::internal_error(
                        format!("the work on this request was lost: {error}"),
                        None,
                    ))
                })
            }));
        }
    }

    /// Replaces the rest of the work.
    pub(super) fn becomes(&mut self, work: Work<T>) {
        self.work = Some(work);
    }

    /// Runs the work to its end; its questions go to `asks`, and its log records are dropped.
    pub(super) async fn alone(&mut self, asks: impl Fn(Question)) -> Result<T, ErrorData> {
        loop {
            let Some(work) = &mut self.work else {
                return Err(ErrorData::internal_error("there is no work left on this request", None));
            };
            tokio::select! {
                biased;
                done = work => {
                    self.work = None;
                    return done;
                }
                Some(said) = self.said.recv() => match said {
                    ToClient::Log(_) => {}
                    ToClient::Question(question) => asks(question),
                },
            }
        }
    }
}

impl<T> Drop for Exchange<T> {
    fn drop(&mut self) {
        self.open.give_up(gone);
        if self.work.is_some() {
            self.cancel.cancel();
        }
    }
}

/// Admits calls in the order in which they came.
pub(super) async fn in_turn<T>(ticket: Option<Arc<Ticket>>, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    if let Some(ticket) = ticket {
        ticket.turn().await;
        let entered = poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await;
        ticket.enter();
        if let Poll::Ready(done) = entered {
            return done;
        }
    }
    work.await
}

//! How is a call run that a client makes?

use std::{future::poll_fn, panic::AssertUnwindSafe, pin::pin, sync::Arc, task::Poll};

use futures_util::FutureExt as _;
use kit::services::Progress;
use rmcp::{
    ErrorData, RoleServer,
    model::{CallToolRequestParams, CallToolResponse},
    service::RequestContext,
};
use runtime::{Answer, Arguments, Call};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::Door;
use crate::{
    answer,
    client::Client,
    flights::Ticket,
    hands::Hands,
    message::echo,
    progress::{Steps, tell},
};

impl<H: Hands> Door<H> {
    /// Runs a call, and tells the client how far it has come.
    pub(super) async fn answer_call(
        &self,
        request: CallToolRequestParams,
        mut context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        // Held to the end: it says that somebody works on this request.
        let ticket = context.extensions.remove::<Arc<Ticket>>();
        if !self.hands.has(&request.name) && !self.found(&request.name, ticket.as_deref()).await {
            let what = match self.hands.why_missing(&request.name) {
                Some(why) => format!("there is no tool `{}`: {why}", echo(&request.name)),
                None => format!("there is no tool `{}`; `tools/list` names them all", echo(&request.name)),
            };
            return Err(ErrorData::invalid_params(what, None));
        }
        let over = CancellationToken::new();
        let (progress, telling) = match context.meta.get_progress_token() {
            Some(token) => {
                let (steps, heard) = Steps::new();
                let steps: Arc<dyn Progress> = Arc::new(steps);
                (Some(steps), Some(tell(heard, &context.peer, token, &over)))
            }
            None => (None, None),
        };
        let call = Call {
            tool: request.name.into_owned(),
            arguments: Arguments::Json(Value::Object(request.arguments.unwrap_or_default())),
            cancel: self.stop.child_token(),
            progress,
            id: self.hands.new_call_id(),
        };
        let calling = async {
            let answer = self.run(call, ticket.as_deref(), &context.ct).await;
            over.cancel();
            answer
        };
        // Both to the end: a step that is on its way must not come after the answer.
        let (answer, ()) = tokio::join!(calling, async {
            if let Some(telling) = telling {
                telling.await;
            }
        });
        Ok(answer::result(&answer?).into())
    }

    /// Looks for a tool that is not there yet. Calls that came later need not wait for that.
    async fn found(&self, name: &str, ticket: Option<&Ticket>) -> bool {
        if let Some(ticket) = ticket {
            ticket.turn().await;
            ticket.enter();
        }
        self.hands.find(name).await
    }

    async fn run(
        &self,
        call: Call,
        ticket: Option<&Ticket>,
        cancelled: &CancellationToken,
    ) -> Result<Answer, ErrorData> {
        let name = call.tool.clone();
        let cancel = call.cancel.clone();
        // A panic would leave the client without an answer.
        let mut running = pin!(AssertUnwindSafe(self.hands.call(call, Client::mute())).catch_unwind());
        let entered = match ticket {
            Some(ticket) => {
                ticket.turn().await;
                let entered = poll_fn(|cx| Poll::Ready(running.as_mut().poll(cx))).await;
                ticket.enter();
                entered
            }
            None => Poll::Pending,
        };
        let done = match entered {
            Poll::Ready(done) => done,
            Poll::Pending => tokio::select! {
                biased;
                done = running.as_mut() => done,
                () = cancelled.cancelled() => {
                    cancel.cancel();
                    running.await
                }
            },
        };
        done.map_err(|_| {
            tracing::error!(tool = name, "the call panicked");
            ErrorData::internal_error("haft failed at this call; this is a defect of haft", None)
        })
    }
}

//! Multi-round requests: calls that wait for a client's answers.
//!
//! From revision 2026-07-28 on, the answer to a request can ask the client: the client then repeats the
//! request, with its answers and with a handle. Meanwhile the call waits here under that handle. The handle
//! is unguessable, and works once, for the same request of the same client.

use std::{
    any::Any,
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http::{header::AUTHORIZATION, request::Parts};
use kit::Fault;
use rmcp::{
    ErrorData, RoleServer,
    model::{InputRequest, InputRequests, InputResponses},
    service::RequestContext,
};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

use super::client_requests::{Question, fits};

/// Time that a call waits for its client's answer: enough to find a person, and for them to decide.
pub(super) const LIFETIME: Duration = Duration::from_secs(10 * 60);

/// Maximum number of calls that wait at once.
const MOST: usize = 256;

/// The header that names a session.
const SESSION: &str = "mcp-session-id";

/// The calls that wait.
#[derive(Default)]
pub(crate) struct PendingRounds {
    waiting: Mutex<HashMap<String, Waiting>>,
}

struct Waiting {
    bound: Binding,
    /// The exchange, of the type that its method uses.
    exchange: Box<dyn Any + Send>,
    /// Cancels it when its time is up.
    _timer: AbortOnDropHandle<()>,
}

/// The request that a handle is bound to.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Binding {
    /// The method.
    pub(super) method: &'static str,
    /// The params: a tool with its arguments, a prompt with its arguments, or an address.
    pub(super) params: Value,
    /// The client.
    pub(super) whose: Whose,
}

/// The identity of a client, as far as the transport knows it: token and session. On standard input there is
/// only one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Whose {
    token: Option<Vec<u8>>,
    session: Option<Vec<u8>>,
}

impl Whose {
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Self {
        let Some(parts) = context.extensions.get::<Parts>() else { return Self::default() };
        let header = |value: Option<&http::HeaderValue>| value.map(|it| it.as_bytes().to_vec());
        Self { token: header(parts.headers.get(AUTHORIZATION)), session: header(parts.headers.get(SESSION)) }
    }
}

impl PendingRounds {
    /// Stores an exchange until its client answers; returns the handle, or the exchange if too many wait already.
    pub(super) fn park<T: Send + 'static>(
        self: &Arc<Self>,
        bound: Binding,
        exchange: Box<T>,
    ) -> Result<String, Box<T>> {
        let Some(handle) = unguessable() else { return Err(exchange) };
        let (rounds, expired) = (Arc::downgrade(self), handle.clone());
        let timer = tokio::spawn(async move {
            tokio::time::sleep(LIFETIME).await;
            // Dropped outside the lock, because dropping it cancels a call.
            let late = rounds.upgrade().and_then(|rounds| rounds.waiting().remove(&expired));
            if let Some(late) = late {
                tracing::info!(
                    method = late.bound.method,
                    "the client did not come back; its call is stopped"
                );
            }
        });
        let mut waiting = self.waiting();
        if waiting.len() >= MOST {
            timer.abort();
            return Err(exchange);
        }
        waiting.insert(handle.clone(), Waiting { bound, exchange, _timer: AbortOnDropHandle::new(timer) });
        Ok(handle)
    }

    /// Removes and returns the exchange under this handle.
    ///
    /// # Errors
    /// When there is none, or it belongs to another request.
    pub(super) fn take<T: 'static>(&self, handle: &str, bound: &Binding) -> Result<Box<T>, ErrorData> {
        let mut waiting = self.waiting();
        let fits = waiting.get(handle).is_some_and(|it| it.bound == *bound && it.exchange.is::<T>());
        // Another client's exchange stays where it is.
        let taken = if fits { waiting.remove(handle) } else { None };
        drop(waiting);
        taken.and_then(|it| it.exchange.downcast::<T>().ok()).ok_or_else(|| {
            let what = "`requestState` is none that waits for this request: it was changed, used before, given for \
                        another request, or its time is up; make the request again without it";
            ErrorData::invalid_params(what, None)
        })
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<String, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns 128 random bits as text; `None` if none are available.
pub(super) fn unguessable() -> Option<String> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).ok()?;
    Some(bits.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The questions of a call that its client has not answered yet.
#[derive(Default)]
pub(super) struct Open {
    questions: Vec<OpenQuestion>,
    /// The keys that were used: each is used once.
    used: HashSet<String>,
}

struct OpenQuestion {
    asked: Vec<(String, InputRequest)>,
    answers: Vec<Option<Value>>,
    reply: oneshot::Sender<Result<Vec<Value>, Fault>>,
}

impl Open {
    /// Adds a question. An answer that the client has `given` beforehand counts if its key is asked for.
    pub(super) fn add(&mut self, question: Question, given: &mut InputResponses) {
        let Question { asked, reply } = question;
        let mut open = OpenQuestion { answers: vec![None; asked.len()], asked: Vec::new(), reply };
        for ((key, request), answer) in asked.into_iter().zip(&mut open.answers) {
            *answer = given.remove(&key).filter(|given| fits(&request, given));
            open.asked.push((self.unused(&key), request));
        }
        self.questions.push(open);
        self.settle();
    }

    /// Takes the answers that belong to a question. Others are ignored, and an invalid one is asked for again.
    pub(super) fn answer(&mut self, mut responses: InputResponses) {
        for question in &mut self.questions {
            for ((key, request), answer) in question.asked.iter().zip(&mut question.answers) {
                if answer.is_none() {
                    *answer = responses.remove(key).filter(|response| fits(request, response));
                }
            }
        }
        self.settle();
    }

    /// Returns the requests that are open; empty, if the call no longer waits for an answer.
    pub(super) fn requests(&mut self) -> InputRequests {
        self.settle();
        let open = self.questions.iter().flat_map(|it| it.asked.iter().zip(&it.answers));
        open.filter(|(_, answer)| answer.is_none()).map(|(asked, _)| asked.clone()).collect()
    }

    /// Delivers the questions that are completely answered, and drops those that the call no longer waits for.
    fn settle(&mut self) {
        for question in std::mem::take(&mut self.questions) {
            let answers: Option<Vec<Value>> = question.answers.iter().cloned().collect();
            match answers {
                // The call may have ended.
                Some(answers) => drop(question.reply.send(Ok(answers))),
                None if question.reply.is_closed() => {}
                None => self.questions.push(question),
            }
        }
    }

    /// Fails all questions with this fault.
    pub(super) fn give_up(&mut self, why: impl Fn() -> Fault) {
        for question in self.questions.drain(..) {
            let _ = question.reply.send(Err(why()));
        }
    }

    fn unused(&mut self, key: &str) -> String {
        let mut name = key.to_owned();
        let mut number = 1;
        while !self.used.insert(name.clone()) {
            number += 1;
            name = format!("{key}_{number}");
        }
        name
    }
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        deprecated,
        reason = "tests; MCP is about to drop roots"
    )]

    use rmcp::model::ListRootsRequest;
    use serde_json::json;

    use super::*;

    fn bound(whose: &str) -> Binding {
        let whose = Whose { token: Some(whose.as_bytes().to_vec()), session: None };
        Binding { method: "tools/call", params: json!({"name": "write", "arguments": {}}), whose }
    }

    fn question(keys: &[&str]) -> (Question, oneshot::Receiver<Result<Vec<Value>, Fault>>) {
        let roots = || InputRequest::ListRoots(ListRootsRequest::default());
        let (reply, answers) = oneshot::channel();
        (Question { asked: keys.iter().map(|key| ((*key).to_owned(), roots())).collect(), reply }, answers)
    }

    fn responses(keys: &[&str]) -> InputResponses {
        keys.iter().map(|key| ((*key).to_owned(), json!({"roots": [key]}))).collect()
    }

    #[tokio::test]
    async fn a_handle_opens_once_and_only_for_the_same_request_of_the_same_client() {
        let rounds = Arc::new(PendingRounds::default());
        let handle = rounds.park(bound("a"), Box::new(7_u8)).unwrap();
        assert_eq!(handle.len(), 32);
        assert!(rounds.take::<u8>(&format!("{handle}0"), &bound("a")).is_err());
        assert!(rounds.take::<u8>(&handle, &bound("b")).is_err(), "of another client");
        let other = Binding { params: json!({"name": "write", "arguments": {"x": 1}}), ..bound("a") };
        assert!(rounds.take::<u8>(&handle, &other).is_err(), "with other arguments");
        assert_eq!(rounds.take::<u8>(&handle, &bound("a")).ok().as_deref(), Some(&7));
        assert!(rounds.take::<u8>(&handle, &bound("a")).is_err(), "it is used up");
    }

    #[tokio::test(start_paused = true)]
    async fn an_expired_round_is_dropped() {
        let rounds = Arc::new(PendingRounds::default());
        let (stays, mut gone) = oneshot::channel::<()>();
        let handle = rounds.park(bound("a"), Box::new(stays)).unwrap();
        tokio::time::sleep(LIFETIME - Duration::from_secs(1)).await;
        assert_eq!(gone.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        gone.await.unwrap_err();
        assert!(rounds.take::<oneshot::Sender<()>>(&handle, &bound("a")).is_err());
    }

    #[tokio::test]
    async fn the_number_of_pending_rounds_is_limited() {
        let rounds = Arc::new(PendingRounds::default());
        let handles: Vec<_> = (0..MOST).map(|_| rounds.park(bound("a"), Box::new(())).unwrap()).collect();
        assert!(rounds.park(bound("a"), Box::new(())).is_err());
        rounds.take::<()>(&handles[0], &bound("a")).unwrap();
        assert!(rounds.park(bound("a"), Box::new(())).is_ok());
    }

    #[test]
    fn partial_answers_are_kept_and_missing_ones_requested_again() {
        let mut open = Open::default();
        let (question, mut answers) = question(&["a", "b"]);
        open.add(question, &mut InputResponses::new());
        let keys = |open: &mut Open| open.requests().into_keys().collect::<Vec<_>>();
        assert_eq!(keys(&mut open), ["a", "b"]);
        open.answer(responses(&["b", "x"]));
        assert_eq!(keys(&mut open), ["a"]);
        open.answer([("a".to_owned(), json!(5))].into());
        assert_eq!(keys(&mut open), ["a"], "that is not an answer");
        assert!(answers.try_recv().is_err());
        open.answer(responses(&["a"]));
        assert_eq!(keys(&mut open), [""; 0]);
        assert_eq!(answers.try_recv().unwrap().unwrap(), [json!({"roots": ["a"]}), json!({"roots": ["b"]})]);
    }

    #[test]
    fn answers_sent_in_advance_are_used_and_stray_ones_dropped() {
        let mut open = Open::default();
        let (first, mut answers) = question(&["a"]);
        let mut given = responses(&["a", "x"]);
        open.add(first, &mut given);
        assert!(open.requests().is_empty());
        assert_eq!(answers.try_recv().unwrap().unwrap(), [json!({"roots": ["a"]})]);
        let (again, answers) = question(&["a"]);
        open.add(again, &mut given);
        assert_eq!(open.requests().into_keys().collect::<Vec<_>>(), ["a_2"], "an answer counts once");
        drop(answers);
        assert!(open.requests().is_empty());
    }
}

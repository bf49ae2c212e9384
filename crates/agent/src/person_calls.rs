//! Calls that the person makes: run under the session's rules, observed like any other, and not part of the
//! conversation by themselves.

use std::sync::Arc;

use kit::services::Progress;
use runtime::Call;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{
    answer::answered_call,
    event::{Event, Observer, Silent},
    model::Piece,
    turn::{Agent, Lines},
};

/// The answer of a call that the person made.
#[derive(Debug, Clone)]
pub struct Looked {
    /// Whether the call succeeded.
    pub ok: bool,
    /// The exit code, where a command ran.
    pub exit: Option<i32>,
    /// The output, as far as the runtime shows it.
    pub text: String,
    /// The pieces for the model, for [`Input::attach`](crate::Input::attach).
    pub pieces: Vec<Piece>,
}

impl Agent {
    /// Makes a call for the person, in the sandbox of the model's calls. Where a rule would ask for approval,
    /// the call is allowed, since the person makes it. With `watched`, observers get its events as of any
    /// other call. The model gets nothing of it unless its pieces are attached to an input.
    pub async fn look(
        &self,
        tool: &str,
        arguments: Value,
        watched: bool,
        cancel: &CancellationToken,
    ) -> Looked {
        self.look_as(self.session().new_call_id(), tool, arguments, watched, cancel).await
    }

    /// Does the same, under this id of the journal.
    pub async fn look_as(
        &self,
        id: String,
        tool: &str,
        arguments: Value,
        watched: bool,
        cancel: &CancellationToken,
    ) -> Looked {
        let session = self.session();
        let host: &dyn Observer = if watched { &**self.host() } else { &Silent };
        host.observe(Event::Called { call: id.clone(), tool: tool.to_owned(), arguments: arguments.clone() });
        let (cancel, own) = (cancel.child_token(), Some(id.clone()));
        let lines = Lines { host: self.host().clone(), call: id.clone() };
        let progress = watched.then(|| Arc::new(lines) as Arc<dyn Progress>);
        let call = Call { cancel, id: own, by_person: true, progress, ..Call::new(tool, arguments) };
        let answer = session.call(call).await;
        let answered = answered_call(session, &id, tool, answer).await;
        let text = match &answered.event {
            Event::Answered { text, .. } => text.clone(),
            _ => String::new(),
        };
        host.observe(answered.event);
        Looked { ok: answered.result.ok, exit: answered.exit, text, pieces: answered.result.pieces }
    }
}

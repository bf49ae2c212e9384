//! Tool calls of a client: dispatch, progress, and answers.

use std::sync::Arc;

use kit::services::Progress;
use rmcp::{
    ErrorData, RoleServer,
    model::{CallToolRequestParams, CallToolResponse},
    service::RequestContext,
};
use runtime::{Answer, Arguments, Call};
use serde_json::{Value, json};

use super::{
    McpServer,
    exchange::{Asked, Round, in_turn},
};
use crate::{answer, backend::Backend, in_flight::Ticket, message::echo, progress::Steps};

impl<H: Backend> McpServer<H> {
    /// Runs a call, and notifies the client of its progress.
    pub(super) async fn answer_call(
        &self,
        request: CallToolRequestParams,
        mut context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        // Held to the end: it marks the request as in flight.
        let ticket = context.extensions.remove::<Arc<Ticket>>();
        let CallToolRequestParams { name, arguments, input_responses, request_state, .. } = request;
        let tool = name.into_owned();
        if !self.backend.has(&tool) && !self.found(&tool, ticket.as_deref()).await {
            let what = match self.backend.why_missing(&tool) {
                Some(why) => format!("there is no tool `{}`: {why}", echo(&tool)),
                None => format!("there is no tool `{}`; `tools/list` names them all", echo(&tool)),
            };
            return Err(ErrorData::invalid_params(what, None));
        }
        // A call that goes on was admitted long ago.
        if let (Some(_), Some(ticket)) = (&request_state, &ticket) {
            ticket.turn().await;
            ticket.enter();
        }
        let arguments = Value::Object(arguments.unwrap_or_default());
        // Only a request that may come again has to be recognized.
        let rounds = self.takes_rounds(&context);
        let asked = Asked {
            method: "tools/call",
            params: if rounds { json!([tool, arguments]) } else { Value::Null },
            responses: input_responses,
            state: request_state,
        };
        let id = self.backend.new_call_id();
        let wants_steps = rounds || context.meta.get_progress_token().is_some();
        let (backend, entering) = (Arc::clone(&self.backend), ticket.clone());
        let (calls, name) = (id.clone(), tool.clone());
        let begin = move |client, cancel| {
            let (progress, heard) = if wants_steps {
                let (steps, heard) = Steps::new();
                let steps: Arc<dyn Progress> = Arc::new(steps);
                (Some(steps), Some(heard))
            } else {
                (None, None)
            };
            let arguments = Arguments::Json(arguments);
            let call = Call { tool: name, arguments, cancel, progress, id: calls, by_person: false };
            (async move { in_turn(entering, backend.call(call, client)).await }, heard)
        };
        let follows = self.follows_tasks(&context);
        let task_delay = follows.then(|| self.backend.task_delay(&tool));
        match self.run_rounds(asked, &context, task_delay, begin).await? {
            Round::Asks(asks) => Ok(asks.into()),
            Round::Late(exchange) => self.call_goes_on(exchange, &tool, id.as_deref(), &context).await,
            Round::Over(answer, exchange) if follows => {
                let response = self.job_or_answer(exchange, &answer, &tool, id.as_deref(), &context);
                Ok(self.add_view_data(response, &tool, &answer, &context).await)
            }
            Round::Over(answer, _) => {
                Ok(self.add_view_data(tool_response(&answer), &tool, &answer, &context).await)
            }
        }
    }

    /// Waits for a tool that is still being loaded. Later calls need not wait for that.
    async fn found(&self, name: &str, ticket: Option<&Ticket>) -> bool {
        if let Some(ticket) = ticket {
            ticket.turn().await;
            ticket.enter();
        }
        self.backend.find(name).await
    }
}

/// Converts the answer of a finished call.
pub(super) fn tool_response(answer: &Answer) -> CallToolResponse {
    answer::result(answer).into()
}

//! The person at the editor: approvals as permission requests, questions as forms or choices.
//!
//! Each is put to all who attend the session; the first answer counts. A request that somebody else has answered, or that is no
//! longer wanted, is taken back. Sub-agents' questions are asked in the session of the agent that started them.

use kit::{Fault, Kind, services::Question};
use serde_json::{Value, json};
use serve::acp::{
    Editor,
    v1::{
        Content, ContentBlock, CreateElicitationRequest, ElicitationAction, PermissionOption,
        PermissionOptionKind, RequestPermissionOutcome, RequestPermissionRequest, SessionId, TextContent,
        ToolCallContent, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields,
    },
};
use sessions::{Approval, Asked, Decision, Handle, Operation};

use super::tool_calls::{Seen, fenced};
use crate::{
    ask,
    client_services::{answer_of, form_of, message_of, quoted},
};

const ONCE: &str = "allow-once";
const SESSION: &str = "allow-session";
const PROJECT: &str = "allow-project";
const REJECT: &str = "reject";

/// A question shows at most so many lines of diffs.
const DIFF: usize = 400;

/// The person at the editor of one session.
#[derive(Clone)]
pub(super) struct AtEditor {
    pub(super) editor: Editor,
    pub(super) session: SessionId,
    pub(super) handle: Handle,
    /// Whether they may decide approvals. Else somebody else does.
    pub(super) decides: bool,
}

impl AtEditor {
    /// Asks about a call; returns the decision of the person. `seen` is the call as the editor shows it.
    ///
    /// # Errors
    /// When the editor can't ask.
    pub(super) async fn decide(&self, approval: Approval, seen: Seen) -> Result<Option<Operation>, Fault> {
        let chosen = match self.choose(asked_about(&approval, seen), options(&approval)).await {
            // There was an answer, and it is not known to be a yes.
            Err(fault) if fault.kind == Kind::BadArgs => {
                tracing::warn!(%fault, "the call does not run");
                None
            }
            chosen => chosen?,
        };
        let lasting = !ask::AboutCall::from(approval.clone()).offers.is_empty();
        let decision = chosen.map_or(Decision::No, |it| decision(&it, lasting));
        let Approval { id, hash, .. } = approval;
        Ok(Some(Operation::Approve { id, hash, decision, words: None }))
    }

    /// Asks a question of the model; returns the answer of the person, or nothing if this editor has no way to ask it. `call`
    /// is the call with which the model asks.
    ///
    /// # Errors
    /// When the editor can't ask.
    pub(super) async fn answer(
        &self,
        asked: Asked,
        call: Option<String>,
    ) -> Result<Option<Operation>, Fault> {
        let Asked { id, text, options, .. } = asked;
        let question = Question { text, options, within: None };
        let text = if self.editor.has_forms() {
            self.fill_in(&question, call).await?
        } else if question.options.is_empty() {
            return Ok(None);
        } else {
            self.choose_answer(&id, &question, call).await?
        };
        Ok(Some(Operation::Answer { id, text }))
    }

    /// Lets the person choose; returns `None` if they don't.
    async fn choose(
        &self,
        call: ToolCallUpdate,
        options: Vec<PermissionOption>,
    ) -> Result<Option<String>, Fault> {
        let request = RequestPermissionRequest::new(self.session.clone(), call, options);
        Ok(match self.editor.request_permission(request).await? {
            RequestPermissionOutcome::Selected(selected) => Some(selected.option_id.0.to_string()),
            _ => None,
        })
    }

    async fn choose_answer(
        &self,
        id: &str,
        question: &Question,
        call: Option<String>,
    ) -> Result<Option<String>, Fault> {
        let fields = ToolCallUpdateFields::new()
            .title(ask::shown(question.text.lines().next().unwrap_or_default()))
            .content(vec![fenced(&question.text)]);
        let mut options: Vec<PermissionOption> = question
            .options
            .iter()
            .enumerate()
            .map(|(at, it)| {
                let kind = PermissionOptionKind::AllowOnce;
                PermissionOption::new(format!("answer-{}", at + 1), ask::shown(it), kind)
            })
            .collect();
        options.push(PermissionOption::new(REJECT, "No answer", PermissionOptionKind::RejectOnce));
        let call = call.unwrap_or_else(|| own_id(id));
        let chosen = self.choose(ToolCallUpdate::new(call, fields), options).await?;
        let number = chosen.as_deref().and_then(|it| it.strip_prefix("answer-"));
        Ok(number.and_then(|it| ask::chosen(question, it)))
    }

    /// Shows a form that the person fills in.
    async fn fill_in(&self, question: &Question, call: Option<String>) -> Result<Option<String>, Fault> {
        let mut form = json!({"mode": "form", "sessionId": self.session, "message": message_of(question),
            "requestedSchema": form_of(question)});
        if let (Some(call), Some(all)) = (call, form.as_object_mut()) {
            all.insert("toolCallId".to_owned(), json!(call));
        }
        let request: CreateElicitationRequest = serde_json::from_value(form)
            .map_err(|error| Fault::bug(format!("a question is no form of the protocol: {error}")))?;
        let response = self.editor.elicit(request).await?;
        let ElicitationAction::Accept(accepted) = response.action else { return Ok(None) };
        let filled = serde_json::to_value(accepted.content).unwrap_or_default();
        Ok(answer_of(question, &filled))
    }
}

/// Returns an id for a question that belongs to no reported call.
fn own_id(question: &str) -> String {
    format!("question-{question}")
}

/// Returns the arguments of the call that an approval is for.
pub(super) fn arguments(approval: &Approval) -> Value {
    serde_json::from_str(&approval.arguments).unwrap_or_else(|_| Value::String(approval.arguments.clone()))
}

/// Returns the call that a person is asked about, with what it would do.
fn asked_about(approval: &Approval, seen: Seen) -> ToolCallUpdate {
    let id = approval.call.clone().unwrap_or_else(|| own_id(&approval.id));
    let text = quoted(&ask::question(&ask::AboutCall::from(approval.clone()), DIFF, ""));
    let content = ToolCallContent::Content(Content::new(ContentBlock::Text(TextContent::new(text))));
    let title = match &approval.agent {
        Some(agent) => format!("{agent}: {}", seen.title),
        None => seen.title,
    };
    let fields = ToolCallUpdateFields::new()
        .status(ToolCallStatus::Pending)
        .content(vec![content])
        .title(title)
        .kind(seen.kind)
        .locations(seen.locations)
        .raw_input(arguments(approval));
    ToolCallUpdate::new(id, fields)
}

fn options(approval: &Approval) -> Vec<PermissionOption> {
    let offers = ask::AboutCall::from(approval.clone()).offers;
    let mut options = vec![PermissionOption::new(ONCE, "Allow once", PermissionOptionKind::AllowOnce)];
    if !offers.is_empty() {
        let offers: Vec<String> = offers.iter().map(|it| ask::shown(&it.to_string())).collect();
        let offers = offers.join(", ");
        let always = PermissionOptionKind::AllowAlways;
        options.push(PermissionOption::new(SESSION, format!("Allow in this session: {offers}"), always));
        options.push(PermissionOption::new(PROJECT, format!("Allow in this project: {offers}"), always));
    }
    options.push(PermissionOption::new(REJECT, "Reject", PermissionOptionKind::RejectOnce));
    options
}

/// Returns an approval only for an option that was offered and chosen.
fn decision(chosen: &str, lasting: bool) -> Decision {
    match chosen {
        ONCE => Decision::Once,
        SESSION if lasting => Decision::Session,
        PROJECT if lasting => Decision::Project,
        _ => Decision::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_offered_and_chosen_is_allowed() {
        for (chosen, lasting, expected) in [
            (ONCE, false, Decision::Once),
            (SESSION, true, Decision::Session),
            (PROJECT, true, Decision::Project),
            (SESSION, false, Decision::No),
            (REJECT, true, Decision::No),
            ("yes", true, Decision::No),
        ] {
            assert_eq!(decision(chosen, lasting), expected, "{chosen}");
        }
    }
}

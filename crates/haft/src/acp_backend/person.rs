//! The person at the editor: approvals as permission requests, questions as forms or choices.
//!
//! A sub-agent's questions are asked in the session of the agent that started it. A question that is no longer wanted, as
//! its turn was cancelled, is taken back.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use agent::{Asker, nobody};
use kit::{
    Fault, Kind,
    effect::Scope,
    services::{Question, Soon},
};
use runtime::{Approver, Request, Verdict};
use serde_json::{Value, json};
use serve::acp::{
    Editor,
    v1::{
        Content, ContentBlock, CreateElicitationRequest, ElicitationAction, PermissionOption,
        PermissionOptionKind, RequestPermissionOutcome, RequestPermissionRequest, TextContent,
        ToolCallContent, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields,
    },
};

use super::{
    tool_calls::{Seen, fenced},
    watcher::Watcher,
};
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
pub(super) struct AtEditor {
    editor: Editor,
    watcher: Arc<Watcher>,
    asked: AtomicU64,
}

impl AtEditor {
    pub(super) fn new(editor: Editor, watcher: Arc<Watcher>) -> Self {
        Self { editor, watcher, asked: AtomicU64::new(0) }
    }

    /// Returns an id for a question that belongs to no reported call.
    fn own_id(&self) -> String {
        format!("question-{}", self.asked.fetch_add(1, Ordering::Relaxed))
    }

    /// Lets the person choose; returns `None` if they don't.
    async fn choose(
        &self,
        call: ToolCallUpdate,
        options: Vec<PermissionOption>,
    ) -> Result<Option<String>, Fault> {
        // The call that the question is about is reported first.
        self.watcher.flush().await;
        let session = self.watcher.id().ok_or_else(nobody)?;
        let request = RequestPermissionRequest::new(session, call, options);
        Ok(match self.editor.request_permission(request).await? {
            RequestPermissionOutcome::Selected(selected) => Some(selected.option_id.0.to_string()),
            _ => None,
        })
    }

    /// Shows a form that the person fills in.
    async fn fill_in(&self, question: &Question) -> Result<String, Fault> {
        self.watcher.flush().await;
        let session = self.watcher.id().ok_or_else(nobody)?;
        let mut form = json!({"mode": "form", "sessionId": session, "message": message_of(question),
            "requestedSchema": form_of(question)});
        if let (Some(call), Some(all)) = (self.watcher.asking(), form.as_object_mut()) {
            all.insert("toolCallId".to_owned(), json!(call));
        }
        let request: CreateElicitationRequest = serde_json::from_value(form)
            .map_err(|error| Fault::bug(format!("a question is no form of the protocol: {error}")))?;
        let response = self.editor.elicit(request).await?;
        let ElicitationAction::Accept(accepted) = response.action else { return Err(ask::unanswered()) };
        let filled = serde_json::to_value(accepted.content).unwrap_or_default();
        answer_of(question, &filled).ok_or_else(ask::unanswered)
    }
}

impl Approver for AtEditor {
    fn approve(&self, request: Request) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>> {
        Box::pin(async move {
            let (call, options) = (self.asked_about(&request), options(&request));
            match self.choose(call, options).await {
                Ok(Some(chosen)) => verdict(&chosen, !request.offers.is_empty()),
                Ok(None) => Verdict::No,
                Err(_) => Verdict::NobodyThere,
            }
        })
    }

    /// Asks questions concurrently: one that nobody answers must not block others, and the editor orders them.
    fn asks_together(&self) -> bool {
        true
    }
}

impl AtEditor {
    /// Returns the call that a person is asked about, with what it would do.
    fn asked_about(&self, request: &Request) -> ToolCallUpdate {
        let arguments: Value = serde_json::from_str(&request.arguments)
            .unwrap_or_else(|_| Value::String(request.arguments.clone()));
        let id = request.call.clone().unwrap_or_else(|| self.own_id());
        let mut fields = ToolCallUpdateFields::new().status(ToolCallStatus::Pending).content(vec![
            ToolCallContent::Content(Content::new(ContentBlock::Text(TextContent::new(quoted(
                &ask::question(&ask::AboutCall::from(request.clone()), DIFF, ""),
            ))))),
        ]);
        if let Some(owner) = self.watcher.owner() {
            let seen = Seen::of(&owner.session, &request.tool, &arguments);
            let title = match &request.agent {
                Some(agent) => format!("{agent}: {}", seen.title),
                None => seen.title,
            };
            fields = fields.title(title).kind(seen.kind).locations(seen.locations).raw_input(arguments);
        }
        ToolCallUpdate::new(id, fields)
    }
}

fn options(request: &Request) -> Vec<PermissionOption> {
    let mut options = vec![PermissionOption::new(ONCE, "Allow once", PermissionOptionKind::AllowOnce)];
    if !request.offers.is_empty() {
        let offers: Vec<String> = request.offers.iter().map(|it| ask::shown(&it.to_string())).collect();
        let offers = offers.join(", ");
        let always = PermissionOptionKind::AllowAlways;
        options.push(PermissionOption::new(SESSION, format!("Allow in this session: {offers}"), always));
        options.push(PermissionOption::new(PROJECT, format!("Allow in this project: {offers}"), always));
    }
    options.push(PermissionOption::new(REJECT, "Reject", PermissionOptionKind::RejectOnce));
    options
}

/// Returns an approval only for an option that was offered and chosen.
fn verdict(chosen: &str, lasting: bool) -> Verdict {
    match chosen {
        ONCE => Verdict::Yes(Scope::Once),
        SESSION if lasting => Verdict::Yes(Scope::Session),
        PROJECT if lasting => Verdict::Yes(Scope::Project),
        _ => Verdict::No,
    }
}

impl Asker for AtEditor {
    fn ask(&self, question: Question) -> Soon<'_, Result<String, Fault>> {
        Box::pin(async move {
            if self.editor.has_forms() {
                return self.fill_in(&question).await;
            }
            if question.options.is_empty() {
                let what = "this editor has no form in which a person could write an answer";
                return Err(Fault::new(Kind::Unavailable, what)
                    .next("Give answers to choose from, or ask in your reply and end your turn there."));
            }
            let call = self.watcher.asking().unwrap_or_else(|| self.own_id());
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
            let chosen = self.choose(ToolCallUpdate::new(call, fields), options).await?;
            let number = chosen.as_deref().and_then(|it| it.strip_prefix("answer-"));
            number.and_then(|it| ask::chosen(&question, it)).ok_or_else(ask::unanswered)
        })
    }

    /// Shows the text as a message of its own.
    fn show(&self, text: String) -> Soon<'_, Result<(), Fault>> {
        Box::pin(async move {
            let owner = self.watcher.owner().ok_or_else(nobody)?;
            owner.say(&text).await;
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_offered_and_chosen_is_allowed() {
        for (chosen, lasting, expected) in [
            (ONCE, false, Verdict::Yes(Scope::Once)),
            (SESSION, true, Verdict::Yes(Scope::Session)),
            (PROJECT, true, Verdict::Yes(Scope::Project)),
            (SESSION, false, Verdict::No),
            (REJECT, true, Verdict::No),
            ("yes", true, Verdict::No),
        ] {
            assert_eq!(verdict(chosen, lasting), expected, "{chosen}");
        }
    }
}

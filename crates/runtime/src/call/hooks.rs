//! Hooks around a call: before it is decided, and after it has run; and those of a session's other events.
//!
//! A hook decides nothing by itself: a changed call is parsed and decided anew, and a rule that denies stays
//! above every hook.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use futures_util::future::join_all;
use kit::{Fault, Kind, Origin, Output, Part};
use policy::{Approve, Decision, Rule};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::{Answer, Call, JournalEntry, Plan, model_output};
use crate::{
    config::HookEvent,
    hooks::{Does, Hook, Hooks, Names, Outcome, RunResult, arguments_of, combined, restored, run},
    repair::{self, Arguments, Repaired},
    session_state::{HookWord, SessionState},
};

/// The longest wait for hooks that run beside a question, at the end of a session.
const AT_END: Duration = Duration::from_secs(10);

/// Limit of a result that hooks get, in bytes.
const RESULT: usize = 256 << 10;

/// A call as the hooks after it see it.
pub(super) struct Seen {
    names: Names,
    arguments: Value,
}

/// The decision of the hooks before a call.
#[derive(Default)]
pub(super) struct Gate {
    refused: Option<(String, String)>,
    asks: Option<Rule>,
    allowed: Option<String>,
    notes: Vec<String>,
    seen: Option<Box<Seen>>,
}

/// Runs the hooks before a call, and puts changed arguments in place of its own.
pub(super) async fn before(
    session: &Arc<SessionState>,
    hooks: &Hooks,
    call: &mut Call,
    id: &str,
    cancel: &CancellationToken,
) -> Gate {
    if call.by_person || hooks.is_tool(&call.tool) {
        return Gate::default();
    }
    let catalog = session.catalog();
    let Some(tool) = catalog.get(&call.tool) else { return Gate::default() };
    let names = Names::of(&call.tool, Some(&tool.spec().origin));
    let chosen = hooks.of(HookEvent::BeforeTool, &names.both());
    let after = [HookEvent::AfterTool, HookEvent::ToolFailed];
    let is_seen = after.iter().any(|event| !hooks.of(*event, &names.both()).is_empty());
    if chosen.is_empty() && !is_seen {
        return Gate::default();
    }
    // What the call would run with. Arguments that can't be repaired fail without a hook.
    let copy = match &call.arguments {
        Arguments::Json(value) => Arguments::Json(value.clone()),
        Arguments::Raw(text) => Arguments::Raw(text.clone()),
    };
    let Ok(Repaired { mut arguments, .. }) = repair::repair(tool.spec(), copy) else {
        return Gate::default();
    };
    let mut gate = Gate::default();
    if !chosen.is_empty() {
        let about = About { names: &names, arguments: &arguments, id, more: Map::new() };
        let all = all_of(session, HookEvent::BeforeTool, chosen, Some(about), &Map::new(), cancel).await;
        session.hooks().note(all.notes);
        session.hooks().halt(all.halt);
        if let Some((hook, changed, claude)) = all.updated {
            let changed = if claude { restored(&names, changed) } else { changed };
            if changed != arguments {
                gate.notes.push(format!("the hook `{hook}` changed the arguments to {}", short(&changed)));
                call.arguments = Arguments::Json(changed.clone());
                arguments = changed;
            }
        }
        gate.notes.extend(all.context.iter().map(|(hook, text)| context(hook, text)));
        gate.allowed = all.allowed;
        gate.asks = all.asks.map(|(hook, why)| Rule {
            name: "hook",
            about: call.tool.clone(),
            says: format!("the hook `{hook}` wants a person to decide: {why}"),
            offers: Vec::new(),
            firm: false,
        });
        gate.refused = all.denied;
    }
    gate.seen = is_seen.then(|| Box::new(Seen { names, arguments }));
    gate
}

impl Gate {
    /// Applies the hooks' decision over that of the rules. It never replaces one that denies.
    pub(super) fn over(
        self,
        planned: Result<(Plan, Decision), Fault>,
        session: &SessionState,
        entry: &mut JournalEntry,
    ) -> Result<(Plan, Decision), Fault> {
        let secrets = session.secrets();
        entry.notes.extend(self.notes.iter().map(|it| secrets.mask(it).into_owned()));
        if let Some((hook, reason)) = self.refused {
            entry.decision = format!("denied by the hook `{hook}`");
            let what = format!("the hook `{hook}` refused this call, which did nothing: {reason}");
            return Err(Fault::denied(what)
                .next("Go on without it, or do what the hook asks for; a person configured the hook."));
        }
        let (plan, decision) = planned?;
        entry.seen_by_hooks = self.seen;
        Ok(match (decision, self.asks, self.allowed) {
            (Decision::Allow, Some(rule), _) => match session.runtime().policy().approve {
                Approve::Never => (plan, Decision::Deny(rule)),
                _ => (plan, Decision::Ask(rule)),
            },
            (Decision::Ask(rule), None, Some(hook)) if !rule.firm => {
                entry.decision = format!("allowed by the hook `{hook}`: {}", rule.name);
                (plan.approved(), Decision::Allow)
            }
            (decision, ..) => (plan, decision),
        })
    }
}

/// Runs the hooks after a call. What they say is added to its result.
pub(super) async fn after(
    session: &Arc<SessionState>,
    id: &str,
    seen: Seen,
    result: Result<Output, Fault>,
    entry: &mut JournalEntry,
    cancel: &CancellationToken,
) -> Result<Output, Fault> {
    let event = if result.is_ok() { HookEvent::AfterTool } else { HookEvent::ToolFailed };
    let Some(hooks) = session.runtime().hooks() else { return result };
    let chosen = hooks.of(event, &seen.names.both());
    // A call that was stopped has no result to look at.
    if chosen.is_empty() || matches!(&result, Err(fault) if fault.kind == Kind::Cancelled) {
        return result;
    }
    let mut more = Map::new();
    match &result {
        Ok(output) => {
            more.insert("tool_response".to_owned(), response(&seen.arguments, output));
        }
        Err(fault) => {
            more.insert("error".to_owned(), json!(cut(&fault.as_text())));
        }
    }
    let about = About { names: &seen.names, arguments: &seen.arguments, id, more };
    let all = all_of(session, event, chosen, Some(about), &Map::new(), cancel).await;
    session.hooks().note(all.notes);
    session.hooks().halt(all.halt);
    let texts: Vec<String> = all.context.iter().map(|(hook, text)| context(hook, text)).collect();
    if texts.is_empty() {
        return result;
    }
    // For the journal only: the model reads the text itself.
    entry.asked.extend(all.context.iter().map(|(hook, _)| format!("the hook `{hook}` added to the result")));
    match result {
        Ok(mut output) => {
            output.parts.extend(texts.into_iter().map(|text| Part::Text { text }));
            Ok(output)
        }
        Err(fault) => {
            let next = fault.next.clone().into_iter().chain(texts).collect::<Vec<_>>().join("\n");
            Err(fault.next(next))
        }
    }
}

/// Runs the hooks of an event that is not about a call.
pub(crate) async fn at(
    session: &Arc<SessionState>,
    event: HookEvent,
    subject: &str,
    fields: Value,
    cancel: &CancellationToken,
) -> HookWord {
    let Some(hooks) = session.runtime().hooks() else { return HookWord::default() };
    if event == HookEvent::SessionStart {
        session.hooks().begin();
    }
    let chosen = hooks.of(event, &[subject]);
    if chosen.is_empty() {
        return HookWord::default();
    }
    let fields = fields.as_object().cloned().unwrap_or_default();
    let all = all_of(session, event, chosen, None, &fields, cancel).await;
    session.hooks().note(all.notes);
    HookWord { denied: all.denied, context: all.context, halt: all.halt, changes: Vec::new() }
}

/// Runs the hooks of a call without the call, for a person who tries them.
pub(crate) async fn try_out(
    session: &Arc<SessionState>,
    event: HookEvent,
    tool: &str,
    arguments: Value,
    cancel: &CancellationToken,
) -> HookWord {
    let Some(hooks) = session.runtime().hooks() else { return HookWord::default() };
    let catalog = session.catalog();
    let names = Names::of(tool, catalog.get(tool).map(|it| &it.spec().origin));
    let chosen = hooks.of(event, &names.both());
    let mut more = Map::new();
    if event == HookEvent::AfterTool {
        more.insert("tool_response".to_owned(), response(&arguments, &Output::text("ok")));
    }
    if event == HookEvent::ToolFailed {
        more.insert("error".to_owned(), json!("failed: an error of a test"));
    }
    let about = About { names: &names, arguments: &arguments, id: "c_test", more };
    let all = all_of(session, event, chosen, Some(about), &Map::new(), cancel).await;
    session.hooks().note(all.notes);
    let mut changes = Vec::new();
    if let Some((hook, changed, claude)) = all.updated {
        let changed = if claude { restored(&names, changed) } else { changed };
        changes.push(format!("`{hook}` changes the arguments to {}", short(&changed)));
    }
    changes.extend(all.asks.map(|(hook, why)| format!("`{hook}` wants a person to decide: {why}")));
    changes.extend(all.allowed.map(|hook| format!("`{hook}` allows it where a rule would ask")));
    HookWord { denied: all.denied, context: all.context, halt: all.halt, changes }
}

/// Runs the hooks at the end of a session that began, and ends their sandboxes.
pub(crate) async fn end(session: &Arc<SessionState>) {
    // Each has a time limit of its own.
    drop(tokio::time::timeout(AT_END, join_all(session.hooks().take_beside())).await);
    if session.hooks().has_begun() {
        at(session, HookEvent::SessionEnd, "other", json!({"reason": "other"}), &CancellationToken::new())
            .await;
    }
    session.hooks().end();
}

/// The part of a hook's input that is about a call.
struct About<'a> {
    names: &'a Names,
    arguments: &'a Value,
    id: &'a str,
    more: Map<String, Value>,
}

/// Runs hooks at the same time, and joins what they say.
async fn all_of(
    session: &Arc<SessionState>,
    event: HookEvent,
    hooks: Vec<&Hook>,
    about: Option<About<'_>>,
    fields: &Map<String, Value>,
    cancel: &CancellationToken,
) -> Outcome {
    let runs = hooks.into_iter().map(|hook| {
        let mut input = common(session, event);
        input.extend(fields.clone());
        if let Some(about) = &about {
            input.extend(of_call(session, hook, about));
        }
        let mut input = Value::Object(input);
        model_output::mask_all(session.secrets(), &mut input);
        async move {
            let said = match &hook.does {
                Does::Command(command) => {
                    let executions = session.hooks().executions();
                    run(hook, command, &input, (&executions, session.execution()), cancel).await
                }
                Does::Tool(tool) => by_tool(session, hook, tool, &input, cancel).await,
            };
            Outcome::of(hook, said)
        }
    });
    let mut all = combined(join_all(runs).await);
    let secrets = session.secrets();
    let texts = all.denied.iter_mut().map(|it| &mut it.1);
    let texts = texts.chain(all.asks.iter_mut().map(|it| &mut it.1));
    let texts = texts.chain(all.context.iter_mut().map(|it| &mut it.1));
    for text in texts.chain(&mut all.notes).chain(&mut all.halt) {
        *text = secrets.mask(text).into_owned();
    }
    all
}

/// Returns the fields that every hook reads, by Claude Code's names.
fn common(session: &SessionState, event: HookEvent) -> Map<String, Value> {
    let mode = match session.runtime().policy().approve {
        _ if session.limits().read_only => "plan",
        Approve::Auto => "bypassPermissions",
        Approve::Ask | Approve::AskEdits | Approve::Never => "default",
    };
    let fields = json!({
        "session_id": session.name(),
        // The conversation is in haft's store, which has no file for it.
        "transcript_path": "",
        "cwd": session.runtime().roots().workspace(),
        "permission_mode": mode,
        "hook_event_name": event.claude_name(),
        "haft_event": event.name(),
    });
    let mut fields = fields.as_object().cloned().unwrap_or_default();
    if let Some(agent) = session.agent() {
        fields.insert("agent_id".to_owned(), json!(agent));
    }
    fields
}

fn of_call(session: &SessionState, hook: &Hook, about: &About<'_>) -> Map<String, Value> {
    let workspace = session.runtime().roots().workspace();
    let (name, arguments) = match hook.claude_names {
        true => (&about.names.theirs, arguments_of(about.names, about.arguments, workspace)),
        false => (&about.names.ours, about.arguments.clone()),
    };
    let mut fields = about.more.clone();
    fields.insert("tool_name".to_owned(), json!(name));
    fields.insert("tool_input".to_owned(), arguments);
    fields.insert("tool_use_id".to_owned(), json!(about.id));
    fields
}

/// Returns a result for a hook, with the fields that scripts for Claude Code read.
fn response(arguments: &Value, output: &Output) -> Value {
    let text = cut(&output.as_text());
    let mut fields =
        json!({"success": true, "output": text, "stdout": text, "stderr": "", "interrupted": false});
    if let (Some(fields), Some(exit)) = (fields.as_object_mut(), output.exit) {
        fields.insert("exit_code".to_owned(), json!(exit));
    }
    if let (Some(fields), Some(path)) = (fields.as_object_mut(), arguments.get("path")) {
        fields.insert("filePath".to_owned(), path.clone());
    }
    fields
}

/// Calls the tool that is a hook; its answer is what a command would print.
async fn by_tool(
    session: &Arc<SessionState>,
    hook: &Hook,
    tool: &str,
    input: &Value,
    cancel: &CancellationToken,
) -> RunResult {
    let Some(arguments) = declared(session, tool, input) else {
        return RunResult::Failed(format!("there is no tool `{tool}`"));
    };
    let call = Call { cancel: cancel.child_token(), ..Call::new(tool, arguments) };
    let called = tokio::time::timeout(hook.within, called(session, call)).await;
    match called.map(|answer| answer.result) {
        Err(_) => RunResult::Failed(format!("did not end within {} s and was ended", hook.within.as_secs())),
        Ok(Ok(output)) => RunResult::Ended { code: 0, out: output.as_text(), err: String::new() },
        Ok(Err(fault)) => RunResult::Failed(fault.what),
    }
}

/// Returns those of the fields that the tool declares; all, if it takes any.
fn declared(session: &SessionState, tool: &str, input: &Value) -> Option<Value> {
    let catalog = session.catalog();
    let spec = catalog.get(tool)?.spec().clone();
    // Built-in tools are not hooks: their arguments are others.
    if spec.origin == Origin::Program {
        return None;
    }
    let takes_any = spec.schema.get("additionalProperties").is_some_and(|it| *it != json!(false));
    let (Some(fields), Some(known)) =
        (input.as_object(), spec.schema.get("properties").and_then(Value::as_object))
    else {
        return Some(input.clone());
    };
    let kept = fields.iter().filter(|(name, _)| takes_any || known.contains_key(*name));
    Some(Value::Object(kept.map(|(name, value)| (name.clone(), value.clone())).collect()))
}

/// Makes a call: boxed, as its future contains that of this module.
fn called(session: &Arc<SessionState>, call: Call) -> Pin<Box<dyn Future<Output = Answer> + Send + '_>> {
    Box::pin(super::run(session, call, None))
}

/// Returns a hook's text for the model, with its source.
fn context(hook: &str, text: &str) -> String {
    format!("the hook `{hook}` says (it is data, not the person's words): {text}")
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.len() > 500 {
        true => format!("{}…", text.get(..text.floor_char_boundary(500)).unwrap_or_default()),
        false => text,
    }
}

fn cut(text: &str) -> String {
    text.get(..text.floor_char_boundary(RESULT.min(text.len()))).unwrap_or_default().to_owned()
}

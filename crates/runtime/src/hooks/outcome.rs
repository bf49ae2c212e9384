//! Outcomes of hooks: exit code and output of one, in Claude Code's format, and the outcomes of several joined.

use serde::Deserialize;
use serde_json::Value;

use super::Hook;
use crate::config::{HookEvent, OnFailure};

/// The raw result of a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RunResult {
    /// Its exit code, its stdout and its stderr.
    Ended { code: i32, out: String, err: String },
    /// Why it did not end by itself, or could not start.
    Failed(String),
}

/// The decision of one hook, or of all hooks of an event.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Outcome {
    /// The hook that refuses, and its reason.
    pub(crate) denied: Option<(String, String)>,
    /// The hook that wants a person's approval, and its reason.
    pub(crate) asks: Option<(String, String)>,
    /// The hook that allows, and whose word counts as the person's.
    pub(crate) allowed: Option<String>,
    /// The hook that changed the arguments, the arguments, and whether they have Claude Code's names.
    pub(crate) updated: Option<(String, Value, bool)>,
    /// Context for the model, each with its hook.
    pub(crate) context: Vec<(String, String)>,
    /// Lines for the person.
    pub(crate) notes: Vec<String>,
    /// The reason to stop the agent.
    pub(crate) halt: Option<String>,
}

/// The JSON that a hook may print.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Printed {
    r#continue: Option<bool>,
    stop_reason: Option<String>,
    system_message: Option<String>,
    decision: Option<String>,
    reason: Option<String>,
    hook_specific_output: Option<Specific>,
    #[serde(flatten)]
    top: Specific,
}

/// The fields that depend on the event: below `hookSpecificOutput`, or beside the others.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Specific {
    permission_decision: Option<String>,
    permission_decision_reason: Option<String>,
    updated_input: Option<Value>,
    additional_context: Option<String>,
}

impl Outcome {
    /// Returns the meaning of what a hook said.
    pub(crate) fn of(hook: &Hook, said: RunResult) -> Self {
        let name = hook.name();
        match said {
            RunResult::Failed(why) => Self::failed(hook, &why),
            RunResult::Ended { code: 0, out, .. } => Self::printed(hook, &out),
            RunResult::Ended { code: 2, err, out } => {
                let reason = [err, out].into_iter().find(|it| !it.trim().is_empty());
                Self::refused(hook, reason.map_or_else(|| "it gave no reason".to_owned(), |it| tidy(&it)))
            }
            RunResult::Ended { code, err, .. } => {
                let why = err.trim().lines().next().unwrap_or_default().to_owned();
                let why = if why.is_empty() { String::new() } else { format!(": {why}") };
                Self::failed(hook, &format!("ended with exit code {code}{why}"))
            }
        }
        .named(&name)
    }

    fn named(mut self, name: &str) -> Self {
        self.notes.iter_mut().for_each(|it| *it = format!("hook `{name}`: {it}"));
        self
    }

    fn failed(hook: &Hook, why: &str) -> Self {
        let notes = vec![tidy(why)];
        match hook.on_failure {
            OnFailure::Continue => Self { notes, ..Self::default() },
            OnFailure::Deny => Self { notes, ..Self::refused(hook, format!("it failed: {}", tidy(why))) },
        }
    }

    /// Returns a refusal, or what stands for it where nothing is left to refuse.
    fn refused(hook: &Hook, reason: String) -> Self {
        let by = (hook.name(), reason);
        match hook.event {
            HookEvent::BeforeTool
            | HookEvent::PromptSubmit
            | HookEvent::PreCompact
            | HookEvent::Stop
            | HookEvent::SubagentStop => Self { denied: Some(by), ..Self::default() },
            HookEvent::AfterTool | HookEvent::ToolFailed => Self { context: vec![by], ..Self::default() },
            HookEvent::SessionStart | HookEvent::SessionEnd | HookEvent::Notification => {
                Self { notes: vec![by.1], ..Self::default() }
            }
        }
    }

    fn printed(hook: &Hook, out: &str) -> Self {
        let out = out.trim();
        if !out.starts_with('{') {
            let adds = matches!(hook.event, HookEvent::PromptSubmit | HookEvent::SessionStart);
            let context = if adds && !out.is_empty() { vec![(hook.name(), tidy(out))] } else { Vec::new() };
            return Self { context, ..Self::default() };
        }
        match serde_json::from_str::<Printed>(out) {
            Ok(printed) => Self::of_json(hook, &printed),
            Err(error) => Self::failed(hook, &format!("its output is not valid JSON: {error}")),
        }
    }

    fn of_json(hook: &Hook, printed: &Printed) -> Self {
        let Printed { r#continue, stop_reason, system_message, decision, reason, .. } = printed;
        let of = |field: fn(&Specific) -> Option<String>| {
            printed.hook_specific_output.as_ref().and_then(field).or_else(|| field(&printed.top))
        };
        let wish = of(|it| it.permission_decision.clone()).or_else(|| decision.clone());
        let because = of(|it| it.permission_decision_reason.clone()).or_else(|| reason.clone());
        let because = because.map_or_else(|| "it gave no reason".to_owned(), |it| tidy(&it));
        let mut it = match wish.as_deref() {
            Some("deny" | "block") => Self::refused(hook, because),
            Some("ask") => Self { asks: Some((hook.name(), because)), ..Self::default() },
            Some("allow" | "approve") if hook.may_allow => {
                Self { allowed: Some(hook.name()), ..Self::default() }
            }
            _ => Self::default(),
        };
        if hook.event == HookEvent::BeforeTool {
            let updated = printed.hook_specific_output.as_ref().and_then(|it| it.updated_input.clone());
            let updated = updated.or_else(|| printed.top.updated_input.clone());
            it.updated =
                updated.filter(Value::is_object).map(|value| (hook.name(), value, hook.claude_names));
        }
        if let Some(context) = of(|it| it.additional_context.clone()).filter(|it| !it.trim().is_empty()) {
            it.context.push((hook.name(), tidy(&context)));
        }
        it.notes.extend(system_message.as_deref().map(tidy));
        if *r#continue == Some(false) {
            it.halt = Some(stop_reason.as_deref().map_or_else(|| "it gave no reason".to_owned(), tidy));
        }
        it
    }
}

/// Joins the outcomes of the hooks of one event: a refusal is stronger than a question, a question than an
/// approval. Of several changes to the arguments the last one counts.
pub(crate) fn combined(outcomes: impl IntoIterator<Item = Outcome>) -> Outcome {
    let mut all = Outcome::default();
    for it in outcomes {
        all.denied = all.denied.or(it.denied);
        all.asks = all.asks.or(it.asks);
        all.allowed = all.allowed.or(it.allowed);
        all.updated = it.updated.or(all.updated);
        all.halt = all.halt.or(it.halt);
        all.context.extend(it.context);
        all.notes.extend(it.notes);
    }
    all
}

/// Limit of one text that a hook says, in bytes.
const LONGEST: usize = 10 << 10;

/// Returns a text of a hook within its limit, with invisible characters escaped.
fn tidy(text: &str) -> String {
    let text = text.trim();
    let (text, _) = kit::escape::visible(text);
    match text.len() > LONGEST {
        false => text.into_owned(),
        true => {
            let head = text.get(..text.floor_char_boundary(LONGEST)).unwrap_or_default();
            format!("{head}\n[… {} bytes of the hook's output are left out]", text.len() - head.len())
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::{
        config::HookSection,
        hooks::{Found, Whose},
    };

    fn hook(event: HookEvent, whose: Whose, on_failure: OnFailure) -> Hook {
        let section = HookSection {
            event,
            r#match: None,
            command: Some("check".to_owned()),
            tool: None,
            seconds: None,
            write: false,
            on_failure,
        };
        let (workspace, home) = (Path::new("/nowhere/w"), Path::new("/nowhere/h"));
        Hook::new(section, Found { whose, file: "haft.toml", workspace, home, claude_names: false }).unwrap()
    }

    fn ended(code: i32, out: &str, err: &str) -> RunResult {
        RunResult::Ended { code, out: out.to_owned(), err: err.to_owned() }
    }

    #[test]
    fn exit_code_two_refuses_with_stderr_as_the_reason() {
        let before = hook(HookEvent::BeforeTool, Whose::Workspace, OnFailure::Continue);
        let it = Outcome::of(&before, ended(2, "", "not on Fridays\n"));
        assert_eq!(it.denied, Some(("check".to_owned(), "not on Fridays".to_owned())));
        let after = hook(HookEvent::AfterTool, Whose::Workspace, OnFailure::Continue);
        let it = Outcome::of(&after, ended(2, "", "line 3 is too long"));
        assert_eq!((it.denied, it.context.len()), (None, 1), "the tool has run");
    }

    #[test]
    fn failure_is_a_note_unless_the_hook_must_not_fail() {
        let lenient = hook(HookEvent::BeforeTool, Whose::Person, OnFailure::Continue);
        let it = Outcome::of(&lenient, ended(1, "", "Traceback"));
        assert_eq!(it.denied, None);
        assert_eq!(it.notes, ["hook `check`: ended with exit code 1: Traceback"]);
        let strict = hook(HookEvent::BeforeTool, Whose::Person, OnFailure::Deny);
        for said in
            [ended(1, "", ""), RunResult::Failed("did not end within 1 s".to_owned()), ended(0, "{", "")]
        {
            assert!(Outcome::of(&strict, said).denied.is_some());
        }
    }

    #[test]
    fn allow_counts_only_from_the_persons_own_configuration() {
        let printed = json!({"hookSpecificOutput": {"permissionDecision": "allow"}}).to_string();
        let own = hook(HookEvent::BeforeTool, Whose::Person, OnFailure::Continue);
        assert!(Outcome::of(&own, ended(0, &printed, "")).allowed.is_some());
        let theirs = hook(HookEvent::BeforeTool, Whose::Workspace, OnFailure::Continue);
        assert!(Outcome::of(&theirs, ended(0, &printed, "")).allowed.is_none());
    }

    #[test]
    fn fields_are_read_at_the_top_and_below_the_specific_output() {
        let it = hook(HookEvent::BeforeTool, Whose::Person, OnFailure::Continue);
        for printed in [
            json!({"permissionDecision": "ask", "permissionDecisionReason": "why", "updatedInput": {"a": 1}}),
            json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "ask",
                "permissionDecisionReason": "why", "updatedInput": {"a": 1}}}),
        ] {
            let it = Outcome::of(&it, ended(0, &printed.to_string(), ""));
            assert_eq!(it.asks, Some(("check".to_owned(), "why".to_owned())));
            assert_eq!(it.updated, Some(("check".to_owned(), json!({"a": 1}), false)));
        }
        let printed = json!({"continue": false, "stopReason": "enough", "systemMessage": "hello"});
        let it = Outcome::of(&it, ended(0, &printed.to_string(), ""));
        assert_eq!(it.halt.as_deref(), Some("enough"));
        assert_eq!(it.notes, ["hook `check`: hello"]);
    }

    #[test]
    fn refusal_wins_and_the_last_change_counts() {
        let denied = Outcome { denied: Some(("a".into(), "no".into())), ..Outcome::default() };
        let first = Outcome { updated: Some(("b".into(), json!(1), false)), ..Outcome::default() };
        let second = Outcome {
            updated: Some(("c".into(), json!(2), false)),
            allowed: Some("c".into()),
            ..Outcome::default()
        };
        let all = combined([first, denied, second]);
        assert_eq!(all.denied.unwrap().1, "no");
        assert_eq!(all.updated.unwrap().1, json!(2));
    }

    #[test]
    fn long_output_is_cut() {
        let it = hook(HookEvent::PromptSubmit, Whose::Person, OnFailure::Continue);
        let it = Outcome::of(&it, ended(0, &"x".repeat(LONGEST * 2), ""));
        let text = &it.context.first().unwrap().1;
        assert!(text.len() < LONGEST + 100 && text.ends_with("are left out]"), "{}", text.len());
    }
}

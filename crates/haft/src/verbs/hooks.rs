//! `haft hooks`: the hooks in effect, and a test of them.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use kit::{Fault, escape::visible};
use runtime::{
    config::HookEvent,
    hooks::{Does, Hook, Whose},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{FAULT, finish, report_ignored};
use crate::{Options, Place, ask::approver, print};

#[derive(Args)]
pub struct Hooks {
    #[command(subcommand)]
    what: Option<What>,
    /// Print one line of JSON per hook
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand)]
enum What {
    /// Run the hooks of an event with made-up input, and print what they decide; no tool runs
    Test {
        /// Event, by haft's name or Claude Code's: `before_tool`, `PreToolUse`
        event: String,
        /// Tool of the event
        #[arg(long, default_value = "shell")]
        tool: String,
        /// Arguments of the tool as JSON, or the text of the event
        #[arg(long, default_value = "{}")]
        input: String,
    },
}

impl Hooks {
    /// # Errors
    /// When no runtime can be opened, or there is no such event.
    pub async fn run(&self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let opened = options.open(place)?;
        if let Some(What::Test { event, tool, input }) = &self.what {
            report_ignored(&opened, false);
            opened.runtime.load_tools().await;
            let event = HookEvent::parse(event).ok_or_else(|| {
                let names: Vec<_> = HookEvent::ALL.iter().map(|it| it.name()).collect();
                Fault::bad_args(format!("there is no event `{event}`"))
                    .next(format!("The events are: {}.", names.join(", ")))
            })?;
            let session = opened.runtime.session(None, "cli", approver());
            let (text, ok) = tested(&session, event, tool, input).await;
            print::out(&text);
            finish(&session).await;
            return Ok(if ok { ExitCode::SUCCESS } else { ExitCode::from(FAULT) });
        }
        let hooks = opened.runtime.hooks().map(|it| it.list().to_vec()).unwrap_or_default();
        super::close(&opened.runtime);
        match self.json {
            true => hooks.iter().for_each(|it| print::json(&as_json(it))),
            false if hooks.is_empty() => {
                print::out("no hooks; `haft config --example` shows `[[hook]]`\n");
            }
            false => print::out(&hooks.iter().map(as_text).collect::<String>()),
        }
        report_ignored(&opened, false);
        let unknown = options.hooks_of(place, &options.workspace()?).unknown;
        unknown.iter().for_each(|line| print::err(&format!("haft: {line}")));
        Ok(ExitCode::SUCCESS)
    }
}

/// Runs the hooks of an event; returns the report, and whether they let it go on.
async fn tested(session: &runtime::Session, event: HookEvent, tool: &str, input: &str) -> (String, bool) {
    let stop = CancellationToken::new();
    let parsed = serde_json::from_str::<Value>(input).unwrap_or_else(|_| json!({}));
    let word = match event.is_of_call() {
        true => session.try_hooks(event, tool, parsed, &stop).await,
        false => {
            let subject = match event {
                HookEvent::PreCompact => "manual",
                HookEvent::Notification => "permission_prompt",
                _ => "startup",
            };
            let fields = json!({
                "prompt": input, "source": "startup", "reason": "other", "stop_hook_active": false, "trigger": "manual",
                "custom_instructions": input, "message": input, "notification_type": "permission_prompt",
            });
            session.run_hooks(event, subject, fields, &stop).await
        }
    };
    let mut text = String::new();
    match &word.denied {
        Some((hook, reason)) => text.push_str(&format!("refused by `{hook}`: {reason}\n")),
        None => text.push_str("goes on\n"),
    }
    for line in &word.changes {
        text.push_str(&format!("{line}\n"));
    }
    for (hook, context) in &word.context {
        text.push_str(&format!("context from `{hook}`: {context}\n"));
    }
    if let Some(reason) = &word.halt {
        text.push_str(&format!("the agent stops: {reason}\n"));
    }
    for note in session.hook_notes() {
        text.push_str(&format!("note: {note}\n"));
    }
    (visible(&text).0.into_owned(), word.denied.is_none())
}

fn as_text(hook: &Hook) -> String {
    let (kind, what) = match &hook.does {
        Does::Command(command) => ("command", command),
        Does::Tool(tool) => ("tool", tool),
    };
    let pattern = if hook.pattern.is_empty() { "*" } else { &hook.pattern };
    let seconds = hook.within.as_secs();
    let mut more = vec![format!("{seconds} s")];
    if hook.write {
        more.push("may change the workspace".to_owned());
    }
    if hook.may_allow {
        more.push("may allow".to_owned());
    }
    let line = format!(
        "{}  {pattern}  {kind} {what}\n    from {} ({}); {}\n",
        hook.event.name(),
        hook.file,
        whose(hook.whose),
        more.join(", ")
    );
    visible(&line).0.into_owned()
}

/// Returns the lines about these hooks, for `haft doctor` and `haft config`.
pub(crate) fn listed(hooks: &[Hook]) -> String {
    hooks.iter().map(as_text).collect()
}

pub(crate) fn as_json(hook: &Hook) -> Value {
    let (command, tool) = match &hook.does {
        Does::Command(command) => (Some(command), None),
        Does::Tool(tool) => (None, Some(tool)),
    };
    json!({
        "event": hook.event,
        "match": hook.pattern,
        "command": command,
        "tool": tool,
        "seconds": hook.within.as_secs(),
        "write": hook.write,
        "on_failure": hook.on_failure,
        "may_allow": hook.may_allow,
        "whose": whose(hook.whose),
        "file": hook.file,
    })
}

fn whose(whose: Whose) -> &'static str {
    match whose {
        Whose::Person => "yours",
        Whose::Workspace => "workspace",
    }
}

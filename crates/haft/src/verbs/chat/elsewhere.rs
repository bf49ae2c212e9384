//! Commands on a session that another process may run: each becomes operations, or is answered from the rows.

use agent::profiles::PLAN;
use kit::Fault;
use runtime::Runtime;
use serde_json::Value;
use sessions::{Handle, Operation, Prompt, Report};

use super::export;
use crate::{session_service::report, terminal::commands::Command};

/// The commands, in the order in which they are listed.
pub(crate) const COMMANDS: [Command; 13] = [
    command("/status", "", "show who runs the session, its model and profile"),
    command("/model", "[NAME]", "show the model, or have another one answer"),
    command("/profile", "[NAME]", "show the profile, or go on under another; `none` leaves it"),
    command("/plan", "[TASK]", "plan mode, on or off: nothing is changed"),
    command("/tools", "[WORD]", "list the model's tools"),
    command("/undo", "[CALL]", "undo the last file change, or CALL's"),
    command("/rewind", "[N]", "go back to before your last message, or the Nth last"),
    command("/fork", "[N]", "a new session with the conversation up to your message N"),
    command("/compact", "[KEEP]", "summarize the conversation now, keeping KEEP"),
    command("/context", "", "show what fills the context window"),
    command("/cost", "", "tokens and cost so far"),
    command("/rename", "TITLE", "give the session a title"),
    command("/export", "[FILE]", "write the conversation to a Markdown file"),
];

const fn command(name: &'static str, takes: &'static str, does: &'static str) -> Command {
    Command { name, takes, does }
}

/// The effect of a command.
pub(crate) enum Work {
    /// Operations, one after the other until one of them fails.
    Operations(Vec<Operation>),
    /// A text for the person.
    Text(String),
}

/// Returns whether a command works on a session that another process runs.
pub(crate) fn is_known(name: &str) -> bool {
    COMMANDS.iter().any(|it| it.name == name)
}

/// Returns what a command asks for, with the text that follows its name.
///
/// # Errors
/// When it does not work here, or on this session.
pub(crate) async fn work(handle: &Handle, runtime: &Runtime, name: &str, given: &str) -> Result<Work, Fault> {
    let some = || Some(given.to_owned()).filter(|it| !it.is_empty());
    let operation = match name {
        "/status" => return status(handle).await.map(Work::Text),
        "/cost" => {
            let rows = handle.export().await?;
            return Ok(Work::Text(report::cost(&rows)));
        }
        "/model" if given.is_empty() => {
            let model = handle.state().await?.model;
            return Ok(Work::Text(format!("{model} (in use)\n/model NAME switches.")));
        }
        "/profile" if given.is_empty() => {
            let profile = handle.state().await?.profile.unwrap_or_else(|| "none".to_owned());
            let next = "/profile NAME switches, /profile none leaves it.";
            return Ok(Work::Text(format!("{profile} (in use)\n{next}")));
        }
        "/export" => return export::written(runtime, handle.session(), given).map(Work::Text),
        "/fork" => return fork(handle, runtime, given).map(Work::Text),
        "/plan" => return plan(handle, given).await.map(Work::Operations),
        "/model" => Operation::Model { name: given.to_owned() },
        "/profile" => Operation::Profile { name: some().filter(|it| it != "none") },
        "/tools" => Operation::Report(Report::Tools { about: some() }),
        "/context" => Operation::Report(Report::Context),
        "/compact" => Operation::Compact { keep: some() },
        "/undo" if given.is_empty() || given.starts_with("c_") => {
            Operation::Undo { call: some(), path: None }
        }
        "/rewind" => Operation::Rewind { turns: turns(given)? },
        "/rename" if given.is_empty() => {
            return Err(Fault::bad_args("`/rename` needs a title").next("/rename Cache for the parser"));
        }
        "/rename" => Operation::Rename { title: given.to_owned() },
        other => {
            let what = format!("{other} {given}");
            return Err(Fault::bad_args(format!(
                "`{}` works only in the terminal that runs this session",
                what.trim_end()
            ))
            .next("/help lists what works here."));
        }
    };
    Ok(Work::Operations(vec![operation]))
}

/// Returns the text that a report has for the person.
pub(crate) fn reported(operation: &Operation, result: &Value) -> Option<String> {
    let is_report = matches!(operation, Operation::Report(_));
    result.get("text").and_then(Value::as_str).filter(|_| is_report).map(str::to_owned)
}

/// Plan mode on or off; with a task, on, and the task.
async fn plan(handle: &Handle, task: &str) -> Result<Vec<Operation>, Fault> {
    let is_on = handle.state().await?.profile.as_deref() == Some(PLAN);
    let on = !is_on || !task.is_empty();
    let profile = Operation::Profile { name: on.then(|| PLAN.to_owned()) };
    let task = Some(Prompt::new(task)).filter(|it| !it.is_empty()).map(Operation::Prompt);
    Ok(Some(profile).filter(|_| on != is_on).into_iter().chain(task).collect())
}

async fn status(handle: &Handle) -> Result<String, Fault> {
    let state = handle.state().await?;
    let turn = state
        .turn
        .map_or_else(|| "none".to_owned(), |it| format!("{} (by {})", agent::title(&it.text), it.by));
    let rows = [
        ("session", state.session),
        ("process", format!("{} ({})", state.pid, state.by)),
        ("model", state.model),
        ("profile", state.profile.unwrap_or_else(|| "none".to_owned())),
        ("turn", turn),
        ("waiting", state.waiting.to_string()),
    ];
    let text: Vec<String> = rows.iter().map(|(name, it)| format!("{name:<10} {it}")).collect();
    Ok(text.join("\n"))
}

fn turns(given: &str) -> Result<usize, Fault> {
    match given {
        "" => Ok(1),
        number => {
            number.parse::<usize>().ok().filter(|it| *it > 0).ok_or_else(|| {
                Fault::bad_args(format!("`/rewind {number}` needs a number of messages, from 1"))
            })
        }
    }
}

fn fork(handle: &Handle, runtime: &Runtime, given: &str) -> Result<String, Fault> {
    let at = match given {
        "" => None,
        number => Some(number.parse::<u64>().map_err(|_| {
            Fault::bad_args(format!("`/fork {number}` needs the number of one of your messages, from 1"))
        })?),
    };
    let made = agent::fork(runtime.store(), handle.session(), at, None)?;
    Ok(format!("forked: {0}; `haft chat --attach {0}` opens it", made.session))
}

//! Tools for triggers: what begins turns of the agent without a person.

mod add_schedule;
mod add_timer;
mod delete_trigger;
mod list_triggers;
mod watch_channel;
mod watch_files;
mod watch_job;
mod webhook;

use std::sync::Arc;

use kit::{AnyTool, Cx, Fault, Kinds, Output, Touch, Touches, erase, services::NewTrigger};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The touches of a tool that makes a trigger.
const MAKES: Kinds = Kinds::SESSION.with(Kinds::EXCLUSIVE);

/// Handling of fires that were due while haft did not run.
#[derive(Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum Missed {
    Skip,
    Once,
    Ask,
}

/// Returns the tools of this family.
pub(crate) fn all() -> Vec<Arc<dyn AnyTool>> {
    [
        upstream(),
        vec![
            erase::<list_triggers::ListTriggers>(),
            erase::<watch_files::WatchFiles>(),
            erase::<watch_job::WatchJob>(),
            erase::<webhook::Webhook>(),
        ],
    ]
    .concat()
}

/// Returns those that KohakuTerrarium has as well.
pub(crate) fn upstream() -> Vec<Arc<dyn AnyTool>> {
    vec![
        erase::<add_timer::AddTimer>(),
        erase::<add_schedule::AddSchedule>(),
        erase::<watch_channel::WatchChannel>(),
        erase::<delete_trigger::DeleteTrigger>(),
    ]
}

/// Returns the trigger that a tool makes with these arguments, which are its fields.
fn new(tool: &str, arguments: &impl Serialize) -> NewTrigger {
    let mut arguments = serde_json::to_value(arguments).unwrap_or_default();
    let name = arguments.as_object_mut().and_then(|it| it.remove("name"));
    NewTrigger {
        tool: tool.to_owned(),
        name: name.as_ref().and_then(Value::as_str).map(str::to_owned),
        arguments,
    }
}

/// Declares a new trigger.
fn touches(tool: &str, arguments: &impl Serialize) -> Touches {
    Touches::none().and(Touch::Trigger(new(tool, arguments).as_touch()))
}

/// Makes a trigger, and says so.
async fn add(tool: &str, arguments: &impl Serialize, cx: &Cx) -> Result<Output, Fault> {
    let made = cx.triggers().add(new(tool, arguments)).await?;
    let (id, arguments) = (&made.id, &made.arguments);
    let mut lines = vec![format!(
        "Trigger `{tool}` correctly set up and running in the background with {arguments}. trigger_id={id}"
    )];
    lines.extend(made.notes);
    Ok(Output::text(lines.join("\n")))
}

#[cfg(test)]
mod tests;

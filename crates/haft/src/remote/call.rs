//! One call of a tool on its way to a worker and back.

use engine::{Grain, Key, Work};
use kit::{Fault, Kind, Origin};
use runtime::{Session, config::WorkersSection};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Sender;

/// The tools of the program whose calls may run on another machine: they only use the workspace, which travels.
const MOVABLE: [&str; 2] = ["shell", "python"];

/// How long a command on a worker may take, in milliseconds, unless its call says so: its process there ends with the call, so
/// nothing can go on in the background. It is a little less than the most that `shell` takes.
const WAIT_MS: u64 = 3_590_000;

/// A call for another machine. Nothing in it grants anything.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RemoteCall {
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) toolset: Option<String>,
}

/// The result of a call that came to its end, as the sender gets it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CallResult {
    /// The result as `haft call --json` prints it, with the text that a model reads as `text`.
    pub(crate) answer: Value,
    /// The exit code of `haft call`.
    pub(crate) code: u8,
    /// The id of the worker that ran it.
    pub(crate) worker: String,
    /// Its duration in milliseconds.
    pub(crate) ms: u64,
}

impl RemoteCall {
    /// Returns the call with the time to wait for a command, where it is not given.
    pub(crate) fn waiting(mut self) -> Self {
        if let (true, Value::Object(arguments)) = (self.tool == "shell", &mut self.arguments) {
            arguments.entry("wait_ms").or_insert_with(|| WAIT_MS.into());
        }
        self
    }

    /// Checks that calls of this tool may run elsewhere: `shell`, `python`, and tool files that the person marked as movable.
    ///
    /// # Errors
    /// When they may not, or there is no such tool.
    pub(crate) fn check(&self, session: &Session, workers: &WorkersSection) -> Result<(), Fault> {
        let (name, catalog) = (&self.tool, session.catalog());
        let Some(tool) = catalog.get(name) else {
            return Err(Fault::not_found(format!("there is no tool `{name}`"))
                .next("`haft list` shows the tools of this workspace."));
        };
        let refused = |next: String| {
            Err(Fault::new(Kind::Denied, format!("calls of `{name}` run on this machine only")).next(next))
        };
        match &tool.spec().origin {
            Origin::Program if MOVABLE.contains(&name.as_str()) => Ok(()),
            Origin::File(_) if workers.movable.contains(name) => Ok(()),
            Origin::File(_) => refused(format!(
                "If all that it uses is in the workspace, add it to your haft.toml: [workers] movable = [\"{name}\"]"
            )),
            _ => refused(format!(
                "On workers run: {}, and tool files in `movable` of [workers].",
                MOVABLE.join(", ")
            )),
        }
    }
}

impl Sender {
    /// Returns the work for one call. An idempotent call runs again when its worker is lost.
    ///
    /// # Errors
    /// When the call can't be written as JSON.
    pub(crate) fn call(&self, key: Key, call: &RemoteCall, idempotent: bool) -> Result<Work, Fault> {
        let task = serde_json::to_value(call).map_err(|error| Fault::bug(format!("call: {error}")))?;
        Ok(self.work_of(key, Grain::Call, task, idempotent))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn command_on_a_worker_waits_for_its_end_unless_the_call_says_how_long() {
        let call = |tool: &str, arguments: Value| {
            RemoteCall { tool: tool.to_owned(), arguments, toolset: None }.waiting().arguments
        };
        assert_eq!(call("shell", json!({"command": "make"})), json!({"command": "make", "wait_ms": WAIT_MS}));
        let own = json!({"command": "make", "wait_ms": 5});
        assert_eq!(call("shell", own.clone()), own);
        assert_eq!(call("python", json!({"code": "1"})), json!({"code": "1"}));
    }
}

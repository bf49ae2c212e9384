//! A task on its way to a worker, and the limits of its sender.

use std::path::{Component, Path};

use kit::Fault;
use runtime::config::Config;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent_options::AgentOptions;

/// Maximum size of the words that are an argument of a process, in bytes.
const ARGUMENT: usize = 100 << 10;

/// A task for an agent on another machine. Nothing in it grants anything.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Task {
    /// The words of the person.
    pub(crate) words: String,
    /// Piped text that belongs to them, as data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) piped: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) profile: Option<String>,
    pub(crate) plan: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) dialect: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) toolset: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_steps: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_tokens: Option<u64>,
    /// The JSON Schema of its answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) schema: Option<Value>,
    pub(crate) no_wait: bool,
}

impl Task {
    /// Makes a task of these words for an agent with these options.
    pub(crate) fn new(words: String, agent: &AgentOptions) -> Self {
        Self {
            words,
            model: agent.model.clone(),
            profile: agent.profile.clone(),
            plan: agent.plan,
            dialect: agent.dialect.clone(),
            max_steps: agent.max_steps,
            max_seconds: agent.max_seconds,
            max_tokens: agent.max_tokens,
            ..Self::default()
        }
    }

    /// Checks what a sender can know: that a worker accepts the name of the model, and that the words are not too long.
    ///
    /// # Errors
    /// When a worker would refuse the task.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        if let Some(model) = &self.model {
            check_model(model)?;
        }
        if self.piped.is_some() && self.words.len() > ARGUMENT {
            let long = self.words.len();
            return Err(Fault::bad_args(format!(
                "the task has {long} bytes beside piped input; the maximum is {ARGUMENT}"
            ))
            .next("Put the long part into a file of the workspace, and name the file in the task."));
        }
        Ok(())
    }

    /// Returns the options of `haft run` for this task on a worker with its own options: the lower limits count, and what
    /// the task does not name is the worker's own.
    ///
    /// # Errors
    /// When the worker may not use that model.
    pub(super) fn arguments(
        &self,
        own: &AgentOptions,
        own_steps: Option<usize>,
    ) -> Result<Vec<String>, Fault> {
        self.check()?;
        let lower = |theirs: Option<u64>, mine: Option<u64>| theirs.into_iter().chain(mine).min();
        let steps = self.max_steps.into_iter().chain(own.max_steps).chain(own_steps).min();
        let agent = AgentOptions {
            model: self.model.clone().or_else(|| own.model.clone()),
            profile: self.profile.clone().or_else(|| own.profile.clone()).filter(|_| !self.plan && !own.plan),
            plan: self.plan || own.plan,
            dialect: self.dialect.clone().or_else(|| own.dialect.clone()),
            max_steps: steps,
            max_seconds: lower(self.max_seconds, own.max_seconds),
            max_tokens: lower(self.max_tokens, own.max_tokens),
        };
        let mut arguments = agent.as_arguments();
        if let Some(toolset) = &self.toolset {
            arguments.extend(["--toolset".to_owned(), toolset.clone()]);
        }
        if self.no_wait {
            arguments.push("--no-wait".to_owned());
        }
        Ok(arguments)
    }
}

/// Checks the name of a model that a sender chose. An address would send the workspace, and perhaps a key, to wherever the
/// sender wants; a script has to be a file of the workspace.
fn check_model(name: &str) -> Result<(), Fault> {
    if let Some(script) = name.strip_prefix("script:") {
        let parts = Path::new(script).components();
        if script.is_empty() || !parts.into_iter().all(|it| matches!(it, Component::Normal(_))) {
            return Err(Fault::bad_args(format!("`{name}` is not a file of the workspace"))
                .next("On another machine, a script is a path inside the workspace: `--model script:tests/model.jsonl`."));
        }
        return Ok(());
    }
    if name.contains("://") {
        return Err(Fault::bad_args(format!("a worker uses no address that a sender names: `{name}`")).next(
            "Name the model in `[models.NAME]` of the worker's own haft.toml, and send `--model NAME`.",
        ));
    }
    Ok(())
}

/// The keys of haft.toml that are limits: a sender's values narrow those of a worker. None of them is secret.
const LIMITS: [&str; 9] =
    ["tools", "sandbox", "approve", "hard_links", "deadline_seconds", "commands", "command", "net", "limits"];

/// Returns the limits that a sender's configuration sets.
///
/// # Errors
/// When they can't be written as JSON.
pub(crate) fn limits(config: &Config) -> Result<Value, Fault> {
    let mut limits =
        serde_json::to_value(config).map_err(|error| Fault::bug(format!("the limits: {error}")))?;
    if let Value::Object(all) = &mut limits {
        all.retain(|key, _| LIMITS.contains(&key.as_str()));
    }
    Ok(without_nulls(limits))
}

/// Removes the keys that are not set: a configuration is read from TOML, which has no null.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(all) => {
            all.into_iter().filter(|it| !it.1.is_null()).map(|(key, it)| (key, without_nulls(it))).collect()
        }
        Value::Array(all) => all.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn the_lower_limit_counts() {
        let own = AgentOptions { max_steps: Some(9), max_seconds: Some(60), ..AgentOptions::default() };
        let task =
            Task { max_steps: Some(20), max_seconds: Some(30), max_tokens: Some(5), ..Task::default() };
        let arguments = task.arguments(&own, Some(7)).unwrap();
        assert_eq!(arguments, ["--max-steps", "7", "--max-seconds", "30", "--max-tokens", "5"]);
        let own = AgentOptions { plan: true, profile: Some("x".to_owned()), ..AgentOptions::default() };
        assert_eq!(Task::default().arguments(&own, None).unwrap(), ["--plan"]);
    }

    #[test]
    fn limits_are_read_as_they_were_written() {
        let config = Config { tools: Some(vec!["read".to_owned()]), ..Config::default() };
        let read: Config = serde_json::from_value(limits(&config).unwrap()).unwrap();
        assert_eq!(read, config);
        let read: Config = serde_json::from_value(limits(&Config::default()).unwrap()).unwrap();
        assert_eq!(read, Config::default());
    }

    #[test]
    fn a_sender_names_models_and_no_addresses() {
        for good in ["anthropic:x", "local", "script:a/b.jsonl", "ollama:qwen3"] {
            assert!(check_model(good).is_ok(), "{good}");
        }
        for bad in
            ["script:", "script:/etc/passwd", "script:../x", "http://10.0.0.1/v1#m", "script:a/../../b"]
        {
            assert!(check_model(bad).is_err(), "{bad}");
        }
    }
}

//! `[agent]`, `[subagent]` and `[models]` of haft.toml.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// So many answers a turn has at most, where nobody says another number.
pub const STEPS: usize = 50;

/// So many calls of one answer are made where the model writes them in a dialect, where nobody says another number.
pub const CALLS: usize = 40;

/// So many answers an agent gives that another one started, where nobody says another number.
pub const SUBAGENT_STEPS: usize = 40;

/// So many seconds it may take, where nobody says another time.
pub const SUBAGENT_SECONDS: u64 = 600;

/// So many seconds results of background calls are waited for, where nobody says another time.
pub const WAIT_SECONDS: u64 = 600;

/// So many turns in a row the ends of jobs may begin, where nobody says another number.
pub const WAKES: usize = 20;

/// `[agent]`: how `haft run` and `haft chat` work.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentSection {
    /// The model, as `--model` names it.
    pub model: Option<String>,
    /// The profile to begin with.
    pub profile: Option<String>,
    /// At most so many answers of the model in one turn.
    pub max_steps: Option<usize>,
    /// At most so many calls of one answer, where the model writes them in a dialect; 0: all.
    pub max_calls: Option<usize>,
    /// When the model is told of a tool that is new.
    pub visible: Option<Visible>,
    /// How many seconds `haft run` and sub-agents wait at their end for results of background calls.
    pub wait_seconds: Option<u64>,
    /// How many turns in a row the ends of jobs may begin; 0: none.
    pub wakes: Option<usize>,
}

/// `[chat]`: how `haft chat` behaves at a terminal. Only the person's own file counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChatSection {
    /// How the person is told of a question and of the end of a long turn.
    pub notify: Option<Notify>,
    /// Which of the terminal's colours stand for what.
    pub theme: Option<Theme>,
}

/// Which of the terminal's sixteen colours stand for what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Theme {
    /// For a dark background.
    #[default]
    Dark,
    /// For a light background: no yellow.
    Light,
    /// Blue and yellow in the place of green and red.
    ColorBlind,
    /// No colours, as with `NO_COLOR`.
    None,
}

/// How a person is told that they are wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Notify {
    /// The bell rings, and the terminal's title says why.
    #[default]
    All,
    /// The bell rings.
    Bell,
    /// The terminal's title says it.
    Title,
    /// Not at all.
    None,
}

/// When a model is told of a tool that is new.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Visible {
    /// With the next message of the person.
    #[default]
    NextMessage,
    /// With the next request to the model.
    NextRequest,
}

/// `[subagent]`: what agents may do that an agent starts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubagentSection {
    /// The tools they have where their profile names none; those of the agent that starts them, if this is not given. A
    /// profile of a workspace has no others.
    #[serde(default, deserialize_with = "super::tool_list::names")]
    pub tools: Option<Vec<String>>,
    /// They may start agents themselves.
    pub nested: Option<bool>,
    /// At most so many answers of the model for one of them.
    pub max_steps: Option<usize>,
    /// At most so many seconds for one of them.
    pub seconds: Option<u64>,
    /// At most so many tokens for one of them.
    pub tokens: Option<u64>,
}

/// `[models.NAME]`: a model under a name of its own, for `--model NAME`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSection {
    /// The wire format: `chat` (OpenAI's Chat Completions, which most servers speak), `responses`, `anthropic`.
    pub api: Option<String>,
    /// Where it is served, up to and with the version: `http://127.0.0.1:11434/v1`.
    pub url: Option<String>,
    /// The model's name there.
    pub model: Option<String>,
    /// The variable of the environment that holds the key.
    pub key_env: Option<String>,
    /// Sent with each request, beside those that the wire format has.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// How many tokens request and answer may have together.
    pub window: Option<u64>,
    /// How many tokens an answer has at most.
    pub longest: Option<u64>,
    /// It has no native calls, and writes them like this: `json`, `bracket`, `xml`, `hermes`; a format as JSON, where
    /// the file has a table.
    #[serde(default, deserialize_with = "dialect", serialize_with = "dialect_as_written")]
    pub dialect: Option<String>,
    /// It looks at pictures.
    pub images: Option<bool>,
    /// How hard it is to think: `low`, `medium`, `high`, or what the provider knows.
    pub effort: Option<String>,
    /// The provider's own tools that it may use: `web_search`, `image_gen`.
    #[serde(default)]
    pub own_tools: Vec<String>,
    /// What a million tokens cost, in dollars: input, cached, kept, output.
    pub price: Option<PriceSection>,
}

/// The name of a dialect, or a format of one's own: a table is kept as JSON, as `--dialect` takes it.
fn dialect<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Name(String),
        Format(serde_json::Map<String, serde_json::Value>),
    }
    Ok(Option::<Written>::deserialize(deserializer)?.map(|it| match it {
        Written::Name(name) => name,
        Written::Format(table) => serde_json::Value::Object(table).to_string(),
    }))
}

/// A format as the table that it is in a file.
fn dialect_as_written<S: serde::Serializer>(dialect: &Option<String>, to: S) -> Result<S::Ok, S::Error> {
    let format = dialect.as_deref().filter(|it| it.starts_with('{'));
    match format.and_then(|it| serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(it).ok()) {
        Some(table) => table.serialize(to),
        None => dialect.serialize(to),
    }
}

/// What a million tokens cost, in dollars.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceSection {
    /// Tokens of a request.
    pub input: f64,
    /// Tokens of a request that the provider had kept.
    #[serde(default)]
    pub cached: f64,
    /// Tokens of a request that the provider keeps from now on.
    #[serde(default)]
    pub kept: f64,
    /// Tokens of an answer.
    pub output: f64,
}

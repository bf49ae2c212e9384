//! `[agent]`, `[chat]`, `[subagent]`: how agents work, and their limits.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    keys::{Fallback::*, declare::section, merging::*, types::named},
    tool_list,
};

/// The default limit of a turn's responses.
pub const STEPS: usize = 50;

/// The default limit of calls per response, if the model writes them in a dialect.
pub const CALLS: usize = 40;

/// The default limit of a sub-agent's responses.
pub const SUBAGENT_STEPS: usize = 40;

/// The default time limit of a sub-agent, in seconds.
pub const SUBAGENT_SECONDS: u64 = 600;

/// The default time that haft waits for results of background calls, in seconds.
pub const WAIT_SECONDS: u64 = 600;

/// The default limit of turns in a row that ends of jobs begin.
pub const WAKES: usize = 20;

/// The default number of messages of the inbox that one request shows in full.
pub const INBOX_MESSAGES: usize = 100;

/// The default number of bytes of the inbox that one request shows in full.
pub const INBOX_BYTES: usize = 64 << 10;

section! {
    /// `[agent]`: how `haft run` and `haft chat` work.
    #[derive(Default, Eq)]
    #[serde(default)]
    pub struct AgentSection, merged by_key {
        /// How `haft run` and `haft chat` work.
        "[agent]" {
            /// The model, as `--model` takes it: PROVIDER:MODEL (anthropic, openai, gemini, openrouter,
            /// mistral, deepseek, xai, groq, ollama), URL#MODEL, script:FILE, or the NAME of a section
            /// `[models.NAME]`. Without it, haft uses $HAFT_MODEL. API keys come from the usual variables
            /// (ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY …) or from `haft login`; other addresses
            /// from ANTHROPIC_BASE_URL, OPENAI_BASE_URL and OLLAMA_HOST.
            model: Option<String> {
                example: r#""anthropic:claude-sonnet-5-5""#,
                default: Words("first provider with a key"),
                workspace: NeedsTrust,
                merge: replace_trusted,
            }
            /// The profile to start with: `.haft/agents/NAME.md`, or one of haft's own.
            profile: Option<String> {
                example: r#""reviewer""#,
                default: Words("none"),
                workspace: Counts,
                merge: replace,
            }
            /// Maximum model responses per turn. A workspace may only lower it.
            max_steps: Option<usize> {
                example: "50",
                default: Value(|| json!(STEPS)),
                workspace: Lowers,
                merge: lower(STEPS),
            }
            /// Maximum tool calls of one response that are run, where the model writes them in a dialect
            /// (`dialect`, `--dialect`). The model gets the number of calls that were not run. 1 is
            /// HyperAgents' own rule; 0: no limit. A workspace may only lower it.
            max_calls: Option<usize> {
                example: "40",
                default: Value(|| json!(CALLS)),
                workspace: Lowers,
                merge: lower_or_unlimited(CALLS),
            }
            /// When the model learns of a new tool: "next_message" (with your next message) or "next_request"
            /// (with the next request to the model).
            visible: Option<ToolVisibility> {
                example: r#""next_message""#,
                default: Value(|| json!(ToolVisibility::default())),
                workspace: Counts,
                merge: replace,
            }
            /// How long `haft run` and sub-agents wait at their end for the results of calls with
            /// `run_in_background`; the model gets each result. 0: not at all (`--no-wait`). A workspace may
            /// only lower it.
            wait_seconds: Option<u64> {
                unit: "seconds",
                example: "600",
                default: Value(|| json!(WAIT_SECONDS)),
                workspace: Lowers,
                merge: lower(WAIT_SECONDS),
            }
            /// Maximum turns in a row that finished background jobs may start without a message from you. 0:
            /// none; the model gets the results with your next message. A workspace may only lower it.
            wakes: Option<usize> {
                example: "20",
                default: Value(|| json!(WAKES)),
                workspace: Lowers,
                merge: lower(WAKES),
            }
            /// Maximum messages of the inbox that one request shows in full. Older ones are summarized; the whole of
            /// them can be read by a handle. A workspace may only lower it.
            inbox_messages: Option<usize> {
                example: "100",
                default: Value(|| json!(INBOX_MESSAGES)),
                workspace: Lowers,
                merge: lower(INBOX_MESSAGES),
            }
            /// The same for the bytes of their texts.
            inbox_bytes: Option<usize> {
                unit: "bytes",
                example: "65536",
                default: Value(|| json!(INBOX_BYTES)),
                workspace: Lowers,
                merge: lower(INBOX_BYTES),
            }
        }
    }
}

section! {
    /// `[chat]`: how `haft chat` behaves at a terminal. Only the person's own file counts.
    #[derive(Copy, Default, Eq)]
    #[serde(default)]
    pub struct ChatSection, merged whole {
        /// How `haft chat` and `haft run` behave at a terminal.
        "[chat]" {
            /// How you learn of a question, and of the end of a turn that took over 10 s: "all", "bell",
            /// "title" (the terminal's title, not with NO_COLOR), "none".
            notify: Option<Notify> {
                example: r#""all""#,
                default: Value(|| json!(Notify::default())),
                workspace: OwnFile,
            }
            /// Choice of the terminal's own 16 colours: "dark", "light", "color_blind" (blue and
            /// yellow in place of green and red), "none" (as with NO_COLOR).
            theme: Option<Theme> {
                example: r#""dark""#,
                default: Value(|| json!(Theme::default())),
                workspace: OwnFile,
            }
        }
    }
}

section! {
    /// `[subagent]`: limits of agents that an agent starts.
    #[derive(Default, Eq)]
    #[serde(default)]
    pub struct SubagentSection, merged by_key {
        /// Limits of sub-agents: agents that an agent starts.
        "[subagent]" {
            /// Tools of a sub-agent whose profile names none; a profile that came with the workspace gets no
            /// others, whatever it names. "all" is the same as no list. If both files have a list, only tools
            /// on both remain.
            #[serde(deserialize_with = "tool_list::names")]
            tools: Option<Vec<String>> {
                words: tool_list::TYPE,
                example: r#"["read", "grep", "glob"]"#,
                default: Words("those of the agent that starts it"),
                workspace: Narrows,
                merge: intersect,
            }
            /// Whether sub-agents may start sub-agents. In a workspace's file `true` needs trust.
            nested: Option<bool> {
                example: "false",
                default: Value(|| json!(false)),
                workspace: Narrows,
                merge: narrow(|theirs: &bool, mine| !*theirs || mine == Some(&true)),
            }
            /// Maximum model responses of one sub-agent. A workspace may only lower it.
            max_steps: Option<usize> {
                example: "40",
                default: Value(|| json!(SUBAGENT_STEPS)),
                workspace: Lowers,
                merge: lower(SUBAGENT_STEPS),
            }
            /// Time limit of one sub-agent, in seconds. A workspace may only lower it.
            seconds: Option<u64> {
                unit: "seconds",
                example: "600",
                default: Value(|| json!(SUBAGENT_SECONDS)),
                workspace: Lowers,
                merge: lower(SUBAGENT_SECONDS),
            }
            /// Token limit of one sub-agent, requests and responses together. A workspace may only lower it.
            tokens: Option<u64> {
                unit: "tokens",
                example: "200_000",
                default: Words("no limit"),
                workspace: Lowers,
                merge: lower(u64::MAX),
            }
        }
    }
}

/// The terminal colours of an output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Theme {
    /// For a dark background.
    #[default]
    Dark,
    /// For a light background: no yellow.
    Light,
    /// Blue and yellow in place of green and red.
    ColorBlind,
    /// No colours, as with `NO_COLOR`.
    None,
}

/// The way to notify a person.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Notify {
    /// The bell, and the reason in the terminal's title.
    #[default]
    All,
    /// The bell.
    Bell,
    /// The terminal's title.
    Title,
    /// No notification.
    None,
}

/// The time at which a model is informed of a new tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolVisibility {
    /// With the next message of the person.
    #[default]
    NextMessage,
    /// With the next request to the model.
    NextRequest,
}

named!(OneOf: Theme, Notify, ToolVisibility);

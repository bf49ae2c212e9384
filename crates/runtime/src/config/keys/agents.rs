//! Keys of agents and models: `[agent]`, `[chat]`, `[subagent]`, `[models.NAME]`.

use serde_json::json;

use super::{Fallback::*, Key, Section, Workspace::*, merging::*};
use crate::config::{
    CALLS, Notify, STEPS, SUBAGENT_SECONDS, SUBAGENT_STEPS, Theme, Visible, WAIT_SECONDS, WAKES,
};
pub(super) static AGENT: Section = Section {
    header: "[agent]",
    doc: "How `haft run` and `haft chat` work.",
    merge: None,
    keys: &[
        Key {
            name: "model",
            doc: "The model, as `--model` takes it: PROVIDER:MODEL (anthropic, openai, gemini, \
                 openrouter, mistral, deepseek, xai, groq, ollama), URL#MODEL, script:FILE, or the \
                 NAME of a section `[models.NAME]`. Without it, haft uses $HAFT_MODEL. API keys come \
                 from the usual variables (ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY …) or \
                 from `haft login`; other addresses from ANTHROPIC_BASE_URL, OPENAI_BASE_URL and \
                 OLLAMA_HOST.",
            example: r#""anthropic:claude-sonnet-5-5""#,
            default: Words("first provider with a key"),
            workspace: NeedsTrust,
            merge: Some(|mine, theirs, gate| {
                replace_trusted(&mut mine.agent.model, &mut theirs.agent.model, gate);
            }),
        },
        Key {
            name: "profile",
            doc: "The profile to start with: `.haft/agents/NAME.md`, or one of haft's own.",
            example: r#""reviewer""#,
            default: Words("none"),
            workspace: Counts,
            merge: Some(|mine, theirs, _| replace(&mut mine.agent.profile, &mut theirs.agent.profile)),
        },
        Key {
            name: "max_steps",
            doc: "Maximum model responses per turn. A workspace may only lower it.",
            example: "50",
            default: Value(|| json!(STEPS)),
            workspace: Lowers,
            merge: Some(|mine, theirs, _| {
                lower(&mut mine.agent.max_steps, &mut theirs.agent.max_steps, STEPS);
            }),
        },
        Key {
            name: "max_calls",
            doc: "Maximum tool calls of one response that are run, where the model writes them in a \
                 dialect (`dialect`, `--dialect`). The model is told how many were not run. 1 is \
                 HyperAgents' own rule; 0: no limit. A workspace may only lower it.",
            example: "40",
            default: Value(|| json!(CALLS)),
            workspace: Lowers,
            merge: Some(|mine, theirs, _| {
                // 0 is no limit.
                let limit = |it: Option<usize>| it.map(|it| if it == 0 { usize::MAX } else { it });
                mine.agent.max_calls = limit(mine.agent.max_calls);
                theirs.agent.max_calls = limit(theirs.agent.max_calls);
                lower(&mut mine.agent.max_calls, &mut theirs.agent.max_calls, CALLS);
            }),
        },
        Key {
            name: "visible",
            doc: "When the model learns of a new tool: \"next_message\" (with your next message) or \
                 \"next_request\" (with the next request to the model).",
            example: r#""next_message""#,
            default: Value(|| json!(Visible::default())),
            workspace: Counts,
            merge: Some(|mine, theirs, _| replace(&mut mine.agent.visible, &mut theirs.agent.visible)),
        },
        Key {
            name: "wait_seconds",
            doc: "How long `haft run` and sub-agents wait at their end for the results of calls with \
                 `run_in_background`; the model is told each one. 0: not at all (`--no-wait`). A \
                 workspace may only lower it.",
            example: "600",
            default: Value(|| json!(WAIT_SECONDS)),
            workspace: Lowers,
            merge: Some(|mine, theirs, _| {
                lower(&mut mine.agent.wait_seconds, &mut theirs.agent.wait_seconds, WAIT_SECONDS);
            }),
        },
        Key {
            name: "wakes",
            doc: "Maximum turns in a row that finished background jobs may start without a message \
                 from you. 0: none; the model gets the results with your next message. A workspace \
                 may only lower it.",
            example: "20",
            default: Value(|| json!(WAKES)),
            workspace: Lowers,
            merge: Some(|mine, theirs, _| lower(&mut mine.agent.wakes, &mut theirs.agent.wakes, WAKES)),
        },
    ],
};

pub(super) static CHAT: Section = Section {
    header: "[chat]",
    doc: "How `haft chat` and `haft run` behave at a terminal.",
    merge: Some(|_, theirs, gate| own_file(&mut theirs.chat, gate)),
    keys: &[
        Key {
            name: "notify",
            doc: "How you learn of a question, and of the end of a turn that took over 10 s: \"all\", \
                 \"bell\", \"title\" (the terminal's title, not with NO_COLOR), \"none\".",
            example: r#""all""#,
            default: Value(|| json!(Notify::default())),
            workspace: OwnFile,
            merge: None,
        },
        Key {
            name: "theme",
            doc: "Which of the terminal's own 16 colours are used: \"dark\", \"light\", \"color_blind\" \
                 (blue and yellow in place of green and red), \"none\" (as with NO_COLOR).",
            example: r#""dark""#,
            default: Value(|| json!(Theme::default())),
            workspace: OwnFile,
            merge: None,
        },
    ],
};

pub(super) static SUBAGENT: Section = Section {
    header: "[subagent]",
    doc: "Limits of sub-agents: agents that an agent starts.",
    merge: None,
    keys: &[
        Key {
            name: "tools",
            doc: "Tools of a sub-agent whose profile names none; a profile that came with the \
                 workspace gets no others, whatever it names. \"all\" is the same as no list. If both \
                 files have a list, only tools on both remain.",
            example: r#"["read", "grep", "glob"]"#,
            default: Words("those of the agent that starts it"),
            workspace: Narrows,
            merge: Some(|mine, theirs, _| intersect(&mut mine.subagent.tools, &mut theirs.subagent.tools)),
        },
        Key {
            name: "nested",
            doc: "Whether sub-agents may start sub-agents. In a workspace's file `true` needs trust.",
            example: "false",
            default: Value(|| json!(false)),
            workspace: Narrows,
            merge: Some(|mine, theirs, gate| {
                let usual = mine.subagent.nested == Some(true);
                narrow(&mut mine.subagent.nested, &mut theirs.subagent.nested, gate, |theirs| {
                    usual || !*theirs
                });
            }),
        },
        Key {
            name: "max_steps",
            doc: "Maximum model responses of one sub-agent. A workspace may only lower it.",
            example: "40",
            default: Value(|| json!(SUBAGENT_STEPS)),
            workspace: Lowers,
            merge: Some(|mine, theirs, _| {
                lower(&mut mine.subagent.max_steps, &mut theirs.subagent.max_steps, SUBAGENT_STEPS);
            }),
        },
        Key {
            name: "seconds",
            doc: "Time limit of one sub-agent, in seconds. A workspace may only lower it.",
            example: "600",
            default: Value(|| json!(SUBAGENT_SECONDS)),
            workspace: Lowers,
            merge: Some(|mine, theirs, _| {
                lower(&mut mine.subagent.seconds, &mut theirs.subagent.seconds, SUBAGENT_SECONDS);
            }),
        },
        Key {
            name: "tokens",
            doc: "Token limit of one sub-agent, requests and responses together. A workspace may only \
                 lower it.",
            example: "200_000",
            default: Words("no limit"),
            workspace: Lowers,
            merge: Some(|mine, theirs, _| {
                lower(&mut mine.subagent.tokens, &mut theirs.subagent.tokens, u64::MAX);
            }),
        },
    ],
};

pub(super) static MODELS: Section = Section {
    header: "[models.local]",
    doc: "A model under a name of your own, for `--model local` and for profiles. In a workspace's \
         file a section replaces yours of the same name. It needs trust, since it decides who is sent \
         your code and your key.",
    merge: Some(|mine, theirs, gate| extend_trusted(&mut mine.models, &mut theirs.models, gate)),
    keys: &[
        Key {
            name: "api",
            doc: "Wire format: \"chat\" (OpenAI Chat Completions, which most servers support), \
                 \"responses\" (OpenAI Responses), \"anthropic\" (Anthropic Messages).",
            example: r#""chat""#,
            default: Words("\"chat\" with `url`, else the provider's"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "url",
            doc: "Address of the server, up to and including the version. Without it, `api` alone \
                 means OpenAI or Anthropic.",
            example: r#""http://127.0.0.1:8080/v1""#,
            default: Words("the provider's"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "model",
            doc: "Name of the model there. Without `api` and `url` it may name a provider, as in \
                 \"anthropic:claude-opus-5-5\"; the other keys then change that model.",
            example: r#""qwen3-coder""#,
            default: Required,
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "key_env",
            doc: "Environment variable that holds the API key. With a `url`, haft doesn't use the \
                 usual variables: a key belongs to the address that it was issued for. Keys and \
                 `headers` are not sent to another machine over plain http.",
            example: r#""LOCAL_KEY""#,
            default: Words("none"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "headers",
            doc: "HTTP headers of each request.",
            example: r#"{ "x-team" = "tools" }"#,
            default: Words("none"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "window",
            doc: "Context window: maximum tokens of a request and its response together.",
            example: "128_000",
            default: Words("what is known of the model, else 128,000"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "longest",
            doc: "Maximum tokens of a response.",
            example: "16_384",
            default: Words("what is known of the model, else 16,384"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "dialect",
            doc: "How a model without native tool calls writes them: \"json\", \"bracket\", \"xml\", \
                 \"hermes\", \"tool_use\", or a format of your own: see `[models.c.dialect]` below.",
            example: r#""hermes""#,
            default: Words("native tool calls"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "images",
            doc: "Whether it accepts images.",
            example: "false",
            default: Words("what is known of the model, else false"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "effort",
            doc: "Reasoning effort: \"low\", \"medium\", \"high\", or what the provider knows; for older \
                 Claude models a number of tokens.",
            example: r#""medium""#,
            default: Words("the provider's"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "own_tools",
            doc: "The provider's own tools that it may use: \"web_search\", \"image_gen\".",
            example: r#"["web_search"]"#,
            default: Words("none"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "price",
            doc: "Price of a million tokens, in US dollars: of the request, of the part read from the \
                 prompt cache (`cached`), of the part written to it (`kept`), of the response.",
            example: "{ input = 3.0, cached = 0.3, kept = 3.75, output = 15.0 }",
            default: Words("what is known of the model"),
            workspace: NeedsTrust,
            merge: None,
        },
    ],
};

pub(super) static MODELS_DIALECT: Section = Section {
    header: "[models.c.dialect]",
    doc: "A format of your own in place of a dialect's name, for models that were taught another one. \
         What is left out is as in \"bracket\". (needs trust)",
    merge: None,
    keys: &[
        Key {
            name: "start_char",
            doc: "Character that a tag begins with.",
            example: r#""{""#,
            default: Words("\"[\""),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "end_char",
            doc: "Character that a tag ends with.",
            example: r#""}""#,
            default: Words("\"]\""),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "slash_means_open",
            doc: "Whether `[/read]` opens a block and `[read/]` closes it; false: the other way round, \
                 as in XML.",
            example: "false",
            default: Words("true"),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "arg_style",
            doc: "Where arguments are: \"line\" (one on each line before the body) or \"inline\" (in the \
                 opening tag).",
            example: r#""inline""#,
            default: Words("\"line\""),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "arg_prefix",
            doc: "What a line that is an argument begins with.",
            example: r#""--""#,
            default: Words("\"@@\""),
            workspace: NeedsTrust,
            merge: None,
        },
        Key {
            name: "arg_kv_sep",
            doc: "What stands between an argument's name and its value.",
            example: r#"": ""#,
            default: Words("\"=\""),
            workspace: NeedsTrust,
            merge: None,
        },
    ],
};

//! haft.toml as a whole: the keys at its top, and its sections.

use std::{collections::BTreeMap, path::PathBuf};

use kit::files::OtherNames;
use policy::Approve;
use sandbox::SandboxMode;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    AgentSection, ChatSection, CommandRule, CommandsSection, HookSection, LONGEST, LimitsSection,
    ModelSection, Net, ProgramsSection, SearchSection, SecretSection, ServerSection, SshSection,
    SubagentSection, ToolSection, TriggerSection, UndoSection, WorkersSection,
    keys::{Fallback::*, declare::section, merging::*, types::named},
    tool_list,
};
use crate::deadline::DEADLINE;

section! {
    /// The configuration in one file, or in one layer above the files. An unknown key is an error: a typo
    /// must not pass as a default.
    #[derive(Default)]
    #[serde(default)]
    pub struct Config, merged by_key {
        "" {
            /// Allowlist of tools, or "all". A tool that is not on it does not exist for any model. If both
            /// files have a list, only tools on both remain.
            #[serde(deserialize_with = "tool_list::names")]
            tools: Option<Vec<String>> {
                words: tool_list::TYPE,
                example: r#"["read", "edit", "write", "grep", "glob"]"#,
                default: Words("all"),
                workspace: Narrows,
                merge: intersect,
            }
            /// Maximum size of the tool list that a model is sent, in tokens (bytes / 4); 0 for no limit.
            /// Tools that don't fit stay callable: the model finds them with `search_tools` and calls them by
            /// name or with `call_tool`. `haft tools --cost` shows which are listed. All tools of another
            /// toolset than haft's are listed.
            list_tokens: Option<usize> {
                unit: "tokens",
                example: "3000",
                default: Words("3000 over MCP, 4000 for haft's own agents; haft's own tools take 8 kB of it, 12 kB for agents"),
                workspace: Counts,
                merge: replace,
            }
            /// Tools that are always listed, whatever they cost. A workspace may add some.
            listed: Vec<String> {
                example: r#"["undo", "weather"]"#,
                default: Words("none"),
                workspace: Counts,
                merge: append,
            }
            /// Names under which the tools are shown, for prompts written for another ecosystem: haft, nav,
            /// hyperagents, navi, terrarium.
            toolset: Option<String> {
                option: "--toolset",
                example: r#""haft""#,
                default: Value(|| json!("haft")),
                workspace: Counts,
                merge: replace,
            }
            /// Additional folders with tools of your own, besides `tools` beside your own haft.toml and
            /// `.haft/tools` in the workspace. Relative to this file, or below ~. A folder inside the
            /// workspace has to be below its .haft.
            tools_dirs: Vec<PathBuf> {
                example: r#"["~/tools", "../x"]"#,
                default: Words("none"),
                workspace: NeedsTrust,
                merge: append_trusted,
            }
            /// Additional folders that tools may reach, relative to the workspace; `:ro` makes one read-only.
            roots: Vec<String> {
                option: "--root",
                example: r#"["../shared:ro"]"#,
                default: Words("none"),
                workspace: NeedsTrust,
                merge: append_trusted,
            }
            /// Files that tools may change: "read-only" (none), "workspace" (the workspace and roots without
            /// `:ro`), "full" (the same for files; commands run outside the OS sandbox, each after approval).
            /// A workspace may lower it; raising it needs trust.
            sandbox: Option<SandboxMode> {
                option: "--sandbox",
                example: r#""workspace""#,
                default: Value(|| json!(SandboxMode::default())),
                workspace: Narrows,
                merge: narrow(|theirs, mine| rank(*theirs) <= rank(mine.copied().unwrap_or_default())),
            }
            /// Handling of calls that need a person's approval: "ask", "ask-edits" (the same, and asks before
            /// each file edit, with its diff), "auto" (allows it) or "never" (denies it). "auto" doesn't
            /// cover addresses that are not public, SSH hosts with an unknown key, and command lines that
            /// your `deny` rules can't judge: those are refused. In a workspace's file a value that asks less
            /// than yours needs trust.
            approve: Option<Approve> {
                option: "--approve",
                example: r#""ask""#,
                default: Value(|| json!(Approve::default())),
                workspace: Narrows,
                merge: approve,
            }
            /// Whether tools may read a file that has another hard link outside the roots: "refuse" or
            /// "allow". Package managers that link files from a shared cache need "allow", which needs trust
            /// in a workspace's file.
            hard_links: Option<HardLinks> {
                example: r#""refuse""#,
                default: Value(|| json!(HardLinks::Refuse)),
                workspace: Narrows,
                merge: hard_links,
            }
            /// Time limit of a call. A workspace may only lower it.
            deadline_seconds: Option<u64> {
                unit: "seconds",
                range: 1..=LONGEST,
                example: "120",
                default: Value(|| json!(DEADLINE.as_secs())),
                workspace: Lowers,
                merge: lower(DEADLINE.as_secs()),
            }
            /// Environment variables that commands get, by name, besides a short list of harmless ones such
            /// as PATH and LANG.
            env: Vec<String> {
                example: r#"["DATABASE_URL"]"#,
                default: Words("none"),
                workspace: NeedsTrust,
                merge: append_trusted,
            }
            /// Parts of the OS sandbox that commands may run without, on machines that lack them: namespaces,
            /// landlock, signals, seccomp. Otherwise haft refuses to run commands there.
            accept_weaker: Vec<String> {
                option: "--accept-weaker",
                example: r#"["landlock"]"#,
                default: Words("none"),
                workspace: NeedsTrust,
                merge: append_trusted,
            }
            /// Tools that a model may call only after it has read their manual in the same session. A
            /// workspace may add some.
            manual_first: Vec<String> {
                example: r#"["render_3d"]"#,
                default: Words("none"),
                workspace: Counts,
                merge: append,
            }
            /// Whether the hooks of your own Claude Code settings, ~/.claude/settings.json, run in haft too. Those
            /// of a workspace's .claude/settings.json run where you trust the workspace.
            claude_hooks: bool {
                example: "true",
                default: Words("false"),
                workspace: OwnFile,
                merge: own_file,
            }
            /// Whether hooks of Claude Code's settings may change the workspace, as formatters do. Otherwise it is
            /// read-only for them.
            claude_hooks_write: bool {
                example: "true",
                default: Words("false"),
                workspace: OwnFile,
                merge: own_file,
            }
            /// The engine through which work goes to other machines (`haft worker`, `haft run --on`):
            /// "nats://HOST:PORT", "tls://HOST:PORT", or "sqlite", a database in the state folder, for workers of
            /// this machine.
            engine: Option<String> {
                example: r#""nats://queue.example.org:4222""#,
                default: Words("sqlite"),
                workspace: OwnFile,
                merge: own_file,
            }
        }
        tables {
            /// The rules about commands.
            commands: CommandsSection as CommandsSection = CommandsSection::merge;
            /// The rules about commands in their long form, each with examples.
            command: Vec<CommandRule> as CommandRule = rules;
            /// The hooks around calls, prompts and sessions.
            hook: Vec<HookSection> as HookSection = append_trusted;
            /// The hosts that may be contacted.
            net: Net as Net = Net::merge;
            /// The named secrets.
            #[serde(rename = "secret")]
            secrets: BTreeMap<String, SecretSection> as SecretSection = extend_trusted;
            /// The web search.
            search: SearchSection as SearchSection = replace_section;
            /// The access to other machines.
            ssh: SshSection as SshSection = replace_section;
            /// The paths of programs that tools start.
            programs: ProgramsSection as ProgramsSection = replace_section;
            /// The grants of tool files, by name.
            #[serde(rename = "tool")]
            sections: Tables<ToolSection> as ToolSection = beside;
            /// The MCP servers that haft may connect to, by name.
            #[serde(rename = "mcp")]
            servers: Tables<ServerSection> as ServerSection = beside;
            /// The settings of agents.
            agent: AgentSection as AgentSection = AgentSection::merge;
            /// The settings of `haft chat` at a terminal.
            chat: ChatSection as ChatSection = own_file;
            /// The limits of commands.
            limits: LimitsSection as LimitsSection = LimitsSection::merge;
            /// Deletions by commands.
            undo: UndoSection as UndoSection = UndoSection::merge;
            /// The limits of agents that an agent starts.
            subagent: SubagentSection as SubagentSection = SubagentSection::merge;
            /// The triggers.
            #[serde(rename = "trigger")]
            triggers: Vec<TriggerSection> as TriggerSection = append_trusted;
            /// Models under names that a person chose.
            models: BTreeMap<String, ModelSection> as ModelSection = extend_trusted;
            /// The engine for work on other machines.
            workers: WorkersSection as WorkersSection = own_file;
        }
    }
}

/// Whether haft reads files that have names outside the roots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HardLinks {
    /// haft refuses them.
    Refuse,
    /// haft reads them.
    Allow,
}

named!(OneOf: HardLinks);

impl From<HardLinks> for OtherNames {
    fn from(links: HardLinks) -> Self {
        match links {
            HardLinks::Refuse => Self::Refuse,
            HardLinks::Allow => Self::Allow,
        }
    }
}

/// Tables under names that a person chose: the user's own, and those of the workspace. A workspace's table
/// never replaces the user's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "BTreeMap<String, T>", bound(deserialize = "T: Deserialize<'de>"))]
pub struct Tables<T> {
    /// The tables of the user's file, for the user's own tools and servers; the whole table of a single file.
    pub user: BTreeMap<String, T>,
    /// The tables of the workspace's file, for the workspace's tools and servers.
    pub workspace: BTreeMap<String, T>,
}

impl<T> Default for Tables<T> {
    fn default() -> Self {
        Self { user: BTreeMap::new(), workspace: BTreeMap::new() }
    }
}

impl<T> From<BTreeMap<String, T>> for Tables<T> {
    fn from(user: BTreeMap<String, T>) -> Self {
        Self { user, workspace: BTreeMap::new() }
    }
}

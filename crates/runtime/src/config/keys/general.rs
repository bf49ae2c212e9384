//! Keys at the top of haft.toml, and `[limits]`.

use policy::Approve;
use sandbox::SandboxMode;
use sandbox::limits::Limits;
use serde_json::json;

use super::{Fallback::*, Key, Section, Workspace::*, merging::*};
use crate::{
    DEADLINE,
    config::{HardLinks, LONGEST, LimitsSection},
};
pub(super) static TOP: Section = Section {
    header: "",
    doc: "",
    merge: None,
    keys: &[
        Key {
            name: "tools",
            doc: "Allowlist of tools, or \"all\". A tool that is not on it does not exist for any model. \
                 If both files have a list, only tools on both remain.",
            example: r#"["read", "edit", "write", "grep", "glob"]"#,
            default: Words("all"),
            workspace: Narrows,
            merge: Some(|mine, theirs, _| intersect(&mut mine.tools, &mut theirs.tools)),
        },
        Key {
            name: "list_tokens",
            doc: "Maximum size of the tool list that a model is sent, in tokens (bytes / 4); 0 for no \
                 limit. Tools that don't fit stay callable: the model finds them with `search_tools` \
                 and calls them by name or with `call_tool`. `haft tools --cost` shows which are \
                 listed. All tools of another toolset than haft's are listed.",
            example: "3000",
            default: Words("3000 over MCP, 8000 for haft's own agents"),
            workspace: Counts,
            merge: Some(|mine, theirs, _| replace(&mut mine.list_tokens, &mut theirs.list_tokens)),
        },
        Key {
            name: "listed",
            doc: "Tools that are always listed, whatever they cost. A workspace may add some.",
            example: r#"["undo", "weather"]"#,
            default: Words("none"),
            workspace: Counts,
            merge: Some(|mine, theirs, _| append(&mut mine.listed, &mut theirs.listed)),
        },
        Key {
            name: "toolset",
            doc: "Names under which the tools are shown, for prompts written for another ecosystem: \
                 haft, nav, hyperagents, navi, terrarium.",
            example: r#""haft""#,
            default: Value(|| json!("haft")),
            workspace: Counts,
            merge: Some(|mine, theirs, _| replace(&mut mine.toolset, &mut theirs.toolset)),
        },
        Key {
            name: "tools_dirs",
            doc: "Additional folders with tools of your own, besides `tools` beside your own haft.toml \
                 and `.haft/tools` in the workspace. Relative to this file, or below ~. A folder \
                 inside the workspace has to be below its .haft.",
            example: r#"["~/tools", "../x"]"#,
            default: Words("none"),
            workspace: NeedsTrust,
            merge: Some(|mine, theirs, gate| {
                append_trusted(&mut mine.tools_dirs, &mut theirs.tools_dirs, gate);
            }),
        },
        Key {
            name: "roots",
            doc: "Additional folders that tools may reach, relative to the workspace; `:ro` makes one \
                 read-only.",
            example: r#"["../shared:ro"]"#,
            default: Words("none"),
            workspace: NeedsTrust,
            merge: Some(|mine, theirs, gate| append_trusted(&mut mine.roots, &mut theirs.roots, gate)),
        },
        Key {
            name: "sandbox",
            doc: "What tools may change: \"read-only\" (nothing), \"workspace\" (the workspace and roots \
                 without `:ro`), \"full\" (the same for files; commands run outside the OS sandbox, \
                 each after approval). A workspace may lower it; raising it needs trust.",
            example: r#""workspace""#,
            default: Value(|| json!(SandboxMode::default())),
            workspace: Narrows,
            merge: Some(|mine, theirs, gate| {
                let usual = mine.sandbox.unwrap_or_default();
                narrow(&mut mine.sandbox, &mut theirs.sandbox, gate, |theirs| rank(*theirs) <= rank(usual));
            }),
        },
        Key {
            name: "approve",
            doc: "What happens where a rule wants a person's approval: \"ask\", \"ask-edits\" (the same, \
                 and asks before each file edit, with its diff), \"auto\" (allows it) or \"never\" \
                 (denies it). \"auto\" doesn't cover addresses that are not public, SSH hosts with an \
                 unknown key, and command lines that your `deny` rules can't judge: those are \
                 refused. In a workspace's file a value that asks less than yours needs trust.",
            example: r#""ask""#,
            default: Value(|| json!(Approve::default())),
            workspace: Narrows,
            merge: Some(|mine, theirs, gate| {
                let usual = mine.approve.unwrap_or_default();
                if let Some(approve) = theirs.approve {
                    gate.label = format!("`approve = \"{}\"`", approve.name());
                }
                narrow(&mut mine.approve, &mut theirs.approve, gate, |theirs| asks_no_less(*theirs, usual));
            }),
        },
        Key {
            name: "hard_links",
            doc: "Whether tools may read a file that has another hard link outside the roots: \"refuse\" \
                 or \"allow\". Package managers that link files from a shared cache need \"allow\", which \
                 needs trust in a workspace's file.",
            example: r#""refuse""#,
            default: Value(|| json!(HardLinks::Refuse)),
            workspace: Narrows,
            merge: Some(|mine, theirs, gate| {
                gate.label = "`hard_links = \"allow\"`".to_owned();
                let refuses = |theirs: &HardLinks| *theirs == HardLinks::Refuse;
                narrow(&mut mine.hard_links, &mut theirs.hard_links, gate, refuses);
            }),
        },
        Key {
            name: "deadline_seconds",
            doc: "Time limit of a call, in seconds, 1 to 3600. A workspace may only lower it.",
            example: "120",
            default: Value(|| json!(DEADLINE.as_secs())),
            workspace: Lowers,
            merge: Some(|mine, theirs, _| {
                lower(&mut mine.deadline_seconds, &mut theirs.deadline_seconds, DEADLINE.as_secs());
                mine.deadline_seconds = mine.deadline_seconds.map(|it| it.clamp(1, LONGEST));
            }),
        },
        Key {
            name: "env",
            doc: "Environment variables that commands get, by name, besides a short list of harmless \
                 ones such as PATH and LANG.",
            example: r#"["DATABASE_URL"]"#,
            default: Words("none"),
            workspace: NeedsTrust,
            merge: Some(|mine, theirs, gate| append_trusted(&mut mine.env, &mut theirs.env, gate)),
        },
        Key {
            name: "accept_weaker",
            doc: "Parts of the OS sandbox that commands may run without, on machines that lack them: \
                 namespaces, landlock, signals, seccomp. Otherwise haft refuses to run commands \
                 there.",
            example: r#"["landlock"]"#,
            default: Words("none"),
            workspace: NeedsTrust,
            merge: Some(|mine, theirs, gate| {
                append_trusted(&mut mine.accept_weaker, &mut theirs.accept_weaker, gate);
            }),
        },
        Key {
            name: "manual_first",
            doc: "Tools that a model may call only after it has read their manual in the same session. \
                 A workspace may add some.",
            example: r#"["render_3d"]"#,
            default: Words("none"),
            workspace: Counts,
            merge: Some(|mine, theirs, _| append(&mut mine.manual_first, &mut theirs.manual_first)),
        },
    ],
};

pub(super) static LIMITS: Section = Section {
    header: "[limits]",
    doc: "Limits of commands. A workspace may only lower them.",
    merge: None,
    keys: &[
        Key {
            name: "processes",
            doc: "Processes of one command, with all that it starts, 2 to 2048. haft ends a command \
                 that has more, such as a fork bomb; other commands go on.",
            example: "256",
            default: Value(|| json!(Limits::default().tree)),
            workspace: Lowers,
            merge: Some(|mine, theirs, _| {
                lower(&mut mine.limits.processes, &mut theirs.limits.processes, Limits::default().tree);
            }),
        },
        Key {
            name: "memory_mib",
            doc: "Memory of all commands of a session together, in MiB. haft ends the largest process \
                 of a session that uses more.",
            example: "2048",
            default: Words("half of the machine's memory, 256 to 2048"),
            workspace: Lowers,
            merge: Some(|mine, theirs, _| {
                lower(
                    &mut mine.limits.memory_mib,
                    &mut theirs.limits.memory_mib,
                    Limits::default().memory >> 20,
                );
            }),
        },
        Key {
            name: "outputs_mib",
            doc: "Outputs of a session that were too long to show, together, in MiB. The oldest make \
                 room for new ones.",
            example: "4096",
            default: Value(|| json!(LimitsSection::OUTPUTS)),
            workspace: Lowers,
            merge: Some(|mine, theirs, _| {
                lower(&mut mine.limits.outputs_mib, &mut theirs.limits.outputs_mib, LimitsSection::OUTPUTS);
            }),
        },
    ],
};

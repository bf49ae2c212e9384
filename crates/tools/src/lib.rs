//! What the model can do: one file is one tool.

mod agents;
mod code;
mod files;
mod jobs;
mod search;
mod shell;
mod toolsets;
mod toolsmith;

use std::sync::Arc;

use kit::AnyTool;

pub use toolsets::{HAFT, of_agents, toolset, toolsets};
pub use toolsmith::with_enabled;

/// What a client is told about a toolset as a whole, and may show its model.
pub fn instructions(toolset: &str) -> &'static str {
    if toolset == HAFT { INSTRUCTIONS } else { OTHERS }
}

const OTHERS: &str = "\
Tools for the files of one workspace, and for commands. Commands run in a sandbox: they write below the workspace, and in a home and a /tmp of their own that end with the session; they have no network but what a person grants.";

const INSTRUCTIONS: &str = "\
Tools for the files of one workspace, and for commands. `read` shows lines as LINE:HASH|text; `edit` takes LINE:HASH as anchors, many edits per call, all or nothing.
A fault says what happened and what to do next. Long outputs are cut and kept: read or search the rest by its handle, such as out_12.
Calls on different files may be made together.
Commands run in a sandbox: they write below the workspace, and in a home and a /tmp of their own that end with the session; `shell` and `python` reach the hosts named in `net`. `bash` keeps its folder and variables; `shell` moves what takes long to the background, where `wait`, `read_job` and `stop_task` look after it.";

/// Every tool, family by family.
pub fn all() -> Vec<Arc<dyn AnyTool>> {
    [files::all(), search::all(), shell::all(), code::all(), jobs::all(), toolsmith::all()].concat()
}

/// The manual of a tool, where there is more to say than its description.
pub fn manual(tool: &str) -> Option<&'static str> {
    MANUALS.iter().find(|(name, _)| *name == tool).map(|(_, manual)| *manual)
}

/// Every file of `manuals/`, by the name of its tool.
pub const MANUALS: &[(&str, &str)] = &[
    ("bash", include_str!("../manuals/bash.md")),
    ("edit", include_str!("../manuals/edit.md")),
    ("glob", include_str!("../manuals/glob.md")),
    ("grep", include_str!("../manuals/grep.md")),
    ("interact", include_str!("../manuals/interact.md")),
    ("python", include_str!("../manuals/python.md")),
    ("shell", include_str!("../manuals/shell.md")),
    ("shell_status", include_str!("../manuals/shell_status.md")),
    ("test_tool", include_str!("../manuals/test_tool.md")),
    ("tree", include_str!("../manuals/tree.md")),
    ("write_tool", include_str!("../manuals/write_tool.md")),
];

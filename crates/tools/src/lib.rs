//! The tools that a model can call: one file per tool, each only on top of `kit`.

mod agents;
mod cad;
mod code;
mod files;
mod groups;
mod importance;
mod jobs;
mod manuals;
mod media;
mod notes;
#[cfg(feature = "ssh")]
mod remote;
mod search;
mod servers;
mod shell;
mod toolsets;
mod toolsmith;
mod triggers;
mod web;

use std::sync::Arc;

use kit::{AnyTool, Bucket, Hint, Origin, Spec, decoders::Entry};

pub use importance::{DAILY, SELDOM, UNLISTED};
pub use manuals::{MANUALS, manual};
pub use toolsets::{HAFT, NAV, all, manual_in, of_agents, of_clients, shown_in, toolset, toolsets};
pub use toolsmith::with_enabled;
pub use web::page_as_markdown;

/// The decoders of untrusted bytes that the tools need. A static: a constant's functions would be compiled by
/// the crate that names it, and `haft` is compiled without optimization.
pub static DECODERS: &[Entry] = &[
    Entry::of::<media::Look>(),
    Entry::of::<media::LookWithFonts>(),
    #[cfg(feature = "pdf")]
    Entry::of::<media::ReadPages>(),
    Entry::of::<web::ReadAsText>(),
    Entry::of::<web::ReadResults>(),
    Entry::of::<cad::Measure>(),
    Entry::of::<cad::Draw>(),
];

/// Returns the instructions for clients of a toolset, if it shows these tools.
pub fn instructions<'a>(toolset: &str, shown: impl IntoIterator<Item = &'a Spec>) -> String {
    // A tool file with the name of a built-in tool is another tool.
    let is_ours = |it: &&Spec| !matches!(it.origin, Origin::File(_));
    let shown: Vec<&Spec> = shown.into_iter().filter(is_ours).collect();
    let names = || shown.iter().map(|it| it.name.as_str());
    let mut lines = vec![if names().any(runs_commands) { WITH_COMMANDS } else { FILES_ONLY }];
    if toolset == HAFT {
        lines.push(ANSWERS);
    }
    lines.extend(kit::hints(names(), hints_of(toolset)));
    lines.join("\n")
}

const WITH_COMMANDS: &str = "Tools for the files of one workspace, and for commands.";

const FILES_ONLY: &str = "Tools for the files of one workspace.";

const ANSWERS: &str = "\
A fault says what happened and what to do next. Long outputs are truncated and stored: read or search the rest by handle, such as out_12.
Calls on different files may be made together.";

/// Returns the function that gives the hint on a tool of this toolset.
pub fn hints_of(toolset: &str) -> fn(&str) -> Option<Hint> {
    if toolset == HAFT { hint } else { of_commands }
}

/// Returns the hint on a tool for the system prompt, if there is one beyond its description.
fn hint(tool: &str) -> Option<Hint> {
    let own = HINTS.iter().find(|(name, ..)| *name == tool);
    let shared = of_commands(tool);
    let Some((_, bucket, text)) = own else { return shared };
    Some(Hint { bucket: *bucket, shared: shared.map_or("", |it| it.shared), text })
}

/// Returns the hint on commands, if the tool runs any.
fn of_commands(tool: &str) -> Option<Hint> {
    runs_commands(tool).then_some(Hint { bucket: Bucket::Normal, shared: COMMANDS, text: "" })
}

/// Returns whether the tool of this name runs commands in the sandbox.
pub fn runs_commands(tool: &str) -> bool {
    matches!(tool, "bash" | "code_exec" | "interact" | "python" | "shell" | "terminal")
}

/// The hint on every command.
pub const COMMANDS: &str = include_str!("../hints/_commands.md");

/// Every file of `hints/` by the name of its tool, and its position among the others.
pub const HINTS: &[(&str, Bucket, &str)] = &[
    ("bash", Bucket::Normal, include_str!("../hints/bash.md")),
    ("edit", Bucket::First, include_str!("../hints/edit.md")),
    ("group_status", Bucket::First, include_str!("../hints/group_status.md")),
    ("memory", Bucket::Last, include_str!("../hints/memory.md")),
    ("read", Bucket::First, include_str!("../hints/read.md")),
    ("shell", Bucket::Normal, include_str!("../hints/shell.md")),
    ("todo", Bucket::Last, include_str!("../hints/todo.md")),
];

/// Builds the definitions of the tools of daily use in a thread, while the program starts. They take a third of the time to
/// the first answer of an MCP server otherwise.
pub fn define_ahead() {
    let define = || {
        let (tools, finders) = (all(), finders());
        // The program needs them in the order of `DAILY`: where it is faster, it meets the thread in the middle.
        let daily = DAILY.iter().rev().filter_map(|name| tools.iter().find(|it| it.name() == *name));
        daily.chain(&finders).for_each(|it| {
            it.spec();
        });
    };
    // Without the thread each is built when it is needed.
    let _ = kit::on_other_processor("haft-define", define);
}

/// Returns the two tools for tools that are not listed: one finds them, one calls them.
pub fn finders() -> Vec<Arc<dyn AnyTool>> {
    toolsmith::finders()
}

//! The tools that a model can call: one file per tool, each only on top of `kit`.

mod agents;
mod cad;
mod code;
mod files;
mod importance;
mod jobs;
mod media;
mod notes;
#[cfg(feature = "ssh")]
mod remote;
mod search;
mod servers;
mod shell;
mod toolsets;
mod toolsmith;
mod web;

use std::sync::Arc;

use kit::{AnyTool, Bucket, Hint, Origin, Spec, decoders::Entry};

pub use importance::{DAILY, SELDOM};
pub use toolsets::{HAFT, NAV, of_agents, toolset, toolsets};
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

fn runs_commands(tool: &str) -> bool {
    matches!(tool, "bash" | "code_exec" | "interact" | "python" | "shell" | "terminal")
}

/// The hint on every command.
pub const COMMANDS: &str = include_str!("../hints/_commands.md");

/// Every file of `hints/` by the name of its tool, and its position among the others.
pub const HINTS: &[(&str, Bucket, &str)] = &[
    ("bash", Bucket::Normal, include_str!("../hints/bash.md")),
    ("edit", Bucket::First, include_str!("../hints/edit.md")),
    ("memory", Bucket::Last, include_str!("../hints/memory.md")),
    ("read", Bucket::First, include_str!("../hints/read.md")),
    ("search_tools", Bucket::Last, include_str!("../hints/search_tools.md")),
    ("shell", Bucket::Normal, include_str!("../hints/shell.md")),
    ("todo", Bucket::Last, include_str!("../hints/todo.md")),
];

/// Returns every tool, family by family.
pub fn all() -> Vec<Arc<dyn AnyTool>> {
    [
        files::all(),
        search::all(),
        shell::all(),
        code::all(),
        jobs::all(),
        notes::all(),
        toolsmith::all(),
        servers::all(),
        web::all(),
        #[cfg(feature = "ssh")]
        remote::all(),
        media::all(),
        cad::all(),
    ]
    .concat()
}

/// Returns the two tools for tools that are not listed: one finds them, one calls them.
pub fn finders() -> Vec<Arc<dyn AnyTool>> {
    toolsmith::finders()
}

/// Returns the manual of a tool of this toolset, if there is one beyond its description: that of haft's own
/// tool with the same arguments, under the same or another name.
pub fn manual_in(toolset: &str, tool: &str) -> Option<&'static str> {
    if toolset == HAFT {
        return manual(tool);
    }
    let shown = shown_in(toolset);
    let shown = shown.iter().find(|it| it.spec().name == tool)?;
    let own = std::iter::once(tool).chain(shown.stands_for().iter().map(|it| it.tool));
    let own = own.filter_map(|own| Some((own, manual(own)?))).collect::<Vec<_>>();
    if own.is_empty() {
        return None;
    }
    let all = shown_in(HAFT);
    let is_same =
        |own: &str| all.iter().any(|it| it.spec().name == own && it.spec().schema == shown.spec().schema);
    own.into_iter().find(|(own, _)| is_same(own)).map(|(_, manual)| manual)
}

/// Returns the tools of a toolset, with those that need an agent.
pub fn shown_in(toolset: &str) -> Vec<Arc<dyn AnyTool>> {
    [self::toolset(toolset).unwrap_or_default(), of_agents(toolset)].concat()
}

/// Returns the manual of one of haft's own tools.
pub fn manual(tool: &str) -> Option<&'static str> {
    MANUALS.iter().find(|(name, _)| *name == tool).map(|(_, manual)| *manual)
}

/// Every file of `manuals/`, by the name of its tool.
pub const MANUALS: &[(&str, &str)] = &[
    ("bash", include_str!("../manuals/bash.md")),
    ("edit", include_str!("../manuals/edit.md")),
    ("glob", include_str!("../manuals/glob.md")),
    ("grep", include_str!("../manuals/grep.md")),
    ("http_request", include_str!("../manuals/http_request.md")),
    ("image_view", include_str!("../manuals/image_view.md")),
    ("interact", include_str!("../manuals/interact.md")),
    ("model_3d", include_str!("../manuals/model_3d.md")),
    ("notebook_edit", include_str!("../manuals/notebook_edit.md")),
    ("python", include_str!("../manuals/python.md")),
    ("render_3d", include_str!("../manuals/render_3d.md")),
    ("scad_lint", include_str!("../manuals/scad_lint.md")),
    ("shell", include_str!("../manuals/shell.md")),
    ("shell_status", include_str!("../manuals/shell_status.md")),
    #[cfg(feature = "ssh")]
    ("ssh_exec", include_str!("../manuals/ssh_exec.md")),
    ("test_tool", include_str!("../manuals/test_tool.md")),
    ("tree", include_str!("../manuals/tree.md")),
    ("web_fetch", include_str!("../manuals/web_fetch.md")),
    ("web_search", include_str!("../manuals/web_search.md")),
    ("write_tool", include_str!("../manuals/write_tool.md")),
];

//! Tools that manage tools: list, explain, find, call, try, write and delete them.

mod call_tool;
mod delete_tool;
mod enabled;
mod info;
mod list_tools;
mod rank;
mod reload_tools;
mod search_tools;
mod test_tool;
#[cfg(test)]
mod tests;
mod write_tool;

use std::{
    path::Path,
    sync::{Arc, LazyLock},
    time::Duration,
};

use kit::{
    AnyTool, Cx, Fault, Origin, Spec, erase,
    model_tools::OWN,
    services::{Listed, NotLoaded},
};

use call_tool::CallTool;
pub(crate) use delete_tool::DeleteTool;
pub use enabled::with_enabled;
pub(crate) use info::explain;
pub(crate) use list_tools::ListTools;
pub(crate) use reload_tools::ReloadTools;
use search_tools::SearchTools;
pub(crate) use test_tool::{LONGEST, TRIED, Try};
pub(crate) use write_tool::WriteTool;

/// The tools of this family.
pub(crate) fn all() -> Vec<Arc<dyn AnyTool>> {
    vec![
        erase::<ListTools>(),
        erase::<SearchTools>(),
        erase::<CallTool>(),
        erase::<info::Info>(),
        erase::<WriteTool>(),
        erase::<test_tool::TestTool>(),
        erase::<DeleteTool>(),
        erase::<ReloadTools>(),
    ]
}

/// Returns the two tools for tools that are not listed: one finds them, one calls them.
pub(crate) fn finders() -> Vec<Arc<dyn AnyTool>> {
    static FINDERS: LazyLock<[Arc<dyn AnyTool>; 2]> =
        LazyLock::new(|| [erase::<SearchTools>(), erase::<CallTool>()]);
    FINDERS.to_vec()
}

/// Formats a path: relative to the workspace if it lies in it.
fn shown_path(cx: &Cx, path: &Path) -> String {
    path.strip_prefix(cx.files().roots().workspace()).unwrap_or(path).display().to_string()
}

/// Formats a duration: `12 ms`, or `75 s` for a long one.
fn time(took: Duration) -> String {
    match took {
        _ if took < Duration::from_millis(10) => format!("{:.1} ms", took.as_secs_f64() * 1e3),
        _ if took < Duration::from_secs(10) => format!("{} ms", took.as_millis()),
        _ => format!("{:.0} s", took.as_secs_f64()),
    }
}

/// Returns the last line with text: of a traceback, the error itself.
fn last_line(text: &str) -> &str {
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default()
}

/// Truncates the middle of a long traceback.
fn bounded(why: &str) -> String {
    const HEAD: usize = 10;
    const TAIL: usize = 20;
    const CHARS: usize = 400;
    let clip = |line: &str| match line.char_indices().nth(CHARS) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or_default()),
        None => line.to_owned(),
    };
    let lines: Vec<&str> = why.trim_end().lines().collect();
    let out = lines.len().saturating_sub(HEAD + TAIL);
    if out == 0 {
        return lines.into_iter().map(clip).collect::<Vec<_>>().join("\n");
    }
    let head = lines.iter().take(HEAD).map(|line| clip(line));
    let tail = lines.iter().skip(HEAD + out).map(|line| clip(line));
    let middle = std::iter::once(format!("[{out} lines left out]"));
    head.chain(middle).chain(tail).collect::<Vec<_>>().join("\n")
}

/// Returns the tool of this name.
fn find<'l>(listed: &'l Listed, name: &str) -> Option<&'l Spec> {
    listed.tools.iter().find(|spec| spec.name == name)
}

/// Returns why the file of this name is not a tool, if there is one.
fn failure<'l>(listed: &'l Listed, name: &str) -> Option<&'l NotLoaded> {
    let is_it = |file: &str| file == name || Path::new(file).file_stem().is_some_and(|stem| stem == name);
    listed.failed.iter().find(|it| is_it(&it.file))
}

/// Returns the fault for a missing tool: why, or which tools exist.
fn unknown(cx: &Cx, listed: &Listed, name: &str) -> Fault {
    if let Some(it) = failure(listed, name) {
        return Fault::not_found(format!(
            "`{name}` is not a tool: {} can't be loaded",
            shown_path(cx, Path::new(&it.file))
        ))
        .next(bounded(&it.why));
    }
    let near: Vec<&str> = rank::rank(&listed.tools, name).into_iter().take(3).map(|it| &*it.name).collect();
    let next = if near.is_empty() {
        "[?`tool:list_tools` shows what there is.?]".to_owned()
    } else {
        format!("Did you mean {}?[? `tool:list_tools` shows what there is.?]", near.join(", "))
    };
    Fault::not_found(format!("there is no tool `{name}`")).hint(next)
}

/// Formats the note on files that need the person's trust, with the next step.
fn left_aside(files: usize) -> String {
    let files = if files == 1 { "1 tool file is".to_owned() } else { format!("{files} tool files are") };
    format!("{files} ignored until the person trusts this workspace (`haft trust`).")
}

/// Returns whether this is a tool in the workspace's own folder, in the only Python file of its name.
fn is_own(cx: &Cx, spec: &Spec) -> bool {
    let own = cx.files().roots().workspace().join(OWN).join(format!("{}.py", spec.name));
    matches!(&spec.origin, Origin::File(path) if *path == own)
}

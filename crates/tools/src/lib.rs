//! What the model can do: one file is one tool.

pub mod files;
pub mod toolsets;

use std::sync::Arc;

use kit::{AnyTool, erase};

pub use toolsets::{HAFT, toolset, toolsets};

/// What a client is told about the tools as a whole, and may show its model.
pub const INSTRUCTIONS: &str = "\
Tools for the files of one workspace. `read` shows lines as LINE:HASH|text; `edit` takes LINE:HASH as anchors, many edits per call, all or nothing.
A fault says what happened and what to do next. Long outputs are cut and kept: read or search the rest by its handle, such as out_12.
Calls on different files may be made together.";

/// Every tool, family by family.
pub fn all() -> Vec<Arc<dyn AnyTool>> {
    vec![
        erase::<files::edit::Edit>(),
        erase::<files::editor::Editor>(),
        erase::<files::filegrep::Filegrep>(),
        erase::<files::json_read::JsonRead>(),
        erase::<files::json_write::JsonWrite>(),
        erase::<files::read::Read>(),
        erase::<files::skim::Skim>(),
        erase::<files::undo::Undo>(),
        erase::<files::write::Write>(),
    ]
}

/// The manual of a tool, where there is more to say than its description.
pub fn manual(tool: &str) -> Option<&'static str> {
    MANUALS.iter().find(|(name, _)| *name == tool).map(|(_, manual)| *manual)
}

/// Every file of `manuals/`.
const MANUALS: &[(&str, &str)] = &[("edit", include_str!("../manuals/edit.md"))];

//! Tools that read and change files.

mod clip;
pub(crate) mod edit;
pub(crate) mod editor;
pub(crate) mod filegrep;
mod json;
mod json_path;
mod json_path_parse;
pub(crate) mod json_read;
pub(crate) mod json_tree;
pub(crate) mod json_write;
pub(crate) mod notebook;
pub(crate) mod notebook_edit;
pub(crate) mod notebook_read;
pub(crate) mod open;
pub(crate) mod page;
pub(crate) mod read;
pub(crate) mod rewrite;
pub(crate) mod skim;
pub(crate) mod undo;
pub(crate) mod write;

use std::sync::Arc;

use kit::{AnyTool, erase};

/// The tools of this family.
pub(crate) fn all() -> Vec<Arc<dyn AnyTool>> {
    vec![
        erase::<read::Read>(),
        erase::<edit::Edit>(),
        erase::<write::Write>(),
        erase::<skim::Skim>(),
        erase::<filegrep::Filegrep>(),
        erase::<editor::Editor>(),
        erase::<json_read::JsonRead>(),
        erase::<json_write::JsonWrite>(),
        erase::<notebook_read::NotebookRead>(),
        erase::<notebook_edit::NotebookEdit>(),
        erase::<undo::Undo>(),
    ]
}

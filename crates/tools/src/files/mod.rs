//! Tools that read and change files.

pub mod edit;
pub mod editor;
pub mod filegrep;
pub mod json_read;
pub mod json_write;
pub mod read;
pub mod skim;
pub mod undo;
pub mod write;

pub(crate) mod json;
pub(crate) mod open;

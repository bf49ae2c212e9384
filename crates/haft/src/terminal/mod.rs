//! The terminal of `haft chat` and `haft run`: how an agent is shown there, how a person types and is asked.
//!
//! Everything up to [`row::Row`] is made by functions that write nothing; [`screen`] is the one place that draws.

pub(crate) mod asking;
mod attention;
mod calls;
mod checklist;
mod code;
pub(crate) mod commands;
pub(crate) mod complete;
pub(crate) mod dialog;
pub(crate) mod diff;
mod editor;
pub(crate) mod files;
pub(crate) mod front;
mod fuzzy;
pub(crate) mod hidden;
pub(crate) mod input;
pub(crate) mod interrupt;
mod letters;
mod life;
pub(crate) mod line;
mod markdown;
mod outputs;
mod pager;
mod picture;
pub(crate) mod plain;
mod reading;
mod remembered;
pub(crate) mod row;
mod screen;
pub(crate) mod short;
mod status;
mod typed;
pub(crate) mod view;

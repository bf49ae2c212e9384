//! The terminal: how an agent is shown there, and how a person types and is asked.
//!
//! Everything up to [`row::Row`] is made by functions that write nothing; [`screen`] is the one place that draws.

pub(crate) mod asking;
mod attention;
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
pub(crate) mod line;
mod markdown;
mod picture;
pub(crate) mod plain;
mod remembered;
pub(crate) mod row;
mod screen;
pub(crate) mod short;
mod typed;
pub(crate) mod view;

//! The terminal of `haft chat` and `haft run`: how an agent is shown there and how it asks.
//!
//! Everything up to [`row::Row`] is made by functions that write nothing; [`screen`] is the one place that draws.

pub(crate) mod asking;
mod calls;
mod checklist;
mod code;
pub(crate) mod commands;
mod complete;
pub(crate) mod dialog;
pub(crate) mod diff;
pub(crate) mod front;
pub(crate) mod hidden;
pub(crate) mod input;
pub(crate) mod interrupt;
mod letters;
mod life;
mod line;
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

//! How does an agent look and ask in a terminal?
//!
//! Everything up to [`row::Row`] is made by functions that write nothing; [`screen`] is the one place that draws.

pub(crate) mod asking;
pub(crate) mod commands;
mod complete;
pub(crate) mod dialog;
pub(crate) mod diff;
pub(crate) mod front;
pub(crate) mod hidden;
pub(crate) mod input;
pub(crate) mod interrupt;
mod letters;
mod line;
mod markdown;
mod picture;
pub(crate) mod plain;
mod remembered;
pub(crate) mod row;
mod screen;
pub(crate) mod short;
mod typed;
pub(crate) mod view;

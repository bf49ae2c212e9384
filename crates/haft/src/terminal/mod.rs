//! The terminal of `haft chat` and `haft run`: shows an agent, reads input, and asks the person.
//!
//! All modules up to [`row::Row`] are pure; only [`screen`] draws.

pub(crate) mod abbreviate;
mod activity;
pub(crate) mod asking;
mod attention;
mod calls;
pub(crate) mod chat;
pub(crate) mod checklist;
mod code;
pub(crate) mod commands;
pub(crate) mod complete;
pub(crate) mod dialog;
pub(crate) mod diff;
mod editor;
mod expanded;
pub(crate) mod files;
mod fuzzy;
pub(crate) mod hidden;
pub(crate) mod input;
mod input_history;
pub(crate) mod input_line;
pub(crate) mod interrupt;
mod letters;
mod markdown;
mod outputs;
mod pager;
pub(crate) mod panes;
pub(crate) mod picker;
mod picture;
pub(crate) mod plain;
pub(crate) mod reader;
pub(crate) mod row;
pub(crate) mod screen;
pub(crate) mod source;
mod status;
mod typed;
pub(crate) mod view;

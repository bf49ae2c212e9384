//! Do processes start, end and report as promised, with the real keeper?
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod begin;
mod end;
mod output;
mod support;
mod terminal;

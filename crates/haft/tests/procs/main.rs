//! Do processes start, end and report as promised, with the real keeper?
#![expect(clippy::unwrap_used, reason = "tests")]

mod begin;
mod support;

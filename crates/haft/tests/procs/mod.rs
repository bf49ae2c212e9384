//! Do processes start, end and report as promised, with the real keeper?

mod begin;
mod end;
mod output;
mod support;
mod terminal;

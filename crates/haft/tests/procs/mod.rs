//! Processes with the real keeper: start, end, output.

mod begin;
mod end;
mod output;
mod support;
mod terminal;
mod zygote;

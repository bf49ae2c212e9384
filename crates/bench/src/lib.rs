//! Benchmarks, and property tests over many cases.

pub mod batch;
pub mod client;
pub mod engine_faults;
pub mod engine_works;
pub mod engines;
pub mod group_kills;
pub mod growth;
pub mod haystack;
pub mod layers;
pub mod processes;
pub mod promise;
pub mod serve_load;
pub mod speed;
pub mod terminal_svg;
mod tool_file;

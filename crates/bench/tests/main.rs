//! Integration tests of the harnesses that the benchmarks use.

mod group_kills;
mod layers;
mod promise;
mod sessions_load;
mod triggers;

//! Integration tests of the harnesses that the benchmarks use.

mod layers;
mod promise;
mod sessions_load;
mod triggers;

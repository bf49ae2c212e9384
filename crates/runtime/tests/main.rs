//! Integration tests of the runtime through its public interface: one module per area, one process for all of them.
#![expect(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "tests")]

mod call;
mod durability;
mod host;
mod jobs;
mod net;
mod through;

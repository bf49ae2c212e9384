//! Integration tests of the runtime through its public interface: one module per area, one process for all of them.
#![expect(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "tests")]

mod call;
mod host;
mod jobs;
mod kept;
mod net;
mod through;

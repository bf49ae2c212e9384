//! Integration tests of the kit through its public interface: one module per area.
#![expect(clippy::panic, clippy::unwrap_used, reason = "tests")]

mod inside;

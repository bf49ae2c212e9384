//! Integration tests of all tools together: one module per area.
#![expect(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

mod contract;

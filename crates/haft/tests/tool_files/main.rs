//! Do tools that are files work as the others do, whatever is in them?
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod calls;
mod crashes;
mod support;

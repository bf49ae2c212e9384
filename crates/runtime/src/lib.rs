//! Whether, when and where a call happens.

mod call;
mod catalog;
mod session;

pub mod bound;
pub mod history;
pub mod journal;
pub mod mask;
pub mod spill;
pub mod store;
pub mod undo;

pub use call::{Answer, Arguments, Call};
pub use catalog::Catalog;
pub use session::Session;

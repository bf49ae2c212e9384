//! Whether, when and where a call happens.

mod call;
mod catalog;
mod session;

pub use call::{Answer, Arguments, Call};
pub use catalog::Catalog;
pub use session::Session;

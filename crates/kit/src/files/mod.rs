//! How does a tool reach files, and nothing outside its roots?

/// The files that one call was granted.
#[derive(Clone)]
pub struct Files {}

impl Files {
    /// Forbids any further change; false when one is under way.
    pub fn close_gate(&self) -> bool {
        true
    }
}

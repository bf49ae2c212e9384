//! Changes of a lasting process while it works for no call: what would lose content belongs to a call of its own, which
//! is opened first.

use std::sync::Arc;

use super::logs::{Call, Use};

/// Opens calls for such changes. It must not block: the tracker serves no other process meanwhile.
pub type Opener = Arc<dyn Fn(Opening) + Send + Sync>;

/// A process is about to make a change, and works for no call. If this is dropped, the change is counted to the last
/// call, if there is one.
pub struct Opening {
    pub(super) after: Option<String>,
    pub(super) answer: Option<Box<dyn FnOnce(Option<Arc<Call>>) + Send + Sync>>,
}

impl Opening {
    /// Returns the id of the last call for which it worked.
    pub fn after(&self) -> Option<&str> {
        self.after.as_deref()
    }

    /// Counts the change, and the next ones until the process works for a call again, to this call.
    pub fn belongs_to(mut self, call: Arc<Call>) {
        if let Some(answer) = self.answer.take() {
            answer(Some(call));
        }
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        if let Some(answer) = self.answer.take() {
            answer(None);
        }
    }
}

/// The call to which the changes belong while a process works for none.
#[derive(Default)]
pub(super) enum Between {
    /// None yet.
    #[default]
    Nobody,
    /// One is being opened.
    Asked,
    Is(Use),
    /// None could be opened.
    Failed,
}

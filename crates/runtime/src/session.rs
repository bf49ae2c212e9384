//! What does one conversation remember?

use crate::{Answer, Call, Catalog};

/// One conversation's memory. Cheap to clone.
#[derive(Clone)]
pub struct Session {}

impl Session {
    /// The tools this session shows.
    pub fn catalog(&self) -> &Catalog {
        unreachable!()
    }

    /// Runs one call, start to finish. Calls may run at the same time: they wait
    /// for each other where they touch the same things, in the order in which this
    /// was first polled.
    pub async fn call(&self, _call: Call) -> Answer {
        unreachable!()
    }
}

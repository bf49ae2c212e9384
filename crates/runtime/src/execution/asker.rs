//! The person who is asked about package hosts while tools load, and the answers.

use std::{collections::HashMap, sync::Arc};

use tokio::sync::Mutex;

use super::Execution;
use crate::approve::Approver;

/// Asks about package hosts while tools load, and remembers the answers.
pub(crate) struct Asker {
    pub(crate) approver: Arc<dyn Approver>,
    /// Allows one question at a time, and none twice.
    pub(crate) said: Mutex<HashMap<Vec<String>, bool>>,
}

impl Asker {
    pub(crate) fn new(approver: Arc<dyn Approver>) -> Self {
        Self { approver, said: Mutex::default() }
    }
}

impl Execution {
    /// Returns the asker for package hosts.
    pub(crate) fn asker(&self) -> Option<&Asker> {
        self.inner.asker.get()
    }

    /// Sets the asker for package hosts.
    pub(crate) fn asks(&self, asker: Asker) {
        // There is one, at a terminal.
        let _ = self.inner.asker.set(asker);
    }
}

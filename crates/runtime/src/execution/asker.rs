//! The person who is asked about package hosts while tools are loaded, and their answers.

use std::{collections::HashMap, sync::Arc};

use tokio::sync::Mutex;

use super::Execution;
use crate::approve::Approver;

/// Who is asked about hosts while tools are loaded, and what they said.
pub(crate) struct Asker {
    pub(crate) approver: Arc<dyn Approver>,
    /// One question at a time, and none twice.
    pub(crate) said: Mutex<HashMap<Vec<String>, bool>>,
}

impl Asker {
    pub(crate) fn new(approver: Arc<dyn Approver>) -> Self {
        Self { approver, said: Mutex::default() }
    }
}

impl Execution {
    /// Who is asked about the hosts that packages come from.
    pub(crate) fn asker(&self) -> Option<&Asker> {
        self.inner.asker.get()
    }

    /// From now on this person is asked about them.
    pub(crate) fn asks(&self, asker: Asker) {
        // There is one at a terminal.
        let _ = self.inner.asker.set(asker);
    }
}

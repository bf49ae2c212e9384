//! The source of outputs: the conversation whose calls, pictures and stored outputs a terminal shows.

use std::path::PathBuf;

use kit::Fault;
use runtime::{Runtime, Session};

/// A conversation. Stored outputs are read from the state folder, whichever process runs the conversation; the output of a
/// running call is known only to the process that runs it.
#[derive(Clone)]
pub(crate) struct Source {
    runtime: Runtime,
    name: String,
    session: Option<Session>,
}

impl Source {
    /// Returns the source of a conversation that this process runs.
    pub(crate) fn of(session: &Session) -> Self {
        let (runtime, name) = (session.runtime().clone(), session.name().to_owned());
        Self { runtime, name, session: Some(session.clone()) }
    }

    /// Returns the source of a conversation that another process may run.
    pub(crate) fn elsewhere(runtime: &Runtime, name: &str) -> Self {
        Self { runtime: runtime.clone(), name: name.to_owned(), session: None }
    }

    /// Returns the session, if this process runs it.
    pub(crate) fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    /// Reads a stored output of the conversation, or of the sub-agent `below` it.
    ///
    /// # Errors
    /// When it can't be read.
    pub(crate) fn read(&self, below: &str, handle: &str) -> Result<Vec<u8>, Fault> {
        self.runtime.spills().read(&self.of_agent(below), handle)
    }

    /// Returns the path of a stored output.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn path(&self, below: &str, handle: &str) -> Result<PathBuf, Fault> {
        self.runtime.spills().path(&self.of_agent(below), handle)
    }

    /// Returns at most the last `most` bytes of what a running call has written.
    pub(crate) fn written(&self, call: &str, most: usize) -> Option<String> {
        Some(self.session.as_ref()?.written(call)?.tail(most).text)
    }

    fn of_agent(&self, below: &str) -> String {
        if below.is_empty() { self.name.clone() } else { format!("{}/{below}", self.name) }
    }
}

//! Questions of a session that this process runs: put to all who attend, one at a time where a terminal reads one at a time.

use std::{future::Future, pin::Pin, sync::Arc};

use agent::Asker;
use kit::{
    Fault,
    services::{Question, Soon},
};
use runtime::{Approver, Request, Verdict};
use sessions::Hub;

/// The approver and asker of the session's agent.
pub(super) struct Here {
    pub(super) hub: Arc<Hub>,
    /// Somebody at this terminal can be asked.
    pub(super) is_attended: bool,
    /// Texts are shown even if nobody can be asked.
    pub(super) shows_texts: bool,
}

impl Approver for Here {
    fn approve(&self, request: Request) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>> {
        self.hub.approve(request)
    }

    fn asks_together(&self) -> bool {
        // The person at this terminal reads one question at a time, and the answer may settle the next one.
        !self.is_attended && self.hub.asks_together()
    }

    fn is_attended(&self, _: &str) -> bool {
        Hub::is_attended(&self.hub)
    }
}

impl Asker for Here {
    fn ask(&self, question: Question) -> Soon<'_, Result<String, Fault>> {
        self.hub.ask(question)
    }

    fn show(&self, text: String) -> Soon<'_, Result<(), Fault>> {
        if self.shows_texts {
            self.hub.tell(text);
            return Box::pin(std::future::ready(Ok(())));
        }
        self.hub.show(text)
    }
}

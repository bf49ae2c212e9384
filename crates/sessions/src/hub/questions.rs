//! Questions to the person: put to all who attend, answered by the first, taken back with their call.

use agent::{Asker, nobody};
use kit::{
    Fault, Kind,
    services::{Question, Soon},
};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::{
    approvals::Remembered,
    event::{Asked, Event},
    hub::Hub,
};

/// The questions of one session.
#[derive(Default)]
pub(super) struct Questions(Mutex<All>);

#[derive(Default)]
struct All {
    open: Vec<(Asked, oneshot::Sender<Option<String>>)>,
    closed: Remembered,
}

/// Closes a question that nobody answered.
struct TakesBack<'a> {
    hub: &'a Hub,
    id: String,
}

impl Hub {
    /// The questions that wait for an answer.
    pub fn open_questions(&self) -> Vec<Asked> {
        self.questions.0.lock().open.iter().map(|it| it.0.clone()).collect()
    }

    /// How a question was settled, and by whom, as long as that is remembered.
    pub fn how_answered(&self, id: &str) -> Option<String> {
        self.questions.0.lock().closed.how(id)
    }

    /// Answers a question; without a text, the person does not want to answer. The first one who does wins.
    ///
    /// # Errors
    /// [`Kind::Stale`] when it is answered already, with who did; [`Kind::NotFound`] when there is none.
    pub fn reply(&self, id: &str, text: Option<String>, by: &str) -> Result<(), Fault> {
        let mut all = self.questions.0.lock();
        let at =
            all.open.iter().position(|it| it.0.id == id).ok_or_else(|| all.closed.why("question", id))?;
        let (_, reply) = all.open.remove(at);
        if reply.send(text.clone()).is_err() {
            self.close_question(&mut all, id, None, None);
            return Err(all.closed.why("question", id));
        }
        self.close_question(&mut all, id, text, Some(by));
        Ok(())
    }

    /// Closes all that wait.
    pub(super) fn end_questions(&self) {
        let mut all = self.questions.0.lock();
        for (asked, reply) in std::mem::take(&mut all.open) {
            drop(reply);
            self.close_question(&mut all, &asked.id, None, None);
        }
    }

    fn close_question(&self, all: &mut All, id: &str, answer: Option<String>, by: Option<&str>) {
        let how = match by {
            Some(by) => format!("{by} answered"),
            None => "it is no longer asked".to_owned(),
        };
        all.closed.add(id.to_owned(), how);
        self.log.add(Event::QuestionClosed { id: id.to_owned(), answer, by: by.map(str::to_owned) });
    }
}

impl Drop for TakesBack<'_> {
    fn drop(&mut self) {
        let mut all = self.hub.questions.0.lock();
        if let Some(at) = all.open.iter().position(|it| it.0.id == self.id) {
            drop(all.open.remove(at));
            self.hub.close_question(&mut all, &self.id, None, None);
        }
    }
}

impl Asker for Hub {
    fn ask(&self, question: Question) -> Soon<'_, Result<String, Fault>> {
        Box::pin(async move {
            if !self.is_attended() {
                return Err(nobody());
            }
            let Question { text, options, within } = question;
            let asked = Asked { id: self.new_id("q"), text, options, seconds: within.map(|it| it.as_secs()) };
            let (reply, answer) = oneshot::channel();
            let _takes_back = TakesBack { hub: self, id: asked.id.clone() };
            {
                let mut all = self.questions.0.lock();
                all.open.push((asked.clone(), reply));
                self.log.add(Event::QuestionOpened(asked));
            }
            match self.answer(answer).await {
                Some(Some(text)) => Ok(text),
                Some(None) => Err(Fault::new(Kind::Unavailable, "the person did not answer")
                    .next("Decide by yourself, and say in the end what you took for granted.")),
                None => Err(nobody()),
            }
        })
    }

    fn show(&self, text: String) -> Soon<'_, Result<(), Fault>> {
        Box::pin(async move {
            if !self.is_attended() {
                return Err(nobody());
            }
            self.tell(text);
            Ok(())
        })
    }
}

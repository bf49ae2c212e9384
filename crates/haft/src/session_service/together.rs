//! Questions of a terminal's session: shown to the person there and to all attached, answered by the first of them.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::Poll,
};

use agent::{Asker, Event};
use kit::{
    Fault, Kind,
    effect::Scope,
    services::{Question, Soon},
};
use runtime::{Approver, Request, Verdict};
use sessions::{Approval, Decision, Hub};

use super::Person;

/// Asks here and at attached terminals.
pub(super) struct Together {
    hub: Arc<Hub>,
    person: Arc<Person>,
    who: String,
}

impl Together {
    pub(super) fn new(hub: &Arc<Hub>, person: &Arc<Person>, who: &str) -> Self {
        Self { hub: hub.clone(), person: person.clone(), who: who.to_owned() }
    }

    /// Tells the person here how a question was settled elsewhere.
    fn tell(&self, how: Option<String>) {
        if let Some(how) = how {
            self.person.observer.hear(Event::Note { text: format!("settled elsewhere: {how}") });
        }
    }

    /// Returns the newest open approval of this call.
    fn open(&self, request: &Request) -> Option<Approval> {
        let is_this = |it: &Approval| {
            (&it.call, &it.agent, &it.tool, &it.arguments)
                == (&request.call, &request.agent, &request.tool, &request.arguments)
        };
        self.hub.open_approvals().into_iter().rfind(is_this)
    }
}

impl Approver for Together {
    fn approve(&self, request: Request) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>> {
        let mut everywhere = self.hub.approve(request.clone());
        if !self.person.is_there {
            return everywhere;
        }
        Box::pin(async move {
            // The approval is open after the first poll.
            if let Poll::Ready(verdict) = poll_fn(|cx| Poll::Ready(everywhere.as_mut().poll(cx))).await {
                return verdict;
            }
            let Some(approval) = self.open(&request) else { return everywhere.await };
            let here = tokio::select! {
                biased;
                verdict = &mut everywhere => {
                    self.tell(self.hub.how_approved(&approval.id));
                    return verdict;
                }
                verdict = self.person.approver.approve(request) => verdict,
            };
            let (decision, words) = match here.clone() {
                Verdict::Yes(Scope::Once) => (Decision::Once, None),
                Verdict::Yes(Scope::Session) => (Decision::Session, None),
                Verdict::Yes(Scope::Project) => (Decision::Project, None),
                Verdict::No => (Decision::No, None),
                Verdict::Instead(words) => (Decision::No, Some(words)),
                // The terminal is gone: another attached person may still decide.
                Verdict::NobodyThere => return everywhere.await,
            };
            match self.hub.decide(&approval.id, &approval.hash, decision, words, &self.who) {
                Ok(()) => {}
                // Another person answered first.
                Err(fault) if fault.kind == Kind::Stale => self.tell(self.hub.how_approved(&approval.id)),
                Err(_) => return here,
            }
            everywhere.await
        })
    }

    fn asks_together(&self) -> bool {
        if self.person.is_there { self.person.approver.asks_together() } else { self.hub.asks_together() }
    }

    fn is_attended(&self, _: &str) -> bool {
        self.person.is_there || Hub::is_attended(&self.hub)
    }
}

impl Asker for Together {
    fn ask(&self, question: Question) -> Soon<'_, Result<String, Fault>> {
        let mut everywhere = self.hub.ask(question.clone());
        if !self.person.is_there {
            return everywhere;
        }
        Box::pin(async move {
            if let Poll::Ready(answer) = poll_fn(|cx| Poll::Ready(everywhere.as_mut().poll(cx))).await {
                return answer;
            }
            let open = self.hub.open_questions().into_iter().rfind(|it| it.text == question.text);
            let Some(asked) = open else { return everywhere.await };
            let here = tokio::select! {
                biased;
                answer = &mut everywhere => {
                    self.tell(self.hub.how_answered(&asked.id));
                    return answer;
                }
                answer = self.person.asker.ask(question) => answer,
            };
            let said = here.as_ref().ok().cloned();
            match self.hub.reply(&asked.id, said, &self.who) {
                // The answer is the text from this terminal.
                Ok(()) => here,
                Err(_) => {
                    self.tell(self.hub.how_answered(&asked.id));
                    everywhere.await
                }
            }
        })
    }

    fn show(&self, text: String) -> Soon<'_, Result<(), Fault>> {
        Box::pin(async move {
            // A chat in a pipe has nobody to ask, and shows texts all the same.
            let elsewhere = self.hub.show(text.clone()).await;
            self.person.asker.show(text).await.or(elsewhere)
        })
    }
}

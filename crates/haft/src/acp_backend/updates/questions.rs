//! Approvals and questions that wait for an answer: each is asked at the editor until somebody has answered it.

use std::{
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use kit::Fault;
use sessions::{Approval, Asked, Operation};
use tokio_util::task::AbortOnDropHandle;

use crate::acp_backend::{
    person::{self, AtEditor},
    session::AcpSession,
    tool_calls::Seen,
};

/// The approvals and questions that wait for an answer, by id.
#[derive(Default)]
pub(super) struct Open {
    all: HashMap<String, Waiting>,
}

enum Waiting {
    Approval(Box<Approval>),
    /// With the call by which the model asks.
    Question(Asked, Option<String>),
    /// The editor was asked, and whether it has answered. Dropping it takes the request back.
    AtEditor {
        has_answered: Arc<AtomicBool>,
        _task: AbortOnDropHandle<()>,
    },
}

impl Open {
    pub(super) fn approval(&mut self, approval: Approval) {
        self.all.insert(approval.id.clone(), Waiting::Approval(Box::new(approval)));
    }

    pub(super) fn question(&mut self, asked: Asked, call: Option<String>) {
        self.all.insert(asked.id.clone(), Waiting::Question(asked, call));
    }

    /// It has an answer. Returns whether the editor was still asked: then somebody else has given it.
    pub(super) fn close(&mut self, id: &str) -> bool {
        match self.all.remove(id) {
            Some(Waiting::AtEditor { has_answered, .. }) => !has_answered.load(Ordering::Relaxed),
            _ => false,
        }
    }

    /// Asks the editor what it was not asked yet.
    pub(super) fn ask(&mut self, person: &AtEditor, owner: &Weak<AcpSession>) {
        let Some(session) = owner.upgrade() else { return };
        for waiting in self.all.values_mut() {
            if matches!(waiting, Waiting::Approval(_)) && !person.decides {
                continue;
            }
            let has_answered = Arc::<AtomicBool>::default();
            let asking = Asking {
                person: person.clone(),
                key: session.new_key(),
                owner: owner.clone(),
                has_answered: has_answered.clone(),
            };
            let task = match waiting {
                Waiting::Approval(approval) => {
                    let seen = Seen::of(&session.view(), &approval.tool, &person::arguments(approval));
                    tokio::spawn(asking.approval((**approval).clone(), seen))
                }
                Waiting::Question(asked, call) => tokio::spawn(asking.question(asked.clone(), call.take())),
                Waiting::AtEditor { .. } => continue,
            };
            *waiting = Waiting::AtEditor { has_answered, _task: AbortOnDropHandle::new(task) };
        }
    }
}

/// A request that the editor has.
struct Asking {
    person: AtEditor,
    key: String,
    owner: Weak<AcpSession>,
    has_answered: Arc<AtomicBool>,
}

impl Asking {
    async fn approval(self, approval: Approval, seen: Seen) {
        let decided = self.person.decide(approval, seen).await;
        self.done(decided).await;
    }

    async fn question(self, asked: Asked, call: Option<String>) {
        let answered = self.person.answer(asked, call).await;
        self.done(answered).await;
    }

    async fn done(self, answer: Result<Option<Operation>, Fault>) {
        self.has_answered.store(true, Ordering::Relaxed);
        match answer {
            Ok(Some(operation)) => {
                if let Err(fault) = self.person.handle.act(&self.key, operation).await {
                    // Somebody was first: the session's log says who.
                    tracing::debug!(%fault, "the editor's answer came too late");
                }
            }
            // Somebody else has to answer.
            Ok(None) => {}
            Err(fault) => {
                tracing::info!(%fault, "the editor can't ask its person");
                if let Some(session) = self.owner.upgrade() {
                    session.leave_questions();
                }
            }
        }
    }
}

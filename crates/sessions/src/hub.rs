//! The hub of a session: what its calls and its model ask a person, put to all who attend at once.
//!
//! It is the approver and the asker of the session and of all sub-agents below it, so that whoever watches the root session
//! is asked for all of them.

mod approvals;
mod questions;

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use tokio::sync::{oneshot, watch};

use crate::{approvals::ApprovalTable, event::Event, log::Log};
use questions::Questions;

/// Asks the people of one session.
pub struct Hub {
    log: Arc<Log>,
    approvals: ApprovalTable,
    questions: Questions,
    /// How many attend.
    attending: watch::Sender<usize>,
    waits: AtomicBool,
    life: AtomicU64,
    count: AtomicU64,
}

/// Somebody attends a session: as long as this is held, its calls and its model have somebody to ask.
pub struct Attendance {
    hub: Arc<Hub>,
}

impl Hub {
    pub(crate) fn new(log: &Arc<Log>) -> Arc<Self> {
        let of_approvals = log.clone();
        Arc::new(Self {
            log: log.clone(),
            approvals: ApprovalTable::new(move |event| of_approvals.add(event)),
            questions: Questions::default(),
            attending: watch::Sender::new(0),
            waits: AtomicBool::new(false),
            life: AtomicU64::new(0),
            count: AtomicU64::new(0),
        })
    }

    /// Whether a question waits for somebody to attend. Otherwise it is answered at once where nobody does: nobody is there.
    pub fn set_waits(&self, waits: bool) {
        self.waits.store(waits, Ordering::Relaxed);
        // Whoever waits looks again.
        self.attending.send_modify(|_| {});
    }

    /// Somebody attends from now on, until what this gives is dropped.
    pub fn attend(self: &Arc<Self>) -> Attendance {
        self.attending.send_modify(|it| *it += 1);
        Attendance { hub: self.clone() }
    }

    /// Returns whether there is somebody to ask, now or later.
    pub fn is_attended(&self) -> bool {
        self.waits.load(Ordering::Relaxed) || *self.attending.borrow() > 0
    }

    /// Shows a text to whoever watches, whether somebody attends or not.
    pub fn tell(&self, text: String) {
        self.log.add(Event::Told { text });
    }

    /// Returns how many attend.
    pub fn attending(&self) -> usize {
        *self.attending.borrow()
    }

    /// Ends the hub: nobody decides here any more. Open approvals expire and open questions close.
    pub(crate) fn end(&self) {
        self.set_waits(false);
        self.approvals.end();
        self.end_questions();
    }

    /// The session was claimed: ids of this life are not those of an earlier one.
    pub(crate) fn claimed(&self, epoch: u64) {
        self.life.store(epoch, Ordering::Relaxed);
    }

    fn new_id(&self, prefix: &str) -> String {
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        format!("{prefix}_{}_{count}", self.life.load(Ordering::Relaxed))
    }

    /// Waits for the answer. Returns `None` if its sender is dropped, or if nobody attends and nobody is waited for.
    async fn answer<T>(&self, answer: oneshot::Receiver<T>) -> Option<T> {
        let mut attending = self.attending.subscribe();
        let nobody = async {
            loop {
                attending.borrow_and_update();
                if !self.is_attended() {
                    return;
                }
                if attending.changed().await.is_err() {
                    return std::future::pending().await;
                }
            }
        };
        tokio::select! {
            biased;
            answer = answer => answer.ok(),
            () = nobody => None,
        }
    }
}

impl Drop for Attendance {
    fn drop(&mut self) {
        self.hub.attending.send_modify(|it| *it = it.saturating_sub(1));
    }
}

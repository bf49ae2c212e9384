//! The inbox of an agent: the end of its jobs, as messages that it is shown before its next step, once.
//!
//! The message is on the disk before the agent wakes. It is taken back if the agent learns of the job in another way first; both
//! happen under the lock of the table, so a message that is being shown is not taken back.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use kit::Fault;
use store::{Inbox, NewMessage, Posted, Source, Store};

use super::{Jobs, ThisCall, notifications::JobNotification};

/// The inbox of the agent whose jobs these are.
pub(crate) struct AgentInbox {
    inbox: Inbox,
    recipient: String,
    /// The process: the numbers of jobs of an unnamed session begin anew in each.
    instance: String,
    /// The number of messages so far.
    count: AtomicU64,
    /// Whether the agent can read outputs of jobs.
    reads: Box<dyn Fn() -> bool + Send + Sync>,
}

/// The message about a job that waits in the inbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    key: String,
    /// Whether it is on the disk.
    is_committed: bool,
}

impl Row {
    pub(super) fn is_committed(&self) -> bool {
        self.is_committed
    }
}

impl AgentInbox {
    /// Creates the inbox of the agent of this session; `reads` says whether it has `read_job`.
    pub(crate) fn new(store: &Store, session: &str, reads: Box<dyn Fn() -> bool + Send + Sync>) -> Self {
        Self {
            inbox: store.inbox(),
            recipient: session.to_owned(),
            instance: store.instance().to_owned(),
            count: AtomicU64::new(0),
            reads,
        }
    }

    /// Posts a message about this job. With `announces`, front ends are notified of the job once it is on the disk; returns false if
    /// they can't be. The caller holds the lock of the table.
    pub(super) fn post(&self, notification: &JobNotification, announces: bool) -> bool {
        let call = notification.call();
        let (job, text) = (call.id(), notification.with_result((self.reads)()));
        let key = format!("{job} of {}: {}", self.instance, self.count.fetch_add(1, Ordering::Relaxed));
        let message = NewMessage {
            key: Some(key.clone()),
            ..NewMessage::new(&*self.recipient, Source::Job, job, text)
        };
        call.now.lock().row = Some(Row { key: key.clone(), is_committed: false });
        // It is queued here, whatever becomes of the future.
        let posted = self.inbox.post(message);
        let (jobs, call) = (call.jobs.clone(), call.clone());
        let commit = async move {
            let posted = posted.await;
            if let Some(jobs) = jobs.upgrade() {
                jobs.posted(&call, &key, posted);
                if announces {
                    jobs.send_event(&call);
                }
            }
        };
        // Without a runtime this process ends: the next one shows the message.
        let runtime = tokio::runtime::Handle::try_current();
        runtime.map(|it| it.spawn(commit)).is_ok()
    }

    fn retract(&self, key: &str) {
        if let Err(fault) = self.inbox.retract(&self.recipient, key) {
            tracing::warn!(%fault, key, "a message about a job is not taken back");
        }
    }
}

impl Jobs {
    /// Has notifications go to the inbox of this session's agent. The first one stays.
    pub(crate) fn tell_agent(&self, agent: AgentInbox) {
        // The session has one agent at a time, and its inbox is the same.
        let _ = self.agent.set(agent);
    }

    /// Posts messages about the jobs of earlier processes that were killed. Blocks.
    pub(crate) fn report_lost(&self) -> Result<(), Fault> {
        self.kept.get().map_or(Ok(()), |kept| kept.report_lost())
    }

    /// Records that a message about this job is on the disk, or that it can't be written. Then the agent gets it from memory.
    fn posted(&self, call: &Arc<ThisCall>, key: &str, posted: Result<Posted, Fault>) {
        let mut table = self.table.lock();
        let is_settled = table.settled.contains(key);
        let is_due = call.change(|now| {
            let Some(row) = now.row.as_mut().filter(|it| it.key == key) else { return false };
            row.is_committed = true;
            if let Err(fault) = posted {
                tracing::warn!(%fault, "the end of a job is not in the agent's inbox");
                now.row = None;
            }
            now.is_unreported && !is_settled
        });
        if is_due {
            self.put_in_table(&mut table, JobNotification::of(call));
        }
        drop(table);
        self.changed();
    }

    /// Takes back the message about this job that waits, if there is one. The caller holds the lock of the table.
    pub(super) fn take_back(&self, table: &mut super::Table, call: &ThisCall) {
        let Some(row) = call.now.lock().row.take() else { return };
        if let Some(agent) = self.agent.get() {
            agent.retract(&row.key);
            table.settled.insert(row.key);
        }
    }

    /// Records that the agent is shown the message of this key. Returns false if it was taken back or shown before.
    pub(crate) fn shows(&self, key: &str) -> bool {
        let mut table = self.table.lock();
        if !table.settled.insert(key.to_owned()) {
            return false;
        }
        let is_it = |it: &&Arc<ThisCall>| it.now.lock().row.as_ref().is_some_and(|it| it.key == key);
        // An old job may be in the notifications alone.
        let mut known = table.jobs.values().chain(table.unreported.iter().map(JobNotification::call));
        let Some(call) = known.find(is_it).cloned() else { return true };
        call.change(|now| (now.row, now.is_unreported) = (None, false));
        self.forget(&mut table, call.number());
        true
    }
}

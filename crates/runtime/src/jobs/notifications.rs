//! Notifications about jobs: informs the model once, and front ends at once.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use kit::{
    Fault, Output,
    services::{Job, State},
};
use serde::Serialize;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::{Jobs, Table, ThisCall};

/// Limit of notes in one answer.
const NOTES: usize = 10;

/// Bytes of a job's output in an event.
const TAIL: usize = 2000;

/// Bytes of a fault in a note.
const WHY: usize = 160;

/// The end of a job, or its wait for input.
#[derive(Debug, Clone, Serialize)]
pub struct Event {
    /// Its id: `job_3`.
    pub job: String,
    /// The tool that was called.
    pub tool: String,
    /// Its title, for a person.
    pub title: String,
    /// The job's state, as in [`State::name`].
    pub state: &'static str,
    /// The exit code, where a command ran.
    pub exit: Option<i32>,
    /// The end of its result.
    pub tail: String,
    /// The time that it ran.
    pub took: Duration,
}

/// A notification about a job, which one answer carries.
pub(crate) struct JobNotification {
    number: u64,
    call: Arc<ThisCall>,
}

impl JobNotification {
    pub(super) fn of(call: &Arc<ThisCall>) -> Self {
        Self { number: call.number(), call: call.clone() }
    }

    pub(super) fn call(&self) -> &Arc<ThisCall> {
        &self.call
    }

    /// Returns the note, with the result below it: whole, if it is short.
    pub(super) fn with_result(&self, reads: bool) -> String {
        let job = self.call.job();
        if job.result.is_none() {
            return match text(&job).trim_end() {
                "" => self.note(reads),
                said => format!("{}. It says:\n{}", self.note(false), end_of(said)),
            };
        }
        let text = text(&job);
        let text = text.trim_end();
        let (note, tail) = (self.note(false), end_of(text));
        match (tail.len() < text.len(), tail.is_empty()) {
            (_, true) => format!("{note}, without output"),
            (false, false) => format!("{note}. Its result:\n{tail}"),
            _ => {
                let whole = if reads {
                    format!("; read_job {{\"job\": \"{}\"}} shows all", job.id)
                } else {
                    String::new()
                };
                format!("{note}. The last {} bytes of its result{whole}:\n{tail}", tail.len())
            }
        }
    }

    fn note(&self, reads: bool) -> String {
        let job = self.call.job();
        let (id, name, took) = (&job.id, self.call.name(), job.took.as_secs_f32());
        let how = match (job.state, job.result.as_deref()) {
            (State::Cancelled, _) => format!("was stopped after {took:.1} s"),
            (_, Some(Ok(Output { exit: Some(exit), .. }))) => format!("ended: exit {exit}, {took:.1} s"),
            (_, Some(Err(fault))) => {
                let why = fault.what.lines().next().unwrap_or_default();
                let why = why.get(..why.floor_char_boundary(WHY)).unwrap_or_default();
                format!("failed after {took:.1} s: {why}")
            }
            (_, Some(Ok(_))) => format!("ended: done, {took:.1} s"),
            (state, None) => format!("is {}", state.name()),
        };
        let read = if reads { "; read_job shows its output" } else { "" };
        format!("{id} ({name}) {how}{read}")
    }
}

impl Jobs {
    /// Returns the events of jobs from now on.
    pub(crate) fn events(&self) -> UnboundedReceiver<Event> {
        // A channel of fixed length would take memory in each session, and lose events where thousands of jobs end at once.
        let (sender, events) = unbounded_channel();
        self.events.lock().push(sender);
        events
    }

    pub(super) fn changed(&self) {
        self.changes.send_modify(|number| *number += 1);
    }

    /// Tells front ends of the job. Where its agent gets a message about it (`has_message`), that is once it is on the disk.
    pub(super) fn announce(&self, call: &ThisCall, has_message: bool) {
        self.changed();
        if !has_message {
            self.send_event(call);
        }
    }

    pub(super) fn send_event(&self, call: &ThisCall) {
        let mut receivers = self.events.lock();
        if receivers.is_empty() {
            return;
        }
        let event = event(&call.job());
        receivers.retain(|it| it.send(event.clone()).is_ok());
    }

    /// Has the model notified: by a message in the inbox of its agent, where there is one, otherwise by the next answer. Returns
    /// whether it is a message; with `announces`, front ends are notified of the job when that is on the disk.
    pub(super) fn put_notification(
        &self,
        table: &mut Table,
        notification: JobNotification,
        announces: bool,
    ) -> bool {
        let Some(agent) = self.agent.get() else {
            self.put_in_table(table, notification);
            return false;
        };
        // The newer message says more.
        self.take_back(table, &notification.call);
        self.forget(table, notification.number);
        agent.post(&notification, announces)
    }

    pub(super) fn put_in_table(&self, table: &mut Table, notification: JobNotification) {
        table.unreported.retain(|it| it.number != notification.number);
        table.unreported.push_back(notification);
        self.count(&table.unreported);
    }

    /// Removes the notification of this job.
    pub(super) fn forget(&self, table: &mut Table, number: u64) {
        table.unreported.retain(|it| it.number != number);
        self.count(&table.unreported);
    }

    /// Records that the model knows the state of this job.
    pub(super) fn mark_reported(&self, call: &ThisCall) {
        let number = call.number();
        let mut table = self.table.lock();
        call.now.lock().is_unreported = false;
        self.take_back(&mut table, call);
        self.forget(&mut table, number);
    }

    /// Returns whether there is something that the model does not know yet.
    pub(crate) fn has_notifications(&self) -> bool {
        self.unreported.load(Ordering::Acquire) > 0
    }

    /// Takes the notifications for an answer, but for those that are messages in the agent's inbox. An answer that is not delivered
    /// [gives them back](Self::give_back).
    pub(crate) fn take_notifications(&self) -> VecDeque<JobNotification> {
        // Most calls return here.
        if !self.has_notifications() {
            return VecDeque::new();
        }
        let mut table = self.table.lock();
        let all = std::mem::take(&mut table.unreported);
        let (messages, notifications): (VecDeque<_>, _) =
            all.into_iter().partition(|it| it.call.now.lock().row.is_some());
        table.unreported = messages;
        for it in &notifications {
            it.call.now.lock().is_unreported = false;
        }
        self.count(&table.unreported);
        notifications
    }

    /// Restores the notifications of an answer that was not delivered.
    pub(crate) fn give_back(&self, notifications: VecDeque<JobNotification>) {
        let mut table = self.table.lock();
        for it in notifications {
            it.call.now.lock().is_unreported = true;
            self.put_in_table(&mut table, it);
        }
    }

    /// Returns the notes for these notifications. `reads` says whether the session has `read_job`.
    pub(crate) fn notes<'a>(
        notifications: &'a VecDeque<JobNotification>,
        reads: bool,
    ) -> impl Iterator<Item = String> + use<'a> {
        each(notifications, move |it| it.note(reads))
    }

    /// Returns the notes with the result of each job, for a model that gets it in no other way.
    pub(crate) fn results<'a>(
        notifications: &'a VecDeque<JobNotification>,
        reads: bool,
    ) -> impl Iterator<Item = String> + use<'a> {
        each(notifications, move |it| it.with_result(reads))
    }

    /// Returns whether there is an expected result that the model does not know.
    pub(crate) fn owes_notifications(&self) -> bool {
        self.has_notifications() && self.table.lock().unreported.iter().any(|it| it.call.now.lock().is_owed)
    }

    /// Watches a job: the watcher informs the model of it, so other answers don't.
    pub(super) fn watch<'a>(&'a self, call: &'a Arc<ThisCall>) -> Watch<'a> {
        call.now.lock().watchers += 1;
        Watch { jobs: self, call }
    }

    fn count(&self, unreported: &VecDeque<JobNotification>) {
        self.unreported.store(unreported.len(), Ordering::Release);
    }
}

/// A caller that waits for notifications of a job.
pub(super) struct Watch<'a> {
    jobs: &'a Jobs,
    call: &'a Arc<ThisCall>,
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let mut table = self.jobs.table.lock();
        let is_unreported = {
            let mut now = self.call.now.lock();
            now.watchers -= 1;
            now.is_unreported && now.watchers == 0
        };
        // The watcher was dropped before it could inform the model.
        if is_unreported {
            self.jobs.put_notification(&mut table, JobNotification::of(self.call), false);
        }
    }
}

/// Returns the first of the notifications as text, and the number of further ones.
fn each<'a, F: Fn(&JobNotification) -> String>(
    notifications: &'a VecDeque<JobNotification>,
    words: F,
) -> impl Iterator<Item = String> + use<'a, F> {
    let more = notifications.len().saturating_sub(NOTES);
    let more = (more > 0).then(|| format!("{more} more jobs ended"));
    notifications.iter().take(NOTES).map(words).chain(more)
}

/// Returns the end of a text, within the limit.
fn end_of(text: &str) -> &str {
    text.get(text.ceil_char_boundary(text.len().saturating_sub(TAIL))..).unwrap_or_default()
}

/// Returns the job's last output.
fn text(job: &Job) -> String {
    match job.result.as_deref() {
        Some(Ok(output)) => output.as_text(),
        Some(Err(fault)) => Fault::as_text(fault),
        None => job.said.as_deref().map(Output::as_text).unwrap_or_default(),
    }
}

fn event(job: &Job) -> Event {
    let exit = match job.result.as_deref() {
        Some(Ok(output)) => output.exit,
        Some(Err(fault)) => fault.seen.as_deref().and_then(|it| it.exit),
        None => None,
    };
    let text = text(job);
    Event {
        job: job.id.clone(),
        tool: job.tool.clone(),
        title: job.title.clone(),
        state: job.state.name(),
        exit,
        tail: end_of(&text).to_owned(),
        took: job.took,
    }
}

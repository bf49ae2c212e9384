//! Who is told that a job has ended, and when? The model once, hosts at once.

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
use tokio::sync::broadcast;

use super::{Jobs, Table, ThisCall};

/// At most this many notes in one answer.
const NOTES: usize = 10;

/// How many events a host may be behind.
const EVENTS: usize = 1024;

/// How much of what a job wrote an event carries, in bytes.
const TAIL: usize = 2000;

/// How much of a fault a note carries, in bytes.
const WHY: usize = 160;

/// A job has ended, or waits for input.
#[derive(Debug, Clone, Serialize)]
pub struct Event {
    /// Its id: `job_3`.
    pub job: String,
    /// The tool that was called.
    pub tool: String,
    /// What a person calls it.
    pub title: String,
    /// What became of it, as [`State::name`] has it.
    pub state: &'static str,
    /// The exit code, where a command ran.
    pub exit: Option<i32>,
    /// The end of what it gave back.
    pub tail: String,
    /// How long it ran.
    pub took: Duration,
}

/// What an answer is to say of a job, once.
pub(crate) struct Notifications {
    number: u64,
    call: Arc<ThisCall>,
}

impl Notifications {
    pub(super) fn of(call: &Arc<ThisCall>) -> Self {
        Self { number: call.number(), call: call.clone() }
    }

    /// The note, and the result below it: whole, where it is short.
    fn with_result(&self, reads: bool) -> String {
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
    /// What happens to jobs from now on.
    pub(crate) fn events(&self) -> broadcast::Receiver<Event> {
        self.events.get_or_init(|| broadcast::channel(EVENTS).0).subscribe()
    }

    pub(super) fn changed(&self) {
        self.changes.send_modify(|number| *number += 1);
    }

    pub(super) fn tell_hosts(&self, call: &ThisCall) {
        self.changed();
        let Some(events) = self.events.get() else { return };
        // Nobody listening is no trouble.
        let _ = events.send(event(&call.job()));
    }

    pub(super) fn put_news(&self, table: &mut Table, news: Notifications) {
        table.untold.retain(|it| it.number != news.number);
        table.untold.push_back(news);
        self.count(&table.untold);
    }

    /// The model was told how this job stands.
    pub(super) fn told(&self, call: &ThisCall) {
        let number = call.number();
        let mut table = self.table.lock();
        call.now.lock().is_news = false;
        table.untold.retain(|it| it.number != number);
        self.count(&table.untold);
    }

    /// Is there something that the model does not know yet?
    pub(crate) fn has_news(&self) -> bool {
        self.untold.load(Ordering::Acquire) > 0
    }

    /// The news that an answer is to carry. Who can't deliver it gives it [back](Self::give_back).
    pub(crate) fn take_news(&self) -> VecDeque<Notifications> {
        // Most calls end here.
        if !self.has_news() {
            return VecDeque::new();
        }
        let mut table = self.table.lock();
        let news = std::mem::take(&mut table.untold);
        for it in &news {
            it.call.now.lock().is_news = false;
        }
        self.count(&table.untold);
        news
    }

    /// The answer that was to carry this reached nobody.
    pub(crate) fn give_back(&self, news: VecDeque<Notifications>) {
        let mut table = self.table.lock();
        for it in news {
            it.call.now.lock().is_news = true;
            self.put_news(&mut table, it);
        }
    }

    /// The notes that say this. `reads` says whether the session has `read_job`.
    pub(crate) fn notes<'a>(
        news: &'a VecDeque<Notifications>,
        reads: bool,
    ) -> impl Iterator<Item = String> + use<'a> {
        each(news, move |it| it.note(reads))
    }

    /// The same with what came of each job, for who is told of nothing else.
    pub(crate) fn results<'a>(
        news: &'a VecDeque<Notifications>,
        reads: bool,
    ) -> impl Iterator<Item = String> + use<'a> {
        each(news, move |it| it.with_result(reads))
    }

    /// Is there a result that was promised and that the model was not told?
    pub(crate) fn owes_news(&self) -> bool {
        self.has_news() && self.table.lock().untold.iter().any(|it| it.call.now.lock().is_owed)
    }

    /// Whoever holds this will tell the model of the job: it is no news for other answers meanwhile.
    pub(super) fn watch<'a>(&'a self, call: &'a Arc<ThisCall>) -> Watch<'a> {
        call.now.lock().watchers += 1;
        Watch { jobs: self, call }
    }

    fn count(&self, untold: &VecDeque<Notifications>) {
        self.untold.store(untold.len(), Ordering::Release);
    }
}

/// Somebody waits for news of a job.
pub(super) struct Watch<'a> {
    jobs: &'a Jobs,
    call: &'a Arc<ThisCall>,
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let mut table = self.jobs.table.lock();
        let is_news = {
            let mut now = self.call.now.lock();
            now.watchers -= 1;
            now.is_news && now.watchers == 0
        };
        // It left before it could tell.
        if is_news {
            self.jobs.put_news(&mut table, Notifications::of(self.call));
        }
    }
}

/// The first of the news in these words, and how many more there are.
fn each<'a, F: Fn(&Notifications) -> String>(
    news: &'a VecDeque<Notifications>,
    words: F,
) -> impl Iterator<Item = String> + use<'a, F> {
    let more = news.len().saturating_sub(NOTES);
    let more = (more > 0).then(|| format!("{more} more jobs ended"));
    news.iter().take(NOTES).map(words).chain(more)
}

/// The end of a text, as much as is told.
fn end_of(text: &str) -> &str {
    text.get(text.ceil_char_boundary(text.len().saturating_sub(TAIL))..).unwrap_or_default()
}

/// What it said last.
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

//! Persisted jobs: the records of jobs, which outlive their session and process.
//!
//! Each job of a session with an owner has a record in the store: its state, and the newest part of its
//! output, updated as it runs. An owner may have many sessions, one after another or at once; the numbers of
//! their jobs continue, so that `job_3` is the same job in every session.

use std::{ops::Range, sync::Arc, time::Duration};

use kit::{
    Fault, Kind, Output, Part,
    procs::Slice,
    redact::Secrets,
    services::{Job, Live, Soon, State, Transcript},
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::{KEPT, ThisCall};
use store::{NewMessage, Source, Store, corpse, now_ms, spill::Spills};

/// Limit of a job's output in its record, in bytes; it has the newest part.
const TAIL: usize = 32 << 10;

/// Bytes of the output of a killed job in the message about it.
const SHOWN: usize = 2000;

/// Limit of its result.
const RESULT: usize = 256 << 10;

/// The pause before a record is updated with new output: the first, and the longest.
const SOON: Duration = Duration::from_millis(200);
const SELDOM: Duration = Duration::from_secs(2);

/// The key of the last number.
const LAST: &str = "jobs";

/// The prefix of each record's key.
const PREFIX: &str = "job ";

/// Whether what a session put away under this key is of its jobs, which belong to its own processes.
pub fn is_of_a_job(key: &str) -> bool {
    key == LAST || key.starts_with(PREFIX)
}

/// The jobs of an owner, on disk.
pub(crate) struct PersistedJobs {
    store: Store,
    spills: Spills,
    secrets: Arc<Secrets>,
    /// The owner.
    owner: String,
    /// The session that stores its jobs here.
    session: String,
    /// Held during a write, so that the last record is the newest.
    writing: Mutex<()>,
}

#[derive(Serialize, Deserialize)]
struct Record {
    tool: String,
    title: String,
    state: String,
    began_ms: u64,
    took_ms: u64,
    instance: String,
    session: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    wrote: Option<Wrote>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Ended>,
}

/// The newest part of a job's output.
#[derive(Clone, Serialize, Deserialize)]
struct Wrote {
    text: String,
    total: u64,
    handle: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Ended {
    text: String,
    exit: Option<i32>,
    /// The kind of a fault.
    kind: Option<String>,
}

impl PersistedJobs {
    pub(crate) fn new(
        store: &Store,
        spills: &Spills,
        secrets: &Arc<Secrets>,
        owner: &str,
        session: &str,
    ) -> Arc<Self> {
        Arc::new(Self {
            store: store.clone(),
            spills: spills.clone(),
            secrets: secrets.clone(),
            owner: owner.to_owned(),
            session: session.to_owned(),
            writing: Mutex::default(),
        })
    }

    /// Returns a number that no other job of the owner has. Blocks for a write, once per job.
    pub(super) fn next_number(&self) -> Result<u64, Fault> {
        let next = self.store.sessions().change(&self.owner, LAST, |last| {
            let last = last.and_then(|it| String::from_utf8(it).ok()).and_then(|it| it.parse().ok());
            Ok(Some((last.unwrap_or(0u64) + 1).to_string().into_bytes()))
        })?;
        let next = next.and_then(|it| String::from_utf8(it).ok()).and_then(|it| it.parse().ok());
        next.ok_or_else(|| Fault::bug("the number of a job was not kept"))
    }

    /// Records the job's state. Does not wait.
    pub(super) fn put(&self, call: &ThisCall) {
        let _writing = self.writing.lock();
        let record = self.record(&call.job());
        let Ok(bytes) = serde_json::to_vec(&record) else { return };
        // A job continues without its record.
        if let Err(fault) = self.store.sessions().put(&*self.owner, key(call.number()), bytes) {
            tracing::warn!("a job is not kept: {fault}");
        }
    }

    fn record(&self, job: &Job) -> Record {
        let took_ms = u64::try_from(job.took.as_millis()).unwrap_or(u64::MAX);
        let wrote = job.live.output.as_ref().map(|output| {
            let slice = output.tail(TAIL);
            Wrote {
                text: self.secrets.mask(&slice.text).into_owned(),
                total: slice.total,
                handle: slice.handle,
            }
        });
        let result = job.result.as_deref().map(|result| match result {
            Ok(output) => Ended { text: self.text_of(output), exit: output.exit, kind: None },
            Err(fault) => Ended {
                text: self.secrets.mask(&cut(fault.as_text())).into_owned(),
                exit: fault.seen.as_ref().and_then(|it| it.exit),
                kind: Some(fault.kind.name().to_owned()),
            },
        });
        Record {
            tool: job.tool.clone(),
            title: self.secrets.mask(&job.title).into_owned(),
            state: job.state.name().to_owned(),
            began_ms: now_ms().saturating_sub(took_ms),
            took_ms,
            instance: self.store.instance().to_owned(),
            session: self.session.clone(),
            wrote,
            result,
        }
    }

    fn text_of(&self, output: &Output) -> String {
        let others = output.parts.iter().filter(|part| !matches!(part, Part::Text { .. })).count();
        let mut text = self.secrets.mask(&cut(output.as_text())).into_owned();
        if others > 0 {
            text.push_str(&format!("\n[{others} parts that are not text were not kept]"));
        }
        text
    }

    /// Returns the recorded jobs, oldest first. Blocks.
    pub(super) fn list(&self) -> Vec<(u64, Job)> {
        let sessions = self.store.sessions();
        let found = sessions.values(&self.owner, PREFIX).unwrap_or_else(|fault| {
            tracing::warn!("the jobs that were kept can't be read: {fault}");
            Vec::new()
        });
        let mut found: Vec<(u64, Record)> = found
            .into_iter()
            .filter_map(|(key, bytes)| {
                Some((key.strip_prefix(PREFIX)?.parse().ok()?, serde_json::from_slice(&bytes).ok()?))
            })
            .collect();
        let old = found.len().saturating_sub(KEPT);
        for (number, _) in found.drain(..old) {
            // The next call tries again.
            let _ = sessions.remove(&*self.owner, key(number));
        }
        found.into_iter().map(|(number, record)| (number, self.job(number, record, false))).collect()
    }

    /// Returns a recorded job. Blocks.
    pub(super) fn get(&self, number: u64) -> Option<Job> {
        let bytes = self.store.sessions().get(&self.owner, &key(number)).ok()??;
        Some(self.job(number, serde_json::from_slice(&bytes).ok()?, true))
    }

    fn job(&self, number: u64, record: Record, is_read: bool) -> Job {
        let wrote = record.wrote.map(|mut wrote| {
            if is_read && record.session != self.session {
                wrote.handle =
                    wrote.handle.and_then(|it| self.spills.take_over(&record.session, &it, &self.session));
            }
            wrote
        });
        let (state, result) = match (state(&record.state), record.result) {
            (state, Some(ended)) => (state, Some(ended.into())),
            (state, None) if !self.is_dead(&record.instance) => (state, None),
            (_, None) => (State::Error, Some(Err(lost(&record.tool, wrote.as_ref())))),
        };
        Job {
            id: format!("job_{number}"),
            tool: record.tool,
            title: record.title,
            state,
            took: if result.is_some() {
                Duration::from_millis(record.took_ms)
            } else {
                Duration::from_millis(now_ms().saturating_sub(record.began_ms))
            },
            live: Live {
                output: wrote.map(|it| Arc::new(RecordedOutput(it)) as Arc<dyn Transcript>),
                ..Live::default()
            },
            said: None,
            result: result.map(Arc::new),
        }
    }

    /// Posts a message to the session's inbox about each of its jobs that ran when its process was killed, and records their end.
    /// Blocks.
    pub(super) fn report_lost(&self) -> Result<(), Fault> {
        for (key, bytes) in self.store.sessions().values(&self.owner, PREFIX)? {
            let Some(number) = key.strip_prefix(PREFIX).and_then(|it| it.parse::<u64>().ok()) else {
                continue;
            };
            let Ok(mut record) = serde_json::from_slice::<Record>(&bytes) else { continue };
            let is_lost = record.result.is_none()
                && !state(&record.state).is_over()
                && record.session == self.session
                && self.is_dead(&record.instance);
            if !is_lost {
                continue;
            }
            let name = if record.title.is_empty() { &record.tool } else { &record.title };
            let text =
                format!("job_{number} ({name}) was interrupted: {}", interrupted(record.wrote.as_ref()));
            let message = NewMessage {
                key: Some(format!("job_{number} of {}: interrupted", record.instance)),
                ..NewMessage::new(&*self.session, Source::Job, format!("job_{number}"), text)
            };
            // First the message: its key makes it one, also if this process is killed here.
            drop(self.store.inbox().post(message));
            let fault = lost(&record.tool, record.wrote.as_ref());
            let kind = Some(fault.kind.name().to_owned());
            record.result = Some(Ended { text: fault.as_text(), exit: None, kind });
            record.state = State::Error.name().to_owned();
            let bytes = serde_json::to_vec(&record).unwrap_or(bytes);
            self.store.sessions().put(&*self.owner, key, bytes)?;
        }
        Ok(())
    }

    fn is_dead(&self, instance: &str) -> bool {
        instance != self.store.instance() && corpse(&self.store.live_folder(), instance).is_some()
    }
}

/// Updates the record of a job while it writes.
pub(super) async fn follow(kept: Arc<PersistedJobs>, call: Arc<ThisCall>) {
    let mut pause = SOON;
    let mut seen = 0;
    loop {
        let output = call.until(|now| match (&now.end, &now.live.output) {
            (Some(_), _) => Some(None),
            (None, Some(output)) => Some(Some(output.clone())),
            (None, None) => None,
        });
        let Some(output) = output.await else { return };
        let grown = tokio::select! {
            biased;
            () = call.until(|now| now.end.as_ref().map(drop)) => return,
            grown = output.grown(seen) => grown,
        };
        if !grown {
            // The code that ends a job records its end.
            return;
        }
        seen = output.total();
        kept.put(&call);
        sleep(pause).await;
        pause = (pause * 2).min(SELDOM);
    }
}

/// The recorded output of a job.
struct RecordedOutput(Wrote);

impl RecordedOutput {
    fn start(&self) -> u64 {
        self.0.total.saturating_sub(self.0.text.len() as u64)
    }

    fn slice(&self, bytes: Range<u64>) -> Slice {
        let at = |byte: u64| usize::try_from(byte.saturating_sub(self.start())).unwrap_or(usize::MAX);
        let from = self.0.text.ceil_char_boundary(at(bytes.start).min(self.0.text.len()));
        let to = self.0.text.floor_char_boundary(at(bytes.end).min(self.0.text.len())).max(from);
        Slice {
            text: self.0.text.get(from..to).unwrap_or_default().to_owned(),
            bytes: self.start() + from as u64..self.start() + to as u64,
            total: self.0.total,
            handle: self.0.handle.clone(),
        }
    }
}

impl Transcript for RecordedOutput {
    fn total(&self) -> u64 {
        self.0.total
    }

    fn tail(&self, bytes: usize) -> Slice {
        self.slice(self.0.total.saturating_sub(bytes as u64)..self.0.total)
    }

    fn read(&self, from: u64, bytes: usize) -> Slice {
        let from = from.clamp(self.start(), self.0.total);
        self.slice(from..from.saturating_add(bytes as u64))
    }

    fn grown(&self, _: u64) -> Soon<'_, bool> {
        Box::pin(async { false })
    }
}

impl From<Ended> for Result<Output, Fault> {
    fn from(ended: Ended) -> Self {
        let mut output = Output::text(ended.text);
        output.exit = ended.exit;
        let Some(kind) = ended.kind else { return Ok(output) };
        Err(Fault::new(kind_of(&kind), output.as_text()))
    }
}

/// Returns the fault for a job that ran when its process was killed.
fn lost(tool: &str, wrote: Option<&Wrote>) -> Fault {
    let what =
        format!("`{tool}` was lost: haft was killed while it ran, and what it did after that is not known");
    let fault = Fault::new(Kind::Unavailable, what);
    match wrote {
        Some(wrote) if wrote.total > 0 => {
            let whole = wrote.handle.as_ref().map(|it| format!("; more of it: {it}")).unwrap_or_default();
            let text = format!(
                "it had written {} bytes, of which the newest are{whole}\n{}",
                wrote.total, wrote.text
            );
            fault.next("Check what it did before you run it again.").seen(Output::text(text))
        }
        _ => fault.next("It had written nothing that was kept. Check what it did before you run it again."),
    }
}

/// Returns the text for the model on a job that ran when its process was killed.
fn interrupted(wrote: Option<&Wrote>) -> String {
    let what =
        "haft was killed while it ran, and what it ran has ended. Check what it did before you run it again.";
    let Some(wrote) = wrote.filter(|it| it.total > 0) else {
        return format!("{what} It had written nothing that was kept.");
    };
    let shown = wrote.text.get(wrote.text.ceil_char_boundary(wrote.text.len().saturating_sub(SHOWN))..);
    let shown = shown.unwrap_or_default().trim_end();
    let whole = wrote.handle.as_ref().map(|it| format!("; more of it: {it}")).unwrap_or_default();
    format!("{what} It had written {} bytes, of which the newest are{whole}\n{shown}", wrote.total)
}

fn kind_of(name: &str) -> Kind {
    let all = [
        Kind::BadArgs,
        Kind::NotFound,
        Kind::Stale,
        Kind::Ambiguous,
        Kind::Denied,
        Kind::Timeout,
        Kind::Cancelled,
        Kind::TooBig,
        Kind::Unavailable,
        Kind::Bug,
    ];
    all.into_iter().find(|it| it.name() == name).unwrap_or(Kind::Failed)
}

fn state(name: &str) -> State {
    let all = [State::Pending, State::Waiting, State::Done, State::Error, State::Cancelled];
    all.into_iter().find(|it| it.name() == name).unwrap_or(State::Running)
}

fn key(number: u64) -> String {
    // Keys are sorted, so this is the order of numbers.
    format!("{PREFIX}{number:012}")
}

fn cut(mut text: String) -> String {
    if text.len() > RESULT {
        text.truncate(text.floor_char_boundary(RESULT));
        text.push_str("\n[the rest was not kept]");
    }
    text
}

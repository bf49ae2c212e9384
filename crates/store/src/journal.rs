//! The journal: an append-only record of each call, begun before it changes anything.
//!
//! Two rows for each call, one before and one after it. Rows are never changed. A call whose process died
//! gets its second row when the workspace is opened again.

mod read;
mod recover;

use std::time::Duration;

use kit::{Fault, Kind, Touches};
use rusqlite::{Connection, params};
use serde::Serialize;

pub use read::{CallRecord, ChangeRecord, Filter};
pub use recover::{Interrupted, ReadFile};

use crate::{Store, credentials, now_ms};

/// Maximum bytes of a call's arguments that are stored.
const ARGUMENTS: usize = 4096;
/// Maximum bytes of other texts that are stored.
const WORDS: usize = 2048;

/// The shortest wait for locks that is recorded.
const NOTED_WAIT: Duration = Duration::from_millis(1);
/// Arguments and messages of up to this many bytes are masked in the caller's thread.
const SHORT: usize = 4096;

/// Formats a time of the journal in the local time zone: `2026-11-23 09:41:07`.
pub fn local_time(ms: u64) -> String {
    let at = jiff::Timestamp::from_millisecond(ms.cast_signed());
    let local = |at: jiff::Timestamp| at.to_zoned(jiff::tz::TimeZone::system());
    at.map(|at| local(at).strftime("%Y-%m-%d %H:%M:%S").to_string()).unwrap_or_default()
}

/// The journal of one workspace. Cheap to clone.
#[derive(Clone)]
pub struct Journal {
    store: Store,
}

/// Whether the caller waits until a row survives the death of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Yes: for a call that can change something.
    Wait,
    /// No: the row is written soon, together with others.
    Later,
}

/// The facts about a call before it runs.
#[derive(Debug, Clone)]
pub struct Begun {
    /// Its id, from [`Store::call_id`].
    pub call: String,
    /// The session it belongs to.
    pub session: String,
    /// The tool.
    pub tool: String,
    /// The arguments as JSON. They are hashed as they are, and stored masked and truncated.
    pub arguments: String,
    /// Its touches, with canonical paths.
    pub touches: Touches,
    /// The rule that allowed or denied it, or the person's answer.
    pub decision: String,
}

/// The facts about a call when it is over.
#[derive(Debug, Clone)]
pub struct Ended {
    /// Its id.
    pub call: String,
    /// The session it belongs to.
    pub session: String,
    /// Its outcome.
    pub outcome: Outcome,
    /// The message of a fault. The content of outputs does not belong here.
    pub said: Option<String>,
    /// The runtime's notes.
    pub notes: Vec<String>,
    /// Its duration.
    pub took: Duration,
    /// The part of that in which it waited for its locks.
    pub waited: Duration,
    /// Its id as a job, if it became one.
    pub job: Option<String>,
    /// The size of its output, before truncation.
    pub bytes_out: u64,
}

impl Ended {
    /// Returns the end of a call with this result, without notes: it waited for nothing, and was not a job.
    pub fn of<T>(call: &str, session: &str, result: &Result<T, Fault>, took: Duration) -> Self {
        let fault = result.as_ref().err();
        Self {
            call: call.to_owned(),
            session: session.to_owned(),
            outcome: fault.map_or(Outcome::Ok, |it| Outcome::Fault(it.kind)),
            said: fault.map(|it| it.what.clone()),
            notes: Vec::new(),
            took,
            waited: Duration::ZERO,
            job: None,
            bytes_out: 0,
        }
    }
}

/// The outcome of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// With an output.
    Ok,
    /// With a fault of this kind.
    Fault(Kind),
    /// Its process died before it was over.
    Interrupted,
}

impl Outcome {
    /// Returns the name in the database and on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Fault(kind) => kind.name(),
            Self::Interrupted => "interrupted",
        }
    }
}

impl Serialize for Outcome {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl Store {
    /// Returns the journal of this workspace.
    pub fn journal(&self) -> Journal {
        Journal { store: self.clone() }
    }
}

impl Journal {
    /// Records that a call begins.
    ///
    /// # Errors
    /// When the database can't be written; with [`Durability::Later`] only if that is known already.
    pub async fn begin(&self, begun: Begun, durability: Durability) -> Result<(), Fault> {
        let bytes = begun.arguments.len();
        self.write(self.begun_row(begun), bytes, durability).await
    }

    /// Writes a row from texts of so many bytes.
    async fn write<F>(&self, work: F, bytes: usize, durability: Durability) -> Result<(), Fault>
    where
        F: FnOnce(&Connection) -> rusqlite::Result<()> + Send + 'static,
    {
        match durability {
            Durability::Wait if bytes <= SHORT => self.store.ask_here(work).await,
            Durability::Wait => self.store.ask(work).await,
            Durability::Later => self.store.later(work),
        }
    }

    /// Records that a call begins, and waits until the row survives the death of this process. Blocks.
    ///
    /// # Errors
    /// When the database can't be written.
    pub fn begin_blocking(&self, begun: Begun) -> Result<(), Fault> {
        self.store.wait(self.begun_row(begun))
    }

    /// Records that a call is over.
    ///
    /// # Errors
    /// Like [`begin`](Self::begin), and when it was over before.
    pub async fn end(&self, ended: Ended, durability: Durability) -> Result<(), Fault> {
        let bytes = ended.said.as_ref().map_or(0, String::len);
        self.write(self.ended_row(ended), bytes, durability).await
    }

    /// Records that a call is over, where nothing can be awaited (as in a `Drop`).
    ///
    /// # Errors
    /// When the database is known to be out of order.
    pub fn end_later(&self, ended: Ended) -> Result<(), Fault> {
        self.store.later(self.ended_row(ended))
    }

    /// Builds the row. Hashing, masking and encoding of long arguments happen in the writer's thread, not in the caller's.
    fn begun_row(&self, begun: Begun) -> impl FnOnce(&Connection) -> rusqlite::Result<()> + Send + use<> {
        let at = now_ms().cast_signed();
        let up = micros(self.store.uptime());
        let stamp = self.store.stamp();
        move |database| {
            let hash = blake3::hash(begun.arguments.as_bytes());
            let touches = json(&begun.touches);
            let row = params![
                begun.call,
                begun.session,
                stamp.instance,
                at,
                up,
                begun.tool,
                hash.as_bytes(),
                short(&stamp.secrets.mask(&credentials::hide(&begun.arguments)), ARGUMENTS),
                stamp.secrets.mask(&touches),
                stamp.secrets.mask(&begun.decision),
                signed(begun.arguments.len() as u64),
            ];
            database
                .prepare_cached(
                    "INSERT INTO journal (event, call, session, instance, at_ms, up_us,
                       tool, arguments_hash, arguments, touches, decision, bytes_in)
                     VALUES ('begun', ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
                )?
                .execute(row)?;
            Ok(())
        }
    }

    fn ended_row(&self, ended: Ended) -> impl FnOnce(&Connection) -> rusqlite::Result<()> + Send + use<> {
        let at = now_ms().cast_signed();
        let up = micros(self.store.uptime());
        let stamp = self.store.stamp();
        move |database| {
            let mut notes = ended.notes;
            if ended.waited >= NOTED_WAIT {
                notes.push(format!("had its locks after {} ms", ended.waited.as_millis()));
            }
            notes.extend(ended.job.map(|job| format!("ran as {job}")));
            let notes = if notes.is_empty() { None } else { Some(json(&notes)) };
            let row = params![
                ended.call,
                ended.session,
                stamp.instance,
                at,
                up,
                ended.outcome.name(),
                ended.said.as_deref().map(|it| short(&stamp.secrets.mask(it), WORDS)),
                notes.as_deref().map(|it| stamp.secrets.mask(it)),
                micros(ended.took),
                signed(ended.bytes_out),
            ];
            database
                .prepare_cached(
                    "INSERT INTO journal (event, call, session, instance, at_ms, up_us,
                       outcome, said, notes, took_us, bytes_out)
                     VALUES ('ended', ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
                )?
                .execute(row)?;
            Ok(())
        }
    }
}

fn json(value: &impl Serialize) -> String {
    // Encoding strings and lists of strings can't fail.
    serde_json::to_string(value).unwrap_or_default()
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Truncates the text to `limit` bytes, and adds its length.
fn short(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let kept = text.get(..text.floor_char_boundary(limit)).unwrap_or_default();
    format!("{kept}… [{} bytes in all]", text.len())
}

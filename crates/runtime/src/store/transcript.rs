//! What was said in a session, for the person and for the model?
//!
//! Two buffers for each session: `messages`, which a person is shown, and `context`, which a model is sent. Rows are
//! only ever added, and each is numbered by whoever writes it, so two processes can't both go on with one session.

use std::future::Future;

use kit::Fault;
use rusqlite::params;

use super::{Store, now_ms, said};

/// The buffers of one workspace's sessions.
#[derive(Clone)]
pub struct Transcripts {
    store: Store,
}

/// Which of a session's two buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffer {
    /// What a person is shown.
    Messages,
    /// What a model is sent.
    Context,
}

impl Buffer {
    fn name(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Context => "context",
        }
    }
}

/// One row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its number in its buffer, counted from 1.
    pub number: u64,
    /// When it was written, in milliseconds since 1970.
    pub at_ms: u64,
    /// What it says, as whoever wrote it put it.
    pub body: String,
}

impl Store {
    /// What was said in the sessions of this workspace.
    pub fn transcripts(&self) -> Transcripts {
        Transcripts { store: self.clone() }
    }
}

impl Transcripts {
    /// Adds a row; it is queued at once, and resolves when it is committed. Secrets in it are masked.
    ///
    /// # Errors
    /// When the database can't be written, or the session has a row of that number already.
    pub fn add(
        &self,
        session: &str,
        buffer: Buffer,
        number: u64,
        body: String,
    ) -> impl Future<Output = Result<(), Fault>> + Send + use<> {
        let (session, at, stamp) = (session.to_owned(), now_ms().cast_signed(), self.store.stamp());
        self.store.ask(move |database| {
            let body = stamp.secrets.mask(&body);
            database
                .prepare_cached(
                    "INSERT INTO transcript (session, buffer, number, at_ms, body) VALUES (?1, ?2, ?3, ?4, ?5)",
                )?
                .execute(params![session, buffer.name(), number.cast_signed(), at, body])?;
            if buffer == Buffer::Messages {
                said::keep(database, &session, number, at, &body)?;
            }
            Ok(())
        })
    }

    /// The rows of a session, in their order. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn rows(&self, session: &str, buffer: Buffer) -> Result<Vec<Row>, Fault> {
        let session = session.to_owned();
        self.store.wait(move |database| {
            database
                .prepare_cached(
                    "SELECT number, at_ms, body FROM transcript WHERE session = ?1 AND buffer = ?2 ORDER BY number",
                )?
                .query_map(params![session, buffer.name()], |row| {
                    Ok(Row {
                        number: row.get::<_, i64>(0)?.cast_unsigned(),
                        at_ms: row.get::<_, i64>(1)?.cast_unsigned(),
                        body: row.get(2)?,
                    })
                })?
                .collect()
        })
    }

    /// The session of an agent that was used last, if there is one. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn newest(&self) -> Result<Option<String>, Fault> {
        self.store.wait(|database| {
            use rusqlite::OptionalExtension;
            database
                .prepare_cached(
                    "SELECT session FROM transcript WHERE buffer = 'context' AND session NOT LIKE '%/%'
                     ORDER BY at_ms DESC, number DESC LIMIT 1",
                )?
                .query_row([], |row| row.get(0))
                .optional()
        })
    }
}

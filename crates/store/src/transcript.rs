//! Transcripts: a session's conversation, for the person and for the model.
//!
//! Two buffers for each session: `messages`, which a person is shown, and `context`, which a model is sent. Rows are
//! only ever added, and each is numbered by whoever writes it, so two processes can't both go on with one session.

use std::{
    borrow::Cow,
    fs::{File, TryLockError},
    future::Future,
    io::{Read, Seek, Write},
};

use kit::{Fault, Kind, redact::Secrets};
use rusqlite::params;
use serde_json::Value;

use super::{
    Store, now_ms,
    paths::{create_folder, private_file},
    search_index,
};
use crate::credentials;

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

/// A session that nobody else goes on with as long as this is held, however this process ends.
#[derive(Debug)]
pub struct SessionLease {
    _lock: File,
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
    /// Takes a session for whoever is to go on with it, as two would contradict each other.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] when somebody goes on with it already, or the lock can't be made.
    pub fn hold(&self, session: &str) -> Result<SessionLease, Fault> {
        let folder = self.store.locks();
        let hash = blake3::hash(session.as_bytes()).to_hex();
        let path = folder.join(format!("session-{}", hash.get(..32).unwrap_or_default()));
        let failed = |error: std::io::Error| {
            let what = format!("the session `{session}` can't be locked by {}: {error}", path.display());
            Fault::new(Kind::Unavailable, what).caused_by(error)
        };
        let mut file = create_folder(&folder).and_then(|()| private_file(&path)).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::Error(error)) => return Err(failed(error)),
            Err(TryLockError::WouldBlock) => {
                let mut by = String::new();
                let _ = file.read_to_string(&mut by);
                let by = if by.is_empty() { "another process".to_owned() } else { format!("process {by}") };
                let what = format!("the session `{session}` is open in another haft ({by})");
                return Err(Fault::new(Kind::Unavailable, what)
                    .next("Close it there first, or start another conversation."));
            }
        }
        // Only for the words above: who holds it is decided by the lock.
        let _ = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| write!(file, "{}", std::process::id()));
        Ok(SessionLease { _lock: file })
    }

    /// Adds a row; it is queued at once, and resolves when it is committed. Secrets in its texts are masked, and credentials in
    /// the arguments of its calls.
    ///
    /// # Errors
    /// When the database can't be written, or the session has a row of that number already.
    pub fn add(
        &self,
        session: &str,
        buffer: Buffer,
        number: u64,
        body: Value,
    ) -> impl Future<Output = Result<(), Fault>> + Send + use<> {
        let (session, at, stamp) = (session.to_owned(), now_ms().cast_signed(), self.store.stamp());
        self.store.ask(move |database| {
            let mut body = body;
            mask(&mut body, &stamp.secrets);
            let body = body.to_string();
            database
                .prepare_cached(
                    "INSERT INTO transcript (session, buffer, number, at_ms, body) VALUES (?1, ?2, ?3, ?4, ?5)",
                )?
                .execute(params![session, buffer.name(), number.cast_signed(), at, body])?;
            if buffer == Buffer::Messages {
                search_index::keep(database, &session, number, at, &body)?;
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

    /// Copies all that was said in a session, and what it put away, to another one that has nothing yet. Blocks.
    ///
    /// # Errors
    /// When the database can't be written, or the other session has something already.
    pub fn copy(&self, from: &str, to: &str) -> Result<(), Fault> {
        const ROWS: [&str; 4] = [
            "INSERT INTO transcript (session, buffer, number, at_ms, body)
             SELECT ?2, buffer, number, at_ms, body FROM transcript WHERE session = ?1",
            "INSERT INTO said (session, place, who, at_ms, text)
             SELECT ?2, place, who, at_ms, text FROM said WHERE session = ?1",
            "INSERT INTO said_rewound (session, first, last)
             SELECT ?2, first, last FROM said_rewound WHERE session = ?1",
            "INSERT OR REPLACE INTO session_values (session, key, bytes)
             SELECT ?2, key, bytes FROM session_values WHERE session = ?1",
        ];
        let (from, to) = (from.to_owned(), to.to_owned());
        self.store.wait(move |database| {
            // All of it or nothing: the first row that is there already ends it.
            ROWS.iter().try_for_each(|sql| database.prepare_cached(sql)?.execute(params![from, to]).map(drop))
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

/// The names under which a row says what it is, and no text.
const KINDS: [&str; 6] = ["row", "item", "said", "piece", "who", "wire"];

/// Masks the texts in a row; what makes it a row stays, whatever a secret is called.
fn mask(value: &mut Value, secrets: &Secrets) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(masked) = secrets.mask(text) {
                *text = masked;
            }
        }
        Value::Array(all) => all.iter_mut().for_each(|it| mask(it, secrets)),
        Value::Object(all) => {
            if all.get("said").is_some_and(|it| it == "call")
                && let Some(Value::String(arguments)) = all.get_mut("arguments")
                && let Cow::Owned(hidden) = credentials::hide(arguments)
            {
                *arguments = hidden;
            }
            let texts =
                all.iter_mut().filter(|(name, it)| !(it.is_string() && KINDS.contains(&name.as_str())));
            texts.for_each(|(_, it)| mask(it, secrets));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::{path::Path, sync::Arc};

    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn credentials_in_the_arguments_of_a_call_are_not_written_down() {
        let folder = tempfile::tempdir().unwrap();
        let rows =
            Store::open(folder.path(), Path::new("/nowhere/w"), Arc::new(Secrets::none())).transcripts();
        let arguments = r#"{"url":"https://a.org","headers":{"Authorization":"Bearer c4n4ry"}}"#;
        let call = json!({"said": "call", "id": "1", "tool": "http_request", "arguments": arguments});
        let body = json!({"row": "began", "call": call, "text": "Authorization: Bearer of a text"});
        rows.add("s", Buffer::Context, 1, body).await.unwrap();
        let row = rows.rows("s", Buffer::Context).unwrap().remove(0).body;
        assert!(
            row.contains("[masked]") && !row.contains("c4n4ry") && row.contains("Bearer of a text"),
            "{row}"
        );
    }

    #[tokio::test]
    async fn secrets_go_from_the_texts_of_a_row_and_it_stays_a_row() {
        let folder = tempfile::tempdir().unwrap();
        let secrets = Secrets::collect(
            [("A_TOKEN", "arguments"), ("B_TOKEN", "anthropic"), ("C_TOKEN", "nsecret1")],
            [],
        );
        let rows = Store::open(folder.path(), Path::new("/nowhere/w"), Arc::new(secrets)).transcripts();
        let body = json!({"row": "began", "call": {"said": "call", "arguments": "a\nsecret1 is no secret, nsecret1 is"},
            "opaque": {"wire": "anthropic", "value": ["of anthropic"]}});
        rows.add("s", Buffer::Context, 1, body).await.unwrap();
        let kept: Value =
            serde_json::from_str(&rows.rows("s", Buffer::Context).unwrap().first().unwrap().body).unwrap();
        assert_eq!(
            kept,
            json!({"row": "began",
                "call": {"said": "call", "arguments": "a\nsecret1 is no secret, [masked:C_TOKEN] is"},
                "opaque": {"wire": "anthropic", "value": ["of [masked:B_TOKEN]"]}})
        );
    }

    #[tokio::test]
    async fn a_copy_has_the_rows_of_both_buffers_and_is_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), Path::new("/nowhere/w"), Arc::new(Secrets::none()));
        let rows = store.transcripts();
        let said = json!({"who": "person", "text": "find me"});
        rows.add("a", Buffer::Messages, 1, said.clone()).await.unwrap();
        rows.add("a", Buffer::Context, 1, json!({"row": "note", "text": "x"})).await.unwrap();
        store.sessions().put("a", "agent", b"kept".to_vec()).unwrap();
        rows.copy("a", "b").unwrap();
        for buffer in [Buffer::Messages, Buffer::Context] {
            assert_eq!(rows.rows("b", buffer).unwrap(), rows.rows("a", buffer).unwrap());
        }
        assert_eq!(store.sessions().get("b", "agent").unwrap().as_deref(), Some(b"kept".as_slice()));
        assert!(rows.copy("a", "b").is_err(), "the other session has something by now");
        rows.add("b", Buffer::Messages, 2, said).await.unwrap();
        assert_eq!(rows.rows("a", Buffer::Messages).unwrap().len(), 1);
    }

    #[test]
    fn a_session_is_gone_on_with_by_one_at_a_time_and_others_are_free() {
        let folder = tempfile::tempdir().unwrap();
        let open =
            || Store::open(folder.path(), Path::new("/nowhere/w"), Arc::new(Secrets::none())).transcripts();
        let (one, other) = (open(), open());
        let held = one.hold("a").unwrap();
        let fault = other.hold("a").unwrap_err();
        assert_eq!(fault.kind, Kind::Unavailable);
        assert!(
            fault.what.contains(&format!("`a` is open in another haft (process {})", std::process::id())),
            "{}",
            fault.what
        );
        other.hold("b").unwrap();
        drop(held);
        other.hold("a").unwrap();
    }
}

//! Transcripts: a session's conversation, for the person and for the model.
//!
//! Each session has two buffers: `messages`, which a person is shown, and `context`, which a model is sent.
//! They are append-only, and the writer numbers the rows, so two processes can't both continue a session.

use std::{
    fs::{File, TryLockError},
    future::Future,
    io::{Read, Seek, Write},
    path::PathBuf,
    time::Duration,
};

use kit::{Fault, Kind};
use rusqlite::params;
use serde_json::Value;

use super::{
    Store,
    inbox::{self, Claim},
    now_ms,
    paths::{create_folder, private_file},
    savepoint::whole,
    search_index,
};
use crate::masking::mask;

/// The transcripts of one workspace's sessions.
#[derive(Clone)]
pub struct Transcripts {
    store: Store,
}

/// One of a session's two buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffer {
    /// The rows that a person is shown.
    Messages,
    /// The rows that a model is sent.
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

/// A lease on a session: no other process continues the session while it is held. The kernel releases it
/// however this process ends.
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
    /// The row's content, as its writer gave it.
    pub body: String,
}

impl Store {
    /// Returns the transcripts of this workspace's sessions.
    pub fn transcripts(&self) -> Transcripts {
        Transcripts { store: self.clone() }
    }
}

/// The cause of a fault: another holder has the lease on a session.
#[derive(Debug)]
struct LeaseTaken;

impl std::fmt::Display for LeaseTaken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("another holder has the lease")
    }
}

impl std::error::Error for LeaseTaken {}

/// Returns whether a session could not be opened because another holder had its lease. It may be free by now.
pub fn is_lease_taken(fault: &Fault) -> bool {
    fault.source.as_ref().is_some_and(|it| it.is::<LeaseTaken>())
}

impl Transcripts {
    /// Takes the lease on a session, so that two processes never continue the same one.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] when another holder has the lease ([`is_lease_taken`]), or the lock file can't be made.
    pub fn hold(&self, session: &str) -> Result<SessionLease, Fault> {
        let (folder, path) = (self.store.locks(), self.lock_of(session));
        let failed = |error: std::io::Error| {
            let what = format!("the session `{session}` can't be locked by {}: {error}", path.display());
            Fault::new(Kind::Unavailable, what).caused_by(error)
        };
        let mut file = create_folder(&folder).and_then(|()| private_file(&path)).map_err(failed)?;
        match lock(&file) {
            Ok(()) => {}
            Err(TryLockError::Error(error)) => return Err(failed(error)),
            Err(TryLockError::WouldBlock) => {
                let mut by = String::new();
                let _ = file.read_to_string(&mut by);
                let by = if by.is_empty() { "another process".to_owned() } else { format!("process {by}") };
                let what = format!("the session `{session}` is open in another haft ({by})");
                return Err(Fault::new(Kind::Unavailable, what)
                    .caused_by(LeaseTaken)
                    .next("Attach to it with `haft chat --attach`, close it there first, or start another conversation."));
            }
        }
        // Only for the error message above: the lock decides who holds the lease.
        let _ = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| write!(file, "{}", std::process::id()));
        Ok(SessionLease { _lock: file })
    }

    /// Adds a row. It is queued at once, and the future resolves when it is committed. Secrets in its texts
    /// are masked, and so are credentials in the arguments of its calls.
    ///
    /// # Errors
    /// When the database can't be written, or the session already has a row of that number.
    pub fn add(
        &self,
        session: &str,
        buffer: Buffer,
        number: u64,
        body: Value,
    ) -> impl Future<Output = Result<(), Fault>> + Send + use<> {
        self.add_rows(session, vec![(buffer, number, body)], Claim::None)
    }

    /// Adds rows, and makes a claim on messages in the inbox of the session, in one transaction: all of it is done, or nothing. The
    /// messages are shown in the last of these rows.
    ///
    /// # Errors
    /// Those of [`add`](Self::add), and when one of the messages was shown before; then nothing changes.
    pub fn add_rows(
        &self,
        session: &str,
        rows: Vec<(Buffer, u64, Value)>,
        claim: Claim,
    ) -> impl Future<Output = Result<(), Fault>> + Send + use<> {
        let last = rows.last().map_or(0, |it| it.1);
        let claim = self.broken_apart(session, last, claim);
        let (session, at, stamp) = (session.to_owned(), now_ms().cast_signed(), self.store.stamp());
        self.store.ask(move |database| {
            let done = whole(database, |database| {
                for (buffer, number, mut body) in rows {
                    mask(&mut body, &stamp.secrets, &KINDS);
                    let body = body.to_string();
                    database
                        .prepare_cached(
                            "INSERT INTO transcript (session, buffer, number, at_ms, body) VALUES (?1, ?2, ?3, ?4, ?5)",
                        )?
                        .execute(params![session, buffer.name(), number.cast_signed(), at, body])?;
                    if buffer == Buffer::Messages {
                        search_index::keep(database, &session, number, at, &body)?;
                    }
                }
                let is_claimed = inbox::claim(database, &session, last, &claim)?;
                Ok(if is_claimed { Ok(()) } else { Err(rusqlite::Error::QueryReturnedNoRows) })
            });
            done?
        })
    }

    /// Makes the claim in a transaction of its own, later, where a test asks for that fault. Otherwise returns it as it is.
    fn broken_apart(&self, session: &str, number: u64, claim: Claim) -> Claim {
        if claim == Claim::None || !kit::deliberate_faults::is_broken("inbox-claim") {
            return claim;
        }
        let (store, session) = (self.store.clone(), session.to_owned());
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(30));
            store.wait(move |database| inbox::claim(database, &session, number, &claim))
        });
        Claim::None
    }

    /// Returns the rows of a session in order. Blocks.
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

    /// The id of the process that goes on with a session, if one does. Blocks.
    ///
    /// # Errors
    /// When the lock can't be checked.
    pub fn holder(&self, session: &str) -> Result<Option<String>, Fault> {
        let path = self.lock_of(session);
        let failed = |error: std::io::Error| {
            let what = format!("the lock {} can't be looked at: {error}", path.display());
            Fault::new(Kind::Unavailable, what).caused_by(error)
        };
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        // Shared, so that two that look at once don't take each other for the one that holds it.
        match file.try_lock_shared() {
            Ok(()) => Ok(None),
            Err(TryLockError::WouldBlock) => {
                let mut by = String::new();
                file.read_to_string(&mut by).map_err(failed)?;
                Ok(Some(by))
            }
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    fn lock_of(&self, session: &str) -> PathBuf {
        let hash = blake3::hash(session.as_bytes()).to_hex();
        self.store.locks().join(format!("session-{}", hash.get(..32).unwrap_or_default()))
    }

    /// The session of an agent that was used last, if there is one. Archived and deleted conversations don't count. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn newest(&self) -> Result<Option<String>, Fault> {
        self.store.wait(|database| {
            use rusqlite::OptionalExtension;
            database
                .prepare_cached(
                    "SELECT session FROM transcript WHERE buffer = 'context' AND session NOT LIKE '%/%'
                     AND session NOT IN (SELECT session FROM conversations
                       WHERE archived_ms IS NOT NULL OR deleted_ms IS NOT NULL)
                     ORDER BY at_ms DESC, number DESC LIMIT 1",
                )?
                .query_row([], |row| row.get(0))
                .optional()
        })
    }
}

/// Takes a lock. Who only [looks](Transcripts::holder) who holds it has it for a moment, which is waited for.
fn lock(file: &File) -> Result<(), TryLockError> {
    for _ in 0..LOOKS {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(A_LOOK),
            done => return done,
        }
    }
    file.try_lock()
}

/// So often and so long a lock is waited for.
const LOOKS: usize = 4;
const A_LOOK: Duration = Duration::from_millis(2);

/// The fields whose values name the kind of a row or of its parts.
const KINDS: [&str; 6] = ["row", "item", "said", "piece", "who", "wire"];

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::{path::Path, sync::Arc};

    use kit::redact::Secrets;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn credentials_in_call_arguments_are_not_stored() {
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
    async fn secrets_are_masked_in_the_texts_of_a_row_but_not_in_its_structure() {
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

    #[test]
    fn a_session_has_one_lease_at_a_time() {
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
        assert_eq!(other.holder("a").unwrap(), Some(std::process::id().to_string()));
        assert_eq!(other.holder("never opened").unwrap(), None);
        drop(held);
        assert_eq!(other.holder("a").unwrap(), None);
        other.hold("a").unwrap();
    }
}

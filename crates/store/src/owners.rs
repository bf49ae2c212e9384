//! Owners of sessions: which process runs a session, under which epoch, and where it is reached.
//!
//! A process claims a session only while it holds the session's lease ([`Transcripts::hold`](crate::Transcripts::hold)), which the
//! kernel takes from it when it dies. The epoch grows with each claim and is a fencing token: events of an older epoch are
//! refused.

use std::future::Future;

use kit::Fault;
use rusqlite::{OptionalExtension, params};

use super::{Store, now_ms};

/// The owners of one workspace's sessions.
#[derive(Clone)]
pub struct Owners {
    store: Store,
}

/// The current or last owner of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerRecord {
    /// How often the session was claimed.
    pub epoch: u64,
    /// The life of a process that claimed it; nothing, where that one gave it up.
    pub instance: Option<String>,
    /// Its process id.
    pub pid: u32,
    /// The name of its socket.
    pub socket: Option<String>,
    /// When it claimed the session, in milliseconds since 1970.
    pub since_ms: u64,
}

impl Store {
    /// The owners of this workspace's sessions.
    pub fn owners(&self) -> Owners {
        Owners { store: self.clone() }
    }
}

impl Owners {
    /// Claims a session for this process, which holds its lease. Gives the new epoch.
    ///
    /// # Errors
    /// When the database can't be written.
    pub fn claim(
        &self,
        session: &str,
        socket: Option<&str>,
    ) -> impl Future<Output = Result<u64, Fault>> + Send + use<> {
        let (session, socket) = (session.to_owned(), socket.map(str::to_owned));
        let instance = self.store.instance().to_owned();
        self.store.ask(move |database| {
            database
                .prepare_cached(
                    "INSERT INTO owners (session, epoch, instance, pid, socket, since_ms) VALUES (?1, 1, ?2, ?3, ?4, ?5)
                     ON CONFLICT (session) DO UPDATE SET epoch = epoch + 1, instance = excluded.instance,
                       pid = excluded.pid, socket = excluded.socket, since_ms = excluded.since_ms
                     RETURNING epoch",
                )?
                .query_row(
                    params![session, instance, std::process::id(), socket, now_ms().cast_signed()],
                    |row| row.get::<_, i64>(0),
                )
                .map(i64::cast_unsigned)
        })
    }

    /// Gives a session up that was claimed under `epoch`; nothing happens where another claim followed. It is queued at
    /// once, after the events that were queued before.
    ///
    /// # Errors
    /// When the database is known to be out of order.
    pub fn release(&self, session: &str, epoch: u64) -> Result<(), Fault> {
        let session = session.to_owned();
        self.store.later(move |database| {
            database
                .prepare_cached(
                    "UPDATE owners SET instance = NULL, socket = NULL WHERE session = ?1 AND epoch = ?2",
                )?
                .execute(params![session, epoch.cast_signed()])?;
            Ok(())
        })
    }

    /// Returns the current or last owner of a session, if any process ever claimed it. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn get(&self, session: &str) -> Result<Option<OwnerRecord>, Fault> {
        let session = session.to_owned();
        self.store.read(move |database| {
            database
                .prepare_cached(
                    "SELECT epoch, instance, pid, socket, since_ms FROM owners WHERE session = ?1",
                )?
                .query_row([&session], |row| {
                    Ok(OwnerRecord {
                        epoch: row.get::<_, i64>(0)?.cast_unsigned(),
                        instance: row.get(1)?,
                        pid: row.get(2)?,
                        socket: row.get(3)?,
                        since_ms: row.get::<_, i64>(4)?.cast_unsigned(),
                    })
                })
                .optional()
        })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::{path::Path, sync::Arc};

    use kit::redact::Secrets;

    use super::*;

    #[tokio::test]
    async fn each_claim_has_a_higher_epoch_and_only_the_newest_can_be_released() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Store::open(folder.path(), Path::new("/nowhere/w"), Arc::new(Secrets::none()));
        let (one, other) = (open(), open());
        assert_eq!(one.owners().get("s").unwrap(), None);
        assert_eq!(one.owners().claim("s", Some("sock")).await.unwrap(), 1);
        assert_eq!(other.owners().claim("s", None).await.unwrap(), 2);
        one.owners().release("s", 1).unwrap();
        one.flush().await.unwrap();
        let owner = one.owners().get("s").unwrap().unwrap();
        assert_eq!(
            (owner.epoch, owner.instance.as_deref(), owner.pid, owner.socket),
            (2, Some(other.instance()), std::process::id(), None)
        );
        other.owners().release("s", 2).unwrap();
        other.flush().await.unwrap();
        let owner = one.owners().get("s").unwrap().unwrap();
        assert_eq!((owner.epoch, owner.instance), (2, None), "the epoch stays");
    }
}

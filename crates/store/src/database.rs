//! The database of one workspace: one writer thread, a queue of work for it, and readers beside it.

use std::{
    future::Future,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use kit::{Fault, redact::Secrets};
use parking_lot::Mutex;
use rusqlite::Connection;

use crate::{
    blobs::Blobs,
    clock::now_ms,
    paths::Place,
    prune::{self, PruneLimits, Pruned, Upkeep},
    queue::{self, Queue, Urgency},
    reader::Reader,
    writer,
};

/// The folder in which what is kept of `workspace` is, below `state`.
pub fn folder_of(state: &Path, workspace: &Path) -> PathBuf {
    Place::of(state, workspace).folder
}

/// How long the last owner of a store waits for what is queued to reach the disk.
const LAST_FLUSH: Duration = Duration::from_secs(5);

/// What the runtime keeps of one workspace. Cheap to clone; the last clone to go
/// writes out what is queued and ends the writer.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    place: Place,
    instance: Arc<str>,
    secrets: Arc<Secrets>,
    started: Instant,
    calls: AtomicU32,
    queue: Arc<Queue>,
    writer: Mutex<Option<JoinHandle<()>>>,
    reader: Reader,
}

/// Who writes a row, and what must not be in it.
pub struct Stamp {
    pub(crate) instance: Arc<str>,
    pub secrets: Arc<Secrets>,
}

impl Store {
    /// The store of `workspace` below `state`. Returns at once: the database is opened
    /// by the writer when it is first needed, and what is wrong with it is said then.
    /// The values of `secrets` never reach the journal.
    pub fn open(state: &Path, workspace: &Path, secrets: Arc<Secrets>) -> Self {
        Self::with_upkeep(state, workspace, secrets, &[])
    }

    /// The same; what others keep in these folders is pruned with what the store keeps, at most once a day.
    pub fn with_upkeep(
        state: &Path,
        workspace: &Path,
        secrets: Arc<Secrets>,
        upkeep: &'static [Upkeep],
    ) -> Self {
        let place = Place::of(state, workspace);
        // Without random bytes the time and the process id still tell two processes apart.
        let seed = getrandom::u64().unwrap_or_else(|_| now_ms() ^ (u64::from(std::process::id()) << 32));
        let instance: Arc<str> = base32(seed, 12).into();
        let queue = Arc::new(Queue::new(place.database()));
        let started = Instant::now();
        let writer = std::thread::Builder::new().name("haft-store".to_owned()).spawn({
            let (place, queue, instance) = (place.clone(), Arc::clone(&queue), Arc::clone(&instance));
            move || writer::run(&place, &queue, &instance, upkeep)
        });
        if let Err(error) = &writer {
            queue.abandon(&format!("no thread could be started to write it: {error}"));
        }
        let calls = AtomicU32::new((seed >> 32) as u32);
        let writer = Mutex::new(writer.ok());
        Self {
            inner: Arc::new(Inner {
                place,
                instance,
                secrets,
                started,
                calls,
                queue,
                writer,
                reader: Reader::default(),
            }),
        }
    }

    /// A new id for a call: unique in the workspace, also beside other processes.
    pub fn call_id(&self) -> String {
        // Seconds since 2026 put ids in the order of time, which keeps the index on them
        // compact; the counter starts at a random place in each process.
        const EPOCH: u64 = 1_767_225_600;
        let seconds = (now_ms() / 1000).saturating_sub(EPOCH);
        let count = self.inner.calls.fetch_add(1, Ordering::Relaxed);
        format!("c_{}{}", base32(seconds, 6), base32(u64::from(count), 6))
    }

    /// The name of this life of this process, which is in each row it writes.
    pub fn instance(&self) -> &str {
        &self.inner.instance
    }

    /// The workspace this store belongs to, canonical where it exists.
    pub fn workspace(&self) -> &Path {
        &self.inner.place.workspace
    }

    /// The folder that holds the database and what is beside it.
    pub fn folder(&self) -> &Path {
        &self.inner.place.folder
    }

    /// The folder of the files that keep two processes off one file.
    pub fn locks(&self) -> PathBuf {
        self.folder().join("locks")
    }

    /// What was wrong when something was last written, if nothing has worked since.
    pub fn trouble(&self) -> Option<Fault> {
        self.inner.queue.trouble().map(Fault::from)
    }

    /// Waits until everything queued so far is committed.
    ///
    /// # Errors
    /// When the database can't be written.
    pub async fn flush(&self) -> Result<(), Fault> {
        self.ask(|_| Ok(())).await
    }

    /// Writes out what is queued and ends the writer, waiting no longer than `within`.
    /// False when that was not long enough.
    pub fn close(&self, within: Duration) -> bool {
        self.inner.close(within)
    }

    /// Removes before-images and spills that are over `limits`, the oldest first. The
    /// writer does this by itself once a day, when it has nothing else to do.
    ///
    /// # Errors
    /// When the folders can't be read.
    pub fn prune(&self, limits: PruneLimits) -> Result<Pruned, Fault> {
        prune::prune(&self.inner.place, limits, None)
    }

    pub fn blobs(&self) -> Blobs {
        Blobs::new(self.inner.place.blobs(), Arc::clone(&self.inner.instance))
    }

    pub(crate) fn spill_folder(&self) -> std::path::PathBuf {
        self.inner.place.spill()
    }

    pub fn files_folder(&self) -> std::path::PathBuf {
        self.inner.place.files()
    }

    pub fn live_folder(&self) -> std::path::PathBuf {
        self.inner.place.live()
    }

    /// What each row needs to know. Work in the queue must not hold the store itself: the
    /// writer would then be the last owner, and wait for itself to end.
    pub fn stamp(&self) -> Stamp {
        Stamp { instance: Arc::clone(&self.inner.instance), secrets: Arc::clone(&self.inner.secrets) }
    }

    /// The time since this store was opened, which no change of the clock can turn back.
    pub(crate) fn uptime(&self) -> Duration {
        self.inner.started.elapsed()
    }

    /// Queues work. It is committed soon, together with whatever else is queued.
    pub(crate) fn later<F>(&self, work: F) -> Result<(), Fault>
    where
        F: FnOnce(&Connection) -> rusqlite::Result<()> + Send + 'static,
    {
        Ok(self.inner.queue.push(work, None, Urgency::Later)?)
    }

    /// Queues work, and gives its result once it is committed.
    pub(crate) fn ask<T, F>(&self, work: F) -> impl Future<Output = Result<T, Fault>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let (reply, answer) = tokio::sync::oneshot::channel();
        let queued = self.inner.queue.push(work, Some(queue::Reply::Task(reply)), Urgency::Now);
        async move {
            queued?;
            Ok(answer.await.map_err(|_| queue::gone())??)
        }
    }

    /// Queues work and blocks until its result is committed.
    pub fn wait<T, F>(&self, work: F) -> Result<T, Fault>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let (reply, answer) = std::sync::mpsc::sync_channel(1);
        self.inner.queue.push(work, Some(queue::Reply::Thread(reply)), Urgency::Now)?;
        Ok(answer.recv().map_err(|_| queue::gone())??)
    }

    /// Reads what any process has committed by now, but not what is queued here. Seldom waits for another thread.
    pub(crate) fn read<T, F>(&self, work: F) -> Result<T, Fault>
    where
        T: Send + 'static,
        F: Fn(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        if let Some(found) = self.inner.reader.read(&self.inner.place.database(), &work) {
            return Ok(found);
        }
        let found = self.wait(work)?;
        self.inner.reader.may_open();
        Ok(found)
    }
}

impl Inner {
    fn close(&self, within: Duration) -> bool {
        self.reader.close();
        self.queue.close();
        if !self.queue.wait_finished(within) {
            tracing::warn!(database = %self.place.database().display(), "closed before all was written");
            return false;
        }
        let writer = self.writer.lock().take();
        writer.is_none_or(|it| it.join().is_ok())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close(LAST_FLUSH);
    }
}

/// The lowest `digits` base-32 digits of `number`, in an alphabet without i, l, o and u.
fn base32(number: u64, digits: u32) -> String {
    const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    (0..digits)
        .rev()
        .filter_map(|place| ALPHABET.get((number >> (5 * place) & 31) as usize).map(|it| char::from(*it)))
        .collect()
}

//! The database of one workspace: a writer thread with a work queue, and a connection for readers.

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
    shared_connection::SharedConnection,
    writer,
};

/// Returns the folder below `state` that holds the records of `workspace`.
pub fn folder_of(state: &Path, workspace: &Path) -> PathBuf {
    Place::of(state, workspace).folder
}

/// Time that the last owner of a store waits for queued work to reach the disk.
const LAST_FLUSH: Duration = Duration::from_secs(5);

/// The records of one workspace. Cheap to clone; dropping the last clone commits the queued work and ends the
/// writer.
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
    connection: Arc<SharedConnection>,
    writer: Mutex<Option<JoinHandle<()>>>,
    reader: Reader,
}

/// The writer's instance name, for each row, and the secrets that a row must not contain.
pub struct Stamp {
    pub(crate) instance: Arc<str>,
    pub secrets: Arc<Secrets>,
}

impl Store {
    /// Opens the store of `workspace` below `state`. Returns at once: the writer opens the database when it
    /// is first needed, and errors are reported then. The values of `secrets` never reach the journal.
    pub fn open(state: &Path, workspace: &Path, secrets: Arc<Secrets>) -> Self {
        Self::with_upkeep(state, workspace, secrets, &[])
    }

    /// Like [`open`](Self::open), and prunes the `upkeep` folders together with the store's own, at most once
    /// a day.
    pub fn with_upkeep(
        state: &Path,
        workspace: &Path,
        secrets: Arc<Secrets>,
        upkeep: &'static [Upkeep],
    ) -> Self {
        let place = Place::of(state, workspace);
        // Without random bytes, the time and the process id still distinguish two processes.
        let seed = getrandom::u64().unwrap_or_else(|_| now_ms() ^ (u64::from(std::process::id()) << 32));
        let instance: Arc<str> = base32(seed, 12).into();
        let (queue, connection) =
            (Arc::new(Queue::new(place.database())), Arc::<SharedConnection>::default());
        let started = Instant::now();
        let writer = std::thread::Builder::new().name("haft-store".to_owned()).spawn({
            let (place, instance) = (place.clone(), Arc::clone(&instance));
            let (queue, connection) = (Arc::clone(&queue), Arc::clone(&connection));
            move || writer::run(&place, &queue, &connection, &instance, upkeep)
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
                connection,
                writer,
                reader: Reader::default(),
            }),
        }
    }

    /// Returns a new call id. It is unique in the workspace, across processes too.
    pub fn call_id(&self) -> String {
        // Seconds since 2026 order the ids by time, which keeps their index compact; the counter starts at a
        // random number in each process.
        const EPOCH: u64 = 1_767_225_600;
        let seconds = (now_ms() / 1000).saturating_sub(EPOCH);
        let count = self.inner.calls.fetch_add(1, Ordering::Relaxed);
        format!("c_{}{}", base32(seconds, 6), base32(u64::from(count), 6))
    }

    /// Returns the name of this process instance. Each row that the process writes contains it.
    pub fn instance(&self) -> &str {
        &self.inner.instance
    }

    /// Returns the workspace of this store, canonical where it exists.
    pub fn workspace(&self) -> &Path {
        &self.inner.place.workspace
    }

    /// Returns the folder that holds the database and the files beside it.
    pub fn folder(&self) -> &Path {
        &self.inner.place.folder
    }

    /// Returns the folder of the logs of the change tracker, one folder for each call.
    pub fn tracked_folder(&self) -> PathBuf {
        self.inner.place.tracked()
    }

    /// Returns the folder of the lock files that serialize access to a file across processes.
    pub fn locks(&self) -> PathBuf {
        self.folder().join("locks")
    }

    /// Returns the error of the last batch, if it failed.
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

    /// Commits the queued work and ends the writer, waiting at most `within`. Returns false on a timeout.
    pub fn close(&self, within: Duration) -> bool {
        self.inner.close(within)
    }

    /// Removes before-images and spill files that exceed `limits`, the oldest first. The writer also does
    /// this once a day, when it is idle.
    ///
    /// # Errors
    /// When the folders can't be read.
    pub fn prune(&self, limits: PruneLimits) -> Result<Pruned, Fault> {
        prune::prune(&self.inner.place, limits, None)
    }

    /// Returns what before-images and long outputs hold on the disk. Blocks.
    ///
    /// # Errors
    /// When the folders can't be read.
    pub fn held(&self) -> Result<prune::DiskUse, Fault> {
        prune::held(&self.inner.place)
            .map_err(|error| super::error::Trouble::of_file(self.folder(), &error).into())
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

    /// Returns the stamp of new rows. Work in the queue must not hold the store itself: the writer would then
    /// be the last owner, and wait for itself to end.
    pub fn stamp(&self) -> Stamp {
        Stamp { instance: Arc::clone(&self.inner.instance), secrets: Arc::clone(&self.inner.secrets) }
    }

    /// Returns the time since this store was opened, by a monotonic clock.
    pub(crate) fn uptime(&self) -> Duration {
        self.inner.started.elapsed()
    }

    /// Queues work. The writer commits it soon, together with the rest of the queue.
    pub(crate) fn later<F>(&self, work: F) -> Result<(), Fault>
    where
        F: FnOnce(&Connection) -> rusqlite::Result<()> + Send + 'static,
    {
        Ok(self.inner.queue.push(work, None, Urgency::Later)?)
    }

    /// Queues work, and returns its result once it is committed.
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

    /// Like [`ask`](Self::ask), for work that is short: it is done in this thread if nothing is in its way.
    pub(crate) async fn ask_here<T, F>(&self, work: F) -> Result<T, Fault>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        match self.here(work) {
            Ok(result) => result,
            Err(work) => self.ask(work).await,
        }
    }

    /// Does work in this thread, or gives it back.
    fn here<T, F>(&self, work: F) -> Result<Result<T, Fault>, F>
    where
        F: FnOnce(&Connection) -> rusqlite::Result<T>,
    {
        let Inner { place, queue, connection, .. } = &*self.inner;
        connection.here(&place.database(), queue, work).map(|it| it.map_err(Fault::from))
    }

    /// Queues work, and calls `done` with its result once it is committed: in the writer's thread, so `done` is short and
    /// owns no store. Work is committed in the order in which it was queued.
    pub(crate) fn then<T, F, D>(&self, work: F, done: D) -> Result<(), Fault>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
        D: FnOnce(Result<T, Fault>) + Send + 'static,
    {
        let reply = queue::Reply::Then(Box::new(|result: Result<T, _>| done(result.map_err(Fault::from))));
        Ok(self.inner.queue.push(work, Some(reply), Urgency::Now)?)
    }

    /// Does work, or queues it, and blocks until its result is committed.
    pub fn wait<T, F>(&self, work: F) -> Result<T, Fault>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let work = match self.here(work) {
            Ok(result) => return result,
            Err(work) => work,
        };
        let (reply, answer) = std::sync::mpsc::sync_channel(1);
        self.inner.queue.push(work, Some(queue::Reply::Thread(reply)), Urgency::Now)?;
        Ok(answer.recv().map_err(|_| queue::gone())??)
    }

    /// Reads committed rows, also those of other processes, but not the work queued here. Rarely waits for
    /// another thread.
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

/// Returns the lowest `digits` base-32 digits of `number`, in an alphabet without i, l, o and u.
fn base32(number: u64, digits: u32) -> String {
    const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    (0..digits)
        .rev()
        .filter_map(|place| ALPHABET.get((number >> (5 * place) & 31) as usize).map(|it| char::from(*it)))
        .collect()
}

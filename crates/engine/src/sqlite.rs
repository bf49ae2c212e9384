//! The engine of one machine: one SQLite database that several processes share, and blobs in files beside it.

mod changes;
mod presence;
mod rows;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt as _, stream::BoxStream};
use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::watch;

use crate::{
    BlobId, Control, Engine, Error, Event, Options, Result, Source, Work, Worker,
    files::{Files, blocking, of_file},
    leases::Leases,
    record::Record,
    storage::{Followed, Notified, Row, Storage},
};
use changes::Changes;

/// How long a write waits for another process.
const BUSY: Duration = Duration::from_secs(10);

/// Opens the engine in this folder, and creates it if it is not there.
pub(crate) async fn open(folder: &Path, options: &Options) -> Result<Arc<dyn Engine>> {
    Ok(Arc::new(Leases::new(Sqlite::open(folder).await?, options.lease)))
}

pub(crate) struct Sqlite {
    connection: Arc<Mutex<Connection>>,
    changes: Changes,
    files: Files,
}

impl Sqlite {
    pub(crate) async fn open(folder: &Path) -> Result<Self> {
        let folder = folder.to_owned();
        blocking(move || {
            let files = Files::open(&folder.join("blobs"))?;
            let path = folder.join("engine.db");
            let connection = connect(&path)?;
            rows::create(&connection).map_err(|it| of_sqlite(&path, &it))?;
            let bell = folder.join("engine.bell");
            let changes = Changes::new(connect(&path)?, &bell).map_err(|it| of_file(&bell, &it))?;
            Ok(Self { connection: Arc::new(Mutex::new(connection)), changes, files })
        })
        .await
    }

    /// Runs `work` on the connection, in a thread that may wait for the disk.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        let connection = Arc::clone(&self.connection);
        blocking(move || {
            let mut connection = connection.lock();
            let path = PathBuf::from(connection.path().unwrap_or("engine.db"));
            work(&mut connection).map_err(|it| of_sqlite(&path, &it))
        })
        .await
    }

    /// Like [`read`](Self::read), and notifies this process afterwards; others notice by themselves.
    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        let done = self.read(work).await?;
        self.changes.notify();
        Ok(done)
    }
}

fn connect(path: &Path) -> Result<Connection> {
    let open = || {
        let connection = Connection::open(path)?;
        connection.busy_timeout(BUSY)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        // A result that was accepted must survive a loss of power: its worker does not do it again.
        connection.pragma_update(None, "synchronous", "full")?;
        Ok(connection)
    };
    open().map_err(|it| of_sqlite(path, &it))
}

fn of_sqlite(path: &Path, error: &rusqlite::Error) -> Error {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    let path = path.display();
    match error.sqlite_error_code() {
        Some(DatabaseCorrupt | NotADatabase) => Error::Damaged(format!(
            "{path}: {error}; move this file away to start with an empty engine (work that waits in it is lost)"
        )),
        Some(_) => Error::Unreachable(format!("{path}: {error}")),
        None => Error::Damaged(format!("{path}: {error}")),
    }
}

#[async_trait::async_trait]
impl Storage for Sqlite {
    async fn insert(&self, id: &str, work: &Work, record: &Record) -> Result<Option<u64>> {
        let (id, work, record) = (id.to_owned(), work.clone(), record.clone());
        self.write(move |it| rows::insert(it, &id, &work, &record)).await
    }

    async fn load(&self, id: &str) -> Result<Option<(Record, u64)>> {
        let id = id.to_owned();
        self.read(move |it| rows::load(it, &id)).await
    }

    async fn notified(&self, id: &str) -> Result<Notified> {
        self.load(id).await.map(Notified::from)
    }

    async fn work(&self, id: &str) -> Result<Option<Work>> {
        let id = id.to_owned();
        self.read(move |it| rows::work(it, &id)).await
    }

    async fn replace(&self, id: &str, record: &Record, revision: u64) -> Result<Option<u64>> {
        let (id, record) = (id.to_owned(), record.clone());
        self.write(move |it| rows::replace(it, &id, &record, revision)).await
    }

    async fn append(&self, id: &str, event: &Event, revision: u64) -> Result<bool> {
        let (id, event) = (id.to_owned(), event.clone());
        self.write(move |it| rows::append(it, &id, &event, revision)).await
    }

    async fn last_event(&self, id: &str) -> Result<u64> {
        let id = id.to_owned();
        self.read(move |it| rows::last_event(it, &id)).await
    }

    async fn deliver(&self, _: &str, _: &Record) -> Result<()> {
        // The row itself wakes the workers.
        Ok(())
    }

    async fn next(&self, worker: &Worker) -> Result<String> {
        let mut changes = self.changes.subscribe();
        let worker = Arc::new(worker.clone());
        loop {
            changes.borrow_and_update();
            let this = Arc::clone(&worker);
            if let Some(id) = self.read(move |it| rows::next(it, &this)).await? {
                return Ok(id);
            }
            changed(&mut changes).await?;
        }
    }

    async fn changes(&self) -> Result<watch::Receiver<u64>> {
        Ok(self.changes.subscribe())
    }

    async fn notify(&self, _: &str) -> Result<()> {
        // The row itself does.
        Ok(())
    }

    async fn observes(&self) -> Result<bool> {
        Ok(true)
    }

    async fn open_records(&self) -> Result<Vec<Row>> {
        self.read(|it| rows::open_records(it)).await
    }

    async fn follow(
        self: Arc<Self>,
        id: String,
        mut after: u64,
    ) -> Result<Option<BoxStream<'static, Result<Followed>>>> {
        if self.load(&id).await?.is_none() {
            return Ok(None);
        }
        let rows = async_stream::try_stream! {
            let mut changes = self.changes.subscribe();
            let mut shown = None;
            loop {
                changes.borrow_and_update();
                let of = id.clone();
                let (events, record) = self.read(move |it| rows::since(it, &of, after, shown)).await?;
                for event in events {
                    after = event.number;
                    yield Followed::Event(event);
                }
                if let Some((record, revision)) = record {
                    shown = Some(revision);
                    yield Followed::Record(Box::new(record), revision);
                }
                changed(&mut changes).await?;
            }
        };
        Ok(Some(rows.boxed()))
    }

    async fn put(&self, source: Source) -> Result<BlobId> {
        self.files.put(source).await
    }

    async fn has(&self, id: &BlobId) -> Result<bool> {
        self.files.has(id).await
    }

    async fn get(&self, id: &BlobId) -> Result<Vec<u8>> {
        self.files.get(id).await
    }

    async fn fetch(&self, id: &BlobId, to: &Path) -> Result<()> {
        self.files.fetch(id, to).await
    }

    async fn announce(&self, worker: &Worker, lease: Duration) -> Result<()> {
        let worker = worker.clone();
        self.read(move |it| presence::announce(it, &worker, lease)).await
    }

    async fn leave(&self, worker: &str) -> Result<()> {
        let worker = worker.to_owned();
        self.read(move |it| presence::leave(it, &worker)).await
    }

    async fn workers(&self) -> Result<Vec<Worker>> {
        self.read(|it| presence::workers(it)).await
    }

    async fn control(&self, worker: &str, control: Control) -> Result<()> {
        let worker = worker.to_owned();
        self.write(move |it| presence::control(it, &worker, control)).await
    }

    async fn requested(&self, worker: &str) -> Result<Option<Control>> {
        let worker = worker.to_owned();
        self.read(move |it| presence::controlled(it, &worker)).await
    }

    async fn controlled(&self, worker: &str) -> Result<Control> {
        let mut changes = self.changes.subscribe();
        loop {
            changes.borrow_and_update();
            if let Some(control) = self.requested(worker).await? {
                return Ok(control);
            }
            changed(&mut changes).await?;
        }
    }

    async fn sweep(&self, age: Duration) -> Result<()> {
        self.read(move |it| rows::sweep(it, age)).await?;
        self.files.sweep(age).await
    }
}

async fn changed(changes: &mut watch::Receiver<u64>) -> Result<()> {
    changes.changed().await.map_err(|_| Error::Unreachable("the engine was closed".to_owned()))
}

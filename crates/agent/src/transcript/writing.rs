//! Writing of the transcript: queues each row at once, and waits until all are on the disk.

use std::{collections::VecDeque, future::Future, pin::Pin};

use kit::Fault;
use parking_lot::Mutex;
use serde_json::Value;
use store::{Buffer, Claim, Transcripts};

/// The rows of one session that are not yet on the disk.
pub(super) struct Writing {
    store: Transcripts,
    session: String,
    rows: VecDeque<OnItsWay>,
}

type OnDisk = Pin<Box<dyn Future<Output = Result<(), Fault>> + Send>>;

struct OnItsWay {
    /// Rows of one transaction: each with its buffer, its number and its body.
    rows: Vec<(Buffer, u64, Value)>,
    /// The claim on messages of the inbox that is made with them.
    claim: Claim,
    /// `None` after a failure. The mutex is never locked: it makes a turn `Sync`, as the turn of an agent
    /// inside another agent's call has to be.
    written: Option<Mutex<OnDisk>>,
}

impl Writing {
    pub(super) fn new(store: Transcripts, session: &str) -> Self {
        Self { store, session: session.to_owned(), rows: VecDeque::new() }
    }

    /// Queues a row at once, so that rows and the records of the journal reach the disk in the order of their
    /// making.
    pub(super) fn add(&mut self, buffer: Buffer, number: u64, body: Value, claim: Claim) {
        self.add_rows(vec![(buffer, number, body)], claim);
    }

    /// Queues rows of one transaction: all of them reach the disk, or none.
    pub(super) fn add_rows(&mut self, rows: Vec<(Buffer, u64, Value)>, claim: Claim) {
        let written: OnDisk = Box::pin(self.store.add_rows(&self.session, rows.clone(), claim.clone()));
        self.rows.push_back(OnItsWay { rows, claim, written: Some(Mutex::new(written)) });
    }

    /// Waits until all rows are on the disk. Can be dropped and called again. Each row that failed is tried again, once in each
    /// call.
    ///
    /// # Errors
    /// When a row can't be written.
    pub(super) async fn done(&mut self) -> Result<(), Fault> {
        while let Some(row) = self.rows.front_mut() {
            let (store, session) = (&self.store, &self.session);
            // One that was queued earlier may have failed for a cause that is gone by now.
            let was_queued = row.written.is_some();
            let written = row.written.get_or_insert_with(|| {
                let again: OnDisk = Box::pin(store.add_rows(session, row.rows.clone(), row.claim.clone()));
                Mutex::new(again)
            });
            if let Err(fault) = written.get_mut().as_mut().await {
                row.written = None;
                if was_queued {
                    continue;
                }
                return Err(fault);
            }
            self.rows.pop_front();
        }
        Ok(())
    }
}

//! Workers and pieces of work of runs on engines: without demands, so that every worker may do every work.

use engine::{Grain, Key, PROTOCOL, Work, Worker};
use serde_json::Value;

/// Returns a worker that runs so many pieces of work at once.
#[must_use]
pub fn worker(id: String, slots: u32) -> Worker {
    Worker {
        id,
        host: "here".to_owned(),
        labels: Default::default(),
        slots,
        busy: 0,
        version: "bench".to_owned(),
        protocol: PROTOCOL,
        draining: false,
        has: Vec::new(),
    }
}

/// Returns the key of a step of a session.
#[must_use]
pub fn key(session: &str, step: u64) -> Key {
    Key { session: session.to_owned(), step, call: 0, attempt: 0 }
}

/// Returns a piece of work with this task.
#[must_use]
pub fn work(key: Key, task: Value, idempotent: bool) -> Work {
    Work {
        key,
        grain: Grain::Call,
        labels: Default::default(),
        needs: Vec::new(),
        protocol: PROTOCOL,
        haft: "bench".to_owned(),
        task,
        snapshot: None,
        limits: Value::Null,
        idempotent,
    }
}

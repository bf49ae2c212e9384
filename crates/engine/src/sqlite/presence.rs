//! The rows of workers: announcements and requests.
//!
//! An announcement counts until a time since the machine's start. All processes of a machine share that clock, and nobody can
//! set it.

use std::{fs, time::Duration};

use rusqlite::{Connection, OptionalExtension as _, Result, params};
use rustix::time::{ClockId, clock_gettime};

use super::rows::{json, parsed, signed, wall_ms};
use crate::{Control, Worker};

fn since_boot_ms() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.saturating_mul(1000).saturating_add(now.tv_nsec / 1_000_000)
}

/// Returns the id of this run of the machine, or nothing where the system has none.
fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

pub(super) fn announce(db: &Connection, worker: &Worker, lease: Duration) -> Result<()> {
    let until = since_boot_ms().saturating_add(i64::try_from(lease.as_millis()).unwrap_or(i64::MAX));
    db.execute(
        "INSERT INTO workers (id, worker, boot, until_ms) VALUES (?, ?, ?, ?)
         ON CONFLICT DO UPDATE SET worker = excluded.worker, boot = excluded.boot, until_ms = excluded.until_ms",
        params![worker.id, json(worker)?, boot(), until],
    )?;
    db.execute("DELETE FROM workers WHERE boot <> ? OR until_ms < ?", params![boot(), since_boot_ms()])?;
    Ok(())
}

pub(super) fn leave(db: &Connection, worker: &str) -> Result<()> {
    db.execute("DELETE FROM workers WHERE id = ?", [worker])?;
    Ok(())
}

pub(super) fn workers(db: &Connection) -> Result<Vec<Worker>> {
    let mut select = db.prepare("SELECT worker FROM workers WHERE boot = ? AND until_ms >= ? ORDER BY id")?;
    let rows = select.query_map(params![boot(), since_boot_ms()], |row| parsed(row, 0))?;
    rows.collect()
}

pub(super) fn control(db: &Connection, worker: &str, control: Control) -> Result<()> {
    db.execute(
        "INSERT INTO controls (worker, control, changed_ms) VALUES (?, ?, ?)
         ON CONFLICT DO UPDATE SET control = excluded.control, changed_ms = excluded.changed_ms",
        params![worker, json(&control)?, signed(wall_ms())],
    )?;
    Ok(())
}

pub(super) fn controlled(db: &Connection, worker: &str) -> Result<Option<Control>> {
    let mut select = db.prepare_cached("SELECT control FROM controls WHERE worker = ?")?;
    select.query_row([worker], |row| parsed(row, 0)).optional()
}

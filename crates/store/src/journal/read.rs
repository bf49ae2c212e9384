//! Reading the journal: filters, and calls with their outcome and changes.

use std::path::PathBuf;

use kit::{Fault, Touch};
use rusqlite::{Connection, Row, params};
use serde::Serialize;
use serde_json::Value;

use super::Journal;
use crate::history::{path_of, text_of};

/// Default number of calls.
const CALLS: usize = 50;

/// Selects calls. The default: the newest fifty.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only calls of this session.
    pub session: Option<String>,
    /// Only calls of this tool.
    pub tool: Option<String>,
    /// Only this call.
    pub call: Option<String>,
    /// Only calls that began at this time or later, in milliseconds since 1970.
    pub since_ms: Option<u64>,
    /// Only calls that ended in a fault or were interrupted.
    pub faults: bool,
    /// At most this many, the newest. 0 stands for fifty.
    pub limit: usize,
}

/// A call in the journal.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CallRecord {
    /// Its id.
    pub call: String,
    /// The session it belongs to.
    pub session: String,
    /// The process that ran it, as its instance id.
    pub instance: String,
    /// The time when it began, in milliseconds since 1970.
    pub began_ms: u64,
    /// The tool.
    pub tool: String,
    /// The BLAKE3 hash of the original arguments.
    pub arguments_hash: String,
    /// The arguments, masked and truncated.
    pub arguments: String,
    /// Its touches.
    pub touches: Vec<Touch>,
    /// The rule that allowed or denied it.
    pub decision: String,
    /// The length of the arguments.
    pub bytes_in: u64,
    /// `ok`, the kind of the fault, `interrupted`; none while it is under way.
    pub outcome: Option<String>,
    /// The message of a fault.
    pub said: Option<String>,
    /// The runtime's notes.
    pub notes: Vec<String>,
    /// Its duration, in milliseconds.
    pub took_ms: Option<f64>,
    /// The length of its output.
    pub bytes_out: Option<u64>,
    /// The files it changed, in order.
    pub changes: Vec<ChangeRecord>,
}

/// One change of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangeRecord {
    /// The file.
    pub path: PathBuf,
    /// The BLAKE3 hash of the content before; `None` if the file did not exist.
    pub before: Option<String>,
    /// The BLAKE3 hash of the content after.
    pub after: Option<String>,
    /// The call whose change this one reverted.
    pub undoes: Option<String>,
}

impl Journal {
    /// Returns the calls that match `filter`, newest last. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn log(&self, filter: Filter) -> Result<Vec<CallRecord>, Fault> {
        self.store.wait(move |database| select(database, &filter))
    }
}

/// The query for each "begun" row with its "ended" row.
pub(super) const CALLS_WITH_ENDS: &str = "
SELECT b.call, b.session, b.instance, b.at_ms, b.tool, b.arguments_hash, b.arguments, b.touches, b.decision,
       b.bytes_in, e.outcome, e.said, e.notes, e.took_us, e.bytes_out
FROM journal b LEFT JOIN journal e ON e.call = b.call AND e.event = 'ended'
WHERE b.event = 'begun' ";

fn select(database: &Connection, filter: &Filter) -> rusqlite::Result<Vec<CallRecord>> {
    let limit = if filter.limit == 0 { CALLS } else { filter.limit };
    let mut records: Vec<CallRecord> = database
        .prepare_cached(&format!(
            "{CALLS_WITH_ENDS} AND (?1 IS NULL OR b.session = ?1) AND (?2 IS NULL OR b.tool = ?2)
               AND (?3 IS NULL OR b.call = ?3) AND (?4 IS NULL OR b.at_ms >= ?4) AND (NOT ?5 OR e.outcome <> 'ok')
             ORDER BY b.seq DESC LIMIT ?6"
        ))?
        .query_map(
            params![
                filter.session,
                filter.tool,
                filter.call,
                filter.since_ms.map(super::signed),
                filter.faults,
                super::signed(limit as u64)
            ],
            record,
        )?
        .collect::<rusqlite::Result<_>>()?;
    records.reverse();
    for record in &mut records {
        record.changes = changes(database, &record.call)?;
    }
    Ok(records)
}

/// Returns the record of a row of [`CALLS_WITH_ENDS`], without its changes.
pub(super) fn record(row: &Row) -> rusqlite::Result<CallRecord> {
    let number = |at: usize| row.get::<_, Option<i64>>(at).map(|it| it.map(i64::cast_unsigned));
    let took_us = number(13)?;
    Ok(CallRecord {
        call: row.get(0)?,
        session: row.get(1)?,
        instance: row.get(2)?,
        began_ms: number(3)?.unwrap_or_default(),
        tool: row.get(4)?,
        arguments_hash: hex(row.get(5)?).unwrap_or_default(),
        arguments: row.get(6)?,
        touches: touches(&row.get::<_, String>(7)?),
        decision: row.get(8)?,
        bytes_in: number(9)?.unwrap_or_default(),
        outcome: row.get(10)?,
        said: row.get(11)?,
        notes: row
            .get::<_, Option<String>>(12)?
            .and_then(|it| serde_json::from_str(&it).ok())
            .unwrap_or_default(),
        took_ms: took_us.map(|it| it as f64 / 1000.0),
        bytes_out: number(14)?,
        changes: Vec::new(),
    })
}

/// Returns the changes of a call, in order.
pub(super) fn changes(database: &Connection, call: &str) -> rusqlite::Result<Vec<ChangeRecord>> {
    database
        .prepare_cached(
            "SELECT c.path, c.before, c.after, r.call FROM changes c LEFT JOIN changes r ON r.id = c.reverts
             WHERE c.call = ?1 ORDER BY c.id",
        )?
        .query_map(params![call], |row| {
            Ok(ChangeRecord {
                path: path_of(row.get(0)?),
                before: hex(row.get(1)?),
                after: hex(row.get(2)?),
                undoes: row.get(3)?,
            })
        })?
        .collect()
}

fn hex(bytes: Option<Vec<u8>>) -> Option<String> {
    bytes.map(|it| text_of(&it))
}

/// Parses touches from JSON: `["exclusive", {"read": "/a"}]`.
fn touches(json: &str) -> Vec<Touch> {
    let values: Vec<Value> = serde_json::from_str(json).unwrap_or_default();
    values.iter().filter_map(touch).collect()
}

fn touch(value: &Value) -> Option<Touch> {
    match value.as_str() {
        Some("exclusive") => return Some(Touch::Exclusive),
        Some("unconfined") => return Some(Touch::Unconfined),
        _ => {}
    }
    let (kind, of) = value.as_object()?.iter().next()?;
    if kind == "server" {
        let name = of.get("name")?.as_str()?.to_owned();
        return Some(Touch::Server { name, reads: of.get("reads")?.as_bool()? });
    }
    let of = of.as_str()?.to_owned();
    match kind.as_str() {
        "read" => Some(Touch::Read(of)),
        "write" => Some(Touch::Write(of)),
        "run" => Some(Touch::Run(of)),
        "net" => Some(Touch::Net(of)),
        "web" => Some(Touch::Web(of)),
        "session" => Some(Touch::Session(of)),
        "tool" => Some(Touch::Tool(of)),
        "trigger" => Some(Touch::Trigger(of)),
        _ => None,
    }
}

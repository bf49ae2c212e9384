//! Recovery of calls whose process died: each gets its "ended" row.

use std::path::{Path, PathBuf};

use kit::{Fault, Touch};
use rusqlite::{Connection, params};
use serde::Serialize;

use super::{
    CallRecord, Journal, Outcome,
    read::{CALLS_WITH_ENDS, changes, record},
    signed,
};
use crate::{corpse, history::text_of, now_ms};

/// Reads a file; `None` if it does not exist.
pub type ReadFile<'a> = &'a dyn Fn(&Path) -> Result<Option<Vec<u8>>, Fault>;

/// A call whose process died before it was over.
#[derive(Debug, Clone, Serialize)]
pub struct Interrupted {
    /// The call, with its changes.
    pub call: CallRecord,
    /// The description of its state: the result that the call now has.
    pub text: String,
}

impl Interrupted {
    /// Returns whether one of its files had this content before, or was to have it after.
    pub fn knows(&self, bytes: &[u8]) -> bool {
        let hash = blake3::hash(bytes).to_hex();
        let is = |known: &Option<String>| known.as_deref() == Some(hash.as_str());
        self.call.changes.iter().any(|change| is(&change.before) || is(&change.after))
    }

    /// Returns the files that it declared it would write, or had begun to.
    pub fn paths(&self) -> Vec<PathBuf> {
        paths(&self.call)
    }
}

impl Journal {
    /// Gives each call whose process is dead its one result, and returns those calls. If two processes do
    /// this at once, one of them finds nothing. Blocks.
    ///
    /// `read` returns the present content of files, for the description.
    ///
    /// # Errors
    /// When the database can't be read or written.
    pub fn recover(&self, read: ReadFile) -> Result<Vec<Interrupted>, Fault> {
        let mut found = Vec::new();
        let own = self.store.instance().to_owned();
        for instance in self.store.wait(move |database| unfinished(database, &own))? {
            // Locked until its calls have their results, so that no other process recovers them.
            let Some(dead) = corpse(&self.store.live_folder(), &instance) else { continue };
            let open = {
                let instance = instance.clone();
                self.store.wait(move |database| open_calls(database, &instance))?
            };
            let open: Vec<Interrupted> =
                open.into_iter().map(|call| Interrupted { text: text(&call, read), call }).collect();
            let by = self.store.instance().to_owned();
            found.extend(self.store.wait(move |database| end_all(database, &instance, &by, open))?);
            dead.bury();
        }
        Ok(found)
    }
}

/// Returns the processes that have not recorded their end.
fn unfinished(database: &Connection, own: &str) -> rusqlite::Result<Vec<String>> {
    database
        .prepare_cached(
            "SELECT instance FROM processes p WHERE instance <> ?1
               AND NOT EXISTS (SELECT 1 FROM processes_ended e WHERE e.instance = p.instance)
             ORDER BY at_ms",
        )?
        .query_map(params![own], |row| row.get(0))?
        .collect()
}

fn open_calls(database: &Connection, instance: &str) -> rusqlite::Result<Vec<CallRecord>> {
    let mut open: Vec<CallRecord> = database
        .prepare_cached(&format!("{CALLS_WITH_ENDS} AND b.instance = ?1 AND e.seq IS NULL ORDER BY b.seq"))?
        .query_map(params![instance], record)?
        .collect::<rusqlite::Result<_>>()?;
    for call in &mut open {
        call.changes = changes(database, &call.call)?;
    }
    Ok(open)
}

/// Ends the open calls of a process, and the process; returns those calls.
fn end_all(
    database: &Connection,
    instance: &str,
    by: &str,
    calls: Vec<Interrupted>,
) -> rusqlite::Result<Vec<Interrupted>> {
    let now = signed(now_ms());
    let mut ended = Vec::new();
    for mut it in calls {
        let outcome = Outcome::Interrupted.name();
        let rows = database
            .prepare_cached(
                "INSERT OR IGNORE INTO journal (event, call, session, instance, at_ms, up_us, outcome, said)
                 VALUES ('ended', ?1, ?2, ?3, ?4, 0, ?5, ?6)",
            )?
            .execute(params![it.call.call, it.call.session, by, now, outcome, it.text])?;
        if rows > 0 {
            it.call.outcome = Some(outcome.to_owned());
            it.call.said = Some(it.text.clone());
            ended.push(it);
        }
    }
    // Last: if a step before fails, the process is recovered again later.
    database
        .prepare_cached("INSERT OR IGNORE INTO processes_ended (instance, at_ms) VALUES (?1, ?2)")?
        .execute(params![instance, now])?;
    Ok(ended)
}

fn paths(call: &CallRecord) -> Vec<PathBuf> {
    let declared = call.touches.iter().filter_map(|it| match it {
        Touch::Write(path) | Touch::WriteTree { path, .. } => Some(PathBuf::from(path)),
        Touch::Read(_)
        | Touch::Run(_)
        | Touch::Unconfined
        | Touch::Net(_)
        | Touch::Web(_)
        | Touch::Server { .. }
        | Touch::Session(_)
        | Touch::Tool(_)
        | Touch::Trigger(_)
        | Touch::Exclusive => None,
    });
    let mut paths: Vec<PathBuf> = declared.collect();
    for change in &call.changes {
        if !paths.contains(&change.path) {
            paths.push(change.path.clone());
        }
    }
    paths
}

fn text(call: &CallRecord, read: ReadFile) -> String {
    let paths = paths(call);
    let names: Vec<String> = paths.iter().map(|it| it.display().to_string()).collect();
    let mut others = Vec::new();
    for touch in &call.touches {
        match touch {
            Touch::Run(command) => others.push(format!("run `{command}`")),
            Touch::Unconfined => others.push("outside the sandbox".to_owned()),
            Touch::Net(host) => others.push(format!("speak to {host}")),
            Touch::Server { name, .. } => others.push(format!("ask the server {name}")),
            Touch::Session(key) => others.push(format!("use the session's {key}")),
            Touch::Tool(name) => others.push(format!("write or delete the tool {name}")),
            Touch::Trigger(about) => others.push(about.lines().next().unwrap_or_default().to_owned()),
            // These touches name no state that has to be checked.
            Touch::Exclusive | Touch::Read(_) | Touch::Write(_) | Touch::WriteTree { .. } | Touch::Web(_) => {
            }
        }
    }
    let runs_alone = call.touches.iter().any(|it| matches!(it, Touch::Exclusive));
    if names.is_empty() && others.is_empty() && !runs_alone {
        return "interrupted; it only read, so nothing was changed; call it again".to_owned();
    }
    if let ([], [other]) = (names.as_slice(), others.as_slice())
        && let Some(command) = other.strip_prefix("run ")
    {
        return format!("interrupted: {command} may or may not have finished; check before retrying");
    }
    let mut text = "interrupted; it may or may not have finished; ".to_owned();
    if !names.is_empty() {
        text.push_str(&format!("these paths were declared: {}; ", names.join(", ")));
    }
    if !others.is_empty() {
        text.push_str(&format!("it was going to {}; ", others.join(", ")));
    }
    text.push_str("check before retrying");
    for (path, name) in paths.iter().zip(names) {
        text.push_str(&format!("\n{name}: {}", now_holds(call, path, read)));
    }
    text
}

/// Compares the present content of the file with its history.
fn now_holds(call: &CallRecord, path: &Path, read: ReadFile) -> String {
    let mut of_path = call.changes.iter().filter(|it| it.path == path);
    let (Some(first), last) = (of_path.next(), of_path.next_back()) else {
        return "haft had not begun to change it".to_owned();
    };
    let last = last.unwrap_or(first);
    let now = match read(path) {
        Ok(now) => now.map(|it| text_of(blake3::hash(&it).as_bytes())),
        Err(fault) => return format!("it can't be read now: {}", fault.what),
    };
    let what = if now == last.after {
        if now.is_none() { "it is gone, as the call meant" } else { "it holds the new content" }
    } else if now == first.before {
        if now.is_none() {
            "it is not there; the change did not land"
        } else {
            "it holds the old content; the change did not land"
        }
    } else if call.changes.iter().any(|it| it.path == path && it.after == now) {
        "it holds a content from the middle of the call"
    } else if now.is_none() {
        "it is gone"
    } else {
        "it holds other content: neither the old nor the new"
    };
    what.to_owned()
}

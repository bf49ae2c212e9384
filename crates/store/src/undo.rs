//! Undo: reverts the changes of calls, as long as no later change is lost by it.
//!
//! haft reverts only what one of its own calls changed, and only while the file still has the content that
//! this call left. Reverting is itself a change: undoing it applies the first one again. Edits and commands have
//! one order, that of their newest changes; what commands changed is put back by [`tracked`](crate::tracked).

mod commands;
mod difference;
mod pending;
#[cfg(test)]
mod tests;

use std::{
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use kit::{
    Fault, Kind, Output,
    deliberate_faults::killed_at,
    services::{Undo, Which},
    text::Content,
};
use rusqlite::{Connection, OptionalExtension, params};

use crate::{
    Found, Hash, Store,
    history::{COLUMNS, CallHistory, Change, change},
    journal::local_time,
    now_ms,
};
use difference::{changed, difference};
pub use pending::Changed;

/// Reads and writes files for undo.
pub trait Restore: Send + Sync {
    /// Returns the present content; `None` if the file does not exist.
    ///
    /// # Errors
    /// When it can't be read.
    fn read(&self, path: &Path) -> Result<Option<Vec<u8>>, Fault>;

    /// Writes the file, or removes it if `bytes` is `None`. `expect` is the content that it must still have;
    /// `None` if it must not exist.
    ///
    /// # Errors
    /// When it has another content, and when it can't be written.
    fn write(&self, path: &Path, bytes: Option<&[u8]>, expect: Option<&[u8]>) -> Result<(), Fault>;

    /// Asks the person about these changes together, if file changes are reviewed.
    ///
    /// # Errors
    /// When the person refuses.
    fn propose(&self, changes: &[PutBack]) -> Result<(), Fault> {
        let _ = changes;
        Ok(())
    }

    /// Decides whether something that a command changed may be put back at this path.
    ///
    /// # Errors
    /// When it may not be written.
    fn may_put_back(&self, path: &Path) -> Result<(), Fault> {
        let _ = path;
        Ok(())
    }
}

/// A file that is about to be reverted.
pub struct PutBack {
    /// The file.
    pub path: PathBuf,
    /// Its present content.
    pub now: Option<Content>,
    /// The content to restore.
    pub before: Option<Content>,
}

/// The calls whose changes can be undone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Those of this session.
    Session(String),
    /// All of the workspace: for a person, not for a model.
    Workspace,
}

/// Reverts changes, as one call.
pub struct CallUndo {
    store: Store,
    scope: Scope,
    history: CallHistory,
    restore: Arc<dyn Restore>,
}

impl Store {
    /// Returns the undo service of a call: `history` is that call's own, because its changes are recorded too.
    pub fn undo(&self, scope: Scope, history: CallHistory, restore: Arc<dyn Restore>) -> CallUndo {
        CallUndo { store: self.clone(), scope, history, restore }
    }

    /// Returns whether all changes of a call are undone now, and not done again. Blocks.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn is_undone(&self, call: &str) -> Result<bool, Fault> {
        let (mut call, mut is_undone) = (call.to_owned(), false);
        while let Some(by) = self.undone_by(&call)? {
            (call, is_undone) = (by, !is_undone);
        }
        Ok(is_undone)
    }

    /// Returns the call that undid the last of this call's changes, if all are undone.
    fn undone_by(&self, call: &str) -> Result<Option<String>, Fault> {
        let of_commands = self.tracked().undone_by(call)?;
        let of_call = call.to_owned();
        let of_edits: Vec<Option<String>> = self.wait(move |database| {
            database
                .prepare_cached(
                    "SELECT u.call FROM changes c LEFT JOIN undone u ON u.change = c.id WHERE c.call = ? ORDER BY u.at_ms",
                )?
                .query_map([of_call], |row| row.get(0))?
                .collect()
        })?;
        let all: Option<Vec<String>> = of_edits.into_iter().chain(of_commands).collect();
        Ok(all.and_then(|it| it.into_iter().next_back()))
    }
}

impl Undo for CallUndo {
    fn undo(&self, which: Which) -> Result<Output, Fault> {
        self.go_on()?;
        let mut report = Report::default();
        loop {
            let target = self.target(&which)?;
            if target.changes.is_empty() && target.tracked.is_none() {
                return Err(self.nothing(which)?);
            }
            let next = self.revert(&target, &mut report)?;
            // If another program has reverted the newest call already, the one before it is undone. The
            // former is marked as undone, so that this ends.
            if which != Which::Last || !report.is_settled_alone() {
                return self.finished(report, next.as_deref());
            }
        }
    }

    fn list(&self, limit: usize) -> Result<Output, Fault> {
        let session = self.session();
        let of_session = session.clone();
        let changes =
            self.store.wait(move |database| open_changes(database, of_session.as_deref(), limit))?;
        let lines = changes.iter().map(|it| {
            let did = match (it.before, it.after) {
                (None, _) => "created",
                (_, None) => "removed",
                _ => "changed",
            };
            let undone = if it.depth % 2 == 1 { UNDOES } else { "" };
            let at = local_time(it.at_ms);
            (it.at_ms, format!("{} {at} {did} {}{undone}", it.call, self.name(&it.path)))
        });
        let mut lines: Vec<(u64, String)> = lines.collect();
        lines.extend(self.tracked_lines(session.as_deref(), limit)?);
        if lines.is_empty() {
            return Ok(Output::text("nothing to undo"));
        }
        lines.sort_by_key(|(at_ms, _)| std::cmp::Reverse(*at_ms));
        let lines: Vec<String> = lines.into_iter().take(limit).map(|(_, line)| line).collect();
        Ok(Output::text(lines.join("\n")))
    }
}

/// Marks an undo in the list.
const UNDOES: &str = " (an undo: undoing it does the change again)";

impl CallUndo {
    fn session(&self) -> Option<String> {
        match &self.scope {
            Scope::Session(session) => Some(session.clone()),
            Scope::Workspace => None,
        }
    }

    /// Returns the path as the model knows it.
    fn name(&self, path: &Path) -> String {
        path.strip_prefix(self.store.workspace()).unwrap_or(path).display().to_string()
    }

    fn nothing(&self, which: Which) -> Result<Fault, Fault> {
        Ok(match which {
            Which::Last if self.session().is_some() => {
                Fault::not_found("nothing left to undo in this session")
            }
            Which::Last => Fault::not_found("nothing left to undo in this workspace"),
            Which::File(path) => {
                let what = format!("nothing to undo in {}: haft has no change of it left", self.name(&path));
                Fault::not_found(what).next("`haft undo --list` shows what can be undone.")
            }
            Which::Call(call) => {
                let (wanted, session) = (call.clone(), self.session());
                let known = self.store.wait(move |database| {
                    database
                        .prepare_cached(
                            "SELECT 1 FROM changes WHERE call = ?1 AND (?2 IS NULL OR session = ?2)",
                        )?
                        .exists(params![wanted, session])
                })?;
                if known || self.store.tracked().call(&call)?.is_some_and(|it| self.is_mine(&it)) {
                    Fault::not_found(format!("all changes of {call} are undone already"))
                } else {
                    Fault::not_found(format!("no call {call} changed a file in this session"))
                }
            }
        })
    }

    /// Returns the first change that [`put_back`](Self::put_back) will make to a file, if nothing prevents it.
    fn planned(&self, file: &[Change]) -> Result<Option<PutBack>, Fault> {
        let others = self.changes_between(file)?;
        let Some(run) = file.chunk_by(|one, next| goes_on(one, next, &others)).next_back() else {
            return Ok(None);
        };
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return Ok(None) };
        let Ok(now) = self.restore.read(&first.path) else { return Ok(None) };
        if now.as_deref().map(blake3::hash) != last.after || last.after == first.before {
            return Ok(None);
        }
        let before = self.content(first.before)?;
        if before.is_none() && first.before.is_some() {
            return Ok(None);
        }
        let [now, before] = [now, before].map(|it| it.map(Content::from));
        Ok(Some(PutBack { path: first.path.clone(), now, before }))
    }

    /// Reverts one file, run by run, newest first. A run is a sequence of changes of which each began with
    /// the content that the one before it left, without a change by others between them.
    fn put_back(&self, file: &[Change], report: &mut Report) -> Result<(), Fault> {
        let others = self.changes_between(file)?;
        for run in file.chunk_by(|one, next| goes_on(one, next, &others)).rev() {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            let name = self.name(&first.path);
            let now = match self.restore.read(&first.path) {
                Ok(now) => now,
                Err(fault) => {
                    report.refused(&name, fault);
                    return Ok(());
                }
            };
            let holds = now.as_deref().map(blake3::hash);
            let landed = run.iter().rfind(|it| it.after == holds);
            if landed.is_none() && holds != first.before {
                let line = self.moved_on(&name, now.as_deref(), first, last)?;
                report.left(line);
                return Ok(());
            }
            // Part of the run, or all of it, seems not to have been written, unless a later call made it look so.
            if last.after != holds
                && let Some(later) = self.later_call(first, last)?
            {
                report.left(format!(
                    "left {name} alone: {later} changed it after {}; undo {later} first",
                    last.call
                ));
                return Ok(());
            }
            let Some(landed) = landed else {
                self.mark(run)?;
                report.same(format!(
                    "{name} is as it was before {}: the change never landed, or was undone already",
                    first.call
                ));
                continue;
            };
            if landed.after == first.before {
                self.mark(run)?;
                report.same(format!("{name} is as it was before {}", first.call));
                continue;
            }
            let before = match first.before.as_ref().map(|it| self.store.blobs().get(it)).transpose()? {
                None => None,
                Some(Found::Bytes(bytes)) => Some(bytes),
                Some(Found::Expired) => {
                    report.left(format!(
                        "left {name} alone: what it held before {} has expired (kept for 30 days, up to 2 GiB)",
                        first.call
                    ));
                    return Ok(());
                }
                Some(Found::Damaged) => {
                    report.left(format!(
                        "left {name} alone: the copy of what it held before {} is damaged",
                        first.call
                    ));
                    return Ok(());
                }
            };
            let (now, before) = (now.as_deref(), before.as_deref());
            let (held, holds) = (now.map(Content::from), before.map(Content::from));
            self.history.record(&first.path, held.as_ref(), holds.as_ref(), Some(landed))?;
            killed_at("undo-recorded");
            if let Err(fault) = self.restore.write(&first.path, before, now) {
                report.refused(&name, fault);
                return Ok(());
            }
            killed_at("undo-written");
            self.mark(run)?;
            killed_at("undo-marked");
            report.restored(match (now, before) {
                (_, None) => format!("removed {name} (created by {})", first.call),
                (None, Some(_)) => format!("restored {name} (removed by {})", landed.call),
                (Some(now), Some(before)) => format!("restored {name} ({})", changed(now, before)),
            });
        }
        Ok(())
    }

    /// Returns the changes that other calls made to a file between those of this one.
    fn changes_between(&self, file: &[Change]) -> Result<Vec<i64>, Fault> {
        let (Some(first), Some(last)) = (file.first(), file.last()) else { return Ok(Vec::new()) };
        let (path, call, from, to) = (first.path.clone(), first.call.clone(), first.id, last.id);
        if from == to {
            return Ok(Vec::new());
        }
        self.store.wait(move |database| {
            database
                .prepare_cached(
                    "SELECT id FROM changes WHERE path = ?1 AND call <> ?2 AND id BETWEEN ?3 AND ?4",
                )?
                .query_map(params![path.as_os_str().as_bytes(), call, from, to], |row| row.get(0))?
                .collect()
        })
    }

    /// Returns the call that last changed the file after this run, if its change is still in effect. An undo
    /// counts too, unless the change that it reverted came after the run: those two cancel out.
    fn later_call(&self, first: &Change, last: &Change) -> Result<Option<String>, Fault> {
        let (path, first, last) = (first.path.clone(), first.id, last.id);
        self.store.wait(move |database| {
            database
                .prepare_cached(&format!(
                    "SELECT c.call FROM changes c WHERE c.path = ?1 AND c.id > ?3 AND {OPEN}
                       AND (c.depth % 2 = 0 OR c.reverts < ?2) ORDER BY c.id DESC LIMIT 1"
                ))?
                .query_row(params![path.as_os_str().as_bytes(), first, last], |row| row.get(0))
                .optional()
        })
    }

    /// Describes a file whose content is neither that after the call nor that before it.
    fn moved_on(
        &self,
        name: &str,
        now: Option<&[u8]>,
        first: &Change,
        last: &Change,
    ) -> Result<String, Fault> {
        let Some(now) = now else {
            return Ok(format!("left {name} alone: it is gone since {}", last.call));
        };
        let mut line = format!("left {name} alone: it changed since {}", last.call);
        // The content after the call is stored if a later call changed it again.
        let (title, old, new) = match (self.content(last.after)?, self.content(first.before)?) {
            (Some(left), _) => ("since then", left, now.to_vec()),
            (None, Some(before)) => ("undoing would have changed it so", now.to_vec(), before),
            (None, None) => return Ok(line),
        };
        if let Some(difference) = difference(&old, &new) {
            line.push_str(&format!(" ({title}):\n{difference}"));
        }
        Ok(line)
    }

    fn content(&self, hash: Option<Hash>) -> Result<Option<Vec<u8>>, Fault> {
        Ok(match hash.map(|it| self.store.blobs().get(&it)).transpose()? {
            Some(Found::Bytes(bytes)) => Some(bytes),
            Some(Found::Expired | Found::Damaged) | None => None,
        })
    }

    /// Marks these changes as undone.
    fn mark(&self, changes: &[Change]) -> Result<(), Fault> {
        let ids: Vec<i64> = changes.iter().map(|it| it.id).collect();
        let call = self.history.call().to_owned();
        self.store.wait(move |database| {
            let mut insert = database
                .prepare_cached("INSERT OR IGNORE INTO undone (change, call, at_ms) VALUES (?1, ?2, ?3)")?;
            for id in ids {
                insert.execute(params![id, call, now_ms().cast_signed()])?;
            }
            Ok(())
        })
    }
}

/// Returns whether `next` began with the content that `one` left, with none of `others` between them.
fn goes_on(one: &Change, next: &Change, others: &[i64]) -> bool {
    one.after == next.before && !others.iter().any(|it| (one.id..next.id).contains(it))
}

const OPEN: &str = "NOT EXISTS (SELECT 1 FROM undone u WHERE u.change = c.id)";

/// Returns the changes that `which` means and that are not undone yet, in the order they were made.
///
/// The last call, and the last change of a file, are searched among changes and redone changes: otherwise a
/// second undo would be a redo, and never go further back.
fn pending(database: &Connection, which: &Which, session: Option<&str>) -> rusqlite::Result<Vec<Change>> {
    let of_session = "(?1 IS NULL OR c.session = ?1)";
    let all_of = |call: &str, also: &str| -> rusqlite::Result<Vec<Change>> {
        database
            .prepare_cached(&format!(
                "SELECT {COLUMNS} FROM changes c WHERE {of_session} AND c.call = ?2 AND {OPEN} {also} ORDER BY c.id"
            ))?
            .query_map(params![session, call], change)?
            .collect()
    };
    match which {
        Which::Call(call) => all_of(call, ""),
        Which::Last => {
            let newest = commands::newest(database, session)?;
            newest.map_or(Ok(Vec::new()), |(call, _)| all_of(&call, "AND c.depth % 2 = 0"))
        }
        Which::File(path) => database
            .prepare_cached(&format!(
                "SELECT {COLUMNS} FROM changes c WHERE {of_session} AND c.path = ?2 AND c.depth % 2 = 0 AND {OPEN}
                 ORDER BY c.id DESC LIMIT 1"
            ))?
            .query_map(params![session, path.as_os_str().as_bytes()], change)?
            .collect(),
    }
}

fn open_changes(database: &Connection, session: Option<&str>, limit: usize) -> rusqlite::Result<Vec<Change>> {
    database
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM changes c WHERE (?1 IS NULL OR c.session = ?1) AND {OPEN}
             ORDER BY c.id DESC LIMIT ?2"
        ))?
        .query_map(params![session, i64::try_from(limit).unwrap_or(i64::MAX)], change)?
        .collect()
}

/// Groups the changes by file, files in the order of their first change.
fn by_file(changes: Vec<Change>) -> Vec<Vec<Change>> {
    let mut files: Vec<(PathBuf, Vec<Change>)> = Vec::new();
    for change in changes {
        match files.iter_mut().find(|(path, _)| *path == change.path) {
            Some((_, changes)) => changes.push(change),
            None => files.push((change.path.clone(), vec![change])),
        }
    }
    files.into_iter().map(|(_, changes)| changes).collect()
}

/// The report of an undo, file by file.
#[derive(Default)]
struct Report {
    lines: Vec<String>,
    restored: bool,
    settled: bool,
    left: bool,
    fault: Option<Fault>,
}

impl Report {
    fn restored(&mut self, line: String) {
        self.restored = true;
        self.lines.push(line);
    }

    fn same(&mut self, line: String) {
        self.settled = true;
        self.lines.push(line);
    }

    fn note(&mut self, line: String) {
        self.lines.push(line);
    }

    fn left(&mut self, line: String) {
        self.left = true;
        self.lines.push(line);
    }

    fn refused(&mut self, name: &str, fault: Fault) {
        self.lines.push(format!("left {name} alone: {}", fault.what));
        self.fault.get_or_insert(fault);
    }

    /// Returns whether everything was reverted already.
    fn is_settled_alone(&self) -> bool {
        self.settled && !self.restored && !self.left && self.fault.is_none()
    }

    /// Returns the output; if all files were refused, a fault of their kind. `next` names the next older call.
    fn finish(mut self, redo: String, next: Option<&str>) -> Result<Output, Fault> {
        let with_next = |fault: Fault| match next {
            Some(next) => fault.next(next),
            None => fault,
        };
        if let Some(fault) = self.fault.filter(|_| !self.restored && !self.settled) {
            let seen = self.lines.len() > 1 && fault.kind != Kind::Cancelled;
            return Err(if seen { fault.seen(Output::text(self.lines.join("\n"))) } else { fault });
        }
        if !self.restored && !self.settled {
            let fault =
                Fault::new(Kind::Stale, "nothing was put back: what is there now is not what haft left");
            return Err(with_next(fault).seen(Output::text(self.lines.join("\n"))));
        }
        if self.restored {
            self.lines.push(redo);
        }
        Ok(Output::text(self.lines.join("\n")))
    }
}

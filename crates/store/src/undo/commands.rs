//! Undo of what commands changed, in one order with edits.

use kit::{Fault, Output, counted, services::Which, text::Content};
use rusqlite::{Connection, OptionalExtension, params};

use super::{CallUndo, Change, OPEN, PutBack, Report, Scope, UNDOES, by_file, pending};
use crate::{
    changes::Version,
    journal::local_time,
    tracked::{self, TrackedCall},
};

/// Maximum number of lines about what was put back, and about what was left alone.
const LINES: usize = 40;

/// The call that an undo reverts.
pub(super) struct Target {
    /// The edits.
    pub(super) changes: Vec<Change>,
    /// The call whose commands changed something, and one entry of it if only that is meant.
    pub(super) tracked: Option<(TrackedCall, Option<usize>)>,
}

impl CallUndo {
    /// Goes on with undos whose process was killed, and settles the commands of dead processes.
    pub(super) fn go_on(&self) -> Result<(), Fault> {
        let tracked = self.store.tracked();
        for call in tracked.recover()? {
            tracked.resume(&call, &|path| self.restore.may_put_back(path))?;
        }
        Ok(())
    }

    /// Returns whether a call belongs to the session of this undo.
    pub(super) fn is_mine(&self, call: &TrackedCall) -> bool {
        match &self.scope {
            Scope::Session(session) => *session == call.session,
            Scope::Workspace => true,
        }
    }

    /// Returns what `which` means.
    pub(super) fn target(&self, which: &Which) -> Result<Target, Fault> {
        let session = self.session();
        let edits = |which: Which| {
            let session = session.clone();
            self.store.wait(move |database| pending(database, &which, session.as_deref()))
        };
        let tracked = self.store.tracked();
        match which {
            Which::Call(call) => Ok(Target {
                changes: edits(which.clone())?,
                tracked: tracked.left_of(call)?.filter(|it| self.is_mine(it)).map(|it| (it, None)),
            }),
            Which::Last => {
                let edit = {
                    let session = session.clone();
                    self.store.wait(move |database| newest(database, session.as_deref()))?
                };
                let mut command = None;
                for call in tracked.open_calls(session.as_deref())? {
                    if call.depth % 2 == 0 && !tracked.is_incidental(&call.call)? {
                        command = Some(call);
                        break;
                    }
                }
                let call = match (edit, command) {
                    (Some((edit, at_ms)), Some(command)) if at_ms > command.at_ms => edit,
                    (_, Some(command)) => command.call,
                    (Some((edit, _)), None) => edit,
                    (None, None) => return Ok(Target { changes: Vec::new(), tracked: None }),
                };
                let mut changes = edits(Which::Call(call.clone()))?;
                changes.retain(|it| it.depth % 2 == 0);
                Ok(Target { changes, tracked: tracked.left_of(&call)?.map(|it| (it, None)) })
            }
            Which::File(path) => {
                let changes = edits(which.clone())?;
                let at_ms = changes.iter().map(|it| it.at_ms).max();
                for call in tracked.open_calls(session.as_deref())? {
                    if call.depth % 2 == 1 || at_ms.is_some_and(|it| it > call.at_ms) {
                        continue;
                    }
                    if let Some(entry) = tracked.entry_of(&call.call, path)? {
                        return Ok(Target { changes: Vec::new(), tracked: Some((call, Some(entry))) });
                    }
                }
                Ok(Target { changes, tracked: None })
            }
        }
    }

    /// Reverts the newer of edits and commands of a call first. Returns a sentence about the next older call.
    pub(super) fn revert(&self, target: &Target, report: &mut Report) -> Result<Option<String>, Fault> {
        let edited = target.changes.iter().map(|it| it.at_ms).max();
        let commands_first =
            target.tracked.as_ref().is_some_and(|(call, _)| edited.is_none_or(|it| call.at_ms >= it));
        if commands_first {
            self.revert_commands(target, report)?;
        }
        let files = by_file(target.changes.clone());
        if files.len() > 1 {
            let planned = files.iter().map(|file| self.planned(file)).collect::<Result<Vec<_>, Fault>>()?;
            self.restore.propose(&planned.into_iter().flatten().collect::<Vec<_>>())?;
        }
        for file in files {
            self.put_back(&file, report)?;
        }
        if !commands_first {
            self.revert_commands(target, report)?;
        }
        let at_ms = edited.max(target.tracked.as_ref().map(|(call, _)| call.at_ms)).unwrap_or_default();
        self.next_older(at_ms)
    }

    fn revert_commands(&self, target: &Target, report: &mut Report) -> Result<(), Fault> {
        let Some((call, only)) = &target.tracked else { return Ok(()) };
        if call.is_running {
            report.left(format!(
                "left alone what {} changed: it still runs. Stop it, then undo it by its id.",
                call.call
            ));
            return Ok(());
        }
        let tracked = self.store.tracked();
        let known =
            |it: &Version| if let Version::Known(content) = it { Some(content.clone()) } else { None };
        let proposed = tracked.versions(&call.call)?.into_iter().map(|it| PutBack {
            now: known(&it.after).or_else(|| placeholder(&it.after)),
            before: known(&it.before).or_else(|| placeholder(&it.before)),
            path: it.path,
        });
        self.restore.propose(&proposed.collect::<Vec<_>>())?;
        let by = self.history.call();
        let done = tracked.put_back(&call.call, by, *only, &|path| self.restore.may_put_back(path))?;
        self.history.landed().extend(tracked.versions(by)?);
        self.report(&done, report);
        Ok(())
    }

    fn report(&self, done: &tracked::Report, report: &mut Report) {
        for line in bounded(&done.restored, "put back") {
            report.restored(line);
        }
        for line in bounded(&done.left, "left alone") {
            report.left(line);
        }
        for note in &done.notes {
            report.note(note.clone());
        }
        if done.is_same_alone() {
            report.same(format!("{} as before the command already", counted(done.same, "path")));
        }
    }

    /// Returns a sentence about the call whose changes are the next older ones.
    fn next_older(&self, at_ms: u64) -> Result<Option<String>, Fault> {
        let session = self.session();
        let command = self
            .store
            .tracked()
            .open_calls(session.as_deref())?
            .into_iter()
            .find(|it| it.depth % 2 == 0 && it.at_ms < at_ms)
            .map(|it| (it.call, it.at_ms));
        let edit = self.store.wait(move |database| older(database, session.as_deref(), at_ms))?;
        let next = match (command, edit) {
            (Some(command), Some(edit)) => Some(if command.1 > edit.1 { command } else { edit }),
            (one, other) => one.or(other),
        };
        Ok(next.map(|(call, _)| format!("The next older change is of {call}: haft undo --call {call}")))
    }

    /// Returns the output of an undo.
    pub(super) fn finished(&self, report: Report, next: Option<&str>) -> Result<Output, Fault> {
        let call = self.history.call();
        let redo = match self.scope {
            Scope::Workspace => format!("To redo: haft undo --call {call}"),
            Scope::Session(_) => {
                format!("To redo: undo the call {call} (in a shell: haft undo --call {call}).")
            }
        };
        report.finish(redo, next)
    }

    /// Returns the lines about commands for the list, with their times.
    pub(super) fn tracked_lines(
        &self,
        session: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(u64, String)>, Fault> {
        let tracked = self.store.tracked();
        let mut lines = Vec::new();
        for call in tracked.open_calls(session)?.into_iter().take(limit) {
            let undone = if call.depth % 2 == 1 { UNDOES } else { "" };
            let runs = if call.is_running { " (still running)" } else { "" };
            let what = tracked.summary(&call.call)?;
            let (at, tool) = (local_time(call.at_ms), &call.tool);
            lines.push((call.at_ms, format!("{} {at} {tool}: {what}{runs}{undone}", call.call)));
        }
        Ok(lines)
    }
}

/// Stands for a content that is not shown in a review.
fn placeholder(version: &Version) -> Option<Content> {
    match version {
        Version::Absent | Version::Known(_) => None,
        Version::Long(bytes) => Some(Content::from(format!("({bytes} bytes, not shown)").as_bytes())),
        Version::Unknown(why) => Some(Content::from(format!("({why})").as_bytes())),
    }
}

/// Returns these lines, and how many more there are beyond the limit.
fn bounded(lines: &[String], what: &str) -> Vec<String> {
    let mut shown: Vec<String> = lines.iter().take(LINES).cloned().collect();
    if lines.len() > LINES {
        shown.push(format!("and {} more {what}", counted(lines.len() - LINES, "path")));
    }
    shown
}

/// Returns the newest call whose edits are not undone yet, other than calls that undid something, with the time
/// of its newest edit.
pub(super) fn newest(
    database: &Connection,
    session: Option<&str>,
) -> rusqlite::Result<Option<(String, u64)>> {
    older(database, session, i64::MAX.cast_unsigned())
}

fn older(
    database: &Connection,
    session: Option<&str>,
    before: u64,
) -> rusqlite::Result<Option<(String, u64)>> {
    database
        .prepare_cached(&format!(
            "SELECT c.call, c.at_ms FROM changes c WHERE (?1 IS NULL OR c.session = ?1) AND c.depth % 2 = 0 AND {OPEN}
             AND c.at_ms < ?2 ORDER BY c.id DESC LIMIT 1"
        ))?
        .query_row(params![session, before.cast_signed()], |row| {
            Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned()))
        })
        .optional()
}

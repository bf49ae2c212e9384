//! Merges of one key: what becomes of the user's value and the workspace's.
//!
//! Each takes the workspace's value out, so that what nobody merged is left over.

use std::collections::BTreeMap;

use policy::Approve;
use sandbox::SandboxMode;

use super::Gate;

/// The workspace's value, where it has one.
pub(super) fn replace<T>(mine: &mut Option<T>, theirs: &mut Option<T>) {
    if let Some(theirs) = theirs.take() {
        *mine = Some(theirs);
    }
}

/// The same, where the workspace is trusted.
pub(super) fn replace_trusted<T>(mine: &mut Option<T>, theirs: &mut Option<T>, gate: &mut Gate) {
    narrow(mine, theirs, gate, |_| false);
}

/// The workspace's value, where it allows no more or the workspace is trusted.
pub(super) fn narrow<T>(
    mine: &mut Option<T>,
    theirs: &mut Option<T>,
    gate: &mut Gate,
    allows_no_more: impl Fn(&T) -> bool,
) {
    if let Some(theirs) = theirs.take()
        && (allows_no_more(&theirs) || gate.trusts())
    {
        *mine = Some(theirs);
    }
}

/// The workspace's number, where it is lower than the user's own or, where the user sets none, than the default.
pub(super) fn lower<N: Ord>(mine: &mut Option<N>, theirs: &mut Option<N>, default: N) {
    if let Some(theirs) = theirs.take() {
        *mine = Some(theirs.min(mine.take().unwrap_or(default)));
    }
}

/// Both lists.
pub(super) fn append<T>(mine: &mut Vec<T>, theirs: &mut Vec<T>) {
    mine.append(theirs);
}

/// Both lists, where the workspace is trusted.
pub(super) fn append_trusted<T>(mine: &mut Vec<T>, theirs: &mut Vec<T>, gate: &mut Gate) {
    let theirs = std::mem::take(theirs);
    if !theirs.is_empty() && gate.trusts() {
        mine.extend(theirs);
    }
}

/// Both tables, the workspace's entries first among those of one name, where the workspace is trusted.
pub(super) fn extend_trusted<T>(
    mine: &mut BTreeMap<String, T>,
    theirs: &mut BTreeMap<String, T>,
    gate: &mut Gate,
) {
    let theirs = std::mem::take(theirs);
    if !theirs.is_empty() && gate.trusts() {
        mine.extend(theirs);
    }
}

/// The workspace's section in place of the one that the user wrote, where the workspace is trusted.
pub(super) fn replace_section<T: Default + PartialEq>(mine: &mut T, theirs: &mut T, gate: &mut Gate) {
    let theirs = std::mem::take(theirs);
    if theirs != T::default() && gate.trusts() {
        *mine = theirs;
    }
}

/// The user's section.
pub(super) fn own_file<T: Default + PartialEq>(theirs: &mut T, gate: &mut Gate) {
    if std::mem::take(theirs) != T::default() {
        gate.own_file();
    }
}

/// The names on both allowlists; a missing one allows all.
pub(super) fn intersect(mine: &mut Option<Vec<String>>, theirs: &mut Option<Vec<String>>) {
    if let Some(theirs) = theirs.take() {
        *mine = Some(match mine.take() {
            None => theirs,
            Some(mine) => theirs.into_iter().filter(|name| mine.contains(name)).collect(),
        });
    }
}

/// Returns whether a workspace that says `theirs` allows nothing that the user's own `mine` does not. Denying is narrower
/// than asking, and a question about each edit is given up for nothing else.
pub(super) fn asks_no_less(theirs: Approve, mine: Approve) -> bool {
    match mine {
        Approve::Auto => true,
        Approve::Ask => theirs != Approve::Auto,
        Approve::AskEdits => theirs == Approve::AskEdits,
        Approve::Never => theirs == Approve::Never,
    }
}

/// Returns how much a mode allows.
pub(super) fn rank(sandbox: SandboxMode) -> u8 {
    match sandbox {
        SandboxMode::ReadOnly => 0,
        SandboxMode::Workspace => 1,
        SandboxMode::Full => 2,
    }
}

/// The commands on both allowlists: of two lines where one begins with the other, the longer.
pub(super) fn on_both(mine: &[String], theirs: &[String]) -> Vec<String> {
    let words = |line: &String| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let begins = |long: &String, short: &String| short == "*" || words(long).starts_with(&words(short));
    let mut lines = Vec::new();
    for (mine, theirs) in mine.iter().flat_map(|mine| theirs.iter().map(move |theirs| (mine, theirs))) {
        let longer = if begins(mine, theirs) {
            mine
        } else if begins(theirs, mine) {
            theirs
        } else {
            continue;
        };
        if !lines.contains(longer) {
            lines.push(longer.clone());
        }
    }
    lines
}

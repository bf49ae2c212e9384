//! Notes for the model on calls that ran beside one: files that both changed, and what may explain a failure.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use kit::{Fault, Output};
use store::changes::Landed;

use crate::{
    schedule::{Locks, Other},
    session_state::SessionState,
};

/// Files that are named of one other call.
const NAMED: usize = 5;

/// Calls that are named.
const CALLS: usize = 5;

/// Returns the notes for a call that ends, and lets those that run beside it know what it changed.
pub(super) fn notes(
    session: &SessionState,
    locks: &Locks,
    landed: &Landed,
    result: &Result<Output, Fault>,
) -> Vec<String> {
    let changed = landed.paths();
    locks.changed(&changed);
    let overlaps = locks.overlaps();
    if overlaps.ended.is_empty() && overlaps.running.is_empty() {
        return Vec::new();
    }
    let changed: BTreeSet<PathBuf> = changed.into_iter().collect();
    let workspace = session.roots().workspace().to_owned();
    let name = |it: &Other| it.who.name_in(session.name());
    let (mut notes, mut meanwhile, mut before) = (Vec::new(), Vec::new(), Vec::new());
    let mut both = |other: &Other, paths: Vec<&PathBuf>| {
        // In a process that both share, the changes of both are in the log of each.
        let is_mixed = overlaps.process.is_some() && other.who.process == overlaps.process;
        if let Some(paths) = named(&workspace, &paths).filter(|_| !is_mixed) {
            notes.push(format!("changed at the same time by {} ({}): {paths}", name(other), other.who.call));
        }
    };
    for (other, its) in &overlaps.ended {
        both(other, its.iter().filter(|it| changed.contains(*it)).collect());
        match other.who.command {
            None => {
                let its: Vec<&PathBuf> = its.iter().filter(|it| !changed.contains(*it)).collect();
                meanwhile
                    .extend(named(&workspace, &its).map(|paths| format!("{} changed {paths}", name(other))));
            }
            Some(_) if other.began_before => before.push(name(other)),
            _ => {}
        }
    }
    let tracks = session.runtime().tracks();
    for other in &overlaps.running {
        both(other, changed.iter().filter(|it| tracks.has_changed(&other.who.call, it)).collect());
        if other.began_before {
            before.push(name(other));
        }
    }
    notes.truncate(CALLS);
    if !meanwhile.is_empty() {
        notes.push(format!("meanwhile: {}", some(&meanwhile)));
    }
    let has_failed = matches!(result, Ok(output) if output.exit.is_some_and(|it| it != 0));
    if has_failed && !before.is_empty() {
        notes.push(format!("began before the end of {}; if it needs that, call it again", some(&before)));
    }
    notes
}

fn some(names: &[String]) -> String {
    let mut text = names.iter().take(CALLS).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > CALLS {
        text.push_str(&format!(", and {} more", names.len() - CALLS));
    }
    text
}

/// Returns these files as text; `None`, if there are none, or only such as git itself keeps apart.
fn named(workspace: &Path, paths: &[&PathBuf]) -> Option<String> {
    let of_git = |path: &Path| path.components().any(|it| it.as_os_str() == ".git");
    let shown = paths.iter().filter(|it| !of_git(it));
    let shown: Vec<String> =
        shown.map(|it| it.strip_prefix(workspace).unwrap_or(it).display().to_string()).collect();
    let mut text = shown.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    if shown.len() > NAMED {
        text.push_str(&format!(" and {} more", shown.len() - NAMED));
    }
    (!text.is_empty()).then_some(text)
}

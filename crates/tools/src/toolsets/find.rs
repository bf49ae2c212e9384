//! Searches for other agents' toolsets: lines and names, which each toolset formats in its own way.

use std::{
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
};

use kit::{
    files::{EntryKind, Go, Ignored, Walk},
    prelude::*,
};
use parking_lot::Mutex;

use crate::search::{
    lines::{Around, End, Find, Hits, Pattern, Scanner},
    names::{Filter, Names},
    page::{Deadline, First, shown},
};

/// Matching lines.
pub(super) struct Lines {
    /// Path, number and text of each, in order.
    pub(super) lines: Vec<(String, u64, String)>,
    /// Number of matching lines in all.
    pub(super) total: usize,
    /// Number of files searched.
    pub(super) searched: usize,
    /// A note that the search was stopped early.
    pub(super) stopped: Option<String>,
}

/// Returns the first `limit` matching lines of a file, or of the files below a folder.
///
/// # Errors
/// [`Kind::BadArgs`] for an invalid pattern; those of opening and walking.
pub(super) fn lines(
    cx: &Cx,
    path: &str,
    pattern: Pattern<'_>,
    glob: Option<&str>,
    ignored: Ignored,
    limit: usize,
) -> Result<Lines, Fault> {
    // Cloned for each file: the walk uses many threads.
    let scanner = Mutex::new(Scanner::new(pattern, Around::default(), true)?);
    let filter = Filter::new(glob, None)?;
    let deadline = Deadline::new();
    let base = cx.files().locate(path)?;
    let found = Mutex::new(First::<Hits>::new(limit));
    let searched = AtomicUsize::new(0);
    let go_on = || deadline.lasts() && cx.check().is_ok();
    let keep = |at: &Path, hits: Hits| {
        if hits.end != End::Binary {
            searched.fetch_add(1, Ordering::Relaxed);
            if hits.matches > 0 {
                found.lock().add(at, hits.matches, hits);
            }
        }
    };
    match cx.files().open(path) {
        Ok(open) => {
            let mut scanner = scanner.lock().clone();
            keep(Path::new(""), scanner.file(open.file(), open.identity.size, Find::Lines(limit), &go_on));
        }
        Err(fault) if fault.kind != Kind::BadArgs => return Err(fault),
        Err(_) => {
            let walk = Walk { ignored, depth: usize::MAX };
            cx.files().walk(path, walk, &|| cx.check(), &|met| {
                if !go_on() {
                    return Go::Stop;
                }
                if met.kind == EntryKind::File
                    && filter.fits(met.path, &base)
                    && let Some((file, identity)) = met.open()
                {
                    let mut scanner = scanner.lock().clone();
                    keep(met.path, scanner.file(&file, identity.size, Find::Lines(limit), &go_on));
                }
                Go::On
            })?;
        }
    }
    cx.check()?;
    let found = found.into_inner();
    let total = found.total;
    let mut lines = Vec::new();
    for (at, _, hits) in found.into_items() {
        let name = if at.as_os_str().is_empty() { shown(&base) } else { shown(&base.join(&at)) };
        let matching = hits.lines.into_iter().filter(|it| it.is_match);
        lines.extend(matching.map(|it| (name.clone(), it.number, it.text)));
    }
    lines.truncate(limit);
    let searched = searched.into_inner();
    Ok(Lines { lines, total, searched, stopped: deadline.report(&format!("{searched} files")) })
}

/// Files below a folder whose names match.
pub(super) struct Named {
    /// The paths, the newest first.
    pub(super) paths: Vec<String>,
    /// Number of matching files, or of those found before the search stopped.
    pub(super) total: usize,
}

/// Returns the files below a folder that match a glob; at most `collected` are sorted by their time of change.
///
/// # Errors
/// [`Kind::BadArgs`] for an invalid glob; those of walking.
pub(super) fn named(
    cx: &Cx,
    dir: &str,
    glob: &str,
    ignored: Ignored,
    limit: usize,
    collected: usize,
) -> Result<Named, Fault> {
    let names = Names::new(glob)?;
    let deadline = Deadline::new();
    let base = cx.files().locate(dir)?;
    let found = Mutex::new(Vec::new());
    let walk = Walk { ignored, depth: usize::MAX };
    cx.files().walk(dir, walk, &|| cx.check(), &|met| {
        if met.kind == EntryKind::File && names.matches(met.path) {
            let changed = met.identity().map_or(0, |it| it.modified_ns);
            let mut found = found.lock();
            found.push((changed, shown(&base.join(met.path))));
            if found.len() >= collected {
                return Go::Stop;
            }
        }
        if deadline.lasts() { Go::On } else { Go::Stop }
    })?;
    let mut found = found.into_inner();
    let total = found.len();
    found.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
    found.truncate(limit);
    Ok(Named { paths: found.into_iter().map(|(_, path)| path).collect(), total })
}

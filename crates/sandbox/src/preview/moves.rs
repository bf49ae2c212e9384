//! Moves among the changes of a preview: a deleted file whose content a new one has.
//!
//! An overlay copies what is moved, so only the content shows a move.

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
};

use kit::procs::preview::{Change, Previewed};

use super::{
    change,
    compare::{self, Found, Plain},
};

/// Bytes of file contents that are compared in all, and of one file.
const COMPARED: u64 = 256 << 20;
const LONGEST: u64 = 64 << 20;

/// Returns the changes, with pairs of a deleted and a new file of one content as moves.
pub(super) fn found(found: Found) -> Previewed {
    let Found { mut changes, created, deleted, notes, .. } = found;
    let from = pairs(&created, &deleted);
    let mut moved: Vec<bool> = vec![false; deleted.len()];
    from.iter().flatten().for_each(|at| {
        if let Some(moved) = moved.get_mut(*at) {
            *moved = true;
        }
    });
    let folders = whole_folders(&created, &deleted, &from);
    changes.retain(
        |it| !matches!(&it.change, Change::Deleted { folder: Some(_) } if folders.contains_key(&it.path)),
    );
    for (folder, (to, files)) in &folders {
        changes.push(change(to, Change::Moved { from: folder.clone(), folder: Some(*files) }));
    }
    for (plain, source) in created.iter().zip(&from) {
        let source = source.and_then(|at| deleted.get(at));
        match source {
            Some((_, Some(top))) if folders.contains_key(top) => {}
            Some((was, _)) => {
                changes.push(change(&plain.path, Change::Moved { from: was.path.clone(), folder: None }));
            }
            None => changes.push(change(&plain.path, Change::Created { bytes: plain.bytes })),
        }
    }
    for ((plain, top), moved) in deleted.iter().zip(&moved) {
        if top.is_none() && !moved {
            changes.push(change(&plain.path, Change::Deleted { folder: None }));
        }
    }
    Previewed { changes, notes }
}

/// Returns for each new file the deleted one that it was.
fn pairs(created: &[Plain], deleted: &[(Plain, Option<PathBuf>)]) -> Vec<Option<usize>> {
    let mut by_size: HashMap<u64, Vec<usize>> = HashMap::new();
    for (at, (plain, _)) in deleted.iter().enumerate().filter(|(_, it)| it.0.bytes > 0) {
        by_size.entry(plain.bytes).or_default().push(at);
    }
    let mut left = COMPARED;
    let mut pair = |plain: &Plain| {
        let candidates = by_size.get_mut(&plain.bytes)?;
        // Mostly the name stays.
        candidates.sort_by_key(|at| {
            let same = deleted.get(*at).is_some_and(|it| it.0.path.file_name() == plain.path.file_name());
            (!same, *at)
        });
        let place = candidates.iter().take(16).position(|at| {
            let Some((was, _)) = deleted.get(*at) else { return false };
            if plain.bytes > LONGEST || left < plain.bytes {
                return false;
            }
            left -= plain.bytes;
            let files = compare::open_below(&was.root, &was.rest)
                .and_then(|old| Ok((old, compare::open_below(&plain.root, &plain.rest)?)));
            files.and_then(|(old, new)| compare::equal(old, new)).unwrap_or(false)
        })?;
        Some(candidates.remove(place))
    };
    created.iter().map(&mut pair).collect()
}

/// Returns the deleted folders of which each file went to the same place in one new folder.
fn whole_folders(
    created: &[Plain],
    deleted: &[(Plain, Option<PathBuf>)],
    from: &[Option<usize>],
) -> BTreeMap<PathBuf, (PathBuf, u64)> {
    let to: HashMap<usize, &Path> =
        from.iter().zip(created).filter_map(|(at, plain)| Some(((*at)?, plain.path.as_path()))).collect();
    let mut folders: BTreeMap<PathBuf, Option<(PathBuf, u64)>> = BTreeMap::new();
    for (at, (plain, top)) in deleted.iter().enumerate() {
        let Some(top) = top else { continue };
        let rest = plain.path.strip_prefix(top).ok();
        let target = to.get(&at).and_then(|to| without_end(to, rest?));
        let seen = folders.get(top);
        let now = match (seen, target) {
            (None, Some(target)) => Some((target, 1)),
            (Some(Some((to, files))), Some(target)) if *to == target => Some((target, files + 1)),
            _ => None,
        };
        folders.insert(top.clone(), now);
    }
    folders.into_iter().filter_map(|(folder, to)| Some((folder, to?))).collect()
}

/// Returns the path without these last components, if it ends with them.
fn without_end(path: &Path, end: &Path) -> Option<PathBuf> {
    path.ends_with(end)
        .then(|| path.components().count() - end.components().count())
        .map(|count| path.components().take(count).collect())
}

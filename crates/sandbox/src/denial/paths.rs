//! Paths in a program's message: which they are, and how the sandbox mounts them.

use std::path::{Path, PathBuf};

use super::Known;
use crate::{
    control_files::is_control_file,
    layout::{Access, Mount, What},
};

/// Returns the paths that a line names. A relative one is resolved in the first root, where commands mostly start.
pub(super) fn paths(line: &str, known: &Known<'_>) -> Vec<PathBuf> {
    let words = line.split(|it: char| it.is_whitespace() || "'\"`‘’“”(),;=".contains(it));
    let words = words
        .map(|word| word.trim_end_matches([':', '.', ']']))
        .filter(|word| word.contains('/') || word.starts_with('.'));
    let base = known.roots.first().map(|(root, _)| root.as_path());
    let absolute = words.filter_map(|word| match word.strip_prefix("./").unwrap_or(word) {
        word if word.starts_with('/') => Some(PathBuf::from(word)),
        word if word.contains("://") || word.len() < 2 => None,
        word => {
            let path = base?.join(word);
            (path.exists() || is_control_file(Path::new(word))).then_some(path)
        }
    });
    absolute.collect()
}

pub(super) fn root_of<'a>(path: &Path, known: &'a Known<'_>) -> Option<&'a (PathBuf, bool)> {
    known
        .roots
        .iter()
        .filter(|(root, _)| path.starts_with(root))
        .max_by_key(|(root, _)| root.components().count())
}

pub(super) fn is_control(path: &Path, known: &Known<'_>) -> bool {
    root_of(path, known)
        .is_some_and(|(root, writable)| *writable && path.strip_prefix(root).is_ok_and(is_control_file))
}

fn nearest<'a>(path: &Path, known: &'a Known<'_>) -> Option<&'a Mount> {
    known.mounts.iter().filter(|it| path.starts_with(&it.at)).max_by_key(|it| it.at.components().count())
}

/// Returns whether this path lies in the tool's own folder, and that folder is closed as a whole.
pub(super) fn is_in_closed_folder(path: &Path, known: &Known<'_>) -> bool {
    let Some(folder) = known.own_folder.filter(|it| path.starts_with(it)) else { return false };
    nearest(path, known)
        .is_some_and(|it| it.at == folder && matches!(it.what, What::Bind { access: Access::Read, .. }))
}

/// Returns whether this path of the machine is visible in the sandbox.
pub(super) fn is_seen(path: &Path, known: &Known<'_>) -> bool {
    match nearest(path, known).map(|it| &it.what) {
        Some(What::Bind { access, .. }) => *access != Access::Device,
        Some(What::Link(_) | What::Text(_) | What::Processes | What::Terminals) => true,
        Some(What::Private { .. } | What::Hidden { .. } | What::Overlay { .. } | What::Pinned) | None => {
            false
        }
    }
}

pub(super) fn private_place(line: &str, known: &Known<'_>) -> Option<(String, u64)> {
    paths(line, known).iter().find_map(|path| {
        let mount = nearest(path, known)?;
        let What::Private { bytes, .. } = mount.what else { return None };
        Some((mount.at.display().to_string(), bytes))
    })
}

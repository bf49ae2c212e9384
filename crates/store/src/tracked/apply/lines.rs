//! Lines about restored paths: one for each, also where an undo needs three steps for it.

use std::path::{Path, PathBuf};

/// One step of an undo that changed something, with its line.
pub(super) struct Restored {
    pub(super) what: What,
    pub(super) line: String,
}

#[derive(PartialEq, Eq)]
pub(super) enum What {
    /// The call had created this path.
    Removed(PathBuf),
    /// The path has what it had before the call.
    Put(PathBuf),
    /// A rename was taken back.
    Moved { from: PathBuf, to: PathBuf },
}

/// Returns the lines of these steps. A file that the call replaced by a new one, as `sed -i` does, is moved aside, removed, and
/// put back; `line` returns the one line about its path. The same holds for the undo of that.
pub(super) fn lines(steps: &[Restored], line: impl Fn(&Path) -> String) -> Vec<String> {
    let at = |what: &What| steps.iter().position(|it| it.what == *what);
    let mut replaced: Vec<(usize, [usize; 2], &Path)> = Vec::new();
    for (moved, step) in steps.iter().enumerate() {
        if let What::Moved { from, to } = &step.what
            && let Some(removed) = at(&What::Removed(to.clone()))
            && let Some(put) = at(&What::Put(from.clone()))
        {
            // The new file goes first, or it made place for the old one.
            let path = if moved < removed { from } else { to };
            replaced.push((put, [moved, removed], path));
        }
    }
    let of_step = |(at, step): (usize, &Restored)| {
        if replaced.iter().any(|it| it.1.contains(&at)) {
            return None;
        }
        let path = replaced.iter().find(|it| it.0 == at).map(|it| it.2);
        Some(path.map_or_else(|| step.line.clone(), &line))
    };
    steps.iter().enumerate().filter_map(of_step).collect()
}

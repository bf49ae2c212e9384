//! Ignored files of a workspace, by the rules of git; also for files that are gone.

use std::path::Path;

use ignore::{Match, gitignore::GitignoreBuilder};

/// Returns whether `.gitignore`, `.ignore` or git's own list excludes this path, or a folder above it. The nearest rule counts.
pub(super) fn is_ignored(root: &Path, path: &Path, is_folder: bool) -> bool {
    let Ok(below) = path.strip_prefix(root) else { return true };
    let mut whole = root.to_owned();
    let mut parts = below.components().peekable();
    while let Some(part) = parts.next() {
        whole.push(part);
        let is_last = parts.peek().is_none();
        if part.as_os_str() == ".git" || excludes(root, &whole, is_folder || !is_last) {
            return true;
        }
    }
    false
}

fn excludes(root: &Path, path: &Path, is_folder: bool) -> bool {
    for folder in path.ancestors().skip(1).take_while(|it| it.starts_with(root)) {
        let exclude = (folder == root).then(|| root.join(".git/info/exclude"));
        for file in
            [Some(folder.join(".ignore")), Some(folder.join(".gitignore")), exclude].into_iter().flatten()
        {
            if !file.is_file() {
                continue;
            }
            let mut rules = GitignoreBuilder::new(folder);
            // A line that is not a pattern excludes nothing.
            drop(rules.add(file));
            let Ok(rules) = rules.build() else { continue };
            match rules.matched(path, is_folder) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
    }
    false
}

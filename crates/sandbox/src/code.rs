//! Code in folders of tools, which no tool may change, as opposed to data.
//!
//! A file is code by its name or because it is executable. A subfolder is code as a whole if there is code
//! anywhere in it, and data otherwise; one that is too large to be searched counts as code.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// File extensions of code.
const ENDINGS: &[&str] = &[
    "py", "pyc", "pyw", "so", "pth", "egg", "whl", "js", "mjs", "cjs", "ts", "sh", "bash", "rb", "pl", "lua",
    "php",
];

/// Files that define which tools exist.
const NAMES: &[&str] = &["tool.toml", kit::model_tools::ENABLED];

/// Maximum number of entries of a folder that are searched; a larger one counts as code.
const MANY: usize = 5_000;

/// The code in a folder of tools.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Code {
    /// The files and folders directly in it that are code.
    pub(crate) fixed: BTreeSet<PathBuf>,
    /// Whether a symlink is among them, which no mount can cover.
    pub(crate) linked: bool,
    /// The files and folders directly in it that are data.
    pub(crate) data: Vec<PathBuf>,
}

/// Finds the code in this folder. `named` is code whatever it looks like.
pub(crate) fn code_in(folder: &Path, named: &[PathBuf]) -> Code {
    let mut code = Code::default();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(kind) = entry.file_type() else { continue };
        let is_named =
            named.iter().any(|it| it.strip_prefix(folder).is_ok_and(|it| it.starts_with(entry.file_name())));
        let is_code = is_named || if kind.is_dir() { has_code(&path) } else { is_code(&path) };
        if is_code {
            code.linked |= kind.is_symlink();
            code.fixed.insert(path);
        } else if kind.is_file() || kind.is_dir() && entry.file_name() != "__pycache__" {
            code.data.push(path);
        }
    }
    code.data.sort_unstable();
    code
}

/// Returns whether this file is code. Symlinks are followed: their target is what would be run.
pub fn is_code(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let ending = name.rsplit_once('.').map(|it| it.1).unwrap_or_default();
    NAMES.contains(&name.as_str())
        || ENDINGS.contains(&ending)
        || fs::metadata(path).is_ok_and(|it| it.is_dir() || it.permissions().mode() & 0o111 != 0)
}

fn has_code(folder: &Path) -> bool {
    let mut folders = vec![folder.to_owned()];
    let mut looked_at = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            looked_at += 1;
            let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
            if kind.is_dir() {
                folders.push(path);
            } else if is_code(&path) {
                return true;
            }
            if looked_at > MANY {
                return true;
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn code_is_recognized_by_name_mode_and_content_of_folders() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        for file in
            ["a.py", "enabled.json", "notes.json", "data/x.csv", "lib/deep/er/y.py", "named.txt", "run"]
        {
            fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            fs::write(root.join(file), "").unwrap();
        }
        fs::set_permissions(root.join("run"), fs::Permissions::from_mode(0o755)).unwrap();
        let code = code_in(root, &[root.join("named.txt")]);
        let names: Vec<_> = code.fixed.iter().map(|it| it.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["a.py", "enabled.json", "lib", "named.txt", "run"]);
        assert!(!code.linked);
        std::os::unix::fs::symlink("notes.json", root.join("b.py")).unwrap();
        assert!(code_in(root, &[]).linked);
    }
}

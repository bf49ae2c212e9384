//! Folders of `filesystem`: copied, moved and deleted as a whole.
//!
//! All files are loaded before the first change, so that the journal has each one's content, and each is
//! changed only while it still has that. A move is one step. A copy that fails midway removes what it made; a
//! delete that fails reports what is left.

use std::path::{Path, PathBuf};

use kit::{
    files::{Before, Loaded, Proposal, Tree},
    prelude::*,
};

/// Maximum size of a folder that is handled as a whole, in bytes.
const MOST: u64 = 64 << 20;

/// A folder with the contents of its files.
pub(super) struct Folder {
    path: String,
    tree: Tree,
    files: Vec<(PathBuf, Loaded)>,
}

impl Folder {
    /// Loads the folder of this path; `None`, if it is not a folder.
    ///
    /// # Errors
    /// When it has contents that are not handled as a whole.
    pub(super) fn load(cx: &Cx, path: &str) -> Result<Option<Self>, Fault> {
        let Some(tree) = cx.files().tree(path)? else { return Ok(None) };
        let mut left = MOST;
        let mut files = Vec::new();
        for file in &tree.files {
            cx.check()?;
            let loaded = cx.files().load(&below(path, file)?, left).map_err(|fault| match fault.kind {
                Kind::TooBig => Fault::new(
                    Kind::TooBig,
                    format!("{path} has more than {MOST} bytes in its files; nothing was changed"),
                )
                .next("Take its folders one by one, or use `terminal`."),
                _ => fault,
            })?;
            left = left.saturating_sub(loaded.bytes.len() as u64);
            files.push((file.clone(), loaded));
        }
        Ok(Some(Self { path: path.to_owned(), tree, files }))
    }

    /// Copies it to a path that does not exist.
    pub(super) fn copy(&self, cx: &Cx, to: &str) -> Result<Output, Fault> {
        let saves: Vec<(String, &Loaded)> =
            self.pairs(to)?.into_iter().map(|(_, new, loaded)| (new, loaded)).collect();
        let proposals = saves.iter().map(|(path, loaded)| Proposal::Save {
            path,
            before: Before::Absent,
            content: &loaded.bytes,
        });
        cx.files().propose(&proposals.collect::<Vec<_>>())?;
        let mut made = Made::default();
        match self.write(cx, to, &saves, &mut made) {
            Ok(()) => Ok(Output::text(format!(
                "Copied {} to {to} ({})\n[`haft undo` removes the files of the copy, and leaves its folders]",
                self.path,
                self.size()
            ))),
            Err(fault) => Err(made.taken_back(cx, to, fault)),
        }
    }

    fn write(&self, cx: &Cx, to: &str, saves: &[(String, &Loaded)], made: &mut Made) -> Result<(), Fault> {
        let inside = self.tree.folders.iter().map(|it| below(to, it));
        for folder in std::iter::once(Ok(to.to_owned())).chain(inside) {
            let folder = folder?;
            cx.check()?;
            cx.files().make_folder(&folder)?;
            made.folders.push(folder);
        }
        for (path, loaded) in saves {
            cx.check()?;
            cx.files().save_copy(path, loaded)?;
            made.files.push(path.clone());
        }
        Ok(())
    }

    /// Moves it to a path that does not exist, in one step.
    pub(super) fn rename(&self, cx: &Cx, to: &str) -> Result<Output, Fault> {
        let pairs = self.pairs(to)?;
        let proposals = pairs.iter().flat_map(|(old, new, loaded)| {
            let save = Proposal::Save { path: new, before: Before::Absent, content: &loaded.bytes };
            [save, Proposal::Remove { path: old, before: loaded }]
        });
        cx.files().propose(&proposals.collect::<Vec<_>>())?;
        cx.files().move_folder(&self.path, to, &self.files)?;
        Ok(Output::text(format!("Moved {} to {to} ({}){}", self.path, self.size(), self.not_put_back())))
    }

    /// Deletes it, the innermost folders first.
    pub(super) fn delete(&self, cx: &Cx) -> Result<Output, Fault> {
        let files: Vec<(String, &Loaded)> = self
            .files
            .iter()
            .map(|(file, loaded)| Ok((below(&self.path, file)?, loaded)))
            .collect::<Result<_, Fault>>()?;
        let proposals = files.iter().map(|(path, before)| Proposal::Remove { path, before });
        cx.files().propose(&proposals.collect::<Vec<_>>())?;
        let mut gone = 0;
        match self.remove(cx, &files, &mut gone) {
            Ok(()) => {
                Ok(Output::text(format!("Deleted {} ({}){}", self.path, self.size(), self.not_put_back())))
            }
            Err(fault) if gone == 0 => Err(fault),
            Err(fault) => Err(Fault {
                what: format!(
                    "{gone} of {} of {} were deleted, then: {}; the others are where they were",
                    counted(files.len(), "file"),
                    self.path,
                    fault.what
                ),
                ..fault
            }
            .next(format!(
                "`list` {} shows what is left; `haft undo` puts back what was deleted.",
                self.path
            ))),
        }
    }

    fn remove(&self, cx: &Cx, files: &[(String, &Loaded)], gone: &mut usize) -> Result<(), Fault> {
        for (path, loaded) in files {
            cx.check()?;
            cx.files().remove(path, loaded)?;
            *gone += 1;
        }
        for folder in self.tree.folders.iter().rev() {
            cx.files().remove_folder(&below(&self.path, folder)?)?;
        }
        cx.files().remove_folder(&self.path)
    }

    /// Returns for each file its path, its new path below `to`, and its content.
    fn pairs(&self, to: &str) -> Result<Vec<(String, String, &Loaded)>, Fault> {
        self.files
            .iter()
            .map(|(file, loaded)| Ok((below(&self.path, file)?, below(to, file)?, loaded)))
            .collect()
    }

    fn size(&self) -> String {
        format!("{}, {}", counted(self.files.len(), "file"), counted(self.tree.folders.len(), "folder"))
    }

    /// Describes what undo will not restore: the journal has only the contents of files.
    fn not_put_back(&self) -> String {
        let empty = match (self.tree.folders.len(), self.files.len()) {
            (0, 0) => 1,
            _ => self.tree.empty_folders().count(),
        };
        let programs = self.files.iter().filter(|(_, loaded)| loaded.is_executable()).count();
        let mut lacks = Vec::new();
        if empty > 0 {
            lacks.push(counted(empty, "empty folder"));
        }
        if programs > 0 {
            lacks.push(format!("the executable bit of {}", counted(programs, "file")));
        }
        if lacks.is_empty() {
            return String::new();
        }
        format!("\n[`haft undo` puts back the files, but not {}]", lacks.join(" and "))
    }
}

/// The results of a copy.
#[derive(Default)]
struct Made {
    folders: Vec<String>,
    files: Vec<String>,
}

impl Made {
    /// Removes them again, and reports that or what is left.
    fn taken_back(self, cx: &Cx, to: &str, fault: Fault) -> Fault {
        let mut left = 0;
        for file in self.files.iter().rev() {
            let removed = cx.files().load(file, MOST).and_then(|made| cx.files().remove(file, &made));
            left += usize::from(removed.is_err());
        }
        let mut stays = false;
        for folder in self.folders.iter().rev() {
            stays |= cx.files().remove_folder(folder).is_err();
        }
        let what = fault.what.trim_end_matches("; nothing was changed");
        let what = match (left, stays) {
            (0, false) => format!("{what}; nothing was copied"),
            _ => format!(
                "{what}; {} of the copy and some of its folders are left in {to}",
                counted(left, "file")
            ),
        };
        Fault { what, ..fault }
    }
}

/// Returns the path of something below a folder, as a model writes it.
fn below(dir: &str, path: &Path) -> Result<String, Fault> {
    let whole = Path::new(dir).join(path);
    whole.to_str().map(str::to_owned).ok_or_else(|| {
        Fault::bad_args(format!("{} has a name that is not UTF-8; nothing was changed", whole.display()))
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::{fs, os::unix::fs::PermissionsExt as _};

    use kit::testing::TestWorkspace;
    use serde_json::json;

    use super::super::filesystem::Filesystem;

    fn says(test_ws: &TestWorkspace, action: &str, path: &str, destination: Option<&str>) -> String {
        let destination = destination.unwrap_or_default();
        test_ws.says::<Filesystem>(&json!({"action": action, "path": path, "destination": destination}))
    }

    fn test_ws() -> TestWorkspace {
        let test_ws = TestWorkspace::new("//- a/x\none\n//- a/b/run\n#!/bin/sh\n");
        fs::set_permissions(test_ws.path().join("a/b/run"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(test_ws.path().join("a/empty")).unwrap();
        test_ws
    }

    fn is_executable(test_ws: &TestWorkspace, path: &str) -> bool {
        fs::metadata(test_ws.path().join(path)).unwrap().permissions().mode() & 0o111 != 0
    }

    #[test]
    fn a_folder_is_copied_moved_and_deleted_with_its_permissions_and_empty_folders() {
        let test_ws = test_ws();
        let said = says(&test_ws, "copy", "a", Some("to/c"));
        assert!(said.starts_with("Copied a to to/c (2 files, 2 folders)\n"), "{said}");
        assert!(is_executable(&test_ws, "to/c/b/run") && test_ws.path().join("to/c/empty").is_dir());
        let said = says(&test_ws, "move", "to/c", Some("d"));
        assert!(said.starts_with("Moved to/c to d (2 files, 2 folders)\n"), "{said}");
        assert!(said.ends_with("but not 1 empty folder and the executable bit of 1 file]"), "{said}");
        assert!(is_executable(&test_ws, "d/b/run") && test_ws.path().join("d/empty").is_dir());
        assert!(!test_ws.path().join("to/c").exists());
        assert!(says(&test_ws, "delete", "d", None).starts_with("Deleted d (2 files, 2 folders)\n"));
        assert!(!test_ws.path().join("d").exists());
        assert_eq!(test_ws.bytes("a/b/run"), b"#!/bin/sh\n");
        assert_eq!(says(&test_ws, "copy", "a/b/run", Some("run")), "Copied a/b/run to run");
        assert!(is_executable(&test_ws, "run"));
    }

    #[test]
    fn a_folder_goes_nowhere_where_something_is_nor_into_itself() {
        let test_ws = test_ws();
        for action in ["copy", "move"] {
            assert!(says(&test_ws, action, "a", Some("a/new")).starts_with("bad_args: a/new lies in a; "));
            assert!(says(&test_ws, action, "a", Some("a")).starts_with("bad_args: "));
            assert!(says(&test_ws, action, "a", Some("a/x")).starts_with("bad_args: "));
        }
        fs::create_dir(test_ws.path().join("there")).unwrap();
        assert!(says(&test_ws, "move", "a", Some("there")).starts_with("bad_args: there exists"));
        let said = says(&test_ws, "delete", "", None);
        assert!(said.starts_with("denied: ") && test_ws.path().join("a/x").exists(), "{said}");
    }

    #[test]
    fn a_copy_that_fails_half_way_takes_back_what_it_made() {
        let test_ws = TestWorkspace::new("//- a/one\n1\n//- a/two-and-more\n2\n");
        // The first path has the maximum length, the second one is too long.
        let deep = "d".repeat(200);
        let to = [vec![deep.as_str(); 20], vec![&deep[..70]]].concat().join("/");
        let said = says(&test_ws, "copy", "a", Some(&to));
        assert!(said.contains("the path is ") && said.contains("; nothing was copied"), "{said}");
        let parent = test_ws.path().join(to.rsplit_once('/').unwrap().0);
        assert_eq!(fs::read_dir(parent).unwrap().count(), 0);
    }

    #[test]
    fn a_delete_that_fails_half_way_says_what_is_left() {
        let test_ws = TestWorkspace::new("//- a/one\n1\n//- a/two\n2\n");
        let touches = kit::Touches::none().and(kit::Touch::WriteTree { path: "a".to_owned(), like: None });
        let cx = test_ws.cx_for(&touches);
        let folder = super::Folder::load(&cx, "a").unwrap().unwrap();
        fs::write(test_ws.path().join("a/two"), "theirs\n").unwrap();
        let fault = folder.delete(&cx).unwrap_err();
        assert!(
            fault.what.starts_with("1 of 2 files of a were deleted, then: `a/two` was changed"),
            "{fault}"
        );
        assert!(!test_ws.path().join("a/one").exists());
        assert_eq!(test_ws.bytes("a/two"), b"theirs\n");
    }
}

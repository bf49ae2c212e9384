//! `tree`: shows a folder and the folders below it.

use std::{
    collections::HashMap,
    ffi::OsString,
    path::{Path, PathBuf},
};

use kit::{
    files::{EntryKind, Go, Ignored, Walk},
    prelude::*,
};
use parking_lot::Mutex;

use super::page::{Deadline, MOST_BYTES, count, thousands};

const DEPTH: usize = 3;
const LIMIT: usize = 200;
const MOST_LINES: usize = 2_000;

/// The note on omitted lines.
pub(crate) const CUT: &str = "[cut: give one of the folders as `dir`, or a greater `limit`]";

/// Maximum number of names that are held in memory.
const MOST_ENTRIES: usize = 200_000;

/// Show the folders and files below a folder as an indented list. Leaves out what git ignores.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tree {
    /// Folder; default: the workspace.
    #[serde(default)]
    dir: String,
    /// How many levels; default 3.
    depth: Option<usize>,
    /// Maximum lines; default 200. Each folder gets its share.
    limit: Option<usize>,
    /// Also what git ignores, and vendored folders.
    #[serde(default)]
    ignored: bool,
}

impl Tool for Tree {
    const NAME: &'static str = "tree";
    const AT_MOST: Kinds = Kinds::READ;

    fn touches(&self) -> Touches {
        Touches::read(&self.dir)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.blocking(move |cx| self.show(cx)).await
    }
}

/// The contents of one folder.
#[derive(Default)]
struct Folder {
    entries: Vec<(EntryKind, OsString)>,
    /// Number of entries that are shown.
    shown: usize,
}

type Folders = HashMap<PathBuf, Folder>;

impl Tree {
    /// Creates a call for another toolset.
    pub(crate) fn of(dir: String, depth: Option<usize>, limit: usize, ignored: Ignored) -> Self {
        Self { dir, depth, limit: Some(limit), ignored: ignored == Ignored::Show }
    }

    fn show(&self, cx: &Cx) -> Result<Output, Fault> {
        let depth = self.depth.unwrap_or(DEPTH);
        if depth == 0 {
            return Err(Fault::bad_args("`depth` is 0").next("1 shows the folder's own entries."));
        }
        let limit = self.limit.unwrap_or(LIMIT);
        if limit == 0 {
            return Err(Fault::bad_args("`limit` is 0").next("Give 1 or more, or leave it out."));
        }
        let deadline = Deadline::new();
        let (mut folders, entries) = self.gather(cx, depth, &deadline)?;
        for folder in folders.values_mut() {
            folder.entries.sort_unstable_by(|(kind, name), (other, than)| {
                (*kind != EntryKind::Folder, name).cmp(&(*other != EntryKind::Folder, than))
            });
        }
        let mut cut = share(&mut folders, depth, limit.min(MOST_LINES));
        let mut text = String::new();
        write(&mut text, &folders, Path::new(""), 0);
        if text.len() > MOST_BYTES {
            let end = text.as_bytes().iter().take(MOST_BYTES).rposition(|byte| *byte == b'\n');
            text.truncate(end.map_or(0, |end| end + 1));
            cut = true;
        }
        if text.is_empty() {
            text = format!("`{}` is empty", cx.files().locate(&self.dir)?);
            if !self.ignored {
                text.push_str(", but for what git may ignore; `ignored: true` shows that");
            }
        }
        if cut {
            text.push_str(CUT);
            text.push('\n');
        }
        if entries > MOST_ENTRIES {
            text.push_str(&format!("[stopped after {} entries]\n", thousands(MOST_ENTRIES)));
        }
        if let Some(stopped) = deadline.report(&count(entries, "entry", "entries")) {
            text.push_str(&stopped);
        }
        text.truncate(text.trim_end().len());
        Ok(Output::page(text))
    }

    /// Reads one level more than is shown, to report the size of each folder.
    fn gather(&self, cx: &Cx, depth: usize, deadline: &Deadline) -> Result<(Folders, usize), Fault> {
        let gathered = Mutex::new((Folders::new(), 0));
        let ignored = if self.ignored { Ignored::Show } else { Ignored::Skip };
        let walk = Walk { ignored, depth: depth.saturating_add(1) };
        cx.files().walk(&self.dir, walk, &|| cx.check(), &|met| {
            let (Some(above), Some(name)) = (met.path.parent(), met.path.file_name()) else { return Go::On };
            let mut gathered = gathered.lock();
            let (folders, entries) = &mut *gathered;
            *entries += 1;
            if *entries > MOST_ENTRIES || !deadline.lasts() {
                return Go::Stop;
            }
            let entry = (met.kind, name.to_owned());
            match folders.get_mut(above) {
                Some(folder) => folder.entries.push(entry),
                None => {
                    folders.insert(above.to_owned(), Folder { entries: vec![entry], shown: 0 });
                }
            }
            Go::On
        })?;
        Ok(gathered.into_inner())
    }
}

/// Shares the lines among the folders, level by level, so that a large one does not take all; returns whether
/// they were too few.
fn share(folders: &mut Folders, depth: usize, limit: usize) -> bool {
    let mut left = limit;
    let mut cut = false;
    let mut level = vec![PathBuf::new()];
    for _ in 0..depth {
        if level.is_empty() {
            break;
        }
        // The smallest first: the larger ones get the rest of their share.
        let mut sizes: Vec<(usize, &PathBuf)> = level
            .iter()
            .filter_map(|path| folders.get(path).map(|folder| (folder.entries.len(), path)))
            .collect();
        sizes.sort_unstable();
        let mut waiting = sizes.len();
        let mut shares = Vec::new();
        for (size, path) in sizes {
            let share = left / waiting;
            waiting -= 1;
            // "… 9 more" is a line, too.
            let shown = if size <= share { size } else { share.saturating_sub(1) };
            cut |= shown < size;
            left -= if size <= share { size } else { share };
            shares.push((path.clone(), shown));
        }
        let mut next = Vec::new();
        for (path, shown) in shares {
            let Some(folder) = folders.get_mut(&path) else { continue };
            folder.shown = shown;
            let shown = folder.entries.iter().take(shown);
            next.extend(shown.filter(|it| it.0 == EntryKind::Folder).map(|(_, name)| path.join(name)));
        }
        level = next;
    }
    cut
}

fn write(text: &mut String, folders: &Folders, path: &Path, depth: usize) {
    let Some(folder) = folders.get(path) else { return };
    let indent = "  ".repeat(depth);
    for (kind, name) in folder.entries.iter().take(folder.shown) {
        let shown = name.to_string_lossy();
        let shown = if shown.contains(char::is_control) { format!("{shown:?}") } else { shown.into_owned() };
        text.push_str(&indent);
        text.push_str(&shown);
        match kind {
            EntryKind::File => text.push('\n'),
            EntryKind::Link => text.push_str(" (link)\n"),
            EntryKind::Special => text.push_str(" (no regular file)\n"),
            EntryKind::Folder => {
                let below = path.join(name);
                let inside = folders.get(&below);
                match inside {
                    Some(folder) if folder.shown == 0 => {
                        let inside = count(folder.entries.len(), "entry", "entries");
                        text.push_str(&format!("/ … {inside}\n"));
                    }
                    Some(_) | None => text.push_str("/\n"),
                }
                write(text, folders, &below, depth + 1);
            }
        }
    }
    let left = folder.entries.len() - folder.shown;
    if left > 0 && (folder.shown > 0 || depth == 0) {
        text.push_str(&format!("{indent}… {} more\n", thousands(left)));
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use kit::testing::TestWorkspace;
    use serde_json::{Value, json};

    use super::*;

    const TREE: &str = "//- .gitignore\n/out\n//- z.txt\n\n//- src/a.rs\n\n//- src/deep/er/est/b.rs\n\n\
        //- src/deep/c.rs\n\n//- out/a.rs\n\n//- .git/config\n\n//- docs/one.md\n\n";

    fn check(arguments: &Value, says: &Expect) {
        says.assert_eq(&TestWorkspace::new(TREE).says::<Tree>(arguments));
    }

    #[test]
    fn folders_come_first_and_say_what_is_below_the_depth() {
        check(
            &json!({}),
            &expect![[r#"
                docs/
                  one.md
                src/
                  deep/
                    er/ … 1 entry
                    c.rs
                  a.rs
                .gitignore
                z.txt"#]],
        );
        check(
            &json!({"dir": "src/deep", "depth": 1}),
            &expect![[r#"
                er/ … 1 entry
                c.rs"#]],
        );
    }

    #[test]
    fn ignored_files_are_shown_when_asked_for_but_never_those_in_git() {
        check(
            &json!({"depth": 1, "ignored": true}),
            &expect![[r#"
                docs/ … 1 entry
                out/ … 1 entry
                src/ … 2 entries
                .gitignore
                z.txt"#]],
        );
    }

    #[test]
    fn a_giant_folder_does_not_take_the_lines_of_the_others() {
        let test_ws = TestWorkspace::empty();
        for (folder, files) in [("a", 5_000), ("b", 3), ("c", 20)] {
            std::fs::create_dir_all(test_ws.path().join(folder)).unwrap_or_default();
            for number in 0..files {
                std::fs::write(test_ws.path().join(format!("{folder}/{number:04}")), "").unwrap_or_default();
            }
        }
        expect![[r#"
            a/
              0000
              0001
              0002
              … 4,997 more
            b/
              0000
              0001
              0002
            c/
              0000
              0001
              … 18 more
            [cut: give one of the folders as `dir`, or a greater `limit`]"#]]
        .assert_eq(&test_ws.says::<Tree>(&json!({"limit": 13})));
        expect![[r#"
            a/ … 5,000 entries
            b/ … 3 entries
            c/ … 20 entries
            [cut: give one of the folders as `dir`, or a greater `limit`]"#]]
        .assert_eq(&test_ws.says::<Tree>(&json!({"limit": 3})));
        expect![[r#"
            … 3 more
            [cut: give one of the folders as `dir`, or a greater `limit`]"#]]
        .assert_eq(&test_ws.says::<Tree>(&json!({"limit": 1})));
    }

    #[test]
    fn a_link_is_shown_as_one_and_not_entered() {
        let test_ws = TestWorkspace::new("//- real/a\n\n");
        let linked = std::os::unix::fs::symlink("real", test_ws.path().join("link"));
        assert!(linked.is_ok());
        expect![[r#"
            real/
              a
            link (link)"#]]
        .assert_eq(&test_ws.says::<Tree>(&json!({})));
    }

    #[test]
    fn an_empty_folder_a_file_and_wrong_numbers_are_told_apart() {
        expect!["`.` is empty, but for what git may ignore; `ignored: true` shows that"]
            .assert_eq(&TestWorkspace::empty().says::<Tree>(&json!({})));
        check(&json!({"dir": "z.txt"}), &expect!["bad_args: `z.txt` is a file, not a folder"]);
        check(
            &json!({"depth": 0}),
            &expect![[r#"
                bad_args: `depth` is 0
                1 shows the folder's own entries."#]],
        );
        check(
            &json!({"dir": "srcs"}),
            &expect![[r#"
                not_found: `srcs` does not exist
                Did you mean `src`?"#]],
        );
        let denied = TestWorkspace::empty().says::<Tree>(&json!({"dir": ".."}));
        assert!(denied.starts_with("denied: `..` is outside the workspace"), "{denied}");
    }

    #[test]
    fn any_depth_may_be_asked_for_and_the_answer_stays_bounded() {
        let test_ws = TestWorkspace::empty();
        let deep = "d/".repeat(700);
        assert!(std::fs::create_dir_all(test_ws.path().join(deep)).is_ok());
        let says = test_ws.says::<Tree>(&json!({"depth": 18_446_744_073_709_551_615_u64, "limit": 2_000}));
        assert!(says.len() < MOST_BYTES + 100 && says.contains("[cut: "), "{}", says.len());
        test_ws.cancel.cancel();
        assert!(test_ws.says::<Tree>(&json!({})).starts_with("cancelled: "));
    }
}

//! `glob`: finds files by name.

use std::sync::atomic::{AtomicUsize, Ordering};

use kit::{
    files::{EntryKind, Go, Ignored, Walk},
    prelude::*,
};
use parking_lot::Mutex;

use super::{
    names::{Names, split},
    page::{Ask, Deadline, MOST_BYTES, Paths, count, shown},
};

const LIMIT: usize = 100;

/// Find files by their path, sorted by path. Leaves out what git ignores.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Glob {
    /// Such as `*.rs` or `src/**/{a,b}*.ts`. Without `/` it matches at any depth; with `/` at its end it finds folders.
    pattern: String,
    /// Folder; default: the workspace.
    #[serde(default)]
    dir: String,
    /// Maximum paths; default 100.
    limit: Option<usize>,
    /// Paths to skip.
    #[serde(default)]
    offset: usize,
    /// Also what git ignores, and vendored folders.
    #[serde(default)]
    ignored: bool,
}

impl Tool for Glob {
    const NAME: &'static str = "glob";
    const AT_MOST: Kinds = Kinds::READ;

    fn touches(&self) -> Touches {
        Touches::read(self.folder())
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let ask = Ask::for_paths(self.offset, self.limit, LIMIT)?;
        let names = match self.glob() {
            glob if glob.contains('/') => Names::anchored(split(glob).1, &self.pattern)?,
            glob => Names::new(glob)?,
        };
        cx.blocking(move |cx| self.search(cx, ask, &names)).await
    }
}

/// Paths found so far.
struct Found {
    wanted: Paths<EntryKind>,
    /// Folders that match although files were requested.
    folders: Paths<()>,
}

impl Glob {
    /// Returns the pattern without the final `/`, which means "folders".
    fn glob(&self) -> &str {
        self.pattern.strip_suffix('/').unwrap_or(&self.pattern)
    }

    fn wants_folders(&self) -> bool {
        self.pattern.ends_with('/')
    }

    /// Returns the folder to walk: `dir`, with the literal folders of the pattern.
    fn folder(&self) -> String {
        let (named, _) = split(self.glob());
        if self.dir.is_empty() || named.starts_with('/') {
            named.to_owned()
        } else if named.is_empty() {
            self.dir.clone()
        } else {
            format!("{}/{named}", self.dir.trim_end_matches('/'))
        }
    }

    fn search(&self, cx: &Cx, ask: Ask, names: &Names) -> Result<Output, Fault> {
        let folder = self.folder();
        let base = cx.files().locate(&folder)?;
        let deadline = Deadline::new();
        let met_files = AtomicUsize::new(0);
        let found =
            Mutex::new(Found { wanted: Paths::new(ask), folders: Paths::new(Ask { offset: 0, limit: 3 }) });
        let ignored = if self.ignored { Ignored::Show } else { Ignored::Skip };
        let walk = Walk { ignored, depth: usize::MAX };
        cx.files().walk(&folder, walk, &|| cx.check(), &|met| {
            let is_folder = met.kind == EntryKind::Folder;
            met_files.fetch_add(usize::from(!is_folder), Ordering::Relaxed);
            if met.kind != EntryKind::Special && names.matches(met.path) {
                let mut found = found.lock();
                if is_folder == self.wants_folders() {
                    found.wanted.add(met.path, met.kind);
                } else if is_folder {
                    found.folders.add(met.path, ());
                }
            }
            if deadline.lasts() { Go::On } else { Go::Stop }
        })?;
        let Found { wanted, folders } = found.into_inner();
        let looked_at = count(met_files.into_inner(), "file", "files");
        let stopped = deadline.report(&looked_at);
        let total = wanted.total;
        if total == 0 {
            let mut text =
                format!("nothing matches `{}` in `{}` ({looked_at} there)", self.pattern, shown(&base));
            for (path, ()) in folders.into_page() {
                let path = shown(&base.join(path));
                text.push_str(&format!("\nThe folder `{path}` does: `{path}/**` is what lies in it."));
            }
            if let Some(stopped) = stopped {
                text.push_str(&format!("\n{stopped}"));
            } else if !self.ignored {
                text.push_str("\nWhat git ignores was left out; `ignored: true` searches there too.");
            }
            return Ok(Output::page(text));
        }
        let mut text = String::new();
        let mut on_page = 0;
        for (path, kind) in wanted.into_page() {
            let path = shown(&base.join(path));
            if text.len() + path.len() > MOST_BYTES {
                break;
            }
            text.push_str(&path);
            text.push_str(match kind {
                EntryKind::Folder => "/\n",
                EntryKind::Link => " (link)\n",
                EntryKind::File | EntryKind::Special => "\n",
            });
            on_page += 1;
        }
        let what = match self.wants_folders() {
            true => count(total, "folder", "folders"),
            false => count(total, "file", "files"),
        };
        text.push_str(&ask.footer(on_page, total, &what));
        if let Some(stopped) = stopped {
            text.push_str(&format!("\n{stopped}"));
        }
        Ok(Output::page(text))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use expect_test::{Expect, expect};
    use kit::testing::TestWorkspace;
    use serde_json::{Value, json};

    use super::*;

    const TREE: &str = "//- .gitignore\n/out\n//- a.rs\n\n//- b.txt\n\n//- src/a.rs\n\n//- src/b.rs\n\n\
        //- src/deep/a.rs\n\n//- out/a.rs\n\n//- .git/a.rs\n\n//- node_modules/a.rs\n\n";

    fn check(arguments: &Value, says: &Expect) {
        says.assert_eq(&TestWorkspace::new(TREE).says::<Glob>(arguments));
    }

    #[test]
    fn a_pattern_without_a_slash_matches_at_any_depth() {
        check(
            &json!({"pattern": "*.rs"}),
            &expect![[r#"
                a.rs
                src/a.rs
                src/b.rs
                src/deep/a.rs
                [4 files]"#]],
        );
    }

    #[test]
    fn a_pattern_with_a_slash_holds_from_the_folder() {
        check(
            &json!({"pattern": "src/{a,c}.rs"}),
            &expect![[r#"
                src/a.rs
                [1 file]"#]],
        );
        check(
            &json!({"pattern": "**/a.rs", "dir": "src"}),
            &expect![[r#"
                src/a.rs
                src/deep/a.rs
                [2 files]"#]],
        );
        check(
            &json!({"pattern": "deep/*", "dir": "src/"}),
            &expect![[r#"
                src/deep/a.rs
                [1 file]"#]],
        );
    }

    #[test]
    fn finds_folders_when_the_pattern_ends_in_a_slash() {
        check(
            &json!({"pattern": "d*/"}),
            &expect![[r#"
                src/deep/
                [1 folder]"#]],
        );
    }

    #[test]
    fn ignored_files_are_found_when_asked_for_but_never_those_in_git() {
        check(
            &json!({"pattern": "a.rs", "ignored": true}),
            &expect![[r#"
                a.rs
                node_modules/a.rs
                out/a.rs
                src/a.rs
                src/deep/a.rs
                [5 files]"#]],
        );
    }

    #[test]
    fn a_page_names_the_next_and_the_last_says_so() {
        check(
            &json!({"pattern": "*.rs", "limit": 3}),
            &expect![[r#"
                a.rs
                src/a.rs
                src/b.rs
                [showing 3 of 4 files; next: offset 3]"#]],
        );
        check(
            &json!({"pattern": "*.rs", "limit": 3, "offset": 3}),
            &expect![[r#"
                src/deep/a.rs
                [showing 4 to 4 of 4 files; that is all]"#]],
        );
        check(&json!({"pattern": "*.rs", "offset": 9}), &expect!["[offset 9 is past the last of 4 files]"]);
    }

    #[test]
    fn nothing_found_says_what_was_searched_and_what_to_try() {
        check(
            &json!({"pattern": "*.rz"}),
            &expect![[r#"
                nothing matches `*.rz` in `.` (6 files there)
                What git ignores was left out; `ignored: true` searches there too."#]],
        );
        check(
            &json!({"pattern": "deep", "ignored": true}),
            &expect![[r#"
                nothing matches `deep` in `.` (8 files there)
                The folder `src/deep` does: `src/deep/**` is what lies in it."#]],
        );
    }

    #[test]
    fn wrong_arguments_are_named() {
        check(
            &json!({"pattern": "a{b"}),
            &expect![[r#"
                bad_args: `a{b` is not a glob: unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?)
                Known are `*`, `**`, `?`, `[ab]` and `{one,other}`; `[{]` is a `{` itself."#]],
        );
        check(
            &json!({"pattern": ""}),
            &expect![[r#"
                bad_args: the glob is empty
                `**` matches every file."#]],
        );
        check(
            &json!({"pattern": "*", "limit": 0}),
            &expect![[r#"
                bad_args: `limit` is 0
                Give 1 or more, or leave it out."#]],
        );
        check(
            &json!({"pattern": "*", "offset": 1_000_001}),
            &expect![[r#"
                bad_args: `offset` is 1,000,001; pages go up to 1,000,000
                Narrow the search instead."#]],
        );
        check(
            &json!({"pattern": "*", "dir": "b.txt"}),
            &expect!["bad_args: `b.txt` is a file, not a folder"],
        );
    }

    #[test]
    fn an_absolute_pattern_below_a_root_works_and_one_outside_is_denied() {
        let test_ws = TestWorkspace::new(TREE);
        let pattern = format!("{}/src/*.rs", test_ws.path().display());
        expect![[r#"
            src/a.rs
            src/b.rs
            [2 files]"#]]
        .assert_eq(&test_ws.says::<Glob>(&json!({"pattern": pattern})));
        for pattern in ["/etc/*", "/*", "../*", "src/../../*.rs"] {
            let fault = test_ws.call::<Glob>(&json!({"pattern": pattern})).unwrap_err();
            assert_eq!(fault.kind, Kind::Denied, "{pattern}");
        }
    }

    #[test]
    fn a_link_is_shown_as_one_and_not_followed() {
        let test_ws = TestWorkspace::new("//- real/a.rs\n\n");
        std::os::unix::fs::symlink("real", test_ws.path().join("link")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", test_ws.path().join("out.rs")).unwrap();
        expect![[r#"
            link (link)
            out.rs (link)
            real/a.rs
            [3 files]"#]]
        .assert_eq(&test_ws.says::<Glob>(&json!({"pattern": "**"})));
        // A symlink that is named literally is followed: it leads to a place inside.
        expect![[r#"
            real/a.rs
            [1 file]"#]]
        .assert_eq(&test_ws.says::<Glob>(&json!({"pattern": "link/*"})));
    }

    #[test]
    fn a_name_with_a_line_break_stays_on_one_line() {
        let test_ws = TestWorkspace::empty();
        std::fs::write(test_ws.path().join("a\nb"), "").unwrap();
        expect![[r#"
            "a\nb"
            [1 file]"#]]
        .assert_eq(&test_ws.says::<Glob>(&json!({"pattern": "*"})));
    }

    #[test]
    fn a_cancelled_call_stops() {
        let test_ws = TestWorkspace::new(TREE);
        test_ws.cancel.cancel();
        assert_eq!(test_ws.call::<Glob>(&json!({"pattern": "*"})).unwrap_err().kind, Kind::Cancelled);
    }
}

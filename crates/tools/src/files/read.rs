//! `read`: shows a file or a folder.

use kit::{
    anchor::CLIP,
    files::{EntryKind, Location, Open, Place, Start, Total},
    prelude::*,
    seen::{LARGE, Rows},
    text::{Encoding, Ending, Text},
};

use super::{
    open::not_text,
    page::{self, BYTES},
};
use crate::media;

/// Default number of lines of a page.
const LINES: usize = 2_000;

/// Files of at most this many bytes are shown without waking a thread: it takes well under a millisecond.
const BRIEF: u64 = 128 * 1024;

/// The first bytes of a PDF, which may have no others that are not text.
const PDF: &[u8] = b"%PDF-";

/// Maximum number of entries of a folder that are listed.
const ENTRIES: usize = 200;

/// Read a file. Lines are shown as `LINE:HASH|text`[?; `tool:edit` takes `LINE:HASH` as an anchor?].
/// Pages of 2,000 lines or 64 kB: the last line says how to continue. Lists folders, shows pictures and PDFs.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Read {
    /// Relative to the workspace, or absolute; or a long output's handle, such as `out_12`.
    pub(crate) path: String,
    /// First line, from 1; negative counts from the end (-50: the last 50 lines).
    #[serde(default)]
    pub(crate) offset: Option<i64>,
    /// Lines to show. Default 2000.
    #[serde(default)]
    pub(crate) limit: Option<usize>,
    /// In a line too long to show: the byte to begin at, from 1.
    #[serde(default)]
    pub(crate) column: Option<u64>,
}

impl Tool for Read {
    const NAME: &str = "read";
    const AT_MOST: Kinds = Kinds::READ;

    fn touches(&self) -> Touches {
        Touches::read(&self.path)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        match cx.brief(|cx| Ok(self.brief(cx)))? {
            Brief::Done(page) => page,
            Brief::Longer(opened) => cx.blocking(move |cx| self.read(cx, opened)).await,
        }
    }
}

/// The outcome of what can be done without a thread.
enum Brief {
    Done(Result<Output, Fault>),
    /// The file as it was opened, if it was: it is opened once.
    Longer(Option<Result<Open, Fault>>),
}

impl Read {
    /// Shows a small text file. All others, and arguments that are refused, take longer.
    fn brief(&self, cx: &Cx) -> Brief {
        if self.path.trim().is_empty()
            || self.offset == Some(0)
            || self.limit == Some(0)
            || self.column.is_some()
        {
            return Brief::Longer(None);
        }
        let open = match cx.files().open_brief(&self.path) {
            Some(Ok(open)) if open.is_brief(BRIEF) => open,
            opened => return Brief::Longer(opened),
        };
        let location = open.location.clone();
        let text = match open.load(&self.path, BRIEF) {
            Ok(loaded) if !loaded.bytes.starts_with(PDF) => Text::share(loaded.bytes),
            // Read again: it grew, or isn't text.
            _ => return Brief::Longer(None),
        };
        match text {
            Ok(text) => Brief::Done(self.page(cx, &location, &text)),
            Err(_) => Brief::Longer(None),
        }
    }

    fn read(&self, cx: &Cx, opened: Option<Result<Open, Fault>>) -> Result<Output, Fault> {
        if self.path.trim().is_empty() {
            return Err(Fault::bad_args("`path` is empty").next("Name a file; `.` lists the workspace."));
        }
        if self.offset == Some(0) {
            return Err(Fault::bad_args("`offset` is 0, and lines are counted from 1"));
        }
        if self.limit == Some(0) {
            return Err(Fault::bad_args("`limit` is 0, so there is nothing to show"));
        }
        let open = match opened.unwrap_or_else(|| cx.files().open(&self.path)) {
            Ok(open) => open,
            Err(fault) => return self.list(cx).ok_or(fault),
        };
        if let Some(column) = self.column {
            return self.piece(cx, &open, column);
        }
        if open.identity.size > LARGE as u64 {
            return page::of_large(cx, &self.path, &open, self.start(), self.limit.unwrap_or(LINES));
        }
        let location = open.location.clone();
        let bytes = open.load(&self.path, LARGE as u64)?.bytes;
        // A PDF without binary bytes could be taken for text.
        if bytes.starts_with(PDF)
            && let Some(seen) = media::read(cx, &self.path, &bytes, self.offset, self.limit)
        {
            return seen;
        }
        let text = match Text::share(bytes.clone()) {
            Ok(text) => text,
            Err(error) => {
                let seen = media::read(cx, &self.path, &bytes, self.offset, self.limit);
                return seen.unwrap_or_else(|| Err(not_text(&self.path, &bytes, error)));
            }
        };
        self.page(cx, &location, &text)
    }

    /// Shows a page of a text.
    fn page(&self, cx: &Cx, location: &Location, text: &Text) -> Result<Output, Fault> {
        let total = text.line_count();
        if total == 0 {
            cx.show(location, text, &Rows::new());
            return Ok(Output::text(format!("`{}` is empty", self.path)));
        }
        let first = self.first(total)?;
        let mut rows = Rows::new();
        let mut bytes = 0;
        let mut last = first;
        while last < total && last - first < self.limit.unwrap_or(LINES) {
            bytes += shown_bytes(text, last);
            if bytes >= BYTES && last > first {
                break;
            }
            last += 1;
        }
        rows.add(first..last);
        let rendered = cx.show(location, text, &rows);
        let mut shown = rendered.text;
        // A line has no more characters than bytes.
        let is_long = |row: &usize| text.content(*row).is_some_and(|it| it.len() > CLIP);
        let is_clipped = |row: &usize| text.line(*row).is_some_and(|line| is_clipped(&line));
        let clipped = rows.iter().find(|row| is_long(row) && is_clipped(row));
        if let Some(row) = clipped {
            let line = text.line(row).unwrap_or_default();
            let column = line.char_indices().nth(CLIP).map_or(0, |(at, _)| at) + 1;
            shown.push_str(&page::goes_on(Place::Row(row), column as u64));
        }
        shown.push_str(&page::footer(first, last, Total::Exactly(total), &manner(text)));
        if first == 0 && self.path.ends_with(".ipynb") {
            shown.push_str(&cx.named("[?\n[a notebook: `tool:notebook_read` shows its cells]?]"));
        }
        Ok(Output::page(shown))
    }

    /// Returns the first row to show.
    fn first(&self, total: usize) -> Result<usize, Fault> {
        match self.start() {
            Start::End(back) => Ok(total.saturating_sub(back)),
            Start::Line(first) if first < total => Ok(first),
            Start::Line(first) => Err(page::past_the_end(&self.path, first, total)),
        }
    }

    fn start(&self) -> Start {
        match self.offset {
            None => Start::Line(0),
            Some(offset) if offset < 0 => {
                Start::End(usize::try_from(offset.unsigned_abs()).unwrap_or(usize::MAX))
            }
            Some(offset) => Start::Line(usize::try_from(offset).unwrap_or(usize::MAX) - 1),
        }
    }

    /// Renders a piece of one very long line.
    fn piece(&self, cx: &Cx, open: &Open, column: u64) -> Result<Output, Fault> {
        if self.offset.is_none() {
            return Err(Fault::bad_args("`column` needs `offset`, the number of the line, from 1"));
        }
        page::piece(cx, &self.path, open, self.start(), column)
    }

    /// Lists the folder, if the path is one.
    fn list(&self, cx: &Cx) -> Option<Output> {
        let mut entries = cx.files().list(&self.path).ok()?;
        entries.sort();
        let shown: Vec<String> = entries
            .iter()
            .take(ENTRIES)
            .map(|entry| {
                let mark = match entry.kind {
                    EntryKind::Folder => "/",
                    EntryKind::Link => "@",
                    EntryKind::File | EntryKind::Special => "",
                };
                format!("{}{mark}", entry.name.to_string_lossy())
            })
            .collect();
        let more = match entries.len().saturating_sub(ENTRIES) {
            0 => String::new(),
            more => cx.named(&format!("\n[{more} more[?; `tool:glob` finds among them?]]")),
        };
        let count = match entries.len() {
            1 => "1 entry".to_owned(),
            count => format!("{count} entries"),
        };
        Some(Output::page(format!("`{}` is a folder with {count}:\n{}{more}", self.path, shown.join("\n"))))
    }
}

/// Returns the bytes that a line takes on a page, with its anchor and break, or a few more.
fn shown_bytes(text: &Text, row: usize) -> usize {
    const REST: usize = " [4294967295 more characters]".len();
    let line = text.line(row).unwrap_or_default();
    let cut = if line.len() > CLIP { line.char_indices().nth(CLIP) } else { None };
    cut.map_or(line.len(), |(at, _)| at + REST) + (row + 1).ilog10() as usize + "1:hh|\n".len()
}

/// Returns whether the line is clipped. It has no more characters than bytes, so most lines need not be counted.
fn is_clipped(line: &str) -> bool {
    line.len() > CLIP && line.chars().count() > CLIP
}

/// Describes the encoding and line endings, unless they are UTF-8 and line feeds.
fn manner(text: &Text) -> String {
    let mut manner = Vec::new();
    if text.encoding() != Encoding::Utf8 {
        manner.push(text.encoding().name());
    } else if text.has_bom() {
        manner.push("BOM");
    }
    if text.ending(0) == Ending::CrLf {
        manner.push("CRLF");
    }
    manner.join(", ")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use expect_test::{Expect, expect};
    use kit::testing::TestWorkspace;
    use serde_json::{Value, json};

    use super::*;

    fn check(test_ws: &TestWorkspace, arguments: &Value, expected: &Expect) {
        expected.assert_eq(&test_ws.says::<Read>(arguments));
    }

    #[test]
    fn shows_lines_with_anchors() {
        let test_ws = TestWorkspace::new("//- a.js\nconst foo = \"bar\";\nconst baz = 42;\n");
        check(
            &test_ws,
            &json!({"path": "a.js"}),
            &expect![[r#"
            1:09|const foo = "bar";
            2:8b|const baz = 42;"#]],
        );
    }

    #[test]
    fn a_page_says_the_total_and_the_next_call() {
        let test_ws = TestWorkspace::new(&format!("//- a\n{}", "x\n".repeat(4312)));
        let text = test_ws.says::<Read>(&json!({"path": "a"}));
        assert_eq!(text.lines().count(), 2001);
        assert!(text.ends_with("[lines 1-2000 of 4312; next: offset 2001]"), "{text}");
        check(
            &test_ws,
            &json!({"path": "a", "offset": 4311}),
            &expect![[r#"
                4311:ea|x
                4312:ea|x
                [lines 4311-4312 of 4312]"#]],
        );
        check(
            &test_ws,
            &json!({"path": "a", "offset": -1}),
            &expect![[r#"
                4312:ea|x
                [lines 4312-4312 of 4312]"#]],
        );
        check(
            &test_ws,
            &json!({"path": "a", "offset": 5000}),
            &expect![[r#"
            bad_args: `offset` is 5000, and `a` has 4312 lines
            -50 shows the last 50 lines."#]],
        );
        check(
            &test_ws,
            &json!({"path": "a", "offset": 0}),
            &expect!["bad_args: `offset` is 0, and lines are counted from 1"],
        );
    }

    #[test]
    fn an_empty_file_a_folder_a_binary_and_a_missing_path_are_answered() {
        let test_ws = TestWorkspace::new("//- empty\n//- src/a.rs\n\n//- src/sub/b.rs\n\n");
        std::fs::write(test_ws.path().join("x.png"), b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR").unwrap();
        check(&test_ws, &json!({"path": "empty"}), &expect!["`empty` is empty"]);
        check(
            &test_ws,
            &json!({"path": "src"}),
            &expect![[r#"
            `src` is a folder with 2 entries:
            a.rs
            sub/"#]],
        );
        check(
            &test_ws,
            &json!({"path": "x.png"}),
            &expect!["failed: `x.png` can't be shown: it is broken as PNG: unexpected end of file"],
        );
        check(
            &test_ws,
            &json!({"path": "src/b.rs"}),
            &expect![[r#"
            not_found: `src/b.rs` does not exist
            Did you mean `src/a.rs`?"#]],
        );
    }

    #[test]
    fn a_very_long_line_is_cut_and_can_be_gone_on_with() {
        let test_ws = TestWorkspace::new(&format!("//- a\nshort\n{}end\n", "é".repeat(3_000)));
        let text = test_ws.says::<Read>(&json!({"path": "a"}));
        assert!(text.contains("é [1003 more characters]\n[line 2 goes on: offset 2, column 4001]"), "{text}");
        let rest = test_ws.says::<Read>(&json!({"path": "a", "offset": 2, "column": 4001}));
        assert!(rest.ends_with("éend\n[line 2, bytes 4001-6003 of 6003]"), "{rest}");
    }

    #[test]
    fn a_large_file_is_paged_without_loading_it() {
        let test_ws = TestWorkspace::empty();
        let line = "0123456789 the quick brown fox\n";
        let lines = LARGE / line.len() + 1000;
        std::fs::write(test_ws.path().join("big"), line.repeat(lines)).unwrap();
        let text = test_ws.says::<Read>(&json!({"path": "big", "offset": lines - 1}));
        let first = text.lines().next().unwrap();
        assert!(
            first.starts_with(&format!("{}:", lines - 1))
                && first.ends_with("|0123456789 the quick brown fox")
        );
        assert!(text.ends_with(&format!("[lines {}-{lines} of {lines}]", lines - 1)), "{text}");
    }

    #[test]
    fn says_how_the_file_was_written_when_that_is_unusual() {
        let test_ws = TestWorkspace::empty();
        std::fs::write(test_ws.path().join("a"), b"\xff\xfea\0\r\0\n\0").unwrap();
        check(
            &test_ws,
            &json!({"path": "a"}),
            &expect![[r#"
                1:56|a
                [UTF-16 LE, CRLF]"#]],
        );
    }
}

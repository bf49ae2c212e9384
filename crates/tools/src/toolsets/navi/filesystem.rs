//! `filesystem` as navi-1 has it: files by action, on haft's own guarded file access.

use kit::{
    anchor::CLIP,
    files::{Before, EntryKind, Loaded, Place, Proposal, Start},
    prelude::*,
    seen::{LARGE, Rows},
    text::{Content, Text},
};
use similar::TextDiff;

use super::folders::Folder;
use crate::{
    files::{
        open::{self, MOST},
        page,
        write::{in_the_manner_of, remember},
    },
    search::lines::Pattern,
    toolsets::find,
};

/// Maximum number of entries, names and lines that are shown.
const LISTED: usize = 500;
const FOUND: usize = 200;
const MATCHES: usize = 100;

/// Maximum size of a file that is read as a whole.
const WHOLE: u64 = 1 << 20;

/// Bytes of a part: a page of `read`.
const PART: usize = 64 << 10;

/// Default number of lines of a part.
const LINES: usize = 2_000;

/// Work with local files: read, write, append, list, exists, info, find (by name), grep, diff; copy, move, delete of files and folders.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filesystem {
    /// The action.
    action: Action,
    /// File or folder. Default: the workspace.
    #[serde(default)]
    path: String,
    /// Text for write and append.
    content: Option<String>,
    /// For read: first line, from 1.
    offset: Option<usize>,
    /// For read: most lines.
    limit: Option<usize>,
    /// For read, only of a line too long to show: the byte of line `offset` to begin at, from 1.
    column: Option<u64>,
    /// For find a glob, for grep a regex.
    #[serde(default)]
    pattern: String,
    /// Where to, for move and copy; the other file, for diff.
    #[serde(default, alias = "dest", alias = "other")]
    destination: String,
}

/// The action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Action {
    Read,
    Write,
    Append,
    List,
    Exists,
    Info,
    Find,
    Grep,
    Diff,
    Copy,
    Move,
    Delete,
}

impl Tool for Filesystem {
    const NAME: &str = "filesystem";
    const STANDS_FOR: &'static [StandsFor] = &[
        StandsFor::tool("read").with(&[("action", "read")]),
        StandsFor::tool("write").with(&[("action", "write")]),
        StandsFor::tool("tree").with(&[("action", "list")]).naming(&[("dir", "path"), ("limit", "")]),
        StandsFor::tool("glob").with(&[("action", "find")]).naming(&[("dir", "path"), ("limit", "")]),
        StandsFor::tool("grep").with(&[("action", "grep")]).naming(&[("limit", "")]),
    ];
    const AT_MOST: Kinds = Kinds::READ.with(Kinds::WRITE);

    fn touches(&self) -> Touches {
        let destination = || self.destination.clone();
        match self.action {
            Action::Read | Action::List | Action::Exists | Action::Info | Action::Find | Action::Grep => {
                Touches::read(&self.path)
            }
            Action::Write | Action::Append => Touches::write(&self.path),
            Action::Delete => Touches::none().and(tree(&self.path, None)),
            Action::Diff => Touches::read(&self.path).and(Touch::Read(destination())),
            Action::Copy => Touches::read(&self.path).and(tree(&self.destination, Some(&self.path))),
            Action::Move => {
                Touches::none().and(tree(&self.path, None)).and(tree(&self.destination, Some(&self.path)))
            }
        }
    }

    fn title(&self) -> String {
        format!("{} {}", self.action.name(), self.path)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.blocking(move |cx| {
            let path = self.path.clone();
            self.act(cx).map_err(|fault| in_words(&path, fault))
        })
        .await
    }
}

impl Action {
    fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Append => "append",
            Self::List => "list",
            Self::Exists => "exists",
            Self::Info => "info",
            Self::Find => "find",
            Self::Grep => "grep",
            Self::Diff => "diff",
            Self::Copy => "copy",
            Self::Move => "move",
            Self::Delete => "delete",
        }
    }
}

impl Filesystem {
    fn act(self, cx: &Cx) -> Result<Output, Fault> {
        match self.action {
            Action::Read => self.read(cx),
            Action::Write => self.write(cx),
            Action::Append => self.append(cx),
            Action::List => self.list(cx),
            Action::Exists => {
                let there = if cx.files().exists(&self.path)? { "true" } else { "false" };
                Ok(Output::text(there))
            }
            Action::Info => self.info(cx),
            Action::Find => self.find(cx),
            Action::Grep => self.grep(cx),
            Action::Diff => self.diff(cx),
            Action::Copy | Action::Move => self.copy(cx),
            Action::Delete => {
                if let Some(folder) = Folder::load(cx, &self.path)? {
                    return folder.delete(cx);
                }
                let before = cx.files().load(&self.path, MOST)?;
                cx.files().remove(&self.path, &before)?;
                Ok(Output::text(format!("Deleted {}", self.path)))
            }
        }
    }

    fn read(&self, cx: &Cx) -> Result<Output, Fault> {
        let path = &self.path;
        let file = cx.files().open(path)?;
        let size = file.identity.size;
        if let Some(column) = self.column {
            let row = self.offset.unwrap_or(1).max(1) - 1;
            return page::piece(cx, path, &file, Start::Line(row), column);
        }
        let is_part = self.offset.is_some() || self.limit.is_some();
        if size > WHOLE && !is_part {
            let what = format!("{path} has {size} bytes; more than {WHOLE} are read in parts");
            return Err(Fault::new(Kind::TooBig, what)
                .next(format!("Give `offset`: 1 and `limit`: {LINES}, or look with `action`: \"grep\".")));
        }
        let first = self.offset.unwrap_or(1).max(1) - 1;
        let limit = self.limit.unwrap_or(LINES);
        if size > LARGE as u64 {
            return page::of_large(cx, path, &file, Start::Line(first), limit.min(LINES));
        }
        let opened = open::text_of(file, path)?;
        let text = &opened.text;
        let total = text.line_count();
        if first > 0 && first >= total {
            return Err(Fault::bad_args(format!("`offset` is {}, and {path} has {total} lines", first + 1)));
        }
        let mut shown = String::new();
        let (mut end, mut clipped) = (first, None);
        while end < total && end - first < limit {
            let line = text.line(end).unwrap_or_default();
            let cut = line.char_indices().nth(CLIP).map(|(at, _)| at);
            let head = cut.and_then(|at| line.get(..at)).unwrap_or(&line);
            if shown.len() + head.len() > PART && end > first {
                break;
            }
            shown.push_str(head);
            if let Some(at) = cut {
                shown.push_str(&format!(" [{} more bytes]", line.len() - at));
                clipped = clipped.or(Some((end, at as u64 + 1)));
            }
            shown.push('\n');
            end += 1;
        }
        let mut rows = Rows::new();
        rows.add(first..end);
        cx.show(opened.location(), text, &rows);
        let mut shown = shown.trim_end_matches('\n').to_owned();
        if let Some((row, column)) = clipped {
            shown.push_str(&page::goes_on(Place::Row(row), column));
        }
        if first > 0 || end < total {
            let next = if end < total { format!("; next: offset {}", end + 1) } else { String::new() };
            shown.push_str(&format!("\n[lines {}-{end} of {total}{next}]", first + 1));
        }
        Ok(Output::page(if total == 0 { "(empty file)" } else { &shown }))
    }

    fn content(&self) -> Result<&str, Fault> {
        self.content.as_deref().ok_or_else(|| Fault::bad_args("missing field `content`"))
    }

    fn write(&self, cx: &Cx) -> Result<Output, Fault> {
        let (path, content) = (&self.path, self.content()?);
        if !cx.files().exists(path)? {
            return self.create(cx, content);
        }
        let opened = open::text(cx, path)?;
        open::must_have_seen_whole(cx, path, &opened).map_err(|fault| {
            fault.next(format!(
                "Read it first: {{\"action\": \"read\", \"path\": \"{path}\"}}; or `append` to it."
            ))
        })?;
        let (bytes, _) = in_the_manner_of(&opened, content)?;
        self.replace(cx, &opened.loaded, bytes)
    }

    fn append(&self, cx: &Cx) -> Result<Output, Fault> {
        let (path, content) = (&self.path, self.content()?);
        if !cx.files().exists(path)? {
            return self.create(cx, content);
        }
        let opened = open::text(cx, path)?;
        let known = cx.views().whole(&opened.location().absolute(), &opened.text);
        let (added, _) = in_the_manner_of(&opened, content)?;
        let mark = opened.text.encoding().encode("\u{feff}").unwrap_or_default();
        let added = added.strip_prefix(&*mark).unwrap_or(&added);
        let bytes = [&*opened.loaded.bytes, added].concat();
        let saved = cx.files().save(path, opened.before(), bytes.clone())?;
        if known == kit::seen::Whole::Yes
            && let Ok(text) = Text::parse(bytes)
        {
            cx.views().wrote(&saved.location.absolute(), &text);
        }
        Ok(Output::text(format!("Appended {} bytes to {path}", added.len())))
    }

    fn create(&self, cx: &Cx, content: &str) -> Result<Output, Fault> {
        let content = Content::from(content.as_bytes());
        let bytes = content.len();
        let saved = cx.files().save(&self.path, Before::Absent, &content)?;
        remember(cx, &saved.location, content);
        Ok(Output::text(format!("Written {bytes} bytes to {}", self.path)))
    }

    fn replace(&self, cx: &Cx, before: &Loaded, bytes: Vec<u8>) -> Result<Output, Fault> {
        let count = bytes.len();
        let content = Content::from(bytes);
        let saved = cx.files().save(&self.path, Before::Was(before), &content)?;
        remember(cx, &saved.location, content);
        Ok(Output::text(format!("Written {count} bytes to {}", self.path)))
    }

    fn list(&self, cx: &Cx) -> Result<Output, Fault> {
        let mut entries = cx.files().list(&self.path)?;
        entries.sort();
        let line = |it: &kit::files::Entry| {
            let mark = if it.kind == EntryKind::Folder { "/" } else { "" };
            // One name per line, in the form that `path` takes.
            let name = it.name.to_string_lossy().replace('\n', "\\n").replace('\r', "\\r");
            format!("{name}{mark}")
        };
        let mut lines: Vec<String> = entries.iter().take(LISTED).map(line).collect();
        if entries.len() > LISTED {
            lines.push(format!("[{} more; `find` finds among them]", entries.len() - LISTED));
        }
        Ok(Output::page(if lines.is_empty() { "(empty folder)".to_owned() } else { lines.join("\n") }))
    }

    fn info(&self, cx: &Cx) -> Result<Output, Fault> {
        let path = if self.path.is_empty() { "." } else { &self.path };
        if let Ok(entries) = cx.files().list(&self.path) {
            return Ok(Output::text(format!("{path}: folder, {} entries", entries.len())));
        }
        let file = cx.files().open(&self.path)?;
        let changed = i64::try_from(file.identity.modified_ns / 1_000_000_000).unwrap_or_default();
        let changed = jiff::Timestamp::from_second(changed).map(|it| it.to_string()).unwrap_or_default();
        let head = file.head(8 * 1024).unwrap_or_default();
        let kind = match infer::get(&head) {
            Some(kind) => kind.mime_type(),
            None if Text::parse(head).is_ok() => "text",
            None => "binary",
        };
        Ok(Output::text(format!("{path}: file, {} bytes, {kind}, changed {changed}", file.identity.size)))
    }

    fn find(&self, cx: &Cx) -> Result<Output, Fault> {
        let found = find::named(cx, &self.path, &self.pattern, kit::files::Ignored::Skip, FOUND, 10_000)?;
        if found.paths.is_empty() {
            return Ok(Output::text(format!("No files match `{}`.", self.pattern)));
        }
        let mut text = found.paths.join("\n");
        if found.total > found.paths.len() {
            text.push_str(&format!("\n[{} of {}; a narrower pattern]", found.paths.len(), found.total));
        }
        Ok(Output::page(text))
    }

    fn grep(&self, cx: &Cx) -> Result<Output, Fault> {
        if self.pattern.is_empty() {
            return Err(Fault::bad_args("missing field `pattern`"));
        }
        let pattern = Pattern { text: &self.pattern, ..Pattern::default() };
        let found = find::lines(cx, &self.path, pattern, None, kit::files::Ignored::Skip, MATCHES)?;
        let mut lines: Vec<String> =
            found.lines.iter().map(|(path, number, line)| format!("{path}:{number}: {line}")).collect();
        if lines.is_empty() {
            lines.push(format!("No match for `{}` in {} files.", self.pattern, found.searched));
        } else if found.total > lines.len() {
            lines.push(format!("[{} of {} matches; a narrower pattern]", lines.len(), found.total));
        }
        lines.extend(found.stopped);
        Ok(Output::page(lines.join("\n")))
    }

    fn diff(&self, cx: &Cx) -> Result<Output, Fault> {
        self.needs_destination()?;
        let (one, other) = (open::text(cx, &self.path)?, open::text(cx, &self.destination)?);
        let (before, after) = (one.text.decoded(), other.text.decoded());
        let diff = TextDiff::from_lines(&*before, &*after);
        let diff = diff.unified_diff().context_radius(3).header(&self.path, &self.destination).to_string();
        Ok(Output::text(if diff.is_empty() { "The files are the same.".to_owned() } else { diff }))
    }

    fn copy(&self, cx: &Cx) -> Result<Output, Fault> {
        self.needs_destination()?;
        let (from, to) = (&self.path, &self.destination);
        let folder = Folder::load(cx, from)?;
        if folder.is_some() && cx.files().locate(to)?.is_within(&cx.files().locate(from)?) {
            return Err(Fault::bad_args(format!("{to} lies in {from}; nothing was changed"))
                .next("Give a `destination` outside of it."));
        }
        if cx.files().exists(to)? {
            return Err(Fault::bad_args(format!("{to} exists; nothing was written"))
                .next("Delete it first, or give another `destination`."));
        }
        match folder {
            Some(folder) if self.action == Action::Copy => return folder.copy(cx, to),
            Some(folder) => return folder.rename(cx, to),
            None => {}
        }
        let loaded = cx.files().load(from, MOST)?;
        let save = Proposal::Save { path: to, before: Before::Absent, content: &loaded.bytes };
        if self.action == Action::Copy {
            cx.files().save_copy(to, &loaded)?;
            return Ok(Output::text(format!("Copied {from} to {to}")));
        }
        cx.files().propose(&[save, Proposal::Remove { path: from, before: &loaded }])?;
        cx.files().save_copy(to, &loaded)?;
        cx.files().remove(from, &loaded)?;
        Ok(Output::text(format!("Moved {from} to {to}")))
    }

    fn needs_destination(&self) -> Result<(), Fault> {
        if self.destination.is_empty() { Err(Fault::bad_args("missing field `destination`")) } else { Ok(()) }
    }
}

/// Returns the touch of a file, or of a folder as a whole.
fn tree(path: &str, like: Option<&str>) -> Touch {
    Touch::WriteTree { path: path.to_owned(), like: like.map(str::to_owned) }
}

/// Rewrites a fault in navi's words.
fn in_words(path: &str, fault: Fault) -> Fault {
    let what = match fault.kind {
        Kind::NotFound if fault.what.ends_with("does not exist") => format!("File not found: {path}"),
        Kind::Denied => format!("Access denied: {}", fault.what),
        _ => return fault,
    };
    Fault { what, ..fault }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use kit::testing::TestWorkspace;
    use serde_json::json;

    use super::*;

    #[test]
    fn every_action_does_what_it_says() {
        let test_ws = TestWorkspace::empty();
        let says = |arguments| test_ws.says::<Filesystem>(&arguments);
        assert_eq!(
            says(json!({"action": "write", "path": "a/b.txt", "content": "one\n"})),
            "Written 4 bytes to a/b.txt"
        );
        assert_eq!(
            says(json!({"action": "append", "path": "a/b.txt", "content": "two\n"})),
            "Appended 4 bytes to a/b.txt"
        );
        assert_eq!(says(json!({"action": "read", "path": "a/b.txt"})), "one\ntwo");
        assert_eq!(
            says(json!({"action": "read", "path": "a/b.txt", "offset": 2, "limit": 1})),
            "two\n[lines 2-2 of 2]"
        );
        assert_eq!(says(json!({"action": "list"})), "a/");
        assert_eq!(says(json!({"action": "exists", "path": "a/c"})), "false");
        assert_eq!(says(json!({"action": "find", "pattern": "*.txt"})), "a/b.txt");
        assert_eq!(says(json!({"action": "grep", "pattern": "^t"})), "a/b.txt:2: two");
        assert_eq!(
            says(json!({"action": "copy", "path": "a/b.txt", "destination": "c.txt"})),
            "Copied a/b.txt to c.txt"
        );
        assert_eq!(
            says(json!({"action": "diff", "path": "a/b.txt", "destination": "c.txt"})),
            "The files are the same."
        );
        assert_eq!(
            says(json!({"action": "move", "path": "c.txt", "destination": "d/c.txt"})),
            "Moved c.txt to d/c.txt"
        );
        assert!(
            says(json!({"action": "info", "path": "d/c.txt"})).starts_with("d/c.txt: file, 8 bytes, text, ")
        );
        assert_eq!(says(json!({"action": "delete", "path": "d/c.txt"})), "Deleted d/c.txt");
        assert_eq!(
            says(json!({"action": "read", "path": "zzz"})).lines().next().unwrap(),
            "not_found: File not found: zzz"
        );
    }

    #[test]
    fn a_listed_name_can_be_read_as_it_is_shown() {
        let test_ws = TestWorkspace::empty();
        for name in ["Bob's notes.md", "say \"hi\".md", "back\\slash.md"] {
            std::fs::write(test_ws.path().join(name), "it\n").unwrap();
        }
        let listed = test_ws.says::<Filesystem>(&json!({"action": "list"}));
        assert_eq!(listed, "Bob's notes.md\nback\\slash.md\nsay \"hi\".md");
        for name in listed.lines() {
            assert_eq!(test_ws.says::<Filesystem>(&json!({"action": "read", "path": name})), "it");
        }
    }

    #[test]
    fn a_file_that_was_not_read_is_not_replaced() {
        let test_ws = TestWorkspace::new("//- a.txt\nold\n");
        let write = json!({"action": "write", "path": "a.txt", "content": "new\n"});
        let said = test_ws.says::<Filesystem>(&write);
        assert!(said.starts_with("stale: ") && said.contains("\"action\": \"read\""), "{said}");
        test_ws.says::<Filesystem>(&json!({"action": "read", "path": "a.txt"}));
        assert_eq!(test_ws.says::<Filesystem>(&write), "Written 4 bytes to a.txt");
        let both = json!({"action": "copy", "path": "a.txt", "destination": "a.txt"});
        assert!(test_ws.says::<Filesystem>(&both).starts_with("bad_args: a.txt exists"));
        assert_eq!(test_ws.bytes("a.txt"), b"new\n");
    }

    #[test]
    fn a_large_file_is_read_in_parts() {
        let test_ws = TestWorkspace::empty();
        std::fs::write(test_ws.path().join("big"), "0123456789\n".repeat(100_000)).unwrap();
        let said = test_ws.says::<Filesystem>(&json!({"action": "read", "path": "big"}));
        assert!(said.starts_with("too_big: big has 1100000 bytes"), "{said}");
        let said = test_ws.says::<Filesystem>(&json!({"action": "read", "path": "big", "offset": 99_999}));
        assert_eq!(said, "0123456789\n0123456789\n[lines 99999-100000 of 100000]");
    }

    #[test]
    fn a_page_is_no_longer_than_that_of_read_and_says_how_to_go_on() {
        let test_ws = TestWorkspace::empty();
        std::fs::write(test_ws.path().join("long"), format!("{}\n", "abcdefghi\n".repeat(100_000))).unwrap();
        std::fs::write(test_ws.path().join("lines"), format!("{}\n", "x".repeat(99)).repeat(10_000)).unwrap();
        std::fs::write(test_ws.path().join("line"), "é".repeat(150_000)).unwrap();
        let says = |arguments| test_ws.says::<Filesystem>(&arguments);
        let said = says(json!({"action": "read", "path": "lines"}));
        assert!(said.len() < 66_000, "{} bytes", said.len());
        assert!(said.ends_with("\n[lines 1-655 of 10000; next: offset 656]"), "{}", &said[said.len() - 99..]);
        let said = says(json!({"action": "read", "path": "long"}));
        assert!(
            said.ends_with("\n[lines 1-2000 of 100001; next: offset 2001]"),
            "{}",
            &said[said.len() - 99..]
        );
        let said = says(json!({"action": "read", "path": "line"}));
        assert!(said.len() < 5_000, "{} bytes", said.len());
        assert!(said.ends_with("é [296000 more bytes]\n[line 1 goes on: offset 1, column 4001]"), "{said}");
        let said = says(json!({"action": "read", "path": "line", "offset": 1, "column": 4001}));
        assert!(said.ends_with("é\n[line 1, bytes 4001-36768 of 300000; next: column 36769]"), "{said}");
    }
}

//! `editor`: the five commands that many models were trained on.

use kit::{
    anchor::Anchor,
    edit::{At, Edit as Change, Which as Places},
    files::{Before, EntryKind, Go, Ignored, Walk},
    prelude::*,
    seen::{LARGE, Rows},
    services::Which,
    text::Text,
};

use super::{clip, edit::land, open};

/// Lines of context around a change.
const AROUND: usize = 4;

/// Maximum number of entries of a folder that are shown.
const ENTRIES: usize = 500;

/// Maximum characters of a file that are shown if long results are clipped, and of a list of files.
const CLIPPED: usize = 10_000;
const CLIPPED_LIST: usize = 5_000;

/// View and change files by command. `view`: a file with line numbers, or a folder two levels deep;
/// `create`: a new file; `str_replace`: `old_str` must occur exactly once; `insert`: after line `insert_line`;
/// `undo_edit`: undoes the newest change of the file; repeat to go further back.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Editor {
    /// The action.
    pub(crate) command: Command,
    /// File or folder, absolute or relative to the workspace.
    pub(crate) path: String,
    /// For `create`: the content.
    #[serde(default)]
    pub(crate) file_text: Option<String>,
    /// For `view`: first and last line, from 1; -1 is the end.
    #[serde(default)]
    pub(crate) view_range: Option<Vec<i64>>,
    /// For `str_replace`: the text to replace.
    #[serde(default)]
    pub(crate) old_str: Option<String>,
    /// For `str_replace` and `insert`: the new text.
    #[serde(default, alias = "insert_text")]
    pub(crate) new_str: Option<String>,
    /// For `insert`: the line to insert after; 0 is before the first.
    #[serde(default)]
    pub(crate) insert_line: Option<usize>,
    /// Not an argument: a toolset has long results clipped, as HyperAgents does.
    #[serde(skip)]
    pub(crate) clips: bool,
}

/// The commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Command {
    View,
    Create,
    StrReplace,
    Insert,
    UndoEdit,
}

/// Returns the touches of this command.
pub(crate) fn touches(command: Command, path: &str) -> Touches {
    match command {
        Command::View => Touches::read(path),
        Command::Create | Command::StrReplace | Command::Insert | Command::UndoEdit => Touches::write(path),
    }
}

impl Tool for Editor {
    const NAME: &str = "editor";
    const STANDS_FOR: &'static [StandsFor] = &[
        StandsFor::tool("read").with(&[("command", "view")]).naming(&[("offset", ""), ("limit", "")]),
        StandsFor::tool("edit").with(&[("command", "str_replace")]),
        StandsFor::tool("write").with(&[("command", "create")]),
        StandsFor::tool("tree").with(&[("command", "view")]).naming(&[("dir", "path")]),
        StandsFor::tool("undo").with(&[("command", "undo_edit")]),
    ];
    const AT_MOST: Kinds = Kinds::WRITE;

    fn touches(&self) -> Touches {
        touches(self.command, &self.path)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.blocking(move |cx| match self.command {
            Command::View => self.view(cx),
            Command::Create => self.create(cx),
            Command::StrReplace => self.str_replace(cx),
            Command::Insert => self.insert(cx),
            Command::UndoEdit => {
                let file = cx.files().locate(&self.path)?.absolute();
                cx.undo().undo(Which::File(file)).map_err(|fault| match fault.kind {
                    Kind::NotFound => {
                        Fault { what: format!("No edit history found for {}.", self.path), ..fault }
                    }
                    _ => fault,
                })
            }
        })
        .await
    }
}

impl Editor {
    fn view(&self, cx: &Cx) -> Result<Output, Fault> {
        let path = &self.path;
        if let Ok(entries) = cx.files().list(path) {
            if self.view_range.is_some() {
                return Err(Fault::bad_args(
                    "The `view_range` parameter is not allowed when `path` points to a directory.",
                ));
            }
            drop(entries);
            return self.view_folder(cx);
        }
        let file = cx.files().open(path)?;
        if file.identity.size > LARGE as u64 {
            let what = format!("`{path}` has {} bytes; `view` shows at most {LARGE}", file.identity.size);
            let fault = Fault::new(Kind::TooBig, what);
            let next = "[?`tool:read` shows parts of a file of any size`if:read.offset`.|`tool:bash` shows parts of a file of any size: `sed -n 1,100p`, `grep`.?]";
            return Err(fault.hint(next));
        }
        let opened = open::text_of(file, path)?;
        let total = opened.text.line_count();
        let (first, last) = self.range(total)?;
        let numbered = self.numbered(cx, &opened, first..last);
        Ok(Output::text(format!("Here's the result of running `cat -n` on {path}:\n{numbered}")))
    }

    /// Returns the range to view, as rows.
    fn range(&self, total: usize) -> Result<(usize, usize), Fault> {
        let Some(range) = &self.view_range else { return Ok((0, total)) };
        let invalid = |why: String| Err(Fault::bad_args(format!("Invalid `view_range`: {range:?}. {why}")));
        let [first, last] = range.as_slice() else {
            return invalid("It should be a list of two integers.".to_owned());
        };
        let Some(from) = usize::try_from(*first).ok().filter(|from| (1..=total.max(1)).contains(from)) else {
            return invalid(format!(
                "Its first element `{first}` should be within the range of lines of the file: [1, {total}]."
            ));
        };
        if *last == -1 {
            return Ok((from - 1, total));
        }
        let Some(to) = usize::try_from(*last).ok().filter(|to| *to >= from) else {
            return invalid(format!(
                "Its second element `{last}` should be larger or equal than its first `{first}`, or -1."
            ));
        };
        if to > total {
            return invalid(format!(
                "Its second element `{last}` should be smaller than the number of lines in the file: `{total}`."
            ));
        }
        Ok((from - 1, to))
    }

    /// Formats lines with their numbers, tabs included, and records that the model has seen them.
    fn numbered(&self, cx: &Cx, opened: &open::Opened, range: std::ops::Range<usize>) -> String {
        let mut rows = Rows::new();
        rows.add(range);
        let (numbered, whole) = clip::numbered(cx, &opened.text, &rows, self.clips.then_some(CLIPPED));
        // Rendered only to record the view; the model of this tool knows no anchors.
        cx.show(opened.location(), &opened.text, &whole);
        numbered
    }

    fn view_folder(&self, cx: &Cx) -> Result<Output, Fault> {
        let found = std::sync::Mutex::new(Vec::new());
        let walk = Walk { ignored: Ignored::Show, depth: 2 };
        cx.files().walk(&self.path, walk, &|| cx.check(), &|met| {
            let hidden = met.path.iter().any(|part| part.to_string_lossy().starts_with('.'));
            if !hidden && let Ok(mut found) = found.lock() {
                let mark = if met.kind == EntryKind::Folder { "/" } else { "" };
                found.push(format!("{}{mark}", met.path.display()));
            }
            Go::On
        })?;
        let mut found = found.into_inner().unwrap_or_default();
        found.sort();
        if self.clips {
            let list = clip::clipped(cx, found.join("\n"), CLIPPED_LIST);
            return Ok(Output::text(self.listing(&list)));
        }
        let more = match found.len().saturating_sub(ENTRIES) {
            0 => String::new(),
            more => format!("\n[{more} more]"),
        };
        found.truncate(ENTRIES);
        Ok(Output::page(self.listing(&format!("{}{more}", found.join("\n")))))
    }

    fn listing(&self, list: &str) -> String {
        let path = &self.path;
        format!(
            "Here's the files and directories up to 2 levels deep in {path}, excluding hidden items:\n{list}"
        )
    }

    fn create(&self, cx: &Cx) -> Result<Output, Fault> {
        let path = &self.path;
        let Some(content) = &self.file_text else { return Err(missing("file_text", "create")) };
        if cx.files().exists(path)? {
            return Err(Fault::bad_args(format!(
                "File already exists at: {path}. Cannot overwrite files using command `create`."
            ))
            .next("Change it with `str_replace` or `insert`.".to_owned()));
        }
        let saved = cx.files().save(path, Before::Absent, content.as_bytes())?;
        if let Ok(text) = Text::parse(content.as_bytes()) {
            cx.views().wrote(&saved.location.absolute(), &text);
        }
        Ok(Output::text(format!("File created successfully at: {path}")))
    }

    fn str_replace(&self, cx: &Cx) -> Result<Output, Fault> {
        let Some(old) = &self.old_str else { return Err(missing("old_str", "str_replace")) };
        let new = self.new_str.clone().unwrap_or_default();
        let change = Change::Text { old: old.clone(), new, which: Places::Only };
        let (plan, _) = land(cx, &self.path, &[change]).map_err(|fault| self.in_its_own_words(fault, old))?;
        Ok(self.edited(
            cx,
            &plan,
            "a snippet of",
            "Review the changes and make sure they are as expected. Edit the file again if necessary.",
        ))
    }

    /// Rewrites a fault of `edit` for this tool, which has other arguments.
    fn in_its_own_words(&self, fault: Fault, old: &str) -> Fault {
        let path = &self.path;
        let (what, next) = match fault.kind {
            Kind::NotFound if fault.what.starts_with("`old`") => (
                format!("No replacement was performed, old_str `{old}` did not appear verbatim in {path}."),
                "`view` the file and copy the text exactly.",
            ),
            Kind::Ambiguous => {
                let lines = fault
                    .what
                    .split_once('(')
                    .and_then(|(_, rest)| rest.split_once(')'))
                    .map_or("", |it| it.0);
                (
                    format!(
                        "No replacement was performed. Multiple occurrences of old_str `{old}` in {lines}."
                    ),
                    "Add a line of context, so that it is unique.",
                )
            }
            _ => return fault,
        };
        Fault { what, next: Some(next.to_owned()), seen: None, ..fault }
    }

    fn insert(&self, cx: &Cx) -> Result<Output, Fault> {
        let Some(line) = self.insert_line else { return Err(missing("insert_line", "insert")) };
        let Some(new) = self.new_str.clone() else { return Err(missing("new_str", "insert")) };
        let opened = open::text(cx, &self.path)?;
        let total = opened.text.line_count();
        if line > total + usize::from(opened.text.has_final_newline()) {
            return Err(Fault::bad_args(format!(
                "Invalid `insert_line` parameter: {line}. It should be within the range of lines of the file: [0, {total}]"
            )));
        }
        let at = match line {
            0 => At::Start,
            line if line >= total => At::End,
            line => At::After(self.meant(cx, &opened, line)?),
        };
        let (plan, _) = land(cx, &self.path, &[Change::Insert { at, new }])?;
        Ok(self.edited(cx, &plan, "a snippet of the edited file", "Review the changes and make sure they are as expected (correct indentation, no duplicate lines, etc). Edit the file again if necessary."))
    }

    /// Returns the anchor of a bare line number: the line as the model saw it, or as it is if the model never saw it.
    fn meant(&self, cx: &Cx, opened: &open::Opened, line: usize) -> Result<Anchor, Fault> {
        let file = opened.location().absolute();
        if cx.views().anchor(&file, line).is_none() {
            let mut rows = Rows::new();
            rows.add(line - 1..line);
            cx.show_also(opened.location(), &opened.text, &rows);
        }
        cx.views()
            .anchor(&file, line)
            .or_else(|| Anchor::of(&opened.text, line - 1))
            .ok_or_else(|| Fault::bug(format!("line {line} was counted and is not there")))
    }

    fn edited(&self, cx: &Cx, plan: &kit::edit::Plan, title: &str, review: &str) -> Output {
        let path = &self.path;
        let title = if title.ends_with("of") { format!("{title} {path}") } else { title.to_owned() };
        let mut rows = Rows::new();
        for range in plan.changed() {
            let end = (range.end + AROUND).min(plan.text.line_count());
            rows.add(range.start.saturating_sub(AROUND)..end);
        }
        let (numbered, whole) = clip::numbered(cx, &plan.text, &rows, self.clips.then_some(CLIPPED));
        if let Ok(location) = cx.files().locate(path) {
            cx.show_also(&location, &plan.text, &whole);
        }
        let notes: String = plan.notes.iter().map(|note| format!("{note}\n")).collect();
        Output::text(format!(
            "The file {path} has been edited. Here's the result of running `cat -n` on {title}:\n{numbered}\n{notes}{review}"
        ))
    }
}

fn missing(parameter: &str, command: &str) -> Fault {
    Fault::bad_args(format!("Parameter `{parameter}` is required for command: {command}"))
}

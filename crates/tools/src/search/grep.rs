//! `grep`: finds lines in files.

use std::{
    fmt::Write,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
};

use kit::{
    files::{EntryKind, Go, Ignored, Location, Met, Open, Walk},
    prelude::*,
};
use parking_lot::Mutex;

use super::{
    lines::{Around, End, Find, Hits, Pattern, Scanner},
    matches,
    names::Filter,
    page::{Ask, Deadline, First, count, shown},
};

const LIMIT: usize = 100;
const MOST_AROUND: usize = 50;

/// Number of files between two progress reports.
const REPORT_EVERY: usize = 4096;

/// Search a file, or all files below a folder, by regex. Leaves out binary files and what git ignores.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Grep {
    /// Regex in Rust's syntax (no look-around), such as `fn \w+_test\(`.
    pattern: String,
    /// File or folder. Default: the workspace.
    #[serde(default)]
    path: String,
    /// Only files such as `*.rs` or `src/**/*.{ts,tsx}`; `!` before it: all but these.
    glob: Option<String>,
    /// Only files of a type that ripgrep knows: `rust`, `py`, `ts` …
    r#type: Option<String>,
    /// Show lines (the default), only paths, or the number of matches of each file.
    #[serde(default)]
    mode: Show,
    /// Lines before each match.
    before: Option<usize>,
    /// Lines after each match.
    after: Option<usize>,
    /// Lines before and after; at most 50.
    context: Option<usize>,
    /// Upper and lower case alike.
    #[serde(default)]
    ignore_case: bool,
    /// The pattern is plain text.
    #[serde(default)]
    literal: bool,
    /// Matches may span lines; `(?s)`: `.` takes line breaks.
    #[serde(default)]
    multiline: bool,
    /// Maximum matches (`files`, `count`: files); default 100.
    limit: Option<usize>,
    /// Matches or files to skip.
    #[serde(default)]
    offset: usize,
    /// Also what git ignores, and vendored folders.
    #[serde(default)]
    ignored: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Show {
    #[default]
    Content,
    Files,
    Count,
}

impl Tool for Grep {
    const NAME: &'static str = "grep";
    const AT_MOST: Kinds = Kinds::READ;

    fn touches(&self) -> Touches {
        Touches::read(&self.path)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let search = Search::new(self, Deadline::new())?;
        cx.blocking(move |cx| search.run(cx)).await
    }
}

/// A search in progress.
struct Search {
    args: Grep,
    ask: Ask,
    filter: Filter,
    deadline: Deadline,
    /// Cloned for each thread, which then takes one of the idle ones.
    scanner: Mutex<Scanner>,
    idle: Mutex<Vec<Scanner>>,
    found: Mutex<First<Hits>>,
    matches: AtomicUsize,
    met: AtomicUsize,
    searched: AtomicUsize,
    binary: AtomicUsize,
    too_long: AtomicUsize,
    unreadable: AtomicUsize,
}

impl Search {
    fn new(args: Grep, deadline: Deadline) -> Result<Self, Fault> {
        if args.pattern.is_empty() {
            return Err(Fault::bad_args("`pattern` is empty").next("`^` matches every line."));
        }
        let ask = Ask::new(args.offset, args.limit, LIMIT)?;
        let around = |lines: Option<usize>| lines.or(args.context).unwrap_or(0).min(MOST_AROUND);
        let is_content = args.mode == Show::Content;
        let around = match is_content {
            true => Around { before: around(args.before), after: around(args.after) },
            false => Around::default(),
        };
        let pattern = Pattern {
            text: &args.pattern,
            literal: args.literal,
            ignore_case: args.ignore_case,
            multiline: args.multiline,
        };
        let scanner = Scanner::new(pattern, around, is_content)?;
        let filter = Filter::new(args.glob.as_deref(), args.r#type.as_deref())?;
        Ok(Self {
            ask,
            filter,
            deadline,
            scanner: Mutex::new(scanner),
            idle: Mutex::default(),
            found: Mutex::new(First::new(ask.need())),
            matches: AtomicUsize::new(0),
            met: AtomicUsize::new(0),
            searched: AtomicUsize::new(0),
            binary: AtomicUsize::new(0),
            too_long: AtomicUsize::new(0),
            unreadable: AtomicUsize::new(0),
            args,
        })
    }

    fn run(self, cx: &Cx) -> Result<Output, Fault> {
        if self.args.path.is_empty() {
            return self.tree(cx);
        }
        match cx.files().open(&self.args.path) {
            Ok(open) => self.file(cx, &open),
            Err(fault) if fault.kind == Kind::BadArgs => match self.tree(cx) {
                // It is not a folder either; the first fault describes it better.
                Err(again) if again.kind == Kind::BadArgs => Err(fault),
                done => done,
            },
            Err(fault) => Err(fault),
        }
    }

    fn file(self, cx: &Cx, open: &Open) -> Result<Output, Fault> {
        let mut scanner = self.scanner.lock().clone();
        let hits =
            scanner.file(open.file(), open.identity.size, self.find(Path::new("")), &|| self.go_on(cx));
        cx.check()?;
        let end = hits.end;
        self.keep(Path::new(""), hits);
        let at = shown(&open.location);
        let trouble = match end {
            End::Whole | End::Stopped => None,
            End::Binary => Some(format!("`{at}` is binary (it has a NUL), so it has no lines to search")),
            End::TooLong => {
                Some(format!("[`{at}` was searched only up to a line too long to hold (32 MiB)]"))
            }
            End::Unreadable => Some(format!("[`{at}` could not be read to its end]")),
        };
        if end == End::Binary {
            return Ok(Output::page(trouble.unwrap_or_default()));
        }
        Ok(Output::page(self.report(cx, &open.location, &format!("`{at}`"), trouble)))
    }

    fn tree(self, cx: &Cx) -> Result<Output, Fault> {
        let base = cx.files().locate(&self.args.path)?;
        let ignored = if self.args.ignored { Ignored::Show } else { Ignored::Skip };
        let walk = Walk { ignored, depth: usize::MAX };
        let walked =
            cx.files().walk(&self.args.path, walk, &|| cx.check(), &|met| self.meet(cx, met, &base))?;
        cx.check()?;
        let searched = self.searched.load(Ordering::Relaxed);
        let met = self.met.load(Ordering::Relaxed);
        let at = shown(&base);
        if searched == 0 && met > 0 && !self.filter.is_empty() {
            return Ok(Output::page(format!(
                "no file to search: none of the {} in `{at}` fits {}",
                count(met, "file", "files"),
                self.filter
            )));
        }
        let trouble = self.trouble(walked.unreadable);
        Ok(Output::page(self.report(
            cx,
            &base,
            &format!("{} in `{at}`", count(searched, "file", "files")),
            trouble,
        )))
    }

    fn go_on(&self, cx: &Cx) -> bool {
        self.deadline.lasts() && cx.check().is_ok()
    }

    fn meet(&self, cx: &Cx, met: &Met<'_>, base: &Location) -> Go {
        if met.kind != EntryKind::File {
            return Go::On;
        }
        if !self.go_on(cx) {
            return Go::Stop;
        }
        let number = self.met.fetch_add(1, Ordering::Relaxed) + 1;
        if number.is_multiple_of(REPORT_EVERY) {
            let matches = self.matches.load(Ordering::Relaxed);
            cx.progress(number as f64, None, &format!("{number} files, {matches} matches"));
        }
        if !self.filter.fits(met.path, base) {
            return Go::On;
        }
        let Some((file, identity)) = met.open() else {
            self.unreadable.fetch_add(1, Ordering::Relaxed);
            return Go::On;
        };
        let find = self.find(met.path);
        let scanner = self.idle.lock().pop();
        let mut scanner = scanner.unwrap_or_else(|| self.scanner.lock().clone());
        let hits = scanner.file(&file, identity.size, find, &|| self.go_on(cx));
        self.idle.lock().push(scanner);
        let tally = match hits.end {
            End::Whole => &self.searched,
            End::Binary => &self.binary,
            End::TooLong => &self.too_long,
            End::Unreadable => &self.unreadable,
            End::Stopped => return Go::Stop,
        };
        tally.fetch_add(1, Ordering::Relaxed);
        self.keep(met.path, hits);
        Go::On
    }

    fn find(&self, path: &Path) -> Find {
        match self.args.mode {
            Show::Files => Find::Any,
            Show::Count => Find::Count,
            Show::Content if self.found.lock().wants(path) => Find::Lines(self.ask.need()),
            Show::Content => Find::Count,
        }
    }

    fn keep(&self, path: &Path, hits: Hits) {
        if hits.matches == 0 {
            return;
        }
        self.matches.fetch_add(hits.matches, Ordering::Relaxed);
        let results = if self.args.mode == Show::Content { hits.matches } else { 1 };
        self.found.lock().add(path, results, hits);
    }

    /// Describes what could not be searched, on one line.
    fn trouble(&self, folders: usize) -> Option<String> {
        let mut parts = Vec::new();
        let mut say = |number: usize, one: &str, many: &str| {
            if number > 0 {
                parts.push(count(number, one, many));
            }
        };
        let nothing_found = self.matches.load(Ordering::Relaxed) == 0;
        say(
            if nothing_found { self.binary.load(Ordering::Relaxed) } else { 0 },
            "binary file",
            "binary files",
        );
        say(
            self.too_long.load(Ordering::Relaxed),
            "file from a line on that is over 32 MiB long",
            "files from a line on that is over 32 MiB long",
        );
        say(
            self.unreadable.load(Ordering::Relaxed),
            "file that may not be read",
            "files that may not be read",
        );
        say(folders, "folder that may not be read", "folders that may not be read");
        (!parts.is_empty()).then(|| format!("[not searched: {}]", parts.join(", ")))
    }

    /// Formats the result for the model: `at` is the searched place, `place` its description.
    fn report(self, cx: &Cx, at: &Location, place: &str, trouble: Option<String>) -> String {
        let found = self.found.into_inner();
        let all = count(self.matches.into_inner(), "match", "matches");
        let files = count(found.paths, "file", "files");
        let (total, paths) = (found.total, found.paths);
        let mut text = String::new();
        if total == 0 {
            let _ = write!(text, "no match for `{}` in {place}", self.args.pattern);
            if let Some(hint) = hint(&self.args) {
                let _ = write!(text, "\n{}", cx.named(hint));
            }
        } else {
            let on_page = match self.args.mode {
                Show::Content => matches::lines(&mut text, self.ask, at, found),
                Show::Files => matches::paths(&mut text, self.ask, at, found),
                Show::Count => matches::counts(&mut text, self.ask, at, found),
            };
            let what = match self.args.mode {
                Show::Content if paths == 1 => all,
                Show::Content => format!("{all} in {files}"),
                Show::Files => files,
                Show::Count => format!("{files} with {all}"),
            };
            text.push_str(&self.ask.footer(on_page, total, &what));
        }
        let searched = count(self.searched.into_inner(), "file", "files");
        for line in [self.deadline.report(&searched), trouble].into_iter().flatten() {
            let _ = write!(text, "\n{line}");
        }
        text
    }
}

/// Returns a likely mistake in a pattern that matched nothing.
fn hint(args: &Grep) -> Option<&'static str> {
    let pattern = &args.pattern;
    if args.literal {
        return None;
    }
    if [r"\|", r"\(", r"\{", r"\+"].iter().any(|it| pattern.contains(it)) && !pattern.contains(r"\s") {
        return Some(
            r"A regex here is as in Rust: `a|b`, `(a)`, `a+`; with a `\` before it, such a character is itself.",
        );
    }
    let looks_plain =
        !pattern.contains(['\\', '|', '^']) && !pattern.contains(".*") && !pattern.contains(".+");
    (looks_plain && pattern.contains(['(', ')', '[', ']', '{', '}', '$', '*', '+', '?']))
        .then_some("It was read as a regex[?; `arg:grep.literal`: true takes it as plain text?].")
}

#[cfg(test)]
mod tests;

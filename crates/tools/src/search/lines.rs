//! Matching lines in bytes: searches files with bounded memory, and clips long lines.

use std::{
    fs::File,
    io::{self, Read},
};

use grep_matcher::{LineTerminator, Matcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, MmapChoice, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkFinish,
    SinkMatch,
};
use kit::prelude::*;

/// A file of up to this size is read at once; the searcher checks as much for NUL.
const SMALL: usize = 64 * 1024;

/// Maximum length of a line, or of a file if matches may span lines, that is held in memory. Each thread has
/// one such buffer.
const MOST_MEMORY: usize = 32 << 20;

/// Maximum size of a compiled pattern.
const MOST_REGEX: usize = 10 << 20;

/// Maximum bytes of a long line that are shown, and how many of them are before the match.
pub(crate) const CLIP: usize = 500;
const CLIP_BEFORE: usize = 150;

/// Maximum lines of one match that are shown.
const MOST_LINES: usize = 40;

/// The pattern to search for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pattern<'a> {
    pub(crate) text: &'a str,
    /// Whether it is plain text, not a regex.
    pub(crate) literal: bool,
    pub(crate) ignore_case: bool,
    /// Whether it may match across lines.
    pub(crate) multiline: bool,
}

/// The number of lines to show around a match.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Around {
    pub(crate) before: usize,
    pub(crate) after: usize,
}

/// The requested result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Find {
    /// Whether there is a match.
    Any,
    /// The number of matches.
    Count,
    /// The number of matches, and the lines of the first ones.
    Lines(usize),
}

/// The result of a search.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Hits {
    /// Number of matches; several in one line count as one.
    pub(crate) matches: usize,
    pub(crate) lines: Vec<Line>,
    pub(crate) end: End,
}

/// A line to show.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Counted from 1.
    pub(crate) number: u64,
    /// The index of the match that it belongs to, from 0.
    pub(crate) of: usize,
    pub(crate) is_match: bool,
    /// Without its line break, clipped.
    pub(crate) text: String,
}

/// The end of a search of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The end of the file, or the limit of matches.
    Whole,
    /// A NUL byte: the file is not text, and its matches don't count.
    Binary,
    /// A line, or a file, longer than the memory limit.
    TooLong,
    /// A cancellation.
    Stopped,
    /// A system error.
    Unreadable,
}

/// Searches one file after another. Each thread has its own.
#[derive(Clone)]
pub(crate) struct Scanner {
    matcher: RegexMatcher,
    searcher: Searcher,
    buffer: Vec<u8>,
}

impl Scanner {
    /// Creates a scanner for a pattern.
    ///
    /// # Errors
    /// [`Kind::BadArgs`] when it is not a regex, with the regex engine's message.
    pub(crate) fn new(pattern: Pattern<'_>, around: Around, numbers: bool) -> Result<Self, Fault> {
        let mut searcher = SearcherBuilder::new();
        searcher
            .line_terminator(LineTerminator::crlf())
            .multi_line(pattern.multiline)
            .line_number(numbers)
            .before_context(around.before)
            .after_context(around.after)
            .heap_limit(Some(MOST_MEMORY))
            // A memory map of a file that is truncated meanwhile would kill the process.
            .memory_map(MmapChoice::never())
            .binary_detection(BinaryDetection::quit(0));
        Ok(Self { matcher: compile(pattern)?, searcher: searcher.build(), buffer: Vec::new() })
    }

    /// Searches bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8], find: Find) -> Hits {
        let Self { matcher, searcher, .. } = self;
        let mut hits = Collect::new(matcher, find);
        let result = searcher.search_slice(&*matcher, bytes, &mut hits);
        hits.done(result)
    }

    /// Returns the numbers of the lines that match, from 1; `None` for bytes that can't be searched, such as those with
    /// a NUL.
    pub(crate) fn numbers(&mut self, bytes: &[u8]) -> Option<Vec<u64>> {
        let mut numbers = Numbers { lines: Vec::new(), is_whole: true };
        self.searcher.search_slice(&self.matcher, bytes, &mut numbers).ok()?;
        numbers.is_whole.then_some(numbers.lines)
    }

    /// Searches a file from its start, as long as `go_on` returns true.
    pub(crate) fn file(&mut self, file: &File, size: u64, find: Find, go_on: &dyn Fn() -> bool) -> Hits {
        let mut file = Watched { file, go_on };
        let mut buffer = std::mem::take(&mut self.buffer);
        let hits = self.read(&mut file, size, &mut buffer, find);
        self.buffer = buffer;
        hits.unwrap_or_else(|end| Hits { matches: 0, lines: Vec::new(), end })
    }

    fn read(
        &mut self,
        file: &mut Watched<'_>,
        size: u64,
        buffer: &mut Vec<u8>,
        find: Find,
    ) -> Result<Hits, End> {
        let mut filled = 0;
        if usize::try_from(size).is_ok_and(|size| size <= SMALL) {
            // One byte more than the largest such file: the file is complete if the buffer is not full.
            buffer.resize(SMALL + 1, 0);
            filled = file.read(buffer).map_err(|error| End::of(&error))?;
            let Some(whole) = buffer.get(..filled) else { return Err(End::Unreadable) };
            if filled as u64 >= size && filled <= SMALL {
                return Ok(self.bytes(whole, find));
            }
        }
        // The file is larger, or changes while it is read.
        let begun = buffer.get(..filled).unwrap_or_default();
        let Self { matcher, searcher, .. } = self;
        let mut hits = Collect::new(matcher, find);
        let result = searcher.search_reader(&*matcher, begun.chain(file), &mut hits);
        Ok(hits.done(result))
    }
}

/// Returns the settings of every matcher, for whole files and for single lines: the pattern's flags, and its
/// size limit.
pub(crate) fn builder(pattern: Pattern<'_>) -> RegexMatcherBuilder {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .fixed_strings(pattern.literal)
        .case_insensitive(pattern.ignore_case)
        .size_limit(MOST_REGEX)
        .dfa_size_limit(MOST_REGEX);
    builder
}

fn compile(pattern: Pattern<'_>) -> Result<RegexMatcher, Fault> {
    let mut builder = builder(pattern);
    builder
        .multi_line(true)
        // `$` also matches before `\r\n`.
        .crlf(true);
    if pattern.multiline {
        // The matcher may then cross lines.
        builder.line_terminator(None);
    } else {
        // A file with a NUL byte is not text.
        builder.ban_byte(Some(0));
    }
    builder.build(pattern.text).map_err(|error| {
        let words = error.to_string();
        let next = if words.contains("look-around") || words.contains("backreference") {
            "Search for a simpler regex and pick among its matches."
        } else if words.contains("\\n") && !pattern.multiline {
            "To match over several lines, set `multiline: true`."
        } else if words.contains("size limit") {
            "Use smaller repetitions."
        } else {
            "[?If you mean this very text, set `arg:grep.literal`: true.|To mean this very text, put a backslash before each special character.?]"
        };
        Fault::bad_args(format!("`pattern` is not a regex that can be searched for: {words}"))
            .hint(next)
            .caused_by(error)
    })
}

impl End {
    fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::TimedOut => Self::Stopped,
            // The searcher's own error: the line exceeds its memory.
            io::ErrorKind::Other => Self::TooLong,
            _ => Self::Unreadable,
        }
    }
}

/// A file that is read only until a cancellation.
struct Watched<'a> {
    file: &'a File,
    go_on: &'a dyn Fn() -> bool,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if (self.go_on)() { self.file.read(buffer) } else { Err(io::ErrorKind::TimedOut.into()) }
    }
}

/// Collects the numbers of lines.
struct Numbers {
    lines: Vec<u64>,
    is_whole: bool,
}

impl Sink for Numbers {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.lines.extend(found.line_number());
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, end: &SinkFinish) -> Result<(), io::Error> {
        self.is_whole = end.binary_byte_offset().is_none();
        Ok(())
    }
}

/// Collects the searcher's results.
struct Collect<'a> {
    matcher: &'a RegexMatcher,
    find: Find,
    hits: Hits,
}

impl<'a> Collect<'a> {
    fn new(matcher: &'a RegexMatcher, find: Find) -> Self {
        Self { matcher, find, hits: Hits { matches: 0, lines: Vec::new(), end: End::Whole } }
    }

    fn done(self, result: Result<(), io::Error>) -> Hits {
        let mut hits = self.hits;
        if let Err(error) = result {
            hits.end = End::of(&error);
        }
        if hits.end == End::Binary {
            hits.matches = 0;
            hits.lines.clear();
        }
        hits
    }

    fn keep(&self) -> usize {
        match self.find {
            Find::Any | Find::Count => 0,
            Find::Lines(keep) => keep,
        }
    }
}

impl Sink for Collect<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        let of = self.hits.matches;
        self.hits.matches += 1;
        if of < self.keep() {
            let first = found.line_number().unwrap_or(0);
            let mut lines = found.lines();
            for (number, bytes) in (first..).zip(lines.by_ref().take(MOST_LINES)) {
                let text = clip(bytes, || self.matcher.find(bytes).ok().flatten().map_or(0, |it| it.start()));
                self.hits.lines.push(Line { number, of, is_match: true, text });
            }
            let left = lines.count();
            if left > 0
                && let Some(last) = self.hits.lines.last_mut()
            {
                last.text.push_str(&format!("… [{left} more lines of this match]"));
            }
        }
        Ok(self.find != Find::Any)
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> Result<bool, io::Error> {
        let of = match line.kind() {
            SinkContextKind::After => self.hits.matches.saturating_sub(1),
            SinkContextKind::Before | SinkContextKind::Other => self.hits.matches,
        };
        if of < self.keep() {
            let text = clip(line.bytes(), || 0);
            let number = line.line_number().unwrap_or(0);
            self.hits.lines.push(Line { number, of, is_match: false, text });
        }
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, end: &SinkFinish) -> Result<(), io::Error> {
        if end.binary_byte_offset().is_some() {
            self.hits.end = End::Binary;
        }
        Ok(())
    }
}

/// Returns a line without its break; of a long one the part around the match.
fn clip(line: &[u8], matched_at: impl FnOnce() -> usize) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() <= CLIP {
        return String::from_utf8_lossy(line).into_owned();
    }
    let is_inside = |at: usize| line.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let mut start = matched_at().saturating_sub(CLIP_BEFORE).min(line.len() - CLIP);
    let mut end = start + CLIP;
    // Not in the middle of a character, which has at most four bytes.
    (0..3).for_each(|_| start += usize::from(is_inside(start)));
    (0..3).for_each(|_| end -= usize::from(is_inside(end)));
    let text = String::from_utf8_lossy(line.get(start..end).unwrap_or_default());
    let before = if start > 0 { "…" } else { "" };
    let after = if end < line.len() { "…" } else { "" };
    format!("{before}{text}{after} [line of {} bytes]", super::page::thousands(line.len()))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::io::Write;

    use super::*;

    fn scanner(text: &str) -> Scanner {
        Scanner::new(Pattern { text, ..Pattern::default() }, Around::default(), true).unwrap()
    }

    fn found(text: &str, bytes: &[u8]) -> Vec<(u64, String)> {
        let hits = scanner(text).bytes(bytes, Find::Lines(9));
        assert_eq!(hits.end, End::Whole);
        hits.lines.into_iter().map(|line| (line.number, line.text)).collect()
    }

    fn numbers(text: &str, bytes: &[u8]) -> Vec<u64> {
        found(text, bytes).into_iter().map(|(number, _)| number).collect()
    }

    #[test]
    fn anchors_hold_for_each_line_whatever_its_break() {
        let bytes = b"foo\r\nfoo bar\r\nbar foo\nfoo";
        assert_eq!(numbers("foo$", bytes), [1, 3, 4]);
        assert_eq!(numbers("^foo", bytes), [1, 2, 4]);
        assert_eq!(numbers("^foo$", bytes), [1, 4]);
        assert_eq!(numbers("(?i)FOO b", bytes), [2]);
        assert_eq!(numbers(r"\bfo", bytes), [1, 2, 3, 4]);
        assert_eq!(found("bar$", bytes), [(2, "foo bar".to_owned())]);
    }

    #[test]
    fn reads_utf_16_by_its_mark_and_takes_nul_for_binary() {
        let utf_16: Vec<u8> =
            "\u{feff}eins\r\nzwei ü\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(found("ü$", &utf_16), [(2, "zwei ü".to_owned())]);
        let hits = scanner("a").bytes(b"a\nb\0", Find::Lines(9));
        assert_eq!(hits, Hits { matches: 0, lines: Vec::new(), end: End::Binary });
    }

    #[test]
    fn a_long_line_is_clipped_around_the_match_between_characters() {
        for shift in 0..4 {
            let line = format!("{}{}needle{}", "x".repeat(shift), "ä€😀".repeat(300), "😀€ä".repeat(300));
            let (_, text) = found("needle", line.as_bytes()).pop().unwrap();
            assert!(text.contains("needle") && !text.contains('\u{fffd}'), "{text}");
            let (clipped, length) = text.split_once(" [").unwrap();
            assert!((494..=506).contains(&clipped.len()), "{}", clipped.len());
            assert_eq!(length, format!("line of 5,{} bytes]", 406 + shift));
        }
    }

    #[test]
    fn a_file_gives_the_same_however_it_is_read() {
        for lines in [10, 5_000, 50_000] {
            let mut file = tempfile(lines);
            let size = file.metadata().unwrap().len();
            let hits = scanner("9$").file(&file, size, Find::Lines(1), &|| true);
            assert_eq!((hits.matches, hits.end, hits.lines.len()), (lines / 10, End::Whole, 1));
            // The file is longer than its size was: it grew.
            io::Seek::rewind(&mut file).unwrap();
            assert_eq!(scanner("9$").file(&file, 5, Find::Count, &|| true).matches, lines / 10);
        }
    }

    #[test]
    fn cancellation_ends_a_large_file_and_too_long_lines_are_reported() {
        let file = tempfile(50_000);
        let reads = std::cell::Cell::new(0);
        let twice = || {
            reads.set(reads.get() + 1);
            reads.get() < 3
        };
        assert_eq!(scanner("zzz").file(&file, 1 << 20, Find::Count, &twice).end, End::Stopped);
        let mut long = scanner("zzz");
        let endless = vec![b'x'; MOST_MEMORY + SMALL];
        let hits = long.searcher.clone().search_reader(
            long.matcher.clone(),
            endless.as_slice(),
            &mut Collect::new(&long.matcher, Find::Count),
        );
        assert_eq!(End::of(&hits.unwrap_err()), End::TooLong);
        assert_eq!(long.bytes(b"zzz", Find::Any).matches, 1);
    }

    fn tempfile(lines: usize) -> File {
        let test_ws = kit::testing::TestWorkspace::empty();
        let mut text = Vec::new();
        (0..lines).for_each(|number| writeln!(text, "line {number}").unwrap());
        std::fs::write(test_ws.path().join("f"), text).unwrap();
        File::open(test_ws.path().join("f")).unwrap()
    }
}

//! Line ranges of huge files, without loading them.
//!
//! A page reads its own lines and, where that is needed, counts the line breaks before them; see `line_index.rs`.

use memchr::{memchr_iter, memrchr_iter};

use super::{
    Files, Open,
    line_index::{BLOCK, COUNTED, Goal, LineIndex, fill},
    roots::refused,
};
use crate::{Fault, Kind};

/// Number of blocks that are read at once in a very long line, and from the end.
const STRIDE: usize = 16;

/// Some consecutive lines of a file.
#[derive(Debug)]
pub struct Page {
    /// The place of the first line.
    pub first: Place,
    /// The lines.
    pub lines: Vec<Clipped>,
    /// The number of lines of the file.
    pub total: Total,
}

/// The place of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Its number, from 0.
    Row(usize),
    /// This many lines before the end, 1 for the last: the lines before it were not counted.
    FromEnd(usize),
}

/// The number of lines of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Total {
    /// Exactly this many.
    Exactly(usize),
    /// This many were counted, and the file goes on.
    AtLeast(usize),
}

/// A line, or the beginning of a very long one.
#[derive(Debug)]
pub struct Clipped {
    /// Its bytes without the line break, clipped to the limit.
    pub bytes: Vec<u8>,
    /// Its whole length in bytes, without the line break.
    pub length: u64,
    /// Its offset in the file, in bytes.
    pub offset: u64,
}

/// The place where a page begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At this line, counted from 0.
    Line(usize),
    /// This many lines before the end.
    End(usize),
}

/// The limits of a page.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Number of lines.
    pub lines: usize,
    /// Number of bytes of one line.
    pub line_bytes: usize,
    /// Number of bytes in all.
    pub bytes: usize,
}

impl Files {
    /// Reads some lines of a file of any size; `check` is called now and then, and its error ends the work.
    ///
    /// All lines of a file of up to 256 MiB are counted. Of a larger one only those before the page are, and none for
    /// a page from its end; a thread counts the rest afterwards.
    ///
    /// # Errors
    /// Those of the system and of `check`, and [`Kind::Stale`] when the file becomes shorter meanwhile.
    pub fn page(
        &self,
        open: &Open,
        from: Start,
        limits: Limits,
        check: &dyn Fn() -> Result<(), Fault>,
    ) -> Result<Page, Fault> {
        let indexes = &self.roots().caches.indexes;
        let index = indexes.of(&open.file, &open.identity);
        let page = Reader { open, index: &index, check, near: Near::default() }.page(from, limits);
        if !index.is_complete() {
            indexes.count_later(&open.file, &index);
        }
        page
    }

    /// Reads some bytes of a file, from `offset`; fewer at its end.
    ///
    /// # Errors
    /// Those of the system.
    pub fn bytes(&self, open: &Open, offset: u64, most: usize) -> Result<Vec<u8>, Fault> {
        let mut buffer = vec![0; most];
        let filled = fill(&open.file, &mut buffer, offset)
            .map_err(|error| refused(&open.location.to_string(), "read", error))?;
        buffer.truncate(filled);
        Ok(buffer)
    }
}

/// One file being read.
struct Reader<'a> {
    open: &'a Open,
    index: &'a LineIndex,
    check: &'a dyn Fn() -> Result<(), Fault>,
    near: Near,
}

/// The bytes that were read last: consecutive lines mostly lie in one piece.
#[derive(Default)]
struct Near {
    at: u64,
    bytes: Vec<u8>,
}

impl Reader<'_> {
    fn page(&mut self, from: Start, limits: Limits) -> Result<Page, Fault> {
        let (first, mut offset) = match from {
            Start::Line(line) => {
                self.count(if self.size() > COUNTED { Goal::line(line) } else { Goal::END })?;
                (Place::Row(line), self.start_of(line)?)
            }
            Start::End(back) if self.size() > COUNTED => self.start_from_end(back)?,
            Start::End(back) => {
                self.count(Goal::END)?;
                let line = self.index.lines().saturating_sub(back);
                (Place::Row(line), self.start_of(line)?)
            }
        };
        let mut lines = Vec::new();
        let mut bytes = 0;
        while let Some(at) = offset.filter(|at| *at < self.size() && lines.len() < limits.lines) {
            let line = self.line_at(at, limits.line_bytes)?;
            bytes += line.bytes.len() + 1;
            if bytes > limits.bytes && !lines.is_empty() {
                break;
            }
            let end = line.offset + line.length;
            // A carriage return before the break was left out of the length.
            offset = Some(if self.byte(end)? == Some(b'\r') { end + 2 } else { end + 1 });
            lines.push(line);
        }
        let total = self.total(first, lines.len(), offset);
        if lines.is_empty() && !matches!(total, Total::Exactly(_)) {
            let what = format!("`{}` became shorter while it was read", self.open.location);
            return Err(Fault::new(Kind::Stale, what).next("Read it again."));
        }
        Ok(Page { first, lines, total })
    }

    fn size(&self) -> u64 {
        self.open.identity.size
    }

    /// Returns the number of lines, as far as it is known after a page that ends at `end`.
    fn total(&self, first: Place, shown: usize, end: Option<u64>) -> Total {
        let counted = self.index.lines();
        match first {
            _ if self.index.is_complete() => Total::Exactly(counted),
            Place::Row(row) if end.is_some_and(|end| end >= self.size()) => Total::Exactly(row + shown),
            Place::Row(row) => Total::AtLeast(counted.max(row + shown)),
            Place::FromEnd(back) => Total::AtLeast(counted.max(back)),
        }
    }

    fn count(&self, goal: Goal) -> Result<(), Fault> {
        let counted = self.index.count(&self.open.file, goal, self.check)?;
        counted.map_err(|error| refused(&self.open.location.to_string(), "read", error))
    }

    fn fill(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Fault> {
        fill(&self.open.file, buffer, offset)
            .map_err(|error| refused(&self.open.location.to_string(), "read", error))
    }

    /// Returns the offset of a line, if the file has that many.
    fn start_of(&mut self, line: usize) -> Result<Option<u64>, Fault> {
        if line == 0 {
            return Ok((self.size() > 0).then_some(0));
        }
        // The line begins after the `line`-th break.
        let Some((block, before)) = self.index.block_of_break(line) else { return Ok(None) };
        let start = (block * BLOCK) as u64;
        // The whole block is needed, not only the part that is buffered.
        self.near = Near::default();
        let found = memchr_iter(b'\n', self.ahead(start, BLOCK)?).nth(before);
        Ok(found.map(|at| start + at as u64 + 1).filter(|at| *at < self.size()))
    }

    /// Returns the place and offset of the line that is `back` lines before the end, or of the first line if there
    /// are fewer; reads no more than what follows it.
    fn start_from_end(&mut self, back: usize) -> Result<(Place, Option<u64>), Fault> {
        let mut end = self.size();
        let mut lines = 0;
        let mut piece = BLOCK as u64;
        let mut buffer = Vec::new();
        while end > 0 {
            (self.check)()?;
            let start = end.saturating_sub(piece);
            buffer.resize(usize::try_from(end - start).unwrap_or(BLOCK), 0);
            let read = self.fill(&mut buffer, start)?;
            let bytes = buffer.get(..read).unwrap_or_default();
            // A break at the very end ends the last line, and begins none.
            let is_last = end == self.size();
            let bytes = if is_last { bytes.strip_suffix(b"\n").unwrap_or(bytes) } else { bytes };
            lines += usize::from(is_last);
            let breaks = memchr_iter(b'\n', bytes).count();
            if lines + breaks > back {
                let at = memrchr_iter(b'\n', bytes).nth(back.saturating_sub(lines));
                return Ok((Place::FromEnd(back), at.map(|at| start + at as u64 + 1)));
            }
            lines += breaks;
            end = start;
            piece = (piece * 2).min((BLOCK * STRIDE) as u64);
        }
        Ok((Place::FromEnd(lines), Some(0)))
    }

    /// Reads the line that begins at `offset`, without its break.
    fn line_at(&mut self, offset: u64, most: usize) -> Result<Clipped, Fault> {
        let mut bytes = Vec::new();
        let mut at = offset;
        let mut piece = BLOCK;
        let end = loop {
            let read = self.ahead(at, piece)?;
            let found = memchr::memchr(b'\n', read);
            let part = read.get(..found.unwrap_or(read.len())).unwrap_or_default();
            let left = most.saturating_sub(bytes.len());
            bytes.extend_from_slice(part.get(..part.len().min(left)).unwrap_or_default());
            if let Some(found) = found {
                break at + found as u64;
            }
            if read.is_empty() {
                break at;
            }
            at += read.len() as u64;
            if at - offset > BLOCK as u64 {
                (self.check)()?;
                at = self.index.skip_unbroken(at);
                piece = BLOCK * STRIDE;
            }
        };
        let mut length = end - offset;
        if length > 0 && self.byte(end - 1)? == Some(b'\r') && end < self.size() {
            length -= 1;
            bytes.truncate(usize::try_from(length).unwrap_or(usize::MAX));
        }
        Ok(Clipped { bytes, length, offset })
    }

    fn byte(&mut self, at: u64) -> Result<Option<u8>, Fault> {
        Ok(self.ahead(at, BLOCK)?.first().copied())
    }

    /// Returns the buffered bytes from `at` on, or else reads `piece` of them; none only at the end.
    fn ahead(&mut self, at: u64, piece: usize) -> Result<&[u8], Fault> {
        let end = self.near.at + self.near.bytes.len() as u64;
        if !(self.near.at..end).contains(&at) {
            let mut bytes = std::mem::take(&mut self.near.bytes);
            bytes.resize(piece, 0);
            let read = self.fill(&mut bytes, at)?;
            bytes.truncate(read);
            self.near = Near { at, bytes };
        }
        let from = usize::try_from(at - self.near.at).unwrap_or(usize::MAX);
        Ok(self.near.bytes.get(from..).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::{io::Write, os::unix::fs::FileExt};

    use proptest::prelude::*;

    use super::*;
    use crate::testing::TestWorkspace;

    const LIMITS: Limits = Limits { lines: 3, line_bytes: 10, bytes: 1000 };

    fn page(bytes: &[u8], from: Start, limits: Limits) -> (Place, Vec<String>, Total) {
        let test_ws = TestWorkspace::empty();
        std::fs::write(test_ws.path().join("f"), bytes).unwrap();
        page_of(&test_ws, from, limits)
    }

    fn page_of(test_ws: &TestWorkspace, from: Start, limits: Limits) -> (Place, Vec<String>, Total) {
        let cx = test_ws.cx();
        let open = cx.files().open("f").unwrap();
        let page = cx.files().page(&open, from, limits, &|| Ok(())).unwrap();
        (page.first, said(&page.lines), page.total)
    }

    fn said(lines: &[Clipped]) -> Vec<String> {
        lines.iter().map(|it| format!("{}/{}", String::from_utf8_lossy(&it.bytes), it.length)).collect()
    }

    #[test]
    fn gives_the_lines_asked_for_and_the_total() {
        let text = b"one\r\ntwo\n\nfour is long indeed\nfive";
        let row = Place::Row;
        assert_eq!(
            page(text, Start::Line(1), LIMITS),
            (
                row(1),
                vec!["two/3".to_owned(), "/0".to_owned(), "four is lo/19".to_owned()],
                Total::Exactly(5)
            )
        );
        assert_eq!(page(text, Start::Line(0), LIMITS).1.first().unwrap(), "one/3");
        assert_eq!(page(text, Start::End(1), LIMITS), (row(4), vec!["five/4".to_owned()], Total::Exactly(5)));
        assert_eq!(page(text, Start::Line(5), LIMITS).1, Vec::<String>::new());
        assert_eq!(page(b"", Start::Line(0), LIMITS), (row(0), vec![], Total::Exactly(0)));
    }

    /// Creates `f`: two lines, a long one that takes no space on the disk, and three lines.
    fn large() -> TestWorkspace {
        let test_ws = TestWorkspace::empty();
        let file = std::fs::File::create(test_ws.path().join("f")).unwrap();
        file.write_all_at(b"one\ntwo\n", 0).unwrap();
        file.write_all_at(b"\nx\ny\nz\n", COUNTED + 5).unwrap();
        test_ws
    }

    #[test]
    fn a_large_file_is_counted_only_as_far_as_a_page_needs() {
        let test_ws = large();
        let limits = Limits { lines: 2, ..LIMITS };
        let (x, y, z) = ("x/1".to_owned(), "y/1".to_owned(), "z/1".to_owned());
        let (first, lines, total) = page_of(&test_ws, Start::End(2), limits);
        assert_eq!((first, lines), (Place::FromEnd(2), vec![y, z.clone()]));
        assert!(matches!(total, Total::AtLeast(2..=6) | Total::Exactly(6)), "{total:?}");
        let (first, lines, total) = page_of(&test_ws, Start::Line(0), limits);
        assert_eq!((first, lines.first().unwrap().as_str()), (Place::Row(0), "one/3"));
        assert!(matches!(total, Total::AtLeast(3..=6) | Total::Exactly(6)), "{total:?}");
        // The line past the end needs the whole count, and from then on it is known.
        let limits = Limits { lines: 9, ..LIMITS };
        assert_eq!(page_of(&test_ws, Start::Line(9), limits).2, Total::Exactly(6));
        assert_eq!(page_of(&test_ws, Start::End(9), limits).0, Place::FromEnd(6));
        let shown = page_of(&test_ws, Start::Line(3), limits);
        assert_eq!(shown, (Place::Row(3), vec![x, "y/1".to_owned(), z], Total::Exactly(6)));
    }

    #[test]
    fn a_large_file_that_grew_is_counted_from_where_it_ended() {
        let test_ws = large();
        let path = test_ws.path().join("f");
        let cx = test_ws.cx();
        let look = |row: usize| {
            let open = cx.files().open("f").unwrap();
            let checked = std::cell::Cell::new(0);
            let check = || {
                checked.set(checked.get() + 1);
                Ok(())
            };
            // Without the background count, which would be counted too now and then.
            let index = cx.files().roots().caches.indexes.of(&open.file, &open.identity);
            index.count(&open.file, Goal::END, &check).unwrap().unwrap();
            let page = cx.files().page(&open, Start::Line(row), LIMITS, &|| Ok(())).unwrap();
            (said(&page.lines), page.total, checked.get())
        };
        let (_, total, checked) = look(0);
        assert!(total == Total::Exactly(6) && checked > 5, "{total:?}, {checked} steps");
        let add = |text: &str| {
            let mut file = std::fs::File::options().append(true).open(&path).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        };
        add("more\nend");
        let (lines, total, checked) = look(5);
        assert_eq!((lines.join(" "), total, checked), ("z/1 more/4 end/3".to_owned(), Total::Exactly(8), 1));
        add(" of it\n");
        let (lines, total, checked) = look(7);
        assert_eq!((lines.join(" "), total, checked), ("end of it/9".to_owned(), Total::Exactly(8), 1));
        // Another text at the same place, and longer, is counted as a new file.
        std::fs::File::options().write(true).open(&path).unwrap().write_all_at(b"\n\n\n", 0).unwrap();
        add("last\n");
        let (_, total, checked) = look(0);
        assert!(total == Total::Exactly(12) && checked > 5, "{total:?}, {checked} steps");
    }

    #[test]
    fn a_count_in_steps_by_several_threads_finds_every_line() {
        let test_ws = TestWorkspace::empty();
        let lines: Vec<String> =
            (0..1_500_000_usize).map(|it| format!("{it}{}\n", " ".repeat(it % 37))).collect();
        std::fs::write(test_ws.path().join("f"), lines.concat()).unwrap();
        for row in [1, 65_000, 777_777, 1_499_997] {
            let (_, shown, total) = page_of(&test_ws, Start::Line(row), Limits { line_bytes: 99, ..LIMITS });
            let expected = lines.iter().skip(row).take(3).map(|it| it.trim_end_matches('\n'));
            let expected: Vec<String> = expected.map(|it| format!("{it}/{}", it.len())).collect();
            assert_eq!((shown, total), (expected, Total::Exactly(lines.len())));
        }
    }

    #[test]
    fn a_second_read_reuses_the_line_index_and_notices_a_change() {
        let test_ws = TestWorkspace::empty();
        let file = test_ws.path().join("f");
        std::fs::write(&file, "x\n".repeat(100_000)).unwrap();
        let cx = test_ws.cx();
        let look = || {
            let open = cx.files().open("f").unwrap();
            let checked = std::cell::Cell::new(0);
            let check = || {
                checked.set(checked.get() + 1);
                Ok(())
            };
            let page = cx.files().page(&open, Start::Line(99_999), LIMITS, &check).unwrap();
            (page.lines.len(), page.total, checked.get())
        };
        assert_eq!(look(), (1, Total::Exactly(100_000), 1));
        assert_eq!(look(), (1, Total::Exactly(100_000), 0));
        std::fs::write(&file, "yy\n".repeat(100_001)).unwrap();
        assert_eq!(look(), (2, Total::Exactly(100_001), 1));
    }

    proptest! {
        #[test]
        fn agrees_with_splitting_the_whole(
            lines in proptest::collection::vec((0_usize..200_000, any::<bool>()), 0..6),
            last in any::<bool>(),
            first in 0_usize..7,
        ) {
            let mut text = String::new();
            for (index, (length, carriage)) in lines.iter().enumerate() {
                text.push_str(&char::from(b'a' + u8::try_from(index).unwrap()).to_string().repeat(*length));
                if index + 1 < lines.len() || last {
                    text.push_str(if *carriage { "\r\n" } else { "\n" });
                }
            }
            let whole: Vec<String> = text.lines().skip(first).take(3).map(|line| {
                format!("{}/{}", line.chars().take(10).collect::<String>(), line.len())
            }).collect();
            prop_assert_eq!(page(text.as_bytes(), Start::Line(first), LIMITS).1, whole);
            // From the end, as in a file whose lines are not counted.
            let all = text.lines().count();
            if all > 0 {
                let back = first + 1;
                let test_ws = TestWorkspace::empty();
                std::fs::write(test_ws.path().join("f"), &text).unwrap();
                let cx = test_ws.cx();
                let open = cx.files().open("f").unwrap();
                let index = LineIndex::default();
                let mut reader = Reader { open: &open, index: &index, check: &|| Ok(()), near: Near::default() };
                let (place, offset) = reader.start_from_end(back).unwrap();
                prop_assert_eq!(place, Place::FromEnd(back.min(all)));
                let line = reader.line_at(offset.unwrap(), 10).unwrap();
                let expected = text.lines().nth(all - back.min(all)).unwrap();
                prop_assert_eq!(line.length, expected.len() as u64);
            }
        }
    }
}

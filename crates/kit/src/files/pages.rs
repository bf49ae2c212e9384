//! Line ranges of huge files, without loading them.
//!
//! One pass counts the line breaks block by block. The counts are cached as long as the file stays unchanged;
//! after that, reaching any line takes one table lookup and one block.

use std::{collections::HashMap, sync::Arc};

use memchr::memchr_iter;

use super::{Files, Identity, Open, roots::refused};
use crate::Fault;

/// Bytes between two counts.
const BLOCK: usize = 64 * 1024;

/// Number of blocks that are read at once.
const STRIDE: usize = 16;

/// Bytes past the page in which lines are counted, to report the total. Beyond it the answer is "more than":
/// a total is not worth a minute of waiting.
const COUNT_AHEAD: u64 = 2 << 30;

/// Number of files whose counts are cached.
const KEPT: usize = 64;

/// Some consecutive lines of a file.
#[derive(Debug)]
pub struct Page {
    /// The first line's number, from 0.
    pub first: usize,
    /// The lines.
    pub lines: Vec<Clipped>,
    /// The number of lines of the file.
    pub total: Total,
}

/// The number of lines of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Total {
    /// Exactly this many.
    Exactly(usize),
    /// This many were counted, and the file goes on.
    MoreThan(usize),
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

/// The cached line counts, by device and inode number.
#[derive(Default)]
pub(super) struct LineIndexes(HashMap<(u64, u64), CachedIndex>);

struct CachedIndex {
    identity: Identity,
    index: Arc<LineIndex>,
    used: u64,
}

/// The number of line breaks before each block, as far as was read.
#[derive(Default, Clone)]
struct LineIndex {
    /// `before[b]` line breaks lie before block `b`.
    before: Vec<usize>,
    breaks: usize,
    scanned: u64,
    ends_in_break: bool,
}

impl Files {
    /// Reads some lines of a file of any size; `check` is called now and then, and its error ends the work.
    ///
    /// # Errors
    /// Those of the system and of `check`.
    pub fn page(
        &self,
        open: &Open,
        from: Start,
        limits: Limits,
        check: &dyn Fn() -> Result<(), Fault>,
    ) -> Result<Page, Fault> {
        let key = (open.identity.device, open.identity.inode);
        let mut index = self.roots().caches.indexes.lock().get(key, &open.identity);
        let page = Reader { open, index: &mut index, check, near: Near::default() }.page(from, limits);
        self.roots().caches.indexes.lock().put(key, open.identity, index);
        page
    }

    /// Reads some bytes of a file, from `offset`; fewer at its end.
    ///
    /// # Errors
    /// Those of the system.
    pub fn bytes(&self, open: &Open, offset: u64, most: usize) -> Result<Vec<u8>, Fault> {
        let mut buffer = vec![0; most];
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|it| !it.is_empty()) {
            match open.read_at(rest, offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) => return Err(refused(&open.location.to_string(), "read", error)),
            }
        }
        buffer.truncate(filled);
        Ok(buffer)
    }
}

impl LineIndexes {
    fn get(&self, key: (u64, u64), identity: &Identity) -> Arc<LineIndex> {
        match self.0.get(&key) {
            Some(kept) if kept.identity == *identity => kept.index.clone(),
            Some(_) | None => Arc::default(),
        }
    }

    fn put(&mut self, key: (u64, u64), identity: Identity, index: Arc<LineIndex>) {
        let used = self.0.values().map(|kept| kept.used).max().unwrap_or(0) + 1;
        if self.0.len() >= KEPT
            && !self.0.contains_key(&key)
            && let Some(oldest) = self.0.iter().min_by_key(|(_, kept)| kept.used).map(|(key, _)| *key)
        {
            self.0.remove(&oldest);
        }
        self.0.insert(key, CachedIndex { identity, index, used });
    }
}

/// One file being read.
struct Reader<'a> {
    open: &'a Open,
    index: &'a mut Arc<LineIndex>,
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
        let first = match from {
            Start::Line(line) => line,
            Start::End(back) => {
                self.scan(usize::MAX, u64::MAX)?;
                self.index.lines().saturating_sub(back)
            }
        };
        self.scan(first.saturating_add(limits.lines), COUNT_AHEAD)?;
        let mut page = Page { first, lines: Vec::new(), total: self.total() };
        let Some(mut offset) = self.start_of(first)? else { return Ok(page) };
        let mut bytes = 0;
        while page.lines.len() < limits.lines && offset < self.size() {
            let line = self.line_at(offset, limits.line_bytes)?;
            bytes += line.bytes.len() + 1;
            if bytes > limits.bytes && !page.lines.is_empty() {
                break;
            }
            let end = line.offset + line.length;
            // A carriage return before the break was left out of the length.
            offset = if self.byte(end)? == Some(b'\r') { end + 2 } else { end + 1 };
            page.lines.push(line);
        }
        Ok(page)
    }

    fn size(&self) -> u64 {
        self.open.identity.size
    }

    fn total(&self) -> Total {
        let lines = self.index.lines();
        if self.index.scanned >= self.size() { Total::Exactly(lines) } else { Total::MoreThan(lines) }
    }

    /// Counts until `line` is passed, and at most `ahead` bytes further.
    fn scan(&mut self, line: usize, ahead: u64) -> Result<(), Fault> {
        let mut buffer = Vec::new();
        let mut further = 0;
        while self.index.scanned < self.size() {
            if self.index.breaks > line {
                if further >= ahead {
                    return Ok(());
                }
                further += (BLOCK * STRIDE) as u64;
            }
            (self.check)()?;
            buffer.resize(BLOCK * STRIDE, 0);
            let read = self.fill(&mut buffer, self.index.scanned)?;
            let Some(read) = buffer.get(..read).filter(|it| !it.is_empty()) else { return Ok(()) };
            // Others may be reading with the counts so far.
            let index = Arc::make_mut(self.index);
            for block in read.chunks(BLOCK) {
                index.before.push(index.breaks);
                index.breaks += memchr_iter(b'\n', block).count();
            }
            index.ends_in_break = read.last() == Some(&b'\n');
            index.scanned += read.len() as u64;
        }
        Ok(())
    }

    /// Reads until the buffer is full or the file ends, so that blocks stay aligned.
    fn fill(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Fault> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|it| !it.is_empty()) {
            match self.open.read_at(rest, offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) => return Err(refused(&self.open.location.to_string(), "read", error)),
            }
        }
        Ok(filled)
    }

    /// Returns the offset of a line, if the file has that many.
    fn start_of(&mut self, line: usize) -> Result<Option<u64>, Fault> {
        if line == 0 {
            return Ok((self.size() > 0).then_some(0));
        }
        // The line begins after the `line`-th break; find the block that has it.
        let block = self.index.before.partition_point(|before| *before < line).saturating_sub(1);
        let Some(before) = self.index.before.get(block) else { return Ok(None) };
        if line > self.index.breaks {
            return Ok(None);
        }
        let further = line - before - 1;
        let start = (block * BLOCK) as u64;
        // The whole block is needed, not only the part that is buffered.
        self.near = Near::default();
        let found = memchr_iter(b'\n', self.ahead(start, BLOCK)?).nth(further);
        Ok(found.map(|at| start + at as u64 + 1).filter(|at| *at < self.size()))
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
            let test_ws = most.saturating_sub(bytes.len());
            bytes.extend_from_slice(part.get(..part.len().min(test_ws)).unwrap_or_default());
            if let Some(found) = found {
                break at + found as u64;
            }
            if read.is_empty() {
                break at;
            }
            at += read.len() as u64;
            if at - offset > BLOCK as u64 {
                (self.check)()?;
                at = self.skip_unbroken(at);
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

    /// Returns the first offset from `at` on that may hold a break, by the counts.
    fn skip_unbroken(&self, at: u64) -> u64 {
        let Ok(mut block) = usize::try_from(at.div_ceil(BLOCK as u64)) else { return at };
        while let (Some(before), Some(after)) =
            (self.index.before.get(block), self.index.before.get(block + 1))
            && before == after
        {
            block += 1;
        }
        // The current block has been counted too.
        let here = usize::try_from(at / BLOCK as u64).unwrap_or(0);
        match (self.index.before.get(here), self.index.before.get(here + 1)) {
            (Some(before), Some(after)) if before == after => (block * BLOCK) as u64,
            _ => at,
        }
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

impl LineIndex {
    fn lines(&self) -> usize {
        self.breaks + usize::from(self.scanned > 0 && !self.ends_in_break)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use proptest::prelude::*;

    use super::*;
    use crate::testing::TestWorkspace;

    const LIMITS: Limits = Limits { lines: 3, line_bytes: 10, bytes: 1000 };

    fn page(bytes: &[u8], from: Start, limits: Limits) -> (usize, Vec<String>, Total) {
        let test_ws = TestWorkspace::empty();
        std::fs::write(test_ws.path().join("f"), bytes).unwrap();
        let cx = test_ws.cx();
        let open = cx.files().open("f").unwrap();
        let page = cx.files().page(&open, from, limits, &|| Ok(())).unwrap();
        let lines =
            page.lines.iter().map(|it| format!("{}/{}", String::from_utf8_lossy(&it.bytes), it.length));
        (page.first, lines.collect(), page.total)
    }

    #[test]
    fn gives_the_lines_asked_for_and_the_total() {
        let text = b"one\r\ntwo\n\nfour is long indeed\nfive";
        assert_eq!(
            page(text, Start::Line(1), LIMITS),
            (1, vec!["two/3".to_owned(), "/0".to_owned(), "four is lo/19".to_owned()], Total::Exactly(5))
        );
        assert_eq!(page(text, Start::Line(0), LIMITS).1.first().unwrap(), "one/3");
        assert_eq!(page(text, Start::End(1), LIMITS), (4, vec!["five/4".to_owned()], Total::Exactly(5)));
        assert_eq!(page(text, Start::Line(5), LIMITS).1, Vec::<String>::new());
        assert_eq!(page(b"", Start::Line(0), LIMITS), (0, vec![], Total::Exactly(0)));
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
        }
    }
}

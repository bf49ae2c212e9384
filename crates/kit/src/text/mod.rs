//! Text files: lines, line endings and encoding, preserved byte for byte.

use std::{borrow::Cow, fmt, ops::Range, sync::Arc};

mod content;
mod encoding;
mod splice;

pub use content::Content;
pub use encoding::{Encoding, NotText, Unwritable};
pub(crate) use splice::{Change, FinalNewline, compose};
pub use splice::{Splice, SpliceError};

/// A text file: its bytes, its lines, and its encoding. Immutable, and cheap to clone.
///
/// Rows count from 0. A line ends with LF or CRLF; a lone CR is content. A byte order mark is not part of any line.
#[derive(Clone)]
pub struct Text {
    inner: Arc<Inner>,
}

struct Inner {
    content: Content,
    encoding: Encoding,
    /// Bytes of the byte order mark.
    bom: usize,
    /// The offset of each line, and last the length of the file.
    starts: Vec<u32>,
}

/// The blake3 digest of the bytes of a file.
pub type Digest = [u8; 32];

/// The ending of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// `\n`
    Lf,
    /// `\r\n`
    CrLf,
    /// None: the last line of a file without a final newline.
    None,
}

impl Text {
    /// Detects the encoding of `bytes` and finds their lines.
    ///
    /// # Errors
    /// [`NotText`] when they are not text.
    pub fn parse(bytes: impl Into<Vec<u8>>) -> Result<Self, NotText> {
        Self::share(bytes.into().into())
    }

    /// Like [`parse`](Self::parse), for shared bytes: they are not copied.
    ///
    /// # Errors
    /// Those of [`parse`](Self::parse).
    pub fn share(content: Content) -> Result<Self, NotText> {
        if u32::try_from(content.len()).is_err() {
            return Err(NotText::TooBig);
        }
        let (encoding, bom) = encoding::detect(&content)?;
        let starts = line_starts(&content, encoding, bom);
        Ok(Self { inner: Arc::new(Inner { content, encoding, bom, starts }) })
    }

    /// Like [`parse`](Self::parse), for the bytes of this text after a change within the range `changed` of its bytes: the lines
    /// around it are not searched again.
    pub(crate) fn parse_changed(&self, bytes: Vec<u8>, changed: Range<usize>) -> Result<Self, NotText> {
        let Inner { content: old, encoding, bom, starts } = &*self.inner;
        let (head, tail) = (old.get(..changed.start), old.get(changed.end..));
        // Where a code unit has two bytes, a line feed may lie across the end of the change.
        if let (Some(head), Some(tail), 1) = (head, tail, encoding.unit())
            && head.len() >= *bom
            && u32::try_from(bytes.len()).is_ok()
            && bytes.len() >= head.len() + tail.len()
            && bytes.starts_with(head)
            && bytes.ends_with(tail)
            && encoding::detect(&bytes)? == (*encoding, *bom)
        {
            let starts = starts_after(starts, old.len(), &bytes, head.len(), tail.len());
            let inner = Inner { content: bytes.into(), encoding: *encoding, bom: *bom, starts };
            return Ok(Self { inner: Arc::new(inner) });
        }
        Self::parse(bytes)
    }

    /// Returns the number of lines: two in `"a\nb\n"` and in `"a\nb"`, none in `""`.
    pub fn line_count(&self) -> usize {
        self.inner.starts.len().saturating_sub(1)
    }

    /// Returns a line without its ending, decoded; `None` past the end.
    pub fn line(&self, row: usize) -> Option<Cow<'_, str>> {
        self.content(row).map(|content| self.inner.encoding.decode(content))
    }

    /// Returns the bytes of a line without its ending; `None` past the end.
    pub fn content(&self, row: usize) -> Option<&[u8]> {
        let raw = self.raw(row)?;
        let ending = self.inner.encoding.ending_bytes(self.ending(row));
        raw.get(..raw.len().saturating_sub(ending.len()))
    }

    /// Returns the bytes of a line with its ending; `None` past the end.
    pub fn raw(&self, row: usize) -> Option<&[u8]> {
        self.inner.content.get(self.span(row)?)
    }

    /// Returns the ending of a line.
    pub fn ending(&self, row: usize) -> Ending {
        let Some(raw) = self.raw(row) else { return Ending::None };
        let encoding = self.inner.encoding;
        if raw.ends_with(encoding.ending_bytes(Ending::CrLf)) {
            Ending::CrLf
        } else if raw.ends_with(encoding.ending_bytes(Ending::Lf)) {
            Ending::Lf
        } else {
            Ending::None
        }
    }

    /// Returns whether the last line has an ending; true for an empty file.
    pub fn has_final_newline(&self) -> bool {
        let lines = self.line_count();
        lines == 0 || self.ending(lines - 1) != Ending::None
    }

    /// Returns the encoding.
    pub fn encoding(&self) -> Encoding {
        self.inner.encoding
    }

    /// Returns whether the file begins with a byte order mark.
    pub fn has_bom(&self) -> bool {
        self.inner.bom > 0
    }

    /// Returns all bytes of the file.
    pub fn bytes(&self) -> &[u8] {
        &self.inner.content
    }

    /// Returns all bytes of the file, to be shared.
    pub fn whole(&self) -> &Content {
        &self.inner.content
    }

    /// Returns the whole text decoded, with its line endings, without the byte order mark.
    pub fn decoded(&self) -> Cow<'_, str> {
        self.inner.encoding.decode(self.inner.content.get(self.inner.bom..).unwrap_or_default())
    }

    /// Returns the digest of the bytes, computed at the first call.
    pub fn digest(&self) -> Digest {
        self.inner.content.digest()
    }

    /// Returns the range of bytes of a line, its ending included.
    pub(crate) fn span(&self, row: usize) -> Option<Range<usize>> {
        let start = *self.inner.starts.get(row)?;
        let end = *self.inner.starts.get(row + 1)?;
        Some(start as usize..end as usize)
    }

    /// Returns the row that the byte at `offset` belongs to; the last one past the end.
    pub(crate) fn row_at(&self, offset: usize) -> usize {
        let after = self.inner.starts.partition_point(|start| *start as usize <= offset);
        after.saturating_sub(1).min(self.line_count().saturating_sub(1))
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner) || self.inner.content == other.inner.content
    }
}

impl Eq for Text {}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Text")
            .field("encoding", &self.inner.encoding)
            .field("bom", &self.has_bom())
            .field("lines", &self.line_count())
            .field("bytes", &self.inner.content.len())
            .finish()
    }
}

/// Returns the starts of lines in `bytes`, of whose `old` version with that many bytes this many at the head and tail are the same.
fn starts_after(old: &[u32], old_bytes: usize, bytes: &[u8], head: usize, tail: usize) -> Vec<u32> {
    let changed = head..bytes.len() - tail;
    // The last entry is not a start where the last line has no line feed.
    let is_start = |it: &u32| (*it as usize) < old_bytes || bytes.get(head.saturating_sub(1)) == Some(&b'\n');
    // A line that begins at the end of the head has its line feed in it.
    let mut before = old.partition_point(|start| *start as usize <= head);
    before -= usize::from(before > 1 && !old.get(before - 1).is_some_and(is_start));
    let after = old.partition_point(|start| *start as usize <= old_bytes - tail);
    let mut starts = Vec::with_capacity(old.len() + 2);
    starts.extend_from_slice(old.get(..before).unwrap_or_default());
    for at in memchr::memchr_iter(b'\n', bytes.get(changed.clone()).unwrap_or_default()) {
        push(&mut starts, changed.start + at + 1);
    }
    let moved = |start: &u32| (bytes.len() + *start as usize).saturating_sub(old_bytes);
    old.get(after..).unwrap_or_default().iter().map(moved).for_each(|it| push(&mut starts, it));
    push_end(&mut starts, bytes);
    starts
}

fn line_starts(bytes: &[u8], encoding: Encoding, bom: usize) -> Vec<u32> {
    // A typical length of lines of code; one reallocation more costs little.
    let mut starts = Vec::with_capacity(bytes.len() / 32 + 2);
    push(&mut starts, bom);
    let body = bytes.get(bom..).unwrap_or_default();
    for at in memchr::memchr_iter(b'\n', body) {
        if let Some(end) = encoding.line_feed_end(body, at) {
            push(&mut starts, bom + end);
        }
    }
    push_end(&mut starts, bytes);
    starts
}

/// Adds the end of a last line without a line feed.
fn push_end(starts: &mut Vec<u32>, bytes: &[u8]) {
    if starts.last().is_some_and(|last| (*last as usize) < bytes.len()) {
        push(starts, bytes.len());
    }
}

fn push(starts: &mut Vec<u32>, at: usize) {
    starts.push(u32::try_from(at).unwrap_or(u32::MAX));
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]
        #[test]
        fn lines_after_a_change_are_those_of_the_whole_text(
            old in "(\u{feff})?[ab é\r\n]{0,24}",
            new in "[xy è\r\n]{0,6}",
            (from, to) in (0..32_usize, 0..32_usize),
            form in 0..3_u8,
        ) {
            let written = |text: &str| -> Vec<u8> {
                match form {
                    0 => text.as_bytes().to_vec(),
                    1 => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
                    _ => text.chars().map(|it| u8::try_from(it).unwrap_or(b'?')).collect(),
                }
            };
            let bytes = written(&old);
            let Ok(text) = Text::parse(bytes.clone()) else { return Ok(()) };
            let (from, to) = (from.min(bytes.len()), to.min(bytes.len()));
            let changed = from.min(to)..from.max(to);
            let mut after = bytes.clone();
            after.splice(changed.clone(), written(&new));
            match (text.parse_changed(after.clone(), changed.clone()), Text::parse(after.clone())) {
                (Ok(quick), Ok(whole)) => {
                    prop_assert_eq!(&quick.inner.starts, &whole.inner.starts);
                    prop_assert_eq!(quick.encoding(), whole.encoding());
                    prop_assert_eq!(quick.inner.bom, whole.inner.bom);
                }
                (quick, whole) => prop_assert_eq!(quick.err(), whole.err()),
            }
            // A range that is not all that has changed costs time, and gives the same.
            let none = text.parse_changed(after.clone(), 0..0).map(|it| it.inner.starts.clone());
            prop_assert_eq!(none.ok(), Text::parse(after).ok().map(|it| it.inner.starts.clone()));
        }
    }

    fn text(bytes: impl Into<Vec<u8>>) -> Text {
        Text::parse(bytes).unwrap()
    }

    fn lines(text: &Text) -> Vec<String> {
        (0..text.line_count()).map(|row| text.line(row).unwrap().into_owned()).collect()
    }

    #[test]
    fn counts_lines_as_a_person_would() {
        assert_eq!(text("").line_count(), 0);
        assert_eq!(text("a\nb\n").line_count(), 2);
        assert_eq!(text("a\nb").line_count(), 2);
        assert_eq!(text("\n").line_count(), 1);
        assert_eq!(text("\u{feff}").line_count(), 0);
        assert_eq!(lines(&text("a\n\nb")), ["a", "", "b"]);
    }

    #[test]
    fn remembers_the_ending_of_each_line() {
        let mixed = text("a\r\nb\nc\rd\r\n\r");
        assert_eq!(lines(&mixed), ["a", "b", "c\rd", "\r"]);
        let endings: Vec<_> = (0..4).map(|row| mixed.ending(row)).collect();
        assert_eq!(endings, [Ending::CrLf, Ending::Lf, Ending::CrLf, Ending::None]);
        assert!(!mixed.has_final_newline());
    }

    #[test]
    fn a_byte_order_mark_is_not_part_of_a_line() {
        let marked = text("\u{feff}a\nb");
        assert!(marked.has_bom());
        assert_eq!(lines(&marked), ["a", "b"]);
        assert_eq!(marked.decoded(), "a\nb");
    }

    #[test]
    fn finds_lines_in_utf_16() {
        // U+0A0A and U+0D0A contain the byte of a line feed without being one.
        let le: Vec<u8> =
            "\u{feff}a\u{a0a}\r\n\u{d0a}b\nc".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let be: Vec<u8> =
            "\u{feff}a\u{a0a}\r\n\u{d0a}b\nc".encode_utf16().flat_map(u16::to_be_bytes).collect();
        for (bytes, encoding) in [(le, Encoding::Utf16Le), (be, Encoding::Utf16Be)] {
            let wide = text(bytes);
            assert_eq!(wide.encoding(), encoding);
            assert_eq!(lines(&wide), ["a\u{a0a}", "\u{d0a}b", "c"]);
            assert_eq!(
                [wide.ending(0), wide.ending(1), wide.ending(2)],
                [Ending::CrLf, Ending::Lf, Ending::None]
            );
        }
    }

    #[test]
    fn the_lines_are_the_file() {
        let whole = text("\u{feff}x\r\ny\nz");
        let joined: Vec<u8> = (0..3).flat_map(|row| whole.raw(row).unwrap().to_vec()).collect();
        assert_eq!(joined, b"x\r\ny\nz");
        assert_eq!(whole.row_at(3), 0);
        assert_eq!(whole.row_at(6), 1);
        assert_eq!(whole.row_at(99), 2);
    }
}

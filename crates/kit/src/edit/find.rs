//! Occurrences of a text in a file.

use std::{borrow::Cow, ops::Range};

use crate::text::{Change, Ending, Text, Unwritable};

/// Maximum number of places that are counted.
pub(super) const MOST: usize = 100;

/// A place where the text occurs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hit {
    /// The bytes.
    pub(super) span: Range<usize>,
    /// The rows that the bytes are of.
    pub(super) rows: Range<usize>,
    /// The number of line endings among the bytes.
    endings: usize,
}

/// Whether places may overlap. A text is unique only if it has no overlapping second place either.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Places {
    Sharing,
    Apart,
}

/// The lines to find, in the encoding of a file. The first and the last may be parts of lines.
pub(super) struct Needle {
    first: Vec<u8>,
    between: Vec<Vec<u8>>,
    last: Option<Vec<u8>>,
}

impl Needle {
    /// Returns `None` if the encoding of `text` can't represent it.
    pub(super) fn new(text: &Text, old: &str) -> Option<Self> {
        let old = plain(text, old);
        let lines: Result<Vec<Vec<u8>>, Unwritable> =
            old.split('\n').map(|line| Ok(text.encoding().encode(line)?.into_owned())).collect();
        let mut lines = lines.ok()?.into_iter();
        let first = lines.next()?;
        let mut between: Vec<Vec<u8>> = lines.collect();
        let last = between.pop();
        Some(Self { first, between, last })
    }

    /// Returns its places, each of which lies in one of these sorted ranges of rows; at most `most`.
    pub(super) fn hits(&self, text: &Text, places: Places, most: usize, among: &[Range<usize>]) -> Vec<Hit> {
        let mut hits = match &self.last {
            None => self.hits_in_lines(text, places, most, among),
            Some(last) => self.hits_over_lines(text, last, places, among),
        };
        hits.truncate(most);
        hits
    }

    fn hits_in_lines(&self, text: &Text, places: Places, most: usize, among: &[Range<usize>]) -> Vec<Hit> {
        let finder = memchr::memmem::Finder::new(&self.first);
        let mut hits = Vec::new();
        for rows in among {
            let Some(mut from) = text.span(rows.start).map(|span| span.start) else { continue };
            let end = text.gap(rows.end).min(text.bytes().len());
            while hits.len() < most
                && let Some(at) = text.bytes().get(from..end).and_then(|rest| finder.find(rest))
            {
                let span = from + at..from + at + self.first.len();
                from = span.start + 1;
                let row = text.row_at(span.start);
                let Some(line) = text.span(row) else { break };
                let content = text.content(row).unwrap_or_default();
                let whole = span.end <= line.start + content.len()
                    && (span.start - line.start).is_multiple_of(text.encoding().unit());
                if whole {
                    if places == Places::Apart {
                        from = span.end;
                    }
                    hits.push(Hit { span, rows: row..row + 1, endings: 0 });
                }
            }
        }
        hits
    }

    fn hits_over_lines(&self, text: &Text, last: &[u8], places: Places, among: &[Range<usize>]) -> Vec<Hit> {
        let mut hits: Vec<Hit> = Vec::new();
        for rows in among {
            for row in rows.clone() {
                if let Some(hit) = self.hit_at(text, row, last)
                    && hit.rows.end <= rows.end
                    && (places == Places::Sharing
                        || hits.last().is_none_or(|it| it.span.end <= hit.span.start))
                {
                    hits.push(hit);
                }
            }
        }
        hits
    }

    fn hit_at(&self, text: &Text, row: usize, last: &[u8]) -> Option<Hit> {
        let ended = |row: usize| text.ending(row) != Ending::None;
        let content = text.content(row)?;
        if !content.ends_with(&self.first) || !ended(row) {
            return None;
        }
        let start = text.span(row)?.start + content.len() - self.first.len();
        let mut below = row + 1;
        for line in &self.between {
            if text.content(below)? != line || !ended(below) {
                return None;
            }
            below += 1;
        }
        let endings = below - row;
        if last.is_empty() {
            return Some(Hit { span: start..text.gap(below), rows: row..below, endings });
        }
        text.content(below)?.starts_with(last).then_some(())?;
        let end = text.span(below)?.start + last.len();
        Some(Hit { span: start..end, rows: row..below + 1, endings })
    }
}

/// Returns the change that writes `new` in the place of a hit, with the file's own line endings.
pub(super) fn replacement(text: &Text, hit: &Hit, new: &str) -> Result<Change, Unwritable> {
    let new = plain(text, new);
    let mut bytes = Vec::new();
    for (at, line) in new.split('\n').enumerate() {
        if at > 0 {
            let replaced = hit.rows.start..hit.rows.start + hit.endings;
            // A line that is split anew ends as the line it was part of.
            let row = if at <= hit.endings { at - 1 } else { hit.endings.saturating_sub(1) };
            let ending = match text.ending(hit.rows.start + row) {
                Ending::None => text.ending_for(&replaced, row),
                ending => ending,
            };
            bytes.extend_from_slice(text.encoding().ending_bytes(ending));
        }
        bytes.extend_from_slice(&text.encoding().encode(line)?);
    }
    Ok(Change { span: hit.span.clone(), bytes, whole_lines: false })
}

/// Returns the text with plain line feeds, and without the byte order mark, which is not part of the file's text.
fn plain<'a>(text: &Text, given: &'a str) -> Cow<'a, str> {
    let given = if text.has_bom() { given.strip_prefix('\u{feff}').unwrap_or(given) } else { given };
    if given.contains("\r\n") { Cow::Owned(given.replace("\r\n", "\n")) } else { Cow::Borrowed(given) }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::single_range_in_vec_init, reason = "tests")]
mod tests {
    use super::*;

    fn spans(text: &Text, old: &str, places: Places) -> Vec<Range<usize>> {
        let needle = Needle::new(text, old).unwrap();
        needle.hits(text, places, MOST, &[0..text.line_count()]).into_iter().map(|hit| hit.span).collect()
    }

    #[test]
    fn finds_over_any_line_ending() {
        let text = Text::parse("ab\r\ncd\nef\r\ngh").unwrap();
        assert_eq!(spans(&text, "b\ncd\r\ne", Places::Sharing), [1..8]);
        assert_eq!(spans(&text, "ab\n", Places::Sharing), [0..4]);
        assert_eq!(spans(&text, "ef\ngh", Places::Sharing), [7..13]);
        assert!(spans(&text, "gh\n", Places::Sharing).is_empty());
        assert!(spans(&text, "\r", Places::Sharing).is_empty());
    }

    #[test]
    fn places_that_share_bytes_count_as_two() {
        let text = Text::parse("aaa\n").unwrap();
        assert_eq!(spans(&text, "aa", Places::Sharing), [0..2, 1..3]);
        assert_eq!(spans(&text, "aa", Places::Apart), [0..2]);
        let text = Text::parse("x\nx\nx\n").unwrap();
        assert_eq!(spans(&text, "x\nx\n", Places::Sharing).len(), 2);
        assert_eq!(spans(&text, "x\nx\n", Places::Apart).len(), 1);
    }

    #[test]
    fn finds_only_what_lies_in_one_of_the_ranges_of_rows() {
        let text = Text::parse("\u{feff}ab\nab\r\nab\nab").unwrap();
        let rows = |old: &str, among: &[Range<usize>]| -> Vec<Range<usize>> {
            let needle = Needle::new(&text, old).unwrap();
            needle.hits(&text, Places::Sharing, MOST, among).into_iter().map(|hit| hit.rows).collect()
        };
        assert_eq!(rows("ab", &[0..1, 2..4]), [0..1, 2..3, 3..4]);
        assert_eq!(rows("b", &[1..2]), [1..2]);
        assert!(rows("ab", &[]).is_empty());
        assert_eq!(rows("b\nab\nab", &[0..4]), [0..3, 1..4]);
        assert_eq!(rows("b\nab", &[0..2, 3..4]), [0..2]);
        assert_eq!(rows("ab\n", &[0..1, 3..4]), [0..1]);
    }

    #[test]
    fn finds_whole_characters_of_utf_16() {
        let wide: Vec<u8> = "\u{feff}\u{6161}a\u{6100}\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let text = Text::parse(wide).unwrap();
        assert_eq!(spans(&text, "a", Places::Sharing), [4..6]);
    }
}

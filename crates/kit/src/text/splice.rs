//! Splicing: the bytes of a file after some of its lines are replaced.

use std::ops::Range;

use super::{Ending, Text, Unwritable};
use crate::memory;

/// Some rows, and the lines that replace them. An empty range is a gap: the lines are inserted before its row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Splice {
    /// The rows to replace.
    pub rows: Range<usize>,
    /// The new lines, without endings.
    pub lines: Vec<String>,
}

/// The reason why lines could not be replaced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpliceError {
    /// A character has no bytes in the encoding of the file.
    #[error(transparent)]
    Unwritable(#[from] Unwritable),
    /// Two edits, given by their indexes, change the same lines.
    #[error("edits {} and {} overlap", .0 + 1, .1 + 1)]
    Overlap(usize, usize),
    /// The rows are not in the file.
    #[error("rows {} to {} are not in the file", .0.start, .0.end)]
    OutOfRange(Range<usize>),
}

/// Bytes that replace others. Spans are those of the text with its final newline, whether the file has one or not.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) span: Range<usize>,
    pub(crate) bytes: Vec<u8>,
    /// Whether it consists of whole lines.
    pub(crate) whole_lines: bool,
}

/// The treatment of the final newline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum FinalNewline {
    #[default]
    Keep,
    Add,
    Drop,
}

/// The bytes after all changes, and the position of each change in them.
pub(crate) struct Composed {
    pub(crate) bytes: Vec<u8>,
    pub(crate) spans: Vec<Range<usize>>,
}

impl Text {
    /// Returns the bytes of the file after all `edits`, which all refer to the rows of this text.
    ///
    /// Every other line stays as it is, byte for byte, and so do the byte order mark and the state of the
    /// final newline. A new line takes the ending of the line it replaces, or of its neighbour.
    ///
    /// # Errors
    /// See [`SpliceError`].
    pub fn splice(&self, edits: &[Splice]) -> Result<Vec<u8>, SpliceError> {
        let changes: Vec<Change> = edits
            .iter()
            .map(|edit| self.line_change(edit.rows.clone(), &edit.lines))
            .collect::<Result<_, _>>()?;
        let composed = compose(self, &changes, FinalNewline::Keep)
            .map_err(|(one, other)| SpliceError::Overlap(one, other))?;
        Ok(composed.bytes)
    }

    /// Returns the change that replaces `rows` by `lines`.
    pub(crate) fn line_change<S: AsRef<str>>(
        &self,
        rows: Range<usize>,
        lines: &[S],
    ) -> Result<Change, SpliceError> {
        if rows.start > rows.end || rows.end > self.line_count() {
            return Err(SpliceError::OutOfRange(rows));
        }
        let mut bytes = Vec::new();
        for (at, line) in lines.iter().enumerate() {
            bytes.extend_from_slice(&self.encoding().encode(line.as_ref())?);
            bytes.extend_from_slice(self.encoding().ending_bytes(self.ending_for(&rows, at)));
        }
        let span = self.gap(rows.start)..self.gap(rows.end);
        Ok(Change { span, bytes, whole_lines: true })
    }

    /// Returns whether a change would have no effect.
    pub(crate) fn holds(&self, change: &Change) -> bool {
        let end = change.span.end.min(self.bytes().len());
        let held = self.bytes().get(change.span.start.min(end)..end).unwrap_or_default();
        let missing = if change.span.end > self.bytes().len() { self.missing_newline() } else { b"" };
        change.bytes.strip_prefix(held) == Some(missing)
    }

    /// Returns the ending for the line at `at` of those that replace `rows`.
    pub(crate) fn ending_for(&self, rows: &Range<usize>, at: usize) -> Ending {
        let replaced = rows.start + at;
        let nearest = if replaced < rows.end {
            replaced
        } else {
            // Past the replaced rows: the last of them, or the line above the gap.
            rows.end.saturating_sub(1)
        };
        [Some(nearest), nearest.checked_sub(1), Some(rows.end)]
            .into_iter()
            .flatten()
            .map(|row| self.ending(row))
            .find(|ending| *ending != Ending::None)
            .unwrap_or(Ending::Lf)
    }

    /// Returns the offset of a row in the text with its final newline; past the last row, its length.
    pub(crate) fn gap(&self, row: usize) -> usize {
        self.span(row).map_or_else(|| self.bytes().len() + self.missing_newline().len(), |span| span.start)
    }

    /// Returns the newline that the last line lacks.
    fn missing_newline(&self) -> &'static [u8] {
        if self.has_final_newline() {
            return b"";
        }
        let last = self.line_count().saturating_sub(1);
        self.encoding().ending_bytes(self.ending_for(&(last..last + 1), 0))
    }
}

/// Applies all changes at once; two that overlap are an error with their indexes.
pub(crate) fn compose(
    text: &Text,
    changes: &[Change],
    final_newline: FinalNewline,
) -> Result<Composed, (usize, usize)> {
    let missing = text.missing_newline();
    let base = Base { bytes: text.bytes(), missing };
    let mut order: Vec<(usize, &Change)> = changes.iter().enumerate().collect();
    // Stable: insertions at one gap keep their order, and go before a replacement of the bytes that follow.
    order.sort_by_key(|(_, change)| (change.span.start, !change.span.is_empty()));

    let mut bytes = memory::block(base.len() + changes.iter().map(|it| it.bytes.len()).sum::<usize>());
    let mut spans = vec![0..0; changes.len()];
    let mut done = 0_usize;
    let mut last = None;
    for (at, change) in order {
        if let Some(last) = last.filter(|_| change.span.start < done) {
            return Err((last, at));
        }
        base.copy(done..change.span.start, &mut bytes);
        let torn = change.whole_lines && change.span.start == done && !at_line_start(text, &bytes);
        if let Some(last) = last.filter(|_| torn) {
            return Err((last, at));
        }
        let start = bytes.len();
        bytes.extend_from_slice(&change.bytes);
        if let Some(span) = spans.get_mut(at) {
            *span = start..bytes.len();
        }
        done = done.max(change.span.end);
        last = Some(at);
    }
    base.copy(done..base.len(), &mut bytes);
    // The virtual newline is still the last one, or has become the ending of another line.
    if done <= text.bytes().len() && !missing.is_empty() && final_newline != FinalNewline::Add {
        bytes.truncate(bytes.len() - missing.len());
    } else {
        finish(text, &mut bytes, missing, final_newline);
    }
    Ok(Composed { bytes, spans })
}

/// The file as if its last line had an ending, without copying it.
struct Base<'a> {
    bytes: &'a [u8],
    missing: &'a [u8],
}

impl Base<'_> {
    fn len(&self) -> usize {
        self.bytes.len() + self.missing.len()
    }

    fn copy(&self, span: Range<usize>, to: &mut Vec<u8>) {
        let within = |part: &[u8], before: usize| {
            let cut = |at: usize| at.saturating_sub(before).min(part.len());
            cut(span.start)..cut(span.end)
        };
        for (part, before) in [(self.bytes, 0), (self.missing, self.bytes.len())] {
            to.extend_from_slice(part.get(within(part, before)).unwrap_or_default());
        }
    }
}

fn finish(text: &Text, bytes: &mut Vec<u8>, missing: &[u8], final_newline: FinalNewline) {
    let drop = match final_newline {
        FinalNewline::Keep => !missing.is_empty(),
        FinalNewline::Drop => true,
        FinalNewline::Add => false,
    };
    if !drop {
        return;
    }
    let crlf = text.encoding().ending_bytes(Ending::CrLf);
    let lf = text.encoding().ending_bytes(Ending::Lf);
    let cut = if bytes.ends_with(crlf) {
        crlf.len()
    } else if bytes.ends_with(lf) {
        lf.len()
    } else {
        0
    };
    let without = bytes.len() - cut;
    // A blank last line consists only of its ending; without it, the line would not exist.
    if bytes.get(..without).is_some_and(|rest| !at_line_start(text, rest)) {
        bytes.truncate(without);
    }
}

fn at_line_start(text: &Text, bytes: &[u8]) -> bool {
    let begun = text.span(0).map_or(text.bytes().len(), |span| span.start);
    bytes.len() <= begun || bytes.ends_with(text.encoding().ending_bytes(Ending::Lf))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn splice(bytes: &str, rows: Range<usize>, lines: &[&str]) -> String {
        let text = Text::parse(bytes).unwrap();
        let lines = lines.iter().map(|it| (*it).to_owned()).collect();
        String::from_utf8(text.splice(&[Splice { rows, lines }]).unwrap()).unwrap()
    }

    #[test]
    fn new_lines_take_the_ending_of_what_they_replace() {
        assert_eq!(splice("a\r\nb\nc\r\n", 0..2, &["x", "y", "z"]), "x\r\ny\nz\nc\r\n");
        assert_eq!(splice("a\r\nb\n", 1..1, &["x"]), "a\r\nx\r\nb\n");
        assert_eq!(splice("a\r\nb\n", 0..0, &["x"]), "x\r\na\r\nb\n");
        assert_eq!(splice("a\nb\r\n", 2..2, &["x"]), "a\nb\r\nx\r\n");
    }

    #[test]
    fn the_final_newline_stays_as_it_was() {
        assert_eq!(splice("a\r\nb", 2..2, &["x"]), "a\r\nb\r\nx");
        assert_eq!(splice("a\nb", 1..2, &[]), "a");
        assert_eq!(splice("a\nb", 0..2, &[]), "");
        assert_eq!(splice("a\n\nb", 2..3, &[]), "a\n\n");
        assert_eq!(splice("a\nb\n", 1..2, &[]), "a\n");
        assert_eq!(splice("a", 0..1, &["x", "y"]), "x\ny");
        assert_eq!(splice("", 0..0, &["x"]), "x\n");
        assert_eq!(splice("\u{feff}", 0..0, &["x"]), "\u{feff}x\n");
        assert_eq!(splice("\u{feff}a\n", 0..1, &["x"]), "\u{feff}x\n");
    }

    #[test]
    fn many_edits_mean_the_same_rows() {
        let text = Text::parse("a\nb\nc\n").unwrap();
        let edit = |rows: Range<usize>, line: &str| Splice { rows, lines: vec![line.to_owned()] };
        let done = text.splice(&[edit(2..3, "C"), edit(1..1, "1"), edit(1..1, "2"), edit(0..1, "A")]);
        assert_eq!(done.unwrap(), b"A\n1\n2\nb\nC\n");
        assert_eq!(text.splice(&[edit(0..2, "x"), edit(1..3, "y")]), Err(SpliceError::Overlap(0, 1)));
        assert_eq!(text.splice(&[edit(1..1, "x"), edit(0..2, "y")]), Err(SpliceError::Overlap(1, 0)));
        assert_eq!(text.splice(&[edit(2..4, "x")]), Err(SpliceError::OutOfRange(2..4)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1500))]
        #[test]
        fn untouched_lines_stay_byte_for_byte(
            lines in proptest::collection::vec(("[a-c é\t]{0,5}", 0..2_u8), 0..12),
            (form, bom, ended) in (0..4_u8, any::<bool>(), any::<bool>()),
            (from, length) in (0..12_usize, 0..4_usize),
            new in proptest::collection::vec("[x-z é]{0,4}", 0..4),
        ) {
            let last = lines.len().saturating_sub(1);
            let whole: String = lines.iter().enumerate().map(|(at, (line, ending))| {
                let ending = if at == last && !ended { "" } else { ["\n", "\r\n"][usize::from(*ending)] };
                format!("{line}{ending}")
            }).collect();
            let bytes = written(&whole, form, bom);
            let Ok(text) = Text::parse(bytes.clone()) else { return Ok(()) };
            let from = from.min(text.line_count());
            let to = (from + length).min(text.line_count());
            let done = text.splice(&[Splice { rows: from..to, lines: new.clone() }]).unwrap();

            let head = text.gap(from).min(bytes.len());
            prop_assert_eq!(&done[..head.min(done.len())], &bytes[..head.min(done.len())]);
            if to < text.line_count() {
                let tail = &bytes[text.gap(to)..];
                prop_assert!(done.ends_with(tail));
                prop_assert!(done.len() >= head + tail.len());
            }
            // What was written reads back.
            if let Ok(read) = Text::parse(done)
                && read.encoding() == text.encoding()
                && read.line_count() == from + new.len() + text.line_count() - to
            {
                for (at, line) in new.iter().enumerate() {
                    prop_assert_eq!(read.line(from + at).unwrap(), line.as_str());
                }
            }
        }
    }

    fn written(text: &str, form: u8, bom: bool) -> Vec<u8> {
        let marked = if bom { format!("\u{feff}{text}") } else { text.to_owned() };
        match form {
            0 => marked.into_bytes(),
            1 => marked.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            2 => marked.encode_utf16().flat_map(u16::to_be_bytes).collect(),
            _ => text.chars().map(|it| u8::try_from(it).unwrap()).collect(),
        }
    }
}

//! Line framing: splits a byte stream into messages, one per line, of bounded length.

/// Longer lines of a client than this are refused without being kept.
pub(crate) const LONGEST_LINE: usize = 64 * 1024 * 1024;

/// Splits a byte stream into lines, and buffers at most one line.
pub(crate) struct Lines {
    limit: usize,
    begun: Vec<u8>,
    skipping: bool,
    /// Whether the line in `begun` has been passed on.
    passed: bool,
}

/// A line without its line feed.
#[derive(Debug, PartialEq)]
pub(crate) enum Line<'a> {
    /// The whole line.
    Whole(&'a [u8]),
    /// The line exceeds the limit. The buffered part is dropped, and the rest is skipped.
    TooLong,
}

/// Capacity that the buffer keeps for the next line, in bytes.
const KEEP: usize = 64 * 1024;

impl Lines {
    /// Creates a splitter for lines of up to `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, begun: Vec::new(), skipping: false, passed: false }
    }

    /// Takes the next bytes of the stream, and passes on each line that ends in them.
    pub(crate) fn take(&mut self, mut bytes: &[u8], mut each: impl FnMut(Line<'_>)) {
        while let Some(line) = self.next(&mut bytes) {
            each(line);
        }
    }

    /// Takes bytes of the stream up to the end of a line, and returns the line. `None`: all were taken.
    pub(crate) fn next<'a, 'b: 'a>(&'a mut self, bytes: &mut &'b [u8]) -> Option<Line<'a>> {
        if std::mem::take(&mut self.passed) {
            self.forget();
        }
        while !bytes.is_empty() {
            let end = bytes.iter().position(|&byte| byte == b'\n');
            let (text, rest) = bytes.split_at_checked(end.unwrap_or(bytes.len())).unwrap_or_default();
            let is_too_long = !self.skipping && self.begun.len() + text.len() > self.limit;
            if is_too_long {
                // Its bytes are skipped by the next call.
                self.forget();
                self.skipping = true;
                return Some(Line::TooLong);
            }
            *bytes = rest.get(1..).unwrap_or_default();
            match (self.skipping, end) {
                (true, end) => self.skipping = end.is_none(),
                (false, None) => self.begun.extend_from_slice(text),
                (false, Some(_)) if self.begun.is_empty() => return Some(Line::Whole(text)),
                (false, Some(_)) => {
                    self.begun.extend_from_slice(text);
                    self.passed = true;
                    return Some(Line::Whole(&self.begun));
                }
            }
        }
        None
    }

    /// Ends the stream: returns the line that has no line feed yet.
    pub(crate) fn rest(&self) -> Option<Line<'_>> {
        (!self.passed && !self.begun.is_empty()).then_some(Line::Whole(&self.begun))
    }

    fn forget(&mut self) {
        self.begun.clear();
        self.begun.shrink_to(KEEP);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::indexing_slicing, reason = "tests")]

    use proptest::prelude::*;

    use super::*;

    fn cut(limit: usize, pieces: &[&[u8]]) -> Vec<Option<Vec<u8>>> {
        let mut lines = Lines::new(limit);
        let mut found = Vec::new();
        let mut keep = |line: Line<'_>| {
            found.push(match line {
                Line::Whole(text) => Some(text.to_vec()),
                Line::TooLong => None,
            });
        };
        for piece in pieces {
            lines.take(piece, &mut keep);
        }
        lines.rest().map(&mut keep);
        found
    }

    #[test]
    fn a_line_over_the_limit_is_reported_once_and_skipped() {
        let expected = vec![Some(b"ab".to_vec()), None, Some(b"cd".to_vec()), None];
        assert_eq!(cut(3, &[b"ab\n12345", b"678", b"9\ncd", b"\nwxyz"]), expected);
    }

    #[test]
    fn a_long_line_is_never_buffered() {
        let mut lines = Lines::new(1000);
        for _ in 0..1000 {
            lines.take(&[b'x'; 1000], |_| ());
        }
        assert!(lines.begun.capacity() <= KEEP.max(2000), "{}", lines.begun.capacity());
    }

    proptest! {
        #[test]
        fn lines_do_not_depend_on_where_the_stream_is_split(
            bytes in proptest::collection::vec(prop_oneof![3 => Just(b'\n'), 10 => any::<u8>()], 0..200),
            mut splits in proptest::collection::vec(0usize..200, 0..20),
            limit in 1usize..40,
        ) {
            splits.push(0);
            splits.push(bytes.len());
            splits.iter_mut().for_each(|at| *at = (*at).min(bytes.len()));
            splits.sort_unstable();
            let pieces: Vec<&[u8]> = splits.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(cut(limit, &pieces), cut(limit, &[&bytes]));
        }
    }
}

//! Line framing: splits a byte stream into messages, one per line, of bounded length.

/// Splits a byte stream into lines, and buffers at most one line.
pub(crate) struct Lines {
    limit: usize,
    begun: Vec<u8>,
    skipping: bool,
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
        Self { limit, begun: Vec::new(), skipping: false }
    }

    /// Takes the next bytes of the stream, and passes on each line that ends in them.
    pub(crate) fn take(&mut self, bytes: &[u8], mut each: impl FnMut(Line<'_>)) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            let (text, ended) = match piece.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (piece, false),
            };
            if !self.skipping && self.begun.len() + text.len() > self.limit {
                self.forget();
                self.skipping = true;
                each(Line::TooLong);
            }
            match (self.skipping, ended) {
                (true, ended) => self.skipping = !ended,
                (false, false) => self.begun.extend_from_slice(text),
                (false, true) if self.begun.is_empty() => each(Line::Whole(text)),
                (false, true) => {
                    self.begun.extend_from_slice(text);
                    each(Line::Whole(&self.begun));
                    self.forget();
                }
            }
        }
    }

    /// Ends the stream: passes on the line that has no line feed yet.
    pub(crate) fn end(&mut self, each: impl FnOnce(Line<'_>)) {
        if !self.begun.is_empty() {
            each(Line::Whole(&self.begun));
            self.forget();
        }
        self.skipping = false;
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
        lines.end(&mut keep);
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

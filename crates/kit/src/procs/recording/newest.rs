//! The newest bytes of a long output, in memory: a ring buffer.

use std::{collections::VecDeque, ops::Range};

/// Number of the newest bytes that are kept.
pub(super) const NEWEST: usize = 256 << 10;
/// Number of the first bytes that are kept.
pub(super) const FIRST: usize = 32 << 10;

/// The newest bytes, and the first. Takes little memory while there are few.
#[derive(Default)]
pub(super) struct Newest {
    ring: VecDeque<u8>,
    /// The beginning, once the ring has dropped it.
    first: Vec<u8>,
    total: u64,
}

impl Newest {
    /// Returns the number of bytes in all.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Returns the offset from which on all bytes are in memory.
    pub(super) fn start(&self) -> u64 {
        self.total - self.ring.len() as u64
    }

    /// Returns whether all bytes from this offset on are in memory.
    pub(super) fn has(&self, from: u64) -> bool {
        from >= self.start()
    }

    /// Returns whether all would still be in memory after this many more.
    pub(super) fn fits(&self, more: usize) -> bool {
        self.start() == 0 && self.ring.len() + more <= NEWEST
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.start() == 0 && self.ring.len() + bytes.len() > NEWEST {
            self.first = self.ring.iter().chain(bytes).take(FIRST).copied().collect();
        }
        self.total += bytes.len() as u64;
        let bytes = bytes.get(bytes.len().saturating_sub(NEWEST)..).unwrap_or_default();
        let too_many = (self.ring.len() + bytes.len()).saturating_sub(NEWEST);
        self.ring.drain(..too_many);
        self.ring.extend(bytes);
    }

    /// Returns these bytes, as far as they are among the newest or the first.
    pub(super) fn get(&self, range: Range<u64>) -> Vec<u8> {
        let start = self.start();
        let range = range.start.min(self.total)..range.end.min(self.total);
        if range.start >= range.end {
            return Vec::new();
        }
        if range.start < start {
            let first = range.start as usize..(range.end as usize).min(self.first.len());
            return self.first.get(first).unwrap_or_default().to_vec();
        }
        self.ring.range((range.start - start) as usize..(range.end - start) as usize).copied().collect()
    }

    /// Returns the beginning of this range, as far as it is in memory without a gap.
    pub(super) fn head(&self, range: Range<u64>) -> Range<u64> {
        let end = range.end.min(self.total);
        let here = if self.has(range.start) { end } else { end.min(self.first.len() as u64) };
        range.start..here.max(range.start)
    }

    /// Returns the end of the last whole line of a range, unless that would lose half of it.
    pub(super) fn line_end(&self, range: &Range<u64>) -> u64 {
        let bytes = self.get(range.clone());
        match memchr::memrchr(b'\n', &bytes) {
            Some(at) if at * 2 >= bytes.len() => range.start + at as u64 + 1,
            _ => range.end,
        }
    }

    /// Returns the start of the first whole line from here on, unless that would lose half of the rest.
    pub(super) fn line_start(&self, from: u64, end: u64) -> u64 {
        let bytes = self.get(from..end);
        match memchr::memchr(b'\n', &bytes) {
            Some(at) if at * 2 <= bytes.len() => from + at as u64 + 1,
            _ => from,
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::indexing_slicing, reason = "tests")]

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn reads_equal_those_of_a_whole_copy(
            writes in prop::collection::vec(0usize..150_000, 0..12),
            asked in prop::collection::vec((0u64..900_000, 0u64..300_000), 1..10),
        ) {
            let mut newest = Newest::default();
            let mut whole: Vec<u8> = Vec::new();
            for length in writes {
                let bytes: Vec<u8> = (0..length).map(|it| ((it + whole.len()) % 251) as u8).collect();
                newest.push(&bytes);
                whole.extend(bytes);
            }
            prop_assert_eq!(newest.total(), whole.len() as u64);
            let start = newest.start() as usize;
            prop_assert!(whole.len() - start == whole.len().min(NEWEST));
            for (from, length) in asked {
                let from = (from as usize).min(whole.len());
                let to = (from + length as usize).min(whole.len());
                let got = newest.get(from as u64..to as u64);
                if from >= start {
                    prop_assert_eq!(&got, &whole[from..to]);
                } else {
                    prop_assert_eq!(&got, &whole[from.min(FIRST)..to.min(FIRST).max(from.min(FIRST))]);
                }
            }
        }
    }
}

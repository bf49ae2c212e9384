//! The part of a persistent bash's output that one call wrote: for watchers while the call runs as a job.

use std::sync::{Arc, OnceLock};

use kit::{
    procs::{Recording, Slice, plain_text},
    services::{Soon, Transcript},
};

/// The output of one call: bash's recording from the call's beginning to its end.
pub(super) struct PartOfCall {
    recording: Arc<Recording>,
    from: u64,
    /// The offset of the call's end: later output belongs to other calls.
    end: OnceLock<u64>,
}

impl PartOfCall {
    pub(super) fn new(recording: Arc<Recording>, from: u64) -> Arc<Self> {
        Arc::new(Self { recording, from, end: OnceLock::new() })
    }

    /// Ends the part: later output belongs to other calls.
    pub(super) fn close(&self) {
        let _ = self.end.set(self.recording.total());
    }

    fn end(&self) -> u64 {
        self.end.get().copied().unwrap_or_else(|| self.recording.total()).max(self.from)
    }

    /// Converts a slice of the recording to offsets of the call. The handle covers all calls, so it is dropped.
    fn own(&self, slice: Slice) -> Slice {
        let own = |at: u64| at.saturating_sub(self.from);
        Slice {
            bytes: own(slice.bytes.start)..own(slice.bytes.end),
            total: self.total(),
            text: slice.text,
            handle: None,
        }
    }
}

impl Transcript for PartOfCall {
    fn total(&self) -> u64 {
        self.end() - self.from
    }

    fn tail(&self, bytes: usize) -> Slice {
        self.read(self.total().saturating_sub(bytes as u64), bytes)
    }

    fn read(&self, from: u64, bytes: usize) -> Slice {
        let (from, end) = (self.from.saturating_add(from), self.end());
        if self.recording.total() == end {
            return self.own(Transcript::read(&*self.recording, from, bytes));
        }
        // Later calls have written more, which a slice of the recording would include.
        let left = usize::try_from(end.saturating_sub(from)).unwrap_or(usize::MAX);
        let (start, raw) = self.recording.raw(from.min(end), bytes.min(left));
        let stop = start.saturating_add(raw.len() as u64).min(end);
        let raw = raw.get(..usize::try_from(stop.saturating_sub(start)).unwrap_or(0)).unwrap_or_default();
        self.own(Slice { text: plain_text(raw), bytes: start.min(stop)..stop, total: end, handle: None })
    }

    fn grown(&self, seen: u64) -> Soon<'_, bool> {
        Box::pin(async move {
            self.end.get().is_none() && self.recording.grown(self.from.saturating_add(seen)).await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_call_shows_its_own_part_and_nothing_that_was_written_before_or_after() {
        let recording = Arc::new(Recording::new(None));
        recording.feed(b"before\n");
        let part = PartOfCall::new(recording.clone(), recording.total());
        assert_eq!((part.total(), part.tail(100).text.as_str()), (0, ""));
        recording.feed(b"one\ntwo\n");
        assert!(part.grown(0).await);
        assert_eq!(part.tail(4).text, "two\n");
        let all = part.read(0, 100);
        assert_eq!((all.text.as_str(), all.bytes, all.total), ("one\ntwo\n", 0..8, 8));
        part.close();
        assert!(!part.grown(8).await);
        recording.feed(b"after\n");
        let all = part.read(0, 100);
        assert_eq!((all.text.as_str(), all.bytes, all.total), ("one\ntwo\n", 0..8, 8));
        assert_eq!(part.tail(4).text, "two\n");
        assert_eq!(part.read(4, 2).text, "tw");
        assert_eq!(part.read(80, 2).text, "");
    }
}

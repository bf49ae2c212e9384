//! Spilling of long output to a file, with secrets redacted.

use std::{
    fs::File,
    io::{Read, Seek, Write},
    sync::Arc,
};

use parking_lot::Mutex;

use super::{SpillFile, SpillSpace};
use crate::redact::Redact;

/// Maximum size of one stored output, in bytes.
pub(super) const MOST: u64 = 4 << 30;
/// Bytes that are held back, so that a secret of at most this length is found where two writes meet.
const HELD: usize = 8 << 10;
/// The placeholder for a secret.
const MASKED: &[u8] = b"[masked]";

/// The file of one output.
pub(super) struct Spill {
    pub(super) handle: String,
    file: Mutex<Writing>,
}

struct Writing {
    file: File,
    mask: Option<Arc<dyn Redact>>,
    /// The newest bytes, in which a secret may have begun.
    held: Vec<u8>,
    written: u64,
    most: u64,
    /// The size limit that it shares with others.
    space: Option<Arc<dyn SpillSpace>>,
    trouble: Option<String>,
}

impl Spill {
    pub(super) fn new(file: SpillFile, mask: Option<Arc<dyn Redact>>) -> Self {
        Self::bounded(file, mask, MOST)
    }

    fn bounded(file: SpillFile, mask: Option<Arc<dyn Redact>>, most: u64) -> Self {
        let SpillFile { handle, file, space } = file;
        let writing = Writing { file, mask, held: Vec::new(), written: 0, most, space, trouble: None };
        Self { handle, file: Mutex::new(writing) }
    }

    /// Writes these bytes; blocks.
    pub(super) fn write(&self, bytes: &[u8]) {
        self.file.lock().take(bytes, false);
    }

    /// Writes the bytes that were held back.
    pub(super) fn finish(&self) {
        self.file.lock().take(&[], true);
    }

    /// Reads everything that was written; `None` if that fails.
    pub(super) fn read(&self) -> Option<Vec<u8>> {
        let mut writing = self.file.lock();
        if writing.trouble.is_some() {
            return None;
        }
        let mut bytes = Vec::new();
        // Appending does not depend on the read position.
        writing.file.rewind().and_then(|()| writing.file.read_to_end(&mut bytes)).ok()?;
        Some(bytes)
    }

    /// Returns why the file is incomplete.
    pub(super) fn trouble(&self) -> Option<String> {
        self.file.lock().trouble.clone()
    }
}

impl Writing {
    fn take(&mut self, bytes: &[u8], last: bool) {
        let Some(mask) = self.mask.clone() else { return self.write(bytes) };
        let mut all = std::mem::take(&mut self.held);
        all.extend_from_slice(bytes);
        let (clean, used) =
            masked(&all, &*mask, if last { all.len() } else { all.len().saturating_sub(HELD) });
        all.drain(..used);
        self.held = all;
        self.write(&clean);
    }

    fn write(&mut self, bytes: &[u8]) {
        if self.trouble.is_some() {
            return;
        }
        let room = usize::try_from(self.most - self.written).unwrap_or(usize::MAX);
        let wanted = bytes.len().min(room);
        let given = self.space.as_ref().map_or(wanted as u64, |it| it.take(wanted as u64));
        let fits = bytes.get(..usize::try_from(given).unwrap_or(wanted).min(wanted)).unwrap_or_default();
        if let Err(error) = self.file.write_all(fits) {
            self.trouble = Some(format!("it could not be written on: {error}"));
            return;
        }
        self.written += fits.len() as u64;
        if fits.len() < bytes.len() {
            self.trouble = Some(format!("only the first {} bytes were kept", self.written));
        }
    }
}

/// Returns the bytes before `until` with each secret replaced, and how many bytes that are: a secret that
/// crosses `until` is taken as a whole.
fn masked(bytes: &[u8], mask: &dyn Redact, until: usize) -> (Vec<u8>, usize) {
    let mut clean = Vec::with_capacity(until);
    let mut copied = 0;
    let mut at = 0;
    // A secret is text, so it does not extend over invalid bytes.
    for chunk in bytes.utf8_chunks() {
        for secret in mask.find(chunk.valid()) {
            let (start, end) = (at + secret.start, at + secret.end);
            if start >= until {
                break;
            }
            clean.extend_from_slice(bytes.get(copied..start).unwrap_or_default());
            clean.extend_from_slice(MASKED);
            copied = end;
        }
        at += chunk.valid().len() + chunk.invalid().len();
        if at >= until {
            break;
        }
    }
    let used = copied.max(until);
    clean.extend_from_slice(bytes.get(copied..used).unwrap_or_default());
    (clean, used)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::ops::Range;

    use proptest::prelude::*;

    use super::*;

    struct Word;

    impl Redact for Word {
        fn find(&self, text: &str) -> Vec<Range<usize>> {
            text.match_indices("hunter22").map(|(at, it)| at..at + it.len()).collect()
        }
    }

    fn spilled(parts: &[Vec<u8>], mask: bool, most: u64) -> (Vec<u8>, Option<String>) {
        let mut file = tempfile::tempfile().unwrap();
        let spill = SpillFile { handle: "out_1".to_owned(), file: file.try_clone().unwrap(), space: None };
        let spill = Spill::bounded(spill, mask.then(|| Arc::new(Word) as Arc<dyn Redact>), most);
        for part in parts {
            spill.write(part);
        }
        spill.finish();
        let mut all = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut all).unwrap();
        (all, spill.trouble())
    }

    #[test]
    fn output_beyond_the_limit_is_dropped_and_reported() {
        let (kept, trouble) = spilled(&[b"12345".to_vec(), b"67890".to_vec(), b"x".to_vec()], false, 7);
        assert_eq!(kept, b"1234567");
        assert_eq!(trouble.unwrap(), "only the first 7 bytes were kept");
    }

    proptest! {
        #[test]
        fn a_secret_is_masked_wherever_the_writes_meet(
            words in prop::collection::vec(prop_oneof![
                Just(b"hunter22".to_vec()), Just(b"hunter2".to_vec()), Just(b"\xff\xe2".to_vec()), Just(b"\n".to_vec()),
                Just("é".as_bytes().to_vec()), (0usize..9000).prop_map(|it| vec![b'.'; it]),
            ], 0..20),
            size in 1usize..10_000,
        ) {
            let bytes = words.concat();
            let parts: Vec<Vec<u8>> = bytes.chunks(size).map(<[u8]>::to_vec).collect();
            let (kept, _) = spilled(&parts, true, MOST);
            let (expected, _) = masked(&bytes, &Word, bytes.len());
            prop_assert!(!kept.windows(8).any(|it| it == b"hunter22"));
            prop_assert_eq!(kept, expected);
            prop_assert_eq!(spilled(&parts, false, MOST).0, bytes);
        }
    }
}

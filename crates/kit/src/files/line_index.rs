//! Line indexes of large files: counts of line breaks for each block, made once for each state of a file.
//!
//! Several threads count, each its part of a step. Calls and the background count of one file take turns, step by
//! step, so that no byte is counted twice. A log that only grew is counted from where it ended.

use std::{
    collections::{HashMap, VecDeque},
    fs::File,
    io,
    num::NonZero,
    os::unix::fs::FileExt,
    sync::{Arc, OnceLock, Weak},
    thread,
};

use memchr::memchr_iter;
use parking_lot::Mutex;

use super::Identity;
use crate::Fault;

/// Bytes between two counts.
pub(super) const BLOCK: usize = 64 * 1024;

/// Files of more bytes can't be edited: their lines are counted no further than a page needs, and the rest in the
/// background.
pub(super) const COUNTED: u64 = 256 << 20;

/// Blocks that a thread reads at once. They fit into the processor's cache.
const READ: usize = 4 * BLOCK;

/// Bytes of the first step, for pages near the beginning, and of the further ones: some 10 ms. Both are multiples
/// of a block.
const FIRST_STEP: u64 = 4 << 20;
const STEP: u64 = 32 << 20;

/// A thread gets at least this much of a step; for less its start does not pay.
const SHARE: u64 = 4 << 20;
const THREADS: usize = 4;

/// Bytes that the background counts of one file.
const BACKGROUND: u64 = 16 << 30;

/// Number of files that wait for the background count.
const WAITING: usize = 4;

/// Number of files whose counts are cached.
const KEPT: usize = 64;

/// Number of blocks that are compared to find out whether a file only grew.
const COMPARED: usize = 16;

/// The line indexes of a session, by device and inode number.
#[derive(Default)]
pub(super) struct LineIndexes {
    files: Mutex<HashMap<(u64, u64), Cached>>,
    background: Arc<Mutex<Background>>,
}

struct Cached {
    identity: Identity,
    index: Arc<LineIndex>,
    used: u64,
}

/// Files whose lines one thread counts, one after the other. It ends when none is left.
#[derive(Default)]
struct Background {
    waiting: VecDeque<(File, Weak<LineIndex>)>,
    runs: bool,
}

/// The counts of one file.
#[derive(Default)]
pub(super) struct LineIndex {
    /// Held for a step by the one who counts.
    turn: Mutex<()>,
    counts: Mutex<Counts>,
}

/// The number of line breaks before each block, as far as was read.
#[derive(Default, Clone)]
struct Counts {
    size: u64,
    /// `before[b]` line breaks lie before block `b`.
    before: Vec<usize>,
    breaks: usize,
    scanned: u64,
    ends_in_break: bool,
    /// Blocks with their digests, by which a file that only grew is recognized.
    samples: Vec<(u64, blake3::Hash)>,
}

/// How far to count.
#[derive(Debug, Clone, Copy)]
pub(super) struct Goal {
    /// Until this many line breaks were found,
    pub(super) breaks: usize,
    /// and this many bytes were read.
    pub(super) bytes: u64,
}

impl Goal {
    pub(super) const END: Self = Self { breaks: usize::MAX, bytes: u64::MAX };

    /// Returns the goal of reaching a line, and of counting some lines for an answer's "at least".
    pub(super) fn line(line: usize) -> Self {
        Self { breaks: line, bytes: FIRST_STEP }
    }
}

impl LineIndexes {
    /// Returns the index of a file in this state. It is empty if the file changed, unless it is too large to be
    /// edited and only grew: where lines can be edited, their numbers come from counting all bytes again.
    pub(super) fn of(&self, file: &File, identity: &Identity) -> Arc<LineIndex> {
        let key = (identity.device, identity.inode);
        let mut files = self.files.lock();
        let used = files.values().map(|it| it.used).max().unwrap_or(0) + 1;
        if let Some(cached) = files.get_mut(&key) {
            cached.used = used;
            let is_same = cached.identity == *identity;
            if is_same || identity.size > COUNTED && cached.index.grew(file, identity.size) {
                cached.identity = *identity;
                return cached.index.clone();
            }
        } else if files.len() >= KEPT
            && let Some(oldest) = files.iter().min_by_key(|(_, it)| it.used).map(|(key, _)| *key)
        {
            files.remove(&oldest);
        }
        let index = Arc::new(LineIndex::default());
        index.counts.lock().size = identity.size;
        files.insert(key, Cached { identity: *identity, index: index.clone(), used });
        index
    }

    /// Counts the rest of a file in the background, until the session ends or the file changes.
    pub(super) fn count_later(&self, file: &File, index: &Arc<LineIndex>) {
        let mut background = self.background.lock();
        let weak = Arc::downgrade(index);
        if index.is_complete()
            || background.waiting.len() >= WAITING
            || background.waiting.iter().any(|(_, it)| it.ptr_eq(&weak))
        {
            return;
        }
        let Ok(file) = file.try_clone() else { return };
        background.waiting.push_back((file, weak));
        if background.runs {
            return;
        }
        let shared = self.background.clone();
        let thread = thread::Builder::new().name("haft-lines".to_owned()).spawn(move || count_all(&shared));
        // Without a thread the answers go on saying "at least".
        background.runs = thread.is_ok();
    }
}

fn count_all(background: &Mutex<Background>) {
    loop {
        let next = {
            let mut background = background.lock();
            // It stays in the list while it is counted: nobody adds it again.
            let next = background.waiting.front().map(|(file, index)| (file.try_clone(), index.clone()));
            background.runs = next.is_some();
            next
        };
        let Some((file, index)) = next else { return };
        let mut bytes = 0;
        while let (Ok(file), Some(index)) = (&file, index.upgrade())
            && bytes < BACKGROUND
            && let Ok(read) = index.step(file, STEP)
            && read > 0
        {
            bytes += read;
        }
        background.lock().waiting.pop_front();
    }
}

impl LineIndex {
    /// Returns the number of lines so far.
    pub(super) fn lines(&self) -> usize {
        let counts = self.counts.lock();
        counts.breaks + usize::from(counts.scanned > 0 && !counts.ends_in_break)
    }

    /// Returns whether the whole file was counted.
    pub(super) fn is_complete(&self) -> bool {
        let counts = self.counts.lock();
        counts.scanned >= counts.size
    }

    /// Returns the block in which the `number`-th line break lies, counted from 1, and how many breaks lie in that
    /// block before it.
    pub(super) fn block_of_break(&self, number: usize) -> Option<(usize, usize)> {
        let counts = self.counts.lock();
        if number == 0 || number > counts.breaks {
            return None;
        }
        let block = counts.before.partition_point(|before| *before < number).checked_sub(1)?;
        Some((block, number - counts.before.get(block)? - 1))
    }

    /// Returns the first offset from `at` on that may hold a break.
    pub(super) fn skip_unbroken(&self, at: u64) -> u64 {
        let counts = self.counts.lock();
        let is_unbroken = |block: usize| {
            let (here, next) = (counts.before.get(block), counts.before.get(block + 1));
            here.is_some() && here == next
        };
        let Ok(mut block) = usize::try_from(at / BLOCK as u64) else { return at };
        if !is_unbroken(block) {
            return at;
        }
        while is_unbroken(block) {
            block += 1;
        }
        (block * BLOCK) as u64
    }

    /// Counts until a goal or the end is reached.
    ///
    /// # Errors
    /// Those of the system and of `check`.
    pub(super) fn count(
        &self,
        file: &File,
        goal: Goal,
        check: &dyn Fn() -> Result<(), Fault>,
    ) -> Result<io::Result<()>, Fault> {
        loop {
            let scanned = {
                let counts = self.counts.lock();
                if counts.scanned >= counts.size
                    || counts.breaks >= goal.breaks && counts.scanned >= goal.bytes
                {
                    return Ok(Ok(()));
                }
                counts.scanned
            };
            check()?;
            match self.step(file, if scanned == 0 { FIRST_STEP } else { STEP }) {
                Ok(0) => return Ok(Ok(())),
                Ok(_) => {}
                Err(error) => return Ok(Err(error)),
            }
        }
    }

    /// Counts the next bytes; returns their number, 0 at the end.
    fn step(&self, file: &File, most: u64) -> io::Result<u64> {
        let _turn = self.turn.lock();
        let (from, to) = {
            let counts = self.counts.lock();
            (counts.scanned, counts.size.min(counts.scanned + most))
        };
        let counted = count_range(file, from, to)?;
        let Some(last) = counted.blocks.len().checked_sub(1).filter(|_| counted.read > 0) else {
            return Ok(0);
        };
        let last = (last * BLOCK) as u64;
        let mut samples = vec![sample(file, from + last, counted.read - last)?];
        if from == 0 && last > 0 {
            samples.insert(0, sample(file, 0, BLOCK as u64)?);
        }
        let mut counts = self.counts.lock();
        for breaks in counted.blocks {
            let before = counts.breaks;
            counts.before.push(before);
            counts.breaks += breaks as usize;
        }
        counts.scanned += counted.read;
        counts.ends_in_break = counted.ends_in_break;
        counts.samples.append(&mut samples);
        Ok(counted.read)
    }

    /// Returns whether the file holds what was counted, and more. It is compared at some places only.
    fn grew(&self, file: &File, size: u64) -> bool {
        let _turn = self.turn.lock();
        let mut counts = self.counts.lock();
        if size < counts.size {
            return false;
        }
        let (samples, newest) = (&counts.samples, counts.samples.last());
        let apart = samples.len().div_ceil(COMPARED).max(1);
        let is_as_before = |(at, digest): &(u64, blake3::Hash)| {
            let length = counts.scanned.saturating_sub(*at).min(BLOCK as u64);
            sample(file, *at, length).is_ok_and(|(_, now)| now == *digest)
        };
        if !samples.iter().step_by(apart).chain(newest).all(is_as_before) {
            return false;
        }
        counts.size = size;
        let within = counts.scanned % BLOCK as u64;
        if within > 0
            && let Some(before) = counts.before.pop()
        {
            // The last block was not full: it is counted again, with what was appended.
            counts.scanned -= within;
            counts.breaks = before;
            counts.ends_in_break = true;
            let scanned = counts.scanned;
            counts.samples.retain(|(at, _)| *at < scanned);
        }
        true
    }
}

/// The digest of a block.
fn sample(file: &File, at: u64, length: u64) -> io::Result<(u64, blake3::Hash)> {
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(BLOCK)];
    let read = fill(file, &mut bytes, at)?;
    Ok((at, blake3::hash(bytes.get(..read).unwrap_or_default())))
}

/// The line breaks of a range.
#[derive(Default)]
struct Counted {
    /// Of each block.
    blocks: Vec<u32>,
    read: u64,
    ends_in_break: bool,
}

/// Counts the line breaks of a range that begins at a block, with several threads if it is long.
fn count_range(file: &File, from: u64, to: u64) -> io::Result<Counted> {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    let processors = *PROCESSORS.get_or_init(|| thread::available_parallelism().map_or(1, NonZero::get));
    let shares = (to - from).div_ceil(SHARE).clamp(1, processors.min(THREADS) as u64);
    let share = (to - from).div_ceil(shares).next_multiple_of(BLOCK as u64);
    let start = |number: u64| (from + number * share).min(to);
    if shares == 1 {
        return count_share(file, from, to);
    }
    thread::scope(|scope| {
        let others: Vec<_> = (1..shares)
            .map(|number| {
                let count = move || count_share(file, start(number), start(number + 1));
                (number, thread::Builder::new().spawn_scoped(scope, count))
            })
            .collect();
        let mut all = count_share(file, from, start(1))?;
        for (number, thread) in others {
            let counted = match thread.map(thread::ScopedJoinHandle::join) {
                Ok(Ok(counted)) => counted?,
                // No thread could be started: this one does it all.
                Ok(Err(_)) | Err(_) => count_share(file, start(number), start(number + 1))?,
            };
            let is_next = from + all.read == start(number);
            if is_next && counted.read > 0 {
                all.blocks.extend(counted.blocks);
                all.read += counted.read;
                all.ends_in_break = counted.ends_in_break;
            }
        }
        Ok(all)
    })
}

fn count_share(file: &File, from: u64, to: u64) -> io::Result<Counted> {
    let mut counted = Counted::default();
    let mut buffer = vec![0; usize::try_from(to - from).unwrap_or(READ).min(READ)];
    while from + counted.read < to {
        let at = from + counted.read;
        let most = usize::try_from(to - at).unwrap_or(READ).min(READ);
        let read = fill(file, buffer.get_mut(..most).unwrap_or_default(), at)?;
        let bytes = buffer.get(..read).unwrap_or_default();
        for block in bytes.chunks(BLOCK) {
            counted.blocks.push(u32::try_from(memchr_iter(b'\n', block).count()).unwrap_or(u32::MAX));
        }
        counted.read += read as u64;
        if let Some(last) = bytes.last() {
            counted.ends_in_break = *last == b'\n';
        }
        if read < most {
            // The file has become shorter.
            break;
        }
    }
    Ok(counted)
}

/// Reads until the buffer is full or the file ends.
pub(super) fn fill(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|it| !it.is_empty()) {
        match file.read_at(rest, offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

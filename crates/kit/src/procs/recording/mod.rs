//! Recordings: a process's output, in memory and on the disk.

mod newest;
mod plain;
mod reader;
mod spill;
#[cfg(test)]
mod tests;

use std::{
    fs::File,
    io,
    ops::Range,
    os::fd::OwnedFd,
    sync::{Arc, OnceLock, Weak},
};

use parking_lot::Mutex;
use tokio::{io::unix::AsyncFd, sync::Notify};
use tokio_util::sync::{CancellationToken, DropGuard};

use self::{newest::Newest, spill::Spill};
use crate::{Fault, redact::Mask};

/// What a pipe holds at most, unless a privileged process makes it larger.
const PIPE: usize = 1 << 20;
/// What waits to be written to the file is written from this size on.
const WRITE: usize = 256 << 10;
/// So much before a slice is looked at to see what it begins in.
const LOOK_BACK: usize = 4096;

/// What a process wrote: the newest bytes in memory, all of it in a file once it is long.
/// One writes, any number read and wait.
pub struct Recording {
    state: Mutex<State>,
    /// There are more bytes, or no more will come.
    news: Notify,
    spilling: Option<Arc<dyn Spilling>>,
    /// Where the bytes come from, as long as some may come.
    source: OnceLock<Weak<AsyncFd<OwnedFd>>>,
    /// One reads at a time, so that the bytes keep their order.
    reading: Mutex<()>,
    /// Gets every byte too.
    copy: OnceLock<Arc<Self>>,
    _wanted: DropGuard,
}

/// Opens the file that the whole of a long output goes to.
pub trait Spilling: Send + Sync {
    /// A new file of the session, and the handle that it is read by, such as `out_12`.
    ///
    /// # Errors
    /// When it can't be made.
    fn open(&self) -> Result<SpillFile, Fault>;

    /// What must not get into that file.
    fn mask(&self) -> Option<Arc<dyn Mask>> {
        None
    }
}

/// What a person reads of bytes that were meant for a terminal: without colours and the like, invalid bytes as U+FFFD, a
/// line that was written over as it was last.
pub fn plain_text(bytes: &[u8]) -> String {
    plain::plain(bytes, true).0
}

/// A file that an output goes to.
pub struct SpillFile {
    /// Its handle.
    pub handle: String,
    /// Open for appending, and for reading.
    pub file: File,
    /// What bounds it together with others; nothing, where it stands alone.
    pub room: Option<Arc<dyn SpillSpace>>,
}

/// A bound on several files together, also while they grow.
pub trait SpillSpace: Send + Sync {
    /// Takes room for so many bytes more; gives how many of them may be written. May block to make room.
    fn take(&self, bytes: u64) -> u64;
}

/// A piece of a recording, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// Whole characters, with terminal colours and the like left out.
    pub text: String,
    /// Which bytes of the recording these are. The next piece begins where this one ends, which may be a little before
    /// `total`: half a character waits for its other half.
    pub bytes: Range<u64>,
    /// How many bytes there are in all, until now: what to give [`Recording::grown`].
    pub total: u64,
    /// The handle of the whole, where it went to a file.
    pub handle: Option<String>,
}

#[derive(Default)]
struct State {
    newest: Newest,
    over: bool,
    file: Spilled,
    /// What the file does not have yet.
    pending: Vec<u8>,
}

/// Where the whole is kept.
#[derive(Default)]
enum Spilled {
    /// In memory, as long as it fits.
    #[default]
    Memory,
    /// In a file.
    File(Arc<Spill>),
    /// Nowhere, for this reason.
    Nowhere(String),
}

impl Recording {
    /// A recording of what [`feed`](Self::feed) brings, until [`close`](Self::close).
    pub fn new(spilling: Option<Arc<dyn Spilling>>) -> Self {
        Self::wanted(spilling, CancellationToken::new())
    }

    /// A recording of what comes out of a pipe or a terminal, until everybody who could write has gone.
    pub(super) fn reading(end: OwnedFd, spilling: Option<Arc<dyn Spilling>>) -> io::Result<Arc<Self>> {
        let dropped = CancellationToken::new();
        let recording = Arc::new(Self::wanted(spilling, dropped.clone()));
        reader::read(end, &recording, dropped)?;
        Ok(recording)
    }

    fn wanted(spilling: Option<Arc<dyn Spilling>>, dropped: CancellationToken) -> Self {
        Self {
            state: Mutex::default(),
            news: Notify::new(),
            spilling,
            source: OnceLock::new(),
            reading: Mutex::default(),
            copy: OnceLock::new(),
            _wanted: dropped.drop_guard(),
        }
    }

    /// Takes what was written. Blocks while the file is written to.
    pub fn feed(&self, bytes: &[u8]) {
        self.take(bytes);
        if let Some((file, bytes)) = self.due(true) {
            file.write(&bytes);
        }
    }

    /// What is written from now on goes to this recording too, which keeps it in memory: two recordings with one copy
    /// are there in the order in which they were read. The first one that is named counts.
    pub fn copy_to(&self, copy: &Arc<Self>) {
        let _ = self.copy.set(copy.clone());
    }

    /// Nothing more will come.
    pub fn close(&self) {
        let file = self.due(true);
        let spill = match &self.state.lock().file {
            Spilled::File(spill) => Some(spill.clone()),
            _ => None,
        };
        if let Some((file, bytes)) = file {
            file.write(&bytes);
        }
        if let Some(spill) = spill {
            spill.finish();
        }
        self.state.lock().over = true;
        self.news.notify_waiters();
    }

    /// How many bytes were written until now.
    pub fn total(&self) -> u64 {
        self.state.lock().newest.total()
    }

    /// The newest `bytes` bytes.
    pub fn tail(&self, bytes: usize) -> Slice {
        let mut state = self.state.lock();
        let from = state.newest.total().saturating_sub(bytes as u64).max(state.newest.start());
        self.slice(&mut state, from, bytes)
    }

    /// What was written from byte `from` on, at most `bytes` of it: the head and the tail, with a line between them that
    /// says how much is left out and by which handle all of it is read.
    pub fn since(&self, from: u64, bytes: usize) -> Slice {
        self.slice(&mut self.state.lock(), from, bytes)
    }

    /// The bytes themselves from `from` on, at most so many, and where they begin: later, where those are not in memory
    /// any more.
    pub fn raw(&self, from: u64, at_most: usize) -> (u64, Vec<u8>) {
        let state = self.state.lock();
        let from = from.max(state.newest.start());
        (from, state.newest.get(from..from.saturating_add(at_most as u64)))
    }

    /// All that was written, where it is no more than this, as the file has it: with its secrets masked if it went there.
    /// Blocks while it is read from the file.
    pub fn whole(&self, at_most: u64) -> Option<Vec<u8>> {
        let mut state = self.state.lock();
        let total = state.newest.total();
        if total > at_most {
            return None;
        }
        if state.newest.has(0) {
            return Some(state.newest.get(0..total));
        }
        state.write();
        match &state.file {
            Spilled::File(file) => file.read(),
            Spilled::Memory | Spilled::Nowhere(_) => None,
        }
    }

    /// Takes in what was written until now, without waiting: afterwards it has every byte that a process wrote before it
    /// told us, in some other way, that it had written them.
    pub fn catch_up(&self) {
        let Some(end) = self.source.get().and_then(Weak::upgrade) else { return };
        // More than a pipe holds was not there when this began.
        let mut left = PIPE;
        while let Ok(read @ 1..) = reader::read_once(end.get_ref(), self) {
            left = left.saturating_sub(read);
            if left == 0 {
                return;
            }
        }
    }

    /// Waits until there are more than `seen` bytes, or nothing more will come. False: nothing more will.
    pub async fn grown(&self, seen: u64) -> bool {
        loop {
            let news = self.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            {
                let state = self.state.lock();
                if state.newest.total() > seen {
                    return true;
                }
                if state.over {
                    return false;
                }
            }
            news.await;
        }
    }

    /// Waits until everybody who could write to it has gone, and the file is whole.
    pub async fn over(&self) {
        while self.grown(self.total()).await {}
    }

    /// Has everybody who could write to it gone?
    pub fn is_over(&self) -> bool {
        self.state.lock().over
    }

    /// Takes bytes into memory. Those that the file is to have wait there for [`due`](Self::due).
    fn take(&self, bytes: &[u8]) {
        let mut state = self.state.lock();
        if !state.newest.fits(bytes.len()) {
            self.open(&mut state);
        }
        if matches!(state.file, Spilled::File(_)) {
            state.pending.extend_from_slice(bytes);
        }
        state.newest.push(bytes);
        drop(state);
        self.news.notify_waiters();
        if let Some(copy) = self.copy.get() {
            copy.take(bytes);
        }
    }

    /// Has all go to a file from now on, while all of it is still in memory.
    fn open(&self, state: &mut State) {
        let (Spilled::Memory, Some(spilling)) = (&state.file, &self.spilling) else { return };
        state.file = match spilling.open() {
            Ok(file) => Spilled::File(Arc::new(Spill::new(file, spilling.mask()))),
            Err(fault) => Spilled::Nowhere(fault.what),
        };
        if matches!(state.file, Spilled::File(_)) {
            state.pending = state.newest.get(0..state.newest.total());
        }
    }

    /// What is to be written to the file, once that is worth it or it has to be.
    fn due(&self, now: bool) -> Option<(Arc<Spill>, Vec<u8>)> {
        let mut state = self.state.lock();
        if state.pending.is_empty() || (!now && state.pending.len() < WRITE) {
            return None;
        }
        let Spilled::File(file) = &state.file else { return None };
        let file = file.clone();
        Some((file, std::mem::take(&mut state.pending)))
    }

    fn handle_is_open(&self) -> bool {
        matches!(self.state.lock().file, Spilled::File(_))
    }

    fn slice(&self, state: &mut State, from: u64, bytes: usize) -> Slice {
        let total = state.newest.total();
        let from = from.min(total);
        let fits = total - from <= bytes as u64;
        if fits && state.newest.has(from) {
            let (text, end) = state.text(from..total);
            return Slice { text, bytes: from..end, total, handle: state.handle() };
        }
        // What is left out here can be read there, from now on.
        if let Spilled::Memory = state.file {
            self.open(state);
            state.write();
        }
        let head = state.newest.head(from..from.saturating_add(bytes as u64 / 4));
        let head = head.start..state.newest.line_end(&head);
        let tail = total.saturating_sub((bytes as u64).saturating_sub(head.end - head.start)).max(head.end);
        let tail = state.newest.line_start(tail.max(state.newest.start()), total);
        let (mut text, _) = state.text(head.clone());
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let (rest, end) = state.text(tail..total);
        text.push_str(&state.left_out(head.end, tail));
        text.push_str(&rest);
        Slice { text, bytes: from..end, total, handle: state.handle() }
    }
}

impl State {
    /// Brings the file up to date at once: as much as there is in memory, which is little.
    fn write(&mut self) {
        let Spilled::File(file) = &self.file else { return };
        file.write(&std::mem::take(&mut self.pending));
        if self.over {
            file.finish();
        }
    }

    /// The text of bytes that are in memory, and where it ends.
    fn text(&self, range: Range<u64>) -> (String, u64) {
        let before = self.newest.get(range.start.saturating_sub(LOOK_BACK as u64)..range.start);
        let bytes = self.newest.get(range.clone());
        let skipped = plain::begun(&before, &bytes);
        let last = self.over || range.end < self.newest.total();
        let (text, used) = plain::plain(bytes.get(skipped..).unwrap_or_default(), last);
        (text, range.start + (skipped + used) as u64)
    }

    fn handle(&self) -> Option<String> {
        match &self.file {
            Spilled::File(file) => Some(file.handle.clone()),
            Spilled::Memory | Spilled::Nowhere(_) => None,
        }
    }

    /// The line that stands for the bytes between.
    fn left_out(&self, start: u64, end: u64) -> String {
        let count = grouped(end.saturating_sub(start));
        match &self.file {
            Spilled::Memory => format!("[{count} bytes left out]\n"),
            Spilled::Nowhere(trouble) => {
                format!("[{count} bytes left out; they could not be kept: {trouble}]\n")
            }
            Spilled::File(file) => match file.trouble() {
                None => format!("[{count} bytes left out; all of it: {}; read or grep it]\n", file.handle),
                Some(trouble) => format!("[{count} bytes left out; see {}, but {trouble}]\n", file.handle),
            },
        }
    }
}

/// A number as people read it: `1,234,567`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

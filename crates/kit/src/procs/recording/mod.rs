//! Recordings: the output of a process, the newest bytes in memory and the whole on disk.

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
use tokio_util::sync::DropGuard;

use self::{newest::Newest, spill::Spill};
use super::Lendable;
use crate::{Fault, redact::Redact};

/// The most that a pipe holds, unless a privileged process enlarges it.
const PIPE: usize = 1 << 20;
/// Bytes that are collected before they are written to the file.
const WRITE: usize = 256 << 10;
/// Bytes before a slice that are examined to find an unfinished character or control sequence.
const LOOK_BACK: usize = 4096;

/// The output of a process: the newest bytes in memory, the whole in a file once it is long. It has one
/// writer and any number of readers and waiters.
pub struct Recording {
    state: Mutex<State>,
    /// Notified when there are more bytes, or when the end is known.
    changed: Notify,
    spilling: Option<Arc<dyn Spilling>>,
    /// The pipe, as long as haft reads it.
    source: Mutex<Option<Source>>,
    /// Held while reading, so that the bytes keep their order.
    reading: Mutex<()>,
    /// A recording that gets every byte too.
    copy: OnceLock<Arc<Self>>,
}

/// A pipe that is read. Dropping it ends the task that reads.
struct Source {
    end: Weak<AsyncFd<OwnedFd>>,
    _wanted: DropGuard,
}

/// Opens the files for long outputs.
pub trait Spilling: Send + Sync {
    /// Creates a file of the session, with the handle that it is read by, such as `out_12`.
    ///
    /// # Errors
    /// When it can't be created.
    fn open(&self) -> Result<SpillFile, Fault>;

    /// Returns the redaction to apply to the file.
    fn mask(&self) -> Option<Arc<dyn Redact>> {
        None
    }
}

/// Converts terminal output to plain text: without colours and other control sequences, invalid bytes as
/// U+FFFD, a line that was overwritten as it was last.
pub fn plain_text(bytes: &[u8]) -> String {
    plain::plain(bytes, true).0
}

/// The file of a long output.
pub struct SpillFile {
    /// Its handle.
    pub handle: String,
    /// Open for appending, and for reading.
    pub file: File,
    /// The size limit that it shares with others; `None` if it has none.
    pub space: Option<Arc<dyn SpillSpace>>,
}

/// A size limit on several files together, also while they grow.
pub trait SpillSpace: Send + Sync {
    /// Reserves space for more bytes; returns how many of them may be written. May block to free space.
    fn take(&self, bytes: u64) -> u64;
}

/// A piece of a recording, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// Whole characters, without terminal control sequences.
    pub text: String,
    /// Its range of bytes in the recording. The next piece begins where this one ends, which may be a little
    /// before `total`: an incomplete character waits for its other bytes.
    pub bytes: Range<u64>,
    /// The number of bytes written until now: the argument for [`Recording::grown`].
    pub total: u64,
    /// The handle of the whole, if it went to a file.
    pub handle: Option<String>,
}

#[derive(Default)]
struct State {
    newest: Newest,
    over: bool,
    file: Spilled,
    /// Bytes that are not in the file yet.
    pending: Vec<u8>,
}

/// The storage of the whole output.
#[derive(Default)]
enum Spilled {
    /// In memory, as long as it fits.
    #[default]
    Memory,
    /// In a file.
    File(Arc<Spill>),
    /// Not stored, for this reason.
    Nowhere(String),
}

impl Recording {
    /// Creates a recording of the bytes that [`feed`](Self::feed) adds, until [`close`](Self::close).
    pub fn new(spilling: Option<Arc<dyn Spilling>>) -> Self {
        Self {
            state: Mutex::default(),
            changed: Notify::new(),
            spilling,
            source: Mutex::default(),
            reading: Mutex::default(),
            copy: OnceLock::new(),
        }
    }

    /// Records the output of a pipe or a terminal, until no process can write to it any more.
    pub(super) fn reading(end: OwnedFd, spilling: Option<Arc<dyn Spilling>>) -> io::Result<Arc<Self>> {
        let recording = Arc::new(Self::new(spilling));
        reader::read(end, &recording)?;
        Ok(recording)
    }

    /// Adds bytes. Blocks while the file is written.
    pub fn feed(&self, bytes: &[u8]) {
        self.take(bytes);
        if let Some((file, bytes)) = self.due(true) {
            file.write(&bytes);
        }
    }

    /// Adds all further bytes to `copy` too, which keeps them in memory: a copy shared by two recordings has
    /// their bytes in the order in which they were read. Only the first call has an effect.
    pub fn copy_to(&self, copy: &Arc<Self>) {
        let _ = self.copy.set(copy.clone());
    }

    /// Ends the recording.
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
        self.changed.notify_waiters();
    }

    /// Returns the number of bytes written until now.
    pub fn total(&self) -> u64 {
        self.state.lock().newest.total()
    }

    /// Returns the newest `bytes` bytes.
    pub fn tail(&self, bytes: usize) -> Slice {
        let mut state = self.state.lock();
        let from = state.newest.total().saturating_sub(bytes as u64).max(state.newest.start());
        self.slice(&mut state, from, bytes)
    }

    /// Returns what was written from byte `from` on, at most `bytes` of it: the head and the tail, with a
    /// line between them that says how much is left out and by which handle all of it is read.
    pub fn since(&self, from: u64, bytes: usize) -> Slice {
        self.slice(&mut self.state.lock(), from, bytes)
    }

    /// Returns the bytes from `from` on, at most `at_most`, and the offset where they begin: later than
    /// `from`, if those are not in memory any more.
    pub fn raw(&self, from: u64, at_most: usize) -> (u64, Vec<u8>) {
        let state = self.state.lock();
        let from = from.max(state.newest.start());
        (from, state.newest.get(from..from.saturating_add(at_most as u64)))
    }

    /// Returns the whole output if it is no longer than this, as the file has it: with secrets masked if it
    /// went there. Blocks while it is read from the file.
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

    /// Reads what was written until now, without waiting: afterwards the recording has every byte that a
    /// process wrote before it reported, in some other way, that it had written them.
    pub fn catch_up(&self) {
        let Some(end) = self.end() else { return };
        // More than a pipe holds was not there when this began.
        let mut left = PIPE;
        while let Ok(read @ 1..) = reader::read_once(end.get_ref(), self) {
            left = left.saturating_sub(read);
            if left == 0 {
                return;
            }
        }
    }

    /// Returns the pipe, if haft reads it.
    fn end(&self) -> Option<Arc<AsyncFd<OwnedFd>>> {
        self.source.lock().as_ref()?.end.upgrade()
    }

    /// Waits until there are more than `seen` bytes, or the end. Returns false at the end.
    pub async fn grown(&self, seen: u64) -> bool {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            {
                let state = self.state.lock();
                if state.newest.total() > seen {
                    return true;
                }
                if state.over {
                    return false;
                }
            }
            changed.await;
        }
    }

    /// Waits until no process can write to it any more, and the file is complete.
    pub async fn over(&self) {
        while self.grown(self.total()).await {}
    }

    /// Returns whether no process can write to it any more.
    pub fn is_over(&self) -> bool {
        self.state.lock().over
    }

    /// Adds bytes in memory. Those that belong into the file wait there for [`due`](Self::due).
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
        self.changed.notify_waiters();
        if let Some(copy) = self.copy.get() {
            copy.take(bytes);
        }
    }

    /// Opens the file while the whole output is still in memory.
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

    /// Returns the bytes to write to the file, if there are enough of them or it is `now`.
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
        // The bytes left out here can be read there, from now on.
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

impl Lendable for Arc<Recording> {
    fn file(&self) -> Option<OwnedFd> {
        self.end()?.get_ref().try_clone().ok()
    }

    fn release(&self) {
        *self.source.lock() = None;
    }

    fn resume(&self, file: OwnedFd) {
        if reader::read(file, self).is_err() {
            self.lost();
        }
    }

    fn lost(&self) {
        self.close();
    }
}

impl State {
    /// Writes what is in memory to the file at once, which is little.
    fn write(&mut self) {
        let Spilled::File(file) = &self.file else { return };
        file.write(&std::mem::take(&mut self.pending));
        if self.over {
            file.finish();
        }
    }

    /// Returns the text of bytes that are in memory, and the offset where it ends.
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

    /// Returns the line that stands for the omitted bytes.
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

/// Formats a number for people: `1,234,567`.
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

//! Input for processes that may not read it: writes never block.

use std::{collections::VecDeque, io, os::fd::OwnedFd, sync::Arc};

use parking_lot::Mutex;
use tokio::io::unix::AsyncFd;

use super::async_pipe::awaited;
use crate::{Fault, Kind};

/// Bytes that are buffered for a process that does not read yet.
const WAITING: usize = 1 << 20;
/// The byte that ends the input of a terminal at the beginning of a line.
const END_OF_INPUT: u8 = 4;

/// The input of a process. A task writes in order what does not fit into the pipe.
pub(super) struct Input {
    shared: Arc<Shared>,
    is_terminal: bool,
}

struct Shared {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// `None` once it is closed.
    end: Option<Arc<AsyncFd<OwnedFd>>>,
    waiting: VecDeque<u8>,
    /// Whether the task is running.
    writing: bool,
    /// Whether to close it once everything is written.
    closing: bool,
}

impl Input {
    pub(super) fn new(end: OwnedFd, is_terminal: bool) -> io::Result<Self> {
        let end = Some(Arc::new(awaited(end)?));
        Ok(Self {
            shared: Arc::new(Shared { state: Mutex::new(State { end, ..State::default() }) }),
            is_terminal,
        })
    }

    /// Writes what fits into the pipe, and buffers the rest.
    pub(super) fn write(&self, bytes: &[u8]) -> Result<(), Fault> {
        let mut state = self.shared.state.lock();
        let Some(end) = state.end.clone().filter(|_| !state.closing) else {
            return Err(closed());
        };
        let mut rest = bytes;
        while !state.writing && !rest.is_empty() {
            match rustix::io::write(&*end, rest) {
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => break,
                Err(_) => {
                    state.end = None;
                    return Err(closed());
                }
            }
        }
        if rest.is_empty() {
            return Ok(());
        }
        if state.waiting.len() + rest.len() > WAITING {
            let unread = state.waiting.len();
            let taken = bytes.len() - rest.len();
            return Err(Fault::new(
                Kind::TooBig,
                format!("the process does not read its input: {unread} bytes wait, and of these {} it got {taken}", bytes.len()),
            )
            .next("See what it waits for, or give it a file to read."));
        }
        state.waiting.extend(rest);
        if !state.writing {
            state.writing = true;
            tokio::spawn(write(self.shared.clone(), end));
        }
        Ok(())
    }

    /// Closes the input once everything is written.
    pub(super) fn close(&self) {
        if self.is_terminal {
            // A terminal stays open for further input; a reading program gets an end of file.
            let _ = self.write(&[END_OF_INPUT]);
            return;
        }
        let mut state = self.shared.state.lock();
        state.closing = true;
        if !state.writing {
            state.end = None;
        }
    }

    /// Returns the terminal, while it is open.
    pub(super) fn terminal(&self) -> Option<Arc<AsyncFd<OwnedFd>>> {
        self.shared.state.lock().end.clone().filter(|_| self.is_terminal)
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.closing = true;
        state.waiting.clear();
        state.end = None;
    }
}

/// Writes the buffered bytes as fast as they are read.
async fn write(shared: Arc<Shared>, end: Arc<AsyncFd<OwnedFd>>) {
    loop {
        let ready = end.writable().await;
        let mut state = shared.state.lock();
        let Ok(mut ready) = ready else {
            *state = State::default();
            return;
        };
        let written = ready.try_io(|end| Ok(rustix::io::write(end, state.waiting.as_slices().0)?));
        match written {
            Ok(Ok(written)) => drop(state.waiting.drain(..written)),
            Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(Err(_)) => {
                *state = State::default();
                return;
            }
            Err(_) => {}
        }
        if state.waiting.is_empty() {
            state.writing = false;
            if state.closing {
                state.end = None;
            }
            return;
        }
    }
}

fn closed() -> Fault {
    Fault::new(Kind::Unavailable, "the process has closed its input, or has ended")
        .next("Look at its output and its exit code.")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use std::io::Read;

    use super::*;

    #[tokio::test]
    async fn more_than_the_pipe_holds_arrives_in_order() {
        let (mut theirs, ours) = io::pipe().unwrap();
        let input = Input::new(ours.into(), false).unwrap();
        let bytes: Vec<u8> = (0..500_000u32).map(|it| it as u8).collect();
        input.write(&bytes[..300_000]).unwrap();
        input.write(&bytes[300_000..]).unwrap();
        input.close();
        assert!(input.write(b"more").is_err());
        let reader = tokio::task::spawn_blocking(move || {
            let mut all = Vec::new();
            theirs.read_to_end(&mut all).unwrap();
            all
        });
        assert_eq!(reader.await.unwrap(), bytes);
    }

    #[tokio::test]
    async fn unread_input_is_bounded_and_a_closed_pipe_is_an_error() {
        let (theirs, ours) = io::pipe().unwrap();
        let input = Input::new(ours.into(), false).unwrap();
        input.write(&vec![0; WAITING]).unwrap();
        assert_eq!(input.write(&vec![0; WAITING]).unwrap_err().kind, Kind::TooBig);
        drop(theirs);
        let (theirs, ours) = io::pipe().unwrap();
        let input = Input::new(ours.into(), false).unwrap();
        drop(theirs);
        assert_eq!(input.write(b"x").unwrap_err().kind, Kind::Unavailable);
    }
}

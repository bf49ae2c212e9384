//! Direct writes: a short answer that the client's pipe or socket takes at once needs no wake of the writing thread.

use std::{fs::File, io::Write as _};

use parking_lot::Mutex;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{FileType, fstat},
    net::{SendFlags, send},
};

use crate::standard_stream::StandardStream;

/// The longest line that is written so. A pipe that can be written takes this many bytes, and a socket takes them whole
/// or not at all.
const SHORT: usize = 4096;

/// The output of a server, shared with the thread that writes longer lines.
pub(crate) struct Direct {
    /// Locked by whoever writes.
    output: Mutex<StandardStream>,
    is_socket: bool,
}

impl Direct {
    /// Returns the direct way to this output; `None` if it is neither a pipe nor a socket.
    pub(crate) fn of(output: &File) -> Option<Self> {
        let kind = FileType::from_raw_mode(fstat(output).ok()?.st_mode);
        let is_socket = match kind {
            FileType::Fifo => false,
            FileType::Socket => true,
            _ => return None,
        };
        let output = Mutex::new(StandardStream::new(output.try_clone().ok()?));
        Some(Self { output, is_socket })
    }

    /// Keeps direct writes off while the other thread writes.
    pub(crate) fn turn(&self) -> impl Drop + '_ {
        self.output.lock()
    }

    /// Writes a line if that takes no waiting and it is `next`. Otherwise nothing is written.
    pub(crate) fn write(&self, line: &[u8], is_next: impl FnOnce() -> bool) -> bool {
        if line.len() > SHORT {
            return false;
        }
        let Some(mut output) = self.output.try_lock() else { return false };
        if !is_next() {
            return false;
        }
        let written = if self.is_socket {
            send(output.file(), line, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
        } else {
            let mut wanted = [PollFd::new(output.file(), PollFlags::OUT)];
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            let is_writable = poll(&mut wanted, Some(&now)).is_ok_and(|ready| ready == 1)
                && wanted.iter().all(|it| it.revents() == PollFlags::OUT);
            if !is_writable {
                return false;
            }
            rustix::io::write(output.file(), line)
        };
        let Ok(written) = written else { return false };
        // Of a line of which the system took a part, the rest waits for the client. An error comes up at the next line.
        let _ = output.write_all(line.get(written..).unwrap_or_default());
        true
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::{
        io::Read,
        os::{fd::OwnedFd, unix::net::UnixStream},
    };

    use super::*;

    #[test]
    fn short_line_is_written_to_a_pipe_and_a_socket_until_they_are_full() {
        let (read, write) = rustix::pipe::pipe().unwrap();
        let (one, other) = UnixStream::pair().unwrap();
        for (mut input, output) in [
            (File::from(read), File::from(write)),
            (File::from(OwnedFd::from(one)), File::from(OwnedFd::from(other))),
        ] {
            let direct = Direct::of(&output).unwrap();
            assert!(!direct.write(b"not next", || false));
            assert!(!direct.write(&vec![b'x'; SHORT + 1], || true));
            let line = [b'x'; SHORT];
            let written = (0..10_000).take_while(|_| direct.write(&line, || true)).count();
            assert!((1..10_000).contains(&written), "{written}");
            let turn = direct.turn();
            assert!(!direct.write(b"x", || true));
            drop(turn);
            drop((direct, output));
            let mut all = Vec::new();
            input.read_to_end(&mut all).unwrap();
            assert_eq!(all.len(), written * SHORT);
        }
    }

    #[test]
    fn files_are_written_by_the_thread() {
        assert!(Direct::of(&File::open("/dev/null").unwrap()).is_none());
    }
}

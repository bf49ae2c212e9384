//! Direct writes: a short answer that the client's pipe or socket takes at once needs no wake of the writing thread.

use std::{fs::File, io::Write as _};

use parking_lot::Mutex;
use rustix::{
    event::PollFlags,
    fs::{FileType, fstat},
    net::{SendFlags, send},
};
#[cfg(target_os = "linux")]
use rustix::{io::ioctl_fionread, pipe::fcntl_getpipe_size};

use crate::standard_stream::{StandardStream, ready_now};

/// A pipe that can be written takes a line of this many bytes, and a socket takes it whole or not at all.
const SHORT: usize = 4096;

/// The longest line that is written so: an empty pipe takes it, and so does a socket that can be written, which has most
/// of its buffer free then.
const LONG: usize = 32 * 1024;

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
        if line.len() > LONG {
            return false;
        }
        let Some(mut output) = self.output.try_lock() else { return false };
        if !is_next() {
            return false;
        }
        let is_long = line.len() > SHORT;
        if (is_long || !self.is_socket) && !is_writable(output.file()) {
            return false;
        }
        let written = if self.is_socket {
            send(output.file(), line, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
        } else if is_long && !holds(output.file(), line.len()) {
            return false;
        } else {
            rustix::io::write(output.file(), line)
        };
        let Ok(written) = written else { return false };
        // Of a line of which the system took a part, the rest waits for the client. An error comes up at the next line.
        let _ = output.write_all(line.get(written..).unwrap_or_default());
        true
    }
}

fn is_writable(output: &File) -> bool {
    ready_now(output, PollFlags::OUT) == Ok(PollFlags::OUT)
}

/// Returns whether a pipe is empty, and large enough for this many bytes.
#[cfg(target_os = "linux")]
fn holds(pipe: &File, bytes: usize) -> bool {
    ioctl_fionread(pipe).is_ok_and(|unread| unread == 0)
        && fcntl_getpipe_size(pipe).is_ok_and(|size| size >= bytes)
}

#[cfg(not(target_os = "linux"))]
fn holds(_pipe: &File, _bytes: usize) -> bool {
    false
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
            assert!(!direct.write(&vec![b'x'; LONG + 1], || true));
            let line = [b'x'; SHORT];
            let written = (0..10_000).take_while(|_| direct.write(&line, || true)).count();
            assert!((1..10_000).contains(&written), "{written}");
            assert!(!direct.write(&[b'x'; LONG], || true));
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
    #[cfg(target_os = "linux")]
    fn long_line_is_written_to_a_pipe_that_is_empty_and_large_enough() {
        let (read, write) = rustix::pipe::pipe().unwrap();
        let (mut input, output) = (File::from(read), File::from(write));
        let direct = Direct::of(&output).unwrap();
        assert!(direct.write(&[b'x'; LONG], || true));
        assert!(!direct.write(&[b'x'; LONG], || true), "the pipe has unread bytes");
        input.read_exact(&mut vec![0; LONG]).unwrap();
        rustix::pipe::fcntl_setpipe_size(&output, LONG / 2).unwrap();
        assert!(!direct.write(&[b'x'; LONG], || true), "the pipe is too small");
        assert!(direct.write(b"short", || true));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn long_line_is_written_to_a_socket_as_a_whole() {
        let (one, mut other) = UnixStream::pair().unwrap();
        let direct = Direct::of(&File::from(OwnedFd::from(one))).unwrap();
        assert!(direct.write(&[b'x'; LONG], || true));
        other.set_nonblocking(true).unwrap();
        other.read_exact(&mut vec![0; LONG]).unwrap();
    }

    #[test]
    fn files_are_written_by_the_thread() {
        assert!(Direct::of(&File::open("/dev/null").unwrap()).is_none());
    }
}

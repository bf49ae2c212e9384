//! Direct writes: an answer that the client's pipe or socket takes at once needs no wake of the writing thread.

use std::{fs::File, io::IoSlice, os::fd::OwnedFd};

use parking_lot::{Mutex, MutexGuard};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{FileType, fstat},
    io::{Errno, ReadWriteFlags, pwritev2},
    net::{SendFlags, send},
};

/// The longest line that is written to a pipe which can't say that it would wait (before Linux 6.5). A pipe that can be
/// written takes this many bytes.
const SHORT: usize = 4096;

/// The output of a server, shared with the thread that writes what the client does not take at once.
pub(crate) struct Direct {
    output: OwnedFd,
    is_socket: bool,
    turn: Mutex<()>,
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
        let output = output.try_clone().ok()?.into();
        Some(Self { output, is_socket, turn: Mutex::default() })
    }

    /// Keeps direct writes off while the other thread writes.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock()
    }

    /// Writes what the client takes of a line at once, if it is `next`; returns the number of bytes. What is left goes to
    /// `rest` before anything else can be written; if that does not take it, this waits for the client.
    pub(crate) fn write(
        &self,
        line: &[u8],
        is_next: impl FnOnce() -> bool,
        rest: impl FnOnce(&[u8]) -> bool,
    ) -> Option<usize> {
        let _turn = self.turn.try_lock()?;
        if !is_next() {
            return None;
        }
        let written = self.write_some(line)?;
        let left = line.get(written..).unwrap_or_default();
        if left.is_empty() || rest(left) {
            return Some(written);
        }
        self.write_all(left);
        Some(line.len())
    }

    /// Writes a part of the line without waiting; `None` without space for it, or if it fails. The thread finds the error again.
    fn write_some(&self, line: &[u8]) -> Option<usize> {
        if self.is_socket {
            return send(&self.output, line, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).ok();
        }
        // At the position of the file, which a pipe has not.
        match pwritev2(&self.output, &[IoSlice::new(line)], u64::MAX, ReadWriteFlags::NOWAIT) {
            Ok(written) => return Some(written),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) if line.len() <= SHORT => {}
            Err(_) => return None,
        }
        let mut wanted = [PollFd::new(&self.output, PollFlags::OUT)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let is_writable = poll(&mut wanted, Some(&now)).is_ok_and(|ready| ready == 1)
            && wanted.iter().all(|it| it.revents() == PollFlags::OUT);
        is_writable.then(|| rustix::io::write(&self.output, line).ok()).flatten()
    }

    /// Writes the rest of a line; waits for the client. An error comes up at the next line.
    fn write_all(&self, mut rest: &[u8]) {
        while !rest.is_empty() {
            match rustix::io::write(&self.output, rest) {
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                // Whoever shares the socket has made it non-blocking.
                Err(Errno::AGAIN) => {
                    let _ = poll(&mut [PollFd::new(&self.output, PollFlags::OUT)], None);
                }
                Err(_) => break,
            }
        }
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
    fn lines_are_written_to_a_pipe_and_a_socket_until_they_are_full_and_the_rest_is_handed_on() {
        let (read, write) = rustix::pipe::pipe().unwrap();
        let (one, other) = UnixStream::pair().unwrap();
        for (mut input, output) in [
            (File::from(read), File::from(write)),
            (File::from(OwnedFd::from(one)), File::from(OwnedFd::from(other))),
        ] {
            let direct = Direct::of(&output).unwrap();
            assert_eq!(direct.write(b"not next", || false, |_| false), None);
            let line = [b'x'; 10_000];
            let (mut written, mut rest) = (0, 0);
            while rest == 0 {
                match direct.write(
                    &line,
                    || true,
                    |left| {
                        rest = left.len();
                        true
                    },
                ) {
                    Some(bytes) => written += bytes,
                    None => break,
                }
            }
            assert!(written >= 10_000, "{written}");
            let turn = direct.turn();
            assert_eq!(direct.write(b"x", || true, |_| true), None);
            drop(turn);
            drop((direct, output));
            let mut all = Vec::new();
            input.read_to_end(&mut all).unwrap();
            assert_eq!(all.len(), written);
        }
    }

    #[test]
    fn line_whose_rest_nobody_takes_is_written_whole_once_the_client_reads() {
        let (read, write) = rustix::pipe::pipe().unwrap();
        let direct = Direct::of(&File::from(write)).unwrap();
        let line = vec![b'x'; 1_000_000];
        let reading = std::thread::spawn(move || {
            let mut all = Vec::new();
            File::from(read).read_to_end(&mut all).unwrap();
            all.len()
        });
        assert_eq!(direct.write(&line, || true, |_| false), Some(line.len()));
        drop(direct);
        assert_eq!(reading.join().unwrap(), line.len());
    }

    #[test]
    fn files_are_written_by_the_thread() {
        assert!(Direct::of(&File::open("/dev/null").unwrap()).is_none());
    }
}

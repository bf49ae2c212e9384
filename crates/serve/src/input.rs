//! Input without a thread: what a pipe or a socket has is read when the reactor says so.
//!
//! The file description may be shared with other processes, so it stays blocking; each read says that it does not
//! wait. Where the system can't do that (files, terminals, pipes before Linux 6.5) a thread reads.

use std::{
    fs::File,
    io::{self, ErrorKind, IoSliceMut},
    os::fd::AsFd as _,
};

use rustix::{
    fs::{FileType, fstat},
    io::{ReadWriteFlags, preadv2},
    net::{RecvFlags, recv},
    pipe::{PipeFlags, pipe_with},
};
use tokio::io::{Interest, unix::AsyncFd};

/// An input that is read as it comes.
pub(crate) struct Input {
    file: AsyncFd<File>,
    is_socket: bool,
}

impl Input {
    /// Returns the input, or the file where only a thread can read it. Needs the reactor of tokio.
    pub(crate) fn of(file: File) -> Result<Self, File> {
        let kind = fstat(&file).map(|stat| FileType::from_raw_mode(stat.st_mode));
        let is_socket = match kind {
            Ok(FileType::Socket) => true,
            Ok(FileType::Fifo) => false,
            _ => return Err(file),
        };
        if !is_socket && !can_read_pipes() {
            return Err(file);
        }
        #[expect(unsafe_code, reason = "tokio wants a promise that the file stays open")]
        // SAFETY: a `File` gives the same open descriptor until it is dropped, which the `AsyncFd` does last.
        match unsafe { AsyncFd::register_with_interest(file, Interest::READABLE) } {
            Ok(file) => Ok(Self { file, is_socket }),
            Err(failed) => Err(failed.into_parts().0),
        }
    }

    /// Reads what there is, once there is something; 0 is the end. Nothing is lost if this is dropped before it is done.
    pub(crate) async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.async_io(Interest::READABLE, |file| read(file, self.is_socket, buffer)).await
    }
}

/// Reads without waiting.
fn read(file: &File, is_socket: bool, buffer: &mut [u8]) -> io::Result<usize> {
    if is_socket {
        let (read, _) = recv(file.as_fd(), buffer, RecvFlags::DONTWAIT)?;
        return Ok(read);
    }
    // At the position of the file, which a pipe has not.
    Ok(preadv2(file, &mut [IoSliceMut::new(buffer)], u64::MAX, ReadWriteFlags::NOWAIT)?)
}

/// Returns whether the system reads pipes without waiting, by an empty one.
fn can_read_pipes() -> bool {
    let Ok((empty, _writer)) = pipe_with(PipeFlags::CLOEXEC) else { return false };
    matches!(read(&empty.into(), false, &mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::{
        io::Write as _,
        os::{fd::OwnedFd, unix::net::UnixStream},
    };

    use super::*;

    #[tokio::test]
    async fn pipe_and_socket_are_read_as_they_come_and_stay_blocking() {
        let (read, write) = rustix::pipe::pipe().unwrap();
        let (one, other) = UnixStream::pair().unwrap();
        for (source, to) in [
            (File::from(read), File::from(write)),
            (File::from(OwnedFd::from(one)), File::from(OwnedFd::from(other))),
        ] {
            let shared = source.try_clone().unwrap();
            let Ok(input) = Input::of(source) else { return };
            let mut buffer = [0; 16];
            let mut to = to;
            for text in [b"first", b"again"] {
                let (read, ()) = tokio::join!(input.read(&mut buffer), async { to.write_all(text).unwrap() });
                assert_eq!(buffer.get(..read.unwrap()).unwrap(), text);
            }
            let flags = rustix::fs::fcntl_getfl(&shared).unwrap();
            assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK));
            drop(to);
            assert_eq!(input.read(&mut buffer).await.unwrap(), 0);
        }
    }

    #[tokio::test]
    async fn file_is_left_to_a_thread() {
        assert!(Input::of(File::open("/dev/null").unwrap()).is_err());
        assert!(Input::of(File::open("Cargo.toml").unwrap()).is_err());
    }
}

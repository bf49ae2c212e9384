//! The bytes that a client sends.
//!
//! A pipe or socket is read on the reactor: a thread of its own would be woken for each message, and then have to wake the
//! reactor. Files and terminals are read by a thread.

use std::{
    io::{self, ErrorKind, Read},
    os::fd::OwnedFd,
    thread,
};

use kit::reactor;
use rustix::{
    event::PollFlags,
    fs::{FileType, fstat},
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    sync::mpsc,
};

use crate::standard_stream::{StandardStream, ready_now};

/// The bytes that are read at once, at most.
const PIECE: usize = 64 * 1024;

pub(crate) struct Input(Source);

enum Source {
    Watched { file: AsyncFd<OwnedFd>, buffer: Vec<u8> },
    Threaded { pieces: mpsc::Receiver<io::Result<Vec<u8>>>, last: Vec<u8> },
}

impl Input {
    /// Returns the input on this stream. Needs a runtime with I/O.
    pub(crate) fn of(stream: StandardStream) -> io::Result<Self> {
        let kind = FileType::from_raw_mode(fstat(stream.file())?.st_mode);
        if !matches!(kind, FileType::Fifo | FileType::Socket) {
            return Self::threaded(stream);
        }
        let file = reactor::watch(stream.into_file().into(), Interest::READABLE)?;
        Ok(Self(Source::Watched { file, buffer: vec![0; PIECE] }))
    }

    /// Returns an input that a thread reads.
    pub(crate) fn threaded(mut input: impl Read + Send + 'static) -> io::Result<Self> {
        // One piece waits: the rest stays in the stream until it is wanted.
        let (found, pieces) = mpsc::channel(1);
        thread::Builder::new().name("mcp-read".to_owned()).spawn(move || {
            let mut buffer = vec![0; PIECE];
            loop {
                let piece = match input.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(count) => Ok(buffer.get(..count).unwrap_or_default().to_owned()),
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    Err(error) => Err(error),
                };
                let is_last = piece.is_err();
                if found.blocking_send(piece).is_err() || is_last {
                    break;
                }
            }
        })?;
        Ok(Self(Source::Threaded { pieces, last: Vec::new() }))
    }

    /// Returns the next bytes; none at the end.
    pub(crate) async fn read(&mut self) -> io::Result<&[u8]> {
        match &mut self.0 {
            Source::Threaded { pieces, last } => {
                *last = pieces.recv().await.transpose()?.unwrap_or_default();
                Ok(last)
            }
            Source::Watched { file, buffer } => {
                let count = loop {
                    let mut ready = file.readable().await?;
                    match read_now(ready.get_inner(), buffer) {
                        Err(error) if error.kind() == ErrorKind::WouldBlock => ready.clear_ready(),
                        done => break done?,
                    }
                };
                Ok(buffer.get(..count).unwrap_or_default())
            }
        }
    }
}

/// Reads what is there. The stream is not made non-blocking for that: others may share it.
fn read_now(file: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        if ready_now(file, PollFlags::IN)?.is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        match rustix::io::read(file, &mut *buffer) {
            Err(rustix::io::Errno::INTR) => {}
            done => return done.map_err(Into::into),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::{
        fs::File,
        io::{Seek, SeekFrom, Write},
        os::unix::net::UnixStream,
    };

    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

    use super::*;

    async fn all(mut input: Input) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            match input.read().await.unwrap() {
                [] => return all,
                bytes => all.extend_from_slice(bytes),
            }
        }
    }

    fn sent() -> Vec<u8> {
        (0..1_000_000_u32).map(|it| u8::try_from(it % 251).unwrap()).collect()
    }

    fn write(output: impl Write + Send + 'static) {
        let mut output = output;
        thread::spawn(move || {
            for piece in sent().chunks(12_345) {
                output.write_all(piece).unwrap();
            }
        });
    }

    #[tokio::test]
    async fn pipes_and_sockets_are_read_on_the_reactor_to_their_end() {
        let (read, to) = rustix::pipe::pipe().unwrap();
        let (socket, other) = UnixStream::pair().unwrap();
        for (from, to) in [(read, File::from(to)), (OwnedFd::from(socket), File::from(OwnedFd::from(other)))]
        {
            let input = Input::of(StandardStream::new(File::from(from))).unwrap();
            assert!(matches!(input.0, Source::Watched { .. }));
            write(to);
            assert!(all(input).await == sent());
        }
    }

    #[tokio::test]
    async fn shared_pipe_stays_as_others_have_it() {
        for flags in [OFlags::empty(), OFlags::NONBLOCK] {
            let (read, to) = rustix::pipe::pipe().unwrap();
            fcntl_setfl(&read, flags).unwrap();
            let shared = read.try_clone().unwrap();
            let input = Input::of(StandardStream::new(File::from(read))).unwrap();
            write(File::from(to));
            assert!(all(input).await == sent());
            assert_eq!(fcntl_getfl(&shared).unwrap() & OFlags::NONBLOCK, flags);
        }
    }

    #[tokio::test]
    async fn reading_waits_without_holding_the_thread() {
        let (read, to) = rustix::pipe::pipe().unwrap();
        let mut input = Input::of(StandardStream::new(File::from(read))).unwrap();
        let mut to = File::from(to);
        for _ in 0..3 {
            let waited = tokio::time::timeout(std::time::Duration::from_millis(50), input.read()).await;
            assert!(waited.is_err(), "nothing was sent");
            to.write_all(b"hello\n").unwrap();
            assert_eq!(input.read().await.unwrap(), b"hello\n");
        }
    }

    #[tokio::test]
    async fn files_are_read_by_a_thread() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&sent()).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        let input = Input::of(StandardStream::new(file)).unwrap();
        assert!(matches!(input.0, Source::Threaded { .. }));
        assert!(all(input).await == sent());
    }
}

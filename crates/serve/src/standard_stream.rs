//! Standard input and output of the process, shared with others.

use std::{
    fs::File,
    io::{self, ErrorKind, Read, Write},
    os::fd::AsFd,
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A stream that waits also after another process made it non-blocking: whoever shares the pipe or terminal can.
#[derive(Debug)]
pub(crate) struct StandardStream(File);

impl StandardStream {
    pub(crate) fn new(file: File) -> Self {
        Self(file)
    }

    pub(crate) fn file(&self) -> &File {
        &self.0
    }

    pub(crate) fn into_file(self) -> File {
        self.0
    }

    fn wait(&self, flags: PollFlags) -> io::Result<()> {
        match poll(&mut [PollFd::from_borrowed_fd(self.0.as_fd(), flags)], None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns for which of these a stream is ready now, without waiting.
pub(crate) fn ready_now(stream: &impl AsFd, flags: PollFlags) -> rustix::io::Result<PollFlags> {
    let mut wanted = [PollFd::new(stream, flags)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::io::retry_on_intr(|| poll(&mut wanted, Some(&now)))?;
    let [stream] = wanted;
    Ok(stream.revents())
}

impl Read for StandardStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.wait(PollFlags::IN)?,
                done => return done,
            }
        }
    }
}

impl Write for StandardStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.0.write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.wait(PollFlags::OUT)?,
                done => return done,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::thread;

    use rustix::fs::{OFlags, fcntl_setfl};

    use super::*;

    #[test]
    fn streams_that_others_made_non_blocking_still_wait() {
        let (read, write) = rustix::pipe::pipe().unwrap();
        fcntl_setfl(&read, OFlags::NONBLOCK).unwrap();
        fcntl_setfl(&write, OFlags::NONBLOCK).unwrap();
        let (mut input, mut output) =
            (StandardStream::new(File::from(read)), StandardStream::new(File::from(write)));
        let reading = thread::spawn(move || {
            let mut all = Vec::new();
            input.read_to_end(&mut all).map(|_| all)
        });
        let sent: Vec<u8> = (0..1_000_000_u32).map(|it| u8::try_from(it % 251).unwrap()).collect();
        output.write_all(&sent).unwrap();
        drop(output);
        assert!(reading.join().unwrap().unwrap() == sent);
    }
}

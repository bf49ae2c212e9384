//! Warm interpreters: one is kept ready, and forks for each call.
//!
//! `warm.py` is the other side, and documents the protocol.

use std::{
    fs::File,
    io::{self, IoSlice},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use kit::{
    Cx, Fault, Kind, OrFault,
    procs::{
        Exit, Process, Program, Stdin,
        script::{framed, python, sockets},
    },
};
use rustix::{
    net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg},
    pipe::{PipeFlags, pipe_with},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf, pipe},
    },
    time::timeout,
};

/// The oldest Python 3 that runs `warm.py`.
const OLDEST: u8 = 7;
const SCRIPT: &str = include_str!("warm.py");
/// Time limit for an interpreter to start.
const START: Duration = Duration::from_secs(20);
/// Time limit for a fork.
const FORK: Duration = Duration::from_secs(10);

/// A process that forks an interpreter for each call.
pub(super) struct Warm {
    /// The name by which it was started.
    pub(super) name: String,
    /// The program that this name resolved to.
    pub(super) executable: String,
    process: Process,
    socket: OwnedFd,
}

/// A request to an interpreter.
pub(super) struct Request<'a> {
    /// Options that `warm.py` knows: `last`, `scratch`.
    pub(super) options: &'a str,
    /// Its working directory.
    pub(super) folder: &'a str,
    /// The code.
    pub(super) code: &'a str,
    /// The rest of `sys.argv`.
    pub(super) arguments: &'a [String],
    /// Its stdin.
    pub(super) stdin: Option<&'a str>,
}

/// A call in flight. Dropping it kills the code and everything it started.
pub(super) struct Handed {
    said: Lines<BufReader<OwnedReadHalf>>,
    say: OwnedWriteHalf,
}

/// The end of code, and the number of processes it left behind that had to be killed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    pub(super) exit: Exit,
    pub(super) left: usize,
}

/// The way in which code is ended.
#[derive(Debug, Clone, Copy)]
pub(super) enum Word {
    /// By an interrupt first, as by Ctrl-C, so that it prints a traceback.
    Interrupt,
    /// Immediately.
    Kill,
}

impl Warm {
    /// Starts an interpreter and waits until it is ready.
    pub(super) async fn start(name: &str, cx: &Cx) -> Result<Self, Fault> {
        let (ours, theirs) = sockets().or_fault(Kind::Unavailable, "a socket can't be made")?;
        let program = Program {
            cwd: cx.files().roots().workspace().to_owned(),
            ..python(name, OLDEST, "serve", theirs, Stdin::Null)
        };
        let process = cx.procs().start(program).await?;
        let ready = async {
            ours.set_nonblocking(true)?;
            let mut stream = UnixStream::from_std(ours)?;
            stream.write_all(&framed(SCRIPT)).await?;
            let mut line = Vec::new();
            while !line.ends_with(b"\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).await?;
                line.extend(byte);
            }
            let executable = line.strip_prefix(b"ready ").ok_or(io::ErrorKind::InvalidData)?;
            let executable = String::from_utf8_lossy(executable).trim_end().to_owned();
            Ok::<_, io::Error>((stream.into_std()?, executable))
        };
        let ready = tokio::select! {
            ready = timeout(START, ready) => ready.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())),
            _ = process.exited() => Err(io::ErrorKind::UnexpectedEof.into()),
        };
        let (socket, executable) = ready.or_fault(Kind::Unavailable, "the interpreter can't be kept warm")?;
        let executable = if executable.is_empty() { name.to_owned() } else { executable };
        Ok(Self { name: name.to_owned(), executable, process, socket: socket.into() })
    }

    pub(super) fn process(&self) -> &Process {
        &self.process
    }

    pub(super) fn is_gone(&self) -> bool {
        self.process.exit().is_some()
    }

    /// Ends it with all its calls.
    pub(super) async fn end(&self) {
        self.process.end(kit::procs::Ending::NOW).await;
    }

    /// Starts a call that writes to `output`; `None` if the code has not begun and never will.
    pub(super) async fn hand(&self, request: &Request<'_>, output: OwnedFd) -> io::Result<Option<Handed>> {
        let (ours, theirs) = sockets()?;
        let stdin = match request.stdin {
            Some(text) => feed(text.as_bytes().to_vec())?,
            None => File::open("/dev/null")?.into(),
        };
        let asked = feed(request.encoded())?;
        let files = [theirs.as_fd(), asked.as_fd(), stdin.as_fd(), output.as_fd()];
        if send(self.socket.as_fd(), &files).is_err() {
            return Ok(None);
        }
        drop((theirs, asked, stdin, output));
        ours.set_nonblocking(true)?;
        let (read, say) = UnixStream::from_std(ours)?.into_split();
        let mut said = BufReader::new(read).lines();
        match timeout(FORK, said.next_line()).await {
            Ok(Ok(Some(line))) if line == "begun" => Ok(Some(Handed { said, say })),
            _ => Ok(None),
        }
    }
}

impl Handed {
    /// Waits for its end. [`Exit::Lost`] if the process that knows it is gone.
    pub(super) async fn ended(&mut self) -> Ended {
        let mut ended = Ended { exit: Exit::Lost, left: 0 };
        while let Ok(Some(line)) = self.said.next_line().await {
            match line.split_once(' ') {
                Some(("exit", code)) => ended.exit = code.parse().map_or(Exit::Lost, Exit::Code),
                Some(("signal", signal)) => ended.exit = signal.parse().map_or(Exit::Lost, Exit::Signal),
                Some(("ended", left)) => {
                    ended.left = left.parse().unwrap_or(0);
                    break;
                }
                _ => {}
            }
        }
        ended
    }

    /// Requests its end.
    pub(super) async fn send(&mut self, word: Word) {
        // If this fails, it has ended.
        let _ = self.say.write_all(word.bytes()).await;
    }
}

impl Word {
    fn bytes(self) -> &'static [u8] {
        match self {
            Self::Interrupt => b"i",
            Self::Kill => b"k",
        }
    }
}

impl Request<'_> {
    fn encoded(&self) -> Vec<u8> {
        let mut fields = vec![self.options, self.folder, self.code];
        fields.extend(self.arguments.iter().map(String::as_str));
        let lengths: Vec<String> = fields.iter().map(|it| it.len().to_string()).collect();
        let mut bytes = lengths.join(" ").into_bytes();
        bytes.push(b'\n');
        fields.iter().for_each(|it| bytes.extend_from_slice(it.as_bytes()));
        bytes
    }

    /// Returns a process of its own that runs this, for when there is no warm interpreter.
    pub(super) fn alone(&self, name: &str) -> io::Result<Program> {
        let input = feed([framed(SCRIPT), self.encoded()].concat())?;
        let stdin = if self.stdin.is_some() { Stdin::Pipe } else { Stdin::Null };
        Ok(Program { cwd: self.folder.into(), ..python(name, OLDEST, "once", input, stdin) })
    }
}

/// Returns the read end of a pipe with these bytes.
fn feed(bytes: Vec<u8>) -> io::Result<OwnedFd> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    let mut sender = pipe::Sender::from_owned_fd(write)?;
    tokio::spawn(async move {
        // A program need not read all of its input.
        let _ = sender.write_all(&bytes).await;
    });
    Ok(read)
}

fn send(socket: BorrowedFd<'_>, files: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    sendmsg(socket, &[IoSlice::new(b"c")], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_gives_the_length_of_each_field_in_bytes() {
        let arguments = ["a b".to_owned(), String::new()];
        let request =
            Request { options: "last", folder: "/é", code: "1\n2", arguments: &arguments, stdin: None };
        assert_eq!(request.encoded(), "4 3 3 3 0\nlast/é1\n2a b".as_bytes());
    }
}

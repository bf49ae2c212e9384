//! The protocol between haft, keepers and supervisors.
//!
//! haft requests a supervisor from the keeper with one short message, which carries the supervisor's end of a
//! socket of its own; everything about the command goes over that. Both ends are the same binary on the same
//! machine, so numbers are in the machine's byte order and the protocol has no versions.

use std::{
    ffi::CString,
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// The search path for a command without `PATH`.
pub(super) const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// Received files are moved to descriptors above this number until they get their own.
pub(super) const ABOVE: i32 = 64;
/// The most files that one message carries.
pub(super) const FILES: usize = 24;
/// The length of a message to a keeper.
pub(super) const TO_KEEPER: usize = 9;
/// The length of an order to a supervisor.
pub(super) const ORDER: usize = 24;
/// The length of the head of a supervisor's reply.
pub(super) const REPLY: usize = 24;
/// The longest request: the kernel's limit on arguments and variables, and some more.
const LONGEST: usize = 16 << 20;

/// Sending to a closed socket is an error, and does not kill this process by a signal.
#[cfg(target_os = "linux")]
const SEND: SendFlags = SendFlags::NOSIGNAL;
#[cfg(not(target_os = "linux"))]
const SEND: SendFlags = SendFlags::empty();
/// Received files are closed in every program that is executed.
#[cfg(target_os = "linux")]
const RECEIVE: RecvFlags = RecvFlags::CMSG_CLOEXEC;
#[cfg(not(target_os = "linux"))]
const RECEIVE: RecvFlags = RecvFlags::empty();

/// A message from haft to a keeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToKeeper {
    /// Fork a supervisor of this number, whose socket comes with the message.
    Start(u64),
    /// Kill that supervisor, which does not answer, and everything it leaves.
    Kill(u64),
    /// Create a TCP socket where commands run, of IPv6 or IPv4, and send it over the socket that comes with
    /// the message.
    Socket { six: bool },
}

/// A resource limit of a process, as `setrlimit` takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// The resource: `libc::RLIMIT_AS` and its like.
    pub resource: u32,
    /// The limit in force.
    pub soft: u64,
    /// The limit up to which the process may raise it.
    pub hard: u64,
}

/// A command to start.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) cwd: CString,
    pub(super) argv: Vec<CString>,
    pub(super) env: Vec<CString>,
    /// Rows and columns, if a terminal is requested.
    pub(super) terminal: Option<(u16, u16)>,
    /// The descriptor of each file that came along; with a terminal, those after the first three.
    pub(super) numbers: Vec<i32>,
    pub(super) limits: Vec<Limit>,
    /// Whether its changes are tracked: then the last file is the socket for the listener.
    pub(super) track: bool,
}

/// An order from haft to a supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Send this signal to the first process's group.
    Signal(i32),
    /// End the tree, or the part of it that is newer than a mark.
    End { grace_ms: u64, spare: Option<u64> },
    /// Mark what runs now.
    Mark,
    /// Report what is left of the tree, or of the part that is newer than a mark.
    Left { since: Option<u64> },
    /// Hold the files that come along, numbered by these bits, until there is something to read from one.
    Hold { which: u32 },
}

/// A message from a supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    /// The program runs, as this process.
    Started(u32),
    /// The program does not run, for this reason.
    Failed(Failure),
    /// It exited with this code.
    Exited(i32),
    /// It was killed by this signal.
    Killed(i32),
    /// The result of the order of this number; `bytes` bytes follow.
    Answer { number: u32, value: u64, bytes: u64 },
    /// It holds the files that haft sent.
    Holds,
    /// It gives back the files of these bits, which come along.
    Back { which: u32 },
}

/// The reason why a program does not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) step: Step,
    pub(super) errno: i32,
}

/// The step that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Setup,
    Fork,
    Terminal,
    Cwd,
    Limits,
    Inside,
    Program,
    Interpreter,
}

impl ToKeeper {
    pub(super) fn encode(self) -> [u8; TO_KEEPER] {
        let (kind, id) = match self {
            Self::Start(id) => (b's', id),
            Self::Kill(id) => (b'k', id),
            Self::Socket { six } => (b'n', six.into()),
        };
        let mut bytes = [kind; TO_KEEPER];
        if let Some(rest) = bytes.get_mut(1..) {
            rest.copy_from_slice(&id.to_ne_bytes());
        }
        bytes
    }

    pub(super) fn decode(bytes: &[u8; TO_KEEPER]) -> Option<Self> {
        let (kind, id) = bytes.split_first()?;
        let id = u64::from_ne_bytes(id.try_into().ok()?);
        match kind {
            b's' => Some(Self::Start(id)),
            b'k' => Some(Self::Kill(id)),
            b'n' => Some(Self::Socket { six: id != 0 }),
            _ => None,
        }
    }
}

impl Request {
    /// Encodes the request, with its length first.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; 4];
        let (rows, cols) = self.terminal.unwrap_or((0, 0));
        for number in [
            self.terminal.is_some().into(),
            rows.into(),
            cols.into(),
            self.numbers.len() as u32,
            self.limits.len() as u32,
            self.argv.len() as u32,
            self.env.len() as u32,
            self.track.into(),
        ] {
            bytes.extend_from_slice(&number.to_ne_bytes());
        }
        for number in &self.numbers {
            bytes.extend_from_slice(&number.to_ne_bytes());
        }
        for limit in &self.limits {
            bytes.extend_from_slice(&limit.resource.to_ne_bytes());
            bytes.extend_from_slice(&limit.soft.to_ne_bytes());
            bytes.extend_from_slice(&limit.hard.to_ne_bytes());
        }
        for text in [&self.cwd].into_iter().chain(&self.argv).chain(&self.env) {
            bytes.extend_from_slice(text.as_bytes_with_nul());
        }
        let length = (bytes.len() - 4) as u32;
        if let Some(first) = bytes.first_chunk_mut() {
            *first = length.to_ne_bytes();
        }
        bytes
    }

    /// Decodes the bytes of [`encode`](Self::encode), without the length.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = Rest(bytes);
        let terminal = rest.u32()? != 0;
        let (rows, cols) = (rest.u32()? as u16, rest.u32()? as u16);
        let (numbers, limits, argv, env) = (rest.u32()?, rest.u32()?, rest.u32()?, rest.u32()?);
        let track = rest.u32()? != 0;
        Some(Self {
            numbers: (0..numbers).map(|_| rest.u32().map(u32::cast_signed)).collect::<Option<_>>()?,
            limits: (0..limits)
                .map(|_| Some(Limit { resource: rest.u32()?, soft: rest.u64()?, hard: rest.u64()? }))
                .collect::<Option<_>>()?,
            cwd: rest.text()?,
            argv: (0..argv).map(|_| rest.text()).collect::<Option<_>>()?,
            env: (0..env).map(|_| rest.text()).collect::<Option<_>>()?,
            terminal: terminal.then_some((rows, cols)),
            track,
        })
    }
}

impl Order {
    pub(super) fn encode(self, number: u32) -> [u8; ORDER] {
        let (kind, first, second) = match self {
            Self::Signal(signal) => (1, u64::from(signal.cast_unsigned()), 0),
            Self::End { grace_ms, spare } => (2, grace_ms, spare.unwrap_or(u64::MAX)),
            Self::Mark => (3, 0, 0),
            Self::Left { since } => (4, 0, since.unwrap_or(u64::MAX)),
            Self::Hold { which } => (5, which.into(), 0),
        };
        packed(kind, number, first, second)
    }

    pub(super) fn decode(bytes: &[u8; ORDER]) -> Option<(Self, u32)> {
        let (kind, number, first, second) = unpacked(bytes)?;
        let order = match kind {
            1 => Self::Signal((first as u32).cast_signed()),
            2 => Self::End { grace_ms: first, spare: (second != u64::MAX).then_some(second) },
            3 => Self::Mark,
            4 => Self::Left { since: (second != u64::MAX).then_some(second) },
            5 => Self::Hold { which: first as u32 },
            _ => return None,
        };
        Some((order, number))
    }
}

impl Reply {
    pub(super) fn encode(self) -> [u8; REPLY] {
        match self {
            Self::Started(pid) => packed(1, pid, 0, 0),
            Self::Failed(failure) => packed(2, failure.errno.cast_unsigned(), failure.step as u64, 0),
            Self::Exited(code) => packed(3, code.cast_unsigned(), 0, 0),
            Self::Killed(signal) => packed(4, signal.cast_unsigned(), 0, 0),
            Self::Answer { number, value, bytes } => packed(5, number, value, bytes),
            Self::Holds => packed(6, 0, 0, 0),
            Self::Back { which } => packed(7, which, 0, 0),
        }
    }

    pub(super) fn decode(bytes: &[u8; REPLY]) -> Option<Self> {
        let (kind, number, first, second) = unpacked(bytes)?;
        Some(match kind {
            1 => Self::Started(number),
            2 => Self::Failed(Failure { step: Step::of(first)?, errno: number.cast_signed() }),
            3 => Self::Exited(number.cast_signed()),
            4 => Self::Killed(number.cast_signed()),
            5 => Self::Answer { number, value: first, bytes: second },
            6 => Self::Holds,
            7 => Self::Back { which: number },
            _ => return None,
        })
    }
}

impl Step {
    const ALL: [Self; 8] = [
        Self::Setup,
        Self::Fork,
        Self::Terminal,
        Self::Cwd,
        Self::Limits,
        Self::Inside,
        Self::Program,
        Self::Interpreter,
    ];

    fn of(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|it| *it as u64 == number)
    }
}

/// Sends what fits, and the files with its first byte.
pub(super) fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    files: &[BorrowedFd<'_>],
) -> rustix::io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(rustix::io::Errno::TOOBIG);
    }
    rustix::io::retry_on_intr(|| sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SEND))
}

/// Asks the kernel to report the sender's process id with each message.
pub(super) fn ask_for_sender(socket: BorrowedFd<'_>) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::net::sockopt::set_socket_passcred(socket, true)?;
    #[cfg(not(target_os = "linux"))]
    let _ = socket;
    Ok(())
}

#[cfg(target_os = "linux")]
const SPACE: usize = rustix::cmsg_space!(ScmRights(FILES), ScmCredentials(1));
#[cfg(not(target_os = "linux"))]
const SPACE: usize = rustix::cmsg_space!(ScmRights(FILES));

/// Receives the bytes that are available, and the files that came with them; 0 bytes at the end.
pub(super) fn receive(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
    files: &mut Vec<OwnedFd>,
) -> rustix::io::Result<usize> {
    receive_from(socket, bytes, files, &mut None)
}

/// Like [`receive`], and returns the sender's process id in this namespace, if the socket
/// [asks](ask_for_sender) for it.
pub(super) fn receive_from(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
    files: &mut Vec<OwnedFd>,
    sender: &mut Option<u32>,
) -> rustix::io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got =
        rustix::io::retry_on_intr(|| recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut control, RECEIVE))?;
    for message in control.drain() {
        match message {
            RecvAncillaryMessage::ScmRights(came) => files.extend(came),
            #[cfg(target_os = "linux")]
            RecvAncillaryMessage::ScmCredentials(from) => {
                *sender = Some(from.pid.as_raw_nonzero().get().cast_unsigned());
            }
            _ => {}
        }
    }
    Ok(got.bytes)
}

/// Sends all bytes over a blocking socket.
pub(super) fn send_all(socket: impl AsFd, bytes: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
    let (mut rest, mut files) = (bytes, files);
    while !rest.is_empty() {
        let sent = send(socket.as_fd(), rest, files)?;
        rest = rest.get(sent..).unwrap_or_default();
        files = &[];
    }
    Ok(())
}

/// Fills `bytes` from a blocking socket. False: it was at its end.
pub(super) fn receive_all(socket: impl AsFd, bytes: &mut [u8], files: &mut Vec<OwnedFd>) -> io::Result<bool> {
    let mut have = 0;
    while let Some(rest) = bytes.get_mut(have..).filter(|it| !it.is_empty()) {
        match receive(socket.as_fd(), rest, files)? {
            0 if have == 0 => return Ok(false),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            got => have += got,
        }
    }
    Ok(true)
}

/// Receives length-prefixed bytes from a blocking socket.
pub(super) fn receive_long(socket: impl AsFd, files: &mut Vec<OwnedFd>) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    if !receive_all(&socket, &mut length, files)? {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let length = u32::from_ne_bytes(length) as usize;
    if length > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length];
    if length > 0 && !receive_all(&socket, &mut bytes, files)? {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}

/// Prefixes bytes with their length, for [`receive_long`].
pub(super) fn long(bytes: &[u8]) -> Vec<u8> {
    let mut all = Vec::with_capacity(bytes.len() + 4);
    all.extend_from_slice(&(bytes.len() as u32).to_ne_bytes());
    all.extend_from_slice(bytes);
    all
}

fn packed(kind: u32, number: u32, first: u64, second: u64) -> [u8; 24] {
    let mut bytes = [0; 24];
    let parts = kind
        .to_ne_bytes()
        .into_iter()
        .chain(number.to_ne_bytes())
        .chain(first.to_ne_bytes())
        .chain(second.to_ne_bytes());
    for (to, from) in bytes.iter_mut().zip(parts) {
        *to = from;
    }
    bytes
}

fn unpacked(bytes: &[u8; 24]) -> Option<(u32, u32, u64, u64)> {
    let mut rest = Rest(bytes);
    Some((rest.u32()?, rest.u32()?, rest.u64()?, rest.u64()?))
}

/// The part of a message that is not decoded yet.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn u32(&mut self) -> Option<u32> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_ne_bytes(*number))
    }

    fn u64(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_ne_bytes(*number))
    }

    fn text(&mut self) -> Option<CString> {
        let end = memchr::memchr(0, self.0)?;
        let (text, rest) = self.0.split_at_checked(end + 1)?;
        self.0 = rest;
        CString::from_vec_with_nul(text.to_vec()).ok()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use std::ffi::CString;

    use proptest::prelude::*;

    use super::*;

    fn texts() -> impl Strategy<Value = Vec<CString>> {
        prop::collection::vec(prop::collection::vec(1..=255u8, 0..20), 0..5)
            .prop_map(|all| all.into_iter().map(|it| CString::new(it).unwrap()).collect())
    }

    proptest! {
        #[test]
        fn a_request_arrives_as_it_was_sent(
            argv in texts(), env in texts(), terminal in any::<Option<(u16, u16)>>(),
            numbers in prop::collection::vec(any::<i32>(), 0..5),
            limits in prop::collection::vec(any::<(u32, u64, u64)>(), 0..5), track in any::<bool>(),
        ) {
            let limits = limits.into_iter().map(|(resource, soft, hard)| Limit { resource, soft, hard }).collect();
            let request = Request { cwd: c"/tmp".to_owned(), argv, env, terminal, numbers, limits, track };
            let bytes = request.encode();
            prop_assert_eq!(Request::decode(&bytes[4..]), Some(request));
        }

        #[test]
        fn malformed_requests_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            // Arbitrary bytes are decoded to an end, and large counts are not trusted.
            let _ = Request::decode(&bytes);
        }
    }

    #[test]
    fn short_messages_arrive_as_they_were_sent() {
        for it in [
            ToKeeper::Start(7),
            ToKeeper::Kill(u64::MAX),
            ToKeeper::Socket { six: false },
            ToKeeper::Socket { six: true },
        ] {
            assert_eq!(ToKeeper::decode(&it.encode()), Some(it));
        }
        for it in [
            Order::Signal(-1),
            Order::End { grace_ms: 5, spare: None },
            Order::End { grace_ms: 0, spare: Some(0) },
            Order::Mark,
            Order::Left { since: None },
            Order::Left { since: Some(1) },
        ] {
            assert_eq!(Order::decode(&it.encode(9)), Some((it, 9)));
        }
        let mut replies = vec![
            Reply::Started(4),
            Reply::Exited(255),
            Reply::Killed(9),
            Reply::Answer { number: 3, value: 2, bytes: 1 },
        ];
        replies.extend(Step::ALL.map(|step| Reply::Failed(Failure { step, errno: 2 })));
        for it in replies {
            assert_eq!(Reply::decode(&it.encode()), Some(it));
        }
    }

    #[test]
    fn files_come_with_the_first_byte() {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let bytes = vec![7; 100_000];
        let message = long(&bytes);
        let sender = std::thread::spawn(move || {
            send_all(&ours, &message, &[ours.as_fd(), ours.as_fd()]).unwrap();
        });
        let mut files = Vec::new();
        assert_eq!(receive_long(&theirs, &mut files).unwrap(), bytes);
        assert_eq!(files.len(), 2);
        sender.join().unwrap();
    }
}

//! The worker process: confines itself, then decodes one request after the other until haft closes the socket.
//!
//! Two threads: one waits for requests, the other decodes. So the end of the stream ends a worker that is busy, too.

use std::{
    fs::File,
    io::{self, Write},
    os::{
        fd::AsFd,
        unix::{fs::FileExt, net::UnixStream},
    },
    process::ExitCode,
    sync::mpsc::{Receiver, sync_channel},
    thread,
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{
    Entry, STACK,
    unwind::caught,
    wire::{self, Received, TAKEN},
};
use crate::Fault;

/// The most memory that a request may ask for.
const MOST_MEMORY: u64 = 2 << 30;

/// Number of requests after which a worker ends.
const REQUESTS: usize = 200;

/// A worker ends when it holds this many bytes more than at its start.
const GROWTH: u64 = 64 << 20;

/// How a worker confines itself. A part that fails is reported; the limits hold without it.
pub struct Confinement {
    /// Closes all files and the network for this thread and those that it starts.
    pub files: fn() -> Result<(), String>,
    /// Closes all system calls that decoding does not need, for all threads.
    pub calls: fn() -> Result<(), String>,
}

/// Runs this process as a worker for these decoders. Call it before anything else in `main`, while there is
/// one thread; the socket is standard input.
pub fn serve(decoders: &'static [Entry], confinement: &Confinement) -> ExitCode {
    match run(decoders, confinement) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn run(decoders: &'static [Entry], confinement: &Confinement) -> io::Result<()> {
    let mut socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let replies = socket.try_clone()?;
    end_with_parent()?;
    // A panic becomes an answer; its message is not printed.
    std::panic::set_hook(Box::new(|_| {}));
    if let Some(prepared) = std::env::args().nth(2)
        && let Some(entry) = decoders.iter().find(|it| it.name == prepared)
    {
        (entry.prepare)();
    }
    // Kept open, because later no file can be opened.
    let size = Size { status: File::open("/proc/self/status").ok() };
    let mut missing: Vec<String> = (confinement.files)().err().into_iter().collect();
    let (send, work) = sync_channel::<Received>(1);
    let (begin, begun) = sync_channel::<()>(0);
    thread::Builder::new().name("haft-decoding".to_owned()).stack_size(STACK).spawn(move || {
        if begun.recv().is_ok() {
            decode_all(decoders, &work, replies, &size);
        }
        std::process::exit(0)
    })?;
    for (resource, most) in [
        (Resource::Core, 0),
        (Resource::Fsize, 0),
        (Resource::Nproc, 0),
        // Files that are open already stay open.
        (Resource::Nofile, 0),
    ] {
        limit(resource, most, most)?;
    }
    missing.extend((confinement.calls)().err());
    let _ = begin.send(());
    let ready = missing.join("; ");
    let ready = ready.as_bytes().get(..wire::READY).unwrap_or(ready.as_bytes());
    socket.write_all(&u32::try_from(ready.len()).unwrap_or(0).to_ne_bytes())?;
    socket.write_all(ready)?;
    while let Some(request) = wire::receive(&mut socket)? {
        socket.write_all(&[TAKEN])?;
        if send.send(request).is_err() {
            break;
        }
    }
    Ok(())
}

/// Makes this process end with haft, and hides its memory from other processes of this user.
fn end_with_parent() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{
            DumpableBehavior, Signal, set_dumpable_behavior, set_parent_process_death_signal,
        };

        set_parent_process_death_signal(Some(Signal::KILL))?;
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    }
    Ok(())
}

fn decode_all(decoders: &[Entry], work: &Receiver<Received>, mut replies: UnixStream, size: &Size) {
    let (all, resident) = size.now().unwrap_or_default();
    let mut seconds = 0;
    for served in 1.. {
        let Ok(request) = work.recv() else { return };
        // Time that was not used is left for the next request; its own deadline ends it earlier.
        seconds += request.seconds + 2;
        let memory = request.memory.min(MOST_MEMORY);
        let limited = limit(Resource::Cpu, seconds, u64::MAX).and_then(|()| match all {
            0 => Ok(()),
            all => limit(Resource::As, all + memory, all + MOST_MEMORY),
        });
        let (done, unwound) = match limited {
            Ok(()) => decode(decoders, request),
            Err(error) => (Err(Fault::bug(format!("a decoder's limits can't be set: {error}"))), true),
        };
        let growth = size.now().map_or(0, |(_, now)| now.saturating_sub(resident));
        let retires = unwound || served >= REQUESTS || growth > GROWTH;
        if replies.write_all(&wire::answer(done, retires)).is_err() || retires {
            return;
        }
    }
}

fn decode(decoders: &[Entry], request: Received) -> (Result<super::Raw, Fault>, bool) {
    let Some(entry) = decoders.iter().find(|it| it.name.as_bytes() == request.name) else {
        let name = String::from_utf8_lossy(&request.name).into_owned();
        return (Err(Fault::bug(format!("there is no decoder `{name}`"))), false);
    };
    caught("the file", || (entry.decode)(&request.options, request.data))
}

fn limit(resource: Resource, soft: u64, hard: u64) -> io::Result<()> {
    let held = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let hard = hard.min(held);
    // The kernel encodes "none" as the greatest number.
    let some = |it: u64| (it != u64::MAX).then_some(it);
    Ok(setrlimit(resource, Rlimit { current: some(soft.min(hard)), maximum: some(hard) })?)
}

/// The size of this process, in bytes: its address space, and its resident memory.
struct Size {
    status: Option<File>,
}

impl Size {
    fn now(&self) -> Option<(u64, u64)> {
        let mut text = [0; 4096];
        let read = self.status.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = String::from_utf8_lossy(text.get(..read)?).into_owned();
        let of = |name: &str| {
            let line = text.lines().find_map(|it| it.strip_prefix(name))?;
            line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
        };
        Some((of("VmSize:")?, of("VmRSS:")?))
    }
}

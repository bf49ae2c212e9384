//! Standard input of `haft run`: reads piped input to its end; a pipe that nobody writes to can't block the run.
//!
//! A parent such as cron or a CI runner may leave a pipe open as our standard input. Where the first byte does not come
//! within three seconds, the task goes on without it.

use std::{
    io::{self, IsTerminal},
    time::{Duration, Instant},
};

use kit::{Fault, Kind};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use tokio_util::sync::CancellationToken;

use crate::print;

/// How long the first byte may take if input was not requested explicitly.
const FIRST: Duration = Duration::from_secs(3);

/// The interval of the checks for cancellation.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Maximum size of the input, in bytes.
const LARGEST: usize = 64 << 20;

/// The result of reading standard input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// It is a terminal, closed, `/dev/null`, or has nothing but white space.
    Nothing,
    /// All of it.
    Bytes(Vec<u8>),
    /// It is open, and no input arrived in time.
    Silent,
    /// Somebody stopped it.
    Stopped,
}

/// Reads piped input, if there is any. A terminal is not read.
///
/// # Errors
/// When it can't be read, or has more than 64 MiB.
pub(super) async fn piped(cancel: &CancellationToken) -> Result<Came, Fault> {
    if io::stdin().is_terminal() {
        return Ok(Came::Nothing);
    }
    read(Some(FIRST), cancel).await
}

/// Reads all of standard input, however long its first byte takes, and also from a terminal.
///
/// # Errors
/// When it can't be read, or has more than 64 MiB.
pub(super) async fn whole(cancel: &CancellationToken) -> Result<Came, Fault> {
    read(None, cancel).await
}

async fn read(first: Option<Duration>, cancel: &CancellationToken) -> Result<Came, Fault> {
    let cancel = cancel.clone();
    let reading = tokio::task::spawn_blocking(move || read_blocking(first, &cancel));
    reading.await.map_err(|error| Fault::bug(format!("standard input was not read: {error}")))?
}

fn read_blocking(first: Option<Duration>, cancel: &CancellationToken) -> Result<Came, Fault> {
    let unreadable = |error: Errno| {
        Fault::new(Kind::Unavailable, format!("can't read standard input: {error}"))
            .next("`< /dev/null` runs the task without it.")
    };
    let input = io::stdin();
    let began = Instant::now();
    let (mut bytes, mut chunk) = (Vec::new(), vec![0; 64 << 10]);
    let mut told = first.is_none();
    loop {
        if cancel.is_cancelled() {
            return Ok(Came::Stopped);
        }
        let mut fds = [PollFd::new(&input, PollFlags::IN)];
        let ready = match poll(&mut fds, Some(&LOOK)) {
            Ok(ready) => ready,
            Err(Errno::INTR) => continue,
            Err(error) => return Err(unreadable(error)),
        };
        if ready == 0 {
            if bytes.is_empty() && first.is_some_and(|it| began.elapsed() >= it) {
                return Ok(Came::Silent);
            }
            if !told && !bytes.is_empty() && began.elapsed() >= FIRST {
                told = true;
                print::err(&format!(
                    "haft: waiting for the end of standard input ({} bytes so far; Ctrl-C stops)",
                    bytes.len()
                ));
            }
            continue;
        }
        let [stdin] = fds;
        if stdin.revents().contains(PollFlags::NVAL) {
            return Ok(Came::Nothing);
        }
        match rustix::io::read(&input, &mut chunk) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(chunk.get(..count).unwrap_or_default()),
            Err(Errno::INTR | Errno::AGAIN) => continue,
            Err(Errno::BADF) => return Ok(Came::Nothing),
            Err(error) => return Err(unreadable(error)),
        }
        if bytes.len() > LARGEST {
            let what =
                format!("standard input has more than {LARGEST} bytes, which is the most that is read");
            return Err(Fault::new(Kind::TooBig, what)
                .next("Put it into a file of the workspace, and name the file in the task."));
        }
    }
    let is_blank = bytes.iter().all(u8::is_ascii_whitespace);
    Ok(if is_blank { Came::Nothing } else { Came::Bytes(bytes) })
}

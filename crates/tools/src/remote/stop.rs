//! Stopping a remote command, by its process group.
//!
//! OpenSSH does not forward signals for root, so the shell prints its process id first, and a second channel
//! stops the command: it sends its process group SIGTERM, then SIGKILL. The script there finishes even if
//! haft is gone.
//!
//! If haft itself is killed, a watchdog stops its commands: a third channel, one for each connection, whose
//! script gets the ids of running processes. When its input ends, which happens when the connection does, it
//! kills those that are left.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use kit::Fault;
use parking_lot::Mutex;
use russh::ChannelMsg;
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::JoinHandle,
    time::timeout,
};

use super::client::Connection;

/// Time limit for opening the second channel.
const TO_OPEN: Duration = Duration::from_secs(10);

/// Maximum bytes that are held back before the process id arrives.
const MOST_HELD: usize = 64 << 10;

/// The result of stopping a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Gone,
    GoesOn,
    /// The request could not be sent.
    Unsaid,
}

/// Removes the process id of the shell from its standard error.
#[derive(Debug)]
pub(super) struct Sieve {
    mark: String,
    held: Vec<u8>,
    is_done: bool,
    pid: Option<u32>,
    /// Whether a shell rejected the prefix.
    refused: bool,
}

impl Sieve {
    pub(super) fn new() -> Result<Self, Fault> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|error| Fault::bug(format!("no random number: {error}")))?;
        let mark = format!("haft-pid-{:x}", u64::from_ne_bytes(random));
        Ok(Self { mark, held: Vec::new(), is_done: false, pid: None, refused: false })
    }

    /// Returns the command with a prefix by which its shell prints its process id. Every shell understands
    /// it, and line numbers stay the same.
    pub(super) fn line(&self, command: &str) -> String {
        format!("{}{command}", self.words())
    }

    fn words(&self) -> String {
        format!("sh -c 'echo {} $PPID >&2'; ", self.mark)
    }

    /// Filters these bytes, and those held back before.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<u8> {
        if self.is_done {
            return bytes.to_vec();
        }
        self.held.extend_from_slice(bytes);
        let mut out = Vec::new();
        while !self.is_done
            && let Some(at) = self.held.iter().position(|it| *it == b'\n')
        {
            let rest = self.held.split_off(at + 1);
            let line = std::mem::replace(&mut self.held, rest);
            out.extend(self.sift(line));
        }
        if self.is_done || self.held.len() > MOST_HELD {
            self.is_done = true;
            out.append(&mut self.held);
        }
        out
    }

    /// Returns the bytes held back, at the end.
    pub(super) fn rest(&mut self) -> Vec<u8> {
        let held = std::mem::take(&mut self.held);
        self.sift(held)
    }

    fn sift(&mut self, line: Vec<u8>) -> Vec<u8> {
        let text = String::from_utf8_lossy(&line);
        let Some((before, after)) = text.split_once(&self.mark) else { return line };
        if let Ok(pid) = after.trim().parse::<u32>()
            && pid > 1
        {
            self.pid = Some(pid);
            self.is_done = true;
            return before.as_bytes().to_vec();
        }
        // A shell prints a line that it does not understand.
        self.refused = true;
        text.replace(&self.words(), "").into_bytes()
    }

    /// Returns the process id, once it is known.
    pub(super) fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// Returns whether no shell interpreted the prefix.
    pub(super) fn was_not_understood(&self) -> bool {
        self.pid.is_none() && !self.refused
    }
}

/// Stops this process and its group there, in a task of its own.
pub(super) fn end(connection: Arc<Connection>, pid: u32) -> JoinHandle<Fate> {
    tokio::spawn(async move {
        let _held = connection.hold();
        let Ok(Ok(mut channel)) = timeout(TO_OPEN, connection.channel()).await else { return Fate::Unsaid };
        if channel.exec(true, script(pid)).await.is_err() {
            return Fate::Unsaid;
        }
        let mut fate = Fate::Unsaid;
        while let Some(message) = channel.wait().await {
            match message {
                ChannelMsg::ExitStatus { exit_status: 0 } => fate = Fate::Gone,
                ChannelMsg::ExitStatus { exit_status: 1 } => fate = Fate::GoesOn,
                ChannelMsg::Close | ChannelMsg::Failure => break,
                _ => {}
            }
        }
        // Otherwise the watchdog stops it with the connection: haft may be killed before the request was sent.
        if fate == Fate::Gone {
            connection.watchdog.disarm(pid);
        }
        fate
    })
}

/// Stops a connection's running commands there when the connection is lost, for any reason.
#[derive(Default)]
pub(super) struct Watchdog {
    words: Mutex<Option<UnboundedSender<String>>>,
}

impl Watchdog {
    /// Adds a process.
    pub(super) fn arm(&self, connection: &Arc<Connection>, pid: u32) {
        let word = format!("+ {pid}\n");
        let mut words = self.words.lock();
        if words.as_ref().is_some_and(|it| it.send(word.clone()).is_ok()) {
            return;
        }
        // The first one, or one after the server accepted no more channels.
        let (sender, receiver) = unbounded_channel();
        let _ = sender.send(word);
        *words = Some(sender);
        tokio::spawn(watch(Arc::downgrade(connection), receiver));
    }

    /// Removes a process that has ended.
    pub(super) fn disarm(&self, pid: u32) {
        if let Some(words) = &*self.words.lock() {
            let _ = words.send(format!("- {pid}\n"));
        }
    }
}

/// Sends messages to the script, until the connection is lost.
async fn watch(connection: Weak<Connection>, mut words: UnboundedReceiver<String>) {
    let opened = match connection.upgrade() {
        Some(connection) => timeout(TO_OPEN, connection.channel()).await,
        None => return,
    };
    let Ok(Ok(channel)) = opened else { return };
    let (mut read, write) = channel.split();
    if write.exec(false, WATCHDOG).await.is_err() {
        return;
    }
    loop {
        tokio::select! {
            word = words.recv() => match word {
                Some(word) => {
                    if write.data_bytes(word.into_bytes()).await.is_err() {
                        return;
                    }
                }
                None => return,
            },
            message = read.wait() => match message {
                None | Some(ChannelMsg::Close | ChannelMsg::Failure) => return,
                Some(_) => {}
            },
        }
    }
}

/// A script that reads process ids, and at the end of its input sends these processes SIGTERM, waits two
/// seconds, and kills them.
const WATCHDOG: &str = "sh -c 'all=; while read -r how pid; do case $how in +) all=\"$all $pid\";; \
     -) left=; for it in $all; do [ $it = $pid ] || left=\"$left $it\"; done; all=$left;; esac; done; \
     [ -n \"$all\" ] || exit 0; \
     for it in $all; do kill -TERM -$it || kill -TERM $it; done 2>/dev/null; sleep 2; \
     for it in $all; do kill -KILL -$it || kill -KILL $it; done 2>/dev/null'";

/// Returns a script that sends SIGTERM, waits two seconds, kills, and prints whether the process is gone.
fn script(pid: u32) -> String {
    let there = format!("{{ kill -0 -{pid} || kill -0 {pid}; }} 2>/dev/null");
    let send = |signal: &str| format!("{{ kill -{signal} -{pid} || kill -{signal} {pid}; }} 2>/dev/null");
    format!(
        "sh -c '{}; n=0; while {there}; do n=$((n+1)); if [ $n -eq 20 ]; then {}; fi; \
         if [ $n -ge 40 ]; then exit 1; fi; sleep 0.1 2>/dev/null || sleep 1; done; exit 0'",
        send("TERM"),
        send("KILL"),
    )
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn the_pid_is_removed_from_errors_in_chunks_of_any_size() {
        let sieve = || {
            let mut sieve = Sieve::new().unwrap();
            sieve.mark = "haft-pid-1".to_owned();
            sieve
        };
        let all = b"a word of a profile\nhaft-pid-1 4711\nerr\nhaft-pid-1 1".as_slice();
        for size in [1, 2, 7, 100] {
            let mut sieve = sieve();
            let mut out: Vec<u8> = all.chunks(size).flat_map(|it| sieve.feed(it)).collect();
            out.extend(sieve.rest());
            assert_eq!(String::from_utf8(out).unwrap(), "a word of a profile\nerr\nhaft-pid-1 1");
            assert_eq!(sieve.pid(), Some(4711));
        }
        let mut other = sieve();
        assert_eq!(other.feed(b"no such command\n"), b"no such command\n");
        assert!(other.feed(b"a prompt").is_empty());
        assert_eq!(other.rest(), b"a prompt");
        assert!(other.was_not_understood());
    }

    #[test]
    fn a_syntax_error_shows_the_command_without_the_added_prefix() {
        let mut sieve = Sieve::new().unwrap();
        let line = sieve.line("echo )");
        let shown = sieve.feed(format!("bash: -c: line 1: `{line}'\n").as_bytes());
        assert_eq!(String::from_utf8(shown).unwrap(), "bash: -c: line 1: `echo )'\n");
        assert!(!sieve.was_not_understood() && sieve.pid().is_none());
    }

    #[test]
    fn a_watchdog_ends_remaining_processes_at_the_end_of_its_input() {
        use std::{
            io::Write as _,
            os::unix::process::{CommandExt as _, ExitStatusExt as _},
            process::{Command, Stdio},
        };
        let start = || Command::new("sleep").arg("300").process_group(0).spawn().unwrap();
        let (mut left, mut over) = (start(), start());
        let mut dog = Command::new("sh").args(["-c", WATCHDOG]).stdin(Stdio::piped()).spawn().unwrap();
        let mut input = dog.stdin.take().unwrap();
        write!(input, "+ {}\n+ {}\n- {}\n", left.id(), over.id(), over.id()).unwrap();
        assert!(left.try_wait().unwrap().is_none());
        drop(input);
        assert_eq!(left.wait().unwrap().signal(), Some(15));
        dog.wait().unwrap();
        assert!(over.try_wait().unwrap().is_none(), "it was said to be over");
        over.kill().unwrap();
        over.wait().unwrap();
    }

    #[test]
    fn a_shell_tells_its_own_number() {
        let mut sieve = Sieve::new().unwrap();
        let line = sieve.line("echo $$; exit 3");
        let ran = std::process::Command::new("sh").args(["-c", &line]).output().unwrap();
        assert!(sieve.feed(&ran.stderr).is_empty());
        assert_eq!(String::from_utf8(ran.stdout).unwrap().trim(), sieve.pid().unwrap().to_string());
        assert_eq!(ran.status.code(), Some(3));
    }
}

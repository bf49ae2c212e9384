//! Remote commands: their output, their end, and how they are stopped.

use std::{future::pending, sync::Arc, time::Duration};

use kit::{
    Cx, Fault, Kind, Output,
    procs::{Exit, Recording, signal_name},
    services::Live,
};
use parking_lot::Mutex;
use russh::{ChannelMsg, ChannelReadHalf, ChannelWriteHalf, Sig, client::Msg};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::task::AbortOnDropHandle;

use super::{
    client::Connection,
    pool::Open,
    stop::{self, Fate, Sieve},
};
use crate::shell::{
    SHOWN,
    answer::{self, time},
};

/// Time to wait for the rest of the output, if a process that the command started goes on.
const DRAIN: Duration = Duration::from_millis(500);
const LONGEST_DRAIN: Duration = Duration::from_secs(5);

/// Time for a command to end when it is stopped: if an answer waits for it, and otherwise.
const GRACE: Duration = Duration::from_millis(120);
const LONG_GRACE: Duration = Duration::from_millis(4500);

/// Time to wait for the process id of its shell.
const TO_BE_NUMBERED: Duration = Duration::from_secs(10);

/// Limits of waiting for a command: before it becomes a job, and in all.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) wait: Duration,
    pub(super) most: Option<Duration>,
}

/// A command to send.
pub(super) struct Sent {
    pub(super) line: String,
    pub(super) input: String,
    pub(super) terminal: bool,
}

/// Runs it there; it becomes a job if it exceeds the waiting time.
pub(super) async fn run(cx: &Cx, open: Open, sent: Sent, limits: Limits) -> Result<Output, Fault> {
    let Open { channel, connection, held: _held, notes } = open;
    let (read, write) = channel.split();
    let write = Arc::new(write);
    let lost = || {
        let what = format!("{}: {}; the command was not sent", connection.place, connection.why_ended());
        Fault::new(Kind::Unavailable, what).next("Try again.")
    };
    if sent.terminal {
        write.request_pty(false, "xterm-256color", 120, 40, 0, 0, &[]).await.map_err(|_| lost())?;
    }
    // A terminal ends with its channel, and merges stdout and stderr.
    let sieve = match !sent.terminal && connection.has_a_shell() {
        true => Some(Sieve::new()?),
        false => None,
    };
    let line = sieve.as_ref().map_or_else(|| sent.line.clone(), |it| it.line(&sent.line));
    write.exec(true, line).await.map_err(|_| lost())?;
    let recording = Arc::new(cx.procs().recording());
    cx.caller().show(Live { output: Some(recording.clone()), ..Live::default() });
    let _feeding = AbortOnDropHandle::new(tokio::spawn(feed(write.clone(), sent.input)));
    let sieve = Mutex::new(sieve);
    let terminal = sent.terminal;
    let number = watch::Sender::new(None);
    let command =
        Command { recording, write, connection, began: Instant::now(), notes, sieve, number, terminal };
    Arc::new(command).wait(cx, read, limits).await
}

/// Sends the command its input, and closes it.
async fn feed(write: Arc<ChannelWriteHalf<Msg>>, input: String) {
    // A command that stops reading ends with its channel.
    if write.data_bytes(input.into_bytes()).await.is_ok() {
        let _ = write.eof().await;
    }
}

/// A command in flight.
struct Command {
    recording: Arc<Recording>,
    write: Arc<ChannelWriteHalf<Msg>>,
    connection: Arc<Connection>,
    began: Instant,
    /// Notes for the answer, before its output.
    notes: Vec<String>,
    /// The filter that extracts the process id of its shell.
    sieve: Mutex<Option<Sieve>>,
    number: watch::Sender<Option<u32>>,
    terminal: bool,
}

/// The outcome.
struct Ended {
    how: How,
    /// Whether a process that it started keeps its output open.
    goes_on: bool,
}

enum How {
    Exit(Exit),
    /// A signal without a number on this machine.
    Signal(String),
    /// The server reported no exit status.
    Unsaid,
    /// The server runs no commands.
    Refused,
    /// The connection is gone.
    Lost,
}

impl Command {
    async fn wait(self: &Arc<Self>, cx: &Cx, read: ChannelReadHalf, limits: Limits) -> Result<Output, Fault> {
        let until = limits.most.map(|it| self.began + it);
        let mut over = AbortOnDropHandle::new(tokio::spawn(self.clone().over(read)));
        let ended = tokio::select! {
            biased;
            () = cx.cancelled() => return Err(self.stopped(over, Kind::Cancelled, GRACE).await),
            ended = &mut over => ended,
            () = at(until) => return Err(self.stopped(over, Kind::Timeout, LONG_GRACE).await),
            () = sleep(limits.wait) => {
                cx.caller().go_on(self.so_far(cx));
                tokio::select! {
                    biased;
                    () = cx.cancelled() => return Err(self.stopped(over, Kind::Cancelled, LONG_GRACE).await),
                    ended = &mut over => ended,
                    () = at(until) => return Err(self.stopped(over, Kind::Timeout, LONG_GRACE).await),
                }
            }
        };
        self.answer(&ended.map_err(|error| Fault::bug(format!("what a remote command writes: {error}")))?)
    }

    /// Records its output, until it is over.
    async fn over(self: Arc<Self>, mut read: ChannelReadHalf) -> Ended {
        let mut how: Option<How> = None;
        let mut is_closed = false;
        let mut drained = Instant::now();
        let goes_on = loop {
            let message = match how {
                None => read.wait().await,
                Some(_) => match timeout(DRAIN, read.wait()).await {
                    Ok(message) if drained.elapsed() < LONGEST_DRAIN => message,
                    Ok(_) | Err(_) => break true,
                },
            };
            match message {
                Some(ChannelMsg::Data { data }) => self.recording.feed(&data),
                Some(ChannelMsg::ExtendedData { data, .. }) => {
                    let sifted = self.sift(&data);
                    self.recording.feed(sifted.as_deref().unwrap_or(&data));
                }
                Some(ChannelMsg::ExitStatus { exit_status }) => {
                    self.is_over_there();
                    how = Some(How::Exit(Exit::Code(i32::try_from(exit_status).unwrap_or(i32::MAX))));
                    drained = Instant::now();
                }
                Some(ChannelMsg::ExitSignal { signal_name, .. }) => {
                    self.is_over_there();
                    how = Some(by_signal(signal_name));
                    drained = Instant::now();
                }
                Some(ChannelMsg::Failure) if how.is_none() => {
                    how = Some(How::Refused);
                    break false;
                }
                Some(ChannelMsg::Close) => {
                    is_closed = true;
                    break false;
                }
                None => break false,
                Some(_) => {}
            }
        };
        let rest = self.sieve.lock().as_mut().map(Sieve::rest);
        self.recording.feed(&rest.unwrap_or_default());
        self.recording.close();
        let _ = self.write.close().await;
        let unsaid = if is_closed && !self.connection.is_closed() { How::Unsaid } else { How::Lost };
        Ended { how: how.unwrap_or(unsaid), goes_on }
    }

    /// Removes the process id from the shell's output. Once it is known, the watchdog covers the command.
    fn sift(&self, data: &[u8]) -> Option<Vec<u8>> {
        let mut sieve = self.sieve.lock();
        let sieve = sieve.as_mut()?;
        let before = sieve.pid();
        let rest = sieve.feed(data);
        if let (None, Some(pid)) = (before, sieve.pid()) {
            self.connection.watchdog.arm(&self.connection, pid);
            self.number.send_replace(Some(pid));
        }
        Some(rest)
    }

    /// Waits for the process id of its shell.
    async fn numbered(&self) -> u32 {
        let mut number = self.number.subscribe();
        match number.wait_for(Option::is_some).await.map(|it| *it) {
            Ok(Some(pid)) => pid,
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// Disarms the watchdog: the process id may be reused soon, and background processes are to stay.
    fn is_over_there(&self) {
        if let Some(pid) = *self.number.borrow() {
            self.connection.watchdog.disarm(pid);
        }
    }

    fn answer(&self, ended: &Ended) -> Result<Output, Fault> {
        let place = &self.connection.place;
        let (exit, line) = match &ended.how {
            How::Exit(exit) if exit.is_success() => (Some(exit.code()), None),
            How::Exit(exit) => (Some(exit.code()), Some(answer::ended(*exit))),
            How::Signal(name) => (None, Some(format!("[ended by SIG{name}]"))),
            How::Unsaid => {
                (None, Some("[exit unknown: the server closed the channel without a word of it]".to_owned()))
            }
            How::Refused => {
                let what = format!("{place} lets us in, and runs no commands for us");
                return Err(Fault::denied(what).next("It may offer files alone: try `get` or `put`."));
            }
            How::Lost => {
                let why = self.connection.why_ended();
                let what = format!(
                    "{place}: {why}, after the command was sent; it may or may not have been done, or may still run there"
                );
                return Err(Fault::new(Kind::Unavailable, what)
                    .next("Look there what became of it before it is run again.")
                    .seen(self.written()));
            }
        };
        let mut lines: Vec<String> = line.into_iter().collect();
        if ended.goes_on {
            lines.push("[something it started goes on there, and holds its output open]".to_owned());
        }
        if self.sieve.lock().as_ref().is_some_and(Sieve::was_not_understood) {
            self.connection.has_no_shell();
            if exit != Some(0) {
                lines.push(
                    "[no shell read it there; the next call on this connection sends the command as it is, or `pty`: true]"
                        .to_owned(),
                );
            }
        }
        lines.extend(self.notes.iter().cloned());
        let text = self.recording.since(0, SHOWN).text;
        Ok(Output { exit, ..Output::text(answer::with(&text, &lines)) })
    }

    /// Returns its output until now.
    fn written(&self) -> Output {
        let text = self.recording.since(0, SHOWN).text;
        Output::text(text.trim_end_matches('\n'))
    }

    /// Stops it there, and returns the fault.
    async fn stopped(self: &Arc<Self>, over: AbortOnDropHandle<Ended>, kind: Kind, grace: Duration) -> Fault {
        let took = time(self.began.elapsed());
        let pid = *self.number.borrow();
        let what = match pid {
            Some(pid) => self.end(over, pid, grace).await,
            None => self.signal(over, grace).await,
        };
        let text = self.recording.since(0, SHOWN).text;
        let fault = match kind {
            Kind::Timeout => Fault::new(kind, format!("stopped at its `timeout_ms`, after {took}")),
            kind => Fault::new(kind, format!("stopped after {took}")),
        };
        fault.seen(Output::text(answer::with(&text, &[what])))
    }

    async fn let_go(&self) {
        let _ = self.write.close().await;
        self.recording.close();
    }

    /// Stops it by the process id of its shell.
    async fn end(&self, mut over: AbortOnDropHandle<Ended>, pid: u32, grace: Duration) -> String {
        let mut ending = stop::end(self.connection.clone(), pid);
        let mut is_over = false;
        let both = async {
            loop {
                tokio::select! {
                    fate = &mut ending => break fate.unwrap_or(Fate::Unsaid),
                    // Its last output is recorded meanwhile.
                    _ = &mut over, if !is_over => is_over = true,
                }
            }
        };
        let what = match timeout(grace, both).await {
            Ok(Fate::Gone) => "[stopped]".to_owned(),
            Ok(Fate::GoesOn) => format!("[it does not end; it goes on there as pid {pid}]"),
            Ok(Fate::Unsaid) => {
                let _ = self.write.signal(Sig::TERM).await;
                format!("[it was sent SIGTERM and its channel was closed; it may go on there as pid {pid}]")
            }
            Err(_) => format!("[it is being ended there: pid {pid}]"),
        };
        self.let_go().await;
        what
    }

    /// Stops it by SSH's own signal request; some servers ignore it. If a command is stopped right after its
    /// start, its process id is still on the way, and stops it for certain.
    async fn signal(self: &Arc<Self>, mut over: AbortOnDropHandle<Ended>, grace: Duration) -> String {
        let _ = self.write.signal(Sig::TERM).await;
        let ended = tokio::select! {
            biased;
            pid = self.numbered() => return self.end(over, pid, grace).await,
            ended = timeout(GRACE, &mut over) => ended,
        };
        let what = match ended {
            Ok(Ok(Ended { how: How::Exit(_) | How::Signal(_), .. })) => "[stopped]",
            Ok(_) | Err(_) if self.terminal => {
                "[it was sent SIGTERM and its terminal was closed; what ignores both goes on there]"
            }
            Err(_) if self.sieve.lock().is_some() => {
                tokio::spawn(self.clone().end_later(over));
                return "[it was sent SIGTERM, and is ended there as soon as it says which process it is]"
                    .to_owned();
            }
            Ok(_) | Err(_) => {
                "[it was sent SIGTERM and its channel was closed; which process it is there is not known, so it may go on]"
            }
        };
        self.let_go().await;
        what.to_owned()
    }

    /// Stops it in the background, after its answer.
    async fn end_later(self: Arc<Self>, over: AbortOnDropHandle<Ended>) {
        if let Ok(pid) = timeout(TO_BE_NUMBERED, self.numbered()).await {
            self.end(over, pid, LONG_GRACE).await;
        }
        self.let_go().await;
    }

    /// Returns the answer for a command that goes on as a job.
    fn so_far(&self, cx: &Cx) -> Output {
        let job = cx.caller().job();
        let took = time(self.began.elapsed());
        let text = self.recording.since(0, SHOWN).text;
        let mut notes = vec![
            format!("[still running on {} after {took}: {job}]", self.connection.place),
            answer::next(cx, &job),
        ];
        if self.terminal {
            notes.push(
                "[nothing can be typed into it any more: what it reads has to be in `stdin`]".to_owned(),
            );
        }
        notes.extend(self.notes.iter().cloned());
        Output::text(answer::with(&text, &notes))
    }
}

/// Waits until this time, if any.
pub(super) async fn at(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => pending().await,
    }
}

fn by_signal(signal: Sig) -> How {
    let (number, name) = match signal {
        Sig::HUP => (1, "HUP"),
        Sig::INT => (2, "INT"),
        Sig::QUIT => (3, "QUIT"),
        Sig::ILL => (4, "ILL"),
        Sig::ABRT => (6, "ABRT"),
        Sig::FPE => (8, "FPE"),
        Sig::KILL => (9, "KILL"),
        Sig::SEGV => (11, "SEGV"),
        Sig::PIPE => (13, "PIPE"),
        Sig::ALRM => (14, "ALRM"),
        Sig::TERM => (15, "TERM"),
        Sig::Custom(name) => {
            let plain = name.chars().filter(char::is_ascii_alphanumeric).take(20).collect();
            return How::Signal(plain);
        }
        _ => return How::Signal("?".to_owned()),
    };
    // Signal numbers are those of this machine.
    match signal_name(number).ends_with(name) {
        true => How::Exit(Exit::Signal(number)),
        false => How::Signal(name.to_owned()),
    }
}

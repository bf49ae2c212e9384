//! Running code, and its result.

use std::{os::fd::OwnedFd, sync::Arc, time::Duration};

use kit::{
    Cx, Fault, Kind, OrFault, Output,
    procs::{Ending, Exit, Process, Recording, left_running},
    services::Live,
};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::time::timeout;

use super::{
    interpreter::{Interpreters, names, none},
    warm::{Ended, Handed, Request, Warm, Word},
};

/// Maximum bytes of output that are shown; longer output is in a file as a whole.
const SHOWN: usize = 30 << 10;
/// Bytes at the end of the output that are searched for sandbox denials.
const TELLING: usize = 4 << 10;
/// Time for code to end after its time limit.
const LAST_WORDS: Duration = Duration::from_millis(1_500);
/// Time for code to end after a cancellation: an answer is promised within 200 ms.
const AT_ONCE: Duration = Duration::from_millis(120);
/// Time to wait for the output of code that has ended.
const DRAIN: Duration = Duration::from_secs(2);

/// Code that is to be run.
pub(super) struct Code<'a> {
    pub(super) text: &'a str,
    /// The rest of `sys.argv`.
    pub(super) arguments: &'a [String],
    pub(super) folder: Folder<'a>,
    pub(super) stdin: Option<&'a str>,
    /// Its time limit.
    pub(super) at_most: Duration,
    pub(super) last: Last,
    pub(super) reach: Reach,
}

/// The working directory of code.
#[derive(Clone, Copy)]
pub(super) enum Folder<'a> {
    /// This one, as the model wrote it.
    Named(&'a str),
    /// An empty one that is deleted afterwards.
    Scratch,
}

/// The treatment of a last statement that is an expression.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    /// Its value is printed, as in a notebook.
    Shown,
    /// Its value is ignored, as with `python3 -c`.
    Ignored,
}

/// The permissions of code.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Those of every command of the session, so that a warm interpreter can be used.
    Session,
    /// Those of this call alone.
    Call,
}

/// Code that has run.
pub(super) struct Ran {
    pub(super) end: End,
    output: Arc<Recording>,
    /// Number of processes it left behind that had to be killed.
    left: usize,
}

/// The reason why it ended.
#[derive(Debug, Clone, Copy)]
pub(super) enum End {
    Exited(Exit),
    TimedOut,
    Stopped,
}

impl Code<'_> {
    /// Runs it in an interpreter of its own, and kills whatever it leaves behind.
    pub(super) async fn run(&self, cx: &Cx) -> Result<Ran, Fault> {
        let (folder, scratch) = match self.folder {
            Folder::Named(path) => (cx.files().locate(path)?.absolute(), ""),
            Folder::Scratch => (cx.files().roots().workspace().to_owned(), "scratch"),
        };
        if !folder.is_dir() {
            return Err(Fault::not_found(format!("there is no folder `{}`", folder.display())));
        }
        let last = if self.last == Last::Shown { "last" } else { "" };
        let request = Request {
            options: &format!("{last} {scratch}"),
            folder: &folder.display().to_string(),
            code: self.text,
            arguments: self.arguments,
            stdin: self.stdin,
        };
        let names = names(cx);
        if self.reach == Reach::Session
            && let Some(ran) = self.forked(&request, &names, cx).await?
        {
            return Ok(ran);
        }
        let found = cx.shelf().get::<Interpreters>().found(&names).await;
        self.alone(&request, &found, cx).await
    }

    /// Runs it by a fork of the warm interpreter; `None` when there is none.
    async fn forked(&self, request: &Request<'_>, names: &[String], cx: &Cx) -> Result<Option<Ran>, Fault> {
        let interpreters = cx.shelf().get::<Interpreters>();
        // One that died, or differs from a fresh one by now, is replaced once.
        for _ in 0..2 {
            let warm = tokio::select! {
                biased;
                () = cx.cancelled() => return Err(not_begun()),
                warm = interpreters.warm(names, cx) => warm?,
            };
            let Some(warm) = warm else { return Ok(None) };
            let (read, write) = pipe().or_fault(Kind::Unavailable, "a pipe can't be made")?;
            let output = cx.procs().record(read)?;
            let _changes = cx.procs().during(warm.process());
            let handed = tokio::select! {
                biased;
                () = cx.cancelled() => return Err(not_begun()),
                handed = warm.hand(request, write) => handed.or_fault(Kind::Unavailable, "the code can't be handed over")?,
            };
            let Some(handed) = handed else {
                interpreters.forget(&warm).await;
                continue;
            };
            cx.caller().show(Live { output: Some(output.clone()), ..Live::default() });
            let (end, ended) = self.watch(handed, &warm, cx).await;
            if ended.exit == Exit::Lost {
                interpreters.forget(&warm).await;
            }
            drain(&output, &end).await;
            return Ok(Some(Ran { end, output, left: ended.left }));
        }
        Ok(None)
    }

    /// Waits for the end, or enforces it.
    async fn watch(&self, mut handed: Handed, warm: &Arc<Warm>, cx: &Cx) -> (End, Ended) {
        let (end, word, grace) = tokio::select! {
            biased;
            ended = handed.ended() => return (End::Exited(ended.exit), ended),
            () = cx.cancelled() => (End::Stopped, Word::Kill, AT_ONCE),
            () = cx.caller().passed(self.at_most) => (End::TimedOut, Word::Interrupt, LAST_WORDS),
        };
        handed.send(word).await;
        let ended = timeout(grace, handed.ended()).await;
        let ended = ended.unwrap_or(Ended { exit: Exit::Lost, left: 0 });
        if ended.exit == Exit::Lost {
            // The interpreter that should have killed it does not: kill its whole tree.
            let warm = warm.clone();
            let going = tokio::spawn(async move { warm.end().await });
            let _ = timeout(AT_ONCE, going).await;
        }
        (end, ended)
    }

    /// Runs it in a process that is started for it.
    async fn alone(&self, request: &Request<'_>, names: &[String], cx: &Cx) -> Result<Ran, Fault> {
        let process = Arc::new(start(request, names, cx).await?);
        let output = process.output().clone();
        cx.caller().show(Live {
            output: Some(output.clone()),
            process: Some(process.clone()),
            ..Live::default()
        });
        if let Some(text) = self.stdin {
            let (process, text) = (process.clone(), text.to_owned());
            tokio::spawn(async move {
                // A program need not read all of its input.
                let _ = process.write(text.as_bytes()).await;
                process.close_input();
            });
        }
        let end = tokio::select! {
            biased;
            exit = process.exited() => End::Exited(exit),
            () = cx.cancelled() => End::Stopped,
            () = cx.caller().passed(self.at_most) => End::TimedOut,
        };
        if matches!(end, End::TimedOut) {
            const INTERRUPT: i32 = 2;
            // An interrupt first, as by Ctrl-C, so that it prints a traceback. If it has ended, nothing is lost.
            let _ = process.signal(INTERRUPT).await;
            let _ = timeout(AT_ONCE, process.exited()).await;
        }
        let had_exited = process.exit().is_some();
        let ended = process.end(Ending::NOW);
        let ended = if matches!(end, End::Stopped) {
            timeout(AT_ONCE, ended).await.unwrap_or(0)
        } else {
            ended.await
        };
        drain(&output, &end).await;
        Ok(Ran { end, output, left: if had_exited { ended } else { ended.saturating_sub(1) } })
    }
}

impl Ran {
    /// Formats the output, and the processes that it left running.
    pub(super) fn shown(&self) -> String {
        let mut text = self.output.since(0, SHOWN).text;
        if text.ends_with('\n') {
            text.pop();
        }
        if text.is_empty() {
            "(no output)".clone_into(&mut text);
        }
        if let Some(line) = left_running(self.left) {
            text.push('\n');
            text.push_str(&line);
        }
        text
    }

    /// Returns one line for each sandbox rule that may have made it fail.
    pub(super) fn denials(&self, exit: Exit, cx: &Cx) -> Vec<String> {
        cx.denials(exit, &self.output.tail(TELLING).text)
    }

    /// Returns the fault for code that was cancelled.
    pub(super) fn stopped(&self) -> Fault {
        Fault::new(Kind::Cancelled, "the code was stopped, with all it had started")
            .seen(Output::text(self.shown()))
    }
}

/// Starts the first interpreter that exists.
async fn start(request: &Request<'_>, names: &[String], cx: &Cx) -> Result<Process, Fault> {
    for name in names {
        let program = request.alone(name).or_fault(Kind::Unavailable, "a pipe can't be made")?;
        match cx.procs().start(program).await {
            Err(fault) if fault.kind == Kind::NotFound => {}
            started => return started,
        }
    }
    Err(none(names))
}

/// Waits for the rest of the output. The writer has ended, so little is left.
async fn drain(output: &Recording, end: &End) {
    let grace = if matches!(end, End::Stopped) { Duration::from_millis(20) } else { DRAIN };
    let _ = timeout(grace, async { while output.grown(output.total()).await {} }).await;
}

fn pipe() -> std::io::Result<(OwnedFd, OwnedFd)> {
    Ok(pipe_with(PipeFlags::CLOEXEC)?)
}

fn not_begun() -> Fault {
    Fault::new(Kind::Cancelled, "the call was stopped before its code began")
}

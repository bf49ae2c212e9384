//! Running code, and its result.

use std::{os::fd::OwnedFd, sync::Arc, time::Duration};

use kit::{
    Cx, Fault, Kind, OrFault, Output,
    procs::{Ending, Exit, Process, Recording},
    services::Live,
};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::time::{sleep, timeout};

use super::{
    interpreter::{Interpreters, names, none},
    warm::{Ended, Handed, Request, Warm, Word},
};

/// How much of the output a model is shown; all of it is in a file if it is longer.
const SHOWN: usize = 30 << 10;
/// How much of the output's end may tell that the sandbox was in the way.
const TELLING: usize = 4 << 10;
/// How long code may take to end once its time is up.
const LAST_WORDS: Duration = Duration::from_millis(1_500);
/// The same once the call was stopped: an answer is promised within 200 ms.
const AT_ONCE: Duration = Duration::from_millis(120);
/// How long the output of code that has ended is waited for.
const DRAIN: Duration = Duration::from_secs(2);

/// Code that is to be run.
pub(super) struct Code<'a> {
    pub(super) text: &'a str,
    /// What follows in `sys.argv`.
    pub(super) arguments: &'a [String],
    pub(super) folder: Folder<'a>,
    pub(super) stdin: Option<&'a str>,
    /// How long it may take.
    pub(super) at_most: Duration,
    pub(super) last: Last,
    pub(super) reach: Reach,
}

/// Where code runs.
#[derive(Clone, Copy)]
pub(super) enum Folder<'a> {
    /// Here, as the model wrote it.
    Named(&'a str),
    /// In an empty one that goes when it ends.
    Scratch,
}

/// What becomes of the value of an expression that is the last statement.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    /// It is printed, as in a notebook.
    Shown,
    /// Nothing, as with `python3 -c`.
    Ignored,
}

/// What code may reach.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// What every command of the session may, so that a warm interpreter will do.
    Session,
    /// What was granted to this call alone.
    Call,
}

/// Code that has run.
pub(super) struct Ran {
    pub(super) end: End,
    output: Arc<Recording>,
    /// How many processes that it left behind had to be killed.
    left: usize,
}

/// Why it is over.
#[derive(Debug, Clone, Copy)]
pub(super) enum End {
    Exited(Exit),
    TimedOut,
    Stopped,
}

impl Code<'_> {
    /// Runs it in an interpreter of its own, and ends whatever it leaves behind.
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

    /// Has it run by a fork of the warm interpreter; none when there is none to be had.
    async fn forked(&self, request: &Request<'_>, names: &[String], cx: &Cx) -> Result<Option<Ran>, Fault> {
        let interpreters = cx.shelf().get::<Interpreters>();
        // One that died, or is no longer what a fresh one would be, is replaced once.
        for _ in 0..2 {
            let warm = tokio::select! {
                biased;
                () = cx.cancelled() => return Err(not_begun()),
                warm = interpreters.warm(names, cx) => warm?,
            };
            let Some(warm) = warm else { return Ok(None) };
            let (read, write) = pipe().or_fault(Kind::Unavailable, "a pipe can't be made")?;
            let output = cx.procs().record(read)?;
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

    /// Waits for the end, or brings it about.
    async fn watch(&self, mut handed: Handed, warm: &Arc<Warm>, cx: &Cx) -> (End, Ended) {
        let (end, word, patience) = tokio::select! {
            biased;
            ended = handed.ended() => return (End::Exited(ended.exit), ended),
            () = cx.cancelled() => (End::Stopped, Word::Kill, AT_ONCE),
            () = sleep(self.at_most) => (End::TimedOut, Word::Interrupt, LAST_WORDS),
        };
        handed.tell(word).await;
        let ended = timeout(patience, handed.ended()).await;
        let ended = ended.unwrap_or(Ended { exit: Exit::Lost, left: 0 });
        if ended.exit == Exit::Lost {
            // Whoever should have ended it does not: the tree it is in goes.
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
                // Who does not read all of it has no need of it.
                let _ = process.write(text.as_bytes()).await;
                process.close_input();
            });
        }
        let end = tokio::select! {
            biased;
            exit = process.exited() => End::Exited(exit),
            () = cx.cancelled() => End::Stopped,
            () = sleep(self.at_most) => End::TimedOut,
        };
        if matches!(end, End::TimedOut) {
            const INTERRUPT: i32 = 2;
            // As by Ctrl-C first, so that it says where it was. If it is gone, it has said it.
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
    /// What was printed, and what was left behind.
    pub(super) fn shown(&self) -> String {
        let mut text = self.output.since(0, SHOWN).text;
        if text.ends_with('\n') {
            text.pop();
        }
        if text.is_empty() {
            "(no output)".clone_into(&mut text);
        }
        match self.left {
            0 => {}
            1 => text.push_str("\n[1 process that it left behind was ended]"),
            left => text.push_str(&format!("\n[{left} processes that it left behind were ended]")),
        }
        text
    }

    /// What of its failure the sandbox may be to blame for, one line each.
    pub(super) fn denials(&self, exit: Exit, cx: &Cx) -> Vec<String> {
        cx.denials(exit, &self.output.tail(TELLING).text)
    }

    /// What is said of code that was stopped from outside.
    pub(super) fn stopped(&self) -> Fault {
        Fault::new(Kind::Cancelled, "the code was stopped, with all it had started")
            .seen(Output::text(self.shown()))
    }
}

/// Starts the first of the interpreters that is there.
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

/// Waits for what is still in the pipe. Whoever wrote to it has ended, so there is little to wait for.
async fn drain(output: &Recording, end: &End) {
    let patience = if matches!(end, End::Stopped) { Duration::from_millis(20) } else { DRAIN };
    let _ = timeout(patience, async { while output.grown(output.total()).await {} }).await;
}

fn pipe() -> std::io::Result<(OwnedFd, OwnedFd)> {
    Ok(pipe_with(PipeFlags::CLOEXEC)?)
}

fn not_begun() -> Fault {
    Fault::new(Kind::Cancelled, "the call was stopped before its code began")
}

//! `bash`: runs a command in the session's persistent bash.

use std::{
    path::PathBuf,
    sync::{Arc, Weak},
    time::Duration,
};

use kit::{
    prelude::*,
    procs::{Ending, Exit, Process},
    services::{Listens, Live, Soon},
};
use tokio::{sync::Mutex, time::Instant};

use super::{
    answer::{self, SHOWN},
    lasting::{self, BytesWritten, Came, Errors, Lasting},
    part::PartOfCall,
    start::checked,
};

/// Default and maximum time limit of a command, in seconds.
const DEADLINE: u64 = 120;
const LONGEST: u64 = 3600;

/// Time for processes to end by themselves: after a timeout, and when a caller waits for the answer.
const GRACE: Duration = Duration::from_millis(500);
const SHORT_GRACE: Duration = Duration::from_millis(40);

/// Extra time that the runtime allows beyond the time limit.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Run a command in this session's bash: folder, variables, functions and background processes stay for the next call.
/// [?For long commands use `tool:shell`.?][? For interactive ones use `tool:interact`.?]
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bash {
    /// One line or many.
    #[serde(default)]
    command: String,
    /// Seconds until it is stopped; at most 3600. Default: 120.
    #[serde(default)]
    timeout_s: Option<u64>,
    /// Start a new bash first.
    #[serde(default)]
    restart: bool,
    /// Not an argument: the toolset says it.
    #[serde(skip)]
    errors: Errors,
}

/// The session's bash; one with separate stderr is another process.
#[derive(Default)]
struct SessionBash {
    place: Mutex<Place>,
    apart: Mutex<Place>,
}

#[derive(Default)]
struct Place {
    bash: Option<Lasting>,
    /// The working directory of the last one.
    cwd: Option<String>,
    /// Whether it has ended and the model was not notified yet.
    gone: bool,
}

impl Tool for Bash {
    const NAME: &str = "bash";
    const AT_MOST: Kinds = Kinds::RUN.with(Kinds::SESSION).with(Kinds::EXCLUSIVE);

    fn touches(&self) -> Touches {
        let touches = Touches::session("bash").and(Touch::Exclusive);
        if self.command.is_empty() { touches } else { touches.and(Touch::Run(self.command.clone())) }
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(self.deadline() + LAST_WORDS)
    }

    fn title(&self) -> String {
        super::title(&self.command)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let kept = cx.shelf().get::<SessionBash>();
        let place = match self.errors {
            Errors::Among => &kept.place,
            Errors::Apart => &kept.apart,
        };
        let Ok(mut place) = place.try_lock() else {
            return Err(Fault::new(
                Kind::Unavailable,
                "the session's bash is busy with a call that moved to the background",
            )
            .hint("Wait for that job[?, or use `tool:shell`?]."));
        };
        if self.restart {
            *place = Place::default();
            if self.command.is_empty() {
                return Ok(Output::text("the next call starts a new bash in the workspace"));
            }
        }
        checked(&self.command)?;
        place.run(&self, cx).await
    }
}

impl Bash {
    /// Creates a call with a command only, whose stderr is shown after its stdout.
    pub(crate) fn errors_apart(command: String) -> Self {
        Self { command, timeout_s: None, restart: false, errors: Errors::Apart }
    }

    fn deadline(&self) -> Duration {
        Duration::from_secs(self.timeout_s.unwrap_or(DEADLINE).clamp(1, LONGEST))
    }
}

impl Place {
    async fn run(&mut self, call: &Bash, cx: &Cx) -> Result<Output, Fault> {
        // Taken out while a command runs: dropping the call ends both.
        let (mut bash, before) = self.take(call.errors, cx).await?;
        self.gone = true;
        let began = Instant::now();
        let from = bash.written();
        let earlier = bash.output().since(bash.shown, SHOWN / 4).text;
        let mark = bash.process().mark().await;
        let part = PartOfCall::new(bash.output().clone(), from.all);
        let listens = SinceMark { process: Arc::downgrade(bash.process()), mark };
        cx.caller().show(Live {
            output: Some(part.clone()),
            listens: Some(Arc::new(listens)),
            ..Live::default()
        });
        let _changes = cx.procs().during(bash.process());
        let word = bash.send(&call.command).await?;
        let came = tokio::select! {
            biased;
            () = cx.cancelled() => Err(SHORT_GRACE),
            came = bash.came(&word) => Ok(came),
            () = cx.caller().passed(call.deadline()) => Err(GRACE),
        };
        let mut notes = Notes { before, earlier, after: Vec::new() };
        match came {
            Ok(came) => {
                part.close();
                Ok(match came {
                    Came::Done => self.done(bash, from, notes, cx),
                    Came::Ended(exit) => self.ended(&bash, from, exit, notes, cx),
                })
            }
            Err(grace) => {
                let what = Self::stop(&mut bash, &word, mark, grace, cx).await;
                part.close();
                let took = answer::time(began.elapsed());
                let cancelled = cx.check().is_err();
                if cancelled {
                    // A cancelled call only reports its partial output.
                    notes.after.push(format!("[{what}]"));
                }
                let seen = Output::text(notes.around(&shown(&bash, from)));
                if bash.process().exit().is_none() {
                    self.keep(bash);
                }
                let next = "[?Give it a longer `arg:bash.timeout_s`.|Split it into shorter commands.?][? `tool:shell` goes on in the background.?]";
                Err(if cancelled {
                    Fault::new(Kind::Cancelled, format!("stopped after {took}")).seen(seen)
                } else {
                    Fault::new(Kind::Timeout, format!("stopped after {took}, its time limit: {what}"))
                        .hint(next)
                        .seen(seen)
                })
            }
        }
    }

    /// Stops what a command started, and bash too if it does not respond; returns a description.
    async fn stop(bash: &mut Lasting, word: &str, mark: u64, grace: Duration, cx: &Cx) -> String {
        let goes_on = "bash goes on, with its variables and folder";
        match bash.interrupt(cx, word, mark, grace).await {
            (0, true) => goes_on.to_owned(),
            (ended, true) => format!("{ended} of its processes ended; {goes_on}"),
            (_, false) => {
                bash.process().end(Ending::within(SHORT_GRACE)).await;
                "bash did not answer and was ended with all it ran; the next call starts a new one".to_owned()
            }
        }
    }

    /// Returns the existing bash, or a new one, with notes about that.
    async fn take(&mut self, errors: Errors, cx: &Cx) -> Result<(Lasting, Vec<String>), Fault> {
        if let Some(bash) = self.bash.take().filter(|it| it.process().exit().is_none()) {
            return Ok((bash, Vec::new()));
        }
        let workspace = cx.files().roots().workspace().to_owned();
        let cwd = self.cwd.as_ref().map(PathBuf::from).filter(|_| self.cwd.is_some());
        let new = match cwd.clone() {
            Some(cwd) => match Lasting::start(cx, cwd, errors).await {
                Err(fault) if fault.kind == Kind::NotFound => Lasting::start(cx, workspace, errors).await?,
                other => other?,
            },
            None => Lasting::start(cx, workspace, errors).await?,
        };
        let before = if std::mem::take(&mut self.gone) || cwd.is_some() {
            vec![format!(
                "[a new bash, in {}: variables and functions of the last one are gone]",
                new.last.cwd
            )]
        } else {
            Vec::new()
        };
        self.cwd = Some(new.last.cwd.clone());
        Ok((new, before))
    }

    fn keep(&mut self, mut bash: Lasting) {
        bash.shown = bash.output().total();
        self.cwd = Some(bash.last.cwd.clone());
        self.gone = false;
        self.bash = Some(bash);
    }

    fn done(&mut self, bash: Lasting, from: BytesWritten, mut notes: Notes, cx: &Cx) -> Output {
        let exit = Exit::Code(bash.last.status);
        let text = notes.of(&bash, from, exit, cx);
        if self.cwd.as_ref() != Some(&bash.last.cwd) {
            notes.after.push(format!("[cwd: {}]", bash.last.cwd));
        }
        self.keep(bash);
        Output { exit: Some(exit.code()), ..Output::text(notes.around(&text)) }
    }

    fn ended(&mut self, bash: &Lasting, from: BytesWritten, exit: Exit, mut notes: Notes, cx: &Cx) -> Output {
        let text = notes.of(bash, from, exit, cx);
        self.gone = true;
        notes.after.push("[bash has ended; the next call starts a new one]".to_owned());
        Output { exit: Some(exit.code()), ..Output::text(notes.around(&text)) }
    }
}

/// Reports the ports that the processes of one call in the session's bash listen on, without those of earlier calls.
struct SinceMark {
    // A weak reference: asking must not keep bash alive.
    process: Weak<Process>,
    mark: u64,
}

impl Listens for SinceMark {
    fn ports(&self) -> Soon<'_, Vec<u16>> {
        Box::pin(async move {
            match self.process.upgrade() {
                Some(process) => process.left_since(self.mark).await.ports,
                None => Vec::new(),
            }
        })
    }
}

/// The notes around an output.
struct Notes {
    before: Vec<String>,
    /// Output since the last call.
    earlier: String,
    after: Vec<String>,
}

impl Notes {
    /// Returns the output from byte `from` on, and adds a note on how the command ended.
    fn of(&mut self, bash: &Lasting, from: BytesWritten, exit: Exit, cx: &Cx) -> String {
        let output = bash.output();
        // Under its own name, so that the path of bash's script is not taken for a refused file.
        let tail = named(&output.since(from.all.max(output.total().saturating_sub(4096)), 4096).text);
        if !exit.is_success() {
            self.after.push(answer::ended(exit));
            self.after.extend(answer::asked(&tail).map(|it| cx.named(&it)));
        }
        // A successful command may have made a file that a person should know of.
        self.after.extend(cx.denials(exit, &tail));
        shown(bash, from)
    }

    fn around(&self, text: &str) -> String {
        let mut whole = String::new();
        for line in &self.before {
            whole.push_str(line);
            whole.push('\n');
        }
        let earlier = self.earlier.trim_end_matches('\n');
        if !earlier.is_empty() {
            whole.push_str("[from the background, since the last call:]\n");
            whole.push_str(earlier);
            whole.push_str("\n[from this call:]\n");
        }
        whole.push_str(&answer::with(text, &self.after));
        whole
    }
}

/// Returns the output after that. Separate stderr follows the output, under a line of its own.
fn shown(bash: &Lasting, from: BytesWritten) -> String {
    let (output, errors) = bash.since(from, SHOWN);
    let output = named(&output);
    let Some(errors) = errors.filter(|it| !it.trim().is_empty()) else { return output };
    let output = output.trim_end_matches('\n');
    let end = if output.is_empty() { "" } else { "\n" };
    format!("{output}{end}Error:\n{}", named(&errors))
}

/// Replaces the script's path in bash's own messages by its name: bash reads from a descriptor, whose path
/// and line mean nothing to a model.
fn named(text: &str) -> String {
    let script = lasting::script_name();
    let name = |line: &str| {
        let rest = line.strip_prefix(&script)?.strip_prefix(": ")?;
        let rest = rest.strip_prefix("eval: ").unwrap_or(rest);
        let rest = match rest.strip_prefix("line ").and_then(|it| it.split_once(": ")) {
            Some((number, rest)) if number.bytes().all(|it| it.is_ascii_digit()) => rest,
            _ => rest,
        };
        Some(format!("bash: {rest}"))
    };
    text.split_inclusive('\n').map(|line| name(line).unwrap_or_else(|| line.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::named;

    #[test]
    fn bash_errors_begin_with_bash() {
        assert_eq!(named("/dev/fd/58: line 24: x: command not found\n"), "bash: x: command not found\n");
        assert_eq!(named("/dev/fd/58: line 1: /etc/y: Read-only\n"), "bash: /etc/y: Read-only\n");
        assert_eq!(named("a\n/dev/fd/58: eval: line 3: unexpected\nb"), "a\nbash: unexpected\nb");
        assert_eq!(named("see /dev/fd/58: line 1: no\n"), "see /dev/fd/58: line 1: no\n");
    }
}

//! The persistent shell: one bash through many calls.
//!
//! Its script is a pipe, and gets one line for each call:
//!
//! ```text
//! \builtin eval '…the command…'; { …print on 57 how it went… } >/dev/null 2>&1
//! ```
//!
//! The command runs at top level, so that `return`, `break`, `declare` and `exec` work as when typed. Nothing
//! is redirected for it either: bash would save the old descriptors at 10 and above, where a command's own
//! `exec 10>file` would land. bash reports the result on a descriptor of its own, between two copies of a
//! word that is new in each call: no output of a command can be taken for it. Traps, `set -x` and `set -v`
//! are switched off during the report, and restored before the next command, so that they only see what the
//! user wrote.
//!
//! To stop a command, killing its processes is not enough: bash would go on with the next one. A signal makes
//! bash skip everything up to the end of the line, and it keeps all its state.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use kit::{
    Cx, Fault, Kind, OrFault,
    procs::{Ending, Exit, Process, Program, Recording, Stdin, Streams},
};
use tokio::{
    io::AsyncWriteExt as _,
    net::unix::pipe::{Receiver, Sender},
};

/// The descriptor on which bash reports results, and the one of its script.
const TOLD: i32 = 57;
const SCRIPT: i32 = 58;

/// The signal that makes bash skip the rest: one that no other program uses.
const SKIP: i32 = if cfg!(target_os = "macos") { 31 } else { 63 };

/// Time to wait for bash's last output, if another process still holds its pipe.
const DRAIN: Duration = Duration::from_millis(100);

/// Time for bash to skip the rest, after which it is killed.
const TO_SKIP: Duration = Duration::from_millis(150);

/// A bash that runs one command after the other.
pub(super) struct Lasting {
    process: Arc<Process>,
    /// All output in its order, with separate stderr too.
    all: Arc<Recording>,
    script: Sender,
    status: StatusPipe,
    /// The result of the last command.
    pub(super) last: State,
    /// The state to restore before the next command.
    restore: Restore,
    /// Bytes of its output that were shown.
    pub(super) shown: u64,
}

/// The treatment of stderr.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Errors {
    /// Merged with stdout, as at a terminal.
    #[default]
    Among,
    /// In a recording of its own.
    Apart,
}

/// The number of bytes written: in all, to stdout, and to a separate stderr.
#[derive(Debug, Clone, Copy)]
pub(super) struct BytesWritten {
    pub(super) all: u64,
    output: u64,
    errors: Option<u64>,
}

/// The state of bash after a command.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct State {
    /// The command's exit code.
    pub(super) status: i32,
    /// Its working directory.
    pub(super) cwd: String,
}

/// The state that is switched off during a report.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Restore {
    /// `$-`.
    flags: String,
    /// The output of `trap -p DEBUG ERR`.
    traps: String,
    /// Whether it was made to skip the rest.
    skipped: bool,
}

/// Returns the path of bash's script, as in its messages.
pub(super) fn script_name() -> String {
    format!("/dev/fd/{SCRIPT}")
}

/// The result of waiting for a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// It has ended, and bash waits for the next one.
    Done,
    /// bash itself has ended.
    Ended(Exit),
}

impl Lasting {
    /// Starts a bash in `cwd`.
    pub(super) async fn start(cx: &Cx, cwd: PathBuf, errors: Errors) -> Result<Self, Fault> {
        let (status, telling) = io::pipe().or_fault(Kind::Unavailable, "no pipe for bash")?;
        let status =
            Receiver::from_owned_fd(status.into()).or_fault(Kind::Unavailable, "no pipe for bash")?;
        let (script, writing) = io::pipe().or_fault(Kind::Unavailable, "no pipe for bash")?;
        let script_name = script_name();
        let program = Program {
            argv: ["bash", "--norc", "--noprofile", &script_name].map(str::to_owned).to_vec(),
            cwd,
            env: Vec::new(),
            stdin: Stdin::Null,
            streams: match errors {
                Errors::Among => Streams::Together,
                Errors::Apart => Streams::Apart,
            },
            files: vec![(TOLD, telling.into()), (SCRIPT, script.into())],
        };
        let script = Sender::from_owned_fd(writing.into()).or_fault(Kind::Unavailable, "no pipe for bash")?;
        let process = cx.procs().start(program).await.map_err(|fault| match fault.kind {
            Kind::NotFound => {
                fault.hint("[?Without bash there is still `tool:shell`, one command at a time.?]")
            }
            _ => fault,
        })?;
        let all = match process.errors() {
            None => process.output().clone(),
            Some(errors) => {
                let all = Arc::new(Recording::new(None));
                process.output().copy_to(&all);
                errors.copy_to(&all);
                all
            }
        };
        let mut bash = Self {
            process: Arc::new(process),
            all,
            script,
            status: StatusPipe { pipe: status, received: Vec::new() },
            last: State::default(),
            restore: Restore::default(),
            shown: 0,
        };
        let first =
            format!("BASH_ARGV0=bash; exec {SCRIPT}<&-; \\builtin shopt -s expand_aliases; {}", on_signal());
        match bash.run(&first).await? {
            Came::Done => Ok(bash),
            Came::Ended(exit) => {
                let said = bash.output().tail(1024).text;
                Err(Fault::new(
                    Kind::Unavailable,
                    format!("bash ended at its start, exit {}: {said}", exit.code()),
                ))
            }
        }
    }

    /// Returns its output and that of its commands, with stderr.
    pub(super) fn output(&self) -> &Arc<Recording> {
        &self.all
    }

    /// Returns how many bytes it has written until now.
    pub(super) fn written(&self) -> BytesWritten {
        BytesWritten {
            all: self.all.total(),
            output: self.process.output().total(),
            errors: self.process.errors().map(|it| it.total()),
        }
    }

    /// Returns the output after that, at most about `bytes` of it; and separate stderr.
    pub(super) fn since(&self, before: BytesWritten, bytes: usize) -> (String, Option<String>) {
        let (Some(errors), Some(from)) = (self.process.errors(), before.errors) else {
            return (self.all.since(before.all, bytes).text, None);
        };
        let errors = errors.since(from, bytes / 2).text;
        let output = self.process.output().since(before.output, bytes.saturating_sub(errors.len())).text;
        (output, Some(errors))
    }

    /// Returns its process.
    pub(super) fn process(&self) -> &Arc<Process> {
        &self.process
    }

    /// Runs a command to its end.
    pub(super) async fn run(&mut self, command: &str) -> Result<Came, Fault> {
        let word = self.send(command).await?;
        Ok(self.came(&word).await)
    }

    /// Sends bash a command; returns the word under which it will report the result.
    pub(super) async fn send(&mut self, command: &str) -> Result<String, Fault> {
        let word = new_word()?;
        let line = line(command, &word, &self.restore, self.last.status);
        self.restore.skipped = false;
        // If bash has ended meanwhile, waiting for the result notices it.
        let _ = self.script.write_all(line.as_bytes()).await;
        Ok(word)
    }

    /// Waits until bash has reported the result, or has ended. The output until then is in its recording.
    pub(super) async fn came(&mut self, word: &str) -> Came {
        let heard = tokio::select! {
            biased;
            heard = self.status.next(word) => heard,
            exit = self.process.finished(DRAIN) => return Came::Ended(exit),
        };
        self.take(heard);
        self.process.output().catch_up();
        if let Some(errors) = self.process.errors() {
            errors.catch_up();
        }
        Came::Done
    }

    fn take(&mut self, heard: ShellStatus) {
        let ShellStatus { status, flags, cwd, traps } = heard;
        self.last = State { status, cwd };
        if !self.restore.skipped {
            self.restore = Restore { flags, traps, skipped: false };
        }
    }

    /// Kills what was started since `mark` and makes bash skip the rest of its command. Returns how many
    /// processes were killed, and whether bash survives.
    pub(super) async fn interrupt(
        &mut self,
        cx: &Cx,
        word: &str,
        mark: u64,
        grace: Duration,
    ) -> (usize, bool) {
        self.restore.skipped = true;
        let kill = Program {
            argv: ["bash", "-c", "kill -\"$0\" \"$1\"", &SKIP.to_string(), &self.process.pid().to_string()]
                .map(str::to_owned)
                .to_vec(),
            cwd: PathBuf::from("/"),
            env: Vec::new(),
            stdin: Stdin::Null,
            streams: Streams::Together,
            files: Vec::new(),
        };
        if let Ok(kill) = cx.procs().start(kill).await {
            let _ = tokio::time::timeout(TO_SKIP, kill.exited()).await;
        }
        let ended = self.process.end(Ending { grace, spare: Some(mark) }).await;
        let status = tokio::time::timeout(TO_SKIP, self.came(word)).await;
        (ended, status == Ok(Came::Done))
    }
}

/// Returns an unguessable word.
fn new_word() -> Result<String, Fault> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).or_fault(Kind::Unavailable, "no random numbers")?;
    Ok(random.iter().fold("haft".to_owned(), |word, byte| format!("{word}{byte:02x}")))
}

/// Returns the script line for one command.
fn line(command: &str, word: &str, restore: &Restore, status: i32) -> String {
    let Restore { flags, traps, skipped } = restore;
    let unskip = if *skipped { "\\builtin shopt -u extdebug; set +ET; " } else { "" };
    let kept: String =
        flags.chars().filter(|it| "xv".contains(*it) || (*skipped && "ET".contains(*it))).collect();
    let mut before = String::new();
    if !kept.is_empty() {
        before.push_str(&format!("set -{kept}; "));
    }
    if !traps.is_empty() {
        before.push_str(traps);
    }
    if !before.is_empty() {
        before = format!("{{ {before}}} >/dev/null 2>&1; ");
    }
    // Restores `$?`; under `set -e` bash would exit.
    let question = match status {
        0 => String::new(),
        _ if flags.contains('e') => String::new(),
        status => format!("(exit {status}); "),
    };
    let quoted = quoted(&format!("{before}{command}"));
    format!(
        "{unskip}{question}\\builtin eval {quoted}; {{ \
         \\builtin printf '%s\\0' {word} \"$?\" \"$-\" \"${{PWD-}}\" >&{TOLD}; \
         \\builtin trap -p DEBUG ERR >&{TOLD}; \
         \\builtin trap - DEBUG ERR {TOLD}>&{TOLD}; \
         set +xv; \
         \\builtin printf '\\0%s\\0' {word} >&{TOLD}; \
         }} >/dev/null 2>&1\n"
    )
}

/// Returns the command that makes bash obey the signal: from then on it skips every command except for the
/// report, and leaves every loop.
fn on_signal() -> String {
    let unless_ours = format!("[[ $BASH_COMMAND == *\">&{TOLD}\"* ]] || ! \\builtin break 999 2>/dev/null");
    let skip =
        format!("\\builtin shopt -s extdebug; set -T; \\builtin trap -- {} DEBUG", quoted(&unless_ours));
    format!("\\builtin trap -- {} {SKIP}", quoted(&skip))
}

/// Quotes a text as one word for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The read end of the pipe on which bash reports results.
struct StatusPipe {
    pipe: Receiver,
    received: Vec<u8>,
}

/// A reported result.
#[derive(Debug, PartialEq, Eq)]
struct ShellStatus {
    status: i32,
    flags: String,
    cwd: String,
    traps: String,
}

impl StatusPipe {
    /// Waits until bash has reported the result under this word; without limit. Nothing is lost when this is dropped.
    async fn next(&mut self, word: &str) -> ShellStatus {
        loop {
            if let Some(heard) = ShellStatus::find(&self.received, word) {
                self.received.clear();
                return heard;
            }
            let mut buffer = [0; 4096];
            let got = match self.pipe.try_read(&mut buffer) {
                Ok(0) => std::future::pending().await,
                Ok(got) => got,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.pipe.readable().await.is_err() {
                        return std::future::pending().await;
                    }
                    continue;
                }
                Err(_) => std::future::pending().await,
            };
            self.received.extend_from_slice(buffer.get(..got).unwrap_or_default());
        }
    }
}

impl ShellStatus {
    /// Parses the text between the two copies of the word.
    fn find(heard: &[u8], word: &str) -> Option<Self> {
        let text = String::from_utf8_lossy(heard);
        let (_, rest) = text.split_once(&format!("{word}\0"))?;
        let (told, _) = rest.split_once(&format!("\0{word}\0"))?;
        let mut parts = told.split('\0');
        let mut part = || parts.next().unwrap_or_default().to_owned();
        let (status, flags, cwd, traps) = (part(), part(), part(), part());
        Some(Self { status: status.parse().unwrap_or(-1), flags, cwd, traps })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::{
        io::Read as _,
        process::{Command, Stdio},
    };

    use super::*;

    /// Runs commands in one bash, without any sandbox or recording; returns what each printed, and its
    /// reported result.
    fn by_hand(commands: &[&str]) -> Vec<(String, ShellStatus)> {
        let mut script = format!("exec {TOLD}>told\n{}\n", on_signal());
        let (mut restore, mut status) = (Restore::default(), 0);
        let mut came = Vec::new();
        for command in commands {
            // Each in a bash of its own, after all earlier ones: a result decides the next script line.
            let line = line(command, "WORD", &restore, status);
            let dir = tempfile::tempdir().unwrap();
            let before = script.clone() + &format!("printf =====\nprintf ===== >&{TOLD}\n");
            std::fs::write(dir.path().join("script"), before + &line).unwrap();
            let mut bash = Command::new("bash")
                .args(["--norc", "--noprofile", "script"])
                .env_clear()
                .env("PATH", "/usr/bin:/bin")
                .current_dir(dir.path())
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let mut printed = String::new();
            bash.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
            bash.wait().unwrap();
            let told = std::fs::read(dir.path().join("told")).unwrap();
            let at = told.windows(5).position(|it| it == b"=====").unwrap() + 5;
            let heard = ShellStatus::find(told.get(at..).unwrap(), "WORD").unwrap();
            restore = Restore { flags: heard.flags.clone(), traps: heard.traps.clone(), skipped: false };
            status = heard.status;
            script.push_str(&line);
            came.push((printed.split_once("=====").unwrap().1.to_owned(), heard));
        }
        came
    }

    #[test]
    fn a_command_is_quoted_whole() {
        assert_eq!(quoted("it's"), "'it'\\''s'");
        let came =
            by_hand(&["printf '%s' \"it's \\$HOME\" '\"'", "echo a # comment", "cat <<E\n$((1+1))\nE"]);
        let printed: Vec<&str> = came.iter().map(|it| it.0.as_str()).collect();
        assert_eq!(printed, ["it's $HOME\"", "a\n", "2\n"]);
    }

    #[test]
    fn traps_and_options_see_only_what_the_user_wrote() {
        let came = by_hand(&[
            "trap 'echo D' DEBUG; trap 'echo E' ERR",
            "echo a",
            "false",
            "trap - DEBUG",
            "echo $?",
        ]);
        let printed: Vec<&str> = came.iter().map(|it| it.0.as_str()).collect();
        assert_eq!(printed, ["D\n", "D\na\n", "D\nD\nE\n", "D\n", "0\n"]);
        let came = by_hand(&["exec 2>&1; set -xv", "echo a", "set +xv", "false", "echo $?"]);
        let printed: Vec<&str> = came.iter().map(|it| it.0.as_str()).collect();
        assert_eq!(printed, ["", "++ echo a\na\n", "++ set +xv\n", "", "1\n"]);
    }

    #[test]
    fn the_status_is_found_among_other_output() {
        let told = b"noise\0WORD\x003\0hBs\0/tmp\0\0WORD\0more";
        let heard = ShellStatus::find(told, "WORD").unwrap();
        let traps = String::new();
        let (flags, cwd) = ("hBs".to_owned(), "/tmp".to_owned());
        assert_eq!(heard, ShellStatus { status: 3, flags, cwd, traps });
        assert_eq!(ShellStatus::find(told, "OTHER"), None);
        assert_eq!(ShellStatus::find(b"WORD\x003\0hBs\0/tmp", "WORD"), None);
    }

    #[test]
    fn status_markers_are_unique() {
        assert_ne!(new_word().unwrap(), new_word().unwrap());
    }
}

//! Starting a command line: by a shell, or directly if it is a plain command.

use std::path::PathBuf;

use kit::{
    Cx, Fault, Kind,
    procs::{Process, Procs, Program, Stdin, Streams},
};

/// A command line for a shell, with its folder and streams.
pub(crate) struct CommandLine<'a> {
    pub(super) command: &'a str,
    pub(super) dir: &'a str,
    pub(super) stdin: Stdin,
    pub(super) streams: Streams,
    pub(super) env: &'a [(&'a str, &'a str)],
    /// The shell; `None` means bash, or sh if there is no bash.
    pub(crate) shell: Option<&'a str>,
}

impl<'a> CommandLine<'a> {
    /// Creates a command line for the default shell.
    pub(crate) fn new(command: &'a str, dir: &'a str, stdin: Stdin, streams: Streams) -> Self {
        Self { command, dir, stdin, streams, env: &[], shell: None }
    }

    /// Starts it.
    pub(crate) async fn start(&self, cx: &Cx) -> Result<Process, Fault> {
        self.start_by(cx.procs(), cx).await
    }

    /// Starts it by another starter than the call's own.
    pub(super) async fn start_by(&self, procs: &Procs, cx: &Cx) -> Result<Process, Fault> {
        checked(self.command)?;
        let cwd = folder(cx, self.dir)?;
        if let Some(shell) = self.shell {
            return procs.start(self.program(shell, cwd)).await;
        }
        if let Some(words) = plain(self.command)
            && let Ok(process) = procs.start(self.directly(words, cwd.clone())).await
        {
            return Ok(process);
        }
        match procs.start(self.program("bash", cwd.clone())).await {
            Err(fault) if fault.kind == Kind::NotFound => procs.start(self.program("sh", cwd)).await,
            other => other,
        }
    }

    /// Returns the program without a shell, which would only start it.
    fn directly(&self, words: Vec<String>, cwd: PathBuf) -> Program {
        let program = self.program("", cwd);
        let here = ("PWD".to_owned(), program.cwd.display().to_string());
        Program { argv: words, env: [program.env, vec![here]].concat(), ..program }
    }

    fn program(&self, shell: &str, cwd: PathBuf) -> Program {
        Program {
            argv: [shell, "-c", self.command].map(str::to_owned).to_vec(),
            cwd,
            env: self.env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            stdin: self.stdin,
            streams: self.streams,
            files: Vec::new(),
        }
    }
}

/// Returns the folder of this name in the roots.
fn folder(cx: &Cx, dir: &str) -> Result<PathBuf, Fault> {
    let location = cx.files().locate(dir)?;
    Ok(location.absolute())
}

/// Builtins and keywords of shells. `true` and `false` are the same as programs.
const SHELLS_OWN: &[&str] = &[
    ".",
    ":",
    "[",
    "alias",
    "bg",
    "bind",
    "break",
    "builtin",
    "caller",
    "case",
    "cd",
    "command",
    "compgen",
    "complete",
    "compopt",
    "continue",
    "coproc",
    "declare",
    "dirs",
    "disown",
    "do",
    "done",
    "echo",
    "elif",
    "else",
    "enable",
    "esac",
    "eval",
    "exec",
    "exit",
    "export",
    "fc",
    "fg",
    "fi",
    "for",
    "function",
    "getopts",
    "hash",
    "help",
    "history",
    "if",
    "in",
    "jobs",
    "kill",
    "let",
    "local",
    "logout",
    "mapfile",
    "popd",
    "printf",
    "pushd",
    "pwd",
    "read",
    "readarray",
    "readonly",
    "return",
    "select",
    "set",
    "shift",
    "shopt",
    "source",
    "suspend",
    "test",
    "then",
    "time",
    "times",
    "trap",
    "type",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "until",
    "wait",
    "while",
];

/// Returns the words of a command that a shell would only split at blanks and start: that saves most of the
/// cost of a shell. `None` for anything with possible shell syntax.
fn plain(command: &str) -> Option<Vec<String>> {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || " _-./:=@%+,".contains(it);
    let words: Vec<String> = command.split(' ').filter(|it| !it.is_empty()).map(str::to_owned).collect();
    let first = words.first()?;
    let runs = command.chars().all(is_plain) && !first.contains('=') && !SHELLS_OWN.contains(&first.as_str());
    runs.then_some(words)
}

/// Refuses a command that no shell can get.
pub(super) fn checked(command: &str) -> Result<(), Fault> {
    if command.contains('\0') {
        return Err(Fault::bad_args("`command` contains a NUL byte, which no command line can")
            .next("Write it as an escape: printf '\\0'."));
    }
    if command.trim().is_empty() {
        return Err(Fault::bad_args("`command` is empty"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn only_plain_commands_start_without_a_shell() {
        for command in ["true", "cargo test --workspace", "git log -n 3", " make  -j2 CC=gcc", "./run.sh a,b"]
        {
            let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
            assert_eq!(plain(command), Some(words), "{command}");
        }
        for command in [
            "", " ", "cd x", "A=1 make", "ls *", "ls ~", "echo a", "a\nb", "a;b", "a|b", "a&", "a>b", "a <b",
            "$x", "`x`", "a#b", "'a'", "\"a\"", "a\\b", "{a,b}", "!x", "a\tb", "time x", "[ a ]", "é", "(a)",
            "x?",
        ] {
            assert_eq!(plain(command), None, "{command}");
        }
    }
}

//! `python`: runs Python code.

use std::time::Duration;

use kit::{
    prelude::*,
    procs::{Exit, signal_name},
};

use super::{
    INTERPRETER,
    run::{Code, End, Folder, Last, Ran, Reach},
};

/// Default time limit, in seconds.
const TIMEOUT: u64 = 30;
/// Maximum time limit, in seconds.
const LONGEST: u64 = 600;
/// Extra time for the interpreter itself before and after the code.
const AROUND: Duration = Duration::from_secs(5);

/// Run Python in a fresh interpreter; no state is kept between calls.
/// Shows the output, and the value of a last expression.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Python {
    /// Python source.
    code: String,
    /// Seconds; default 30, at most 600.
    timeout_s: Option<u64>,
    /// Folder; default is the workspace.
    #[serde(default)]
    dir: String,
    /// Rest of `sys.argv`.
    #[serde(default)]
    args: Vec<String>,
    /// Its input.
    stdin: Option<String>,
    /// Hosts it may reach.
    #[serde(default)]
    net: Vec<String>,
}

impl Tool for Python {
    const NAME: &'static str = "python";
    const AT_MOST: Kinds = Kinds::READ.with(Kinds::RUN).with(Kinds::NET).with(Kinds::EXCLUSIVE);

    fn touches(&self) -> Touches {
        let run = Touches::read(&self.dir).and(Touch::Run(command(&self.code, &self.args)));
        self.net.iter().cloned().map(Touch::Net).fold(run, Touches::and).and(Touch::Exclusive)
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(Duration::from_secs(self.timeout_s.unwrap_or(TIMEOUT).min(LONGEST)) + AROUND)
    }

    fn shared_process(&self) -> Option<&'static str> {
        self.net.is_empty().then_some(INTERPRETER)
    }

    fn title(&self) -> String {
        title(&self.code)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let seconds = self.timeout_s.unwrap_or(TIMEOUT);
        if !(1..=LONGEST).contains(&seconds) {
            return Err(Fault::bad_args(format!("`timeout_s` is {seconds}"))
                .next(format!("Give 1 to {LONGEST} seconds.")));
        }
        let ran = Code {
            text: &self.code,
            arguments: &self.args,
            folder: Folder::Named(&self.dir),
            stdin: self.stdin.as_deref(),
            at_most: Duration::from_secs(seconds),
            last: Last::Shown,
            reach: if self.net.is_empty() { Reach::Session } else { Reach::Call },
        }
        .run(cx)
        .await?;
        match ran.end {
            End::Exited(exit) => Ok(answer(&ran, exit, cx)),
            End::TimedOut => Err(Fault::new(
                Kind::Timeout,
                format!("the code was ended after {seconds} s (`timeout_s`), with all it had started"),
            )
            .next(format!("Do less in one call, or give a larger `timeout_s` (at most {LONGEST})."))
            .seen(Output::text(ran.shown()))),
            End::Stopped => Err(ran.stopped()),
        }
    }
}

/// Formats the output, and how it ended if it failed.
fn answer(ran: &Ran, exit: Exit, cx: &Cx) -> Output {
    let mut text = ran.shown();
    if !exit.is_success() {
        text.push('\n');
        text.push_str(&match exit {
            Exit::Code(code) => format!("[exit {code}]"),
            Exit::Signal(signal) => format!("[exit {}: ended by {}]", exit.code(), signal_name(signal)),
            Exit::Lost => {
                "[exit unknown: the process that watches the code was killed; what the code had started was ended]"
                    .to_owned()
            }
        });
    }
    for denial in ran.denials(exit, cx) {
        text.push('\n');
        text.push_str(&denial);
    }
    Output { exit: Some(exit.code()), ..Output::text(text) }
}

/// Formats the call as a shell command, for the rules on commands.
pub(super) fn command(code: &str, arguments: &[String]) -> String {
    let words = std::iter::once(code).chain(arguments.iter().map(String::as_str));
    words.fold("python3 -c".to_owned(), |command, word| command + " '" + &word.replace('\'', "'\\''") + "'")
}

/// Returns the first meaningful line, shortened.
pub(super) fn title(code: &str) -> String {
    const CHARS: usize = 60;
    let line = code.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    match line.char_indices().nth(CHARS) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or_default()),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use kit::Spec;

    use super::*;

    fn call(arguments: serde_json::Value) -> Python {
        serde_json::from_value(arguments).unwrap()
    }

    #[test]
    fn a_model_pays_little_for_it() {
        let bytes = Spec::of::<Python>().bytes();
        assert!(bytes < 650, "{bytes}");
    }

    #[test]
    fn the_command_is_one_interpreter_with_the_code_as_one_word() {
        let code = "print('it''s')\n# $(rm -rf /)\n";
        assert_eq!(
            command(code, &["a b".to_owned(), String::new()]),
            "python3 -c 'print('\\''it'\\'''\\''s'\\'')\n# $(rm -rf /)\n' 'a b' ''"
        );
    }

    #[test]
    fn it_runs_alone_and_names_every_host() {
        let touches =
            call(serde_json::json!({"code": "1", "net": ["a.org", "b.org"], "dir": "sub"})).touches();
        let touches: Vec<_> = touches.iter().cloned().collect();
        assert_eq!(
            touches,
            [
                Touch::Read("sub".to_owned()),
                Touch::Run("python3 -c '1'".to_owned()),
                Touch::Net("a.org".to_owned()),
                Touch::Net("b.org".to_owned()),
                Touch::Exclusive,
            ]
        );
    }

    #[test]
    fn the_runtime_waits_longer_than_the_call() {
        let time_limit = |arguments| call(arguments).time_limit().unwrap().as_secs();
        assert_eq!(time_limit(serde_json::json!({"code": ""})), 35);
        assert_eq!(time_limit(serde_json::json!({"code": "", "timeout_s": 600})), 605);
    }

    #[test]
    fn a_title_is_one_short_line() {
        assert_eq!(title("\n  import os\nos.getcwd()"), "import os");
        assert_eq!(title(&"é".repeat(100)), "é".repeat(60) + "…");
    }
}

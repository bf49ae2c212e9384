//! `shell_status` as nav has it: background processes, by their process ids.

use kit::{
    prelude::*,
    services::{Job, Transcript},
};

use super::started::{InBackground, Started};
use crate::shell::answer;

/// Maximum bytes that `status`, `tail` and `output` show.
const STATUS: usize = 2048;
const TAIL: usize = 4096;
const WHOLE: usize = 48 << 10;

/// The length of a command in the list.
const COMMAND: usize = 60;

/// Check on processes in the background, also those that are over: status and output of one, or kill it. Without pid: list them.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShellStatus {
    /// Process id, as `tool:shell` gave it.
    #[serde(default)]
    pid: Option<u32>,
    /// The action. `output` is from its beginning, `tail` the newest. Default: status.
    #[serde(default)]
    action: Action,
}

/// The action.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    #[default]
    Status,
    #[serde(alias = "read")]
    Output,
    Tail,
    Kill,
    List,
}

impl Tool for ShellStatus {
    const NAME: &str = "shell_status";
    const AT_MOST: Kinds = Kinds::RUN.with(Kinds::SESSION);

    fn touches(&self) -> Touches {
        if self.action == Action::Kill { Touches::session("jobs") } else { Touches::none() }
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let all = Started::all(cx);
        let Some(pid) = self.pid.filter(|_| self.action != Action::List) else {
            let lines: Vec<String> = all.iter().map(line).collect();
            let none = "No background processes.".to_owned();
            return Ok(Output::text(if lines.is_empty() { none } else { lines.join("\n") }));
        };
        let Some(mut it) = all.into_iter().find(|it| it.pid == pid) else {
            return Err(Fault::not_found(format!("Process {pid} not found."))
                .next("Without `pid`, shell_status lists the processes there are."));
        };
        // A job that is over and was shown needs no notification.
        it.job = cx.jobs().get(&it.job.id)?;
        let part = match self.action {
            Action::Kill if it.job.state.is_over() => {
                return Ok(Output::text(format!("It is over already: {}", line(&it))));
            }
            Action::Kill => {
                cx.jobs().stop(&it.job.id).await?;
                return Ok(Output::text(format!("Killed process {pid}.")));
            }
            Action::List | Action::Status => {
                let tail = written(&it.job, |it| it.tail(STATUS).text);
                return Ok(Output::text(format!("{}\n\nRecent output:\n{tail}", line(&it))));
            }
            Action::Tail => written(&it.job, |it| it.tail(TAIL).text),
            Action::Output => written(&it.job, |it| it.read(0, WHOLE).text),
        };
        Ok(Output::text(format!("{}\n\n{part}", state(&it.job))))
    }
}

fn line(it: &InBackground) -> String {
    let command: String = it.job.title.chars().take(COMMAND).collect();
    format!("pid {}: {command} {}", it.pid, state(&it.job))
}

/// Formats `[running, 5s]` or `[exited (1), 5s]`.
fn state(job: &Job) -> String {
    let of_process = job.live.process.as_ref().and_then(|it| it.exit()).map(kit::procs::Exit::code);
    let of_result = || job.result.as_deref().and_then(|it| it.as_ref().ok()).and_then(|it| it.exit);
    let state = match of_process.or_else(of_result) {
        Some(code) => format!("exited ({code})"),
        None if job.state.is_over() => format!("exited ({})", job.state.name()),
        None => "running".to_owned(),
    };
    format!("[{state}, {}s]", job.took.as_secs())
}

/// Returns a part of its output; its result, if the output is gone.
fn written(job: &Job, part: impl Fn(&dyn Transcript) -> String) -> String {
    let text = match (&job.live.output, job.result.as_deref()) {
        (Some(output), _) => part(&**output),
        (None, Some(Ok(output))) => output.as_text(),
        (None, Some(Err(fault))) => fault.as_text(),
        (None, None) => String::new(),
    };
    answer::with(&text, &[])
}

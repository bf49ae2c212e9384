//! `shell_status` as nav has it: background processes, by their process ids.

use kit::{prelude::*, services::Job};

use crate::shell::answer;

/// How much `status` and `tail` show, and `output`.
const STATUS: usize = 2048;
const TAIL: usize = 4096;
const WHOLE: usize = 48 << 10;

/// The length of a command in the list.
const COMMAND: usize = 60;

/// Check on processes in the background: list them, see their status and output, kill one.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShellStatus {
    /// What to do. `output` is from its beginning, `tail` the newest.
    action: Action,
    /// Process id, as `shell` gave it; not for `list`.
    #[serde(default)]
    pid: Option<u32>,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    List,
    Status,
    #[serde(alias = "read")]
    Output,
    Tail,
    Kill,
}

impl Tool for ShellStatus {
    const NAME: &str = "shell_status";
    const AT_MOST: Kinds = Kinds::RUN.with(Kinds::SESSION);

    fn touches(&self) -> Touches {
        if self.action == Action::Kill { Touches::session("jobs") } else { Touches::none() }
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let jobs: Vec<Job> = cx.jobs().list().into_iter().filter(|it| it.live.process.is_some()).collect();
        if self.action == Action::List {
            let lines: Vec<String> = jobs.iter().map(line).collect();
            let none = "No background processes.".to_owned();
            return Ok(Output::text(if lines.is_empty() { none } else { lines.join("\n") }));
        }
        let Some(pid) = self.pid else {
            return Err(Fault::bad_args("missing field `pid`").next("`list` shows the processes there are."));
        };
        let Some(job) = jobs.iter().find(|job| pid_of(job) == Some(pid)) else {
            return Err(Fault::not_found(format!("Process {pid} not found.")));
        };
        Ok(Output::text(match self.action {
            Action::List | Action::Status => format!("{}\n{}", line(job), tail(job, STATUS)),
            Action::Tail => tail(job, TAIL),
            Action::Output => match &job.live.output {
                Some(output) => some(&output.read(0, WHOLE).text),
                None => some(""),
            },
            Action::Kill => {
                cx.jobs().stop(&job.id).await?;
                format!("Killed process {pid}.")
            }
        }))
    }
}

fn pid_of(job: &Job) -> Option<u32> {
    job.live.process.as_ref().map(|it| it.pid())
}

fn line(job: &Job) -> String {
    let command: String = job.title.chars().take(COMMAND).collect();
    let pid = pid_of(job).unwrap_or_default();
    match job.live.process.as_ref().and_then(|it| it.exit()) {
        Some(exit) => format!("pid {pid}: {command} exited ({})", exit.code()),
        None => format!("pid {pid}: {command} [running, {}s]", job.took.as_secs()),
    }
}

fn tail(job: &Job, bytes: usize) -> String {
    some(&job.live.output.as_ref().map(|it| it.tail(bytes).text).unwrap_or_default())
}

fn some(text: &str) -> String {
    answer::with(text, &[])
}

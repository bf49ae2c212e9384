//! `shell_status`: the state of commands in the background.

use kit::{
    prelude::*,
    procs::Exit,
    services::{Job, Transcript},
};

use super::answer;

/// Maximum bytes that `status`, `tail` and `output` show.
const STATUS: usize = 2 << 10;
const TAIL: usize = 8 << 10;
const WHOLE: usize = 48 << 10;

/// Check commands in the background.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShellStatus {
    /// `output` is from its beginning, `tail` the newest, `input` writes to it.
    action: Action,
    /// Such as `job_3`; not for `list`.
    #[serde(default)]
    job: String,
    /// For `input`, with its line break; \u0004 at its end closes it.
    #[serde(default)]
    text: String,
}

/// The action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    List,
    Status,
    Output,
    Tail,
    Input,
    Kill,
}

impl Tool for ShellStatus {
    const NAME: &str = "shell_status";
    const AT_MOST: Kinds = Kinds::RUN.with(Kinds::SESSION);

    fn touches(&self) -> Touches {
        match self.action {
            Action::List | Action::Status | Action::Output | Action::Tail => Touches::none(),
            // Typed text may be a command to the program that reads it.
            Action::Input => Touches::run(&self.text),
            Action::Kill => Touches::session("jobs"),
        }
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let Self { action, job, text } = self;
        if action == Action::List {
            return Ok(list(&cx.jobs().list()));
        }
        if job.is_empty() {
            return Err(Fault::bad_args("missing field `job`").next("`list` shows the jobs there are."));
        }
        match action {
            Action::List | Action::Status => Ok(status(&cx.jobs().get(&job)?)),
            Action::Output => Ok(shown(&cx.jobs().get(&job)?, |it| it.read(0, WHOLE).text)),
            Action::Tail => Ok(shown(&cx.jobs().get(&job)?, |it| it.tail(TAIL).text)),
            Action::Input => write(&cx.jobs().get(&job)?, &text).await,
            Action::Kill => {
                let over = cx.jobs().get(&job)?.state.is_over();
                let job = cx.jobs().stop(&job).await?;
                let what = if over { "was over already" } else { "ended, with all it started" };
                Ok(Output::text(format!("{} {what}\n{}", job.id, line(&job))))
            }
        }
    }
}

fn list(jobs: &[Job]) -> Output {
    let lines: Vec<String> = jobs.iter().filter(|job| is_command(job)).map(line).collect();
    Output::text(if lines.is_empty() { "no commands in the background".to_owned() } else { lines.join("\n") })
}

fn is_command(job: &Job) -> bool {
    matches!(job.tool.as_str(), "shell" | "bash" | "interact") || job.live.process.is_some()
}

fn line(job: &Job) -> String {
    let title: String = job.title.chars().take(80).collect();
    let of_process = job.live.process.as_ref().and_then(|it| it.exit()).map(Exit::code);
    let of_result = || job.result.as_deref().and_then(|it| it.as_ref().ok()).and_then(|it| it.exit);
    let exit = of_process.or_else(of_result).map(|it| format!(", exit {it}")).unwrap_or_default();
    format!("{} {}{exit}, {}: {title}", job.id, job.state.name(), answer::time(job.took))
}

fn status(job: &Job) -> Output {
    let said = shown(job, |it| it.tail(STATUS).text).as_text();
    Output::text(format!("{}\n{said}", line(job)))
}

/// Returns a job's output; its result, if no output is available.
fn shown(job: &Job, part: impl Fn(&dyn Transcript) -> String) -> Output {
    let text = match (&job.live.output, job.result.as_deref()) {
        (Some(output), _) => part(&**output),
        (None, Some(Ok(output))) => output.as_text(),
        (None, Some(Err(fault))) => fault.as_text(),
        (None, None) => String::new(),
    };
    Output::text(answer::with(&text, &[]))
}

async fn write(job: &Job, text: &str) -> Result<Output, Fault> {
    const END: char = '\u{4}';
    let Some(process) = &job.live.process else {
        return Err(Fault::new(
            Kind::Unavailable,
            format!("{} has no process that could be written to", job.id),
        ));
    };
    let ends = text.ends_with(END);
    process.write(text.trim_end_matches(END).as_bytes()).await.map_err(|fault| match fault.next {
        Some(_) => fault,
        None => fault.hint("Start it with `tool:shell` and `arg:shell.input`: true."),
    })?;
    if ends {
        process.close_input();
    }
    Ok(Output::text(format!("written to {}", job.id)))
}

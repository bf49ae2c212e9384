//! KohakuTerrarium's commands on jobs, as tools: `jobs`, `read_job`, `wait` and `stop_task`.

use std::time::Duration;

use kit::{
    prelude::*,
    services::{Job, State, Until},
};

/// Bytes of output that are searched for lines.
const WHOLE: usize = 1 << 20;

/// Maximum seconds of `wait`.
const LONGEST: f64 = 3_600.0;

/// List the jobs that run.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Jobs {}

/// Show the output of a job.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadJob {
    /// The job's id.
    #[serde(alias = "job")]
    job_id: String,
    /// Most lines.
    lines: Option<usize>,
    /// Lines to skip.
    #[serde(default)]
    offset: usize,
}

/// Wait until a job is over.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wait {
    /// The job's id.
    #[serde(alias = "job")]
    job_id: String,
    /// Seconds to wait. Default: 60.
    timeout: Option<f64>,
}

/// Stop a job that runs.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
// The fields have defaults so that a missing one gets that toolset's own message.
#[schemars(extend("required" = ["job_id"]))]
pub(crate) struct StopTask {
    /// The job's id.
    #[serde(default, alias = "job")]
    job_id: String,
}

impl Tool for Jobs {
    const NAME: &'static str = "jobs";
    const AT_MOST: Kinds = Kinds::NONE;

    fn touches(&self) -> Touches {
        Touches::none()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let jobs = cx.jobs().list();
        let lines: Vec<String> = jobs.iter().filter(|it| !it.state.is_over()).map(line).collect();
        Ok(Output::text(match lines.is_empty() {
            true => "No running jobs.".to_owned(),
            false => format!("## Running Jobs\n{}", lines.join("\n")),
        }))
    }
}

impl Tool for ReadJob {
    const NAME: &'static str = "read_job";
    const STANDS_FOR: &'static [StandsFor] = &[StandsFor::tool("read_job").naming(&[("job", "job_id")])];
    const AT_MOST: Kinds = Kinds::NONE;

    fn touches(&self) -> Touches {
        Touches::none()
    }

    fn title(&self) -> String {
        self.job_id.clone()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let job = cx.jobs().get(&self.job_id).map_err(|fault| not_found(fault, "Job", &self.job_id))?;
        let text = output_or_result(&job);
        let all = text.lines().count();
        let lines = self.lines.unwrap_or(usize::MAX);
        let shown: Vec<&str> = text.lines().skip(self.offset).take(lines).collect();
        let mut out = format!("## Job {} Output\n```\n{}\n```", job.id, shown.join("\n"));
        let end = self.offset + shown.len();
        if end < all {
            out.push_str(&format!("\n... (lines {}-{end} of {all})", self.offset + 1));
        }
        match exit(&job) {
            Some(code) => out.push_str(&format!("\nExit code: {code}")),
            None if !job.state.is_over() => out.push_str(&format!("\nStatus: {}", state(job.state))),
            None => {}
        }
        Ok(Output::text(out))
    }
}

impl Tool for Wait {
    const NAME: &'static str = "wait";
    const STANDS_FOR: &'static [StandsFor] = &[StandsFor::tool("wait").naming(&[("job", "job_id")])];
    const AT_MOST: Kinds = Kinds::NONE;

    fn touches(&self) -> Touches {
        Touches::none()
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(self.time() + Duration::from_secs(5))
    }

    fn title(&self) -> String {
        self.job_id.clone()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let waited = cx.jobs().wait(&self.job_id, Until::Exit, self.time()).await;
        let job = waited.map_err(|fault| not_found(fault, "Job", &self.job_id))?.job;
        let (how, text) = match job.state {
            State::Done => ("DONE", output_or_result(&job)),
            state if state.is_over() => ("ERROR", output_or_result(&job)),
            _ => ("TIMEOUT", format!("Job still running after {}s", self.time().as_secs())),
        };
        Ok(Output::text(format!("## {} - {how}\n{text}", job.id)))
    }
}

impl Wait {
    fn time(&self) -> Duration {
        let seconds = self.timeout.filter(|it| it.is_finite()).unwrap_or(60.0);
        Duration::from_secs_f64(seconds.clamp(0.0, LONGEST))
    }
}

impl Tool for StopTask {
    const NAME: &'static str = "stop_task";
    const STANDS_FOR: &'static [StandsFor] = &[StandsFor::tool("stop_task").naming(&[("job", "job_id")])];
    // Stopping a job is not harmless, though it needs no lock.
    const AT_MOST: Kinds = Kinds::SESSION.with(Kinds::EXCLUSIVE);

    fn touches(&self) -> Touches {
        Touches::none()
    }

    fn title(&self) -> String {
        self.job_id.clone()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        if self.job_id.is_empty() {
            return Err(Fault::bad_args("`job_id`: job_id is required"));
        }
        let before = cx.jobs().get(&self.job_id).map_err(|fault| not_found(fault, "Task", &self.job_id))?;
        if before.state.is_over() {
            return Ok(Output::text(format!("Task {} is already {}", before.id, state(before.state))));
        }
        let job = cx.jobs().stop(&before.id).await?;
        Ok(Output::text(match job.state {
            State::Cancelled if is_agent(&job) => format!("Cancelled sub-agent: {}", job.id),
            State::Cancelled => format!("Cancelled tool: {}", job.id),
            other => format!("Task {} is already {}", job.id, state(other)),
        }))
    }
}

fn is_agent(job: &Job) -> bool {
    matches!(job.tool.as_str(), "explore" | "critic" | "subagent")
}

/// Returns KohakuTerrarium's name of a job's state.
fn state(state: State) -> &'static str {
    match state {
        State::Running | State::Waiting => "running",
        State::Done => "done",
        State::Error => "error",
        State::Cancelled => "cancelled",
        State::Pending => "pending",
    }
}

fn not_found(fault: Fault, what: &str, id: &str) -> Fault {
    if fault.kind == Kind::NotFound {
        return Fault { what: format!("{what} not found: {id}"), ..fault };
    }
    fault
}

/// Returns a job's output, or its result.
fn output_or_result(job: &Job) -> String {
    match (&job.live.output, job.result.as_deref()) {
        (Some(output), _) if output.total() > 0 => output.tail(WHOLE).text.trim_end().to_owned(),
        (_, Some(Ok(output))) => output.as_text(),
        (_, Some(Err(fault))) => fault.as_text(),
        (_, None) => "(no output yet)".to_owned(),
    }
}

fn exit(job: &Job) -> Option<i32> {
    match job.result.as_deref() {
        Some(Ok(output)) => output.exit,
        Some(Err(fault)) => fault.seen.as_deref().and_then(|it| it.exit),
        None => None,
    }
}

fn line(job: &Job) -> String {
    let (lines, bytes, preview) = match &job.live.output {
        Some(output) => {
            let tail = output.tail(WHOLE).text;
            let last = tail.lines().last().unwrap_or_default().to_owned();
            (tail.lines().count(), output.total(), crate::notes::clipped(&last, 100))
        }
        None => (0, 0, String::new()),
    };
    let kind = if is_agent(job) { "subagent" } else { "tool" };
    format!(
        "[{}] type={kind}/{} status={} duration={:.1}s lines={lines} bytes={bytes} preview={preview:?}",
        job.id,
        job.tool,
        state(job.state),
        job.took.as_secs_f64()
    )
}

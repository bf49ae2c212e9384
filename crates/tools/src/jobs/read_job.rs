//! `read_job`: shows a job's state and output.

use kit::{
    prelude::*,
    services::{Job, Transcript},
};

use super::{Id, headline, name, report};

/// Default number of bytes that are shown.
const LIMIT: usize = 8 << 10;
/// Maximum number of bytes that are shown.
const MOST: usize = 64 << 10;

/// Show a job's state and its result, or the newest output if it still runs.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadJob {
    /// Such as job_3.
    #[schemars(with = "String")]
    job: Id,
    /// Page through what it wrote, from this byte on.
    #[serde(default)]
    offset: Option<u64>,
    /// Bytes of output to show. Default 8192.
    #[serde(default)]
    limit: Option<usize>,
}

impl Tool for ReadJob {
    const NAME: &str = "read_job";
    const AT_MOST: Kinds = Kinds::NONE;

    fn touches(&self) -> Touches {
        Touches::none()
    }

    fn title(&self) -> String {
        self.job.0.clone()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let job = cx.jobs().get(&self.job.0)?;
        let limit = self.limit.unwrap_or(LIMIT).clamp(1, MOST);
        let Some(offset) = self.offset else {
            // A long result is available as a whole, so the job's output is shortened if a limit was given.
            return Ok(match (&job.live.output, self.limit) {
                (Some(output), Some(_)) => tail(&job, &**output, limit),
                _ => report(cx, &job, &[], limit),
            });
        };
        let Some(output) = &job.live.output else {
            return Err(Fault::bad_args(format!(
                "{} ({}) keeps no output to page through",
                job.id,
                name(&job)
            ))
            .next("Leave `offset` out."));
        };
        Ok(page(&job, &**output, offset, limit))
    }
}

fn tail(job: &Job, output: &dyn Transcript, limit: usize) -> Output {
    let slice = output.tail(limit);
    let all = slice.handle.map(|handle| format!("; all of it: {handle}")).unwrap_or_default();
    let bytes = format!("[bytes {}-{} of {}{all}]", slice.bytes.start, slice.bytes.end, slice.total);
    Output::page(format!("{}\n{bytes}\n{}", headline(job), slice.text))
}

fn page(job: &Job, output: &dyn Transcript, offset: u64, limit: usize) -> Output {
    let slice = output.read(offset, limit);
    let end = slice.bytes.end;
    let next = if end < slice.total {
        format!("next: offset {end}")
    } else if job.state.is_over() {
        "the end".to_owned()
    } else {
        format!("all until now; later: offset {end}")
    };
    let bytes = format!("[bytes {}-{end} of {}; {next}]", slice.bytes.start, slice.total);
    Output::page(format!("{}\n{}\n{bytes}", headline(job), slice.text.trim_end_matches('\n')))
}

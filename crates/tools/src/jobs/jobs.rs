//! `jobs`: lists the session's jobs.

use kit::{prelude::*, services::Job};

use super::seconds;

/// Maximum number of jobs that are listed.
const LISTED: usize = 100;

/// List jobs: calls that went to the background.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Jobs {}

impl Tool for Jobs {
    const NAME: &str = "jobs";
    const AT_MOST: Kinds = Kinds::NONE;

    fn touches(&self) -> Touches {
        Touches::none()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let jobs = cx.jobs().list();
        if jobs.is_empty() {
            return Ok(Output::text("no jobs"));
        }
        let older = jobs.len().saturating_sub(LISTED);
        let mut lines = Vec::new();
        if older > 0 {
            let running = jobs.iter().take(older).filter(|job| !job.state.is_over()).count();
            lines.push(format!("[{older} older jobs left out, {running} of them not over]"));
        }
        lines.extend(jobs.iter().skip(older).map(line));
        Ok(Output::text(lines.join("\n")))
    }
}

/// `job_3  running 12.0 s  shell  npm run dev  (1204 bytes)`.
fn line(job: &Job) -> String {
    let exit = match job.result.as_deref() {
        Some(Ok(Output { exit: Some(exit), .. })) => format!(" exit {exit}"),
        _ => String::new(),
    };
    let mut line = format!("{}  {}{exit} {}  {}", job.id, job.state.name(), seconds(job.took), job.tool);
    if !job.title.is_empty() {
        line.push_str("  ");
        line.push_str(&job.title);
    }
    if let Some(output) = &job.live.output {
        line.push_str(&format!("  ({} bytes)", output.total()));
    }
    line
}

//! `wait`: waits for a job's end or output.

use std::time::Duration;

use kit::{
    prelude::*,
    services::{State, Until},
};

use super::{Id, report, written};

/// Default and maximum seconds to wait.
const TIMEOUT: u64 = 60;
const LONGEST: u64 = 3600;

/// Bytes of the job's output that are shown.
const SHOWN: usize = 2 << 10;

/// Wait until a job ends, prints a matching line, or falls silent.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wait {
    /// Such as job_3.
    #[schemars(with = "String")]
    job: Id,
    /// Regex: until a line it wrote matches.
    #[serde(default)]
    pattern: Option<String>,
    /// Until it printed nothing for this many seconds.
    #[serde(default)]
    quiet_s: Option<u64>,
    /// Maximum seconds, up to 3600. Default 60.
    #[serde(default)]
    timeout_s: Option<u64>,
}

impl Wait {
    fn at_most(&self) -> Duration {
        Duration::from_secs(self.timeout_s.unwrap_or(TIMEOUT).min(LONGEST))
    }
}

impl Tool for Wait {
    const NAME: &str = "wait";
    const AT_MOST: Kinds = Kinds::NONE;

    fn touches(&self) -> Touches {
        Touches::none()
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(self.at_most())
    }

    fn title(&self) -> String {
        self.job.0.clone()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let at_most = self.at_most();
        let until = match (self.pattern, self.quiet_s) {
            (Some(_), Some(_)) => return Err(Fault::bad_args("give `pattern` or `quiet_s`, not both")),
            (Some(pattern), None) => Until::Pattern(pattern),
            (None, Some(quiet)) => Until::Quiet(Duration::from_secs(quiet)),
            (None, None) => Until::Exit,
        };
        let waited = cx.jobs().wait(&self.job.0, until.clone(), at_most).await?;
        let job = waited.job;
        if let Some(line) = waited.line {
            return Ok(Output::text(format!("{}\nmatched: {line}", super::headline(&job))));
        }
        let why = match until {
            _ if job.state == State::Waiting => Some(cx.named("it waits for input[?: `tool:continue_job`?]")),
            Until::Pattern(pattern) if job.state.is_over() => {
                Some(format!("it ended and no line matched `{pattern}`"))
            }
            _ if job.state.is_over() => None,
            Until::Quiet(quiet) if waited.met => Some(format!("it wrote nothing for {} s", quiet.as_secs())),
            _ => Some(format!("not yet, after {} s of waiting; it goes on", at_most.as_secs())),
        };
        let why: Vec<String> = why.into_iter().collect();
        if job.state.is_over() || job.state == State::Waiting {
            return Ok(report(cx, &job, &why, SHOWN));
        }
        Ok(Output::text(format!(
            "{}\n{}\n{}",
            super::headline(&job),
            why.join("\n"),
            written(cx, &job, SHOWN)
        )))
    }
}

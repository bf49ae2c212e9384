//! `stop_task`: stops a job.

use kit::{prelude::*, services::State};

use super::{Id, report};

/// Bytes of the job's output that are shown.
const SHOWN: usize = 2 << 10;

/// Stop a job and all its processes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StopTask {
    /// Such as job_3.
    #[schemars(with = "String")]
    job: Id,
}

impl Tool for StopTask {
    const NAME: &str = "stop_task";
    // Stopping a job is not harmless, though it needs no lock.
    const AT_MOST: Kinds = Kinds::SESSION.with(Kinds::EXCLUSIVE);

    fn touches(&self) -> Touches {
        Touches::none()
    }

    fn title(&self) -> String {
        self.job.0.clone()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let before = cx.jobs().get(&self.job.0)?;
        if before.state.is_over() {
            return Ok(report(cx, &before, &["it was over already".to_owned()], SHOWN));
        }
        let job = cx.jobs().stop(&before.id).await?;
        let lines = match job.state {
            State::Cancelled => Vec::new(),
            _ => vec!["it ended by itself before it was stopped".to_owned()],
        };
        Ok(report(cx, &job, &lines, SHOWN))
    }
}

//! `continue_job`: what does a job that waits for input get?

use std::time::Duration;

use kit::prelude::*;
use serde_json::Value;

use super::Id;

/// How long the job's answer is waited for.
const AT_MOST: Duration = Duration::from_secs(60);

/// Give a job that waits for input its next input; shows what it answers.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ContinueJob {
    /// Such as job_3.
    #[schemars(with = "String")]
    job: Id,
    /// What the job asks for, any JSON.
    input: Value,
}

impl Tool for ContinueJob {
    const NAME: &str = "continue_job";
    // What the job does with it may change anything, though this call itself needs no lock.
    const AT_MOST: Kinds = Kinds::SESSION.with(Kinds::EXCLUSIVE);

    fn touches(&self) -> Touches {
        Touches::none()
    }

    fn patience(&self) -> Option<Duration> {
        Some(AT_MOST)
    }

    fn title(&self) -> String {
        self.job.0.clone()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.jobs().go_on(&self.job.0, self.input, AT_MOST).await
    }
}

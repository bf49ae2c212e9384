//! Sandbox of commands on systems other than Linux, where it can't be tested.

use std::path::Path;

/// The empty result.
pub(super) struct Findings;

/// Returns the empty result.
#[expect(clippy::unused_async, reason = "where it is tried, it takes its time")]
pub(super) async fn findings(_: &Path, _: &[(String, String)], _: &[String]) -> Findings {
    Findings
}

impl Findings {
    #[expect(clippy::unused_self, reason = "as where it is tried")]
    pub(super) fn of(&self, _: &str) -> Result<(), String> {
        Err("it is tried on Linux only".to_owned())
    }

    pub(super) fn are_proof(&self) -> Result<(), String> {
        self.of("")
    }

    pub(super) fn sets_aside(&self) -> Result<(), String> {
        self.of("")
    }

    pub(super) fn is_limited(&self) -> Result<(), String> {
        self.of("")
    }

    pub(super) fn leaves_nothing(&self) -> Result<(), String> {
        self.of("")
    }
}

//! `skim` as nav has it: haft's, with other names for the line arguments.

use kit::prelude::*;

use crate::files;

/// Show some lines of a file, as `LINE:HASH|text`: for a quick look where you know the line numbers.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Skim {
    /// File, relative to the workspace or absolute.
    path: String,
    /// First line, from 1.
    #[serde(alias = "start")]
    start_line: i64,
    /// Last line; at most 500 lines are shown. Default: start_line + 499.
    #[serde(default, alias = "end")]
    end_line: Option<usize>,
}

impl Tool for Skim {
    const NAME: &str = "skim";
    const AT_MOST: Kinds = <files::skim::Skim as Tool>::AT_MOST;

    fn touches(&self) -> Touches {
        Touches::read(&self.path)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let Self { path, start_line, end_line: end } = self;
        // Models may count from 0, which nav takes as the first line.
        let start = usize::try_from(start_line).unwrap_or(0).max(1);
        files::skim::Skim { path, start, end }.run(cx).await
    }
}

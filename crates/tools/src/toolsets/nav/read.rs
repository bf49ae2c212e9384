//! `read` as nav has it: haft's, with line 0 as the first.

use kit::prelude::*;

use crate::files;

/// Read a file. Every line is shown as `LINE:HASH|text`[?; `tool:edit` takes `LINE:HASH` as an anchor?].
/// Pages of 2,000 lines: the last line says how to continue. Lists folders, shows pictures and PDFs.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Read {
    /// File, relative to the workspace or absolute; or a long output's handle, such as `out_12`.
    path: String,
    /// First line, from 1; negative counts from the end (-50: the last 50 lines).
    #[serde(default)]
    offset: Option<i64>,
    /// Lines to show. Default 2000.
    #[serde(default)]
    limit: Option<usize>,
    /// Only for a line too long to show: the byte of line `offset` to begin at, from 1.
    #[serde(default)]
    column: Option<u64>,
}

impl Tool for Read {
    const NAME: &str = "read";
    const AT_MOST: Kinds = <files::read::Read as Tool>::AT_MOST;

    fn touches(&self) -> Touches {
        Touches::read(&self.path)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let Self { path, offset, limit, column } = self;
        let offset = offset.map(|it| if it == 0 { 1 } else { it });
        files::read::Read { path, offset, limit, column }.run(cx).await
    }
}

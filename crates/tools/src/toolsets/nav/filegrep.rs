//! `filegrep` as nav has it: haft's, with other names for the context arguments.

use kit::prelude::*;

use crate::files;

/// Find lines in one file, shown as `LINE:HASH|text` with the lines around them, ready to edit.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filegrep {
    /// File, relative to the workspace or absolute.
    path: String,
    /// Text to find; a regular expression if `regex` is set.
    pattern: String,
    /// Lines before each match. Default 2.
    #[serde(default, rename = "linesBefore", alias = "before")]
    lines_before: Option<usize>,
    /// Lines after each match. Default 2.
    #[serde(default, rename = "linesAfter", alias = "after")]
    lines_after: Option<usize>,
    /// The pattern is a regular expression (Rust syntax).
    #[serde(default)]
    regex: bool,
    /// Upper and lower case differ.
    #[serde(default)]
    case_sensitive: bool,
    /// Matches to skip; a longer result names the value to pass.
    #[serde(default)]
    offset: usize,
    /// Maximum matches. Default 100.
    #[serde(default)]
    limit: Option<usize>,
}

impl Tool for Filegrep {
    const NAME: &str = "filegrep";
    const AT_MOST: Kinds = <files::filegrep::Filegrep as Tool>::AT_MOST;

    fn touches(&self) -> Touches {
        Touches::read(&self.path)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let Self { path, pattern, lines_before, lines_after, regex, case_sensitive, offset, limit } = self;
        let (before, after) = (lines_before, lines_after);
        files::filegrep::Filegrep { path, pattern, regex, case_sensitive, before, after, offset, limit }
            .run(cx)
            .await
    }
}

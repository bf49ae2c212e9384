//! `grep` as KohakuTerrarium has it: `file:line: content`.

use kit::prelude::*;

use super::{gitignore::Gitignore, glob::not_there};
use crate::{search::lines::Pattern, toolsets::find};

const LIMIT: usize = 50;

/// Search files by regex. Leaves out binary files.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
// The fields have defaults so that a missing one gets that toolset's own message.
#[schemars(extend("required" = ["pattern"]))]
pub(crate) struct Grep {
    /// Regex to search for.
    #[serde(default)]
    pattern: String,
    /// File or folder. Default: the working directory.
    #[serde(default)]
    path: String,
    /// Only files like this, such as `*.py`.
    glob: Option<String>,
    /// Most matches. Default: 50.
    limit: Option<i64>,
    /// Upper and lower case alike.
    #[serde(default)]
    ignore_case: bool,
    /// Leave out what git ignores. Default: true.
    #[serde(default)]
    #[schemars(with = "bool")]
    gitignore: Gitignore,
}

impl Tool for Grep {
    const NAME: &str = "grep";
    const AT_MOST: Kinds = Kinds::READ;

    fn touches(&self) -> Touches {
        Touches::read(&self.path)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.blocking(move |cx| self.search(cx)).await
    }
}

impl Grep {
    fn search(&self, cx: &Cx) -> Result<Output, Fault> {
        if self.pattern.is_empty() {
            return Err(Fault::bad_args("No pattern provided"));
        }
        let limit = usize::try_from(self.limit.unwrap_or(LIMIT as i64)).ok().filter(|it| *it > 0);
        let limit = limit.ok_or_else(|| Fault::bad_args("limit must be a positive integer"))?.min(1_000);
        let pattern = Pattern { text: &self.pattern, ignore_case: self.ignore_case, ..Pattern::default() };
        let found =
            find::lines(cx, &self.path, pattern, self.glob.as_deref(), self.gitignore.ignored(), limit);
        let found = found.map_err(|fault| match fault.kind {
            Kind::BadArgs => Fault { what: format!("Invalid regex: {}", fault.what), ..fault },
            _ => not_there(&self.path, fault),
        })?;
        let (count, files) = (found.lines.len(), found.searched);
        let mut text: String =
            found.lines.iter().map(|(path, number, line)| format!("{path}:{number}: {line}\n")).collect();
        text.push_str(&match count < found.total {
            true => format!(
                "(Showing {count} matches from {files} files; more may exist. Narrow your pattern or glob to refine.)"
            ),
            false => format!("({count} matches in {files} files)"),
        });
        if let Some(stopped) = found.stopped {
            text.push_str(&format!("\n{stopped}"));
        }
        Ok(Output::page(text))
    }
}

//! `glob` as KohakuTerrarium has it: the files that changed last come first.

use kit::prelude::*;

use super::gitignore::Gitignore;
use crate::toolsets::find;

const LIMIT: usize = 100;

/// Find files by a glob, the newest first.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
// The fields have defaults so that a missing one gets that toolset's own message.
#[schemars(extend("required" = ["pattern"]))]
pub(crate) struct Glob {
    /// Such as `**/*.py`.
    #[serde(default)]
    pattern: String,
    /// Folder to search. Default: the working directory.
    #[serde(default)]
    path: String,
    /// Most paths. Default: 100.
    limit: Option<usize>,
    /// Leave out what git ignores. Default: true.
    #[serde(default)]
    #[schemars(with = "bool")]
    gitignore: Gitignore,
}

impl Tool for Glob {
    const NAME: &str = "glob";
    const STANDS_FOR: &'static [StandsFor] = &[StandsFor::tool("glob").naming(&[("dir", "path")])];
    const AT_MOST: Kinds = Kinds::READ;

    fn touches(&self) -> Touches {
        Touches::read(&self.path)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        if self.pattern.is_empty() {
            return Err(Fault::bad_args("No pattern provided"));
        }
        cx.blocking(move |cx| self.find(cx)).await
    }
}

impl Glob {
    fn find(&self, cx: &Cx) -> Result<Output, Fault> {
        let limit = self.limit.unwrap_or(LIMIT).max(1);
        let found = find::named(
            cx,
            &self.path,
            &self.pattern,
            self.gitignore.ignored(),
            limit,
            (limit * 10).max(5_000),
        );
        let found = found.map_err(|fault| not_there(&self.path, fault))?;
        if found.paths.is_empty() {
            return Ok(Output::text("(no matches)"));
        }
        let mut text = found.paths.join("\n");
        if found.total > found.paths.len() {
            let shown = found.paths.len();
            text.push_str(&format!("\n(Showing {shown} of {} files; more: a greater limit)", found.total));
        }
        Ok(Output::page(text))
    }
}

/// Rewrites the fault for a missing folder in KohakuTerrarium's words.
pub(super) fn not_there(path: &str, fault: Fault) -> Fault {
    match fault.kind {
        Kind::NotFound => Fault { what: format!("Path not found: {path}"), ..fault },
        _ => fault,
    }
}

//! `tree` as KohakuTerrarium has it.

use kit::prelude::*;

use super::{gitignore::Gitignore, glob::not_there};
use crate::search::tree;

const LIMIT: usize = 100;

/// Show a folder and what is below it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tree {
    /// Folder. Default: the working directory.
    #[serde(default)]
    path: String,
    /// Levels to go down. Default: 3.
    depth: Option<usize>,
    /// Most lines. Default: 100.
    limit: Option<usize>,
    /// Leave out what git ignores. Default: true.
    #[serde(default)]
    #[schemars(with = "bool")]
    gitignore: Gitignore,
}

impl Tool for Tree {
    const NAME: &str = "tree";
    const STANDS_FOR: &'static [StandsFor] = &[StandsFor::tool("tree").naming(&[("dir", "path")])];
    const AT_MOST: Kinds = Kinds::READ;

    fn touches(&self) -> Touches {
        Touches::read(&self.path)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let Self { path, depth, limit, gitignore } = self;
        let limit = limit.unwrap_or(LIMIT);
        let shown = tree::Tree::of(path.clone(), depth, limit, gitignore.ignored()).run(cx).await.map_err(
            |fault| match fault.kind {
                Kind::BadArgs if !fault.what.starts_with('`') => fault,
                Kind::BadArgs => Fault { what: format!("Not a directory: {path}"), ..fault },
                _ => not_there(&path, fault),
            },
        )?;
        let cut = format!("... (output limited to {limit} lines, use limit=N or path=subdir to see more)");
        Ok(Output::page(shown.as_text().replace(tree::CUT, &cut)))
    }
}

//! `write` as nav has it: content that is not a text is written as JSON.

use kit::prelude::*;
use serde_json::Value;

use crate::files;

/// Create a file with this content and any missing folders. [?To change an existing file use `tool:edit`.?]
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Write {
    /// File, relative to the workspace or absolute.
    path: String,
    /// The whole content.
    #[schemars(with = "String")]
    content: Value,
    /// Replace the file if it exists. Only after you have read the whole of it.
    #[serde(default)]
    overwrite: bool,
}

impl Tool for Write {
    const NAME: &str = "write";
    const AT_MOST: Kinds = <files::write::Write as Tool>::AT_MOST;

    fn touches(&self) -> Touches {
        Touches::write(&self.path)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let Self { path, content, overwrite } = self;
        let content = match content {
            Value::String(text) => text,
            other => format!("{other:#}"),
        };
        files::write::Write { path, content, overwrite }.run(cx).await
    }
}

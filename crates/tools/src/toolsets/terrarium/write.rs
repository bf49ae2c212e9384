//! `write` as KohakuTerrarium has it: a file that exists must have been read.

use kit::{files::Before, prelude::*, text::Content};

use super::guard::{self, Need};
use crate::files::write::{in_the_manner_of, remember};

/// Write a file; folders on the way are made. One that exists must have been read before.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
// The fields have defaults so that a missing one gets that toolset's own message.
#[schemars(extend("required" = ["path", "content"]))]
pub(crate) struct Write {
    /// File to write.
    #[serde(default)]
    path: String,
    /// The whole content.
    content: String,
}

impl Tool for Write {
    const NAME: &str = "write";
    const AT_MOST: Kinds = Kinds::WRITE;

    fn touches(&self) -> Touches {
        Touches::write(&self.path)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.blocking(move |cx| self.write(cx)).await
    }
}

impl Write {
    fn write(&self, cx: &Cx) -> Result<Output, Fault> {
        let Self { path, content } = self;
        if path.is_empty() {
            return Err(Fault::bad_args("No path provided"));
        }
        if !cx.files().exists(path)? {
            let content = Content::from(content.as_bytes());
            let saved = cx.files().save(path, Before::Absent, &content)?;
            let size = remember(cx, &saved.location, content);
            return Ok(Output::text(format!("Created {path} ({size})")));
        }
        let opened = guard::open(cx, path)?;
        guard::read_before(cx, path, &opened, Need::All)?;
        let (bytes, kept) = in_the_manner_of(&opened, content)?;
        let content = Content::from(bytes);
        let saved = cx.files().save(path, opened.before(), &content)?;
        let size = remember(cx, &saved.location, content);
        Ok(Output::text(format!("Updated {path} ({size}{kept})")))
    }
}

//! `undo`: reverts the file changes of a call.

use kit::{prelude::*, services::Which};

/// Maximum number of changes that are listed.
const LISTED: usize = 20;

/// Undo the file changes of a call of this session: by default the newest not undone yet; repeat to go further back. A file that was changed since is left alone. An undo can be undone.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Undo {
    /// Only the newest change of this file.
    #[serde(default)]
    path: Option<String>,
    /// The changes of this call, by its id.
    #[serde(default)]
    call: Option<String>,
    /// Show what can be undone, and change nothing.
    #[serde(default)]
    list: bool,
}

impl Tool for Undo {
    const NAME: &str = "undo";
    const AT_MOST: Kinds = Kinds::WRITE.with(Kinds::EXCLUSIVE);

    fn touches(&self) -> Touches {
        match &self.path {
            _ if self.list => Touches::none(),
            Some(path) => Touches::write(path),
            // The files are known only when it runs: nothing else may write meanwhile.
            None => Touches::exclusive(),
        }
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.blocking(move |cx| self.undo(cx)).await
    }
}

impl Undo {
    fn undo(self, cx: &Cx) -> Result<Output, Fault> {
        if self.list {
            return cx.undo().list(LISTED);
        }
        let which = match (self.path, self.call) {
            (Some(_), Some(_)) => return Err(Fault::bad_args("give `path` or `call`, not both")),
            (Some(path), None) => Which::File(cx.files().locate(&path)?.absolute()),
            (None, Some(call)) => Which::Call(call),
            (None, None) => Which::Last,
        };
        cx.undo().undo(which)
    }
}

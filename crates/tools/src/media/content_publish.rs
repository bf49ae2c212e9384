//! `content_publish`: shows a file to the person.

use kit::prelude::*;

use super::share_file::{FILES, described, given, kind_of, share};

/// Show the person a file in the conversation: picture, video, audio, pdf, markdown, text, csv, html, stl. You don't see it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ContentPublish {
    /// File; or the name or id of one that was shared.
    path: String,
}

impl Tool for ContentPublish {
    const NAME: &str = "content_publish";
    const AT_MOST: Kinds = Kinds::READ.with(Kinds::SESSION);

    fn touches(&self) -> Touches {
        Touches::read(&self.path).and(Touch::Session(FILES.to_owned()))
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.blocking(move |cx| publish(cx, &self.path)).await
    }
}

fn publish(cx: &Cx, path: &str) -> Result<Output, Fault> {
    // The file of the workspace takes precedence: a shared file of this name may be older.
    let (shared, kind) = match share(cx, path, None) {
        Ok(new) => new,
        Err(fault) if fault.kind == Kind::NotFound => {
            let shared = cx.shares().find(path).map_err(|_| fault)?;
            let kind = kind_of(&shared)?;
            (shared, kind)
        }
        Err(fault) => return Err(fault),
    };
    let Some(shown) = kind.shown else {
        let what = format!("`{}` is {}, which can't be shown", shared.name, kind.mime);
        let next = "It is shared all the same: the person can download it.";
        return Err(Fault::bad_args(what)
            .next(next)
            .seen(given(format!("shared {}", described(&shared)), &shared)));
    };
    let shared = cx.shares().publish(&shared.id)?;
    let manner = match kind.mime {
        "text/html" | "image/svg+xml" => " (to download where its scripts could run)",
        _ => "",
    };
    let line = format!(
        "published as {shown}{manner}: {}\nThe person's program is asked to show it; you don't see it.",
        described(&shared)
    );
    Ok(given(line, &shared))
}

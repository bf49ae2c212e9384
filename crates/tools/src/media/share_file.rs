//! `share_file`: gives a file to the person.

use std::path::Path;

use kit::{
    prelude::*,
    services::{NewShare, Shared},
};

use super::{
    kind::{self, FileKind, HEAD},
    view::in_bytes,
};
use kit::Part;

/// The key of the session's files.
pub(super) const FILES: &str = "files";

/// Give the person a file to download: a copy, at most 200 MB, for 24 hours.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShareFile {
    /// File to share.
    path: String,
    /// Name for the person. Default: its own.
    #[serde(default)]
    name: Option<String>,
}

impl Tool for ShareFile {
    const NAME: &str = "share_file";
    const AT_MOST: Kinds = Kinds::READ.with(Kinds::SESSION);

    fn touches(&self) -> Touches {
        Touches::read(&self.path).and(Touch::Session(FILES.to_owned()))
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.blocking(move |cx| {
            let (shared, _) = share(cx, &self.path, self.name.as_deref())?;
            Ok(given(format!("shared {}", described(&shared)), &shared))
        })
        .await
    }
}

/// Copies a file of the workspace to the session's shared files. Blocks.
///
/// # Errors
/// Those of opening it, and of [`kit::services::Shares::share`].
pub(super) fn share(cx: &Cx, path: &str, name: Option<&str>) -> Result<(Shared, FileKind), Fault> {
    let open = cx.files().open(path)?;
    let own = Path::new(path).file_name().map(|it| it.to_string_lossy().into_owned());
    let name = name.map(str::to_owned).or(own).unwrap_or_default();
    let bytes = open.identity.size;
    let head = open.head(HEAD).or_fault(Kind::Unavailable, &format!("`{path}` can't be read"))?;
    let kind = kind::of(&head, bytes, &name);
    let new = NewShare { name, mime: kind.mime.to_owned(), bytes, inline: kind.inline };
    let shared = cx.shares().share(open.file(), new, &|| cx.check())?;
    Ok((shared, kind))
}

/// Returns the type of a shared file.
pub(super) fn kind_of(shared: &Shared) -> Result<FileKind, Fault> {
    use std::io::Read as _;
    let unread = format!("`{}` can't be read", shared.name);
    let mut head = Vec::new();
    let file = std::fs::File::open(&shared.path).or_fault(Kind::Unavailable, &unread)?;
    file.take(HEAD as u64).read_to_end(&mut head).or_fault(Kind::Unavailable, &unread)?;
    Ok(kind::of(&head, shared.bytes, &shared.name))
}

/// Formats its type, size and expiry.
pub(super) fn described(shared: &Shared) -> String {
    let until = i64::try_from(shared.until_ms).ok();
    let until = until.and_then(|it| jiff::Timestamp::from_millisecond(it).ok());
    let until = until.map_or_else(String::new, |it| format!(", until {}", it.strftime("%Y-%m-%d %H:%M UTC")));
    let bytes = in_bytes(usize::try_from(shared.bytes).unwrap_or(usize::MAX));
    format!("`{}`: {}, {bytes}{until}; id {}", shared.name, shared.mime, shared.id)
}

/// Returns a line, and the link.
pub(super) fn given(line: String, shared: &Shared) -> Output {
    let link = Part::Link {
        uri: shared.link.clone(),
        name: shared.name.clone(),
        mime: Some(shared.mime.clone()),
        bytes: Some(shared.bytes),
    };
    Output { parts: vec![Part::Text { text: line }, link], ..Output::default() }
}

//! MCP resources of spilled outputs and shared files.

use std::{
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    path::Path,
};

use kit::{
    Body, Fault, Kind,
    services::{Shared, Shares as _},
};
use serve::{Content, Document};

use super::{McpBackend, OUTPUTS, SHOWN, in_brief};

/// The maximum size of binary content, in bytes; a larger one is not given at all.
const BLOB: u64 = 8 << 20;

impl McpBackend {
    /// Returns the spilled outputs, the newest first.
    pub(super) fn output_documents(&self) -> Result<Vec<Document>, Fault> {
        let kept = self.session.runtime().spills().list(self.session.name())?;
        let document = |(handle, bytes): (String, u64)| Document {
            uri: format!("{OUTPUTS}{handle}"),
            description: format!("Whole output of a call that was truncated, {bytes} bytes."),
            name: handle,
            mime: None,
            bytes: Some(bytes),
        };
        Ok(kept.into_iter().rev().map(document).collect())
    }

    /// Returns their handles, the newest first.
    pub(super) fn handles(&self) -> Vec<String> {
        let kept = self.session.runtime().spills().list(self.session.name()).unwrap_or_default();
        kept.into_iter().rev().map(|(handle, _)| handle).collect()
    }

    pub(super) fn output(&self, uri: &str, handle: &str) -> Result<Vec<Content>, Fault> {
        let spills = self.session.runtime().spills();
        // A malformed handle is not found, too: a client requests an address.
        let path = spills.path(self.session.name(), handle).map_err(|fault| match fault.kind {
            Kind::BadArgs => Fault { kind: Kind::NotFound, ..fault },
            _ => fault,
        })?;
        let more = format!("the tool `read` shows the rest: its path is {handle}");
        self.content(uri, handle, &path, None, &more)
    }

    /// Returns the shared files, the newest first.
    pub(super) fn file_documents(&self) -> Result<Vec<Document>, Fault> {
        let document = |file: Shared| Document {
            uri: file.link,
            description: format!("Shared file, {} bytes.", file.bytes),
            name: file.name,
            mime: Some(file.mime),
            bytes: Some(file.bytes),
        };
        Ok(self.session.files().list()?.into_iter().rev().map(document).collect())
    }

    /// Returns the ids of the shared files, the newest first.
    pub(super) fn file_ids(&self) -> Vec<String> {
        let shared = self.session.files().list().unwrap_or_default();
        shared.into_iter().rev().map(|it| it.id).collect()
    }

    /// Returns a shared file, by its id alone.
    pub(super) fn file(&self, uri: &str, id: &str) -> Result<Vec<Content>, Fault> {
        let missing = || {
            Fault::not_found(format!("there is no `{}`, or it was deleted because of its age", in_brief(uri)))
        };
        let shared = self.session.files().find(id).map_err(|_| missing())?;
        if shared.id != id {
            return Err(missing());
        }
        let more = format!("the whole of it is {}", shared.path.display());
        self.content(uri, &shared.name, &shared.path, Some(&shared.mime), &more)
    }

    /// Returns the content of a file: as text if it is text, with `more` at its end if it is truncated.
    fn content(
        &self,
        uri: &str,
        name: &str,
        path: &Path,
        mime: Option<&str>,
        more: &str,
    ) -> Result<Vec<Content>, Fault> {
        let unread = |error: std::io::Error| {
            Fault::new(Kind::Unavailable, format!("{name} can't be read: {error}")).caused_by(error)
        };
        let mut file = File::open(path).map_err(unread)?;
        let total = file.metadata().map_err(unread)?.len();
        let mut bytes = Vec::new();
        file.by_ref().take(SHOWN as u64).read_to_end(&mut bytes).map_err(unread)?;
        let content = |mime: &str, body: Body| {
            Ok(vec![Content { uri: uri.to_owned(), mime: Some(mime.to_owned()), body }])
        };
        if let Some(text) = text_of(&bytes, total) {
            let mut shown = self.shown(text);
            if (text.len() as u64) < total {
                shown.push_str(&format!("\n[the first {} of {total} bytes; {more}]", text.len()));
            }
            return content(mime.unwrap_or("text/plain"), Body::Text(shown));
        }
        if total > BLOB {
            let what = format!("{name} has {total} bytes that are not text; the maximum is {BLOB}");
            return Err(Fault::new(Kind::TooBig, what));
        }
        let mut all = Vec::new();
        file.seek(SeekFrom::Start(0)).and_then(|_| file.take(BLOB).read_to_end(&mut all)).map_err(unread)?;
        content(mime.unwrap_or_else(|| media_type(&all)), Body::Bytes(all))
    }
}

/// Returns the bytes as text, without a character that truncation split; `None` if they are not text.
fn text_of(bytes: &[u8], total: u64) -> Option<&str> {
    if bytes.contains(&0) {
        return None;
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(error) if error.error_len().is_none() && (bytes.len() as u64) < total => {
            std::str::from_utf8(bytes.get(..error.valid_up_to())?).ok()
        }
        Err(_) => None,
    }
}

/// Returns the media type by the first bytes, for formats that a client may be able to show.
fn media_type(bytes: &[u8]) -> &'static str {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => "image/png",
        [0xff, 0xd8, 0xff, ..] => "image/jpeg",
        [b'G', b'I', b'F', b'8', ..] => "image/gif",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "image/webp",
        [b'%', b'P', b'D', b'F', ..] => "application/pdf",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_told_from_bytes_and_keeps_its_characters_whole() {
        assert_eq!(text_of("über".as_bytes(), 5), Some("über"));
        assert_eq!(text_of("über".as_bytes().get(..1).unwrap_or_default(), 5), Some(""));
        assert_eq!(text_of("aü".as_bytes().get(..2).unwrap_or_default(), 5), Some("a"));
        assert_eq!(text_of("aü".as_bytes().get(..2).unwrap_or_default(), 2), None, "nothing was cut there");
        assert_eq!(text_of(b"a\0b", 3), None);
        assert_eq!(text_of(b"a\xffb", 10), None);
        assert_eq!(media_type(b"\x89PNG\r\n"), "image/png");
        assert_eq!(media_type(b"\0\0"), "application/octet-stream");
    }
}

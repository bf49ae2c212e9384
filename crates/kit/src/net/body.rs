//! Request bodies.

use std::{
    fmt,
    fs::File,
    hash::{BuildHasher, Hasher, RandomState},
    io,
    os::unix::fs::FileExt,
    sync::Arc,
};

use bytes::Bytes;
use futures_util::stream;

use crate::{Fault, Kind, files::Open};

/// Bytes of a file that are read at a time.
const PIECE: u64 = 256 * 1024;

/// A request body: bytes, files, or both one after the other. Cheap to clone; when it is sent again, files
/// are read again.
#[derive(Clone, Default)]
pub struct Body {
    pieces: Vec<Piece>,
    sensitive: bool,
}

#[derive(Clone)]
enum Piece {
    Bytes(Bytes),
    File(Arc<File>, u64),
}

impl Body {
    /// Creates a body from the whole of a file at its present length. The file is read while it is sent.
    ///
    /// # Errors
    /// When the system gives no handle.
    pub fn of_file(open: &Open) -> Result<Self, Fault> {
        let file = open.file().try_clone().map_err(|error| {
            Fault::new(Kind::Unavailable, format!("`{}` can't be read: {error}", open.location))
        })?;
        Ok(Self { pieces: vec![Piece::File(Arc::new(file), open.identity.size)], sensitive: false })
    }

    /// Appends another body.
    #[must_use]
    pub fn and(mut self, then: impl Into<Self>) -> Self {
        let then = then.into();
        self.pieces.extend(then.pieces);
        self.sensitive |= then.sensitive;
        self
    }

    /// Marks it as sensitive if `is`: no redirect takes a sensitive body to another origin.
    #[must_use]
    pub fn sensitive(self, is: bool) -> Self {
        Self { sensitive: self.sensitive || is, ..self }
    }

    /// Returns whether it is for the requested origin only.
    pub fn is_sensitive(&self) -> bool {
        self.sensitive
    }

    /// Returns its length in bytes.
    pub fn length(&self) -> u64 {
        let of = |piece: &Piece| match piece {
            Piece::Bytes(bytes) => bytes.len() as u64,
            Piece::File(_, length) => *length,
        };
        self.pieces.iter().map(of).sum()
    }

    /// Returns it as reqwest sends it.
    pub(super) fn out(&self) -> reqwest::Body {
        if let [Piece::Bytes(bytes)] = self.pieces.as_slice() {
            return bytes.clone().into();
        }
        let pieces = self.pieces.clone();
        reqwest::Body::wrap_stream(stream::try_unfold((pieces, 0, 0), |(pieces, at, from)| async move {
            next(pieces, at, from).await
        }))
    }
}

/// The pieces, the index of the next one, and the offset in it.
type Left = (Vec<Piece>, usize, u64);

async fn next(pieces: Vec<Piece>, mut at: usize, mut from: u64) -> io::Result<Option<(Bytes, Left)>> {
    loop {
        match pieces.get(at) {
            None => return Ok(None),
            Some(Piece::Bytes(bytes)) => {
                let bytes = bytes.clone();
                return Ok(Some((bytes, (pieces, at + 1, 0))));
            }
            Some(Piece::File(_, length)) if from >= *length => (at, from) = (at + 1, 0),
            Some(Piece::File(file, length)) => {
                let (file, most) = (file.clone(), PIECE.min(length - from));
                let read = move || {
                    let mut piece = vec![0; usize::try_from(most).unwrap_or(0)];
                    file.read_exact_at(&mut piece, from).map(|()| piece)
                };
                let piece = tokio::task::spawn_blocking(read).await.map_err(io::Error::other)??;
                return Ok(Some((piece.into(), (pieces, at, from + most))));
            }
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.length())
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self { pieces: vec![Piece::Bytes(bytes)], sensitive: false }
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::from(bytes).into()
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Bytes::from(text).into()
    }
}

/// A form of several parts, `multipart/form-data`.
pub struct Form {
    boundary: String,
    body: Body,
}

impl Default for Form {
    fn default() -> Self {
        let random = || RandomState::new().build_hasher().finish();
        Self { boundary: format!("haft-{:016x}{:016x}", random(), random()), body: Body::default() }
    }
}

impl Form {
    /// Adds a part.
    #[must_use]
    pub fn part(
        mut self,
        name: &str,
        file: Option<&str>,
        media_type: Option<&str>,
        content: impl Into<Body>,
    ) -> Self {
        let mut head =
            format!("--{}\r\nContent-Disposition: form-data; name=\"{}\"", self.boundary, quoted(name));
        if let Some(file) = file {
            head.push_str(&format!("; filename=\"{}\"", quoted(file)));
        }
        if let Some(media_type) = media_type {
            head.push_str(&format!("\r\nContent-Type: {}", media_type.replace(['\r', '\n'], " ")));
        }
        head.push_str("\r\n\r\n");
        self.body = self.body.and(head).and(content).and("\r\n".to_owned());
        self
    }

    /// Returns its media type and its body.
    pub fn finish(self) -> (String, Body) {
        let end = format!("--{}--\r\n", self.boundary);
        (format!("multipart/form-data; boundary={}", self.boundary), self.body.and(end))
    }
}

/// Escapes a name within quotes, as browsers do.
fn quoted(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

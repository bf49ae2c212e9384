//! Which OpenSCAD source does a call speak of?

use std::path::PathBuf;

use kit::{Cx, Fault, Touch, Touches};

/// The longest source.
const LONGEST: u64 = 4 << 20;

/// Source text, and what it is called.
pub(super) struct Source<'a> {
    /// The file, as the model wrote it; none for text that came with the call.
    pub(super) path: Option<&'a str>,
    /// Where that file is.
    pub(super) place: Option<PathBuf>,
    pub(super) text: String,
}

impl<'a> Source<'a> {
    /// What reading it touches: what it uses and includes may lie anywhere in the workspace.
    pub(super) fn touches(path: &str) -> Touches {
        let touches = Touches::read(path);
        if path.is_empty() {
            touches
        } else {
            touches.and(Touch::Read(folder(path).to_owned())).and(Touch::Read(String::new()))
        }
    }

    /// The one of the two that was given.
    pub(super) fn of(cx: &Cx, path: &'a str, code: &str) -> Result<Self, Fault> {
        match (path.is_empty(), code.trim().is_empty()) {
            (true, true) => Err(Fault::bad_args("there is no source").next("Give `path` or `code`.")),
            (false, false) => {
                Err(Fault::bad_args("`path` and `code` are both given").next("Give one of them."))
            }
            (true, false) => Ok(Self { path: None, place: None, text: code.to_owned() }),
            (false, true) => {
                let loaded = cx.files().load(path, LONGEST)?;
                let text = String::from_utf8_lossy(&loaded.bytes).into_owned();
                Ok(Self { path: Some(path), place: Some(loaded.location.absolute()), text })
            }
        }
    }

    /// What it is called.
    pub(super) fn name(&self) -> &'a str {
        self.path.unwrap_or("code")
    }

    /// The folder from which it names other files.
    pub(super) fn dir(&self) -> &'a str {
        self.path.map_or("", folder)
    }

    /// A line of it, from 1.
    pub(super) fn line(&self, number: usize) -> Option<&str> {
        self.text.lines().nth(number.checked_sub(1)?)
    }
}

/// The folder of a file.
fn folder(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) => "/",
        Some((dir, _)) => dir,
        None => "",
    }
}

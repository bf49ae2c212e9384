//! The OpenSCAD source of a call.

use std::path::PathBuf;

use kit::{
    Cx, Fault, Touch, Touches,
    text::{Encoding, Text},
};

use crate::files::open::not_text;

/// Maximum size of a source, in bytes.
const LONGEST: u64 = 4 << 20;

/// Maximum length of a name or number that OpenSCAD gets.
const LONGEST_WORD: usize = 10_000;

/// Source text, and its name.
pub(super) struct Source<'a> {
    /// The file, as the model wrote it; none for text that came with the call.
    pub(super) path: Option<&'a str>,
    /// The path of that file.
    pub(super) place: Option<PathBuf>,
    pub(super) text: String,
}

impl<'a> Source<'a> {
    /// Returns the touches of reading it: its used and included files may lie anywhere in the workspace.
    pub(super) fn touches(path: &str) -> Touches {
        let touches = Touches::read(path);
        if path.is_empty() {
            touches
        } else {
            touches.and(Touch::Read(folder(path).to_owned())).and(Touch::Read(String::new()))
        }
    }

    /// Loads the one of the two that was given.
    pub(super) fn of(cx: &Cx, path: &'a str, code: &str) -> Result<Self, Fault> {
        match (path.is_empty(), code.trim().is_empty()) {
            (true, true) => Err(Fault::bad_args("there is no source").next("Give `path` or `code`.")),
            (false, false) => {
                Err(Fault::bad_args("`path` and `code` are both given").next("Give one of them."))
            }
            (true, false) => Ok(Self { path: None, place: None, text: code.to_owned() }),
            (false, true) => {
                let loaded = cx.files().load(path, LONGEST)?;
                let is_text = Text::share(loaded.bytes.clone());
                let is_text = is_text.map_err(|error| not_text(path, &loaded.bytes, error))?;
                if matches!(is_text.encoding(), Encoding::Utf16Le | Encoding::Utf16Be) {
                    return Err(Fault::bad_args(format!("`{path}` is UTF-16, and OpenSCAD reads UTF-8"))
                        .next("Write it again as UTF-8."));
                }
                let text = String::from_utf8_lossy(&loaded.bytes).into_owned();
                Ok(Self { path: Some(path), place: Some(loaded.location.absolute()), text })
            }
        }
    }

    /// Returns its name.
    pub(super) fn name(&self) -> &'a str {
        self.path.unwrap_or("code")
    }

    /// Returns the folder against which it names other files.
    pub(super) fn dir(&self) -> &'a str {
        self.path.map_or("", folder)
    }

    /// Refuses source that OpenSCAD would parse for minutes: its time for one name or number grows with the
    /// square of the length (1.4 s at 10,000 characters, minutes at 100,000).
    ///
    /// # Errors
    /// [`Kind::BadArgs`](kit::Kind::BadArgs) with the line of the word.
    pub(super) fn can_be_read(&self) -> Result<(), Fault> {
        let Some((at, word)) =
            super::scad_lint::longest_word(&self.text).filter(|it| it.1.len() > LONGEST_WORD)
        else {
            return Ok(());
        };
        let line = self.text.get(..at).unwrap_or_default().matches('\n').count() + 1;
        let begin: String = word.chars().take(20).collect();
        let what = format!(
            "`{}` can't be OpenSCAD source: line {line} has a word of {} characters (`{begin}…`), and a name or number has at most {LONGEST_WORD}",
            self.name(),
            word.len()
        );
        Err(Fault::bad_args(what)
            .hint("Look whether it is the file you meant[?; `tool:scad_lint` checks source?]."))
    }

    /// Returns a line of it, from 1.
    pub(super) fn line(&self, number: usize) -> Option<&str> {
        self.text.lines().nth(number.checked_sub(1)?)
    }
}

/// Returns the folder of a file.
fn folder(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) => "/",
        Some((dir, _)) => dir,
        None => "",
    }
}

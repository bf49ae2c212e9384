//! Opening a text file for a tool: loads, decodes, and explains binary files.

use kit::{
    Cx, Fault, Kind, counted,
    files::{Before, Loaded, Location, Open},
    references::call,
    seen::Whole,
    text::{NotText, Text},
};
use serde_json::json;

/// Maximum size of a file that is loaded as a whole.
pub(crate) const MOST: u64 = 256 << 20;

/// A text file as it is now.
pub(crate) struct Opened {
    /// Its bytes and its identity.
    pub(crate) loaded: Loaded,
    /// Its text.
    pub(crate) text: Text,
}

impl Opened {
    pub(crate) fn location(&self) -> &Location {
        &self.loaded.location
    }

    /// Returns the state on which a change is based.
    pub(crate) fn before(&self) -> Before<'_> {
        Before::Was(&self.loaded)
    }
}

/// Loads a text file.
///
/// # Errors
/// Those of [`Files::load`](kit::Files::load), and [`Kind::BadArgs`] when it is not text.
pub(crate) fn text(cx: &Cx, path: &str) -> Result<Opened, Fault> {
    text_of(cx.files().open(path)?, path)
}

/// Loads a text file that is open already, for instance after a check of its size.
///
/// # Errors
/// Those of [`Open::load`], and [`Kind::BadArgs`] when it is not text.
pub(crate) fn text_of(open: Open, path: &str) -> Result<Opened, Fault> {
    let loaded = open.load(path, MOST)?;
    let text = Text::share(loaded.bytes.clone()).map_err(|error| not_text(path, &loaded.bytes, error))?;
    Ok(Opened { loaded, text })
}

/// Returns the fault for a file that is not text: its type, and the tool to use.
pub(crate) fn not_text(path: &str, head: &[u8], error: NotText) -> Fault {
    if error == NotText::TooBig {
        return Fault::new(Kind::TooBig, format!("`{path}` is over 4 GiB"));
    }
    let what = infer::get(head).map_or_else(
        || "binary, of no known type".to_owned(),
        |kind| format!("binary, by its content {} (.{})", kind.mime_type(), kind.extension()),
    );
    let fault = Fault::bad_args(format!("`{path}` is not text: it is {what}"));
    let is_seen = infer::is_image(head) || head.starts_with(b"%PDF-");
    if is_seen {
        return fault.hint(format!("[?{} shows it.?]", call("image_view", &json!({"path": path}))));
    }
    fault.hint("It can't be read or changed as text[?; `tool:tree` shows what lies beside it?].".to_owned())
}

/// Refuses to replace a file unless the session has seen the whole of its present content.
///
/// # Errors
/// [`Kind::Stale`], with the missing lines and the next step.
pub(crate) fn must_have_seen_whole(cx: &Cx, path: &str, opened: &Opened) -> Result<(), Fault> {
    let stale = |why: String| {
        Err(Fault::new(Kind::Stale, format!("`{path}` exists and {why}; it was not replaced")).hint(format!(
            "{} to its end first[?, or change parts of it with `tool:edit`?].",
            call("read", &json!({"path": path}))
        )))
    };
    match cx.views().whole(&opened.location().absolute(), &opened.text) {
        Whole::Yes => Ok(()),
        Whole::Never => stale("this session has not read it".to_owned()),
        Whole::Partly { seen, total } => {
            stale(format!("this session has seen {seen} of its {} in full", counted(total, "line")))
        }
        Whole::Changed => stale("has changed since this session read it".to_owned()),
    }
}

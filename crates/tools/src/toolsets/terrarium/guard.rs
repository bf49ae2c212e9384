//! Read before write, in KohakuTerrarium's words.
//!
//! KohakuTerrarium compares times, and ignores that only a part was read. Here contents are compared, and
//! replacing a whole file requires reading the whole of it.

use kit::{prelude::*, seen::Whole};

use crate::files::open::{self, Opened};

/// Opens a text file; the fault is in KohakuTerrarium's words.
///
/// # Errors
/// `File not found`, `Not a file`, `Binary file detected`; those of the grants.
pub(super) fn open(cx: &Cx, path: &str) -> Result<Opened, Fault> {
    if path.is_empty() {
        return Err(Fault::bad_args("No path provided"));
    }
    let file = cx.files().open(path).map_err(|fault| in_words(path, fault))?;
    let head = file.head(8 * 1024).unwrap_or_default();
    open::text_of(file, path).map_err(|fault| match fault.kind {
        Kind::BadArgs => binary(path, &head),
        _ => fault,
    })
}

/// Rewrites a fault of opening in KohakuTerrarium's words.
pub(super) fn in_words(path: &str, fault: Fault) -> Fault {
    match fault.kind {
        Kind::NotFound => Fault { what: format!("File not found: {path}"), ..fault },
        Kind::BadArgs => Fault { what: format!("Not a file: {path}"), ..fault },
        _ => fault,
    }
}

/// Returns the fault for a file that is not text.
pub(super) fn binary(path: &str, head: &[u8]) -> Fault {
    let by_name = std::path::Path::new(path).extension().map(|it| it.to_string_lossy().into_owned());
    let kind = infer::get(head).map(|it| it.extension().to_owned()).or(by_name);
    let kind = kind.map(|it| format!(" (.{it})")).unwrap_or_default();
    Fault::bad_args(format!("Binary file detected{kind}. It can't be read or changed as text."))
}

/// The part of a file that must have been read before it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    Some,
    All,
}

/// Refuses to write a file that was not read, or that has changed since.
///
/// # Errors
/// [`Kind::Stale`].
pub(super) fn read_before(cx: &Cx, path: &str, opened: &Opened, need: Need) -> Result<(), Fault> {
    let no = |why: String| Err(Fault::new(Kind::Stale, format!("Cannot write to '{path}': {why}")));
    match cx.views().whole(&opened.location().absolute(), &opened.text) {
        Whole::Yes => Ok(()),
        Whole::Partly { .. } if need == Need::Some => Ok(()),
        Whole::Partly { seen, total } => no(format!(
            "only {seen} of its {total} lines have been read. Read the rest first, or change a part of it with edit."
        )),
        Whole::Never => {
            no("file has not been read yet. Use the read tool first to see the current contents.".to_owned())
        }
        Whole::Changed => {
            no("file was modified since last read. Read it again before making changes.".to_owned())
        }
    }
}

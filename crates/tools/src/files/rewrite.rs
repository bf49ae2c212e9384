//! Writing a text file whose whole new text is known: keeps its encoding, and records the changed lines as seen.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use kit::{
    prelude::*,
    seen::{Rows, Whole},
    text::Text,
};
use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

use super::open::Opened;

/// Time after which a comparison becomes coarse.
const COMPARE: Duration = Duration::from_secs(2);

/// The result of writing.
pub(crate) struct Rewritten {
    /// The file's place.
    pub(crate) location: kit::files::Location,
    /// The new content; `None` if it is not text any more.
    pub(crate) text: Option<Text>,
    /// The removed rows, each with those that replaced them.
    pub(crate) regions: Vec<(Range<usize>, Range<usize>)>,
}

/// Writes `after` in place of `before`, the text of `opened`, in its encoding.
///
/// # Errors
/// [`Kind::Stale`] when another program changed the file in between, [`Kind::BadArgs`] when its encoding
/// lacks a character; those of saving.
pub(crate) fn rewrite(
    cx: &Cx,
    path: &str,
    opened: &Opened,
    before: &str,
    after: &str,
) -> Result<Rewritten, Fault> {
    let encoding = opened.text.encoding();
    let mut bytes = Vec::with_capacity(after.len() + 3);
    if opened.text.has_bom() {
        bytes.extend_from_slice(&encoding.encode("\u{feff}").unwrap_or_default());
    }
    bytes.extend_from_slice(&encoding.encode(after).or_fault(Kind::BadArgs, "nothing was written")?);
    let whole = cx.views().whole(&opened.location().absolute(), &opened.text);
    let saved = cx.files().save(path, opened.before(), bytes.clone())?;
    let regions = regions(before, after);
    let text = Text::parse(bytes).ok();
    if let Some(text) = &text {
        if whole == Whole::Yes {
            cx.views().wrote(&saved.location.absolute(), text);
        } else {
            // The other lines may not have been read; these were written just now.
            let mut rows = Rows::new();
            regions.iter().for_each(|(_, come)| rows.add(come.clone()));
            cx.show_also(&saved.location, text, &rows);
        }
    }
    Ok(Rewritten { location: saved.location, text, regions })
}

fn regions(before: &str, after: &str) -> Vec<(Range<usize>, Range<usize>)> {
    let before: Vec<&str> = before.split_inclusive('\n').collect();
    let after: Vec<&str> = after.split_inclusive('\n').collect();
    let until = Instant::now() + COMPARE;
    capture_diff_slices_deadline(Algorithm::Myers, &before, &after, Some(until))
        .iter()
        .filter(|it| !matches!(it, DiffOp::Equal { .. }))
        .map(|it| (it.old_range(), it.new_range()))
        .collect()
}

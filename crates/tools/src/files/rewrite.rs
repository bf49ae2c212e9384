//! Writing a text file whose new text was made as a whole.

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

/// A comparison that takes longer becomes coarse.
const COMPARE: Duration = Duration::from_secs(2);

/// What was written.
pub(crate) struct Rewritten {
    /// Where.
    pub(crate) location: kit::files::Location,
    /// The file as it is now; nothing where it can't be read as text any more.
    pub(crate) text: Option<Text>,
    /// The rows that went, each with those that came in their place.
    pub(crate) regions: Vec<(Range<usize>, Range<usize>)>,
}

/// Writes `after` in the place of `before`, which is what `opened` holds, in its encoding.
///
/// # Errors
/// [`Kind::Stale`] when another program changed the file in between, [`Kind::BadArgs`] when its encoding has no such
/// character; those of saving.
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
            // Of the rest it is not known any more which lines were read; these were written just now.
            let mut rows = Rows::new();
            regions.iter().for_each(|(_, come)| rows.add(come.clone()));
            cx.show_beside(&saved.location, text, &rows);
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

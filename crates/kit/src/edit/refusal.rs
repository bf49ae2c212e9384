//! Refused edits: one fault for all, with fresh anchors for the retry.

use std::{ops::Range, path::Path};

use crate::{
    Fault, Kind, Output, anchor,
    seen::{Identity, Retired, Rows, Views},
    text::{Digest, Text},
};

/// Maximum number of refused edits that are described one by one.
const TOLD: usize = 10;

/// The reason why one edit can't be made.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) kind: Kind,
    pub(super) what: String,
    pub(super) next: Option<String>,
    /// The rows of the current file that help the retry.
    pub(super) rows: Rows,
    /// Rows of earlier versions that are no longer considered at the retry.
    pub(super) retired: Vec<(Digest, Range<usize>)>,
    /// Lines to add after those.
    pub(super) more: Vec<String>,
}

/// Returns the fault for all refused edits, with fresh anchors. The lines in it are recorded as shown.
pub(super) fn fault(
    refusals: Vec<(Option<usize>, Refusal)>,
    current: &Text,
    identity: Option<&Identity>,
    views: &Views,
    file: &Path,
) -> Fault {
    let kind = refusals.first().map_or(Kind::Bug, |(_, refusal)| refusal.kind);
    let mut what = vec![];
    let mut next = vec![];
    let mut rows = Rows::new();
    let mut retired = Retired::default();
    let mut more = vec![];
    let rest: Vec<String> =
        refusals.iter().skip(TOLD).filter_map(|(edit, _)| Some((edit.as_ref()? + 1).to_string())).collect();
    for (edit, refusal) in refusals.into_iter().take(TOLD) {
        let which = edit.map(|edit| format!("edit {}: ", edit + 1)).unwrap_or_default();
        what.push(format!("{which}{}", refusal.what));
        next.extend(refusal.next.map(|it| format!("{which}{it}")));
        more.extend(refusal.more);
        retired.rows.extend(refusal.retired);
        rows.add_all(&refusal.rows);
    }
    match rest.as_slice() {
        [] => {}
        [one] => what.push(format!("Edit {one} can't be made either.")),
        [first, .., last] => {
            let count = rest.len();
            what.push(format!("{count} more edits of those from {first} to {last} can't be made either."));
        }
    }
    what.push("Nothing was written.".to_owned());

    let shown = anchor::in_passing(current, &rows);
    let rendered = anchor::render(current, &shown);
    views.refused(file, current, identity, &rendered.shown, &retired);
    if shown != rows {
        next.push("Not all of these lines fit here; read them first.".to_owned());
    } else if !rendered.text.is_empty() && next.is_empty() {
        next.push("[?Send it again by these anchors:`if:edit.anchor`|The file has:?]".to_owned());
    }
    let mut seen = vec![];
    if !rendered.text.is_empty() {
        seen.push(rendered.text);
    }
    seen.extend(more);
    let mut fault = Fault::new(kind, what.join("\n"));
    if !next.is_empty() {
        fault = fault.hint(next.join("\n"));
    }
    if seen.is_empty() { fault } else { fault.seen(Output::page(seen.join("\n"))) }
}

//! Pages of a file: limits, large files, and the footer that names the next page.

use kit::{
    anchor,
    files::{Limits, Open, Place, Start, Total},
    prelude::*,
    seen::LARGE,
    text::{NotText, Text},
};

use super::open::not_text;

/// Maximum bytes of the lines of a page, with their anchors. The whole answer has at most 64 kB.
pub(crate) const BYTES: usize = 63_000;

/// Maximum bytes of one line; the rest is reached by `column`.
pub(crate) const LINE_BYTES: usize = 2_000;

/// Renders a page of a file that is too large to load.
///
/// # Errors
/// [`Kind::BadArgs`] when it is not text, or has fewer lines; [`Kind::TooBig`] for a text whose lines can't
/// be found without decoding it.
pub(crate) fn of_large(
    cx: &Cx,
    path: &str,
    open: &Open,
    start: Start,
    lines: usize,
) -> Result<Output, Fault> {
    check_readable(path, open)?;
    let limits = Limits { lines, line_bytes: LINE_BYTES, bytes: BYTES };
    let page = cx.files().page(open, start, limits, &|| cx.check())?;
    if page.lines.is_empty()
        && let (Place::Row(row), Total::Exactly(total)) = (page.first, page.total)
    {
        return Err(past_the_end(path, row, total));
    }
    let mut shown = String::new();
    let mut seen = Vec::with_capacity(page.lines.len());
    let mut clipped = None;
    for (index, line) in page.lines.iter().enumerate() {
        let whole = line.length <= line.bytes.len() as u64;
        let text = String::from_utf8_lossy(&line.bytes);
        let text = text.trim_end_matches('\u{fffd}');
        let place = after(page.first, index);
        let mut shown_line = match place {
            Place::Row(row) => format!("{}:{:02x}|{text}", row + 1, anchor::hash(text)),
            // It has no number yet, and the file is too large to be edited.
            Place::FromEnd(back) => format!("-{back}|{text}"),
        };
        if !whole {
            shown_line.push_str(&format!(" [{} more bytes]", line.length - text.len() as u64));
        }
        if shown.len() + shown_line.len() >= BYTES && index > 0 {
            break;
        }
        if !whole {
            clipped = clipped.or(Some((place, text.len() as u64 + 1)));
        }
        shown.push_str(&shown_line);
        shown.push('\n');
        seen.push((whole && text.len() == line.bytes.len()).then(|| text.to_owned()));
    }
    let total = match page.total {
        Total::Exactly(total) => Some(total),
        Total::AtLeast(_) => None,
    };
    if let Place::Row(first) = page.first {
        cx.showed_of_large(&open.location, &open.identity, total, first, &seen);
    }
    let mut shown = shown.trim_end_matches('\n').to_owned();
    if let Some((place, column)) = clipped {
        shown.push_str(&goes_on(place, column));
    }
    shown.push_str(&match page.first {
        Place::Row(first) => footer(first, first + seen.len(), page.total, ""),
        Place::FromEnd(back) => footer_from_end(back, back - seen.len().min(back), page.total),
    });
    Ok(Output::page(shown))
}

/// Returns the place `lines` lines further.
fn after(place: Place, lines: usize) -> Place {
    match place {
        Place::Row(row) => Place::Row(row + lines),
        Place::FromEnd(back) => Place::FromEnd(back.saturating_sub(lines)),
    }
}

fn check_readable(path: &str, open: &Open) -> Result<(), Fault> {
    let size = open.identity.size;
    let head = open.head(8 * 1024).or_fault(Kind::Unavailable, "can't read the file")?;
    if head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff") {
        let what = format!("`{path}` is UTF-16 and has {size} bytes; at most {LARGE} of that are read");
        return Err(Fault::new(Kind::TooBig, what));
    }
    if Text::parse(head.as_slice()).is_err() {
        let fault = not_text(path, &head, NotText::Binary(0));
        return Err(Fault { what: format!("{}, {size} bytes", fault.what), ..fault });
    }
    Ok(())
}

/// Returns the fault for a page that begins after the last line.
pub(crate) fn past_the_end(path: &str, first: usize, total: usize) -> Fault {
    Fault::bad_args(format!("`offset` is {}, and `{path}` has {}", first + 1, counted(total, "line")))
        .next("-50 shows the last 50 lines.".to_owned())
}

/// Explains how to see the rest of a line that was cut.
pub(crate) fn goes_on(place: Place, column: u64) -> String {
    let line = numbered(place);
    format!("\n[line {line} goes on: offset {line}, column {column}]")
}

/// Returns the number of a line for a person and for `offset`: from 1, or negative from the end.
fn numbered(place: Place) -> String {
    match place {
        Place::Row(row) => (row + 1).to_string(),
        Place::FromEnd(back) => format!("-{back}"),
    }
}

/// Renders a piece of one very long line, from the byte `column` on, which counts from 1.
///
/// # Errors
/// [`Kind::BadArgs`] when the line does not exist, or has fewer bytes.
pub(crate) fn piece(cx: &Cx, path: &str, open: &Open, start: Start, column: u64) -> Result<Output, Fault> {
    const PIECE: usize = 32 * 1024;
    let limits = Limits { lines: 1, line_bytes: 0, bytes: BYTES };
    let page = cx.files().page(open, start, limits, &|| cx.check())?;
    let number = numbered(page.first);
    let Some(line) = page.lines.first() else {
        return Err(Fault::bad_args(format!("`{path}` has no line {number}")));
    };
    let from = column.saturating_sub(1);
    if from >= line.length {
        let what = format!("line {number} has {} bytes; `column` is {column}", line.length);
        return Err(Fault::bad_args(what));
    }
    let most = PIECE.min(usize::try_from(line.length - from).unwrap_or(PIECE));
    let bytes = cx.files().bytes(open, line.offset + from, most)?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_matches('\u{fffd}');
    let after = from + bytes.len() as u64;
    let next = if after < line.length { format!("; next: column {}", after + 1) } else { String::new() };
    Ok(Output::page(format!("{text}\n[line {number}, bytes {column}-{after} of {}{next}]", line.length)))
}

/// Returns the footer: what was shown and how to continue; empty when everything was shown and it is plain UTF-8.
pub(crate) fn footer(first: usize, end: usize, total: Total, manner: &str) -> String {
    let more = total != Total::Exactly(end);
    let mut parts = Vec::new();
    if first > 0 || more {
        parts.push(format!("lines {}-{end} of {}", first + 1, of(total)));
    }
    if !manner.is_empty() {
        parts.push(manner.to_owned());
    }
    if more {
        parts.push(format!("next: offset {}", end + 1));
    }
    if parts.is_empty() { String::new() } else { format!("\n[{}]", parts.join("; ")) }
}

/// Returns the footer of lines that are numbered from the end: `left` more follow them.
fn footer_from_end(first: usize, left: usize, total: Total) -> String {
    let next = if left > 0 { format!("; next: offset -{left}") } else { String::new() };
    format!("\n[lines -{first} to -{} of {}, numbered from the end{next}]", left + 1, of(total))
}

fn of(total: Total) -> String {
    match total {
        Total::Exactly(total) => total.to_string(),
        Total::AtLeast(total) => format!("at least {total}"),
    }
}

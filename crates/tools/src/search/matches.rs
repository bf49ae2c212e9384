//! A page of matches, formatted as lines, paths or counts.

use std::{fmt::Write, path::Path};

use kit::files::Location;

use super::{
    lines::{Hits, Line},
    page::{Ask, First, MOST_BYTES, shown},
};

/// Writes the lines of a page, grouped below their file's path; returns how many matches they are.
pub(super) fn lines(text: &mut String, ask: Ask, at: &Location, found: First<Hits>) -> usize {
    let mut before = 0;
    let mut on_page = 0;
    for (path, matches, hits) in found.into_items() {
        let mut last = None;
        for one in hits.lines.chunk_by(|one, other| one.of == other.of) {
            let Some(first) = one.first() else { continue };
            if !ask.range().contains(&(before + first.of)) {
                continue;
            }
            let mut part = String::new();
            if last.is_none() {
                let gap = if text.is_empty() { "" } else { "\n" };
                let _ = writeln!(part, "{gap}{}", shown(&place(at, &path)));
            }
            for line in one {
                write_line(&mut part, line, last);
                last = Some((line.number, line.of));
                // A single match may exceed a page.
                if part.len() > MOST_BYTES {
                    break;
                }
            }
            if on_page > 0 && text.len() + part.len() > MOST_BYTES {
                return on_page;
            }
            text.push_str(&part);
            on_page += 1;
        }
        before += matches;
    }
    on_page
}

/// Formats `12:` before a matching line, `12-` before a context line, `--` between groups.
fn write_line(text: &mut String, line: &Line, last: Option<(u64, usize)>) {
    let stands_around = !line.is_match;
    if let Some((number, of)) = last
        && number + 1 != line.number
        && (stands_around || of == line.of)
    {
        text.push_str("--\n");
    }
    let mark = if line.is_match { ':' } else { '-' };
    let _ = writeln!(text, "{}{mark}{}", line.number, line.text);
}

/// Writes the paths of a page; returns their number.
pub(super) fn paths(text: &mut String, ask: Ask, at: &Location, found: First<Hits>) -> usize {
    each_path(text, ask, at, found, |_| String::new())
}

/// Writes the paths of a page with their number of matches; returns the number of paths.
pub(super) fn counts(text: &mut String, ask: Ask, at: &Location, found: First<Hits>) -> usize {
    each_path(text, ask, at, found, |hits| format!(":{}", hits.matches))
}

fn each_path(
    text: &mut String,
    ask: Ask,
    at: &Location,
    found: First<Hits>,
    more: impl Fn(&Hits) -> String,
) -> usize {
    let mut on_page = 0;
    for (path, _, hits) in found.into_items().skip(ask.offset) {
        let path = shown(&place(at, &path));
        if text.len() + path.len() > MOST_BYTES {
            break;
        }
        let _ = writeln!(text, "{path}{}", more(&hits));
        on_page += 1;
    }
    on_page
}

/// Returns the place of a result. A search of a single file has no path below it.
fn place(at: &Location, path: &Path) -> Location {
    if path.as_os_str().is_empty() { at.clone() } else { at.join(path) }
}

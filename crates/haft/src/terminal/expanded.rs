//! The chat's reader: shows the whole output of a call, a thought, or a long list in the pager.

use crossterm::event::KeyEvent;
use runtime::truncate::kept_handle;

use super::{
    abbreviate, diff,
    outputs::{Output, Outputs},
    pager::{Paged, Pager},
    row::{Row, Style},
    source::Source,
};

/// Maximum number of bytes of a stored output that are shown.
const MOST: usize = 16 << 20;

/// Maximum number of bytes of a running call's output that are shown, the newest ones.
const RUNNING: usize = 256 << 10;

/// A diff is laid out in this many columns, and wrapped by the pager.
const WIDE: usize = 10_000;

/// A text in the pager.
pub(crate) struct Reading {
    pager: Pager,
    what: What,
}

enum What {
    /// A text without neighbours.
    Alone,
    /// The output at this distance from the newest.
    Output(usize),
    /// The output of a running call, by its id.
    Running(String),
}

impl Reading {
    /// Shows a text without neighbours.
    pub(crate) fn alone(title: &str, lines: Vec<Row>) -> Self {
        Self { pager: Pager::new(title, lines, ""), what: What::Alone }
    }

    /// Shows the output so far of a running call, with its title; otherwise the newest stored output. Returns `None` if there
    /// is none.
    pub(crate) fn newest(running: Option<(&str, &str)>, outputs: &Outputs, source: &Source) -> Option<Self> {
        if let Some((call, title)) = running
            && let Some(lines) = written(source, call)
        {
            let pager = Pager::new(&format!("{title}: running"), lines, "Ctrl-O earlier").following();
            return Some(Self { pager, what: What::Running(call.to_owned()) });
        }
        Self::output(0, outputs, source)
    }

    fn output(before: usize, outputs: &Outputs, source: &Source) -> Option<Self> {
        let output = outputs.newest(before)?;
        let count = outputs.count();
        let title = format!("{} ({} of {count})", output.title, count - before);
        let earlier = (before + 1 < count).then_some("Ctrl-O earlier");
        let later = (before > 0).then_some("→ later");
        let keys: Vec<&str> = earlier.into_iter().chain(later).collect();
        let pager = Pager::new(&title, lines(output, source), &keys.join(" · "));
        Some(Self { pager, what: What::Output(before) })
    }

    /// Applies a key. Returns false once the person leaves.
    pub(crate) fn key(&mut self, key: KeyEvent, outputs: &Outputs, source: Option<&Source>) -> bool {
        let other = match (self.pager.key(key), &self.what) {
            (Paged::Leaves, _) => return false,
            (Paged::Stays, _) | (_, What::Alone) | (Paged::Later, What::Running(_)) => None,
            (Paged::Earlier, What::Running(_)) => Some(0),
            (Paged::Earlier, What::Output(before)) => Some(before + 1),
            (Paged::Later, What::Output(before)) => before.checked_sub(1),
        };
        if let (Some(before), Some(source)) = (other, source)
            && let Some(reading) = Self::output(before, outputs, source)
        {
            *self = reading;
        }
        true
    }

    /// Applies pasted text.
    pub(crate) fn paste(&mut self, text: &str) {
        self.pager.paste(text);
    }

    /// Returns the rows of a screen of this size.
    pub(crate) fn rows(&mut self, columns: usize, lines: usize, source: Option<&Source>) -> Vec<Row> {
        if let (What::Running(call), Some(source)) = (&self.what, source)
            && let Some(lines) = written(source, call)
        {
            self.pager.set_lines(lines);
        }
        self.pager.rows(columns, lines)
    }
}

/// Returns all lines of an output. For a truncated one, reads the stored text.
fn lines(output: &Output, source: &Source) -> Vec<Row> {
    let mut rows = diff::rows(&output.changes, 0, WIDE, usize::MAX, "");
    if !rows.is_empty() {
        rows.push(Row::default());
    }
    let whole = kept_handle(&output.text).and_then(|handle| {
        let bytes = source.read(&output.below, handle).ok()?;
        let text = String::from_utf8_lossy(bytes.get(..MOST).unwrap_or(&bytes)).into_owned();
        Some(kit::escape::visible(&text).0.into_owned())
    });
    rows.extend(Pager::lines_of(whole.as_deref().unwrap_or(&output.text), Style::PLAIN));
    for picture in &output.pictures {
        let size = abbreviate::size(picture.bytes);
        rows.push(Row::new(format!("picture {} ({}, {size})", picture.handle, picture.mime), Style::BOLD));
        if let Ok(path) = source.path(&output.below, &picture.handle) {
            rows.extend(Pager::lines_of(&path.display().to_string(), Style::PLAIN));
        }
    }
    if rows.is_empty() {
        rows.push(Row::new("(no output)", Style::DIM));
    }
    rows
}

fn written(source: &Source, call: &str) -> Option<Vec<Row>> {
    Some(Pager::lines_of(&source.written(call, RUNNING)?, Style::PLAIN))
}

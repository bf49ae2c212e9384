//! Lines of text from positioned letters.

use hayro::{
    hayro_interpret::{
        font::{Glyph, GlyphRun},
        hayro_cmap::BfString,
    },
    kurbo::{Affine, Point, Vec2},
};

/// Letters are on one line if their baselines differ by less than this fraction of their size.
const SAME_LINE: f64 = 0.4;

/// A gap of this fraction of the size is a space between two words.
const SPACE: f64 = 0.11;

/// A gap of this many sizes separates two columns of a table.
const COLUMN: f64 = 1.5;

/// The lines of a page, in the order in which the page draws its letters, which is the reading order in
/// nearly all documents, with columns too.
#[derive(Default)]
pub(super) struct Lines {
    done: Vec<Line>,
    open: Option<Line>,
    /// The beginning of the last run.
    last: Option<Point>,
}

struct Line {
    text: String,
    /// Its direction, as a vector of length 1.
    along: Vec2,
    /// The position of its baseline, across that direction.
    foot: f64,
    /// Its beginning and the end of its last letter, along that direction.
    start: f64,
    end: f64,
    size: f64,
}

impl Lines {
    /// Adds a run of letters; returns how many of them have no Unicode value.
    pub(super) fn add(&mut self, run: &GlyphRun<'_, '_>, transform: &Affine) -> usize {
        self.last = first(run, transform);
        let mut unreadable = 0;
        for glyph in run.glyphs() {
            let [a, b, c, d, x, y] = (*transform * glyph.transform()).as_coeffs();
            // Letters are drawn in thousandths of their size.
            let (along, size) = (Vec2::new(a, b) * 1000.0, Vec2::new(c, d).hypot() * 1000.0);
            let stretch = along.hypot();
            if !(stretch.is_finite() && size.is_finite() && x.is_finite() && y.is_finite()) || stretch == 0.0
            {
                continue;
            }
            let advance = match &**glyph {
                Glyph::Outline(it) => it.advance_width(),
                Glyph::Type3(it) => it.advance_width(),
            };
            let width = advance.map_or(0.5, |it| f64::from(it) / 1000.0) * stretch;
            let mut meaning = String::new();
            match glyph.as_unicode() {
                Some(BfString::Char(it)) => meaning.push(it),
                Some(BfString::String(it)) => meaning = it,
                None => unreadable += 1,
            }
            self.put(&plain(&meaning), Vec2::new(x, y), along / stretch, width, size);
        }
        unreadable
    }

    /// Returns whether this run is at the position of the last one.
    pub(super) fn just_had(&self, run: &GlyphRun<'_, '_>, transform: &Affine) -> bool {
        self.last.is_some() && self.last == first(run, transform)
    }

    fn put(&mut self, text: &str, at: Vec2, along: Vec2, width: f64, size: f64) {
        let foot = at.dot(Vec2::new(-along.y, along.x));
        let start = at.dot(along);
        let goes_on = self.open.as_ref().is_some_and(|line| {
            let larger = line.size.max(size);
            line.along.dot(along) > 0.99
                && (line.foot - foot).abs() < SAME_LINE * larger
                && start > line.end - larger
        });
        if !goes_on {
            self.done.extend(self.open.take());
        }
        let line = self.open.get_or_insert_with(|| Line {
            text: String::new(),
            along,
            foot,
            start,
            end: start,
            size,
        });
        let gap = start - line.end;
        let blank = text.starts_with(' ') || line.text.is_empty() || line.text.ends_with(' ');
        if gap > COLUMN * size && !line.text.trim_end().is_empty() {
            line.text.truncate(line.text.trim_end().len());
            line.text.push_str("  ");
        } else if gap > SPACE * size && !blank {
            line.text.push(' ');
        }
        line.text.push_str(text);
        (line.end, line.size) = (start + width, size);
        if line.text.trim().is_empty() {
            line.foot = foot;
        }
    }

    /// Returns the page as text. A gap between two lines that is wider than usual becomes an empty line.
    pub(super) fn into_text(mut self) -> String {
        self.done.extend(self.open.take());
        let mut text = String::new();
        let mut above: Option<&Line> = None;
        for line in self.done.iter().filter(|it| !it.text.trim().is_empty()) {
            if let Some(above) = above {
                let down = line.foot - above.foot;
                let apart = down > 1.9 * above.size.max(line.size) || down < -above.size;
                text.push_str(if apart && line.start.is_finite() { "\n\n" } else { "\n" });
            }
            text.push_str(line.text.trim_end());
            above = Some(line);
        }
        text
    }
}

fn first(run: &GlyphRun<'_, '_>, transform: &Affine) -> Option<Point> {
    let glyph = run.glyphs().first()?;
    Some(*transform * (glyph.transform() * Point::ORIGIN))
}

/// Removes non-letters, and splits ligatures.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\u{fb00}' => plain.push_str("ff"),
            '\u{fb01}' => plain.push_str("fi"),
            '\u{fb02}' => plain.push_str("fl"),
            '\u{fb03}' => plain.push_str("ffi"),
            '\u{fb04}' => plain.push_str("ffl"),
            '\u{a0}' | '\t' | '\n' | '\r' => plain.push(' '),
            '\u{ad}' => plain.push('-'),
            it if it.is_control() => {}
            it => plain.push(it),
        }
    }
    plain
}

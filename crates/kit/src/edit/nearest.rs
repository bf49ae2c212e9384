//! What in the file is most like a text that is not in it, and how does it differ?

use std::{fmt::Write, ops::Range};

use crate::{anchor, text::Text};

/// Bytes of lines that are compared at most, so that a large file does not take long.
const COMPARED: usize = 8 * 1024 * 1024;
/// Less of a line in common than this is not worth showing.
const ALIKE: f64 = 0.4;
/// Differing lines that are told about.
const TOLD: usize = 5;
/// Characters of a line that are told.
const TOLD_CHARS: usize = 200;

/// Lines of the file that are most like those looked for.
pub(super) struct Nearest {
    pub(super) rows: Range<usize>,
    /// What kind of difference there is, if all lines have but that.
    pub(super) only: Option<&'static str>,
    /// Lines that differ, with what can't be seen made visible.
    pub(super) differences: Vec<String>,
}

/// Finds the rows most like the lines of `old`.
pub(super) fn nearest(text: &Text, old: &str) -> Option<Nearest> {
    let wanted: Vec<&str> = old.lines().collect();
    let start = [without_space as fn(&str) -> String, plainest]
        .into_iter()
        .find_map(|plain| same_when(text, &wanted, plain))
        .or_else(|| most_alike(text, &wanted))?;
    let rows = start..(start + wanted.len()).min(text.line_count());
    let pairs: Vec<(usize, &str, String)> = rows
        .clone()
        .zip(&wanted)
        .map(|(row, wanted)| (row, *wanted, text.line(row).unwrap_or_default().into_owned()))
        .collect();
    let all = |plain: fn(&str) -> String| {
        rows.len() == wanted.len()
            && pairs.iter().enumerate().all(|(at, (_, wanted, line))| {
                let (wanted, line) = (plain(wanted), plain(line));
                let edge = at == 0 || at + 1 == pairs.len();
                wanted == line || edge && line.contains(&wanted)
            })
    };
    let only = if all(str::to_owned) {
        Some("only in where lines end")
    } else if all(without_space) {
        Some("only in white space")
    } else if all(|line| without_space(&visible_letters(line))) {
        Some("only in characters that can't be seen")
    } else if all(plainest) {
        Some("only in case, quotes, dashes or characters that can't be seen")
    } else {
        None
    };
    let differences = pairs
        .iter()
        .filter(|(_, wanted, line)| wanted != line)
        .take(TOLD)
        .map(|(row, wanted, line)| {
            format!("line {} is  {}\n`old` has {}", row + 1, made_visible(line), made_visible(wanted))
        })
        .collect();
    Some(Nearest { rows, only, differences })
}

/// The first row from which all lines are the same once they are made `plain`.
fn same_when(text: &Text, wanted: &[&str], plain: impl Fn(&str) -> String) -> Option<usize> {
    let wanted: Vec<u32> = wanted.iter().map(|line| anchor::squashed(&plain(line))).collect();
    let (first, _) = wanted.split_first()?;
    let mut budget = COMPARED;
    let mut hashes = Vec::with_capacity(text.line_count());
    for row in 0..text.line_count() {
        let line = text.line(row)?;
        budget = budget.checked_sub(line.len().min(budget + 1))?;
        hashes.push(anchor::squashed(&plain(&line)));
    }
    hashes.windows(wanted.len()).position(|window| window.first() == Some(first) && window == wanted)
}

/// The row from which the lines have most in common with those wanted, going by pairs
/// of letters of the most telling line.
fn most_alike(text: &Text, wanted: &[&str]) -> Option<usize> {
    let (at, telling) =
        wanted.iter().enumerate().max_by_key(|(_, line)| without_space(line).len().min(120))?;
    let telling = Pairs::of(telling);
    let mut budget = COMPARED;
    let mut best: Vec<(f64, usize)> = Vec::new();
    for row in 0..text.line_count() {
        let line = text.line(row)?;
        let Some(left) = budget.checked_sub(line.len()) else { break };
        budget = left;
        let alike = telling.alike(&line);
        if alike >= ALIKE && (best.len() < 8 || best.last().is_some_and(|(least, _)| alike > *least)) {
            let place = best.partition_point(|(other, _)| *other >= alike);
            best.insert(place, (alike, row));
            best.truncate(8);
        }
    }
    // Of the best few, the one whose neighbours are alike too.
    let together = |row: usize| -> f64 {
        let start = row.saturating_sub(at);
        let near = wanted.iter().take(20).enumerate();
        near.map(|(at, wanted)| text.line(start + at).map_or(0.0, |line| Pairs::of(wanted).alike(&line)))
            .sum()
    };
    let scored = best.into_iter().map(|(_, row)| (together(row), row));
    scored
        .reduce(|one, other| if other.0 > one.0 { other } else { one })
        .map(|(_, row)| row.saturating_sub(at))
}

/// The pairs of neighbouring letters in a line.
struct Pairs {
    sorted: Vec<(char, char)>,
}

impl Pairs {
    fn of(line: &str) -> Self {
        let mut sorted: Vec<_> = pairs(line).take(400).collect();
        sorted.sort_unstable();
        Self { sorted }
    }

    /// The share of pairs in common, between 0 and 1.
    fn alike(&self, line: &str) -> f64 {
        let mut total = 0_u32;
        let mut common = 0_u32;
        for pair in pairs(line).take(400) {
            total += 1;
            common += u32::from(self.sorted.binary_search(&pair).is_ok());
        }
        let own = u32::try_from(self.sorted.len()).unwrap_or(u32::MAX);
        if own + total == 0 { 0.0 } else { f64::from(2 * common.min(own)) / f64::from(own + total) }
    }
}

fn pairs(line: &str) -> impl Iterator<Item = (char, char)> {
    let letters = || line.chars().filter(|it| !it.is_whitespace());
    letters().zip(letters().skip(1))
}

fn without_space(line: &str) -> String {
    line.split_whitespace().collect()
}

fn visible_letters(line: &str) -> String {
    line.chars().filter(|it| !is_zero_width(*it)).collect()
}

/// The line without what often goes wrong in copying.
fn plainest(line: &str) -> String {
    let letters = line.chars().filter(|it| !it.is_whitespace() && !is_zero_width(*it));
    letters
        .map(|it| match it {
            '‘' | '’' | '“' | '”' | '"' | '`' => '\'',
            '‐'..='―' | '−' => '-',
            _ => it,
        })
        .flat_map(char::to_lowercase)
        .collect()
}

fn is_zero_width(it: char) -> bool {
    matches!(it, '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}' | '\u{ad}')
}

/// The line with tabs as `→`, spaces at either end as `·`, and anything else that
/// can't be seen by its number.
pub(super) fn made_visible(line: &str) -> String {
    let inner = line.trim_start_matches([' ', '\t']);
    let indent = line.len() - inner.len();
    let end = indent + inner.trim_end_matches([' ', '\t', '\r']).len();
    let mut seen = String::new();
    for (at, it) in line.char_indices().take(TOLD_CHARS) {
        match it {
            '\t' => seen.push('→'),
            '\r' => seen.push_str("\\r"),
            ' ' if at < indent || at >= end => seen.push('·'),
            it if it != ' ' && (it.is_whitespace() || it.is_control() || is_zero_width(it)) => {
                // Writing to a string can't fail.
                let _ = write!(seen, "<U+{:04X}>", u32::from(it));
            }
            it => seen.push(it),
        }
    }
    if line.chars().nth(TOLD_CHARS).is_some() {
        seen.push('…');
    }
    seen
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn near(text: &str, old: &str) -> Nearest {
        nearest(&Text::parse(text).unwrap(), old).unwrap()
    }

    #[test]
    fn says_what_differs() {
        let file = "fn a() {\n\treturn 1;\n}\n\nlet q = “x”;\nlet z = a\u{200b}b;\n";
        let found = near(file, "fn a() {\n    return 1; \n");
        assert_eq!((found.rows, found.only), (0..2, Some("only in white space")));
        assert_eq!(found.differences, ["line 2 is  →return 1;\n`old` has ····return 1;·"]);
        assert_eq!(near(file, "let z = ab;").only, Some("only in characters that can't be seen"));
        assert_eq!(
            near(file, "let q = \"x\";").only,
            Some("only in case, quotes, dashes or characters that can't be seen")
        );
        let found = near(file, "let z = aab + 1;");
        assert_eq!((found.rows, found.only), (5..6, None));
    }

    #[test]
    fn makes_visible_what_is_not() {
        assert_eq!(made_visible("\t  a b\u{a0}c\u{200b} \r"), "→··a b<U+00A0>c<U+200B>·\\r");
    }

    #[test]
    fn nothing_is_near_what_is_quite_different() {
        assert!(nearest(&Text::parse("abc\ndef\n").unwrap(), "xyzzy plugh").is_none());
        assert!(nearest(&Text::parse("").unwrap(), "x").is_none());
    }
}

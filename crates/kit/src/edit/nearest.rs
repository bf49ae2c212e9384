//! Nearest match: finds the lines of a file that are most like a text that is not in it, and describes the
//! differences.

use std::{
    cell::{Cell, OnceCell},
    fmt::Write,
    ops::Range,
};

use crate::{anchor, text::Text};

/// Maximum number of bytes that are compared for all edits of a call, so that neither a large file nor many
/// edits take long.
const COMPARED: usize = 8 * 1024 * 1024;
/// Minimum similarity of a line that is shown.
const ALIKE: f64 = 0.4;
/// Maximum number of differing lines in the answer.
const TOLD: usize = 5;
/// Maximum number of characters of each such line.
const TOLD_CHARS: usize = 200;

/// Lines of the file that are most like those looked for.
pub(super) struct Nearest {
    pub(super) rows: Range<usize>,
    /// The kind of difference, if all lines differ in that alone.
    pub(super) only: Option<&'static str>,
    /// The lines that differ, with invisible characters escaped.
    pub(super) differences: Vec<String>,
}

/// Data about a file's lines that all searches in it share.
pub(super) struct Nearby<'a> {
    text: &'a Text,
    /// Returns whether the search should go on.
    alive: &'a dyn Fn() -> bool,
    /// The hash of each normalized line; `None` if there is too much text.
    spaceless: OnceCell<Option<Vec<u32>>>,
    plainest: OnceCell<Option<Vec<u32>>>,
    /// Number of bytes that may still be compared.
    left: Cell<usize>,
}

impl<'a> Nearby<'a> {
    pub(super) fn new(text: &'a Text, alive: &'a dyn Fn() -> bool) -> Self {
        let (spaceless, plainest) = (OnceCell::new(), OnceCell::new());
        Self { text, alive, spaceless, plainest, left: Cell::new(COMPARED) }
    }

    /// Returns the rows most like the lines of `old`.
    pub(super) fn nearest(&self, old: &str) -> Option<Nearest> {
        let wanted: Vec<&str> = old.lines().collect();
        let same = |known, plain: fn(&str) -> String| same_when(self.hashes(known, plain)?, &wanted, plain);
        let start = same(&self.spaceless, without_space)
            .or_else(|| same(&self.plainest, plainest))
            .or_else(|| self.most_alike(&wanted))?;
        Some(compared(self.text, &wanted, start))
    }

    fn hashes<'h>(
        &self,
        known: &'h OnceCell<Option<Vec<u32>>>,
        plain: fn(&str) -> String,
    ) -> Option<&'h [u32]> {
        let hash = |row: usize| {
            let line =
                (!row.is_multiple_of(1024) || (self.alive)()).then(|| self.text.line(row)).flatten()?;
            Some(anchor::squashed(&plain(&line)))
        };
        let fits = self.text.bytes().len() <= COMPARED;
        known
            .get_or_init(|| fits.then(|| (0..self.text.line_count()).map(hash).collect()).flatten())
            .as_deref()
    }

    /// Returns the row from which the lines have most in common with those wanted, judged by the letter pairs
    /// of the most distinctive line.
    fn most_alike(&self, wanted: &[&str]) -> Option<usize> {
        let text = self.text;
        let (at, telling) =
            wanted.iter().enumerate().max_by_key(|(_, line)| without_space(line).len().min(120))?;
        let telling = Pairs::of(telling);
        let mut best: Vec<(f64, usize)> = Vec::new();
        for row in 0..text.line_count() {
            let line = text.line(row)?;
            let Some(left) = self.left.get().checked_sub(line.len()) else { break };
            self.left.set(left);
            if row.is_multiple_of(1024) && !(self.alive)() {
                return None;
            }
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
}

/// Describes how the rows from `start` differ from those wanted.
fn compared(text: &Text, wanted: &[&str], start: usize) -> Nearest {
    let rows = start..(start + wanted.len()).min(text.line_count());
    let pairs: Vec<(usize, &str, String)> = rows
        .clone()
        .zip(wanted)
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
    Nearest { rows, only, differences }
}

/// Returns the first row from which all lines are equal after normalization by `plain`; `hashes` are those of
/// the normalized lines of the file.
fn same_when(hashes: &[u32], wanted: &[&str], plain: impl Fn(&str) -> String) -> Option<usize> {
    let wanted: Vec<u32> = wanted.iter().map(|line| anchor::squashed(&plain(line))).collect();
    let (first, _) = wanted.split_first()?;
    hashes.windows(wanted.len()).position(|window| window.first() == Some(first) && window == wanted)
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

    /// Returns the share of pairs in common, between 0 and 1.
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

/// Returns the line without the characters that are most often copied wrongly.
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

/// Returns the line with tabs as `→`, leading and trailing spaces as `·`, and every other invisible character
/// as its number.
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
        Nearby::new(&Text::parse(text).unwrap(), &|| true).nearest(old).unwrap()
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
    fn invisible_characters_are_escaped() {
        assert_eq!(made_visible("\t  a b\u{a0}c\u{200b} \r"), "→··a b<U+00A0>c<U+200B>·\\r");
    }

    #[test]
    fn unrelated_text_has_no_near_match() {
        for (text, old) in [("abc\ndef\n", "xyzzy plugh"), ("", "x")] {
            assert!(Nearby::new(&Text::parse(text).unwrap(), &|| true).nearest(old).is_none());
        }
    }

    #[test]
    fn many_searches_compare_no_more_than_one() {
        let file: String =
            (0..20_000).map(|it| format!("let value_{it} = compute(it, \"some text\");\n")).collect();
        let text = Text::parse(file).unwrap();
        let nearby = Nearby::new(&text, &|| true);
        let near =
            |at: usize| nearby.nearest(&format!("let other_{at} = computed(that, 'no text');")).is_some();
        assert!(near(0));
        let last = (1..1_000).take_while(|at| near(*at)).count();
        assert_eq!(last, COMPARED.div_ceil(text.bytes().len()) - 1, "then no more lines are looked at");
        let spaced = nearby.nearest("let  value_7 = compute(it,\"some text\");").unwrap();
        assert_eq!(spaced.rows, 7..8, "a difference in white space only is still found");
    }

    #[test]
    fn a_cancelled_search_ends() {
        let text = Text::parse("abc\n".repeat(5_000)).unwrap();
        let asked = Cell::new(0);
        let alive = || asked.replace(asked.get() + 1) < 2;
        assert!(Nearby::new(&text, &alive).nearest("abcd").is_none());
        assert_eq!(asked.get(), 5, "each of its parts asks once more, and ends");
    }
}

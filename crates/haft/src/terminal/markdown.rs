//! How does Markdown look line by line, while it is still being written?
//!
//! Lines that are full are given once and never change. What may still change, because a mark has no partner yet or
//! the line is not full, is given by [`Markdown::rest`], to be drawn anew each time.

use super::{
    letters::Letters,
    row::{Letter, Row, Style, of_letters, wrap},
};

/// So many lines wait for the partner of a mark; then it is a letter like any other.
const PATIENCE: usize = 4;

/// Markdown that is being written.
#[derive(Debug, Default)]
pub(crate) struct Markdown {
    letters: Letters,
    /// What is known of the line and was not given yet.
    line: String,
    /// How the line goes on, once its beginning was given.
    goes_on: Option<Line>,
    /// Which fence has to close the code that this is.
    fence: Option<String>,
    /// Which marks were open where the last given line ended.
    open: Style,
}

/// What kind of line it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Line {
    kind: Kind,
    /// How far in its later lines begin.
    indent: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Heading,
    Quote,
    Code,
    Table,
}

impl Markdown {
    /// Takes more; gives the lines of so many columns that will not change any more.
    pub(crate) fn push(&mut self, text: &str, columns: usize) -> Vec<Row> {
        let text = self.letters.push(text);
        let mut done = Vec::new();
        for piece in text.split_inclusive('\n') {
            match piece.strip_suffix('\n') {
                Some(piece) => {
                    self.line.push_str(piece);
                    self.end_line(columns, &mut done);
                }
                None => self.line.push_str(piece),
            }
        }
        self.give_full(columns, &mut done);
        done
    }

    /// What there is of the last line.
    pub(crate) fn rest(&self, columns: usize) -> Vec<Row> {
        if self.line.is_empty() {
            return Vec::new();
        }
        let laid = self.lay(columns);
        (0..laid.lines.len()).map(|at| laid.row(at)).collect()
    }

    /// Nothing comes any more: gives the rest.
    pub(crate) fn end(&mut self, columns: usize) -> Vec<Row> {
        let last = self.letters.end();
        self.line.push_str(&last);
        let mut done = Vec::new();
        if !self.line.is_empty() {
            self.end_line(columns, &mut done);
        }
        *self = Self::default();
        done
    }

    fn end_line(&mut self, columns: usize, done: &mut Vec<Row>) {
        let trimmed = self.line.trim();
        if self.goes_on.is_none() {
            let fence: String = trimmed.chars().take_while(|it| matches!(it, '`' | '~')).collect();
            match &self.fence {
                Some(open) if trimmed == open.as_str() => {
                    self.fence = None;
                    done.extend(Row::new(std::mem::take(&mut self.line), Style::DIM).wrapped(columns, 0));
                    return;
                }
                None if fence.len() >= 3 => {
                    self.fence = Some(fence);
                    done.extend(Row::new(std::mem::take(&mut self.line), Style::DIM).wrapped(columns, 0));
                    return;
                }
                _ => {}
            }
        }
        // The end of a line whose beginning was given may be nothing.
        if !self.line.is_empty() || self.goes_on.is_none() {
            let laid = self.lay(columns);
            done.extend((0..laid.lines.len()).map(|at| laid.row(at)));
        }
        self.line.clear();
        self.goes_on = None;
        self.open = Style::PLAIN;
    }

    fn give_full(&mut self, columns: usize, done: &mut Vec<Row>) {
        let laid = self.lay(columns);
        let count = laid.lines.len();
        if count < 2 {
            return;
        }
        let sure = laid.unsure.unwrap_or(usize::MAX);
        let full = laid.lines.iter().take(count - 1);
        let given = if count > PATIENCE { count - 1 } else { full.take_while(|it| it.end <= sure).count() };
        let Some(last) = given.checked_sub(1).and_then(|it| laid.lines.get(it)) else { return };
        done.extend((0..given).map(|at| laid.row(at)));
        let (before, after) = (laid.letters.get(last.end - 1), laid.letters.get(last.end));
        if let (Some(before), Some(after)) = (before, after) {
            self.open = Style {
                bold: before.style.bold && after.style.bold,
                italic: before.style.italic && after.style.italic,
                code: before.style.code && after.style.code,
                ..Style::PLAIN
            };
            let begins = begins(&self.line, before, after);
            self.line.drain(..begins);
        }
        self.goes_on = Some(laid.line);
    }

    fn lay(&self, columns: usize) -> Laid {
        let line = self.goes_on.unwrap_or_else(|| kind(&self.line, self.fence.is_some()));
        let (letters, unsure) = match line.kind {
            Kind::Code | Kind::Table => {
                let style = if line.kind == Kind::Code { Style::CODE } else { Style::PLAIN };
                let letters = self.line.char_indices();
                (
                    letters
                        .map(|(at, letter)| Letter { letter, style, end: at + letter.len_utf8() })
                        .collect(),
                    None,
                )
            }
            Kind::Text | Kind::Heading | Kind::Quote => {
                let skip = if self.goes_on.is_some() { 0 } else { marker(&self.line, line.kind) };
                let base = match line.kind {
                    Kind::Heading => Style::BOLD,
                    Kind::Quote => Style::DIM,
                    _ => Style::PLAIN,
                };
                inline(&self.line, skip, self.open, base)
            }
        };
        let at_words = !matches!(line.kind, Kind::Code | Kind::Table);
        let first = if self.goes_on.is_some() { line.indent } else { 0 };
        let lines = wrap(&letters, columns.saturating_sub(first), line.indent - first, at_words);
        Laid { line, letters, lines, unsure, first }
    }
}

/// A line, cut into lines of the screen.
struct Laid {
    line: Line,
    letters: Vec<Letter>,
    lines: Vec<std::ops::Range<usize>>,
    /// The first letter that may turn out to be a mark.
    unsure: Option<usize>,
    /// How far in the first one begins.
    first: usize,
}

impl Laid {
    fn row(&self, at: usize) -> Row {
        let letters = self.lines.get(at).and_then(|it| self.letters.get(it.clone())).unwrap_or_default();
        of_letters(letters, if at == 0 { self.first } else { self.line.indent })
    }
}

/// Where `after` begins in the line it was made of, with the marks that open there; those that close the line before
/// are over.
fn begins(line: &str, before: &Letter, after: &Letter) -> usize {
    let between = line.get(before.end..after.end - after.letter.len_utf8()).unwrap_or_default();
    let closed = Style {
        bold: before.style.bold && !after.style.bold,
        italic: before.style.italic && !after.style.italic,
        code: before.style.code && !after.style.code,
        ..Style::PLAIN
    };
    before.end + between.len() - between.trim_start_matches(|it| closes(closed, it)).len()
}

fn closes(style: Style, mark: char) -> bool {
    mark == '*' && (style.bold || style.italic) || mark == '`' && style.code
}

fn kind(line: &str, in_fence: bool) -> Line {
    if in_fence {
        return Line { kind: Kind::Code, indent: 0 };
    }
    let trimmed = line.trim_start();
    let inside = line.len() - trimmed.len();
    let hashes = trimmed.chars().take_while(|it| *it == '#').count();
    if (1..=6).contains(&hashes) && trimmed.get(hashes..).is_some_and(|it| it.starts_with(' ')) {
        return Line { kind: Kind::Heading, indent: 0 };
    }
    if trimmed.starts_with("> ") {
        return Line { kind: Kind::Quote, indent: inside + 2 };
    }
    if trimmed.starts_with('|') {
        return Line { kind: Kind::Table, indent: 0 };
    }
    let digits = trimmed.chars().take_while(char::is_ascii_digit).count();
    let bullet = ["- ", "* ", "+ "].iter().any(|it| trimmed.starts_with(it));
    let number =
        digits > 0 && trimmed.get(digits..).is_some_and(|it| it.starts_with(". ") || it.starts_with(") "));
    let hanging = if bullet {
        2
    } else if number {
        digits + 2
    } else {
        0
    };
    Line { kind: Kind::Text, indent: (inside + hanging).min(12) }
}

/// How much of the line's beginning only says what kind it is.
fn marker(line: &str, kind: Kind) -> usize {
    match kind {
        Kind::Heading => line.len() - line.trim_start().trim_start_matches('#').trim_start().len(),
        _ => 0,
    }
}

/// The letters of a line from `skip` on, and the first one that may be a mark whose partner is still to come.
fn inline(line: &str, skip: usize, open: Style, base: Style) -> (Vec<Letter>, Option<usize>) {
    let mut letters: Vec<Letter> = Vec::new();
    let mut unsure = None;
    let mut style = Style { bold: base.bold || open.bold, italic: open.italic, code: open.code, ..base };
    let mut at = skip;
    // A bullet's star is no mark.
    if line.trim_start().starts_with("* ") {
        at = at.max(line.len() - line.trim_start().len() + 1);
        let before = line.get(skip..at).unwrap_or_default();
        letters.extend(before.char_indices().map(|(i, letter)| Letter {
            letter,
            style,
            end: skip + i + letter.len_utf8(),
        }));
    }
    while let Some(rest) = line.get(at..).filter(|it| !it.is_empty()) {
        let before = line.get(..at).and_then(|it| it.chars().next_back());
        let put = |letters: &mut Vec<Letter>, length: usize, style| {
            let text = rest.get(..length).unwrap_or_default();
            letters.extend(text.char_indices().map(|(i, letter)| Letter {
                letter,
                style,
                end: at + i + letter.len_utf8(),
            }));
        };
        if style.code {
            let end = rest.find('`').unwrap_or(rest.len());
            put(&mut letters, end, style);
            at += (end + 1).min(rest.len());
            style.code = end == rest.len();
            continue;
        }
        match mark(rest, before, style) {
            Mark::Code { ticks, end } => {
                let inner = rest.get(ticks..end).unwrap_or_default();
                let style = Style { code: true, ..style };
                letters.extend(inner.char_indices().map(|(i, letter)| Letter {
                    letter,
                    style,
                    end: at + ticks + i + letter.len_utf8(),
                }));
                at += end + ticks;
            }
            Mark::Bold => {
                style.bold = base.bold || !style.bold;
                at += 2;
            }
            Mark::Italic => {
                style.italic = !style.italic;
                at += 1;
            }
            Mark::Escaped(length) => {
                let text = rest.get(1..length).unwrap_or_default();
                letters.extend(text.chars().map(|letter| Letter { letter, style, end: at + length }));
                at += length;
            }
            Mark::Unsure(length) => {
                unsure = unsure.or(Some(letters.len()));
                put(&mut letters, length, style);
                at += length;
            }
            Mark::None(length) => {
                put(&mut letters, length, style);
                at += length;
            }
        }
    }
    (letters, unsure)
}

/// What begins here.
enum Mark {
    /// Code, from after the ticks to `end`.
    Code {
        ticks: usize,
        end: usize,
    },
    Bold,
    Italic,
    Escaped(usize),
    /// So many letters that are a mark if their partner comes.
    Unsure(usize),
    /// So many letters that are none.
    None(usize),
}

fn mark(rest: &str, before: Option<char>, style: Style) -> Mark {
    let mut letters = rest.chars();
    let Some(first) = letters.next() else { return Mark::None(0) };
    let spaced = |it: Option<char>| it.is_none_or(char::is_whitespace);
    match first {
        '\\' if letters.clone().next().is_some_and(|it| "*`_#".contains(it)) => Mark::Escaped(2),
        '`' => {
            let ticks = rest.len() - rest.trim_start_matches('`').len();
            let fence = "`".repeat(ticks);
            let inner = rest.get(ticks..).unwrap_or_default();
            match inner.find(&fence) {
                Some(end) => Mark::Code { ticks, end: ticks + end },
                None => Mark::Unsure(ticks),
            }
        }
        '*' if rest.starts_with("**") => {
            let inner = rest.get(2..).unwrap_or_default();
            if style.bold && !spaced(before) {
                return Mark::Bold;
            }
            let opens = inner.chars().next().is_none_or(|it| !it.is_whitespace() && it != '*' && it != '/');
            match inner.find("**") {
                _ if !opens => Mark::None(2),
                Some(end) if end > 0 && !inner.get(..end).is_some_and(|it| it.ends_with(' ')) => Mark::Bold,
                _ => Mark::Unsure(2),
            }
        }
        '*' => {
            let inner = rest.get(1..).unwrap_or_default();
            if style.italic && !spaced(before) {
                return Mark::Italic;
            }
            let opens = inner.chars().next().is_none_or(char::is_alphanumeric)
                && !before.is_some_and(char::is_alphanumeric);
            match inner.find('*') {
                _ if !opens => Mark::None(1),
                Some(end) if !inner.get(..end).is_some_and(|it| it.ends_with(' ')) => Mark::Italic,
                _ => Mark::Unsure(1),
            }
        }
        _ => Mark::None(rest.find(['*', '`', '\\']).map_or(rest.len(), |it| it.max(first.len_utf8()))),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    /// Marks what is seen: `[b:…]` bold, `[i:…]` italic, `[c:…]` code, `[d:…]` dim.
    fn marked(rows: &[Row]) -> String {
        let lines = rows.iter().map(|row| {
            let names = [("1", "b"), ("2", "d"), ("3", "i"), ("36", "c"), ("1;3", "bi"), ("1;2", "bd")];
            names
                .iter()
                .fold(row.painted(true), |line, (code, name)| {
                    line.replace(&format!("\u{1b}[{code}m"), &format!("[{name}:"))
                })
                .replace("\u{1b}[0m", "]")
                + "\n"
        });
        lines.collect()
    }

    fn whole(text: &str, columns: usize) -> Vec<Row> {
        let mut markdown = Markdown::default();
        let mut rows = markdown.push(text, columns);
        rows.extend(markdown.end(columns));
        rows
    }

    const SAMPLE: &str = "# The *title*\n\nSome **bold text** and `code` and *slanted* words, 2 * 3 * 4, `**/*.rs`, **kwargs.\n\
        - a list of things that is longer than a line\n  * inner `x`\n1. one\n```py\ndef f(**kw):  # not **bold**\n    return 1\n```\n\
        > said **so**\n\n| a | b |\n|---|---|\nlast **not closed";

    #[test]
    fn every_kind_of_line_looks_like_itself() {
        expect![[r#"
            [b:The ][bi:title]

            Some [b:bold text] and [c:code] and [i:slanted]
            words, 2 * 3 * 4, [c:**/*.rs], **kwargs.
            - a list of things that is longer than a
              line
              * inner [c:x]
            1. one
            [d:```py]
            [c:def f(**kw):  # not **bold**]
            [c:    return 1]
            [d:```]
            [d:> said ][bd:so]

            | a | b |
            |---|---|
            last **not closed
        "#]]
        .assert_eq(&marked(&whole(SAMPLE, 40)));
    }

    #[test]
    fn however_it_is_cut_no_letter_is_lost_or_said_twice() {
        let letters = |rows: &[Row]| -> String {
            rows.iter()
                .map(Row::text)
                .collect::<String>()
                .chars()
                .filter(|it| !" *`#".contains(*it))
                .collect()
        };
        let text = format!(
            "{SAMPLE} {} **{}** `{}` end\n",
            "word ".repeat(40),
            "bold ".repeat(30).trim(),
            "code ".repeat(30)
        );
        let expected: String = text.chars().filter(|it| !" *`#\n".contains(*it)).collect();
        for columns in [3, 7, 20, 40, 200] {
            for size in [1, 2, 3, 7, 50] {
                let mut markdown = Markdown::default();
                let mut rows = Vec::new();
                for piece in text.as_bytes().chunks(size) {
                    rows.extend(markdown.push(std::str::from_utf8(piece).unwrap_or_default(), columns));
                    assert!(markdown.rest(columns).len() <= PATIENCE + 1);
                }
                rows.extend(markdown.end(columns));
                assert_eq!(letters(&rows), expected, "{columns} columns, pieces of {size}");
                assert!(rows.iter().all(|it| it.width() <= columns.max(14)), "{columns}");
            }
        }
    }

    #[test]
    fn a_mark_waits_for_its_partner_and_then_counts() {
        let mut markdown = Markdown::default();
        assert!(markdown.push("a **b", 40).is_empty());
        assert_eq!(marked(&markdown.rest(40)), "a **b\n");
        assert!(markdown.push(" c** d", 40).is_empty());
        assert_eq!(marked(&markdown.rest(40)), "a [b:b c] d\n");
    }

    #[test]
    fn what_is_bold_stays_so_over_lines() {
        let rows = whole(&format!("x **{}** y", "bold ".repeat(12).trim()), 20);
        let marked = marked(&rows);
        assert!(marked.lines().skip(1).take(2).all(|it| it.starts_with("[b:bold")), "{marked}");
        assert!(marked.ends_with(" y\n") && !marked.contains('*'), "{marked}");
    }
}

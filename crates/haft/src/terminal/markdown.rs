//! Streamed Markdown: lays out a text as rows of the screen while it is still being written.
//!
//! [`Markdown::push`] returns each row once, when later text can't change it: blocks that are over, whole lines of code, full
//! lines of a paragraph without an open mark. [`Markdown::rest`] returns the rows that may still change, to be redrawn each
//! time. No letter of the text is lost.

mod blocks;
mod inline;
mod table;

use super::{code::Code, letters::Letters, row::Row};
use blocks::{Laid, lay};

/// A mark without a partner holds back at most this many rows; then it is a letter like any other.
const HELD_ROWS: usize = 4;

/// A longer block, in bytes, is cut in two.
const LONGEST: usize = 16 << 10;

/// The layout of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    /// Maximum number of columns of a row.
    pub(crate) columns: usize,
    /// The screen has no attributes: characters mark the text instead.
    pub(crate) plain: bool,
}

/// A Markdown text that is being written.
#[derive(Debug, Default)]
pub(crate) struct Markdown {
    letters: Letters,
    /// The source of the blocks that are not over, with the empty line before them if there was one.
    tail: String,
    /// The code that is being written, if the tail is inside a fence.
    fenced: Option<Fenced>,
    given: Given,
    /// Rows were returned already, so the next block is not the first one.
    begun: bool,
}

/// The rows of the tail that were returned, how many letters they had, and how wide they were.
#[derive(Debug, Default)]
struct Given {
    rows: usize,
    letters: usize,
    columns: usize,
}

/// Fenced code whose opening fence was read.
#[derive(Debug, Clone)]
struct Fenced {
    fence: String,
    /// The indentation of the fence, which is removed from the code.
    indent: usize,
    code: Code,
}

impl Markdown {
    /// Appends text; returns the rows that will not change any more.
    pub(crate) fn push(&mut self, text: &str, look: Look) -> Vec<Row> {
        let text = self.letters.push(text);
        self.tail.push_str(&text);
        let mut done = Vec::new();
        self.settle(look, &mut done);
        done
    }

    /// Returns the rows that may still change.
    pub(crate) fn rest(&self, look: Look) -> Vec<Row> {
        if let Some(fenced) = &self.fenced {
            let line = self.tail.as_str();
            return if line.is_empty() || fenced.may_close(line) {
                Vec::new()
            } else {
                fenced.clone().rows(line, look)
            };
        }
        let laid = lay(steady(&self.tail), look, self.begun);
        let given = self.given_of(&laid, look);
        laid.rows().skip(given).cloned().collect()
    }

    /// Ends the text; returns the remaining rows.
    pub(crate) fn end(&mut self, look: Look) -> Vec<Row> {
        let last = self.letters.end();
        self.tail.push_str(&last);
        let mut done = Vec::new();
        if !self.tail.is_empty() && !self.tail.ends_with('\n') {
            self.tail.push('\n');
        }
        self.settle(look, &mut done);
        if self.fenced.is_none() {
            let laid = lay(&self.tail, look, self.begun);
            let given = self.given_of(&laid, look);
            done.extend(laid.rows().skip(given).cloned());
        }
        *self = Self::default();
        done
    }

    fn settle(&mut self, look: Look, done: &mut Vec<Row>) {
        loop {
            if self.fenced.is_some() {
                self.take_code(look, done);
                if self.fenced.is_some() {
                    return;
                }
            }
            let is_too_long = self.tail.len() > LONGEST;
            let source = if is_too_long { lines_of(&self.tail) } else { steady(&self.tail) };
            let laid = lay(source, look, self.begun);
            let Some(last) = laid.blocks.last() else { return };
            let fence = last.fence.clone();
            let before: usize = laid.blocks.iter().rev().skip(1).map(|it| it.rows.len()).sum();
            let sure = if is_too_long { last.rows.len() } else { last.sure };
            let given = self.given_of(&laid, look);
            let until = before + if fence.is_some() { 0 } else { sure.max(given.saturating_sub(before)) };
            let new: Vec<Row> = laid.rows().take(until).skip(given).cloned().collect();
            let stays = until.max(given);
            self.begun |= stays > 0;
            // A mark that was returned as a letter stays one.
            let shown = stays.saturating_sub(before);
            let mut literal: Vec<usize> =
                last.unsure.iter().filter(|it| it.row < shown).map(|it| it.at).collect();
            literal.sort_unstable();
            literal.dedup();
            self.given = Given {
                rows: stays - before.min(stays),
                letters: laid.rows().take(stays).skip(before).map(letters_of).sum(),
                columns: look.columns,
            };
            done.extend(new);
            let start = last.start;
            let end = source.len();
            for at in literal.into_iter().rev() {
                self.tail.insert(at, '\\');
            }
            if is_too_long && fence.is_none() {
                self.tail.drain(..end);
                self.given = Given::default();
                return;
            }
            let cut = line_start(&self.tail, start);
            let blank = cut > 0 && blocks::is_blank_before(&self.tail, cut);
            // The empty line before it stays with it.
            self.tail.drain(..cut - usize::from(blank));
            let Some(fence) = fence else { return };
            let Some(fenced) = self.open_fence(&fence, blank, done) else { return };
            self.fenced = Some(fenced);
        }
    }

    /// Reads the line of the opening fence, if it is complete.
    fn open_fence(&mut self, info: &str, blank: bool, done: &mut Vec<Row>) -> Option<Fenced> {
        let begins = usize::from(blank);
        let end = self.tail.get(begins..)?.find('\n')? + begins;
        let line = self.tail.get(begins..end)?.to_owned();
        self.tail.drain(..=end);
        self.given = Given::default();
        if blank && self.begun {
            done.push(Row::default());
        }
        self.begun = true;
        let inside = line.trim_start();
        let fence: String = inside.chars().take_while(|it| matches!(it, '`' | '~')).collect();
        Some(Fenced { fence, indent: line.len() - inside.len(), code: Code::new(info) })
    }

    /// Adds the complete lines of code.
    fn take_code(&mut self, look: Look, done: &mut Vec<Row>) {
        while let Some(end) = self.tail.find('\n') {
            let Some(fenced) = &mut self.fenced else { return };
            let line: String = self.tail.drain(..=end).collect();
            let line = line.trim_end_matches('\n');
            if fenced.closes(line) {
                self.fenced = None;
                return;
            }
            done.extend(fenced.rows(line, look));
        }
        if self.tail.len() > LONGEST
            && let Some(fenced) = &mut self.fenced
        {
            let line = std::mem::take(&mut self.tail);
            done.extend(fenced.rows(&line, look));
        }
    }

    /// Returns how many of these rows were returned already.
    fn given_of(&self, laid: &Laid, look: Look) -> usize {
        if self.given.columns == look.columns || self.given.rows == 0 {
            return self.given.rows;
        }
        // The terminal was resized: the same letters are on other rows.
        let mut letters = 0;
        let mut rows = 0;
        for row in laid.rows() {
            if letters >= self.given.letters {
                break;
            }
            letters += letters_of(row);
            rows += 1;
        }
        rows
    }
}

impl Fenced {
    fn rows(&mut self, line: &str, look: Look) -> Vec<Row> {
        let blank = line.len() - line.trim_start_matches(' ').len();
        let line = line.get(blank.min(self.indent)..).unwrap_or_default();
        blocks::code_rows(&self.code.line(line), look.columns)
    }

    fn closes(&self, line: &str) -> bool {
        self.may_close(line) && line.trim().len() >= self.fence.len()
    }

    /// Returns whether this line may become the closing fence of the code.
    fn may_close(&self, line: &str) -> bool {
        let blank = line.len() - line.trim_start().len();
        let mark = self.fence.chars().next().unwrap_or('`');
        blank < 4 && !line.trim().is_empty() && line.trim().chars().all(|it| it == mark)
    }
}

/// Returns the part of a text that can be laid out before the next letters arrive. Leaves out a last line that has only marks
/// so far, and a table without its rule.
fn steady(tail: &str) -> &str {
    let line = tail.rfind('\n').map_or(0, |it| it + 1);
    let (whole, last) = tail.split_at(line);
    let is_mark = |it: char| it.is_whitespace() || it.is_ascii_digit() || "-=*+_|#>~`.:[]()!".contains(it);
    let holds = !last.is_empty() && (last.chars().all(is_mark) || last.trim_start().starts_with('|'));
    let shown = if holds { whole } else { tail };
    if !shown.ends_with('\n') {
        return shown;
    }
    let mut lines = shown.trim_end_matches('\n').lines().rev();
    let is_cell = |it: Option<&str>| it.is_some_and(|it| it.trim_start().starts_with('|'));
    let last = lines.next();
    if is_cell(last) && !is_cell(lines.next()) && !shown.ends_with("\n\n") {
        let start = shown.trim_end_matches('\n').rfind('\n').map_or(0, |it| it + 1);
        return shown.get(..start).unwrap_or_default();
    }
    shown
}

/// Returns the complete lines; if there are none, the whole text.
fn lines_of(text: &str) -> &str {
    text.rfind('\n').and_then(|it| text.get(..=it)).unwrap_or(text)
}

fn line_start(text: &str, at: usize) -> usize {
    text.get(..at).and_then(|it| it.rfind('\n')).map_or(0, |it| it + 1)
}

/// Returns how many letters of a row come from its text and not from the layout.
fn letters_of(row: &Row) -> usize {
    row.text().chars().filter(|it| !it.is_whitespace() && !"│┌┐└┘├┤┬┴┼─↪".contains(*it)).count()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use expect_test::expect;

    use super::*;

    fn look(columns: usize) -> Look {
        Look { columns, plain: false }
    }

    fn text(rows: &[Row]) -> String {
        rows.iter().map(|it| it.text() + "\n").collect()
    }

    /// Returns the text with its attributes as letters: `b` bold, `d` dim, `i` italic, `u` underlined, `x` struck out, `c`
    /// code.
    fn marked(rows: &[Row]) -> String {
        let names = [
            ("1", 'b'),
            ("2", 'd'),
            ("3", 'i'),
            ("4", 'u'),
            ("9", 'x'),
            ("36", 'c'),
            ("32", 's'),
            ("35", 'k'),
        ];
        let name = |code: &str| names.iter().find(|it| it.0 == code).map_or('?', |it| it.1);
        let mut marked = String::new();
        for row in rows {
            for (at, piece) in row.painted(true).split("\u{1b}[").enumerate() {
                match piece.split_once('m') {
                    Some(("0", rest)) if at > 0 => marked.push_str(&format!("]{rest}")),
                    Some((codes, rest)) if at > 0 => {
                        let names: String = codes.split(';').map(name).collect();
                        marked.push_str(&format!("[{names}:{rest}"));
                    }
                    _ => marked.push_str(piece),
                }
            }
            marked.push('\n');
        }
        marked
    }

    fn whole(text: &str, look: Look) -> Vec<Row> {
        let mut markdown = Markdown::default();
        let mut rows = markdown.push(text, look);
        rows.extend(markdown.end(look));
        rows
    }

    /// Returns the rows of a text that arrives in pieces of `size` letters.
    fn in_pieces(text: &str, size: usize, look: Look) -> Vec<Row> {
        let mut markdown = Markdown::default();
        let mut rows = Vec::new();
        let letters: Vec<char> = text.chars().collect();
        for piece in letters.chunks(size) {
            rows.extend(markdown.push(&piece.iter().collect::<String>(), look));
            markdown.rest(look);
        }
        rows.extend(markdown.end(look));
        rows
    }

    const TEXT: &str = "# The *title*\n\nSome **bold text** and `code` and *slanted* words, 2 * 3 * 4, `**/*.rs`, a ~~gone~~ word.\n\
        See [the docs](https://example.org/a_b) or <https://example.org>, __init__ and ~5.\n\n\
        - a list of things that is longer than a line\n  - inner `x`\n- [x] done\n- [ ] open\n\n1. one\n2. two\n\n   with more\n\n\
        > said **so**\n> again\n\n---\n\nEnd.\n";

    const CODE: &str = "Run:\n\n```py\ndef f(n):\n    return \"a text that is longer than the line\"\n```\nand then\n\n- in a list:\n  ```\n  x\n  ```\n";

    const TABLE: &str = "Sizes:\n\n| Name | Size | What it is for |\n|:-----|-----:|:--:|\n| `a.rs` | 12 | the **first** one |\n| b | 3,000 | x |\n\nEnd.\n";

    #[test]
    fn every_kind_of_block_looks_like_itself() {
        expect![[r#"
            [bu:The ][biu:title]

            Some [b:bold text] and [c:code] and [i:slanted]
            words, 2 * 3 * 4, [c:**/*.rs], a [x:gone] word.
            See [u:the docs][d: (https://example.org/a_b)]
            or [u:https://example.org], __init__ and ~5.

            - a list of things that is longer than a
              line
              - inner [c:x]
            [s:☑ ]done
            ☐ open

            1. one
            2. two

               with more

            [d:│ ]said [b:so]
            [d:│ ]again

            [d:────────────────────────────────────────]

            End.
        "#]]
        .assert_eq(&marked(&whole(TEXT, look(40))));
        expect![[r#"
            Run:

            [d:  ][k:def] [?:f](n):
            [d:  ]    [k:return] [s:"a text that is]
            [d:↪     ][s:longer than the line"]
            and then

            - in a list:
              [d:  ]x
        "#]]
        .assert_eq(&marked(&whole(CODE, look(30))));
    }

    #[test]
    fn a_table_is_fitted_to_the_width_and_becomes_records_where_that_is_too_small() {
        expect![[r#"
            Sizes:

            ┌──────┬───────┬────────────────┐
            │ Name │  Size │ What it is for │
            ├──────┼───────┼────────────────┤
            │ a.rs │    12 │ the first one  │
            │ b    │ 3,000 │       x        │
            └──────┴───────┴────────────────┘

            End.
        "#]]
        .assert_eq(&text(&whole(TABLE, look(60))));
        expect![[r#"
            Sizes:

            ┌──────┬───────┬────────────────┐
            │ Name │  Size │ What it is for │
            ├──────┼───────┼────────────────┤
            │ a.rs │    12 │ the first one  │
            │ b    │ 3,000 │       x        │
            └──────┴───────┴────────────────┘

            End.
        "#]]
        .assert_eq(&text(&whole(TABLE, look(34))));
        expect![[r#"
            Sizes:

            Name: a.rs
            Size: 12
            What it is for:
              the first one
            ────────────────
            Name: b
            Size: 3,000
            What it is for:
              x

            End.
        "#]]
        .assert_eq(&text(&whole(TABLE, look(16))));
    }

    #[test]
    fn what_only_an_attribute_would_show_is_seen_without_one() {
        let look = Look { columns: 40, plain: true };
        assert_eq!(text(&whole("a ~~gone~~ word", look)), "a ~~gone~~ word\n");
    }

    #[test]
    fn a_text_that_comes_in_pieces_looks_as_one_that_comes_whole() {
        for sample in [TEXT, CODE, TABLE, &[TEXT, CODE, TABLE, TEXT].concat()] {
            for columns in [16, 34, 80] {
                let expected = text(&whole(sample, look(columns)));
                for size in [1, 2, 3, 7, 50] {
                    let rows = text(&in_pieces(sample, size, look(columns)));
                    assert_eq!(rows, expected, "{columns} columns, pieces of {size}");
                }
            }
        }
    }

    #[test]
    fn no_letter_is_lost_whatever_the_text_is() {
        let odd = "**open\n\n`tick\n* a\n\t- b\n[x]: http://y \"t\"\n[x] and [z][x]\n<div>\nhtml</div>\n\n&amp; &lt;\n| a |\n***\n====\n   1) q\n\n\n~~~\nnot closed ``` \n";
        let kept = |text: &str| -> String { text.chars().filter(char::is_ascii_alphanumeric).collect() };
        for columns in [3, 10, 40] {
            for size in [1, 4, 200] {
                let rows = in_pieces(odd, size, look(columns));
                let seen = kept(&text(&rows));
                for word in ["open", "tick", "ab", "httpyt", "xandz", "divhtmldiv", "q", "notclosed"] {
                    assert!(seen.contains(word), "{word} at {columns} in pieces of {size}: {}", text(&rows));
                }
            }
        }
    }

    #[test]
    fn a_long_paragraph_is_given_while_it_is_written_and_a_mark_waits_for_its_partner_only_so_long() {
        let mut markdown = Markdown::default();
        let look = look(20);
        assert!(markdown.push("a **b", look).is_empty());
        assert_eq!(marked(&markdown.rest(look)), "a **b\n");
        assert!(markdown.push(" c** d", look).is_empty());
        assert_eq!(marked(&markdown.rest(look)), "a [b:b c] d\n");
        let mut rows = markdown.push(&" word".repeat(100), look);
        assert!(rows.len() > 20 && markdown.rest(look).len() == 1);
        rows.extend(markdown.push(&format!(" **open{}", " more".repeat(100)), look));
        assert!(markdown.rest(look).len() <= HELD_ROWS + 1, "{:?}", markdown.rest(look));
        rows.extend(markdown.push("** late", look));
        rows.extend(markdown.end(look));
        let seen = text(&rows);
        assert!(seen.contains("**open") && seen.contains("** late"), "{seen}");
        assert_eq!((seen.matches("word").count(), seen.matches("more").count()), (100, 100));
    }

    #[test]
    fn another_width_in_the_middle_of_a_block_loses_nothing_and_doubles_nothing() {
        let words: Vec<String> = (0..200).map(|it| format!("w{it}")).collect();
        let mut markdown = Markdown::default();
        let mut rows = Vec::new();
        for (at, word) in words.iter().enumerate() {
            rows.extend(markdown.push(&format!("{word} "), look(if at < 100 { 40 } else { 23 })));
        }
        rows.extend(markdown.end(look(60)));
        let seen = text(&rows);
        let seen: Vec<&str> = seen.split_whitespace().collect();
        assert!(seen.len() >= words.len() - 6 && seen.len() <= words.len() + 6, "{}", seen.len());
        assert!(words.iter().filter(|it| !seen.contains(&it.as_str())).count() <= 6);
    }

    #[test]
    fn the_longest_block_is_bounded() {
        let mut markdown = Markdown::default();
        let line = format!("{}\n", "x".repeat(200));
        let mut rows = 0;
        for _ in 0..2000 {
            rows += markdown.push(&line, look(80)).len();
            assert!(markdown.tail.len() <= LONGEST + line.len());
        }
        rows += markdown.end(look(80)).len();
        assert!(rows >= 2000 * 3);
        let first = markdown.push("y", look(80));
        assert!(first.is_empty() && markdown.end(look(80)).first().unwrap().text() == "y");
    }
}

//! Layout of Markdown blocks: headings, paragraphs, lists, quotes, code and tables as rows.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag};

use unicode_width::UnicodeWidthChar;

use super::{
    HELD_ROWS, Look,
    inline::{self, Inline},
    table,
};
use crate::terminal::{
    code::Code,
    row::{Letter, Row, Style, of_letters, width, wrap},
};

/// The indentation of code, if the screen is wide enough.
const MARGIN: usize = 2;

/// The mark before each continuation of a long line of code.
const GOES_ON: &str = "↪ ";

/// The blocks of a text, laid out.
#[derive(Debug, Default)]
pub(super) struct Laid {
    pub(super) blocks: Vec<Block>,
}

/// A top-level block.
#[derive(Debug, Default)]
pub(super) struct Block {
    /// The offset in the text at which it begins.
    pub(super) start: usize,
    pub(super) rows: Vec<Row>,
    /// The number of rows that later text can't change.
    pub(super) sure: usize,
    /// The marks that have no partner yet.
    pub(super) unsure: Vec<Unsure>,
    /// The info string, if this is fenced code.
    pub(super) fence: Option<String>,
}

/// A mark that has no partner yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unsure {
    /// Its offset in the text.
    pub(super) at: usize,
    /// The row of the block that it is in.
    pub(super) row: usize,
}

impl Laid {
    pub(super) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.blocks.iter().flat_map(|it| &it.rows)
    }
}

/// Lays out a text. `begun`: it is not the first one on the screen.
pub(super) fn lay(source: &str, look: Look, begun: bool) -> Laid {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let parser = Parser::new_ext(source, options).into_offset_iter();
    // Reference definitions are shown as well.
    let mut defined: Vec<Range<usize>> =
        parser.reference_definitions().iter().map(|(_, it)| it.span.clone()).collect();
    defined.sort_by_key(|it| std::cmp::Reverse(it.start));
    let events: Vec<(Event<'_>, Range<usize>)> = parser.collect();
    let mut laid = Laid::default();
    let mut at = 0;
    while let Some((_, range)) = events.get(at) {
        while defined.last().is_some_and(|it| it.start < range.start)
            && let Some(range) = defined.pop()
        {
            laid.blocks.push(of_definition(source, &range, look));
        }
        let mut layout =
            Layout { source, events: &events, at, look, before: Vec::new(), block: Block::default() };
        layout.block.start = range.start;
        let is_first = laid.blocks.is_empty() && !begun;
        if !is_first && (is_blank_before(source, range.start) || layout.wants_room()) {
            layout.block.rows.push(Row::default());
        }
        if let Some((Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))), _)) = events.get(at) {
            layout.block.fence = Some(info.to_string());
        }
        layout.block();
        at = layout.at.max(at + 1);
        laid.blocks.push(layout.block);
    }
    for range in defined.into_iter().rev() {
        laid.blocks.push(of_definition(source, &range, look));
    }
    laid
}

/// Returns whether the line before this offset is empty.
pub(super) fn is_blank_before(source: &str, at: usize) -> bool {
    let before = source.get(..at).unwrap_or_default();
    let Some((above, _)) = before.rsplit_once('\n') else { return false };
    let line = above.rsplit_once('\n').map_or(above, |(_, line)| line);
    line.chars().all(|it| it.is_whitespace() || it == '>')
}

fn of_definition(source: &str, range: &Range<usize>, look: Look) -> Block {
    let text = source.get(range.clone()).unwrap_or_default().trim_end();
    let rows: Vec<Row> =
        text.lines().flat_map(|it| Row::new(it, Style::DIM).wrapped(look.columns, 2)).collect();
    Block { start: range.start, sure: rows.len().saturating_sub(1), rows, ..Block::default() }
}

/// Returns a line of code as rows: indented, and with a mark before each continuation.
pub(super) fn code_rows(line: &Row, columns: usize) -> Vec<Row> {
    let margin = if columns < 6 * MARGIN { 0 } else { MARGIN };
    let letters = as_drawn(&line.letters());
    let room = columns.saturating_sub(margin).max(2);
    // A continuation has the indentation of its line, as far as the width allows it.
    let indent = letters.iter().take_while(|it| it.letter == ' ').count();
    let indent = if indent > room / 2 || margin == 0 { 0 } else { indent };
    let lines = cut_code(&letters, room, indent);
    let part = |at: usize, range: &Range<usize>| {
        let goes_on = || format!("{GOES_ON}{}", " ".repeat(indent));
        let before = if at == 0 || margin == 0 { " ".repeat(margin) } else { goes_on() };
        let row =
            Row::new(before, Style::DIM).and(of_letters(letters.get(range.clone()).unwrap_or_default(), 0));
        if row.text().trim().is_empty() { Row::default() } else { row }
    };
    lines.iter().enumerate().map(|(at, range)| part(at, range)).collect()
}

/// Splits a line of code into rows, after a space in the last third of a row if there is one.
fn cut_code(letters: &[Letter], room: usize, indent: usize) -> Vec<Range<usize>> {
    let mut lines: Vec<Range<usize>> = Vec::new();
    let mut start = 0;
    while start < letters.len() || lines.is_empty() {
        let room = if lines.is_empty() { room } else { room.saturating_sub(indent).max(2) };
        let rest = letters.get(start..).unwrap_or_default();
        let mut used = 0;
        let fits = rest.iter().take_while(|it| {
            used += it.letter.width().unwrap_or(0);
            used <= room
        });
        let mut count = fits.count().max(1).min(rest.len());
        if count < rest.len() {
            let third = count * 2 / 3;
            let blank = rest.get(third..count).and_then(|it| it.iter().rposition(|it| it.letter == ' '));
            count = blank.map_or(count, |at| third + at + 1);
        }
        lines.push(start..start + count);
        start += count;
    }
    lines
}

/// Replaces tabs by blanks, as they are drawn, so that the width is right.
fn as_drawn(letters: &[Letter]) -> Vec<Letter> {
    let mut drawn = Vec::with_capacity(letters.len());
    for it in letters {
        let times = if it.letter == '\t' { 4 } else { 1 };
        let letter = if it.letter == '\t' { ' ' } else { it.letter };
        drawn.extend(std::iter::repeat_n(Letter { letter, ..*it }, times));
    }
    drawn
}

/// A block during its layout.
pub(super) struct Layout<'a> {
    pub(super) source: &'a str,
    pub(super) events: &'a [(Event<'a>, Range<usize>)],
    pub(super) at: usize,
    pub(super) look: Look,
    /// The prefixes of each row: marks of lists and quotes.
    before: Vec<Before>,
    block: Block,
}

/// The prefixes of the rows of a list item or a quote.
struct Before {
    /// The prefix of the first row, until that is written.
    first: Option<Row>,
    rest: Row,
}

impl Before {
    fn width(&self) -> usize {
        self.rest.width().max(self.first.as_ref().map_or(0, Row::width))
    }
}

impl<'a> Layout<'a> {
    pub(super) fn event(&self) -> Option<&'a (Event<'a>, Range<usize>)> {
        self.events.get(self.at)
    }

    /// Returns whether an empty row precedes the block: headings and tables stand apart.
    fn wants_room(&self) -> bool {
        matches!(self.event(), Some((Event::Start(Tag::Heading { .. } | Tag::Table(_)), _)))
    }

    fn room(&self) -> usize {
        let before: usize = self.before.iter().map(Before::width).sum();
        self.look.columns.saturating_sub(before).max(2)
    }

    fn put(&mut self, row: Row) {
        let mut whole = Row::default();
        for it in &mut self.before {
            whole = whole.and(it.first.take().unwrap_or_else(|| it.rest.clone()));
        }
        let whole = whole.and(row);
        self.block.rows.push(if whole.text().trim().is_empty() { Row::default() } else { whole });
    }

    /// Adds an empty row, with the marks of the quotes around it.
    fn put_blank(&mut self) {
        let marks = self.before.iter().take_while(|it| it.first.is_none()).map(|it| it.rest.clone());
        let row = marks.fold(Row::default(), Row::and);
        self.block.rows.push(if row.text().trim().is_empty() { Row::default() } else { row });
    }

    /// Adds prefixes for the next rows. If the screen is too narrow, only the first row has one.
    fn enter(&mut self, first: Row, rest: Row) {
        let used: usize = self.before.iter().map(Before::width).sum();
        let rest = if used + rest.width() > self.look.columns / 2 { Row::default() } else { rest };
        self.before.push(Before { first: Some(first), rest });
    }

    fn leave(&mut self) {
        // An empty item shows its mark all the same.
        if self.before.last().is_some_and(|it| it.first.is_some()) {
            self.put(Row::default());
        }
        self.before.pop();
    }

    /// Lays out everything up to the end of the current container.
    fn inside(&mut self, is_item: bool) {
        let mut is_first = is_item;
        while let Some((event, range)) = self.event() {
            if matches!(event, Event::End(_)) {
                self.at += 1;
                return;
            }
            if !is_first && (is_blank_before(self.source, range.start)) {
                self.put_blank();
            }
            is_first = false;
            self.block();
        }
    }

    /// Lays out the block that begins here.
    fn block(&mut self) {
        let Some((event, range)) = self.event() else { return };
        let begins = self.block.rows.len();
        let mut is_leaf = true;
        match event {
            Event::Start(Tag::Paragraph) => {
                self.at += 1;
                self.text(Style::PLAIN);
                self.at += 1;
                is_leaf = false;
            }
            Event::Start(Tag::Heading { level, .. }) => {
                let style = Style { bold: true, underline: *level == HeadingLevel::H1, ..Style::PLAIN };
                self.at += 1;
                self.text(style);
                self.at += 1;
            }
            Event::Start(Tag::BlockQuote(_)) => {
                self.at += 1;
                let mark = Row::new("│ ", Style::DIM);
                self.enter(mark.clone(), mark);
                self.inside(true);
                self.leave();
                is_leaf = false;
            }
            Event::Start(Tag::List(first)) => {
                self.at += 1;
                self.list(*first);
                is_leaf = false;
            }
            Event::Start(Tag::CodeBlock(kind)) => {
                let code = match kind {
                    CodeBlockKind::Fenced(info) => Code::new(info),
                    CodeBlockKind::Indented => Code::new(""),
                };
                self.at += 1;
                self.code(code);
                self.sure_but_last(begins);
                is_leaf = false;
            }
            Event::Start(Tag::HtmlBlock) => {
                self.at += 1;
                self.html();
                self.sure_but_last(begins);
                is_leaf = false;
            }
            Event::Start(Tag::Table(alignments)) => {
                self.at += 1;
                let cells = self.table();
                for row in table::rows(&cells, alignments, self.room()) {
                    self.put(row);
                }
            }
            Event::Rule => {
                self.at += 1;
                self.put(Row::new("─".repeat(self.room().min(60)), Style::DIM));
            }
            Event::Start(_) if !inline::is_inline(event) => {
                // A block of an extension that is not enabled: its text is shown.
                self.at += 1;
                self.inside(true);
                is_leaf = false;
            }
            _ if inline::is_inline(event) => {
                self.text(Style::PLAIN);
                is_leaf = false;
            }
            _ => {
                let text = self.source.get(range.clone()).unwrap_or_default().to_owned();
                self.at += 1;
                self.put(Row::new(text, Style::PLAIN));
            }
        }
        if is_leaf {
            self.block.sure = begins;
            self.block.unsure.clear();
        }
    }

    fn sure_but_last(&mut self, begins: usize) {
        self.block.sure = self.block.rows.len().saturating_sub(1).max(begins);
        self.block.unsure.clear();
    }

    fn list(&mut self, first: Option<u64>) {
        let mut number = first;
        let mut is_first = true;
        while let Some((event, range)) = self.event() {
            self.at += 1;
            match event {
                Event::Start(Tag::Item) => {
                    if !is_first && is_blank_before(self.source, range.start) {
                        self.put_blank();
                    }
                    is_first = false;
                    let mark = number.map_or_else(|| "- ".to_owned(), |it| format!("{it}. "));
                    number = number.map(|it| it.saturating_add(1));
                    let rest = Row::new(" ".repeat(width(&mark)), Style::PLAIN);
                    self.enter(Row::new(mark, Style::PLAIN), rest);
                    self.inside(true);
                    self.leave();
                }
                _ => return,
            }
        }
    }

    /// Replaces the bullet by a checkbox. Returns false if there is no bullet.
    pub(super) fn check(&mut self, checked: bool) -> bool {
        let mark = if checked { "☑ " } else { "☐ " };
        match self.before.last_mut() {
            Some(Before { first: Some(first), .. }) if first.text() == "- " => {
                *first = Row::new(mark, if checked { Style::GOOD } else { Style::PLAIN });
                true
            }
            _ => false,
        }
    }

    /// Lays out the text of a paragraph, a heading or an item.
    fn text(&mut self, base: Style) {
        let Inline { lines, unsure } = inline::read(self, base);
        let begins = self.block.rows.len();
        let room = self.room();
        let mut marks = Vec::new();
        for line in &lines {
            let letters = as_drawn(line);
            for range in wrap(&letters, room, 0, true) {
                let part = letters.get(range).unwrap_or_default();
                let row = self.block.rows.len();
                let is_there = |at: &&usize| part.iter().any(|it| it.end == **at + 1);
                marks.extend(unsure.iter().filter(is_there).map(|at| Unsure { at: *at, row }));
                self.put(of_letters(part, 0));
            }
        }
        let rows = self.block.rows.len();
        let last = rows.saturating_sub(1).max(begins);
        // Without the mark, a word may move up to the row before.
        let first = marks.iter().map(|it| it.row.saturating_sub(1)).min().unwrap_or(last);
        // A table or a heading is recognised only by its second line.
        let is_cell = lines.last().is_some_and(|it| it.first().is_some_and(|it| it.letter == '|'));
        self.block.sure = match () {
            () if is_cell => begins,
            () if last.saturating_sub(first) > HELD_ROWS => last,
            () => first.clamp(begins, last),
        };
        self.block.unsure = marks;
    }

    fn code(&mut self, mut code: Code) {
        let mut text = String::new();
        while let Some((event, _)) = self.event() {
            self.at += 1;
            match event {
                Event::Text(more) => text.push_str(more),
                Event::End(_) => break,
                _ => {}
            }
        }
        let room = self.room();
        for line in text.lines() {
            for row in code_rows(&code.line(line), room) {
                self.put(row);
            }
        }
    }

    fn html(&mut self) {
        let mut text = String::new();
        while let Some((event, _)) = self.event() {
            self.at += 1;
            match event {
                Event::Html(more) | Event::Text(more) | Event::InlineHtml(more) => text.push_str(more),
                Event::End(_) => break,
                _ => {}
            }
        }
        for line in text.lines() {
            for row in Row::new(line, Style::PLAIN).wrapped(self.room(), 0) {
                self.put(row);
            }
        }
    }

    /// Reads the cells of a table, row by row; the first row is its head.
    fn table(&mut self) -> Vec<Vec<table::Cell>> {
        let mut rows: Vec<Vec<table::Cell>> = Vec::new();
        while let Some((event, _)) = self.event() {
            self.at += 1;
            match event {
                Event::Start(Tag::TableHead | Tag::TableRow) => rows.push(Vec::new()),
                Event::Start(Tag::TableCell) => {
                    let base = if rows.len() == 1 { Style::BOLD } else { Style::PLAIN };
                    let Inline { lines, .. } = inline::read(self, base);
                    if let Some(row) = rows.last_mut() {
                        row.push(lines.iter().map(|it| as_drawn(it)).collect());
                    }
                }
                Event::End(pulldown_cmark::TagEnd::Table) => break,
                _ => {}
            }
        }
        rows
    }
}

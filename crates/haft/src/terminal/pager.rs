//! A built-in pager: shows a long text on the alternate screen, with scrolling and search.
//!
//! It does no I/O: it takes keys and returns rows.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{
    abbreviate,
    row::{Row, Style, harmless},
    typed::Typed,
};

/// A text in the pager.
#[derive(Debug)]
pub(crate) struct Pager {
    title: String,
    /// The unwrapped lines of the text.
    lines: Vec<Row>,
    /// The lines wrapped to `columns`, each row with the index of its line.
    rows: Vec<(usize, Row)>,
    columns: usize,
    /// How many rows fit on the screen.
    room: usize,
    /// The row at the top.
    top: usize,
    search: Search,
    /// The hint at the right end of the last row.
    hint: String,
    /// The pager stays at the end as the text grows.
    follows: bool,
}

#[derive(Debug, Default)]
struct Search {
    /// The search term that is being typed.
    typed: Option<Typed>,
    /// The search term, in lower case.
    wanted: String,
    /// The rows that contain it.
    found: Vec<usize>,
    /// The match that was shown last, until the person scrolls.
    at: Option<usize>,
}

/// The effect of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paged {
    Stays,
    /// The person leaves the pager.
    Leaves,
    /// The person goes to the text before this one, or the one after it.
    Earlier,
    Later,
}

impl Pager {
    /// Creates a pager with a title. `hint` names the keys that lead to other texts.
    pub(crate) fn new(title: &str, lines: Vec<Row>, hint: &str) -> Self {
        Self {
            title: harmless(title),
            lines,
            rows: Vec::new(),
            columns: 0,
            room: 1,
            top: 0,
            search: Search::default(),
            hint: hint.to_owned(),
            follows: false,
        }
    }

    /// Returns the lines of a text in one style.
    pub(crate) fn lines_of(text: &str, style: Style) -> Vec<Row> {
        text.trim_end().lines().map(|it| Row::new(harmless(it), style)).collect()
    }

    /// Stays at the end of a text that grows.
    pub(crate) fn following(mut self) -> Self {
        self.follows = true;
        self
    }

    /// Replaces the text.
    pub(crate) fn set_lines(&mut self, lines: Vec<Row>) {
        if self.lines.len() != lines.len() || self.lines.last() != lines.last() {
            self.lines = lines;
            self.columns = 0;
        }
    }

    /// Returns the rows of a screen of this size.
    pub(crate) fn rows(&mut self, columns: usize, lines: usize) -> Vec<Row> {
        self.fit(columns, lines);
        let head = Row::new(self.title.clone(), Style::BOLD).cut(columns);
        let mut rows = vec![head];
        let shown = self.rows.iter().skip(self.top).take(self.room);
        rows.extend(shown.map(|(_, row)| row.marked(&self.search.wanted)));
        rows.resize_with(self.room + 1, Row::default);
        rows.push(self.foot().cut(columns));
        rows
    }

    /// Applies a key.
    pub(crate) fn key(&mut self, key: KeyEvent) -> Paged {
        if let Some(mut typed) = self.search.typed.take() {
            match (key.code, typed.key(key)) {
                (KeyCode::Esc, _) => {}
                (_, Some(wanted)) => self.look_for(&wanted),
                _ => self.search.typed = Some(typed),
            }
            return Paged::Stays;
        }
        let page = self.room.saturating_sub(1).max(1);
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Esc | KeyCode::Char('q') => return Paged::Leaves,
            KeyCode::Char('c' | 'd') if control => return Paged::Leaves,
            KeyCode::Char('o') if control => return Paged::Earlier,
            KeyCode::Left => return Paged::Earlier,
            KeyCode::Right => return Paged::Later,
            KeyCode::Char('f') if control => self.scroll(page, true),
            KeyCode::Char('b') if control => self.scroll(page, false),
            KeyCode::Down | KeyCode::Enter | KeyCode::Char('j') => self.scroll(1, true),
            KeyCode::Up | KeyCode::Char('k') => self.scroll(1, false),
            KeyCode::PageDown | KeyCode::Char(' ') => self.scroll(page, true),
            KeyCode::PageUp | KeyCode::Char('b') => self.scroll(page, false),
            KeyCode::Home | KeyCode::Char('g') => self.scroll(usize::MAX, false),
            KeyCode::End | KeyCode::Char('G') => self.scroll(usize::MAX, true),
            KeyCode::Char('/') => self.search.typed = Some(Typed::default()),
            KeyCode::Char('n') => self.next_found(true),
            KeyCode::Char('N') => self.next_found(false),
            _ => {}
        }
        Paged::Stays
    }

    /// Applies pasted text: adds it to the search term.
    pub(crate) fn paste(&mut self, text: &str) {
        if let Some(typed) = &mut self.search.typed {
            typed.paste(text);
        }
    }

    fn last_top(&self) -> usize {
        self.rows.len().saturating_sub(self.room)
    }

    fn scroll(&mut self, by: usize, down: bool) {
        let top = if down { self.top.saturating_add(by) } else { self.top.saturating_sub(by) };
        self.top = top.min(self.last_top());
        self.search.at = None;
        self.follows &= self.top == self.last_top();
    }

    /// Lays the text out for a screen of this size. The line at the top stays there.
    fn fit(&mut self, columns: usize, lines: usize) {
        self.room = lines.saturating_sub(2).max(1);
        if self.columns != columns {
            let line = self.rows.get(self.top).map_or(0, |it| it.0);
            // Most lines are short, and there may be very many.
            let rows_of =
                |row: &Row| if row.width() <= columns { vec![row.clone()] } else { row.wrapped(columns, 0) };
            let lines = self.lines.iter().enumerate();
            self.rows =
                lines.flat_map(|(at, row)| rows_of(row).into_iter().map(move |it| (at, it))).collect();
            self.columns = columns;
            self.top = self.rows.iter().position(|it| it.0 >= line).unwrap_or(0);
            self.find();
        }
        self.top = if self.follows { self.last_top() } else { self.top.min(self.last_top()) };
    }

    fn look_for(&mut self, wanted: &str) {
        if !wanted.is_empty() {
            self.search.wanted = wanted.to_lowercase();
        }
        self.find();
        // A match on the current screen comes first.
        if let Some(at) = self.search.found.iter().find(|it| **it >= self.top).or(self.search.found.first()) {
            self.go_to(*at);
        }
    }

    fn find(&mut self) {
        let wanted = &self.search.wanted;
        let has = |row: &Row| !wanted.is_empty() && row.text().to_lowercase().contains(wanted);
        self.search.found =
            self.rows.iter().enumerate().filter(|(_, it)| has(&it.1)).map(|(at, _)| at).collect();
    }

    fn next_found(&mut self, forwards: bool) {
        let found = &self.search.found;
        // At the end of the text, the row at the top does not tell which match is current.
        let at = self.search.at.unwrap_or(self.top);
        let next = if forwards {
            found.iter().find(|it| **it > at).or(found.first())
        } else {
            found.iter().rfind(|it| **it < at).or(found.last())
        };
        if let Some(at) = next.copied() {
            self.go_to(at);
        }
    }

    fn go_to(&mut self, row: usize) {
        self.top = row.min(self.last_top());
        self.search.at = Some(row);
        self.follows = false;
    }

    fn foot(&self) -> Row {
        if let Some(typed) = &self.search.typed {
            return Row::new(
                format!("/{}▏", harmless(typed.shown(self.columns.saturating_sub(2)))),
                Style::BOLD,
            );
        }
        let all = self.lines.len();
        let count = |it: usize| abbreviate::count(it as u64);
        let last = (self.top + self.room).min(self.rows.len());
        let line = |row: usize| self.rows.get(row).map_or(0, |it| it.0 + 1);
        let part = match all {
            0 => "empty".to_owned(),
            _ if last >= self.rows.len() => "end".to_owned(),
            _ => format!("{}%", last * 100 / self.rows.len()),
        };
        let place = match all {
            0 => part.clone(),
            _ => format!(
                "lines {}-{} of {} ({part})",
                count(line(self.top)),
                count(line(last.saturating_sub(1))),
                count(all)
            ),
        };
        let found = match (&self.search.wanted, self.search.found.len()) {
            (wanted, _) if wanted.is_empty() => String::new(),
            (wanted, 0) => format!(" · nothing found for {wanted}"),
            (_, 1) => " · found once".to_owned(),
            (_, count) => format!(" · found {count} times, n next"),
        };
        let style = Style { reverse: true, ..Style::PLAIN };
        // Hints that do not fit are dropped, the most familiar keys first.
        let keys: [&[&str]; 4] = [
            &["↑↓ PgUp PgDn g G", "/ search", &self.hint, "q leaves"],
            &["/ search", &self.hint, "q leaves"],
            &[&self.hint, "q leaves"],
            &["q leaves"],
        ];
        let text = |place: &str, keys: &[&str]| {
            let keys: Vec<&str> = keys.iter().copied().filter(|it| !it.is_empty()).collect();
            Row::new(format!(" {place}{found} · {} ", keys.join(" · ")), style)
        };
        let fitting = keys.iter().map(|it| text(&place, it)).find(|it| it.width() <= self.columns);
        fitting.unwrap_or_else(|| text(&part, &["q leaves"]))
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn pager(lines: usize) -> Pager {
        let text: Vec<String> = (1..=lines).map(|it| format!("line {it}")).collect();
        let mut pager =
            Pager::new("shell seq", Pager::lines_of(&text.join("\n"), Style::PLAIN), "Ctrl-O earlier");
        pager.rows(80, 6);
        pager
    }

    fn press(pager: &mut Pager, keys: &str) -> Paged {
        let mut last = Paged::Stays;
        for letter in keys.chars() {
            let key = match letter {
                '↓' => KeyEvent::from(KeyCode::Down),
                '⇟' => KeyEvent::from(KeyCode::PageDown),
                '⎋' => KeyEvent::from(KeyCode::Esc),
                '⏎' => KeyEvent::from(KeyCode::Enter),
                '⌃' => KeyEvent::new(KeyCode::Char('o'), KeyModifiers::CONTROL),
                other => KeyEvent::from(KeyCode::Char(other)),
            };
            last = pager.key(key);
        }
        last
    }

    fn seen(pager: &mut Pager) -> String {
        pager.rows(80, 6).iter().map(|it| it.text().trim_end().to_owned() + "\n").collect()
    }

    #[test]
    fn keys_scroll_and_leave() {
        let mut pager = pager(100);
        expect![[r#"
            shell seq
            line 1
            line 2
            line 3
            line 4
             lines 1-4 of 100 (4%) · / search · Ctrl-O earlier · q leaves
        "#]]
        .assert_eq(&seen(&mut pager));
        let top = |pager: &mut Pager, keys: &str| {
            press(pager, keys);
            pager.rows(80, 6).get(1).map(Row::text).unwrap_or_default()
        };
        for (keys, line) in [
            ("↓", "line 2"),
            ("⇟", "line 5"),
            ("k", "line 4"),
            ("G", "line 97"),
            ("j", "line 97"),
            ("b", "line 94"),
            ("g", "line 1"),
        ] {
            assert_eq!(top(&mut pager, keys), line, "{keys}");
        }
        assert_eq!(press(&mut pager, "⌃"), Paged::Earlier);
        assert_eq!(press(&mut pager, "q"), Paged::Leaves);
        assert_eq!(press(&mut pager, "⎋"), Paged::Leaves);
    }

    #[test]
    fn what_is_looked_for_is_found_marked_and_gone_to() {
        let mut pager = pager(100);
        press(&mut pager, "/LINE 7⏎");
        expect![[r#"
            shell seq
            line 7
            line 8
            line 9
            line 10
             lines 7-10 of 100 (10%) · found 11 times, n next · Ctrl-O earlier · q leaves
        "#]]
        .assert_eq(&seen(&mut pager));
        let marked = pager.rows(80, 6).get(1).map(|it| it.painted(true));
        assert_eq!(marked.as_deref(), Some("\u{1b}[7mline 7\u{1b}[0m"));
        press(&mut pager, "n");
        assert!(seen(&mut pager).contains("\nline 70\n"), "{}", seen(&mut pager));
        press(&mut pager, "N");
        assert!(seen(&mut pager).contains("\nline 7\n"));
        press(&mut pager, "/nowhere⏎");
        assert!(seen(&mut pager).contains("nothing found for nowhere"));
        assert_eq!(press(&mut pager, "/half⎋"), Paged::Stays);
        assert_eq!(press(&mut pager, "q"), Paged::Leaves);
    }

    #[test]
    fn another_width_keeps_the_line_at_the_top_and_every_row_fits() {
        let text: Vec<String> = (1..=50).map(|it| format!("{it} {}", "word ".repeat(20))).collect();
        let mut pager = Pager::new("t", Pager::lines_of(&text.join("\n"), Style::PLAIN), "");
        pager.rows(120, 20);
        press(&mut pager, "⇟");
        let first = |rows: Vec<Row>| {
            rows.get(1).map(Row::text).unwrap_or_default().split(' ').next().map(str::to_owned)
        };
        let before = first(pager.rows(120, 20));
        let narrow = pager.rows(30, 8);
        assert!(narrow.iter().all(|it| it.width() <= 30) && narrow.len() == 8, "{narrow:?}");
        assert_eq!(first(narrow), before);
        assert_eq!(Pager::new("t", Vec::new(), "").rows(30, 3).len(), 3);
    }

    #[test]
    fn a_text_that_grows_is_followed_until_the_person_scrolls() {
        let mut pager = pager(100).following();
        assert!(seen(&mut pager).contains("line 100"));
        let more: Vec<String> = (1..=101).map(|it| format!("line {it}")).collect();
        pager.set_lines(Pager::lines_of(&more.join("\n"), Style::PLAIN));
        assert!(seen(&mut pager).contains("line 101"));
        press(&mut pager, "k");
        assert!(!pager.follows);
    }
}

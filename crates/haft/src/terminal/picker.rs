//! A full-screen list to choose from: typed words narrow it, Enter chooses.
//!
//! It does no I/O: it takes keys and returns rows.

use std::io;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use tokio_util::sync::CancellationToken;

use super::{
    input::{Input, InputEvent},
    row::{Row, Style, harmless},
    screen::Screen,
    typed::Typed,
};

/// A list to choose from.
#[derive(Debug)]
pub(crate) struct Picker {
    title: String,
    items: Vec<Item>,
    /// The typed words.
    typed: Typed,
    words: String,
    /// The indices of the items that match.
    found: Vec<usize>,
    /// The selected item, as an index of `found`.
    at: usize,
    top: usize,
}

/// An item of the list.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    /// The title, which stands first.
    pub(crate) text: String,
    /// The description, dimmed.
    pub(crate) about: String,
}

/// The effect of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Picked {
    Stays,
    /// The person chose the item at this index.
    Chosen(usize),
    /// The person chose nothing.
    Leaves,
}

impl Picker {
    pub(crate) fn new(title: &str, items: Vec<Item>) -> Self {
        let found = (0..items.len()).collect();
        let (typed, words) = (Typed::default(), String::new());
        Self { title: harmless(title), items, typed, words, found, at: 0, top: 0 }
    }

    /// Returns the rows of a screen of this size.
    pub(crate) fn rows(&mut self, columns: usize, lines: usize) -> Vec<Row> {
        let room = lines.saturating_sub(2).max(1);
        if self.at < self.top {
            self.top = self.at;
        } else if self.at >= self.top + room {
            self.top = self.at + 1 - room;
        }
        let mut rows = vec![Row::new(self.title.clone(), Style::BOLD).cut(columns)];
        let shown = self.found.iter().enumerate().skip(self.top).take(room);
        for (at, item) in shown.filter_map(|(at, it)| Some((at, self.items.get(*it)?))) {
            let mark = if at == self.at { "› " } else { "  " };
            let style = if at == self.at { Style::BOLD } else { Style::PLAIN };
            let row = Row::new(format!("{mark}{}", harmless(&item.text)), style);
            rows.push(row.with(format!("  {}", harmless(&item.about)), Style::DIM).cut(columns));
        }
        rows.resize_with(room + 1, Row::default);
        let keys = if self.found.is_empty() {
            "nothing found · Esc leaves"
        } else {
            "↑↓ Enter chooses · Esc leaves"
        };
        let typed = harmless(self.typed.shown(columns / 2));
        let foot = format!(" search: {typed}▏ · {} of {} · {keys} ", self.found.len(), self.items.len());
        let foot =
            if foot.chars().count() > columns { format!(" {typed}▏ · Enter · Esc ") } else { foot };
        rows.push(Row::new(foot, Style { reverse: true, ..Style::PLAIN }).cut(columns));
        rows
    }

    /// Applies a key.
    pub(crate) fn key(&mut self, key: KeyEvent) -> Picked {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let last = self.found.len().saturating_sub(1);
        match key.code {
            KeyCode::Esc => return Picked::Leaves,
            KeyCode::Char('c' | 'd') if control => return Picked::Leaves,
            KeyCode::Enter => {
                return self.found.get(self.at).map_or(Picked::Stays, |it| Picked::Chosen(*it));
            }
            KeyCode::Up => self.at = self.at.saturating_sub(1),
            KeyCode::Down => self.at = (self.at + 1).min(last),
            KeyCode::PageUp => self.at = self.at.saturating_sub(10),
            KeyCode::PageDown => self.at = (self.at + 10).min(last),
            KeyCode::Home => self.at = 0,
            KeyCode::End => self.at = last,
            _ => {
                // Only Enter ends the line, and it is handled above.
                let _ = self.typed.key(key);
                self.find();
            }
        }
        Picked::Stays
    }

    /// Applies pasted text: adds it to the typed words.
    pub(crate) fn paste(&mut self, text: &str) {
        self.typed.paste(text);
        self.find();
    }

    fn find(&mut self) {
        let words = self.typed.shown(usize::MAX).to_lowercase();
        if words == self.words {
            return;
        }
        let has = |item: &Item| {
            let all = format!("{} {}", item.text, item.about).to_lowercase();
            words.split_whitespace().all(|word| all.contains(word))
        };
        self.found = self.items.iter().enumerate().filter(|it| has(it.1)).map(|it| it.0).collect();
        (self.words, self.at, self.top) = (words, 0, 0);
    }
}

/// Has the person choose at the terminal, outside a chat; returns `None` if they choose nothing.
///
/// # Errors
/// If the terminal can't be read key by key.
pub(crate) async fn pick(
    title: &str,
    items: Vec<Item>,
    colours: bool,
    hangup: &CancellationToken,
) -> io::Result<Option<usize>> {
    let (mut screen, mut input) = (Screen::new(colours), Input::start()?);
    let mut picker = Picker::new(title, items);
    let chosen = loop {
        let rows = picker.rows(screen.columns(), screen.lines());
        screen.draw_full(rows);
        if screen.is_gone() {
            break None;
        }
        let event = tokio::select! {
            () = hangup.cancelled() => break None,
            event = input.next() => event,
        };
        match event {
            InputEvent::Key(key) => match picker.key(key) {
                Picked::Stays => {}
                Picked::Chosen(at) => break Some(at),
                Picked::Leaves => break None,
            },
            InputEvent::Paste(text) => picker.paste(&text),
            InputEvent::Resized(columns, lines) => screen.resized(columns, lines),
            InputEvent::End => break None,
        }
    };
    screen.leave_full();
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn picker() -> Picker {
        let item = |text: &str, about: &str| Item { text: text.to_owned(), about: about.to_owned() };
        Picker::new(
            "Sessions",
            vec![
                item("fix the test", "s_1, open in process 12"),
                item("add a cache", "s_2, yesterday"),
                item("add a parser\u{1b}[2J", "s_3, archived"),
            ],
        )
    }

    fn press(picker: &mut Picker, keys: &str) -> Picked {
        let mut last = Picked::Stays;
        for letter in keys.chars() {
            last = picker.key(KeyEvent::from(match letter {
                '↓' => KeyCode::Down,
                '↑' => KeyCode::Up,
                '⏎' => KeyCode::Enter,
                '⎋' => KeyCode::Esc,
                '⌫' => KeyCode::Backspace,
                other => KeyCode::Char(other),
            }));
        }
        last
    }

    fn seen(picker: &mut Picker, columns: usize) -> String {
        picker.rows(columns, 6).iter().map(|it| it.text().trim_end().to_owned() + "\n").collect()
    }

    #[test]
    fn list_is_narrowed_by_words_and_chosen_from() {
        let mut picker = picker();
        expect![[r#"
            Sessions
            › fix the test  s_1, open in process 12
              add a cache  s_2, yesterday
              add a parser\u{1b}[2J  s_3, archived

             search: ▏ · 3 of 3 · ↑↓ Enter chooses · Esc leaves
        "#]]
        .assert_eq(&seen(&mut picker, 80));
        assert_eq!(press(&mut picker, "↓⏎"), Picked::Chosen(1));
        press(&mut picker, "add pars");
        expect![[r#"
            Sessions
            › add a parser\u{1b}[2J  s_3, archived



             add pars▏ · Enter · Esc
        "#]]
        .assert_eq(&seen(&mut picker, 40));
        assert_eq!(press(&mut picker, "⏎"), Picked::Chosen(2));
        press(&mut picker, "zzz");
        assert!(seen(&mut picker, 80).contains("nothing found"), "{}", seen(&mut picker, 80));
        assert_eq!(press(&mut picker, "⏎"), Picked::Stays);
        press(&mut picker, "⌫⌫⌫⌫⌫⌫⌫⌫⌫⌫⌫");
        assert!(seen(&mut picker, 80).contains("3 of 3"));
        assert_eq!(press(&mut picker, "⎋"), Picked::Leaves);
    }

    #[test]
    fn chosen_item_stays_on_the_screen_and_every_row_fits() {
        let items = (0..50).map(|it| Item { text: format!("item {it}"), about: "word ".repeat(30) });
        let mut picker = Picker::new("Many", items.collect());
        press(&mut picker, &"↓".repeat(30));
        let rows = picker.rows(40, 12);
        assert!(rows.len() == 12 && rows.iter().all(|it| it.width() <= 40), "{rows:?}");
        assert!(rows.iter().any(|it| it.text().starts_with("› item 30 ")), "{rows:?}");
    }
}

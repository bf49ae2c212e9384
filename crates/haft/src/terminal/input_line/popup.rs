//! The completion popup below the line: the choices for the word, one of which Tab takes.

use super::super::{
    complete::{Choice, Offered},
    row::{Row, Style, harmless, width},
};

/// Maximum width of the column of names.
const NAMES: usize = 30;

/// The choices for a word.
#[derive(Debug)]
pub(super) struct Popup {
    /// The offset at which the word begins.
    pub(super) start: usize,
    choices: Vec<Choice>,
    chosen: Option<usize>,
    /// The text that is shown while there are no choices.
    says: &'static str,
}

impl Popup {
    /// Creates a popup. The same choice stays selected if it is still there.
    pub(super) fn new(offered: Offered, before: Option<&Self>) -> Self {
        let Offered { start, choices, says, picks } = offered;
        let same = before.and_then(|it| it.moved().then(|| it.choice()).flatten());
        let same = same.and_then(|same| choices.iter().position(|it| it.word == same.word));
        let chosen = same.or_else(|| (picks && !choices.is_empty()).then_some(0));
        Self { start, choices, chosen, says }
    }

    pub(super) fn choice(&self) -> Option<&Choice> {
        self.choices.get(self.chosen?)
    }

    /// Returns whether there is exactly one choice.
    pub(super) fn is_alone(&self) -> bool {
        self.choices.len() == 1
    }

    /// Returns whether the person selected a choice.
    fn moved(&self) -> bool {
        self.chosen.is_some_and(|it| it > 0)
    }

    pub(super) fn down(&mut self) {
        self.chosen = match self.chosen {
            _ if self.choices.is_empty() => None,
            Some(at) if at + 1 < self.choices.len() => Some(at + 1),
            _ => Some(0),
        };
    }

    pub(super) fn up(&mut self) {
        let last = self.choices.len().checked_sub(1);
        self.chosen = self.chosen.and_then(|it| it.checked_sub(1)).or(last);
    }

    /// Returns the popup in at most `most` rows of `columns` columns.
    pub(super) fn rows(&self, columns: usize, most: usize) -> Vec<Row> {
        if self.choices.is_empty() {
            return if self.says.is_empty() || most == 0 {
                Vec::new()
            } else {
                vec![Row::new(format!("  {}", self.says), Style::DIM).cut(columns)]
            };
        }
        // If not all choices fit, the last row shows how many there are.
        let all = self.choices.len() <= most;
        let room = if all { most } else { most.saturating_sub(1) };
        let chosen = self.chosen.unwrap_or(0);
        let first = (chosen + 1).saturating_sub(room).min(self.choices.len().saturating_sub(room));
        let seen = || self.choices.iter().enumerate().skip(first).take(room);
        let name = |it: &Choice| {
            let takes = if it.takes.is_empty() { String::new() } else { format!(" {}", it.takes) };
            harmless(&format!("{}{takes}", it.shown))
        };
        let wide = seen().map(|(_, it)| width(&name(it))).max().unwrap_or(0).min(NAMES.min(columns / 2));
        let mut rows: Vec<Row> = seen()
            .map(|(at, it)| {
                let is_chosen = self.chosen == Some(at);
                let (mark, style) = if is_chosen { ("› ", Style::BOLD) } else { ("  ", Style::PLAIN) };
                let about = harmless(&it.about);
                if about.is_empty() {
                    return Row::new(format!("{mark}{}", name(it)), style).cut(columns);
                }
                let name = Row::new(name(it), style).cut(wide);
                let blank = " ".repeat(wide.saturating_sub(name.width()) + 2);
                Row::new(mark, style).and(name).with(format!("{blank}{about}"), Style::DIM).cut(columns)
            })
            .collect();
        if !all && most > 0 {
            let at = self.chosen.map_or_else(String::new, |it| format!("{} of ", it + 1));
            rows.push(Row::new(format!("  {at}{}", self.choices.len()), Style::DIM).cut(columns));
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::indexing_slicing, reason = "tests")]

    use super::*;

    fn popup(count: usize) -> Popup {
        let choice = |at: usize| Choice {
            word: format!("/c{at}"),
            shown: format!("/c{at}"),
            takes: "[N]".to_owned(),
            about: format!("does {at}"),
            ..Choice::default()
        };
        let offered = Offered { start: 0, choices: (0..count).map(choice).collect(), says: "", picks: true };
        Popup::new(offered, None)
    }

    fn seen(popup: &Popup, columns: usize, most: usize) -> Vec<String> {
        popup.rows(columns, most).iter().map(Row::text).collect()
    }

    #[test]
    fn all_choices_can_be_scrolled_to() {
        let mut popup = popup(5);
        assert_eq!(seen(&popup, 30, 3), ["› /c0 [N]  does 0", "  /c1 [N]  does 1", "  1 of 5"]);
        popup.down();
        popup.down();
        assert_eq!(seen(&popup, 30, 3), ["  /c1 [N]  does 1", "› /c2 [N]  does 2", "  3 of 5"]);
        popup.up();
        popup.up();
        popup.up();
        assert_eq!(seen(&popup, 30, 3), ["  /c3 [N]  does 3", "› /c4 [N]  does 4", "  5 of 5"]);
        popup.down();
        assert_eq!(popup.choice().map(|it| it.word.as_str()), Some("/c0"));
        assert_eq!(seen(&popup, 30, 5).len(), 5);
    }

    #[test]
    fn a_narrow_terminal_cuts_what_is_said() {
        let popup = popup(2);
        assert!(popup.rows(12, 4).iter().all(|it| it.width() <= 12));
        assert_eq!(seen(&popup, 12, 4)[0], "› /c0 […  d…");
    }
}

//! How does a question stand in the chat, and what answers it?

use crossterm::event::KeyEvent;
use runtime::{Verdict, grants::Scope};

use super::{
    asking::Asked,
    row::{Row, Style, harmless},
    typed::Typed,
};
use crate::ask;

/// A question that stands in the chat. What was typed before it is no part of the answer.
pub(crate) struct Dialog {
    asked: Asked,
    typed: Typed,
}

impl Dialog {
    pub(crate) fn new(asked: Asked) -> Self {
        Self { asked, typed: Typed::default() }
    }

    /// The question, in lines of so many columns.
    pub(crate) fn rows(&self, columns: usize) -> Vec<Row> {
        let text = match &self.asked {
            Asked::May(request, _) => ask::question(request),
            Asked::Wants(question, _) => ask::wanted(question),
        };
        let lines = text.trim().lines().enumerate();
        let rows = lines.flat_map(|(at, line)| {
            let style = if at == 0 { Style::ASKS } else { Style::PLAIN };
            Row::new(line, style).wrapped(columns, 4)
        });
        std::iter::once(Row::default()).chain(rows).collect()
    }

    /// Where the answer is typed.
    pub(crate) fn live(&self, columns: usize) -> Vec<Row> {
        let says = match &self.asked {
            Asked::May(request, _) => ask::choices(&request.offers),
            Asked::Wants(..) => "your answer (Esc stops): ",
        };
        let mut rows = Row::new(says, Style::ASKS).wrapped(columns, 0);
        let room = columns.saturating_sub(rows.last().map_or(0, Row::width) + 2);
        // Where there is no room beside it, it is typed below.
        let below = room < 8;
        let typed = Row::new(
            harmless(self.typed.shown(if below { columns.saturating_sub(1) } else { room })),
            Style::PLAIN,
        );
        match rows.pop() {
            Some(last) if !below => rows.push(last.with(" ", Style::PLAIN).and(typed).with("▏", Style::DIM)),
            last => {
                rows.extend(last);
                rows.push(typed.with("▏", Style::DIM));
            }
        }
        rows
    }

    /// Takes a key. When that answers the question, gives the line that says so; otherwise the question still stands.
    pub(crate) fn key(mut self, key: KeyEvent) -> Result<Row, Box<Self>> {
        let Some(line) = self.typed.key(key) else { return Err(Box::new(self)) };
        match self.asked {
            Asked::May(request, reply) => {
                match ask::answer(format!("{line}\n").as_bytes(), !request.offers.is_empty()) {
                    Some(verdict) => {
                        // Who asked may have gone.
                        let _ = reply.send(verdict);
                        Ok(said(verdict))
                    }
                    None => {
                        Err(Box::new(Self { asked: Asked::May(request, reply), typed: Typed::default() }))
                    }
                }
            }
            Asked::Wants(question, reply) => match ask::chosen(&question, &line) {
                Some(answer) => {
                    let row = Row::new(harmless(&format!("> {answer}")), Style::BOLD);
                    let _ = reply.send(Some(answer));
                    Ok(row)
                }
                None => Err(Box::new(Self { asked: Asked::Wants(question, reply), typed: self.typed })),
            },
        }
    }

    /// Takes what was pasted: part of an answer in words, but nothing that allows anything.
    pub(crate) fn paste(&mut self, text: &str) {
        if matches!(self.asked, Asked::Wants(..)) {
            self.typed.paste(text);
        }
    }

    /// Does nobody wait for the answer any more?
    pub(crate) fn is_taken_back(&self) -> bool {
        self.asked.is_taken_back()
    }
}

fn said(verdict: Verdict) -> Row {
    match verdict {
        Verdict::Yes(Scope::Once) => Row::new("allowed once", Style::GOOD),
        Verdict::Yes(Scope::Session) => Row::new("allowed for this session", Style::GOOD),
        Verdict::Yes(Scope::Project) => Row::new("allowed for this project", Style::GOOD),
        Verdict::No | Verdict::NobodyThere => Row::new("refused", Style::BAD),
    }
}

#[cfg(test)]
mod tests {
    use crossterm::event::KeyCode;
    use kit::services::Question;
    use tokio::sync::oneshot;

    use super::*;

    fn press(mut dialog: Dialog, keys: &str) -> Result<Row, Box<Dialog>> {
        for letter in keys.chars() {
            let code = if letter == '\n' { KeyCode::Enter } else { KeyCode::Char(letter) };
            match dialog.key(KeyEvent::from(code)) {
                Ok(row) => return Ok(row),
                Err(same) => dialog = *same,
            }
        }
        Err(Box::new(dialog))
    }

    #[test]
    fn a_question_is_answered_by_a_number_or_in_words_and_not_by_nothing() {
        let options = vec!["main".to_owned(), "dev\u{1b}[2J".to_owned()];
        let question = Question { text: "Which branch?".to_owned(), options, within: None };
        let (reply, mut answer) = oneshot::channel();
        let dialog = Dialog::new(Asked::Wants(question, reply));
        let rows: Vec<String> = dialog.rows(40).iter().map(Row::text).collect();
        assert_eq!(rows, ["", "the model asks: Which branch?", "  1. main", "  2. dev\\u{1b}[2J"]);
        let Err(dialog) = press(dialog, "\n2") else { unreachable!() };
        assert_eq!(
            dialog.live(40).iter().map(Row::text).collect::<Vec<_>>(),
            ["your answer (Esc stops): 2▏"]
        );
        assert!(dialog.live(20).iter().all(|it| it.width() <= 20));
        assert_eq!(press(*dialog, "\n").map(|it| it.text()).ok().as_deref(), Some("> dev\\u{1b}[2J"));
        assert_eq!(answer.try_recv().ok().flatten().as_deref(), Some("dev\u{1b}[2J"));
    }
}

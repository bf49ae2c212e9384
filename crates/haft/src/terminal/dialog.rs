//! Dialogs: a question in the chat, and the keys that answer it.

use std::time::Instant;

use crossterm::event::KeyEvent;
use kit::effect::Scope;
use runtime::Verdict;

use super::{
    asking::Asked,
    diff,
    row::{Row, Style, harmless},
    typed::Typed,
};
use crate::ask::{self, Parts};

/// An open question in the chat. Text that was typed before it is not part of the answer.
pub(crate) struct Dialog {
    asked: Asked,
    typed: Typed,
    since: Instant,
}

/// The effect of a key.
pub(crate) enum Pressed {
    /// The key answered the question; the line shows how.
    Answered(Row),
    /// The question is still open; these lines are to be shown.
    Stands(Box<Dialog>, Vec<Row>),
}

impl Dialog {
    pub(crate) fn new(asked: Asked) -> Self {
        Self { asked, typed: Typed::default(), since: Instant::now() }
    }

    /// Returns the question in lines of `columns` columns.
    pub(crate) fn rows(&self, columns: usize) -> Vec<Row> {
        let mut rows = vec![Row::default()];
        let mut say = |line: &str, style| rows.extend(Row::new(line, style).wrapped(columns, 4));
        match &self.asked {
            Asked::May(request, _) => {
                let Parts { asks, effects, why } = ask::parts(request);
                say(&asks, Style::ASKS);
                effects.iter().for_each(|it| say(it, Style::PLAIN));
                // The diffs stand above the scope of the approval, so that they do not read as part of it. The end of
                // a diff matters as much as its beginning.
                let diffs = diff::proposed(&request.changes, 2, columns);
                let more = |rest| Row::new(format!("  … {rest} more lines; d shows all …"), Style::DIM);
                rows.extend(ask::head_and_tail(diffs, diff::SHOWN, more));
                why.iter().for_each(|it| rows.extend(Row::new(it, Style::PLAIN).wrapped(columns, 4)));
            }
            Asked::Wants(question, _) => {
                for (at, line) in ask::wanted(question).trim().lines().enumerate() {
                    say(line, if at == 0 { Style::ASKS } else { Style::PLAIN });
                }
            }
        }
        rows
    }

    /// Answers that the person refuses, or does not want to answer.
    pub(crate) fn refuse(self) {
        self.asked.refuse();
    }

    /// Returns the rows in which the answer is typed.
    pub(crate) fn live(&self, columns: usize) -> Vec<Row> {
        let says = match &self.asked {
            Asked::May(request, _) => ask::choices(&request.offers),
            Asked::Wants(..) => "your answer (Esc stops): ",
        };
        let mut rows = Row::new(says, Style::ASKS).wrapped(columns, 0);
        let room = columns.saturating_sub(rows.last().map_or(0, Row::width) + 2);
        // If there is too little space beside it, the answer is typed below.
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

    /// Returns the call that asks, and since when.
    pub(crate) fn asks(&self) -> Option<(&str, Instant)> {
        match &self.asked {
            Asked::May(request, _) => Some((request.call.as_deref()?, self.since)),
            Asked::Wants(..) => None,
        }
    }

    /// Returns the changes that the question showed, with the call that would make them.
    pub(crate) fn showed(&self) -> Option<(&str, &[agent::Change])> {
        match &self.asked {
            Asked::May(request, _) => Some((request.call.as_deref()?, &request.changes)),
            Asked::Wants(..) => None,
        }
    }

    /// Applies a key, on a terminal of `columns` columns.
    pub(crate) fn key(mut self, key: KeyEvent, columns: usize) -> Pressed {
        let since = self.since;
        let stands = |asked, typed, rows| Pressed::Stands(Box::new(Self { asked, typed, since }), rows);
        let Some(line) = self.typed.key(key) else { return stands(self.asked, self.typed, Vec::new()) };
        match self.asked {
            Asked::May(request, reply) => {
                match ask::answer(format!("{line}\n").as_bytes(), !request.offers.is_empty()) {
                    Some(verdict) => {
                        let row = said(&verdict);
                        // The asker may be gone.
                        let _ = reply.send(verdict);
                        Pressed::Answered(row)
                    }
                    None => {
                        let rows = match ask::wants_all(&line, &request) {
                            true => diff::proposed(&request.changes, 2, columns),
                            false => Row::new(ask::keys(&request), Style::DIM).wrapped(columns, 2),
                        };
                        stands(Asked::May(request, reply), Typed::default(), rows)
                    }
                }
            }
            Asked::Wants(question, reply) => match ask::chosen(&question, &line) {
                Some(answer) => {
                    let row = Row::new(harmless(&format!("> {answer}")), Style::BOLD);
                    let _ = reply.send(Some(answer));
                    Pressed::Answered(row)
                }
                None => stands(Asked::Wants(question, reply), self.typed, Vec::new()),
            },
        }
    }

    /// Adds pasted text to an answer in words. Pasted text never approves anything.
    pub(crate) fn paste(&mut self, text: &str) {
        if matches!(self.asked, Asked::Wants(..)) {
            self.typed.paste(text);
        }
    }

    /// Returns whether the question was withdrawn.
    pub(crate) fn is_taken_back(&self) -> bool {
        self.asked.is_taken_back()
    }
}

fn said(verdict: &Verdict) -> Row {
    match verdict {
        Verdict::Yes(Scope::Once) => Row::new("allowed once", Style::GOOD),
        Verdict::Yes(Scope::Session) => Row::new("allowed for this session", Style::GOOD),
        Verdict::Yes(Scope::Project) => Row::new("allowed for this project", Style::GOOD),
        Verdict::Instead(words) => {
            Row::new("refused", Style::BAD).with(format!(": {}", harmless(words)), Style::PLAIN)
        }
        Verdict::No | Verdict::NobodyThere | Verdict::NobodyDecided { .. } => Row::new("refused", Style::BAD),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::result_large_err, reason = "tests")]

    use agent::Change;
    use crossterm::event::KeyCode;
    use kit::{effect::Effect, services::Question};
    use tokio::sync::oneshot;

    use super::*;
    use crate::ask::AboutCall;

    /// Presses these keys. Returns the line that shows the answer, or the open dialog with the rows that it showed.
    fn press(mut dialog: Dialog, keys: &str) -> Result<Row, (Dialog, Vec<Row>)> {
        let mut shown = Vec::new();
        for letter in keys.chars() {
            let code = if letter == '\n' { KeyCode::Enter } else { KeyCode::Char(letter) };
            match dialog.key(KeyEvent::from(code), 60) {
                Pressed::Answered(row) => return Ok(row),
                Pressed::Stands(same, rows) => {
                    dialog = *same;
                    shown.extend(rows);
                }
            }
        }
        Err((dialog, shown))
    }

    fn request(offers: Vec<Effect>, changes: Vec<Change>) -> AboutCall {
        AboutCall {
            call: Some("c_1".to_owned()),
            agent: None,
            tool: "edit".to_owned(),
            rule: "ask_edits".to_owned(),
            about: "src/a.py".to_owned(),
            says: "each change of a file needs approval".to_owned(),
            arguments: String::new(),
            effects: vec!["write /w/src/a.py".to_owned()],
            changes,
            offers,
        }
    }

    fn change(lines: usize) -> Change {
        let added: String = (0..lines).map(|it| format!("+{it}\n")).collect();
        let diff = format!("--- a/src/a.py\n+++ b/src/a.py\n@@ -0,0 +1,{lines} @@\n{added}");
        Change { path: "src/a.py".to_owned(), added: lines, diff, ..Change::default() }
    }

    fn text(rows: &[Row]) -> Vec<String> {
        rows.iter().map(Row::text).collect()
    }

    #[test]
    fn a_change_is_asked_about_with_its_diff() {
        let (reply, mut answer) = oneshot::channel();
        let request = request(vec![Effect::Edit(".".to_owned())], vec![change(2)]);
        let dialog = Dialog::new(Asked::May(request, reply));
        assert_eq!(
            text(&dialog.rows(60)),
            [
                "",
                "Allow `edit` to change src/a.py?",
                "  src/a.py (+2 -0)",
                "  1 + 0",
                "  2 + 1",
                "Reason: each change of a file needs approval (rule",
                "    ask_edits)",
                "A session or project approval covers:",
                "  edit .  (every file in the workspace, except those that",
                "    always need approval)",
            ]
        );
        // Any other key shows the valid ones.
        let Err((dialog, shown)) = press(dialog, "2\n") else { unreachable!() };
        assert_eq!(text(&shown), ["Type o, s, p or n; `n WORDS` refuses and tells the model", "  why."]);
        let said = press(dialog, "n use tabs\n").map(|it| it.text());
        assert_eq!(said.ok().as_deref(), Some("refused: use tabs"));
        assert_eq!(answer.try_recv(), Ok(Verdict::Instead("use tabs".to_owned())));
    }

    #[test]
    fn a_file_that_would_be_created_is_not_called_created_yet() {
        let (reply, _answer) = oneshot::channel();
        let created = Change { kind: agent::ChangeKind::Created, ..change(1) };
        let dialog = Dialog::new(Asked::May(request(Vec::new(), vec![created]), reply));
        let rows = text(&dialog.rows(60));
        assert_eq!(
            rows.get(1..3),
            Some(
                ["Allow `edit` to create src/a.py?", "  create src/a.py (+1 -0)"]
                    .map(str::to_owned)
                    .as_slice()
            )
        );
    }

    #[test]
    fn a_long_diff_is_shown_whole_on_a_key() {
        let (reply, mut answer) = oneshot::channel();
        let dialog = Dialog::new(Asked::May(request(Vec::new(), vec![change(100)]), reply));
        let rows = text(&dialog.rows(60));
        assert!(rows.contains(&"  … 61 more lines; d shows all …".to_owned()), "{rows:#?}");
        let Err((dialog, shown)) = press(dialog, "x\nd\n") else { unreachable!() };
        let shown = text(&shown);
        assert!(
            shown.starts_with(&["Type o or n; `n WORDS` refuses and tells the model why; d".to_owned()]),
            "{shown:#?}"
        );
        assert_eq!((shown.len(), shown.last().map(String::as_str)), (103, Some("  100 + 99")));
        assert_eq!(press(dialog, "o\n").map(|it| it.text()).ok().as_deref(), Some("allowed once"));
        assert_eq!(answer.try_recv(), Ok(Verdict::Yes(Scope::Once)));
    }

    #[test]
    fn a_question_is_answered_by_a_number_or_in_words_and_not_by_nothing() {
        let options = vec!["main".to_owned(), "dev\u{1b}[2J".to_owned()];
        let question = Question { text: "Which branch?".to_owned(), options, within: None };
        let (reply, mut answer) = oneshot::channel();
        let dialog = Dialog::new(Asked::Wants(question, reply));
        let rows: Vec<String> = dialog.rows(40).iter().map(Row::text).collect();
        assert_eq!(rows, ["", "the model asks: Which branch?", "  1. main", "  2. dev\\u{1b}[2J"]);
        let Err((dialog, _)) = press(dialog, "\n2") else { unreachable!() };
        assert_eq!(
            dialog.live(40).iter().map(Row::text).collect::<Vec<_>>(),
            ["your answer (Esc stops): 2▏"]
        );
        assert!(dialog.live(20).iter().all(|it| it.width() <= 20));
        assert_eq!(press(dialog, "\n").map(|it| it.text()).ok().as_deref(), Some("> dev\\u{1b}[2J"));
        assert_eq!(answer.try_recv().ok().flatten().as_deref(), Some("dev\u{1b}[2J"));
    }
}

//! `haft sessions show`: a conversation as a person reads it, in a pager at a terminal, as plain text in a pipe.

use std::{fmt::Write as _, io::IsTerminal};

use agent::{CUT_OFF, Conversation, Line, Message};
use clap::Args;
use kit::{Fault, Kind, counted, escape::visible};
use serde_json::json;
use sessions::lines;
use store::{Arrival, ArrivalState};

use super::{Named, when};
use crate::{
    Opened, Place, print,
    terminal::{
        abbreviate, reader,
        row::{Row, Style},
        view::{Look, said_before},
    },
};

/// Maximum length of a call's arguments in a pipe.
const TITLE: usize = 200;

/// Maximum number of messages of the inbox.
const INBOX: usize = 1000;

#[derive(Args)]
pub(super) struct Show {
    #[command(flatten)]
    conversation: Named,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A conversation to read at the terminal.
pub(super) struct Read {
    title: String,
    rows: Vec<Row>,
}

impl Read {
    pub(super) async fn at_terminal(self, place: &Place) -> Result<(), Fault> {
        let colours = place.variable("NO_COLOR").is_none();
        reader::read(&self.title, self.rows, colours).await.map_err(|error| {
            Fault::new(Kind::Unavailable, format!("the terminal can't be used: {error}"))
                .next("Pipe it: haft sessions show NAME | less")
        })
    }
}

impl Show {
    /// Prints the conversation, or returns it for the reader if standard output is a terminal.
    pub(super) fn run(&self, opened: &Opened, place: &Place) -> Result<Option<Read>, Fault> {
        let about = self.conversation.find(&opened.runtime)?;
        let said = lines(&opened.runtime, &about.session)?;
        let inbox = opened.runtime.store().inbox().list(&about.session, INBOX)?;
        if self.json {
            print::json(&json!({ "conversation": about, "messages": said, "inbox": inbox }));
            return Ok(None);
        }
        let is_dumb = matches!(place.variable("TERM"), None | Some("dumb"));
        if is_dumb || !std::io::stdout().is_terminal() {
            print::out(&plain(&about, &said));
            print::out(&waiting(&inbox).concat());
            return Ok(None);
        }
        // A terminal that does not know its size reports zero columns.
        let known = crossterm::terminal::size().ok().filter(|it| it.0 > 0);
        let columns = known.map_or(80, |it| usize::from(it.0));
        let look =
            Look { columns: columns.saturating_sub(1).max(2), plain: place.variable("NO_COLOR").is_some() };
        let title = format!("{} · {}", about.title, about.session);
        let mut rows = drawn(&about, &said, look);
        for line in waiting(&inbox) {
            rows.extend(Row::new(line.trim_end(), Style::DIM).wrapped(look.columns, 2));
        }
        Ok(Some(Read { title, rows }))
    }
}

/// Returns a line for each message of the inbox that the model has not seen yet.
fn waiting(inbox: &[Arrival]) -> Vec<String> {
    let queued = inbox.iter().filter(|it| it.state == ArrivalState::Queued);
    queued
        .map(|it| {
            let text: String = it.text.lines().next().unwrap_or_default().chars().take(TITLE).collect();
            let line = format!("? waits since {}: {} from {}: {text}", when(it.at_ms), it.message, it.sender);
            format!("{}\n", visible(&line).0)
        })
        .collect()
}

/// Returns the heading of a conversation: session, turns, times, origin.
fn head(about: &Conversation) -> String {
    let turns = counted(usize::try_from(about.turns).unwrap_or(usize::MAX), "turn");
    let fork = match (&about.forked_from, about.forked_at) {
        (Some(from), Some(at)) => format!(", fork of {from} after message {at}"),
        (Some(from), None) => format!(", fork of {from}"),
        (None, _) => String::new(),
    };
    let archived = if about.archived { ", archived" } else { "" };
    format!(
        "session {}, {turns}, begun {}, last used {}{fork}{archived}",
        about.session,
        when(about.begun_ms),
        when(about.used_ms)
    )
}

/// Returns the line above a message of the person: the number that `haft sessions fork --at` takes, and the time.
fn number(line: &Line) -> Option<String> {
    line.turn.map(|turn| format!("[{turn}] {}", when(line.at_ms)))
}

fn drawn(about: &Conversation, said: &[Line], look: Look) -> Vec<Row> {
    let mut rows = Row::new(about.title.as_str(), Style::BOLD).lines(look.columns);
    rows.extend(Row::new(head(about), Style::DIM).wrapped(look.columns, 0));
    let mut tools = false;
    for line in said {
        let is_tool = matches!(line.message, Message::Tool { .. });
        // Calls stand together.
        if !(tools && is_tool) {
            rows.push(Row::default());
        }
        tools = is_tool;
        rows.extend(number(line).map(|it| Row::new(it, Style::DIM)));
        rows.extend(said_before(&line.message, look));
    }
    rows
}

fn plain(about: &Conversation, said: &[Line]) -> String {
    let mut text = format!("{}\n{}\n", about.title, head(about));
    let mut tools = false;
    for line in said {
        let is_tool = matches!(line.message, Message::Tool { .. });
        if !(tools && is_tool) {
            text.push('\n');
        }
        tools = is_tool;
        if let Some(number) = number(line) {
            let _ = writeln!(text, "{number}");
        }
        // Writing to a string can't fail.
        let _ = match &line.message {
            Message::Person { text: said, attached } => {
                let attached: String = attached.iter().map(|it| format!("\n  [{it}]")).collect();
                writeln!(text, "> {}{attached}", said.trim_end().replace('\n', "\n  "))
            }
            Message::Model { text: said, cut_off } => {
                let mark = if *cut_off { format!("\n{CUT_OFF}") } else { String::new() };
                writeln!(text, "{}{mark}", said.trim_end())
            }
            Message::Tool { tool, title, ok, exit, line, ms, .. } => {
                let arguments = serde_json::from_str(title).unwrap_or_else(|_| title.clone().into());
                let call = format!("{tool} {}", abbreviate::arguments(&arguments, TITLE));
                let how = abbreviate::how_of_line(*ok, *exit, line);
                let telling = abbreviate::summary(line, *ok, TITLE);
                let telling = if telling.is_empty() { telling } else { format!("\n    {telling}") };
                writeln!(text, "< {}  {how}, {}{telling}", call.trim_end(), abbreviate::ms(*ms))
            }
            Message::Note { text: note } => writeln!(text, "! {note}"),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use expect_test::expect;

    use super::*;

    fn said() -> Vec<Line> {
        let of = |number, turn, value| Line {
            number,
            at_ms: 1_795_000_000_000,
            turn,
            message: serde_json::from_value(value).unwrap(),
        };
        vec![
            of(1, Some(1), json!({"who": "person", "text": "fix it\nnow", "attached": ["@a.py"]})),
            of(
                2,
                None,
                json!({"who": "tool", "tool": "read", "title": "{\"path\":\"a.py\"}", "ok": true, "line": "1:ab|x", "ms": 3.0}),
            ),
            of(
                3,
                None,
                json!({"who": "tool", "tool": "edit", "title": "{\"path\":\"a.py\"}", "ok": false, "line": "stale", "ms": 3.0}),
            ),
            of(4, None, json!({"who": "model", "text": "**Done**."})),
            of(7, Some(2), json!({"who": "person", "text": "thanks"})),
        ]
    }

    fn about() -> Conversation {
        Conversation {
            session: "s_1".to_owned(),
            title: "Fix it".to_owned(),
            begun_ms: 1_795_000_000_000,
            used_ms: 1_795_000_000_000,
            turns: 2,
            found: None,
            archived: true,
            forked_from: Some("s_0".to_owned()),
            forked_at: Some(1),
        }
    }

    /// Replaces times, which differ by the time zone of the machine.
    fn timeless(text: &str) -> String {
        text.replace(&when(1_795_000_000_000), "TIME")
    }

    #[test]
    fn conversation_in_a_pipe_is_plain_text_with_numbered_messages() {
        expect![[r#"
            Fix it
            session s_1, 2 turns, begun TIME, last used TIME, fork of s_0 after message 1, archived

            [1] TIME
            > fix it
              now
              [@a.py]

            < read a.py  ok, 0.0 s
                1 line
            < edit a.py  error, 0.0 s
                stale

            **Done**.

            [2] TIME
            > thanks
        "#]]
        .assert_eq(&timeless(&plain(&about(), &said())));
    }

    #[test]
    fn conversation_at_a_terminal_is_drawn_and_fits_its_columns() {
        for columns in [79, 39] {
            let rows = drawn(&about(), &said(), Look { columns, plain: false });
            assert!(rows.iter().all(|it| it.width() <= columns), "{rows:?}");
        }
        let rows = drawn(&about(), &said(), Look { columns: 79, plain: false });
        let text: String = rows.iter().map(|it| it.text() + "\n").collect();
        expect![[r#"
            Fix it
            session s_1, 2 turns, begun TIME, last used TIME, fork
            of s_0 after message 1, archived

            [1] TIME
            > fix it
              now
              [@a.py]

            ✓ read a.py  0.0 s
                1 line
            ✗ edit a.py  error, 0.0 s
                stale

            Done.

            [2] TIME
            > thanks
        "#]]
        .assert_eq(&timeless(&text));
    }
}

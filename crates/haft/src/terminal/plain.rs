//! How does a person follow an agent where lines are all there is: in a pipe, in a log, with `haft run`?
//!
//! What the model says goes to standard output, and nothing else; what it does goes to standard error, one line when a
//! call starts and one when it ends.

use std::{
    collections::HashMap,
    io::{self, Write},
};

use agent::{Event, Host};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::{diff, letters::Letters, row::harmless, short};
use crate::{ask, print};

/// So much of a call is told.
const TITLE: usize = 100;

/// Standard output, of which the reader may go away.
pub(crate) struct Out {
    /// Cancelled when nobody reads any more.
    gone: CancellationToken,
}

impl Out {
    pub(crate) fn new(gone: CancellationToken) -> Self {
        Self { gone }
    }

    /// Writes a text as it is. Without a reader there is nobody to work for: that is given to whoever does.
    pub(crate) fn write(&self, text: &str) {
        let mut out = io::stdout().lock();
        if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() && !self.gone.is_cancelled() {
            self.gone.cancel();
            print::err("haft: standard output is closed, so this stops here");
        }
    }
}

/// Tells what happens in lines.
pub(crate) struct Plain {
    out: Out,
    /// What the agent does goes to standard output, too.
    together: bool,
    state: Mutex<Lines>,
}

/// What was told, and what is to be told once it can be.
#[derive(Default)]
struct Lines {
    letters: Letters,
    /// The text of the model that was written last has no end of line.
    open: bool,
    titles: HashMap<String, String>,
    /// What came while the person was asked at this terminal.
    held: Vec<Told>,
}

/// A piece of what is told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// To standard output, as it is.
    Said(String),
    /// To standard error, a line.
    Did(String),
}

impl Plain {
    pub(crate) fn new(out: Out) -> Self {
        Self { out, together: false, state: Mutex::default() }
    }

    /// All of it goes to standard output, in its order.
    pub(crate) fn together(out: Out) -> Self {
        Self { out, together: true, state: Mutex::default() }
    }

    /// Nothing of this turn comes any more.
    pub(crate) fn end(&self) {
        let mut state = self.state.lock();
        let mut told = std::mem::take(&mut state.held);
        told.extend(state.end_text());
        drop(state);
        self.tell(told);
    }

    fn tell(&self, told: Vec<Told>) {
        for it in told {
            match it {
                Told::Said(text) => self.out.write(&text),
                Told::Did(line) if self.together => self.out.write(&format!("{line}\n")),
                Told::Did(line) => print::err(&line),
            }
        }
    }
}

impl Host for Plain {
    fn hear(&self, event: Event) {
        let mut state = self.state.lock();
        let told = state.hear(&event, "");
        state.held.extend(told);
        // A question is not pulled apart by what goes on meanwhile.
        let told = if ask::is_asking() { Vec::new() } else { std::mem::take(&mut state.held) };
        drop(state);
        self.tell(told);
    }
}

impl Lines {
    fn hear(&mut self, event: &Event, under: &str) -> Vec<Told> {
        let mut told = Vec::new();
        let mut diffs = Vec::new();
        let line = match event {
            Event::Text { text } if under.is_empty() => {
                let shown = self.letters.push(text);
                if !shown.is_empty() {
                    self.open = !shown.ends_with('\n');
                    told.push(Told::Said(shown));
                }
                return told;
            }
            Event::Called { call, tool, arguments } => {
                let title = format!("{under}{tool} {}", short::arguments(arguments, TITLE));
                let line = format!("> {}", title.trim_end());
                self.titles.insert(call.clone(), title.trim_end().to_owned());
                line
            }
            Event::Answered { call, tool, ok, exit, ms, text, pictures, changes, .. } => {
                let title = self.titles.remove(call).unwrap_or_else(|| format!("{under}{tool}"));
                let how = short::how(*ok, *exit);
                let telling = short::telling(text, &how, TITLE);
                let telling = if telling.is_empty() { telling } else { format!(": {telling}") };
                let pictures: String =
                    pictures.iter().map(|it| format!("; picture {} ({})", it.handle, it.mime)).collect();
                diffs =
                    diff::plain(changes, 4, diff::SHOWN, &format!("haft log --diff --call {call} shows all"));
                format!("< {title}: {how}, {}{telling}{pictures}", short::ms(*ms))
            }
            Event::Picture { tool, picture } => {
                format!(
                    "< {under}{tool}: picture {} ({}, {} bytes)",
                    picture.handle, picture.mime, picture.bytes
                )
            }
            Event::Again { why, seconds } => format!("! {under}{why}; again in {seconds:.1} s"),
            Event::Note { text } => format!("! {under}{text}"),
            Event::Used { .. } if under.is_empty() => return self.end_text(),
            Event::Under { agent, inner } => return self.hear(inner, &format!("{under}{agent}: ")),
            _ => return told,
        };
        told.extend(self.end_text());
        told.push(Told::Did(harmless(&line)));
        told.extend(diffs.into_iter().map(Told::Did));
        told
    }

    /// The text is over: what comes next begins a line.
    fn end_text(&mut self) -> Vec<Told> {
        let mut rest = self.letters.end();
        if !rest.is_empty() || self.open {
            rest.push('\n');
        }
        self.open = false;
        if rest.is_empty() { Vec::new() } else { vec![Told::Said(rest)] }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_said_and_what_is_done_are_told_apart_and_line_by_line() {
        let mut lines = Lines::default();
        let text = |text: &str| Event::Text { text: text.to_owned() };
        let called = Event::Called {
            call: "c".into(),
            tool: "shell".into(),
            arguments: json!({"command": "make\u{1b}[2J"}),
        };
        let answered = Event::Answered {
            call: "c".into(),
            tool: "shell".into(),
            ok: false,
            fault: None,
            exit: None,
            ms: 1200.0,
            text: "no such\n".into(),
            pictures: Vec::new(),
            changes: Vec::new(),
        };
        let under = Event::Under { agent: "explore_1".into(), inner: Box::new(text("not told")) };
        let events = [text("I ru"), text("n it."), called, under, answered, text("Done\n")];
        let mut told: Vec<Told> = events.iter().flat_map(|it| lines.hear(it, "")).collect();
        told.extend(lines.end_text());
        let said = |it: &str| Told::Said(it.to_owned());
        let did = |it: &str| Told::Did(it.to_owned());
        assert_eq!(
            told,
            [
                said("I ru"),
                said("n it."),
                said("\n"),
                did("> shell make\\u{1b}[2J"),
                did("< shell make\\u{1b}[2J: error, 1.2 s: no such"),
                said("Done\n"),
            ]
        );
    }
}

//! Plain output: shows an agent in lines, for pipes, logs and terminals that can only print.
//!
//! Only the model's text goes to standard output. Its actions go to standard error: one line when a call ends, and one before
//! that for a call that runs for long.

use std::{
    collections::HashMap,
    io::{self, IsTerminal, Write},
    os::fd::AsFd,
    sync::Arc,
    time::Duration,
};

use agent::{Event, Observer};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::{
    abbreviate, checklist, diff,
    letters::Letters,
    row::{Row, Style, harmless},
    view::title,
};
use crate::{ask, print};

/// Maximum length of the title of a call, in letters.
const TITLE: usize = 240;

/// Maximum length of the result of a call, in letters.
const TELLING: usize = 240;

/// A call that runs for this long gets a line before it ends.
const LONG: Duration = Duration::from_secs(5);

/// Standard output, whose reader may close it.
pub(crate) struct Out {
    /// Cancelled when the reader has closed it.
    gone: CancellationToken,
}

impl Out {
    pub(crate) fn new(gone: CancellationToken) -> Self {
        Self { gone }
    }

    /// Writes a text as it is. Without a reader it cancels the token, so that the work stops.
    pub(crate) fn write(&self, text: &str) {
        let mut out = io::stdout().lock();
        if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() && !self.gone.is_cancelled() {
            self.gone.cancel();
            print::err("haft: standard output is closed, so this stops here");
        }
    }
}

/// Shows events as lines.
pub(crate) struct Plain {
    inner: Arc<Inner>,
}

struct Inner {
    out: Out,
    /// The lines about actions go to standard output, too.
    together: bool,
    state: Mutex<Lines>,
}

/// The state of the output, and the pieces that wait to be written.
#[derive(Default)]
struct Lines {
    /// Only actions are shown, and not the model's text.
    only_calls: bool,
    /// The calls run on another machine, whose journal is not here.
    elsewhere: bool,
    letters: Letters,
    /// The last text of the model does not end with a line break.
    open: bool,
    /// The titles of the running calls.
    titles: HashMap<String, String>,
    /// Pieces that arrived while a question was open at this terminal.
    held: Vec<Piece>,
}

/// A piece of output.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Text for standard output, as it is.
    Text(String),
    /// A line for standard error.
    Action(String),
}

impl Plain {
    pub(crate) fn new(out: Out) -> Self {
        Self::of(out, false, false)
    }

    /// Creates an output of calls that run on another machine.
    pub(crate) fn of_another_machine(out: Out, only_calls: bool) -> Self {
        let it = Self::of(out, false, only_calls);
        it.inner.state.lock().elsewhere = true;
        it
    }

    /// Creates an output that leaves out the model's text.
    pub(crate) fn of_calls(out: Out) -> Self {
        Self::of(out, false, true)
    }

    /// Creates an output that writes everything to standard output, in order.
    pub(crate) fn together(out: Out) -> Self {
        Self::of(out, true, false)
    }

    fn of(out: Out, together: bool, only_calls: bool) -> Self {
        let state = Mutex::new(Lines { only_calls, ..Lines::default() });
        Self { inner: Arc::new(Inner { out, together, state }) }
    }

    /// Leaves out the model's text from now on.
    pub(crate) fn only_calls(&self) {
        self.inner.state.lock().only_calls = true;
    }

    /// Shows the person a text, on standard output.
    pub(crate) fn show(&self, text: &str) {
        self.inner.update(|state| {
            let mut pieces = state.end_text();
            pieces.push(Piece::Text(text.lines().map(|it| format!("{}\n", ask::shown(it))).collect()));
            pieces
        });
    }

    /// Ends the turn: writes the remaining pieces.
    pub(crate) fn end(&self) {
        let mut state = self.inner.state.lock();
        let mut pieces = std::mem::take(&mut state.held);
        pieces.extend(state.end_text());
        state.titles.clear();
        drop(state);
        self.inner.write(pieces);
    }
}

impl Inner {
    /// Writes the pieces that `what` derives from the state. While a question is open, it holds them back, so that they do
    /// not interrupt it.
    fn update(&self, what: impl FnOnce(&mut Lines) -> Vec<Piece>) {
        let mut state = self.state.lock();
        let pieces = what(&mut state);
        state.held.extend(pieces);
        let pieces = if ask::is_asking() { Vec::new() } else { std::mem::take(&mut state.held) };
        drop(state);
        self.write(pieces);
    }

    fn write(&self, pieces: Vec<Piece>) {
        // Queried each time, as a terminal may be resized.
        let columns = if self.together { columns(&io::stdout()) } else { columns(&io::stderr()) };
        for it in pieces {
            match it {
                Piece::Text(text) => self.out.write(&text),
                Piece::Action(line) if self.together => {
                    self.out.write(&format!("{}\n", wrapped(&line, columns)));
                }
                Piece::Action(line) => print::err(&wrapped(&line, columns)),
            }
        }
    }
}

impl Observer for Plain {
    fn observe(&self, event: Event) {
        self.inner.update(|state| state.observe(&event, ""));
        if let Some(call) = begun(&event)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let (inner, call) = (Arc::downgrade(&self.inner), call.to_owned());
            runtime.spawn(async move {
                tokio::time::sleep(LONG).await;
                if let Some(inner) = inner.upgrade() {
                    inner.update(|state| state.still_runs(&call));
                }
            });
        }
    }
}

/// Returns the id of the call that begins with this event.
fn begun(event: &Event) -> Option<&str> {
    match event {
        Event::Called { call, .. } => Some(call),
        Event::Under { inner, .. } => begun(inner),
        _ => None,
    }
}

/// Returns the width of a stream in columns, if it is a terminal.
fn columns(to: &(impl IsTerminal + AsFd)) -> Option<usize> {
    let size = if to.is_terminal() { rustix::termios::tcgetwinsize(to).ok() } else { None };
    size.map(|it| usize::from(it.ws_col)).filter(|it| *it > 0)
}

/// Wraps a line between words at the width of the terminal. Without one, it stays one line.
fn wrapped(line: &str, columns: Option<usize>) -> String {
    let Some(columns) = columns else { return line.to_owned() };
    let rows = Row::new(line, Style::PLAIN).wrapped(columns, 4);
    rows.iter().map(|it| it.painted(false)).collect::<Vec<_>>().join("\n")
}

impl Lines {
    fn observe(&mut self, event: &Event, under: &str) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut below = Vec::new();
        let line = match event {
            Event::Text { .. } if self.only_calls => return pieces,
            Event::Text { text } if under.is_empty() => {
                let shown = self.letters.push(text);
                if !shown.is_empty() {
                    self.open = !shown.ends_with('\n');
                    pieces.push(Piece::Text(shown));
                }
                return pieces;
            }
            Event::Called { call, tool, arguments } => {
                let title = abbreviate::line(&format!("{under}{}", title(tool, arguments)), TITLE);
                self.titles.insert(call.clone(), title);
                return pieces;
            }
            Event::Answered { call, tool, ok, fault, exit, ms, text, pictures, changes, links } => {
                let title = self.titles.remove(call).unwrap_or_else(|| format!("{under}{tool}"));
                let how = abbreviate::how(*ok, *exit, *fault);
                let is_list = how == "ok" && checklist::is_list(tool);
                let telling = match is_list {
                    true => checklist::summary(&checklist::read(text)),
                    // The diff shows the changes of the files, but not what a command printed.
                    false if *ok && !changes.is_empty() && exit.is_none() && tool != "python" => {
                        String::new()
                    }
                    false => abbreviate::summary(text, *ok, TELLING),
                };
                let telling = if telling.is_empty() { telling } else { format!(": {telling}") };
                let pictures: String =
                    pictures.iter().map(|it| format!("; picture {} ({})", it.handle, it.mime)).collect();
                let hint = if self.elsewhere {
                    "haft log --diff shows all once it has landed".to_owned()
                } else {
                    format!("haft log --diff --call {call} shows all")
                };
                below = diff::plain(changes, 4, diff::SHOWN, &hint);
                // Links are listed even if the answer is shortened, so that the person can open them.
                below.extend(links.iter().map(|it| harmless(&format!("    {it}"))));
                if is_list {
                    below.extend(checklist::read(text).iter().map(|it| format!("    {}", it.plain())));
                }
                format!("< {title}: {how}, {}{telling}{pictures}", abbreviate::ms(*ms))
            }
            Event::Picture { tool, picture } => {
                let size = abbreviate::size(picture.bytes);
                format!("< {under}{tool}: picture {} ({}, {size})", picture.handle, picture.mime)
            }
            Event::Again { why, seconds } => format!("! {under}{why}; retrying in {seconds:.0} s"),
            Event::Note { text } => format!("! {under}{text}"),
            // The end of a job was shown when it ended.
            Event::MessageShown { source, .. } if source == "job" => return pieces,
            Event::MessageShown { from, channel, text, .. } => {
                format!("! {under}{}", abbreviate::message(from, channel.as_deref(), text))
            }
            Event::Waits { jobs, seconds } => format!("! {under}{}", abbreviate::waits(jobs, *seconds)),
            Event::Used { .. } if under.is_empty() => return self.end_text(),
            Event::Under { agent, inner } => return self.observe(inner, &format!("{under}{agent}: ")),
            _ => return pieces,
        };
        pieces.extend(self.end_text());
        pieces.push(Piece::Action(harmless(&line)));
        pieces.extend(below.into_iter().map(Piece::Action));
        pieces
    }

    /// Returns the line about a call that runs for long, unless it is over by now.
    fn still_runs(&mut self, call: &str) -> Vec<Piece> {
        let Some(title) = self.titles.get(call) else { return Vec::new() };
        let line = harmless(&format!("> {title} (still running)"));
        let mut pieces = self.end_text();
        pieces.push(Piece::Action(line));
        pieces
    }

    /// Ends the text of the model: the next piece begins a line.
    fn end_text(&mut self) -> Vec<Piece> {
        let mut rest = self.letters.end();
        if !rest.is_empty() || self.open {
            rest.push('\n');
        }
        self.open = false;
        if rest.is_empty() { Vec::new() } else { vec![Piece::Text(rest)] }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_and_actions_are_separate_pieces_each_on_its_own_lines() {
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
            links: Vec::new(),
        };
        let under = Event::Under { agent: "explore_1".into(), inner: Box::new(text("not told")) };
        let events = [text("I ru"), text("n it."), called, under, answered, text("Done\n")];
        let mut pieces: Vec<Piece> = events.iter().flat_map(|it| lines.observe(it, "")).collect();
        pieces.extend(lines.end_text());
        let said = |it: &str| Piece::Text(it.to_owned());
        let did = |it: &str| Piece::Action(it.to_owned());
        assert_eq!(
            pieces,
            [
                said("I ru"),
                said("n it."),
                said("\n"),
                did("< shell make\\u{1b}[2J: error, 1.2 s: no such"),
                said("Done\n"),
            ]
        );
    }

    #[test]
    fn a_call_that_runs_for_long_is_shown_before_it_ends() {
        let mut lines = Lines::default();
        let called = |call: &str| Event::Called {
            call: call.to_owned(),
            tool: "shell".to_owned(),
            arguments: json!({"command": format!("make {call}")}),
        };
        let under = Event::Under { agent: "explore_1".to_owned(), inner: Box::new(called("b")) };
        for event in [called("a"), under.clone()] {
            assert_eq!(lines.observe(&event, ""), []);
        }
        assert_eq!((begun(&called("a")), begun(&under)), (Some("a"), Some("b")));
        assert_eq!(lines.still_runs("a"), [Piece::Action("> shell make a (still running)".to_owned())]);
        assert_eq!(
            lines.still_runs("b"),
            [Piece::Action("> explore_1: shell make b (still running)".to_owned())]
        );
        assert_eq!(lines.still_runs("c"), [], "it is over");
    }

    #[test]
    fn a_line_is_cut_between_words_at_a_terminal_and_nowhere_else() {
        let line = "< shell pytest tests/test_inflection.py in src: exit 1, 0.7 s";
        assert_eq!(wrapped(line, None), line);
        assert_eq!(
            wrapped(line, Some(32)),
            "< shell pytest\n    tests/test_inflection.py in\n    src: exit 1, 0.7 s"
        );
    }

    #[test]
    fn text_of_the_model_is_left_out_where_only_calls_are_shown() {
        let mut lines = Lines { only_calls: true, ..Lines::default() };
        assert_eq!(lines.observe(&Event::Text { text: "I look.".to_owned() }, ""), []);
        assert_eq!(lines.end_text(), []);
    }
}

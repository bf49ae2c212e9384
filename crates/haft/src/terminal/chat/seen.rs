//! Session events for a terminal: those of the agent, its questions, and the events around them.

use std::time::{Duration, Instant};

use agent::{Event, Message};
use sessions::Job;

use super::{
    super::{
        abbreviate,
        asking::Asked,
        input::InputEvent,
        input_line::Entry,
        picker::{Item, Picked, Picker},
        row::{Row, Style, harmless},
        source::Source,
        view::Drawn,
    },
    Front,
};

/// An event that a terminal shows.
pub(crate) enum Seen {
    /// An event of the agent.
    Event(Event),
    /// A turn began; with the message that somebody elsewhere sent, and its sender.
    Began(Option<(String, String)>),
    /// A turn ended; with a remark about its end.
    Ended(Option<String>),
    /// A permanent line.
    Line(String, Style),
    /// The end of a command that the person here ran: its output is shown whole.
    Whole(Event),
    /// A text that a call shows the person.
    Text(String),
    /// A background job ended, or waits for input.
    Job(Job),
    /// A line that is put at the prompt, to be changed and sent.
    Typed(String),
    /// A question for the person.
    Asks(Box<Asked>),
    /// The open question was settled elsewhere: by whom, and how.
    Settled(String),
}

impl Front {
    /// Switches to a session that another process runs, or may run.
    pub(crate) fn attach(&mut self, source: Source) {
        self.is_attached = true;
        self.source = Some(source);
    }

    /// Shows a part of an earlier conversation.
    pub(crate) fn show_messages(&mut self, said: &[Message]) {
        let rows = super::super::view::rows_before(said, self.look());
        self.show(&rows);
    }

    /// Has the person choose from a list; returns `None` if they choose nothing. Events that arrive meanwhile are shown
    /// afterwards.
    pub(crate) async fn pick(&mut self, title: &str, items: Vec<Item>) -> Option<usize> {
        let mut picker = Picker::new(title, items);
        let chosen = loop {
            let rows = picker.rows(self.screen.columns(), self.screen.lines());
            self.screen.draw_full(rows);
            if self.screen.is_gone() {
                break None;
            }
            let event = tokio::select! {
                () = self.hangup.cancelled() => break None,
                event = self.input.next() => event,
            };
            match event {
                InputEvent::Key(key) => match picker.key(key) {
                    Picked::Stays => {}
                    Picked::Chosen(at) => break Some(at),
                    Picked::Leaves => break None,
                },
                InputEvent::Paste(text) => picker.paste(&text),
                InputEvent::Resized(columns, lines) => self.screen.resized(columns, lines),
                InputEvent::End => {
                    self.hangup.cancel();
                    break None;
                }
            }
        };
        self.screen.leave_full();
        chosen
    }

    /// Applies an event.
    pub(super) fn see(&mut self, seen: Seen) {
        match seen {
            Seen::Event(event) => self.observe(&event),
            Seen::Began(said) => {
                if let Some((text, by)) = said.filter(|it| !it.0.trim().is_empty()) {
                    let text = format!("> {}  ({by})", text.trim_end().replace('\n', "\n  "));
                    self.line(&text, Style::BOLD);
                }
                self.is_busy = true;
                self.attention.works(&mut self.screen);
                self.view.begin(Instant::now(), None);
            }
            Seen::Ended(how) => {
                self.is_busy = false;
                self.attention.done(&mut self.screen);
                let rest = self.view.end(self.look());
                self.held.extend(rest);
                if let Some(how) = how {
                    self.line(&how, Style::ASKS);
                }
                self.held.push(Drawn::Row(Row::default()));
            }
            Seen::Line(text, style) => self.line(&text, style),
            Seen::Whole(event) => {
                self.view.shows_whole();
                self.observe(&event);
                self.view.shows_summaries();
                let text = if let Event::Answered { text, .. } = &event { text.trim_end() } else { "" };
                self.line(if text.is_empty() { "(no output)" } else { text }, Style::PLAIN);
                self.held.push(Drawn::Row(Row::default()));
            }
            Seen::Text(text) => {
                let columns = self.columns();
                let rows =
                    text.lines().flat_map(|it| Row::new(harmless(it), Style::PLAIN).wrapped(columns, 4));
                self.held.extend(rows.map(Drawn::Row));
            }
            Seen::Job(job) => {
                let row = job_row(&job);
                let rows = row.wrapped(self.columns(), 4);
                self.held.extend(rows.into_iter().map(Drawn::Row));
            }
            Seen::Typed(text) => self.put(&Entry::new(text)),
            Seen::Asks(asked) => self.waiting.push_back(*asked),
            Seen::Settled(how) => self.settled = Some(how),
        }
    }

    fn line(&mut self, text: &str, style: Style) {
        let rows = Row::new(text.trim_end(), style).lines(self.columns());
        self.held.extend(rows.into_iter().map(Drawn::Row));
    }
}

/// Returns the row about a job that ended or waits for input.
fn job_row(job: &Job) -> Row {
    let name = if job.title.is_empty() { &job.tool } else { &job.title };
    let exit = job.exit.map_or_else(String::new, |it| format!(", exit {it}"));
    let telling = abbreviate::summary(&job.tail, true, 80);
    let telling = if telling.is_empty() { telling } else { format!(": {telling}") };
    let bad = job.state == "error" || job.exit.is_some_and(|it| it != 0);
    let took = abbreviate::took(Duration::from_millis(job.ms));
    let text = format!("{} ({}) {}{exit}, {took}{telling}", job.job, abbreviate::line(name, 60), job.state);
    Row::new("* ", if bad { Style::BAD } else { Style::GOOD }).with(harmless(&text), Style::PLAIN)
}

//! How do a person and an agent take turns at one terminal?
//!
//! Whatever is seen or typed goes through here: events of the agent, questions, ends of jobs, keys. Nothing of it waits
//! for anything else: while a question stands, what the agent does goes on, and is shown once it is answered.

use std::{
    collections::{HashMap, VecDeque},
    future::Future,
    io,
    path::PathBuf,
    time::{Duration, Instant},
};

use agent::{Event, Host};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use runtime::Session;
use tokio::{
    sync::{
        broadcast,
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    },
    time::{Interval, MissedTickBehavior},
};
use tokio_util::sync::CancellationToken;

use super::{
    asking::Asked,
    complete::Words,
    dialog::{Dialog, Pressed},
    input::{Heard, Input},
    line::{Came, Line},
    picture::{self, Protocol},
    remembered::Remembered,
    row::{Row, Style, harmless},
    screen::{Live, Screen},
    short,
    view::{Drawn, View},
};

/// How often what is in motion is drawn anew.
const MOVES: Duration = Duration::from_millis(100);

/// Of what a call wrote, so much is looked at for its last line.
const LAST: usize = 512;

/// A question waits until whoever types has paused for so long: the next key of their line is no answer to it.
const PAUSE: Duration = Duration::from_millis(700);

/// So many lines of what is typed are seen at once.
const LINES: usize = 12;

/// How the terminal is to be.
pub(crate) struct Settings {
    /// Where what was typed is remembered.
    pub(crate) history: PathBuf,
    pub(crate) workspace: PathBuf,
    pub(crate) colours: bool,
    /// The person may type; otherwise they watch, answer questions and stop it.
    pub(crate) prompt: bool,
}

/// The terminal, with a person before it.
pub(crate) struct Front {
    screen: Screen,
    input: Input,
    view: View,
    pictures: Option<Protocol>,
    events: UnboundedReceiver<Event>,
    asked: UnboundedReceiver<Asked>,
    waiting: VecDeque<Asked>,
    dialog: Option<Dialog>,
    line: Line,
    /// Whether there is a line to type in.
    prompt: bool,
    /// When the last key came.
    typed: Option<Instant>,
    /// Somebody has the turn.
    is_busy: bool,
    /// What was said and is still to be taken up.
    said: VecDeque<Said>,
    /// What happened while a question stood.
    held: Vec<Drawn>,
    session: Option<Session>,
    jobs: Option<broadcast::Receiver<runtime::Event>>,
    /// Somebody ended the chat from outside.
    hangup: CancellationToken,
}

/// What the person said at the prompt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Line(String),
    /// They want to go.
    End,
}

/// Passes what an agent does on to whoever draws it.
pub(crate) struct Passes(UnboundedSender<Event>);

impl Host for Passes {
    fn hear(&self, event: Event) {
        // Whoever drew it may be gone.
        let _ = self.0.send(event);
    }
}

impl Front {
    /// Takes the terminal.
    ///
    /// # Errors
    /// When it is none.
    pub(crate) fn new(
        settings: Settings,
        asked: UnboundedReceiver<Asked>,
        variables: &[(String, String)],
        hangup: CancellationToken,
    ) -> io::Result<(Self, Passes)> {
        let (pass, events) = unbounded_channel();
        let front = Self {
            screen: Screen::new(settings.colours),
            input: Input::start()?,
            view: View::default(),
            pictures: picture::protocol(variables),
            events,
            asked,
            waiting: VecDeque::new(),
            dialog: None,
            prompt: settings.prompt,
            line: Line::new(Remembered::open(&settings.history), Words::new(settings.workspace)),
            typed: None,
            is_busy: false,
            said: VecDeque::new(),
            held: Vec::new(),
            session: None,
            jobs: None,
            hangup,
        };
        Ok((front, Passes(pass)))
    }

    /// From now on it is this conversation.
    pub(crate) fn follow(&mut self, session: &Session) {
        self.jobs = Some(session.events());
        self.session = Some(session.clone());
    }

    /// How many columns a line may take.
    pub(crate) fn columns(&self) -> usize {
        self.screen.columns()
    }

    /// Shows these lines, which stay.
    pub(crate) fn show(&mut self, rows: &[Row]) {
        self.screen.draw(rows, Vec::new());
    }

    /// Shows a text that is no one's own: it may have several lines.
    pub(crate) fn tell(&mut self, text: &str, style: Style) {
        let rows = Row::new(text.trim_end(), style).lines(self.columns());
        self.show(&rows);
    }

    /// The person said this before there was a prompt: on the command line.
    pub(crate) fn says_first(&mut self, words: String) {
        if !words.trim().is_empty() {
            self.said.push_front(Said::Line(words));
        }
    }

    /// What the person says next. What they said already while the agent had the turn comes first.
    pub(crate) async fn prompt(&mut self) -> Said {
        let mut moves = moves();
        loop {
            if self.hangup.is_cancelled() || self.screen.is_gone() {
                return Said::End;
            }
            if self.dialog.is_none()
                && let Some(said) = self.said.pop_front()
            {
                self.flush();
                if let Said::Line(line) = &said
                    && !line.trim().is_empty()
                {
                    let text = format!("> {}", line.trim_end().replace('\n', "\n  "));
                    self.tell(&text, Style::BOLD);
                }
                self.screen.draw(&[], Vec::new());
                return said;
            }
            self.next_dialog();
            self.draw();
            // While no agent has the turn, what is stopped is the question.
            let cancel = CancellationToken::new();
            self.happens(&mut moves, &cancel).await;
            if cancel.is_cancelled() {
                self.drop_dialogs();
            }
        }
    }

    /// Draws what happens until `work` is done. Esc and Ctrl-C give `cancel`; so does whoever ends the chat from outside.
    pub(crate) async fn attend<T>(&mut self, work: impl Future<Output = T>, cancel: &CancellationToken) -> T {
        tokio::pin!(work);
        let mut moves = moves();
        self.is_busy = true;
        let done = loop {
            self.next_dialog();
            self.draw();
            tokio::select! {
                done = &mut work => break done,
                () = self.happens(&mut moves, cancel) => {}
            }
        };
        self.is_busy = false;
        // What it told last is there by now.
        while let Ok(event) = self.events.try_recv() {
            self.hear(&event);
        }
        if cancel.is_cancelled() {
            self.drop_dialogs();
            self.take_back();
        }
        let rest = self.view.end(self.columns());
        self.held.extend(rest);
        if self.dialog.is_none() {
            self.flush();
        }
        done
    }

    /// Takes the next thing that happens, and what came with it.
    async fn happens(&mut self, moves: &mut Interval, cancel: &CancellationToken) {
        tokio::select! {
            () = self.hangup.cancelled(), if !cancel.is_cancelled() => cancel.cancel(),
            Some(event) = self.events.recv() => self.hear(&event),
            Some(asked) = self.asked.recv() => self.waiting.push_back(asked),
            heard = self.input.next() => self.typed(heard, cancel),
            event = next_job(&mut self.jobs) => {
                let rows = job_line(&event).wrapped(self.columns(), 4);
                self.held.extend(rows.into_iter().map(Drawn::Row));
            },
            _ = moves.tick() => {}
        }
        // Much that comes at once is drawn once.
        while !cancel.is_cancelled()
            && let Some(heard) = self.input.next_now()
        {
            self.typed(heard, cancel);
        }
        while let Ok(event) = self.events.try_recv() {
            self.hear(&event);
        }
        if self.screen.is_gone() {
            cancel.cancel();
        }
    }

    fn hear(&mut self, event: &Event) {
        let columns = self.columns();
        self.held.extend(self.view.hear(event, Instant::now(), columns));
    }

    fn typed(&mut self, heard: Heard, cancel: &CancellationToken) {
        match heard {
            Heard::Key(key) if is_stop(key) => {
                cancel.cancel();
                self.stopped(key);
            }
            Heard::Key(key) => match self.dialog.take() {
                Some(dialog) => {
                    let asks = dialog.asks().map(|(call, since)| (call.to_owned(), since));
                    match dialog.key(key, self.columns()) {
                        Pressed::Answered(said) => {
                            if let Some((call, since)) = asks {
                                self.view.asked(&call, since.elapsed());
                            }
                            self.show(&said.wrapped(self.columns(), 2));
                        }
                        Pressed::Stands(dialog, rows) => {
                            self.dialog = Some(*dialog);
                            self.show(&rows);
                        }
                    }
                }
                None if self.prompt => self.key(key),
                None => {}
            },
            Heard::Paste(text) => match &mut self.dialog {
                Some(dialog) => dialog.paste(&text),
                None if !self.prompt => {}
                None => {
                    self.typed = Some(Instant::now());
                    self.line.paste(&text);
                }
            },
            Heard::Resized(columns, lines) => self.screen.resized(columns, lines),
            Heard::End => {
                self.hangup.cancel();
                cancel.cancel();
            }
        }
    }

    /// A key for the line. A line that is done waits until it can be taken up.
    fn key(&mut self, key: KeyEvent) {
        self.typed = Some(Instant::now());
        match self.line.key(key) {
            Came::Nothing => {}
            Came::Line(line) => {
                self.typed = None;
                self.said.push_back(Said::Line(line));
            }
            Came::End => self.said.push_back(Said::End),
            Came::Wipe => self.screen.wipe(),
        }
    }

    /// Besides what it stops, Ctrl-C at the prompt clears the line.
    fn stopped(&mut self, key: KeyEvent) {
        if self.dialog.is_none() && !self.is_busy && key.modifiers.contains(KeyModifiers::CONTROL) {
            self.line.clear();
        } else if key.code != KeyCode::Esc && key.modifiers.contains(KeyModifiers::ALT) {
            // Esc and the next key came at once.
            self.key(KeyEvent::new(key.code, key.modifiers - KeyModifiers::ALT));
        }
    }

    /// What was said for after a turn that was stopped is typed again: it may not be meant any more.
    fn take_back(&mut self) {
        let lines: Vec<String> = self
            .said
            .drain(..)
            .filter_map(|it| match it {
                Said::Line(line) => Some(line).filter(|it| !it.trim().is_empty()),
                Said::End => None,
            })
            .collect();
        if !lines.is_empty() {
            self.line.begin_with(&lines.join("\n"));
        }
    }

    /// Puts up the next question, when none stands.
    fn next_dialog(&mut self) {
        if self.dialog.as_ref().is_some_and(Dialog::is_taken_back) {
            self.dialog = None;
            self.show(&[Row::new("(taken back)", Style::DIM)]);
        }
        let is_typing = !self.line.is_empty() && self.typed.is_some_and(|it| it.elapsed() < PAUSE);
        while self.dialog.is_none() && !is_typing {
            let Some(asked) = self.waiting.pop_front() else { return };
            if asked.is_taken_back() {
                continue;
            }
            self.flush();
            let dialog = Dialog::new(asked);
            let rows = dialog.rows(self.columns());
            self.show(&rows);
            self.dialog = Some(dialog);
        }
    }

    /// Nobody is asked any more.
    fn drop_dialogs(&mut self) {
        if self.dialog.take().is_some() {
            self.show(&[Row::new("(taken back)", Style::DIM)]);
        }
        self.waiting.clear();
    }

    fn draw(&mut self) {
        if let Some(dialog) = &self.dialog {
            let live = dialog.live(self.columns());
            self.screen.draw(&[], live);
            return;
        }
        self.flush();
        let columns = self.columns();
        let mut rows = self.view.live(Instant::now(), columns, &self.written());
        for it in &self.said {
            if let Said::Line(line) = it {
                rows.push(Row::new(format!("> {}  (next)", harmless(line)), Style::DIM).cut(columns));
            }
        }
        if !self.prompt {
            self.screen.draw(&[], rows);
            return;
        }
        let Live { rows: line, cursor } = self.line.live(columns, (self.screen.lines() / 2).min(LINES));
        let cursor = cursor.map(|(row, column)| (row + rows.len(), column));
        rows.extend(line);
        self.screen.draw(&[], Live { rows, cursor });
    }

    /// Draws what stays.
    fn flush(&mut self) {
        let mut rows = Vec::new();
        for drawn in std::mem::take(&mut self.held) {
            match drawn {
                Drawn::Row(row) => rows.push(row),
                Drawn::Picture(picture) => {
                    self.screen.draw(&rows, Vec::new());
                    rows.clear();
                    self.picture(&picture);
                }
            }
        }
        if !rows.is_empty() {
            self.screen.draw(&rows, Vec::new());
        }
    }

    /// A picture where the terminal can show one, and where it lies.
    fn picture(&mut self, picture: &agent::Shown) {
        let Some(session) = &self.session else { return };
        let spills = session.runtime().spills();
        let escape = self.pictures.and_then(|protocol| {
            let bytes = spills.read(session.name(), &picture.handle).ok()?;
            picture::escape(protocol, &picture.mime, &bytes)
        });
        let place = spills.path(session.name(), &picture.handle);
        if let Some(escape) = escape {
            self.screen.picture(&escape);
        }
        let place = place.map_or_else(|_| String::new(), |it| format!(": {}", it.display()));
        let size = short::count(picture.bytes as u64);
        self.tell(&format!("picture {} ({}, {size} bytes){place}", picture.handle, picture.mime), Style::DIM);
    }

    /// The last line of what each call wrote that runs.
    fn written(&self) -> HashMap<String, String> {
        let Some(session) = &self.session else { return HashMap::new() };
        let line = |call: &str| {
            let text = session.written(call)?.tail(LAST).text;
            let line = text.lines().rfind(|it| !it.trim().is_empty())?;
            Some((call.to_owned(), line.trim().to_owned()))
        };
        self.view.calls().filter_map(line).collect()
    }
}

/// When what is in motion is drawn anew.
fn moves() -> Interval {
    let mut moves = tokio::time::interval(MOVES);
    moves.set_missed_tick_behavior(MissedTickBehavior::Skip);
    moves
}

/// Is this Esc or Ctrl-C? Esc with a key right after it comes as that key with Alt.
fn is_stop(key: KeyEvent) -> bool {
    match key.code {
        KeyCode::Esc => true,
        KeyCode::Char('c') if key.modifiers == KeyModifiers::CONTROL => true,
        KeyCode::Char(letter) => {
            key.modifiers.contains(KeyModifiers::ALT) && !matches!(letter, 'b' | 'd' | 'f')
        }
        _ => false,
    }
}

async fn next_job(jobs: &mut Option<broadcast::Receiver<runtime::Event>>) -> runtime::Event {
    while let Some(events) = jobs {
        match events.recv().await {
            Ok(event) => return event,
            Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => *jobs = None,
        }
    }
    std::future::pending().await
}

/// What became of a job.
fn job_line(event: &runtime::Event) -> Row {
    let name = if event.title.is_empty() { &event.tool } else { &event.title };
    let exit = event.exit.map_or_else(String::new, |it| format!(", exit {it}"));
    let took = short::took(event.took);
    let telling = short::telling(&event.tail, &short::how(true, event.exit), 80);
    let telling = if telling.is_empty() { telling } else { format!(": {telling}") };
    let name = short::line(name, 60);
    let bad = event.state == "error" || event.exit.is_some_and(|it| it != 0);
    let style = if bad { Style::BAD } else { Style::GOOD };
    Row::new("* ", style).with(
        harmless(&format!("{} ({name}) {}{exit}, {took}{telling}", event.job, event.state)),
        Style::PLAIN,
    )
}

//! How do a person and an agent take turns at one terminal?
//!
//! Whatever is seen or typed goes through here: events of the agent, questions, ends of jobs, keys. Nothing of it waits
//! for anything else: while a question stands, what the agent does goes on, and is shown once it is answered.

use std::{
    collections::{HashMap, VecDeque},
    future::Future,
    io,
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
    dialog::Dialog,
    input::{Heard, Input, Settings},
    picture::{self, Protocol},
    row::{Row, Style},
    screen::Screen,
    short,
    typed::Typed,
    view::{Drawn, View},
};

/// How often what is in motion is drawn anew.
const MOVES: Duration = Duration::from_millis(100);

/// Of what a call wrote, so much is looked at for its last line.
const LAST: usize = 512;

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
    /// What was typed while the agent had the turn: the next prompt begins with it.
    ahead: Typed,
    /// What happened while a question stood.
    held: Vec<Drawn>,
    session: Option<Session>,
    jobs: Option<broadcast::Receiver<runtime::Event>>,
    /// Somebody ended the chat from outside.
    hangup: CancellationToken,
}

/// What the person said at the prompt.
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
            input: Input::start(settings)?,
            view: View::default(),
            pictures: picture::protocol(variables),
            events,
            asked,
            waiting: VecDeque::new(),
            dialog: None,
            ahead: Typed::default(),
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

    /// Lets the person type a line.
    pub(crate) async fn prompt(&mut self) -> Said {
        let begun = self.ahead.take();
        self.input.want_line(begun);
        loop {
            tokio::select! {
                () = self.hangup.cancelled() => return Said::End,
                heard = self.input.next() => match heard {
                    Heard::Line(line) => return Said::Line(line),
                    Heard::End => return Said::End,
                    Heard::Cleared => self.input.want_line(String::new()),
                    Heard::Broken(typed) => {
                        // Keys that came before the prompt stood are the beginning of the line.
                        let typed = format!("{}{typed}", self.ahead.take());
                        self.between(&typed).await;
                        if self.screen.is_gone() {
                            return Said::End;
                        }
                        self.input.want_line(typed);
                    }
                    Heard::Resized(columns, lines) => self.screen.resized(columns, lines),
                    Heard::Key(key) => {
                        if key.code != KeyCode::Enter {
                            self.ahead.key(key);
                            self.input.take_prompt();
                        }
                    }
                    Heard::Paste(text) => {
                        self.ahead.paste(&text);
                        self.input.take_prompt();
                    }
                },
                Some(asked) = self.asked.recv() => {
                    self.waiting.push_back(asked);
                    self.input.take_prompt();
                }
                Some(event) = self.events.recv() => {
                    self.hear(&event);
                    if !self.held.is_empty() {
                        self.input.take_prompt();
                    }
                }
                event = next_job(&mut self.jobs) => {
                    self.held.push(Drawn::Row(job_line(&event)));
                    self.input.take_prompt();
                }
            }
        }
    }

    /// The prompt was taken away: shows what happened, and asks what there is to ask.
    async fn between(&mut self, typed: &str) {
        if let Ok((columns, lines)) = crossterm::terminal::size() {
            self.screen.resized(columns, lines);
        }
        // Where the prompt began is known only if it was one line.
        if typed.contains('\n') || typed.len() + 2 >= self.columns() {
            self.show(&[Row::default()]);
        } else {
            self.screen.clear_line();
        }
        self.flush();
        self.questions().await;
    }

    /// Draws what happens until `work` is done. Esc and Ctrl-C give `cancel`; so does whoever ends the chat from outside.
    pub(crate) async fn attend<T>(&mut self, work: impl Future<Output = T>, cancel: &CancellationToken) -> T {
        tokio::pin!(work);
        let mut moves = moves();
        let done = loop {
            self.next_dialog();
            self.draw();
            tokio::select! {
                done = &mut work => break done,
                () = self.happens(&mut moves, cancel) => {}
            }
        };
        // What it told last is there by now.
        while let Ok(event) = self.events.try_recv() {
            self.hear(&event);
        }
        self.drop_dialogs();
        let rest = self.view.end(self.columns());
        self.held.extend(rest);
        self.flush();
        done
    }

    /// Asks what there is to ask, while no agent has the turn.
    async fn questions(&mut self) {
        let cancel = CancellationToken::new();
        let mut moves = moves();
        loop {
            self.next_dialog();
            if self.dialog.is_none() || cancel.is_cancelled() {
                break;
            }
            self.draw();
            self.happens(&mut moves, &cancel).await;
        }
        self.drop_dialogs();
        self.flush();
    }

    /// Takes the next thing that happens, and what came with it.
    async fn happens(&mut self, moves: &mut Interval, cancel: &CancellationToken) {
        tokio::select! {
            () = self.hangup.cancelled(), if !cancel.is_cancelled() => cancel.cancel(),
            Some(event) = self.events.recv() => self.hear(&event),
            Some(asked) = self.asked.recv() => self.waiting.push_back(asked),
            heard = self.input.next() => self.typed(heard, cancel),
            event = next_job(&mut self.jobs) => self.held.push(Drawn::Row(job_line(&event))),
            _ = moves.tick() => {}
        }
        // Much that comes at once is drawn once.
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
            Heard::Key(key) if is_stop(key) => cancel.cancel(),
            Heard::Key(key) => match self.dialog.take() {
                Some(dialog) => match dialog.key(key) {
                    Ok(said) => self.show(&[said]),
                    Err(dialog) => self.dialog = Some(*dialog),
                },
                // A line break can't be sent yet: it is typed at the prompt.
                None if key.code == KeyCode::Enter => {}
                None => drop(self.ahead.key(key)),
            },
            Heard::Paste(text) => match &mut self.dialog {
                Some(dialog) => dialog.paste(&text),
                None => self.ahead.paste(&text),
            },
            Heard::Resized(columns, lines) => self.screen.resized(columns, lines),
            Heard::End => {
                self.hangup.cancel();
                cancel.cancel();
            }
            Heard::Line(_) | Heard::Cleared | Heard::Broken(_) => {}
        }
    }

    /// Puts up the next question, when none stands.
    fn next_dialog(&mut self) {
        if self.dialog.as_ref().is_some_and(Dialog::is_taken_back) {
            self.dialog = None;
            self.show(&[Row::new("(taken back)", Style::DIM)]);
        }
        while self.dialog.is_none() {
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
        let mut live = self.view.live(Instant::now(), columns, &self.written());
        let typed = self.ahead.shown(columns.saturating_sub(3));
        if !typed.is_empty() {
            live.push(Row::new(format!("> {}", super::row::harmless(typed)), Style::DIM));
        }
        self.screen.draw(&[], live);
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

fn is_stop(key: KeyEvent) -> bool {
    key.code == KeyCode::Esc || key.code == KeyCode::Char('c') && key.modifiers == KeyModifiers::CONTROL
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
    let telling = short::telling(&event.tail, event.exit.is_none_or(|it| it == 0), 80);
    let telling = if telling.is_empty() { telling } else { format!(": {telling}") };
    let name = short::line(name, 60);
    let bad = event.state == "error" || event.exit.is_some_and(|it| it != 0);
    let style = if bad { Style::BAD } else { Style::GOOD };
    Row::new("* ", style)
        .with(format!("{} ({name}) {}{exit}, {took}{telling}", event.job, event.state), Style::PLAIN)
}

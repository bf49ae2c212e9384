//! The terminal of a chat: a person and an agent take turns there.
//!
//! Whatever is seen or typed goes through here: events of the agent, questions, ends of jobs, keys. Nothing of it waits
//! for anything else: while a question stands, or the person reads, what the agent does goes on, and is shown after that.

mod keys;
pub(crate) mod seen;

use std::{
    collections::{HashSet, VecDeque},
    future::Future,
    io,
    path::PathBuf,
    time::{Duration, Instant},
};

use agent::{Agent, Event, Observer, Steering};
use kit::{Fault, Kind, files::Roots};
use runtime::{
    Session,
    config::{Notify, Theme},
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::{
        broadcast,
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    },
    time::{Interval, MissedTickBehavior},
};
use tokio_util::sync::CancellationToken;

use keys::returns;
use seen::Seen;

use super::{
    abbreviate, activity,
    asking::{Asked, ToPerson},
    attention::Attention,
    calls,
    complete::Words,
    dialog::Dialog,
    editor,
    expanded::Reading,
    files::Files,
    input::Input,
    input_history::Remembered,
    input_line::{Entry, Line},
    markdown::Look,
    outputs::Outputs,
    picture::{self, Protocol},
    row::{Row, Style, harmless, set_theme},
    screen::{Live, Screen},
    status::Status,
    view::{Drawn, View},
};
use crate::{Opened, Place};

/// How often what is in motion is drawn anew.
const MOVES: Duration = Duration::from_millis(100);

/// Of what a call wrote, so much is looked at for its last line.
const LAST: usize = 512;

/// The file in which what was typed is remembered.
const HISTORY: &str = "chat_history";

/// A question waits until whoever types has paused for so long: the next key of their line is not an answer to it.
const PAUSE: Duration = Duration::from_millis(700);

/// So many lines of what is typed are seen at once, and so many of what may be typed.
const LINES: usize = 12;
const CHOICES: usize = 8;

/// Terminals take at most about so much into their clipboard, in base64.
const CLIPBOARD: usize = 100_000;

/// How the terminal is to be.
pub(crate) struct Settings {
    /// The folder in which what was typed is remembered.
    pub(crate) state: PathBuf,
    /// Where files are looked for that the person names.
    pub(crate) roots: Roots,
    pub(crate) colours: bool,
    /// How the person is told that they are wanted.
    pub(crate) notify: Notify,
    pub(crate) theme: Theme,
    /// The person may type; otherwise they watch, answer questions and stop it.
    pub(crate) prompt: bool,
}

impl Settings {
    /// As the person wants it; with `prompt` they may type.
    pub(crate) fn of(place: &Place, opened: &Opened, prompt: bool) -> Self {
        let theme = opened.agents.chat.theme.unwrap_or_default();
        Self {
            state: place.state.clone(),
            roots: opened.runtime.roots().clone(),
            colours: place.variable("NO_COLOR").is_none() && theme != Theme::None,
            notify: opened.agents.chat.notify.unwrap_or_default(),
            theme,
            prompt,
        }
    }
}

/// The terminal, with a person before it.
pub(crate) struct Front {
    screen: Screen,
    input: Input,
    view: View,
    pictures: Option<Protocol>,
    events: UnboundedReceiver<Seen>,
    asked: UnboundedReceiver<ToPerson>,
    waiting: VecDeque<Asked>,
    dialog: Option<Dialog>,
    /// Since when a question stands or waits.
    asked_since: Option<Instant>,
    line: Line,
    attention: Attention,
    /// Another program has the terminal.
    away: Option<Away>,
    /// What the person's editor is opened with.
    variables: Vec<(String, String)>,
    state: PathBuf,
    /// This process goes on after it was suspended.
    continued: Signal,
    /// When Ctrl-C was pressed at an empty prompt: once more ends the chat.
    leaving: Option<Instant>,
    /// Whether there is a line to type in.
    prompt: bool,
    /// When the last key came.
    typed: Option<Instant>,
    /// Somebody has the turn.
    is_busy: bool,
    /// The agent runs in another process: keys that stop it are passed on.
    is_attached: bool,
    /// Who settled the question that stands, where that was somebody else.
    settled: Option<String>,
    /// What was said and is still to be taken up.
    said: VecDeque<Said>,
    /// What happened while a question stood.
    held: Vec<Drawn>,
    session: Option<Session>,
    steering: Option<Steering>,
    status: Status,
    /// What can be read whole.
    outputs: Outputs,
    /// What the person reads now.
    reading: Option<Reading>,
    jobs: Option<broadcast::Receiver<runtime::Event>>,
    /// Somebody ended the chat from outside.
    hangup: CancellationToken,
}

/// What the person said at the prompt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Line(Entry),
    /// Whoever runs the turn elsewhere is to stop.
    Stop,
    /// They want to go.
    End,
}

/// Who has the terminal meanwhile.
enum Away {
    Editor(editor::Open),
    /// The shell, since then.
    Shell(Instant),
}

/// Passes what an agent does on to whoever draws it.
pub(crate) struct Passes(UnboundedSender<Seen>);

impl Passes {
    /// Passes on something that is not the agent's.
    pub(crate) fn see(&self, seen: Seen) {
        // Whoever drew it may be gone.
        let _ = self.0.send(seen);
    }
}

impl Observer for Passes {
    fn hear(&self, event: Event) {
        self.see(Seen::Event(event));
    }
}

impl Front {
    /// Takes the terminal.
    ///
    /// # Errors
    /// When it is none.
    pub(crate) fn new(
        settings: Settings,
        asked: UnboundedReceiver<ToPerson>,
        variables: &[(String, String)],
        hangup: CancellationToken,
    ) -> io::Result<(Self, Passes)> {
        let (pass, events) = unbounded_channel();
        let Settings { state, roots, colours, notify, theme, prompt } = settings;
        set_theme(theme);
        let name = roots.workspace().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let words = Words::new(prompt.then(|| Files::of(roots)));
        let continued = signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?;
        let mut front = Self {
            screen: Screen::new(colours),
            input: Input::start()?,
            view: View::default(),
            pictures: picture::protocol(variables),
            events,
            asked,
            waiting: VecDeque::new(),
            dialog: None,
            asked_since: None,
            prompt,
            line: Line::new(Remembered::open(&state.join(HISTORY)), words),
            attention: Attention::new(notify, colours, &name),
            away: None,
            variables: variables.to_vec(),
            state,
            continued,
            leaving: None,
            typed: None,
            is_busy: false,
            is_attached: false,
            settled: None,
            said: VecDeque::new(),
            held: Vec::new(),
            session: None,
            steering: None,
            status: Status::new(variables),
            outputs: Outputs::default(),
            reading: None,
            jobs: None,
            hangup,
        };
        front.attention.idle(&mut front.screen);
        Ok((front, Passes(pass)))
    }

    /// What is completed at the prompt.
    pub(crate) fn words(&mut self) -> &mut Words {
        &mut self.line.words
    }

    /// Puts this line at the prompt, to be changed or sent. What is typed there already follows it.
    pub(crate) fn put(&mut self, entry: &Entry) {
        self.line.begin_with(entry);
    }

    /// Did somebody end the chat from outside?
    pub(crate) fn is_hung_up(&self) -> bool {
        self.hangup.is_cancelled()
    }

    /// Puts a text into the terminal's clipboard (OSC 52), where the terminal takes it.
    ///
    /// # Errors
    /// When it is longer than terminals take.
    pub(crate) fn clip(&mut self, text: &str) -> Result<(), Fault> {
        let data = kit::base64::encoded(text.as_bytes());
        if data.len() > CLIPBOARD {
            let what = format!("{} bytes are more than terminals take into their clipboard", text.len());
            return Err(Fault::new(Kind::TooBig, what).next("/export writes the conversation to a file."));
        }
        self.screen.signal(&format!("\u{1b}]52;c;{data}\u{7}"));
        Ok(())
    }

    /// From now on it is this agent's conversation.
    pub(crate) fn follow(&mut self, agent: &Agent) {
        let session = agent.session();
        self.jobs = Some(session.events());
        self.session = Some(session.clone());
        self.steering = Some(agent.steering());
        self.status.follow(agent);
        self.outputs = Outputs::default();
        self.view.forget();
    }

    /// Says which conversation this is: the model, the folder, what the sandbox allows, where to find help.
    pub(crate) fn welcome(&mut self) {
        let rows = self.status.welcome(Instant::now(), self.columns());
        self.show(&rows);
    }

    /// How text is to look.
    pub(crate) fn look(&self) -> Look {
        Look { columns: self.columns(), plain: !self.screen.colours() }
    }

    /// How many columns a line may take.
    pub(crate) fn columns(&self) -> usize {
        self.screen.columns()
    }

    /// Shows these lines, which stay.
    pub(crate) fn show(&mut self, rows: &[Row]) {
        self.screen.draw(rows, Vec::new());
    }

    /// Ends with an empty line, so that what comes next stands apart.
    pub(crate) fn part(&mut self) {
        if !self.screen.is_parted() {
            self.show(&[Row::default()]);
        }
    }

    /// The whole answer of the next call is shown, so nothing sums it up.
    pub(crate) fn shows_whole(&mut self) {
        self.view.shows_whole();
    }

    /// Shows a text that is no one's own: it may have several lines.
    pub(crate) fn tell(&mut self, text: &str, style: Style) {
        // What went wrong stands apart.
        if style == Style::BAD || style == Style::ASKS {
            self.part();
        }
        let rows = Row::new(text.trim_end(), style).lines(self.columns());
        self.show(&rows);
    }

    /// The person said this before there was a prompt: on the command line.
    pub(crate) fn says_first(&mut self, words: String) {
        if !words.trim().is_empty() {
            self.said.push_front(Said::Line(Entry::new(words)));
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
                && self.reading.is_none()
                && let Some(said) = self.said.pop_front()
            {
                self.flush();
                if let Said::Line(entry) = &said
                    && !entry.text.trim().is_empty()
                {
                    let text = format!("> {}", entry.shown.trim_end().replace('\n', "\n  "));
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
            if cancel.is_cancelled() && self.is_attached && self.is_busy && !self.hangup.is_cancelled() {
                self.drop_dialogs();
                return Said::Stop;
            }
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
        self.attention.works(&mut self.screen);
        let limit = self.steering.as_ref().and_then(|it| it.model().idle_limit());
        self.view.begin(Instant::now(), limit);
        let done = loop {
            self.next_dialog();
            self.draw();
            tokio::select! {
                done = &mut work => break done,
                () = self.happens(&mut moves, cancel) => {}
            }
        };
        self.is_busy = false;
        self.attention.done(&mut self.screen);
        // What it told last is there by now.
        while let Ok(seen) = self.events.try_recv() {
            self.see(seen);
        }
        if cancel.is_cancelled() {
            self.drop_dialogs();
            self.take_back();
        }
        let rest = self.view.end(self.look());
        self.held.extend(rest);
        if self.dialog.is_none() {
            self.flush();
        }
        done
    }

    /// Shows a text that may be long: in the pager, where it is longer than the screen. Returns once the person has read it.
    pub(crate) async fn page(&mut self, title: &str, text: &str) {
        let rows = Row::new(text.trim_end(), Style::PLAIN).lines(self.columns());
        if rows.len() + 4 < self.screen.lines() {
            return self.tell(text, Style::DIM);
        }
        let lines = text.trim_end().lines().map(|it| Row::new(harmless(it), Style::PLAIN)).collect();
        self.reading = Some(Reading::alone(title, lines));
        let mut moves = moves();
        while self.reading.is_some() && !self.hangup.is_cancelled() && !self.screen.is_gone() {
            self.draw();
            self.happens(&mut moves, &CancellationToken::new()).await;
        }
        self.draw();
    }

    /// Takes the next thing that happens, and what came with it.
    async fn happens(&mut self, moves: &mut Interval, cancel: &CancellationToken) {
        tokio::select! {
            () = self.hangup.cancelled(), if !cancel.is_cancelled() => cancel.cancel(),
            Some(seen) = self.events.recv() => self.see(seen),
            Some(asked) = self.asked.recv() => match asked {
                ToPerson::Asks(asked) => self.waiting.push_back(*asked),
                ToPerson::Shows(text, shown) => {
                    let columns = self.columns();
                    let rows = text.lines().flat_map(|it| Row::new(harmless(it), Style::PLAIN).wrapped(columns, 4));
                    self.held.extend(rows.map(Drawn::Row));
                    // Who shows it may have been stopped.
                    let _ = shown.send(());
                }
            },
            heard = self.input.next() => self.typed(heard, cancel),
            event = next_job(&mut self.jobs) => {
                let rows = job_line(&event).wrapped(self.columns(), 4);
                self.held.extend(rows.into_iter().map(Drawn::Row));
            },
            back = returns(&mut self.away) => self.comes_back(back),
            _ = self.continued.recv(), if self.away.is_none() => self.retake(),
            () = self.line.words.changed() => self.line.refresh(),
            _ = moves.tick() => {}
        }
        // Much that comes at once is drawn once.
        while !cancel.is_cancelled()
            && let Some(heard) = self.input.next_now()
        {
            self.typed(heard, cancel);
        }
        while let Ok(seen) = self.events.try_recv() {
            self.see(seen);
        }
        if self.screen.is_gone() {
            cancel.cancel();
        }
    }

    fn hear(&mut self, event: &Event) {
        let look = self.look();
        self.status.hear(event);
        self.outputs.hear(event);
        self.held.extend(self.view.hear(event, Instant::now(), look));
    }

    /// Puts up the next question, when none stands.
    fn next_dialog(&mut self) {
        if self.dialog.as_ref().is_some_and(Dialog::is_taken_back) {
            self.dialog = None;
            let why = self.settled.take();
            let why = why.map_or_else(|| "(question withdrawn)".to_owned(), |it| format!("({it})"));
            self.show(&Row::new(harmless(&why), Style::DIM).wrapped(self.columns(), 2));
        }
        if self.waiting.is_empty() && self.dialog.is_none() {
            self.asked_since = None;
        } else {
            self.asked_since.get_or_insert_with(Instant::now);
        }
        if self.reading.is_some() {
            return;
        }
        let is_typing = !self.line.is_empty() && self.typed.is_some_and(|it| it.elapsed() < PAUSE);
        while self.dialog.is_none() && !is_typing {
            let Some(asked) = self.waiting.pop_front() else { return };
            if asked.is_taken_back() {
                continue;
            }
            self.flush();
            self.settled = None;
            self.attention.asks(&mut self.screen);
            let dialog = Dialog::new(asked);
            let rows = dialog.rows(self.columns());
            self.show(&rows);
            self.dialog = Some(dialog);
        }
    }

    /// Nobody is asked any more.
    fn drop_dialogs(&mut self) {
        if self.dialog.take().is_some() {
            self.show(&[Row::new("(question withdrawn)", Style::DIM)]);
        }
        self.waiting.clear();
    }

    fn draw(&mut self) {
        let now = Instant::now();
        let columns = self.columns();
        if let Some(reading) = &mut self.reading {
            let mut rows = reading.rows(columns, self.screen.lines(), self.session.as_ref());
            if self.asked_since.is_some()
                && let Some(head) = rows.first_mut()
            {
                *head =
                    Row::new("A question waits for your answer: q leads to it.", Style::ASKS).cut(columns);
            }
            return self.screen.draw_full(rows);
        }
        if let Some(dialog) = &self.dialog {
            let mut live = vec![activity::asked(now, self.asked_since.unwrap_or(now), columns)];
            live.extend(dialog.live(columns));
            self.screen.draw(&[], live);
            return;
        }
        let stays = self.stays();
        self.look_at_calls(now);
        let mut rows = self.view.live(now, self.look());
        for it in &self.said {
            if let Said::Line(entry) = it {
                rows.push(Row::new(format!("> {}  (next)", harmless(&entry.shown)), Style::DIM).cut(columns));
            }
        }
        if !self.prompt {
            rows.extend(self.status.row(now, columns));
            self.screen.draw(&stays, rows);
            return;
        }
        let lines = self.screen.lines();
        let choices = (lines / 2).saturating_sub(1).min(CHOICES);
        let Live { rows: line, cursor } = self.line.live(columns, (lines / 2).min(LINES), choices);
        let cursor = cursor.map(|(row, column)| (row + rows.len(), column));
        rows.extend(line);
        if self.is_leaving() {
            rows.push(Row::new("press Ctrl-C again to leave", Style::DIM).cut(columns));
        } else {
            rows.extend(self.status.row(now, columns));
        }
        self.screen.draw(&stays, Live { rows, cursor });
    }

    /// Draws what stays, and nothing below it.
    fn flush(&mut self) {
        let rows = self.stays();
        if !rows.is_empty() {
            self.screen.draw(&rows, Vec::new());
        }
    }

    /// The rows that are to stay and were not drawn yet. What stands before a picture is drawn, and the picture.
    fn stays(&mut self) -> Vec<Row> {
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
        rows
    }

    /// A picture where the terminal can show one, and where it lies.
    fn picture(&mut self, picture: &agent::Shown) {
        let Some(session) = &self.session else { return };
        let spills = session.runtime().spills();
        let escape = self.pictures.and_then(|protocol| {
            let bytes = spills.read(session.name(), &picture.handle).ok()?;
            picture::escape(protocol, &picture.mime, &bytes)
        });
        let is_shown = escape.is_some();
        if let Some(escape) = escape {
            self.screen.picture(&escape);
        }
        let size = abbreviate::size(picture.bytes);
        let where_it_is = if is_shown { "" } else { "; Ctrl-O says where it is" };
        let text = format!("    picture {} ({}, {size}{where_it_is})", picture.handle, picture.mime);
        let rows = Row::new(harmless(&text), Style::DIM).wrapped(self.columns(), 4);
        self.show(&rows);
    }

    /// Takes up what each call that is not over has written, and what it waits for.
    fn look_at_calls(&mut self, now: Instant) {
        let Some(session) = &self.session else { return };
        let waiting = self.waiting.iter().filter_map(Asked::call);
        let asking: HashSet<String> = waiting.map(str::to_owned).collect();
        self.view.look_at_calls(now, |call| {
            let written = session.written(call).map(|it| it.tail(LAST).text);
            let line = written
                .and_then(|it| it.lines().rfind(|it| !it.trim().is_empty()).map(|it| it.trim().to_owned()));
            calls::Seen { line, waits: session.waits_for(call), asks: asking.contains(call) }
        });
    }
}

/// When what is in motion is drawn anew.
fn moves() -> Interval {
    let mut moves = tokio::time::interval(MOVES);
    moves.set_missed_tick_behavior(MissedTickBehavior::Skip);
    moves
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
    let took = abbreviate::took(event.took);
    let telling = abbreviate::summary(&event.tail, true, 80);
    let telling = if telling.is_empty() { telling } else { format!(": {telling}") };
    let name = abbreviate::line(name, 60);
    let bad = event.state == "error" || event.exit.is_some_and(|it| it != 0);
    let style = if bad { Style::BAD } else { Style::GOOD };
    Row::new("* ", style).with(
        harmless(&format!("{} ({name}) {}{exit}, {took}{telling}", event.job, event.state)),
        Style::PLAIN,
    )
}

//! The terminal of a chat, where a person and an agent take turns.
//!
//! Everything shown or typed passes through here: events of the agent, questions, ends of jobs, keys. Nothing blocks: while a
//! question is open or the person reads, the agent works on, and its output is shown afterwards.

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
use runtime::config::{Notify, Theme};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::{Interval, MissedTickBehavior},
};
use tokio_util::sync::CancellationToken;

use keys::returns;
use seen::Seen;

use super::{
    abbreviate, activity,
    asking::Asked,
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
    source::Source,
    status::Status,
    view::{Drawn, View},
};
use crate::{Opened, Place};

/// Redraw interval of the live area.
const MOVES: Duration = Duration::from_millis(100);

/// The last line of a call's output is searched in this many bytes at its end.
const LAST: usize = 512;

/// The file that stores the input history.
const HISTORY: &str = "chat_history";

/// A question waits until the person has not typed for this long, so that the next key of their line does not answer it.
const PAUSE: Duration = Duration::from_millis(700);

/// Maximum number of visible lines of input, and of completion choices.
const LINES: usize = 12;
const CHOICES: usize = 8;

/// Approximate maximum length of a clipboard text that terminals accept, in base64.
const CLIPBOARD: usize = 100_000;

/// The settings of the terminal.
pub(crate) struct Settings {
    /// The folder of the input history.
    pub(crate) state: PathBuf,
    /// The roots in which files named by the person are searched.
    pub(crate) roots: Roots,
    pub(crate) colours: bool,
    /// How the person is notified.
    pub(crate) notify: Notify,
    pub(crate) theme: Theme,
    /// The person may type; otherwise they watch, answer questions and stop the agent.
    pub(crate) prompt: bool,
}

impl Settings {
    /// Returns the configured settings; with `prompt` the person may type.
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

/// The terminal, with a person in front of it.
pub(crate) struct Front {
    screen: Screen,
    input: Input,
    view: View,
    pictures: Option<Protocol>,
    events: UnboundedReceiver<Seen>,
    asked: UnboundedReceiver<Asked>,
    waiting: VecDeque<Asked>,
    dialog: Option<Dialog>,
    /// Since when a question is open or waits.
    asked_since: Option<Instant>,
    line: Line,
    attention: Attention,
    /// Another program has the terminal.
    away: Option<Away>,
    /// The environment variables that the person's editor gets.
    variables: Vec<(String, String)>,
    state: PathBuf,
    /// The signal that this process was continued after a suspension.
    continued: Signal,
    /// When Ctrl-C was pressed at an empty prompt: once more ends the chat.
    leaving: Option<Instant>,
    /// Whether there is an input line.
    prompt: bool,
    /// When the last key was pressed.
    typed: Option<Instant>,
    /// A turn is in progress.
    is_busy: bool,
    /// The agent runs in another process: keys that stop it are passed on.
    is_attached: bool,
    /// The note about who settled the open question, if that was somebody else.
    settled: Option<String>,
    /// Input that is queued and not processed yet.
    said: VecDeque<PromptInput>,
    /// Rows and pictures that arrived while a question was open.
    held: Vec<Drawn>,
    source: Option<Source>,
    steering: Option<Steering>,
    status: Status,
    /// The outputs that can be read in full.
    outputs: Outputs,
    /// The text that the person reads now.
    reading: Option<Reading>,
    /// Cancelled when the chat is ended from outside.
    hangup: CancellationToken,
}

/// Input of the person at the prompt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PromptInput {
    Line(Entry),
    /// The process that runs the turn is to stop it.
    Stop,
    /// The person leaves the chat.
    End,
}

/// The program that has the terminal meanwhile.
enum Away {
    Editor(editor::Open),
    /// The shell, since then.
    Shell(Instant),
}

/// Forwards events of an agent to the terminal that draws them.
pub(crate) struct Passes(UnboundedSender<Seen>);

impl Passes {
    /// Forwards something that is not an event of the agent.
    pub(crate) fn see(&self, seen: Seen) {
        // The terminal that drew it may be gone.
        let _ = self.0.send(seen);
    }
}

impl Observer for Passes {
    fn observe(&self, event: Event) {
        self.see(Seen::Event(event));
    }
}

impl Front {
    /// Takes over the terminal.
    ///
    /// # Errors
    /// If the terminal can't be read key by key, or signals can't be received.
    pub(crate) fn new(
        settings: Settings,
        asked: UnboundedReceiver<Asked>,
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
            source: None,
            steering: None,
            status: Status::new(variables),
            outputs: Outputs::default(),
            reading: None,
            hangup,
        };
        front.attention.idle(&mut front.screen);
        Ok((front, Passes(pass)))
    }

    /// Returns the completions of the prompt.
    pub(crate) fn words(&mut self) -> &mut Words {
        &mut self.line.words
    }

    /// Puts this line at the prompt, to be changed or sent. Text that is already typed there follows it.
    pub(crate) fn put(&mut self, entry: &Entry) {
        self.line.begin_with(entry);
    }

    /// Returns whether the chat was ended from outside.
    pub(crate) fn is_hung_up(&self) -> bool {
        self.hangup.is_cancelled()
    }

    /// Copies a text to the terminal's clipboard (OSC 52), if the terminal accepts it.
    ///
    /// # Errors
    /// If the text is longer than terminals accept.
    pub(crate) fn clip(&mut self, text: &str) -> Result<(), Fault> {
        let data = kit::base64::encoded(text.as_bytes());
        if data.len() > CLIPBOARD {
            let what = format!("{} bytes are more than terminals take into their clipboard", text.len());
            return Err(Fault::new(Kind::TooBig, what).next("/export writes the conversation to a file."));
        }
        self.screen.signal(&format!("\u{1b}]52;c;{data}\u{7}"));
        Ok(())
    }

    /// Switches to the conversation of this agent.
    pub(crate) fn follow(&mut self, agent: &Agent) {
        let session = agent.session();
        self.source = Some(Source::of(session));
        self.steering = Some(agent.steering());
        self.status.follow(agent);
        self.outputs = Outputs::default();
        self.view.forget();
    }

    /// Shows which conversation this is: the model, the folder, what the sandbox allows, where to find help.
    pub(crate) fn welcome(&mut self) {
        let rows = self.status.welcome(Instant::now(), self.columns());
        self.show(&rows);
    }

    /// Returns the layout of text: columns and attributes.
    pub(crate) fn look(&self) -> Look {
        Look { columns: self.columns(), plain: !self.screen.colours() }
    }

    /// Returns how many columns a line may take.
    pub(crate) fn columns(&self) -> usize {
        self.screen.columns()
    }

    /// Adds these permanent rows.
    pub(crate) fn show(&mut self, rows: &[Row]) {
        self.screen.draw(rows, Vec::new());
    }

    /// Adds an empty line at the end, so that the next output stands apart.
    pub(crate) fn part(&mut self) {
        if !self.screen.is_parted() {
            self.show(&[Row::default()]);
        }
    }

    /// Shows the whole answer of the next call, without a summary line.
    pub(crate) fn shows_whole(&mut self) {
        self.view.shows_whole();
    }

    /// Shows a text in one style; it may have several lines.
    pub(crate) fn tell(&mut self, text: &str, style: Style) {
        // Errors and warnings stand apart.
        if style == Style::BAD || style == Style::ASKS {
            self.part();
        }
        let rows = Row::new(text.trim_end(), style).lines(self.columns());
        self.show(&rows);
    }

    /// Queues a text from the command line as the first input.
    pub(crate) fn says_first(&mut self, words: String) {
        if !words.trim().is_empty() {
            self.said.push_front(PromptInput::Line(Entry::new(words)));
        }
    }

    /// Returns the next input of the person. Input that was typed during the agent's turn comes first.
    pub(crate) async fn prompt(&mut self) -> PromptInput {
        let mut moves = moves();
        loop {
            if self.hangup.is_cancelled() || self.screen.is_gone() {
                return PromptInput::End;
            }
            if self.dialog.is_none()
                && self.reading.is_none()
                && let Some(said) = self.said.pop_front()
            {
                self.flush();
                if let PromptInput::Line(entry) = &said
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
            // Outside a turn, a key that stops something stops the question.
            let cancel = CancellationToken::new();
            self.happens(&mut moves, &cancel).await;
            if cancel.is_cancelled() && self.is_attached && self.is_busy && !self.hangup.is_cancelled() {
                self.drop_dialogs();
                return PromptInput::Stop;
            }
            if cancel.is_cancelled() {
                self.drop_dialogs();
            }
        }
    }

    /// Draws events until `work` is done. Esc, Ctrl-C and an end of the chat from outside cancel `cancel`.
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
        // The last events of the turn have arrived by now.
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

    /// Shows a text: in the pager if it is longer than the screen. Returns once the person has read it.
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

    /// Waits for the next event and processes it, with all that arrived with it.
    async fn happens(&mut self, moves: &mut Interval, cancel: &CancellationToken) {
        tokio::select! {
            () = self.hangup.cancelled(), if !cancel.is_cancelled() => cancel.cancel(),
            Some(seen) = self.events.recv() => self.see(seen),
            Some(asked) = self.asked.recv() => self.waiting.push_back(asked),
            event = self.input.next() => self.typed(event, cancel),
            back = returns(&mut self.away) => self.comes_back(back),
            _ = self.continued.recv(), if self.away.is_none() => self.retake(),
            () = self.line.words.changed() => self.line.refresh(),
            _ = moves.tick() => {}
        }
        // Events that arrive together are drawn once.
        while !cancel.is_cancelled()
            && let Some(event) = self.input.next_now()
        {
            self.typed(event, cancel);
        }
        while let Ok(seen) = self.events.try_recv() {
            self.see(seen);
        }
        if self.screen.is_gone() {
            cancel.cancel();
        }
    }

    fn observe(&mut self, event: &Event) {
        let look = self.look();
        self.status.observe(event);
        self.outputs.observe(event);
        self.held.extend(self.view.observe(event, Instant::now(), look));
    }

    /// Opens the next question if none is open.
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

    /// Refuses all questions: the person stopped the work that asks them.
    fn drop_dialogs(&mut self) {
        if let Some(dialog) = self.dialog.take() {
            dialog.refuse();
            self.show(&[Row::new("(question withdrawn)", Style::DIM)]);
        }
        self.waiting.drain(..).for_each(Asked::refuse);
    }

    fn draw(&mut self) {
        let now = Instant::now();
        let columns = self.columns();
        if let Some(reading) = &mut self.reading {
            let mut rows = reading.rows(columns, self.screen.lines(), self.source.as_ref());
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
            if let PromptInput::Line(entry) = it {
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

    /// Draws the permanent rows, and nothing below them.
    fn flush(&mut self) {
        let rows = self.stays();
        if !rows.is_empty() {
            self.screen.draw(&rows, Vec::new());
        }
    }

    /// Returns the permanent rows that were not drawn yet. Draws each picture, and the rows before it.
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

    /// Draws a picture if the terminal can show one, and a line that describes it.
    fn picture(&mut self, picture: &agent::Shown) {
        let Some(source) = &self.source else { return };
        let escape = self.pictures.and_then(|protocol| {
            let bytes = source.read("", &picture.handle).ok()?;
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

    /// Updates each running call with its output so far and with what it waits for.
    fn look_at_calls(&mut self, now: Instant) {
        let Some(source) = &self.source else { return };
        let waiting = self.waiting.iter().filter_map(Asked::call);
        let asking: HashSet<String> = waiting.map(str::to_owned).collect();
        self.view.look_at_calls(now, |call| {
            let written = source.written(call, LAST);
            let line = written
                .and_then(|it| it.lines().rfind(|it| !it.trim().is_empty()).map(|it| it.trim().to_owned()));
            calls::Seen {
                line,
                waits: source.session().and_then(|it| it.waits_for(call)),
                asks: asking.contains(call),
            }
        });
    }
}

/// Returns the timer that redraws the live area.
fn moves() -> Interval {
    let mut moves = tokio::time::interval(MOVES);
    moves.set_missed_tick_behavior(MissedTickBehavior::Skip);
    moves
}

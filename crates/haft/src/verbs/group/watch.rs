//! `haft group watch`, and `haft group run` on a terminal: a pane for each agent, and the traffic on the channels.
//!
//! What is shown is read from the store, so it is the same in the process that runs the group and in any other.

use std::{
    collections::BTreeMap,
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Args;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use kit::{Fault, Kind};
use sessions::Event;
use store::{EventRow, Store, channels::Scope, groups::MemberRecord};
use tokio_util::sync::CancellationToken;

use super::{Named, lines::short, show::is_run};
use crate::{
    Options, Place,
    terminal::{
        abbreviate,
        input::{Input, InputEvent, restore},
        interrupt,
        panes::{Doing, Pane, Panes},
        row::{Row, Style},
        screen::Screen,
    },
    verbs::close,
};

/// Interval at which the store is read.
const LOOK: Duration = Duration::from_millis(200);

/// The shortest time between two frames.
const FRAME: Duration = Duration::from_millis(80);

/// Rows of a log that are read at first, from its end.
const BEFORE: u64 = 300;

/// Rows and bytes of a log that are read at a time.
const PAGE: (usize, usize) = (500, 1 << 20);

/// Messages of a channel that are read at first.
const MESSAGES: usize = 20;

#[derive(Args)]
pub(super) struct Watch {
    #[command(flatten)]
    group: Named,
}

impl Watch {
    pub(super) async fn run(self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let opened = options.open(place)?;
        let group = self.group.find(&opened.runtime)?;
        let hangup = CancellationToken::new();
        interrupt::watch(hangup.clone(), restore).map_err(|it| no_terminal(&it))?;
        let mut view = Shown::begin(opened.runtime.store(), &group.name, place, "q leaves")?;
        loop {
            view.draw()?;
            tokio::select! {
                () = hangup.cancelled() => break,
                left = view.next() => if left { break },
            }
        }
        drop(view);
        close(&opened.runtime);
        Ok(ExitCode::SUCCESS)
    }
}

fn no_terminal(error: &std::io::Error) -> Fault {
    Fault::new(Kind::Unavailable, format!("the terminal can't be used: {error}"))
        .next("`haft group status` prints what the agents do.")
}

/// The panes of a group on this terminal. Dropped, the terminal is as it was.
pub(super) struct Shown {
    store: Store,
    group: String,
    panes: Panes,
    /// The members, by their ids.
    members: BTreeMap<String, Read>,
    /// The last message that was read of each channel.
    channels: BTreeMap<(String, String), u64>,
    screen: Screen,
    input: Input,
    ticks: tokio::time::Interval,
    drawn: Option<Instant>,
}

/// A member, as its log was read so far.
#[derive(Debug, Default)]
struct Read {
    pane: Pane,
    seen: Option<u64>,
    /// The pieces of the text that it writes, by their numbers.
    pieces: BTreeMap<u64, String>,
    /// Approvals and questions that are open.
    asks: Vec<String>,
    tokens: u64,
}

impl Shown {
    /// Takes the terminal.
    ///
    /// # Errors
    /// When there is none.
    pub(super) fn begin(
        store: &Store,
        group: &str,
        place: &Place,
        hint: &'static str,
    ) -> Result<Self, Fault> {
        use std::io::IsTerminal as _;
        if !std::io::stdout().is_terminal() {
            return Err(no_terminal(&std::io::Error::other("standard output is not one")));
        }
        let input = Input::start().map_err(|it| no_terminal(&it))?;
        Ok(Self {
            store: store.clone(),
            group: group.to_owned(),
            panes: Panes::new(hint),
            members: BTreeMap::new(),
            channels: BTreeMap::new(),
            screen: Screen::new(place.variable("NO_COLOR").is_none()),
            input,
            ticks: tokio::time::interval(LOOK),
            drawn: None,
        })
    }

    /// Reads what is new, and draws it.
    ///
    /// # Errors
    /// When the store can't be read.
    pub(super) fn draw(&mut self) -> Result<(), Fault> {
        if self.drawn.is_some_and(|it| it.elapsed() < FRAME) {
            return Ok(());
        }
        self.drawn = Some(Instant::now());
        self.read()?;
        let rows = self.panes.rows(self.screen.columns(), self.screen.lines());
        self.screen.draw_full(rows);
        Ok(())
    }

    /// Waits until something may be new. Returns whether the person wants to leave.
    pub(super) async fn next(&mut self) -> bool {
        tokio::select! {
            _ = self.ticks.tick() => self.screen.is_gone(),
            event = self.input.next() => match event {
                InputEvent::Key(key) => leaves(key),
                InputEvent::Resized(columns, lines) => {
                    self.screen.resized(columns, lines);
                    self.drawn = None;
                    false
                }
                InputEvent::Paste(_) => false,
                InputEvent::End => true,
            },
        }
    }

    fn read(&mut self) -> Result<(), Fault> {
        let store = self.store.clone();
        let Some(group) = store.groups().get(&self.group)? else { return Ok(()) };
        let shape = store.groups().shape(&self.group)?;
        let runs = is_run(&store, &self.group)?;
        self.members.retain(|id, _| shape.members.iter().any(|it| it.id == *id));
        for member in &shape.members {
            let read = self.members.entry(member.id.clone()).or_default();
            read.member(&store, member, runs)?;
        }
        // In the order in which they came.
        let shown = shape.members.iter().filter_map(|it| self.members.get(&it.id));
        self.panes.panes = shown.map(|it| it.pane.clone()).collect();
        self.panes.has_channels = !shape.channels.is_empty();
        for channel in &shape.channels {
            let scope = Scope::Environment(format!("env_{}", channel.graph));
            let key = (channel.graph.clone(), channel.name.clone());
            let new = match self.channels.get(&key) {
                Some(after) => store.channels().after(&scope, &channel.name, *after)?,
                None => store.channels().history(&scope, &channel.name, MESSAGES)?,
            };
            self.channels.entry(key.clone()).or_insert(0);
            for message in new {
                let text =
                    message.content.as_str().map_or_else(|| message.content.to_string(), str::to_owned);
                self.panes.on_channel(&message.channel, &message.sender, &short(&text));
                self.channels.insert(key.clone(), message.id);
            }
        }
        let state = if runs { "running" } else { group.state.as_str() };
        self.panes.title = Row::new(&group.name, Style::BOLD).with(
            format!(
                "  {state}  {}  {}",
                kit::counted(shape.members.len(), "agent"),
                abbreviate::tokens(group.used.tokens)
            ),
            Style::DIM,
        );
        Ok(())
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.screen.leave_full();
        self.input.pause();
    }
}

fn leaves(key: KeyEvent) -> bool {
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => true,
        KeyCode::Char('c' | 'd') => key.modifiers.contains(KeyModifiers::CONTROL),
        _ => false,
    }
}

impl Read {
    fn member(&mut self, store: &Store, member: &MemberRecord, runs: bool) -> Result<(), Fault> {
        member.name.clone_into(&mut self.pane.name);
        let after = match self.seen {
            Some(seen) => seen,
            None => store.events().head(&member.session)?.saturating_sub(BEFORE),
        };
        let rows = store.events().page(&member.session, after, PAGE.0, PAGE.1)?;
        self.seen = Some(rows.last().map_or(after, |it| it.seq));
        for row in &rows {
            self.row(row, &member.session);
        }
        self.pane.writes = self.pieces.values().map(String::as_str).collect();
        self.pane.tokens = self.tokens.max(member.used.tokens);
        self.pane.waiting = if store.inbox().has_queued(&member.session)? {
            store.inbox().queued(&member.session)?.len()
        } else {
            0
        };
        self.pane.doing = match self.pane.doing {
            _ if !member.running || !runs => Doing::Stopped,
            _ if !self.asks.is_empty() => Doing::Asks,
            Doing::Works => Doing::Works,
            _ if member.paused => Doing::Paused,
            Doing::Failed => Doing::Failed,
            _ => Doing::Idle,
        };
        Ok(())
    }

    fn row(&mut self, row: &EventRow, session: &str) {
        let Ok(event) = serde_json::from_str::<Event>(&row.body) else { return };
        match &event {
            Event::TurnBegan { .. } => self.pane.doing = Doing::Works,
            Event::TurnEnded(end) => {
                self.pieces.clear();
                self.asks.clear();
                self.pane.add(&end.text, Style::PLAIN);
                self.pane.doing = match end.ended.as_str() {
                    "done" | "cancelled" | "interrupted" => Doing::Idle,
                    _ => Doing::Failed,
                };
                if let Some(error) = &end.error {
                    self.pane.add(&error.what, Style::BAD);
                }
            }
            Event::ApprovalOpened(it) => {
                let what = if it.about.is_empty() { &it.tool } else { &it.about };
                let text = format!("approve {what}? haft chat --attach {session}");
                self.pane.add(&text, Style::ASKS);
                self.asks.push(it.id.clone());
            }
            Event::QuestionOpened(it) => {
                self.pane.add(&format!("{} haft chat --attach {session}", it.text), Style::ASKS);
                self.asks.push(it.id.clone());
            }
            Event::ApprovalClosed { id, .. } | Event::QuestionClosed { id, .. } => {
                self.asks.retain(|it| it != id);
            }
            other => {
                if let Some((path, event)) = other.of_agent() {
                    self.agent_event(row, &path, event);
                }
            }
        }
    }

    fn agent_event(&mut self, row: &EventRow, path: &str, event: &agent::Event) {
        match event {
            agent::Event::Text { text } if path.is_empty() => {
                // A row may stand for pieces before it.
                self.pieces.retain(|seq, _| *seq < row.first);
                self.pieces.insert(row.seq, text.clone());
            }
            agent::Event::Called { tool, arguments, .. } => {
                self.end_text();
                self.pane.add(&short(&format!("{tool} {arguments}")), Style::DIM);
            }
            agent::Event::Answered { tool, ok: false, text, .. } => {
                let why = text.lines().next().unwrap_or_default();
                self.pane.add(&short(&format!("{tool} failed: {why}")), Style::BAD);
            }
            agent::Event::MessageShown { from, channel, text, .. } => {
                let by = channel.as_ref().map_or_else(String::new, |it| format!(" on {it}"));
                self.pane.add(&short(&format!("from {from}{by}: {text}")), Style::GOOD);
            }
            agent::Event::Used { usage, .. } => self.tokens += usage.all(),
            agent::Event::Note { text } => self.pane.add(&short(text), Style::DIM),
            _ => {}
        }
    }

    /// Keeps a text that a call ends; the one that a turn ends with comes with the turn's end.
    fn end_text(&mut self) {
        let text: String = std::mem::take(&mut self.pieces).into_values().collect();
        self.pane.add(&text, Style::PLAIN);
    }
}

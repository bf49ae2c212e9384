//! Logs of members: what their turns bring about for others, once and in one transaction.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use kit::Fault;
use serde_json::json;
use sessions::{Event, Row, TurnEnd, Watcher};
use store::{
    NewMessage, Source,
    groups::{NewGroupEvent, Step, Used},
};

use super::{Inner, Seen, blocking, event, exchanges::Looping};
use crate::{
    recipe::Limits,
    status::Status,
    wiring::{ROOT, Variables},
};

/// Pause before a row that could not be handled is tried again.
const AGAIN: Duration = Duration::from_millis(500);

/// Number of messages of its parent's inbox that are searched for one of a member.
const LOOK_BACK: usize = 200;

/// The beginning of the key of a prompt by which a member goes on with an interrupted turn; the number of a row of its log follows.
pub(super) const GO_ON: &str = "go on after ";

/// Number of rows of a log that are read at a time.
const PAGE: usize = 200;

/// The tools by which members only talk to each other: their calls change nothing else.
const TALK: [&str; 5] = ["send_message", "send_channel", "group_send", "group_status", "todo"];

/// Handles the rows of a member's log, one after the other.
pub(super) async fn follow(inner: Weak<Inner>, id: String, mut watcher: Watcher) {
    loop {
        let row = match watcher.next().await {
            Ok(row) => Arc::new(row),
            Err(fault) => {
                tracing::warn!(%fault, id, "the log of a member can't be read");
                tokio::time::sleep(AGAIN).await;
                continue;
            }
        };
        loop {
            let Some(inner) = inner.upgrade() else { return };
            match inner.take_row(&id, &row).await {
                Ok(()) => break,
                Err(fault) => {
                    tracing::warn!(%fault, id, seq = row.seq, "a row of a member's log was not handled");
                    drop(inner);
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }
}

impl Inner {
    async fn take_row(self: &Arc<Self>, id: &str, row: &Arc<Row>) -> Result<(), Fault> {
        match &row.event {
            Event::TurnBegan { by, .. } => self.with_live(id, |live| {
                live.standing.status = Status::Busy;
                let kind = if by == "job" { "job" } else { "message" };
                live.began = Some((kind.to_owned(), row.at_ms));
            }),
            Event::TurnEnded(end) => self.turn_ended(id, row, end).await?,
            other => {
                if let Some((_, event)) = other.of_agent() {
                    self.agent_event(id, row, event).await?;
                }
            }
        }
        let shown = {
            let mut state = self.state.lock();
            let name = state.topology.name(id).to_owned();
            state.live.get_mut(id).map(|live| {
                live.seen = live.seen.max(row.seq);
                (name, live.session.clone())
            })
        };
        if let Some((member, session)) = shown {
            self.show(Seen::Row { member, session, row: row.clone() });
        }
        self.touch();
        Ok(())
    }

    fn with_live(&self, id: &str, change: impl FnOnce(&mut super::state::Live)) {
        if let Some(live) = self.state.lock().live.get_mut(id) {
            change(live);
        }
    }

    async fn agent_event(self: &Arc<Self>, id: &str, row: &Row, event: &agent::Event) -> Result<(), Fault> {
        match event {
            agent::Event::Used { usage, cost } => {
                let used = Used { turns: 0, tokens: usage.all(), steps: 1, cost: cost.unwrap_or(0.0) };
                let step = Step { member: id.to_owned(), seen: row.seq, used, ..Step::default() };
                self.store.groups().step(&self.name, step).await?;
                self.with_live(id, |live| live.done = live.done.max(row.seq));
            }
            agent::Event::Answered { tool, ok: true, .. } if !TALK.contains(&tool.as_str()) => {
                self.state.lock().exchanges.changed(&[id.to_owned()]);
            }
            agent::Event::MessageShown { source, from, .. } => self.message_shown(id, source, from).await?,
            _ => {}
        }
        Ok(())
    }

    /// Counts a message between members, and pauses those that only answer each other.
    async fn message_shown(&self, id: &str, source: &str, from: &str) -> Result<(), Fault> {
        let most = self.budget.limits().exchanges.unwrap_or(Limits::EXCHANGES).max(1);
        let looping = {
            let mut state = self.state.lock();
            match state.topology.resolve(id, from) {
                Ok(from) if from != id && matches!(source, "channel" | "direct" | "output") => {
                    state.exchanges.delivered(&from, id, most)
                }
                _ => {
                    state.exchanges.changed(&[id.to_owned()]);
                    None
                }
            }
        };
        match looping {
            Some(looping) => self.pause_loop(looping).await,
            None => Ok(()),
        }
    }

    async fn pause_loop(&self, looping: Looping) -> Result<(), Fault> {
        let Looping { members, exchanges } = looping;
        let names: Vec<String> = {
            let state = self.state.lock();
            members.iter().map(|it| state.topology.name(it).to_owned()).collect()
        };
        for member in &members {
            self.hold_turns(member, true);
            let (running, killed) = {
                let state = self.state.lock();
                state.live.get(member).map_or((true, false), |it| (it.running, it.standing.killed))
            };
            let flags = (running, true, killed);
            self.store.groups().set_flags(&self.name, member, flags, Vec::new()).await?;
        }
        let body = json!({"members": names, "exchanges": exchanges});
        let looped = event("loop_paused", members.first().map(String::as_str), body);
        // Whoever is above them and not part of it gets to know, too.
        let text = format!(
            "{} are paused: they sent each other messages {exchanges} times and nothing else changed. Resume them with \
             another instruction, or stop them.",
            names.join(" and ")
        );
        let above = {
            let state = self.state.lock();
            let above = members.iter().find_map(|it| state.topology.parent_of(it)).map(str::to_owned);
            let above = above.or_else(|| state.first().cloned()).filter(|it| !members.contains(it));
            above.and_then(|it| state.live.get(&it).map(|live| live.session.clone()))
        };
        if let Some(session) = above {
            self.store.inbox().post(NewMessage::new(session, Source::Output, "group", text)).await?;
        }
        self.note(vec![looped]).await
    }

    async fn turn_ended(self: &Arc<Self>, id: &str, row: &Row, end: &TurnEnd) -> Result<(), Fault> {
        let is_interrupted = end.ended == "interrupted";
        let began = {
            let mut state = self.state.lock();
            let Some(live) = state.live.get_mut(id) else { return Ok(()) };
            live.is_interrupted = is_interrupted;
            live.began.take()
        };
        let mut step = Step { member: id.to_owned(), seen: row.seq, is_turn: true, ..Step::default() };
        match end.ended.as_str() {
            "interrupted" | "cancelled" => {}
            "done" if self.says_nothing_new(id, row, end).await? => {}
            "done" => {
                step.messages =
                    self.wired(id, row, end, began.as_ref().map_or("message", |it| it.0.as_str()));
                let report = self.report(id, row, end, began.map_or(0, |it| it.1), &step.messages).await?;
                step.messages.extend(report);
                step.events.push(event(
                    "creature_output",
                    Some(id),
                    json!({"text": end.text, "steps": end.steps}),
                ));
            }
            _ => {
                let why = match &end.error {
                    Some(failure) => failure.what.clone(),
                    None => format!("its turn ended by a limit or a refusal ({})", end.ended),
                };
                (step.messages, step.events) = self.failure(id, row, &why);
            }
        }
        let events = step.events.clone();
        let is_new = self.store.groups().step(&self.name, step).await?;
        {
            let mut state = self.state.lock();
            if let Some(live) = state.live.get_mut(id) {
                live.done = live.done.max(row.seq);
                live.turns += u64::from(is_new);
                let failed = !matches!(end.ended.as_str(), "done" | "cancelled" | "interrupted");
                live.standing.status = if failed { Status::Error } else { Status::Idle };
                live.seen = live.seen.max(row.seq);
            }
        }
        if is_new {
            self.announce(&events);
        }
        if is_interrupted {
            self.go_on(id).await;
        }
        Ok(())
    }

    /// Returns whether a turn ended without an answer of its own, so that its text is that of a turn before. A member that goes on
    /// with an interrupted turn may find its answer complete: then the text is new, unless a message has begun a turn before it.
    async fn says_nothing_new(&self, id: &str, row: &Row, end: &TurnEnd) -> Result<bool, Fault> {
        if end.steps > 0 {
            return Ok(false);
        }
        let cut =
            end.key.as_deref().and_then(|it| it.strip_prefix(GO_ON)).and_then(|it| it.parse::<u64>().ok());
        let session = self.state.lock().live.get(id).map(|it| it.session.clone());
        let (Some(cut), Some(session)) = (cut, session) else { return Ok(true) };
        let (events, until) = (self.store.events(), row.seq);
        blocking(move || {
            let mut after = cut;
            loop {
                let page = events.page(&session, after, PAGE, usize::MAX)?;
                let Some(last) = page.last() else { return Ok(false) };
                after = last.seq;
                for stored in page {
                    if stored.seq >= until {
                        return Ok(false);
                    }
                    if matches!(serde_json::from_str(&stored.body), Ok(Event::TurnEnded(end)) if end.ended == "done") {
                        return Ok(true);
                    }
                }
            }
        })
        .await
    }

    /// Returns the messages that the output wires of a member bring about.
    fn wired(&self, id: &str, row: &Row, end: &TurnEnd, began: &str) -> Vec<NewMessage> {
        let state = self.state.lock();
        let (Some((_, graph)), Some(source)) = (state.topology.graph_of(id), state.live.get(id)) else {
            return Vec::new();
        };
        let mut messages = Vec::new();
        for wire in graph.wires_of(id) {
            let target = match wire.to.as_str() {
                // A member may also be called so.
                ROOT => state.topology.privileged_of(graph).next().map(str::to_owned),
                _ => None,
            };
            let target = target.or_else(|| state.topology.resolve(id, &wire.to).ok());
            let Some(live) = target.as_ref().and_then(|it| state.live.get(it)).filter(|it| it.running) else {
                tracing::info!(from = id, to = wire.to, "an output wire leads to nobody who runs");
                continue;
            };
            let target = target.unwrap_or_default();
            if target == id && !wire.allow_self_trigger {
                continue;
            }
            let text = wire.render(Variables {
                source: state.topology.name(id),
                target: state.topology.name(&target),
                content: &end.text,
                turn_index: source.turns,
                source_event_type: began,
            });
            messages.push(NewMessage {
                key: Some(format!("{} {} row {}", wire.id(), source.session, row.seq)),
                sender_session: Some(source.session.clone()),
                ..NewMessage::new(live.session.clone(), Source::Output, state.topology.name(id), text)
            });
        }
        messages
    }

    /// Returns the last text of a member as its report, if it sent nothing to who started it in this turn.
    async fn report(
        &self,
        id: &str,
        row: &Row,
        end: &TurnEnd,
        since_ms: u64,
        wired: &[NewMessage],
    ) -> Result<Option<NewMessage>, Fault> {
        if end.text.trim().is_empty() {
            return Ok(None);
        }
        let (name, own, above) = {
            let state = self.state.lock();
            let parent = state.topology.parent_of(id).and_then(|it| state.live.get(it));
            let (Some(own), Some(parent)) = (state.live.get(id), parent.filter(|it| it.running)) else {
                return Ok(None);
            };
            (state.topology.name(id).to_owned(), own.session.clone(), parent.session.clone())
        };
        if wired.iter().any(|it| it.recipient == above) {
            return Ok(None);
        }
        let (inbox, recipient, sender) = (self.store.inbox(), above.clone(), own.clone());
        let has_sent = super::blocking(move || {
            let arrivals = inbox.list(&recipient, LOOK_BACK)?;
            let is_own = |it: &store::Arrival| it.sender_session.as_deref() == Some(sender.as_str());
            Ok(arrivals.iter().any(|it| is_own(it) && it.at_ms >= since_ms))
        });
        if has_sent.await? {
            return Ok(None);
        }
        let text = format!("[report of {name}] {}", end.text);
        Ok(Some(NewMessage {
            key: Some(format!("report of {own} row {}", row.seq)),
            sender_session: Some(own),
            ..NewMessage::new(above, Source::Output, name, text)
        }))
    }

    /// Returns the message and the event about a failure: its parent gets it, else whoever is privileged in its graph.
    fn failure(&self, id: &str, row: &Row, why: &str) -> (Vec<NewMessage>, Vec<NewGroupEvent>) {
        let failed = event("creature_failed", Some(id), json!({"why": why}));
        let messages = self.tell_above(id, why, &format!("row {}", row.seq));
        (messages, vec![failed])
    }

    fn tell_above(&self, id: &str, why: &str, key: &str) -> Vec<NewMessage> {
        let state = self.state.lock();
        let name = state.topology.name(id);
        let above: Vec<String> = match (state.topology.parent_of(id), state.topology.graph_of(id)) {
            (Some(parent), _) => vec![parent.to_owned()],
            (None, Some((_, graph))) => state.topology.privileged_of(graph).map(str::to_owned).collect(),
            (None, None) => Vec::new(),
        };
        let sessions = above
            .iter()
            .filter(|it| *it != id)
            .filter_map(|it| state.live.get(it))
            .filter(|it| it.running)
            .map(|it| it.session.clone());
        let own = state.live.get(id).map(|it| it.session.clone());
        sessions
            .map(|session| NewMessage {
                key: Some(format!("failure of {id} {key}")),
                sender_session: own.clone(),
                ..NewMessage::new(session, Source::Output, name, format!("[failure of {name}] {why}"))
            })
            .collect()
    }

    /// Records that a member could not be started, or that its process ended. Returns whether another member gets to know.
    pub(super) async fn failed(&self, id: &str, why: &str) -> Result<bool, Fault> {
        let key = self.store.call_id();
        let messages = self.tell_above(id, why, &key);
        let is_known = !messages.is_empty();
        for message in messages {
            self.store.inbox().post(message).await?;
        }
        self.with_live(id, |live| live.standing.status = Status::Error);
        self.note(vec![event("creature_failed", Some(id), json!({"why": why}))]).await?;
        Ok(is_known)
    }
}

//! The life of members: start, stop, pause, kill, removal; and what the group as a whole waits for.

use std::{sync::Arc, time::Duration};

use kit::{Fault, Kind, services::LifeChange};
use serde_json::{Value, json};
use sessions::{Operation, Prompt};
use store::{NewMessage, Source, groups::NewGroupEvent};
use tokio_util::task::AbortOnDropHandle;

use super::{Inner, blocking, event, member_logs, process::Process};
use crate::{runtime_prompt::block, status::Status};

/// The longest time that the end of a member takes, once its turn is cancelled.
const END: Duration = Duration::from_secs(5);

/// The name by which the service asks sessions for something.
const GROUP: &str = "group";

impl Inner {
    /// Opens the session of a member and follows its log.
    pub(super) async fn start(self: &Arc<Self>, id: &str) -> Result<(), Fault> {
        let (session, seen, has_process, ran) = {
            let mut state = self.state.lock();
            let live = state.live.get_mut(id).ok_or_else(|| Fault::not_found(format!("no agent `{id}`")))?;
            // A stop that comes while it starts sets this again.
            let ran = std::mem::replace(&mut live.running, true);
            (live.session.clone(), live.done, live.spec.process, ran)
        };
        let opened = match has_process {
            true => self.open_process(id).await,
            false => Ok(()),
        };
        let opened = match opened {
            Ok(()) => self.sessions.open(Some(&session), GROUP).await,
            Err(fault) => Err(fault),
        };
        let is_wanted = self.state.lock().live.get(id).is_some_and(|it| it.running);
        let handle = match opened {
            Ok(handle) if is_wanted => handle,
            opened => {
                if let Ok(handle) = &opened {
                    drop(handle.act(&self.store.call_id(), Operation::Close).await);
                }
                self.end_process(id).await;
                if let Some(live) = self.state.lock().live.get_mut(id) {
                    live.running = live.running && ran;
                }
                let stopped = || Fault::new(Kind::Cancelled, "it was stopped while it started");
                return Err(opened.err().filter(|_| is_wanted).unwrap_or_else(stopped));
            }
        };
        let watcher = handle.watch(seen);
        {
            let mut state = self.state.lock();
            let Some(live) = state.live.get_mut(id) else { return Ok(()) };
            (live.running, live.standing.killed) = (true, false);
            live.handle = Some(handle);
            if let Some(process) = &live.process {
                // Both may have changed since it was started.
                process.set_gate(!live.standing.paused);
                live.standing.status = Status::Idle;
            }
            live.is_down = false;
            state.unreported.remove(id);
        }
        if has_process {
            self.refresh();
        }
        let task = tokio::spawn(member_logs::follow(Arc::downgrade(self), id.to_owned(), watcher));
        if let Some(live) = self.state.lock().live.get_mut(id) {
            live.follows = Some(AbortOnDropHandle::new(task));
        }
        self.write_flags(id, vec![event("creature_started", Some(id), json!({}))]).await?;
        self.begin_by_config(id).await
    }

    /// Starts the process of a member, and waits until it has opened the session.
    async fn open_process(self: &Arc<Self>, id: &str) -> Result<(), Fault> {
        let (process, opening) = Process::start(self, id)?;
        let before = self.state.lock().live.get_mut(id).and_then(|it| it.process.replace(process));
        if let Some(before) = before {
            before.end().await;
        }
        Process::is_open(opening).await
    }

    /// Ends the process of a member, if it has one.
    async fn end_process(&self, id: &str) {
        let process = self.state.lock().live.get_mut(id).and_then(|it| it.process.take());
        if let Some(process) = process {
            process.end().await;
        }
    }

    /// Gives a member the prompt of its startup trigger, once in its life.
    async fn begin_by_config(&self, id: &str) -> Result<(), Fault> {
        let startup = {
            let state = self.state.lock();
            state.live.get(id).and_then(|it| Some((it.session.clone(), it.spec.startup.clone()?)))
        };
        if let Some((session, prompt)) = startup {
            let message = NewMessage {
                key: Some("startup".to_owned()),
                ..NewMessage::new(session, Source::Trigger, "startup", prompt)
            };
            self.store.inbox().post(message).await?;
        }
        Ok(())
    }

    pub(super) async fn write_flags(&self, id: &str, events: Vec<NewGroupEvent>) -> Result<(), Fault> {
        self.write_flags_with(id, None, events).await
    }

    /// Like [`write_flags`](Self::write_flags), with another value for whether it is paused.
    async fn write_flags_with(
        &self,
        id: &str,
        paused: Option<bool>,
        events: Vec<NewGroupEvent>,
    ) -> Result<(), Fault> {
        let flags = {
            let state = self.state.lock();
            let Some(live) = state.live.get(id) else { return Ok(()) };
            (live.running, paused.unwrap_or(live.standing.paused), live.standing.killed)
        };
        self.store.groups().set_flags(&self.name, id, flags, events.clone()).await?;
        self.announce(&events);
        Ok(())
    }

    /// Cancels the turn that a member works on.
    pub(super) async fn cancel_turn(&self, id: &str) {
        let handle = self.state.lock().live.get(id).and_then(|it| it.handle.clone());
        if let Some(handle) = handle {
            let key = self.store.call_id();
            if let Err(fault) = handle.act(&key, Operation::Cancel { prompt: None }).await {
                tracing::warn!(%fault, id, "a turn was not cancelled");
            }
        }
    }

    /// Ends the session of a member: its turn, its jobs and its keeper with everything that it started.
    pub(super) async fn end(&self, id: &str) {
        let handle = self.state.lock().live.get_mut(id).and_then(|it| {
            it.agent = None;
            it.process.iter().for_each(|it| it.is_to_end());
            it.handle.take()
        });
        let Some(handle) = handle else {
            // It may be starting.
            return self.end_process(id).await;
        };
        for operation in [Operation::Cancel { prompt: None }, Operation::Close] {
            let key = self.store.call_id();
            match tokio::time::timeout(END, handle.act(&key, operation)).await {
                Ok(Ok(_)) => {}
                Ok(Err(fault)) => tracing::warn!(%fault, id, "a member did not end"),
                Err(_) => tracing::warn!(id, "a member did not end in time"),
            }
        }
        // What was logged until now still counts, as its text may be wired to others.
        self.read_to_end(id).await;
        self.end_process(id).await;
        if let Some(live) = self.state.lock().live.get_mut(id) {
            live.follows = None;
            live.began = None;
            if live.standing.status != Status::Error {
                live.standing.status = Status::Stopped;
            }
        }
        self.touch();
    }

    /// Waits until the log of a member is read, briefly.
    pub(super) async fn read_to_end(&self, id: &str) {
        let mut changed = self.changed.subscribe();
        let wait = async {
            loop {
                changed.borrow_and_update();
                let found = {
                    let state = self.state.lock();
                    state.live.get(id).map(|it| (it.session.clone(), it.seen))
                };
                let Some((session, seen)) = found else { return };
                let events = self.store.events();
                if blocking(move || events.head(&session)).await.is_ok_and(|head| head <= seen) {
                    return;
                }
                if changed.changed().await.is_err() {
                    return;
                }
            }
        };
        drop(tokio::time::timeout(Duration::from_secs(1), wait).await);
    }

    /// Sets whether a member begins turns by its messages.
    pub(super) fn hold_turns(&self, id: &str, held: bool) {
        if let Some(live) = self.state.lock().live.get_mut(id) {
            live.standing.paused = held;
            live.gate.send_replace(!held);
            if let Some(process) = &live.process {
                process.set_gate(!held);
            }
        }
    }

    /// Changes the life of a member, in the name of a privileged one or of the person.
    pub(super) async fn change_life(
        self: &Arc<Self>,
        caller: Option<&str>,
        target: &str,
        change: LifeChange,
    ) -> Result<Value, Fault> {
        let id = self.resolve(caller, target)?;
        let (name, is_privileged, running, paused, is_down) = {
            let state = self.state.lock();
            let live = state.live.get(&id).ok_or_else(|| Fault::not_found(format!("no agent `{id}`")))?;
            let name = state.topology.name(&id).to_owned();
            (name, state.topology.is_privileged(&id), live.running, live.standing.paused, live.is_down)
        };
        let verb = change.verb();
        if caller.is_some() && is_privileged {
            let what = format!("'{name}' is privileged: no agent may {verb} it; only the user can do that");
            return Err(Fault::denied(what).next("The user does it with `haft group`."));
        }
        let needless = |why: &str| Err(Fault::new(Kind::Stale, format!("nothing to {verb}: '{name}' {why}")));
        let mine = |kind: &str| event(kind, Some(&id), json!({}));
        match change {
            LifeChange::Start if running && !is_down => needless("runs already"),
            LifeChange::Stop | LifeChange::Kill | LifeChange::Pause if !running => needless("does not run"),
            LifeChange::Pause if paused => needless("is paused"),
            LifeChange::Resume if !paused => needless("has no pause"),
            LifeChange::Start => {
                self.start(&id).await.map_err(|fault| Fault {
                    what: format!("'{name}' did not start: {}", fault.what),
                    ..fault
                })?;
                Ok(json!({"started": id}))
            }
            LifeChange::Stop | LifeChange::Kill => {
                let is_kill = change == LifeChange::Kill;
                if let Some(live) = self.state.lock().live.get_mut(&id) {
                    (live.running, live.standing.killed) = (false, is_kill);
                }
                // Before it ends: from now on nobody can send to it.
                self.write_flags(&id, Vec::new()).await?;
                self.end(&id).await;
                let ended = event("creature_stopped", Some(&id), json!({"killed": is_kill}));
                self.note(vec![ended]).await?;
                Ok(if is_kill {
                    json!({"killed": id, "hard_kill_supported": true})
                } else {
                    json!({"stopped": id})
                })
            }
            LifeChange::Pause => {
                self.hold_turns(&id, true);
                let process = self.state.lock().live.get(&id).and_then(|it| it.process.clone());
                if let Some(process) = process {
                    // Its process holds them once it has answered.
                    process.owes_jobs().await;
                }
                self.write_flags(&id, vec![mine("creature_paused")]).await?;
                Ok(json!({"paused": id}))
            }
            LifeChange::Resume => {
                // The event is on record before the turn that may begin now.
                self.write_flags_with(&id, Some(false), vec![mine("creature_resumed")]).await?;
                self.hold_turns(&id, false);
                self.go_on(&id).await;
                Ok(json!({"resumed": id}))
            }
            LifeChange::Remove => {
                self.remove(&id).await?;
                let state = self.state.lock();
                let graph = caller.and_then(|it| state.topology.graph_of(it));
                Ok(match graph {
                    Some((graph, _)) => json!({"removed": id, "caller_graph_id": graph}),
                    None => json!({"removed": id}),
                })
            }
        }
    }

    /// Has a member go on with a turn that the end of its process interrupted.
    pub(super) async fn go_on(self: &Arc<Self>, id: &str) {
        let handle = {
            let mut state = self.state.lock();
            state.live.get_mut(id).and_then(|live| {
                let is_due = live.running && !live.standing.paused && live.is_interrupted;
                let handle = live.handle.clone().filter(|_| is_due)?;
                (live.is_interrupted, live.goes_on) = (false, true);
                Some((handle, live.seen))
            })
        };
        let Some((handle, seen)) = handle else { return };
        let (id, group) = (id.to_owned(), Arc::downgrade(self));
        tokio::spawn(async move {
            let key = format!("{}{seen}", member_logs::GO_ON);
            if let Err(fault) = handle.act(&key, Operation::Prompt(Prompt::default())).await {
                tracing::debug!(%fault, id, "there is nothing to go on with");
            }
            let Some(group) = group.upgrade() else { return };
            if let Some(live) = group.state.lock().live.get_mut(&id) {
                live.goes_on = false;
            }
            group.touch();
        });
    }

    /// Gives a member a message of the person.
    pub(super) async fn say(&self, member: Option<&str>, text: &str, key: &str) -> Result<String, Fault> {
        let id = match member {
            Some(name) => self.resolve(None, name)?,
            None => {
                self.state.lock().first().cloned().ok_or_else(|| Fault::not_found("the group is empty"))?
            }
        };
        let session = self.state.lock().live.get(&id).map(|it| it.session.clone()).unwrap_or_default();
        let message = NewMessage {
            key: Some(key.to_owned()),
            ..NewMessage::new(session, Source::Person, "the person", text)
        };
        let posted = self.store.inbox().post_to_member(message).await?;
        match posted {
            Ok(posted) => {
                self.touch();
                Ok(posted.message)
            }
            Err(refused) => {
                let name = self.state.lock().topology.name(&id).to_owned();
                let fault = Fault::new(Kind::Unavailable, format!("`{name}` takes no messages: {refused:?}"));
                Err(fault.next("`haft group resume` starts it again."))
            }
        }
    }

    /// Replaces the block of the group in the system prompts of all members that run.
    pub(super) fn refresh(&self) {
        let state = self.state.lock();
        for (id, live) in &state.live {
            if let Some(process) = &live.process {
                process.set_block(block(&state.topology, id));
            }
            if let Some(agent) = &live.agent {
                agent.set_block(block(&state.topology, id).as_deref());
            }
        }
    }

    /// Returns whether nobody works and nothing waits.
    pub(super) async fn is_quiet(&self) -> Result<bool, Fault> {
        let all: Vec<(String, u64, bool, bool)> = {
            let state = self.state.lock();
            let busy = state.live.values().any(|it| {
                it.standing.status == Status::Busy
                    || it.goes_on
                    || (it.is_interrupted && !it.standing.paused && it.running)
            });
            if busy {
                return Ok(false);
            }
            let runs = |it: &&super::state::Live| it.handle.is_some();
            state
                .live
                .values()
                .filter(runs)
                .map(|it| (it.session.clone(), it.seen, it.standing.paused, it.running))
                .collect()
        };
        let store = self.store.clone();
        let sessions: Vec<String> = all.iter().map(|it| it.0.clone()).collect();
        let quiet = blocking(move || {
            // A message that is shown meanwhile moves the head of its log.
            let heads = |seen: &[(String, u64, bool, bool)]| -> Result<bool, Fault> {
                for (session, seen, ..) in seen {
                    if store.events().head(session)? > *seen {
                        return Ok(false);
                    }
                }
                Ok(true)
            };
            if !heads(&all)? {
                return Ok(false);
            }
            for (session, _, paused, running) in &all {
                if *running && !paused && store.inbox().has_queued(session)? {
                    return Ok(false);
                }
            }
            heads(&all)
        });
        if !quiet.await? {
            return Ok(false);
        }
        for session in sessions {
            let (agent, process) = {
                let state = self.state.lock();
                let live = state.by_session(&session).and_then(|id| state.live.get(id));
                (live.and_then(|it| it.agent.clone()), live.and_then(|it| it.process.clone()))
            };
            if let Some(agent) = agent
                && agent.owes_jobs().await
            {
                return Ok(false);
            }
            if let Some(process) = process
                && process.owes_jobs().await
            {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

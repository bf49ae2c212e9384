//! Streams of server-sent events: rows of one session, and what changes in the list of all.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, interval, sleep},
};

use crate::{
    answer::Answer,
    call::StreamAccess,
    overview::{self, Look},
    role::Role,
    rows::Renderer,
    shared::Shared,
    workspaces::Workspace,
};

/// How often a stream on which nothing happens says that it is alive.
const BEAT: Duration = Duration::from_secs(15);

/// The interval between reads of the list of all sessions, while somebody watches it.
const LOOK: Duration = Duration::from_millis(500);

/// How long no row comes before the Markdown of the end of a text is sent.
const REST: Duration = Duration::from_millis(200);

/// Rows are sent together up to this size, in bytes.
const CHUNK: usize = 64 << 10;

/// So many chunks wait for a slow reader; rows beyond stay on the disk.
const CHUNKS: usize = 4;

/// Returns a row as a server-sent event.
fn sent(id: u64, value: &Value) -> String {
    format!("id: {id}\ndata: {value}\n\n")
}

fn named(name: &str, value: &Value) -> String {
    format!("event: {name}\ndata: {value}\n\n")
}

/// The rows of a session after this number, and those that come.
pub(crate) fn rows(access: StreamAccess, workspace: Arc<Workspace>, session: String, after: u64) -> Answer {
    let (sender, receiver) = mpsc::channel(CHUNKS);
    tokio::spawn(async move {
        let _counted = access.server.counts.stream();
        let ended = access.server.closing.clone();
        tokio::select! {
            () = write_rows(&workspace, &session, after, access.who.role, &sender) => {}
            () = workspace.closed.cancelled() => drop(sender.send(named("gone", &json!({})).into()).await),
            () = access.ended() => {}
            // The client has gone, or the server ends: nothing of this stream stays.
            () = sender.closed() => {}
            () = ended.cancelled() => {}
        }
    });
    stream(receiver)
}

fn stream(receiver: mpsc::Receiver<Bytes>) -> Answer {
    Answer::written("text/event-stream", receiver)
        // A proxy must not gather events.
        .header(http::HeaderName::from_static("x-accel-buffering"), "no")
}

async fn write_rows(
    workspace: &Arc<Workspace>,
    session: &str,
    after: u64,
    role: Role,
    sender: &mpsc::Sender<Bytes>,
) {
    let mut renderer = match Renderer::resume(&workspace.sessions, session, after).await {
        Ok(renderer) => renderer,
        Err(fault) => return failed(sender, &fault).await,
    };
    let mut watcher = workspace.sessions.watch(session, after);
    // Whoever can decide counts as somebody to ask.
    let _attends = (role >= Role::Approve).then(|| workspace.sessions.attend(session, "page"));
    let mut beat = interval(BEAT);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    beat.tick().await;
    let mut is_ready = false;
    loop {
        let mut chunk = String::new();
        loop {
            match watcher.try_next().await {
                Ok(Some(row)) => {
                    chunk.push_str(&sent(row.seq, &renderer.row(&row)));
                    if chunk.len() >= CHUNK {
                        break;
                    }
                }
                Ok(None) => {
                    if !is_ready {
                        is_ready = true;
                        chunk.push_str(&named("ready", &json!({"head": watcher.after()})));
                    }
                    break;
                }
                Err(fault) => return failed(sender, &fault).await,
            }
        }
        if !chunk.is_empty() {
            if sender.send(chunk.into()).await.is_err() {
                return;
            }
            continue;
        }
        tokio::select! {
            biased;
            row = watcher.next() => match row {
                Ok(row) => {
                    if sender.send(sent(row.seq, &renderer.row(&row)).into()).await.is_err() {
                        return;
                    }
                }
                Err(fault) => return failed(sender, &fault).await,
            },
            () = sleep(REST), if renderer.has_rest() => {
                let rest: String = renderer.rest().iter().map(|it| named("md", it)).collect();
                if sender.send(rest.into()).await.is_err() {
                    return;
                }
            }
            _ = beat.tick() => {
                let name = session.to_owned();
                let store = workspace.runtime.store().clone();
                let deleted = tokio::task::spawn_blocking(move || store.conversations().is_deleted(&name)).await;
                if matches!(deleted, Ok(Ok(true))) {
                    let _ = sender.send(named("gone", &json!({})).into()).await;
                    return;
                }
                if sender.send(named("beat", &json!({"head": watcher.after()})).into()).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Ends a stream whose rows can't be read now: the client reconnects for them.
async fn failed(sender: &mpsc::Sender<Bytes>, fault: &kit::Fault) {
    tracing::warn!(%fault, "a stream of events ended");
    let _ = sender.send(Bytes::from_static(b"retry: 1000\n\n")).await;
}

/// Streams the changes of the list of all sessions, and of the open approvals and questions.
pub(crate) fn all(access: StreamAccess) -> Answer {
    let (sender, receiver) = mpsc::channel(CHUNKS);
    tokio::spawn(async move {
        let _counted = access.server.counts.stream();
        let ended = access.server.closing.clone();
        tokio::select! {
            () = write_all(&access.server, &sender) => {}
            () = access.ended() => {}
            () = sender.closed() => {}
            () = ended.cancelled() => {}
        }
    });
    stream(receiver)
}

async fn write_all(server: &Arc<Shared>, sender: &mpsc::Sender<Bytes>) {
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut before, mut waiting): (Option<Vec<Value>>, Value) = (None, Value::Null);
    let mut quiet = Duration::ZERO;
    loop {
        look.tick().await;
        quiet += LOOK;
        let mut chunk = String::new();
        match overview::all(server, &Look::default()).await {
            Ok(seen) => {
                let sessions: Vec<Value> = seen.iter().map(|it| it.session.clone()).collect();
                let changed: Vec<&Value> = match &before {
                    Some(before) => sessions.iter().filter(|it| !before.contains(it)).collect(),
                    None => sessions.iter().collect(),
                };
                let id = |it: &Value| (it.get("workspace").cloned(), it.get("id").cloned());
                let ids: Vec<_> = sessions.iter().map(id).collect();
                let gone = before.iter().flatten().filter(|it| !ids.contains(&id(it)));
                let removed: Vec<Value> = gone.filter_map(|it| it.get("id").cloned()).collect();
                if before.is_none() || !changed.is_empty() || !removed.is_empty() {
                    chunk.push_str(&named("sessions", &json!({"changed": changed, "removed": removed})));
                }
                before = Some(sessions);
                let now = overview::waiting(server, &seen);
                if now != waiting {
                    chunk.push_str(&named("approvals", &now));
                    waiting = now;
                }
            }
            Err(fault) => tracing::warn!(%fault, "the list of sessions can't be read"),
        }
        if quiet >= BEAT && chunk.is_empty() {
            chunk.push_str(&named("beat", &json!({})));
        }
        if !chunk.is_empty() {
            quiet = Duration::ZERO;
            if sender.send(chunk.into()).await.is_err() {
                return;
            }
        }
    }
}

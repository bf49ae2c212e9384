//! Arrivals in the inbox of a session, in its log when they come: an agent that works is shown them a step later.

use std::{sync::Weak, time::Duration};

use kit::{Fault, escape::visible};
use store::{Arrival, ArrivalState, Source, Store};
use tokio::time::timeout;

use crate::{event::Event, log::Log};

/// Interval at which the inbox is read for messages of processes that could not announce them.
const UNANNOUNCED: Duration = Duration::from_secs(1);

/// Maximum number of messages to read at a time.
const SOME: usize = 200;

/// The longest line of a message in an event, in characters.
const LINE: usize = 120;

/// Logs each message that arrives while this process runs the session, and those that waited before.
pub(super) async fn tell_of_arrivals(store: Store, session: String, log: Weak<Log>) {
    let mut arrivals = store.inbox().arrivals(&session);
    let begun_ms = store::now_ms();
    let mut after: Option<u64> = None;
    loop {
        arrivals.borrow_and_update();
        let (of, name) = (store.clone(), session.clone());
        let read = tokio::task::spawn_blocking(move || {
            let after = match after {
                Some(after) => after,
                None => told_before(&of, &name)?,
            };
            Ok::<_, Fault>((after, of.inbox().after(&name, after, SOME)?))
        });
        let Ok(read) = read.await else { return };
        let Some(log) = log.upgrade() else { return };
        let mut is_full = false;
        match read {
            Ok((last, new)) => {
                is_full = new.len() == SOME;
                after = Some(new.last().map_or(last, |it| it.id));
                // Messages that an earlier process showed before it logged them get no event any more.
                // The end of a job has an event of its own.
                let is_new = |it: &&Arrival| {
                    it.source != Source::Job
                        && (it.state == ArrivalState::Queued || it.shown_ms >= Some(begun_ms))
                };
                new.iter().filter(is_new).for_each(|it| log.add(event(it)));
            }
            Err(fault) => tracing::debug!(%fault, session, "the inbox can't be read"),
        }
        drop(log);
        if !is_full {
            drop(timeout(UNANNOUNCED, arrivals.changed()).await);
        }
    }
}

/// Returns the number of the newest message whose arrival is in the log. Blocks.
fn told_before(store: &Store, session: &str) -> Result<u64, Fault> {
    let events = store.events();
    let Some(seq) = events.newest(session, "message_arrived")? else { return Ok(0) };
    let rows = events.page(session, seq.saturating_sub(1), 1, usize::MAX)?;
    let body = rows.first().and_then(|it| serde_json::from_str::<serde_json::Value>(&it.body).ok());
    Ok(body.and_then(|it| it.get("id")?.as_u64()).unwrap_or(0))
}

fn event(arrival: &Arrival) -> Event {
    let line = arrival.text.lines().find(|it| !it.trim().is_empty()).unwrap_or_default().trim();
    let short: String = line.chars().take(LINE).collect();
    let more = if short.len() < arrival.text.trim().len() { " …" } else { "" };
    Event::MessageArrived {
        id: arrival.id,
        message: arrival.message.clone(),
        source: arrival.source.name().to_owned(),
        from: arrival.sender.clone(),
        channel: arrival.channel.clone(),
        text: visible(&format!("{short}{more}")).0.into_owned(),
    }
}

#![expect(clippy::unwrap_used, reason = "tests")]

use std::{path::Path, sync::Arc};

use kit::redact::Secrets;
use serde_json::json;

use super::*;
use crate::{
    ArrivalState, Source,
    channels::{ChannelKind, Member, NewPost, Scope},
};

fn store(folder: &Path) -> Store {
    let secrets = Secrets::collect([("A_TOKEN", "hunter2hunter2")], []);
    Store::open(folder, Path::new("/nowhere/w"), Arc::new(secrets))
}

fn row(id: &str, next_fire_ms: Option<u64>) -> NewTriggerRow {
    NewTriggerRow {
        session: "s".to_owned(),
        id: id.to_owned(),
        kind: "add_timer".to_owned(),
        body: json!({"prompt": "look"}),
        origin: "tool".to_owned(),
        channel: None,
        secret: None,
        due_ms: next_fire_ms,
        next_fire_ms,
    }
}

fn fire(id: &str, expected: Option<(u64, u64)>) -> Fire {
    Fire {
        session: "s".to_owned(),
        id: id.to_owned(),
        expected: expected.map(|(fires, at)| Expected { fires, next_fire_ms: Some(at) }),
        at_ms: 0,
        day: "2026-11-24".to_owned(),
        then: expected.map_or(Then::Same, |(_, at)| Then::Due { due_ms: at + 10, next_fire_ms: at + 10 }),
        overlaps: false,
        max_per_day: None,
        by_person: false,
        delivery: None,
        message: NewMessage {
            grants: Some(vec!["net a.org".to_owned()]),
            ..NewMessage::new("s", Source::Trigger, id, "look hunter2hunter2")
        },
        note: "due".to_owned(),
    }
}

fn events(store: &Store, id: &str) -> Vec<HistoryEvent> {
    store.triggers().history("s", id, 100).unwrap().iter().map(|it| it.event).collect()
}

#[tokio::test]
async fn a_fire_is_claimed_once_and_its_message_is_in_the_inbox() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (store(folder.path()), store(folder.path()));
    assert!(one.triggers().add(row("t", Some(100))).await.unwrap());
    assert!(!one.triggers().add(row("t", Some(100))).await.unwrap(), "the id is taken");
    let both = tokio::join!(
        one.triggers().fire(fire("t", Some((0, 100)))),
        other.triggers().fire(fire("t", Some((0, 100))))
    );
    let (first, second) = (both.0.unwrap(), both.1.unwrap());
    let fired = [&first, &second].into_iter().filter(|it| matches!(it, Fired::Yes { number: 1, .. })).count();
    assert_eq!((fired, [&first, &second].into_iter().filter(|it| **it == Fired::Lost).count()), (1, 1));
    let queued = one.inbox().queued("s").unwrap();
    assert_eq!(queued.len(), 1);
    let message = queued.first().unwrap();
    assert_eq!(fire_of(&message.key), Some(("t", 1)));
    assert_eq!(message.text, "look [masked:A_TOKEN]");
    assert_eq!(message.grants.as_deref(), Some(&["net a.org".to_owned()][..]));
    let after = one.triggers().get("s", "t").unwrap().unwrap();
    assert_eq!((after.fires, after.next_fire_ms, after.busy), (1, Some(110), Some(1)));
    assert_eq!(events(&one, "t"), [HistoryEvent::Fired]);
}

#[tokio::test]
async fn a_fire_is_held_back_by_the_turn_before_a_limit_or_a_pause_and_the_history_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let triggers = store.triggers();
    triggers.add(row("t", Some(100))).await.unwrap();
    triggers.fire(fire("t", Some((0, 100)))).await.unwrap();
    assert_eq!(triggers.fire(fire("t", Some((1, 110)))).await.unwrap(), Fired::No(HistoryEvent::Overlap));
    triggers.turn_ended("s", "t", 1, "done").await.unwrap();
    let limited = |expected| Fire { max_per_day: Some(2), ..fire("t", Some(expected)) };
    assert!(matches!(triggers.fire(limited((1, 120))).await.unwrap(), Fired::Yes { number: 2, .. }));
    triggers.turn_ended("s", "t", 2, "").await.unwrap();
    assert_eq!(triggers.fire(limited((2, 130))).await.unwrap(), Fired::No(HistoryEvent::DailyCap));
    let tomorrow = Fire { day: "2026-11-25".to_owned(), ..limited((2, 140)) };
    assert!(matches!(triggers.fire(tomorrow).await.unwrap(), Fired::Yes { number: 3, .. }));
    assert!(triggers.set_paused("s", "t", true, None, "").await.unwrap());
    assert!(!triggers.set_paused("s", "t", true, None, "").await.unwrap(), "it is paused already");
    assert_eq!(triggers.fire(fire("t", None)).await.unwrap(), Fired::No(HistoryEvent::PausedFire));
    assert_eq!(triggers.fire(fire("t", Some((3, 150)))).await.unwrap(), Fired::No(HistoryEvent::PausedFire));
    let by_person = Fire { by_person: true, ..fire("t", None) };
    assert!(matches!(triggers.fire(by_person).await.unwrap(), Fired::Yes { number: 4, .. }));
    assert!(triggers.set_paused("s", "t", false, Some((500, 500)), "2 left out").await.unwrap());
    use HistoryEvent::{DailyCap, Ended, Fired as Did, Overlap, Paused, PausedFire, Resumed};
    assert_eq!(
        events(&store, "t"),
        [Did, Overlap, Ended, Did, Ended, DailyCap, Did, Paused, PausedFire, PausedFire, Did, Resumed]
    );
    assert_eq!(triggers.get("s", "t").unwrap().unwrap().next_fire_ms, Some(500));
}

#[tokio::test]
async fn a_delivery_counts_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let triggers = store.triggers();
    triggers.add(NewTriggerRow { secret: Some("key".to_owned()), ..row("hook", None) }).await.unwrap();
    let delivery = |id: &str| Fire { delivery: Some(id.to_owned()), overlaps: true, ..fire("hook", None) };
    assert!(matches!(triggers.fire(delivery("a")).await.unwrap(), Fired::Yes { number: 1, .. }));
    assert_eq!(triggers.fire(delivery("a")).await.unwrap(), Fired::Known);
    assert!(matches!(triggers.fire(delivery("b")).await.unwrap(), Fired::Yes { number: 2, .. }));
    assert_eq!(triggers.secret("s", "hook").unwrap().as_deref(), Some("key"));
    assert_eq!(triggers.fire(fire("gone", None)).await.unwrap(), Fired::Gone);
}

#[tokio::test]
async fn a_trigger_that_is_made_again_fires_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let triggers = store.triggers();
    triggers.add(row("t", Some(100))).await.unwrap();
    triggers.fire(fire("t", Some((0, 100)))).await.unwrap();
    assert!(triggers.remove("s", "t").await.unwrap());
    assert!(!triggers.remove("s", "t").await.unwrap());
    assert!(events(&store, "t").is_empty());
    // Made within the same millisecond it would be the same one.
    tokio::time::sleep(std::time::Duration::from_millis(3)).await;
    triggers.add(row("t", Some(100))).await.unwrap();
    triggers.fire(fire("t", Some((0, 100)))).await.unwrap();
    assert_eq!(store.inbox().queued("s").unwrap().len(), 2);
}

#[tokio::test]
async fn a_dead_turn_frees_its_trigger_and_a_waiting_message_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let triggers = store.triggers();
    triggers.add(row("t", Some(100))).await.unwrap();
    triggers.fire(fire("t", Some((0, 100)))).await.unwrap();
    triggers.recover("s").await.unwrap();
    assert_eq!(triggers.get("s", "t").unwrap().unwrap().busy, Some(1), "its message waits");
    let id = store.inbox().queued("s").unwrap().first().unwrap().id;
    let shown = json!({"row": "item"});
    let claim = crate::Claim::Show(vec![id]);
    store.transcripts().add_rows("s", vec![(crate::Buffer::Context, 1, shown)], claim).await.unwrap();
    triggers.recover("s").await.unwrap();
    assert_eq!(triggers.get("s", "t").unwrap().unwrap().busy, None);
    assert_eq!(store.inbox().list("s", 9).unwrap().first().unwrap().state, ArrivalState::Shown);
}

#[tokio::test]
async fn a_person_is_told_once_of_refusals_and_missed_fires() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let triggers = store.triggers();
    triggers.add(row("t", Some(100))).await.unwrap();
    triggers.note("s", "t", HistoryEvent::Denied, Some(1), "shell: `x` hunter2hunter2").await.unwrap();
    triggers.note("s", "gone", HistoryEvent::Denied, Some(1), "x").await.unwrap();
    let expected = Expected { fires: 0, next_fire_ms: Some(100) };
    let then = Then::Due { due_ms: 200, next_fire_ms: 200 };
    assert!(triggers.pass("s", "t", expected, then, HistoryEvent::Asks, "due").await.unwrap());
    assert!(
        !triggers.pass("s", "t", expected, then, HistoryEvent::Asks, "due").await.unwrap(),
        "it was passed"
    );
    let untold = triggers.untold(None).unwrap();
    let texts: Vec<&str> = untold.iter().map(|it| it.text.as_str()).collect();
    assert_eq!(texts, ["shell: `x` [masked:A_TOKEN]", "due"]);
    triggers.told(&untold.iter().map(|it| it.id).collect::<Vec<_>>()).await.unwrap();
    assert!(triggers.untold(None).unwrap().is_empty());
}

fn post(scope: Scope, sender: &str, text: &str) -> NewPost {
    NewPost {
        scope,
        channel: "news".to_owned(),
        sender: sender.to_owned(),
        sender_session: Some(format!("s_{sender}")),
        content: json!(text),
        metadata: json!({"topic": "x"}),
        reply_to: None,
        key: None,
        needs_edge: false,
    }
}

#[tokio::test]
async fn a_message_on_a_watched_channel_fires_in_its_own_transaction() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let (triggers, channels) = (store.triggers(), store.channels());
    let scope = Scope::Environment("env_g".to_owned());
    channels.create(&scope, "news", ChannelKind::Broadcast, 0, "").await.unwrap();
    channels
        .join(Member {
            session: "s".to_owned(),
            environment: "env_g".to_owned(),
            id: "s".to_owned(),
            name: "s".to_owned(),
            parent: None,
            privileged: false,
            running: true,
        })
        .await
        .unwrap();
    channels.wire(&scope, "news", "s", crate::channels::Direction::Listen).await.unwrap();
    let watch = NewTriggerRow {
        channel: Some("news".to_owned()),
        body: json!({"prompt": "{topic}: {content} of {sender}", "filter_sender": "ann", "grants": ["net a.org"]}),
        ..row("w", None)
    };
    triggers.add(watch).await.unwrap();
    let sent = channels.send(post(scope.clone(), "ann", "hello")).await.unwrap().unwrap();
    assert_eq!(sent.recipients, ["s"]);
    // Not of the watched sender: the listener gets the message itself.
    channels.send(post(scope.clone(), "bob", "hi")).await.unwrap().unwrap();
    channels.send(post(Scope::Environment("env_other".to_owned()), "ann", "x")).await.unwrap().unwrap_err();
    let queued = store.inbox().queued("s").unwrap();
    let texts: Vec<(&str, Source)> = queued.iter().map(|it| (it.text.as_str(), it.source)).collect();
    assert_eq!(texts, [("x: hello of ann", Source::Trigger), ("hi", Source::Channel)]);
    assert_eq!(queued.first().unwrap().grants.as_deref(), Some(&["net a.org".to_owned()][..]));
}

#[tokio::test]
async fn a_daemon_runs_sessions_with_armed_triggers_and_with_messages() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let triggers = store.triggers();
    let of = |session: &str, origin: &str| NewTriggerRow {
        session: session.to_owned(),
        origin: origin.to_owned(),
        ..row("t", Some(100))
    };
    for (session, origin) in [("a", "tool"), ("b", "profile"), ("c", "tool")] {
        triggers.add(of(session, origin)).await.unwrap();
    }
    triggers.set_paused("c", "t", true, None, "").await.unwrap();
    store.inbox().post(NewMessage::new("d", Source::Direct, "x", "y")).await.unwrap();
    assert_eq!(triggers.sessions_to_run().unwrap(), ["a", "d"]);
}

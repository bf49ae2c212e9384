//! Tests: channels deliver each message once to each listener, and keep the last 200.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::{path::Path, sync::Arc};

use kit::redact::Secrets;
use serde_json::json;

use super::*;

fn store(folder: &Path) -> Store {
    Store::open(folder, Path::new("/nowhere/w"), Arc::new(Secrets::none()))
}

fn shared() -> Scope {
    Scope::Environment("env_1".to_owned())
}

fn private() -> Scope {
    Scope::Session("a".to_owned())
}

fn post(scope: Scope, sender: &str, text: &str) -> NewPost {
    NewPost {
        scope,
        channel: "c".to_owned(),
        sender: sender.to_owned(),
        sender_session: Some(sender.to_owned()),
        content: json!(text),
        metadata: json!({}),
        reply_to: None,
        key: None,
        needs_edge: true,
    }
}

#[tokio::test]
async fn broadcast_reaches_each_listener_once_but_not_its_sender() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let channels = store.channels();
    assert!(channels.create(&shared(), "c", ChannelKind::Queue, 0, "for tests").await.unwrap());
    assert!(!channels.create(&shared(), "c", ChannelKind::Queue, 0, "again").await.unwrap());
    assert_eq!(channels.get(&shared(), "c").unwrap().unwrap().kind, ChannelKind::Broadcast);
    for session in ["a", "b", "d"] {
        assert!(channels.wire(&shared(), "c", session, Direction::Listen).await.unwrap());
    }
    assert!(!channels.wire(&shared(), "absent", "a", Direction::Listen).await.unwrap());
    assert_eq!(channels.send(post(shared(), "a", "x")).await.unwrap(), Err(NotSent::NotWired));
    channels.wire(&shared(), "c", "a", Direction::Send).await.unwrap();
    let keyed = NewPost { key: Some("k".to_owned()), ..post(shared(), "a", "one") };
    let sent = channels.send(keyed.clone()).await.unwrap().unwrap();
    assert_eq!(sent.recipients, ["b", "d"]);
    let again = channels.send(keyed).await.unwrap().unwrap();
    assert_eq!((again.message_id, again.is_new), (sent.message_id.clone(), false));
    for session in ["b", "d"] {
        let queued = store.inbox().queued(session).unwrap();
        assert_eq!(queued.len(), 1);
        assert_eq!((queued[0].text.as_str(), &queued[0].message), ("one", &sent.message_id));
    }
    assert!(!store.inbox().has_queued("a").unwrap());
    let unknown = NewPost { channel: "absent".to_owned(), ..post(shared(), "a", "x") };
    assert_eq!(channels.send(unknown).await.unwrap(), Err(NotSent::Unknown));
}

#[tokio::test]
async fn queue_gives_each_message_to_one_receiver_and_refuses_more_than_it_holds() {
    let folder = tempfile::tempdir().unwrap();
    let channels = store(folder.path()).channels();
    let free = |text| NewPost { needs_edge: false, ..post(private(), "a", text) };
    channels.create(&private(), "c", ChannelKind::Queue, 2, "").await.unwrap();
    for text in ["one", "two"] {
        channels.send(free(text)).await.unwrap().unwrap();
    }
    assert_eq!(channels.send(free("three")).await.unwrap(), Err(NotSent::QueueFull));
    assert_eq!(channels.get(&private(), "c").unwrap().unwrap().waiting, 2);
    let first = channels.receive(&private(), "c", "x").await.unwrap().unwrap();
    let second = channels.receive(&private(), "c", "y").await.unwrap().unwrap();
    assert_eq!((first.content, second.content), (json!("one"), json!("two")));
    assert_eq!(channels.receive(&private(), "c", "x").await.unwrap(), None);
    assert_eq!(channels.history(&private(), "c", 10).unwrap().len(), 2);
}

#[tokio::test]
async fn history_keeps_the_last_200_and_what_a_reader_has_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let channels = store(folder.path()).channels();
    let free = |text: String| NewPost { needs_edge: false, content: json!(text), ..post(shared(), "a", "") };
    channels.create(&shared(), "c", ChannelKind::Broadcast, 0, "").await.unwrap();
    channels.send(free("before".to_owned())).await.unwrap().unwrap();
    assert!(channels.subscribe(&shared(), "c", "late").await.unwrap());
    let sending: Vec<_> = (0..300).map(|at| channels.send(free(at.to_string()))).collect();
    for sent in sending {
        sent.await.unwrap().unwrap();
    }
    for at in 0..300 {
        let next = channels.next(&shared(), "c", "late").await.unwrap().unwrap();
        assert_eq!(next.content, json!(at.to_string()));
    }
    assert_eq!(channels.next(&shared(), "c", "late").await.unwrap(), None);
    channels.unsubscribe(&shared(), "c", "late").await.unwrap();
    channels.send(free("last".to_owned())).await.unwrap().unwrap();
    let history = channels.history(&shared(), "c", 1000).unwrap();
    assert_eq!((history.len(), &history[199].content), (HISTORY, &json!("last")));
    assert_eq!(channels.after(&shared(), "c", 0).unwrap().len(), HISTORY, "older rows are gone");
}

#[tokio::test]
async fn removed_channel_takes_its_edges_along() {
    let folder = tempfile::tempdir().unwrap();
    let channels = store(folder.path()).channels();
    channels.create(&shared(), "c", ChannelKind::Broadcast, 0, "").await.unwrap();
    channels.wire(&shared(), "c", "a", Direction::Listen).await.unwrap();
    assert_eq!(channels.edges(&shared()).unwrap().len(), 1);
    assert!(channels.unwire(&shared(), "c", "a", Direction::Listen).await.unwrap());
    assert!(!channels.unwire(&shared(), "c", "a", Direction::Listen).await.unwrap());
    channels.wire(&shared(), "c", "a", Direction::Send).await.unwrap();
    assert!(channels.remove(&shared(), "c").await.unwrap());
    assert!(!channels.remove(&shared(), "c").await.unwrap());
    assert_eq!((channels.edges(&shared()).unwrap(), channels.list(&shared()).unwrap()), (vec![], vec![]));
}

#[tokio::test]
async fn agents_of_an_earlier_process_are_no_longer_there() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let channels = store.channels();
    let member = |session: &str, environment: &str| Member {
        session: session.to_owned(),
        environment: environment.to_owned(),
        id: session.to_owned(),
        name: session.to_owned(),
        parent: Some("a".to_owned()),
        privileged: false,
        running: true,
    };
    channels.join(member("a/explore_1", "")).await.unwrap();
    channels.join(member("b", "env_1")).await.unwrap();
    assert_eq!(channels.agents_of("a").unwrap().len(), 1);
    channels.forget_agents_of("a").unwrap();
    store.flush().await.unwrap();
    assert_eq!(channels.agents_of("a").unwrap(), []);
    assert_eq!(channels.members("env_1").unwrap().len(), 1);
}

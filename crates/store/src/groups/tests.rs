#![expect(clippy::unwrap_used, reason = "tests")]

use std::{path::Path, sync::Arc};

use kit::redact::Secrets;
use serde_json::json;

use super::*;
use crate::channels::{NewPost, Scope};
use crate::inbox::Source;

fn member(id: &str, graph: &str) -> MemberRecord {
    MemberRecord {
        id: id.to_owned(),
        name: id.to_owned(),
        session: format!("g/{id}"),
        graph: graph.to_owned(),
        parent: None,
        privileged: false,
        spec: json!({"name": id}),
        running: true,
        paused: false,
        killed: false,
        seen: 0,
        used: Used::default(),
    }
}

fn channel(graph: &str, name: &str) -> ChannelRecord {
    ChannelRecord { graph: graph.to_owned(), name: name.to_owned(), description: format!("about {name}") }
}

fn edge(graph: &str, channel: &str, member: &str, listens: bool) -> EdgeRecord {
    EdgeRecord {
        graph: graph.to_owned(),
        channel: channel.to_owned(),
        session: format!("g/{member}"),
        listens,
    }
}

fn shape() -> Shape {
    Shape {
        graphs: vec![GraphRecord { id: "graph_1".to_owned(), cap: 4 }],
        members: vec![member("a", "graph_1"), member("b", "graph_1"), member("c", "graph_1")],
        channels: vec![channel("graph_1", "talk"), channel("graph_1", "work")],
        edges: vec![edge("graph_1", "talk", "a", false), edge("graph_1", "talk", "b", true)],
        wires: vec![WireRecord { source: "a".to_owned(), body: json!({"to": "b"}) }],
    }
}

fn record() -> GroupRecord {
    GroupRecord {
        name: "g".to_owned(),
        file: "terrarium.yaml".to_owned(),
        recipe: json!({}),
        limits: json!({}),
        state: "running".to_owned(),
        generation: 1,
        created_ms: 0,
        used: Used::default(),
    }
}

fn open() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), Path::new("/nowhere/w"), Arc::new(Secrets::none()));
    (folder, store)
}

#[tokio::test]
async fn a_group_is_read_as_it_was_written_and_its_name_is_taken_once() {
    let (_folder, store) = open();
    assert_eq!(store.groups().add(record(), shape(), Vec::new()).await.unwrap(), Some(1));
    assert_eq!(store.groups().add(record(), shape(), Vec::new()).await.unwrap(), None);
    assert_eq!(store.groups().shape("g").unwrap(), shape());
    assert_eq!(store.groups().of_session("g/b").unwrap().unwrap(), ("g".to_owned(), "b".to_owned()));
    let members = store.channels().members("env_graph_1").unwrap();
    assert_eq!(members.iter().map(|it| it.session.as_str()).collect::<Vec<_>>(), ["g/a", "g/b", "g/c"]);
}

#[tokio::test]
async fn a_change_on_an_old_generation_is_refused_and_changes_nothing() {
    let (_folder, store) = open();
    store.groups().add(record(), shape(), Vec::new()).await.unwrap();
    let smaller = Shape { members: vec![member("a", "graph_1")], ..shape() };
    assert_eq!(store.groups().change("g", 1, smaller.clone(), Vec::new()).await.unwrap(), 2);
    let fault = store.groups().change("g", 1, shape(), Vec::new()).await.unwrap_err();
    assert_eq!(fault.kind, Kind::Stale);
    assert_eq!(store.groups().shape("g").unwrap().members.len(), 1);
    assert_eq!(store.channels().member("g/b").unwrap(), None);
}

#[tokio::test]
async fn a_split_moves_a_channel_with_its_history_and_ends_what_nobody_uses() {
    let (_folder, store) = open();
    store.groups().add(record(), shape(), Vec::new()).await.unwrap();
    let post = NewPost {
        scope: Scope::Environment("env_graph_1".to_owned()),
        channel: "talk".to_owned(),
        sender: "a".to_owned(),
        sender_session: Some("g/a".to_owned()),
        content: json!("hello"),
        metadata: json!({}),
        reply_to: None,
        key: None,
        needs_edge: true,
    };
    store.channels().send(post).await.unwrap().unwrap();
    let graph = |id: &str| GraphRecord { id: id.to_owned(), cap: 4 };
    let split = Shape {
        graphs: vec![graph("graph_1"), graph("graph_2")],
        members: vec![member("a", "graph_2"), member("b", "graph_2"), member("c", "graph_1")],
        channels: vec![channel("graph_2", "talk")],
        edges: vec![edge("graph_2", "talk", "a", false), edge("graph_2", "talk", "b", true)],
        wires: Vec::new(),
    };
    store.groups().change("g", 1, split.clone(), Vec::new()).await.unwrap();
    assert_eq!(store.groups().shape("g").unwrap(), split);
    let (here, gone) =
        (Scope::Environment("env_graph_2".to_owned()), Scope::Environment("env_graph_1".to_owned()));
    assert_eq!(store.channels().history(&here, "talk", 9).unwrap().len(), 1);
    assert_eq!(store.channels().list(&gone).unwrap(), Vec::new());
    assert_eq!(store.channels().member("g/a").unwrap().unwrap().environment, "env_graph_2");
}

#[tokio::test]
async fn a_step_is_recorded_once_with_its_messages_and_use() {
    let (_folder, store) = open();
    store.groups().add(record(), shape(), Vec::new()).await.unwrap();
    let step = || Step {
        member: "a".to_owned(),
        seen: 7,
        is_turn: true,
        used: Used { turns: 0, tokens: 10, steps: 2, cost: 0.5 },
        messages: vec![NewMessage::new("g/b", Source::Output, "a", "[output-wire from a] done")],
        events: vec![NewGroupEvent { kind: "output".to_owned(), ..NewGroupEvent::default() }],
    };
    assert!(store.groups().step("g", step()).await.unwrap());
    assert!(!store.groups().step("g", step()).await.unwrap(), "the same row of the log again");
    assert_eq!(store.inbox().queued("g/b").unwrap().len(), 1);
    assert_eq!(store.groups().events("g", 0, 10).unwrap().len(), 1);
    let shape = store.groups().shape("g").unwrap();
    let a = shape.members.iter().find(|it| it.id == "a").unwrap();
    assert_eq!((a.seen, a.used), (7, Used { turns: 1, tokens: 10, steps: 2, cost: 0.5 }));
}

#[tokio::test]
async fn flags_are_kept_through_a_change_of_the_shape() {
    let (_folder, store) = open();
    store.groups().add(record(), shape(), Vec::new()).await.unwrap();
    store.groups().set_flags("g", "a", (false, true, true), Vec::new()).await.unwrap();
    assert!(!store.channels().member("g/a").unwrap().unwrap().running);
    store.groups().change("g", 1, shape(), Vec::new()).await.unwrap();
    let shape = store.groups().shape("g").unwrap();
    let a = shape.members.iter().find(|it| it.id == "a").unwrap();
    assert_eq!((a.running, a.paused, a.killed), (false, true, true));
    assert!(!store.channels().member("g/a").unwrap().unwrap().running);
    store.groups().set_state("g", "stopped", Vec::new()).await.unwrap();
    assert_eq!(store.groups().get("g").unwrap().unwrap().state, "stopped");
}

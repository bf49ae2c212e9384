//! Tests: a message is kept before its sender knows, and is shown once.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{path::Path, sync::Arc, time::Duration};

use serde_json::json;

use super::*;
use crate::{
    Buffer,
    channels::{ChannelKind, Direction, Member, NewPost, NotSent, Scope},
};

fn store(folder: &Path) -> Store {
    let secrets = Secrets::collect([("A_TOKEN", "hunter2hunter2")], []);
    Store::open(folder, Path::new("/nowhere/w"), Arc::new(secrets))
}

fn message(text: &str) -> NewMessage {
    NewMessage::new("s", Source::Direct, "bob", text)
}

fn texts(arrivals: &[Arrival]) -> Vec<&str> {
    arrivals.iter().map(|it| it.text.as_str()).collect()
}

#[tokio::test]
async fn message_is_on_the_disk_when_its_sender_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (store(folder.path()), store(folder.path()));
    let posted = one.inbox().post(message("key hunter2hunter2")).await.unwrap();
    assert!(posted.is_new && posted.message.starts_with("msg_"), "{posted:?}");
    let queued = other.inbox().queued("s").unwrap();
    assert_eq!(texts(&queued), ["key [masked:A_TOKEN]"]);
    assert!(other.inbox().has_queued("s").unwrap() && !other.inbox().has_queued("t").unwrap());
}

#[tokio::test]
async fn same_key_is_one_message_for_each_recipient() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = store(folder.path()).inbox();
    let keyed = |text: &str| NewMessage { key: Some("trigger t fire 1".to_owned()), ..message(text) };
    let first = inbox.post(keyed("one")).await.unwrap();
    let again = inbox.post(keyed("two")).await.unwrap();
    assert_eq!((again.id, again.is_new, &again.message), (first.id, false, &first.message));
    let other = NewMessage { recipient: "t".to_owned(), ..keyed("two") };
    assert!(inbox.post(other).await.unwrap().is_new);
    assert_eq!(texts(&inbox.queued("s").unwrap()), ["one"]);
}

#[tokio::test]
async fn row_and_claim_are_one_transaction() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let (inbox, transcripts) = (store.inbox(), store.transcripts());
    let one = inbox.post(message("one")).await.unwrap().id;
    let two = inbox.post(message("two")).await.unwrap().id;
    let show = |number, ids: &[u64]| {
        transcripts.add_rows(
            "s",
            vec![(Buffer::Context, number, json!({"row": "x"}))],
            Claim::Show(ids.to_vec()),
        )
    };
    show(1, &[one]).await.unwrap();
    assert_eq!(texts(&inbox.queued("s").unwrap()), ["two"]);
    assert_eq!(inbox.unanswered("s").unwrap(), [one]);
    // A message that was shown before, one of another session, and a row whose number is taken: nothing changes.
    show(2, &[two, one]).await.unwrap_err();
    let elsewhere = transcripts.add_rows("t", vec![(Buffer::Context, 1, json!({}))], Claim::Show(vec![two]));
    elsewhere.await.unwrap_err();
    show(1, &[two]).await.unwrap_err();
    assert_eq!(transcripts.rows("s", Buffer::Context).unwrap().len(), 1);
    assert_eq!(transcripts.rows("t", Buffer::Context).unwrap(), []);
    assert_eq!(texts(&inbox.queued("s").unwrap()), ["two"]);
    let act = Claim::Act { messages: vec![one], calls: vec!["c_1".to_owned()] };
    transcripts.add_rows("s", vec![(Buffer::Context, 2, json!({}))], act).await.unwrap();
    let all = inbox.list("s", 10).unwrap();
    assert_eq!(
        all.iter().map(|it| it.state).collect::<Vec<_>>(),
        [ArrivalState::Acted, ArrivalState::Queued]
    );
    let first = all.first().unwrap();
    assert_eq!((first.shown_row, first.calls.as_slice()), (Some(1), &["c_1".to_owned()][..]));
}

#[tokio::test]
async fn waiters_are_woken_by_commits_of_any_store_of_this_process() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (store(folder.path()), store(folder.path()));
    let mut arrivals = one.inbox().arrivals("s");
    let elsewhere = one.inbox().arrivals("t");
    drop(other.inbox().post(message("the future is dropped")));
    tokio::time::timeout(Duration::from_secs(10), arrivals.changed()).await.unwrap().unwrap();
    assert!(one.inbox().has_queued("s").unwrap());
    assert!(!elsewhere.has_changed().unwrap());
}

#[tokio::test]
async fn full_inbox_refuses_all_of_a_group_of_messages_and_a_broadcast_to_all() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let inbox = store.inbox();
    let many: Vec<_> = (0..MOST_QUEUED).map(|at| message(&at.to_string())).collect();
    inbox.post_all(many).await.unwrap();
    let other = NewMessage { recipient: "t".to_owned(), ..message("x") };
    let fault = inbox.post_all(vec![other, message("one more")]).await.unwrap_err();
    assert!(fault.what.contains("the inbox of `s` is full"), "{fault}");
    assert!(!inbox.has_queued("t").unwrap());
    let (channels, scope) = (store.channels(), Scope::Environment("e".to_owned()));
    channels.create(&scope, "c", ChannelKind::Broadcast, 0, "").await.unwrap();
    for session in ["s", "t"] {
        channels.wire(&scope, "c", session, Direction::Listen).await.unwrap();
    }
    let post = NewPost {
        scope: scope.clone(),
        channel: "c".to_owned(),
        sender: "bob".to_owned(),
        sender_session: None,
        content: json!("x"),
        metadata: json!({}),
        reply_to: None,
        key: None,
        needs_edge: false,
    };
    assert_eq!(channels.send(post).await.unwrap(), Err(NotSent::InboxFull("s".to_owned())));
    assert!(!inbox.has_queued("t").unwrap() && channels.history(&scope, "c", 10).unwrap().is_empty());
    let long = "x".repeat(LONGEST_MESSAGE + 1);
    assert_eq!(inbox.post(message(&long)).await.unwrap_err().kind, Kind::TooBig);
}

#[tokio::test]
async fn only_running_members_take_direct_messages() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let (inbox, channels) = (store.inbox(), store.channels());
    assert_eq!(inbox.post_to_member(message("x")).await.unwrap(), Err(Refused::Unknown));
    let member = Member {
        session: "s".to_owned(),
        environment: "env_1".to_owned(),
        id: "s_id".to_owned(),
        name: "sam".to_owned(),
        parent: None,
        privileged: false,
        running: true,
    };
    channels.join(member.clone()).await.unwrap();
    assert!(inbox.post_to_member(message("one")).await.unwrap().unwrap().is_new);
    channels.set_running("s", false).await.unwrap();
    assert_eq!(inbox.post_to_member(message("x")).await.unwrap(), Err(Refused::Stopped));
    assert_eq!(texts(&inbox.queued("s").unwrap()), ["one"]);
    // It goes only once it has read its messages.
    assert!(!channels.leave_if_idle("s").await.unwrap());
    let row = store.transcripts().add_rows(
        "s",
        vec![(Buffer::Context, 1, json!({}))],
        Claim::Show(inbox.queued("s").unwrap().iter().map(|it| it.id).collect()),
    );
    row.await.unwrap();
    assert!(channels.leave_if_idle("s").await.unwrap());
    assert_eq!(channels.members("env_1").unwrap(), []);
}

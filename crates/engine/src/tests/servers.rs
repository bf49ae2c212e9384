//! nats-server itself: started, killed, refused.

use std::{fs, path::Path};

use super::*;
use crate::{
    Error, Options,
    nats::{Nats, server},
    tests::places::{
        Server,
        of_nats::{installed, program},
    },
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_goes_on_after_the_server_was_killed() {
    let place = Server::new().await;
    let (sender, runner) = (engine(&place).await, engine(&place).await);
    sender.offer(work(1)).await.unwrap();
    sender.offer(work(2)).await.unwrap();
    let (claimed, mut lease) = claim(&runner, &worker("w1")).await;
    runner.begin(&mut lease).await.unwrap();
    runner.append(&mut lease, json!("before")).await.unwrap();
    let watching = tokio::spawn(rest(sender.watch(&claimed.key, 0).await.unwrap()));
    server::kill(place.folder.path());
    let again = server::start_found(place.folder.path(), Some(program())).await.unwrap();
    assert_eq!(again.url, place.server.url, "the address stays");
    let finish = async {
        while let Err(error) = runner.append(&mut lease, json!("after")).await {
            assert!(matches!(error, Error::Unreachable(_)), "{error}");
        }
        runner.finish(&mut lease, done("ok")).await.unwrap();
    };
    tokio::time::timeout(Duration::from_secs(30), finish).await.expect("it goes on");
    let (events, states) = watching.await.unwrap();
    assert_eq!(events.iter().map(|it| it.value.as_str().unwrap()).collect::<Vec<_>>(), ["before", "after"]);
    assert_eq!(states.last().unwrap().state, State::Ended(done("ok")));
    assert_ne!(claim(&runner, &worker("w1")).await.0.key, claimed.key, "what waited still waits");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_leaves_no_consumer_behind() {
    let place = Server::new().await;
    let options = |nkey: &Path| Options { lease: LEASE, nkey: Some(nkey.to_owned()), ..Options::default() };
    let sender = Nats::open(&place.server.url, &options(&place.server.sender_nkey)).await.unwrap();
    let sender = Leases::new(sender, LEASE);
    sender.offer(work(1)).await.unwrap();
    for _ in 0..50 {
        let mut watch = sender.watch(&key(1), 0).await.unwrap();
        watch.next().await.unwrap().unwrap();
        drop(watch);
        sender.workers().await.unwrap();
    }
    let operator = place.storage(LEASE).await;
    // By itself the server would delete them after 30 s.
    let deleted = async {
        while operator.consumers().await.unwrap() > 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), deleted).await.expect("they are deleted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_starts_once_asks_for_its_nkeys_and_stops() {
    let place = Server::new().await;
    let state = place.folder.path();
    assert!(!place.server.already);
    assert_eq!(place.server.version, "2.15.1");
    assert!(server::start_found(state, Some(program())).await.unwrap().already);
    let stranger = crate::open(&place.server.url, state, Options::default()).await;
    let refused = stranger.err().expect("without an nkey nobody enters").to_string();
    assert!(refused.to_lowercase().contains("authorization"), "{refused}");
    let seed = fs::metadata(&place.server.worker_nkey).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&seed.permissions()) & 0o777, 0o600);
    for nkey in [&place.server.operator_nkey, &place.server.worker_nkey, &place.server.sender_nkey] {
        let options = Options { nkey: Some(nkey.clone()), ..Options::default() };
        crate::open(&place.server.url, state, options).await.unwrap();
    }
    assert!(server::stop(state).await.unwrap());
    assert!(!server::stop(state).await.unwrap(), "it has stopped");
    let gone = crate::open(&place.server.url, state, place.options(LEASE)).await;
    let error = gone.err().expect("nobody answers").to_string();
    assert!(error.contains(&place.server.url) && error.contains("haft workers up"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn senders_and_workers_have_the_rights_they_need_and_no_others() {
    let place = Server::new().await;
    let state = place.folder.path();
    let with = async |nkey: &std::path::PathBuf| {
        let options = Options { lease: LEASE, nkey: Some(nkey.clone()), ..Options::default() };
        crate::open(&place.server.url, state, options).await.unwrap()
    };
    let sender = with(&place.server.sender_nkey).await;
    let runner = with(&place.server.worker_nkey).await;
    // Everything that each of them does.
    let blob = sender.put(crate::Source::Bytes(b"content".to_vec())).await.unwrap();
    runner.announce(&worker("w1")).await.unwrap();
    assert_eq!(sender.workers().await.unwrap().len(), 1);
    sender.offer(work(1)).await.unwrap();
    let (claimed, mut lease) = claim(&*runner, &worker("w1")).await;
    runner.begin(&mut lease).await.unwrap();
    runner.append(&mut lease, json!("event")).await.unwrap();
    assert_eq!(runner.get(&blob).await.unwrap(), b"content");
    runner.put(crate::Source::Bytes(b"patch".to_vec())).await.unwrap();
    assert_eq!(sender.list().await.unwrap().len(), 1);
    let watch = sender.watch(&claimed.key, 0).await.unwrap();
    runner.finish(&mut lease, done("ok")).await.unwrap();
    let (events, states) = rest(watch).await;
    assert_eq!((events.len(), &states.last().unwrap().state), (1, &State::Ended(done("ok"))));
    sender.control("w1", crate::Control::Drain).await.unwrap();
    assert_eq!(runner.controlled("w1").await.unwrap(), crate::Control::Drain);
    runner.sweep(Duration::ZERO).await.unwrap();
    assert!(sender.status(&claimed.key).await.unwrap().is_none(), "the worker swept it");
    runner.leave("w1").await.unwrap();
    // What they may not do is not answered.
    let refused = |error: Error| assert!(matches!(error, Error::Unreachable(_)), "{error}");
    refused(sender.announce(&worker("w2")).await.unwrap_err());
    refused(sender.sweep(Duration::ZERO).await.unwrap_err());
    refused(runner.offer(work(2)).await.unwrap_err());
    refused(runner.control("w1", crate::Control::Stop).await.unwrap_err());
    sender.offer(work(3)).await.unwrap();
    let taken = tokio::time::timeout(LEASE / 2, sender.claim(&worker("w3"))).await;
    assert!(!matches!(taken, Ok(Ok(Some(_)))), "a sender takes no work out of the queue");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uv_installs_the_server_where_none_is_on_path() {
    let uv = installed("uv", "uv");
    let folder = tempfile::tempdir().unwrap();
    // Python and nothing else beside uv.
    let python = std::env::split_paths(&std::env::var_os("PATH").unwrap())
        .find(|it| it.join("python3").is_file())
        .expect("this test needs python3");
    let path =
        std::env::join_paths([uv.parent().unwrap(), &python, "/usr/bin".as_ref(), "/bin".as_ref()]).unwrap();
    let found = server::find_in(folder.path(), &path).await.unwrap();
    assert!(found.program.starts_with(folder.path()), "{found:?}");
    let again = server::find_in(folder.path(), std::ffi::OsStr::new("/nowhere")).await.unwrap();
    assert_eq!(again, found, "it is found again without uv");
}

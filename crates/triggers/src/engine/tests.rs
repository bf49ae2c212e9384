#![expect(clippy::unwrap_used, reason = "tests")]

use std::{path::Path, sync::Arc, time::Duration};

use kit::{redact::Secrets, services::Soon};
use serde_json::{Value, json};
use store::{HistoryEvent, fire_of};
use tokio::sync::mpsc;

use super::*;
use crate::FakeClock;

const PATIENCE: Duration = Duration::from_secs(20);

/// 2026-11-24 21:30:00 UTC.
const NOW: u64 = 1_795_555_800_000;

/// Changes that a test makes, and no jobs.
#[derive(Default)]
struct Made(parking_lot::Mutex<Option<mpsc::UnboundedReceiver<Changes>>>);

struct Next(mpsc::UnboundedReceiver<Changes>);

impl FileChanges for Next {
    fn next(&mut self) -> Soon<'_, Option<Changes>> {
        Box::pin(self.0.recv())
    }
}

impl Sources for Made {
    fn files(&self, _: &Spec) -> Result<Box<dyn FileChanges>, Fault> {
        let changes = self.0.lock().take();
        changes
            .map(|it| Box::new(Next(it)) as Box<dyn FileChanges>)
            .ok_or_else(|| Fault::not_found("nothing can be watched"))
    }

    fn jobs(&self) -> Option<Arc<dyn Jobs>> {
        None
    }
}

struct Bench {
    _folder: tempfile::TempDir,
    store: Store,
    service: Service,
    clock: FakeClock,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), Path::new("/nowhere/w"), Arc::new(Secrets::none()));
        let service = Service::new(store.clone());
        Self { _folder: folder, store, service, clock: FakeClock::new(NOW) }
    }

    async fn add(&self, name: &str, tool: &str, arguments: Value) {
        let spec = Spec::of(tool, &arguments).unwrap();
        self.service.add("s", Some(name), &spec, "tool", self.clock.now_ms()).await.unwrap();
    }

    fn engine(&self, sources: Made) -> Engine {
        Engine::new(&self.store, "s", Arc::new(self.clock.clone()), Arc::new(sources))
    }

    /// Runs the engine until the test drops what this returns.
    fn run(&self, sources: Made) -> AbortOnDropHandle<()> {
        AbortOnDropHandle::new(tokio::spawn(self.engine(sources).run()))
    }

    /// Sets the clock, and waits until the engine sleeps beyond that time.
    async fn at(&self, seconds: u64) {
        let now = NOW + seconds * 1_000;
        self.clock.set(now);
        self.sleeps(|until| until.is_none_or(|it| it > now)).await;
    }

    async fn sleeps(&self, is: impl Fn(Option<u64>) -> bool) {
        let mut sleeps = self.clock.sleeps();
        let slept = async {
            loop {
                let seen = *sleeps.borrow_and_update();
                if seen > 0 && is(self.clock.sleeps_until()) {
                    return;
                }
                sleeps.changed().await.unwrap();
            }
        };
        tokio::time::timeout(PATIENCE, slept).await.unwrap();
    }

    /// Returns the fires in the inbox, in their order.
    fn fires(&self) -> Vec<String> {
        let queued = self.store.inbox().queued("s").unwrap();
        queued.iter().filter_map(|it| fire_of(&it.key)).map(|(id, fire)| format!("{id} {fire}")).collect()
    }

    fn events(&self, id: &str) -> Vec<(HistoryEvent, String)> {
        let history = self.store.triggers().history("s", id, 100).unwrap();
        history.into_iter().map(|it| (it.event, it.text)).collect()
    }
}

#[tokio::test]
async fn it_sleeps_until_the_next_one_is_due_and_fires_it_then() {
    let bench = Bench::new();
    bench.add("beat", "add_timer", json!({"interval": 10, "prompt": "x", "overlap": true})).await;
    bench.add("now", "add_timer", json!({"interval": 100, "prompt": "x", "immediate": true})).await;
    bench.add("day", "add_schedule", json!({"daily_at": "21:31", "zone": "UTC", "prompt": "x"})).await;
    let _running = bench.run(Made::default());
    bench.sleeps(|until| until == Some(NOW + 10_000)).await;
    assert_eq!(bench.fires(), ["now 1"]);
    bench.at(9).await;
    assert_eq!(bench.fires(), ["now 1"]);
    bench.at(10).await;
    bench.at(20).await;
    assert_eq!(bench.fires(), ["now 1", "beat 1", "beat 2"]);
    assert_eq!(bench.clock.sleeps_until(), Some(NOW + 30_000));
    bench.at(30).await;
    bench.at(40).await;
    bench.at(50).await;
    bench.at(60).await;
    assert_eq!(bench.fires(), ["now 1", "beat 1", "beat 2", "beat 3", "beat 4", "beat 5", "beat 6", "day 1"]);
}

#[tokio::test]
async fn a_restart_fires_no_timer_at_once_and_settles_what_was_missed_by_its_policy() {
    let bench = Bench::new();
    let at = |missed: &str| json!({"every_minutes": 1, "zone": "UTC", "prompt": "x", "missed": missed});
    bench.add("timer", "add_timer", json!({"interval": 60, "prompt": "x"})).await;
    bench.add("skip", "add_schedule", at("skip")).await;
    bench.add("once", "add_schedule", at("once")).await;
    bench.add("ask", "add_schedule", at("ask")).await;
    bench.add("date", "add_schedule", json!({"once": "2026-11-24T21:32Z", "prompt": "x"})).await;
    // Ten and a half minutes later.
    bench.clock.set(NOW + 630_000);
    let running = bench.run(Made::default());
    bench.sleeps(|until| until == Some(NOW + 660_000)).await;
    // Both are due at once, in any order.
    let fires = || {
        let mut fires = bench.fires();
        fires.sort();
        fires
    };
    assert_eq!(fires(), ["date 1", "once 1"]);
    let missed = |event| vec![(event, "due at 2026-11-24T21:31:00Z, and 9 more".to_owned())];
    assert_eq!(bench.events("skip"), missed(HistoryEvent::Missed));
    assert_eq!(bench.events("ask"), missed(HistoryEvent::Asks));
    assert_eq!(bench.events("timer"), missed(HistoryEvent::Missed));
    assert_eq!(
        bench.events("once"),
        [(HistoryEvent::Fired, "missed, due at 2026-11-24T21:31:00Z, and 9 more".to_owned())]
    );
    assert_eq!(bench.events("date").len(), 1);
    drop(running);
    // Once more, and nothing is due: nothing is missed or fired again.
    let _running = bench.run(Made::default());
    let before = *bench.clock.sleeps().borrow();
    let mut sleeps = bench.clock.sleeps();
    tokio::time::timeout(PATIENCE, sleeps.wait_for(|it| *it > before)).await.unwrap().unwrap();
    assert_eq!(fires(), ["date 1", "once 1"]);
}

#[tokio::test]
async fn a_fire_that_comes_late_counts_as_missed() {
    let bench = Bench::new();
    bench.add("beat", "add_timer", json!({"interval": 600, "prompt": "x"})).await;
    let _running = bench.run(Made::default());
    bench.sleeps(|until| until == Some(NOW + 600_000)).await;
    // The machine was suspended for an hour.
    bench.at(3_600 + 5).await;
    assert!(bench.fires().is_empty());
    assert_eq!(bench.clock.sleeps_until(), Some(NOW + 4_200_000));
    assert_eq!(bench.events("beat").len(), 1);
}

#[tokio::test]
async fn what_another_handle_adds_pauses_and_removes_is_noticed() {
    let bench = Bench::new();
    let _running = bench.run(Made::default());
    bench.sleeps(|until| until.is_none()).await;
    bench.add("beat", "add_timer", json!({"interval": 10, "prompt": "x"})).await;
    bench.sleeps(|until| until == Some(NOW + 10_000)).await;
    let row = bench.service.find(None, "beat").await.unwrap();
    bench.service.pause(&row).await.unwrap();
    bench.sleeps(|until| until.is_none()).await;
    bench.clock.set(NOW + 35_000);
    assert_eq!(bench.service.resume(&row, bench.clock.now_ms()).await.unwrap(), 3);
    bench.sleeps(|until| until == Some(NOW + 40_000)).await;
    assert!(bench.fires().is_empty());
    assert_eq!(bench.service.fire_now(&row, bench.clock.now_ms()).await.unwrap(), 1);
    bench.service.remove("s", "beat").await.unwrap();
    bench.sleeps(|until| until.is_none()).await;
    assert_eq!(bench.fires(), ["beat 1"]);
}

#[tokio::test]
async fn changes_of_files_wait_until_the_turn_of_the_fire_before_is_over() {
    let bench = Bench::new();
    bench.add("files", "watch_files", json!({"glob": ["*.rs"], "prompt": "look"})).await;
    let (_send, changes) = mpsc::unbounded_channel();
    let mut engine = bench.engine(Made(parking_lot::Mutex::new(Some(changes))));
    engine.begin().await.unwrap();
    let changed = |file: &str| Seen::Files(Changes { files: [file.into()].into(), lost: false });
    let texts = || -> Vec<String> {
        bench.store.inbox().queued("s").unwrap().iter().map(|it| it.text.clone()).collect()
    };
    engine.take("files", changed("a.rs")).await.unwrap();
    engine.take("files", changed("b.rs")).await.unwrap();
    engine.take("files", changed("c.rs")).await.unwrap();
    engine.look(false).await.unwrap();
    assert_eq!(texts(), ["look\n\nChanged files:\n- a.rs"]);
    bench.store.triggers().turn_ended("s", "files", 1, "done").await.unwrap();
    engine.look(false).await.unwrap();
    let both = ["look\n\nChanged files:\n- a.rs", "look\n\nChanged files:\n- b.rs\n- c.rs"];
    assert_eq!(texts(), both);
    assert_eq!(bench.fires(), ["files 1", "files 2"]);
}

#[tokio::test]
async fn what_can_not_be_watched_ends_and_is_in_the_history() {
    let bench = Bench::new();
    bench.add("files", "watch_files", json!({"glob": ["*.rs"], "prompt": "x"})).await;
    bench.add("job", "watch_job", json!({"job": "job_1", "prompt": "x"})).await;
    let _running = bench.run(Made::default());
    let mut changes = bench.store.triggers().changes("s");
    let over = async {
        while bench.service.list(None).await.unwrap().iter().any(|it| it.state != TriggerState::Done) {
            changes.changed().await.unwrap();
        }
    };
    tokio::time::timeout(PATIENCE, over).await.unwrap();
    assert_eq!(bench.events("files"), [(HistoryEvent::Error, "nothing can be watched".to_owned())]);
    assert_eq!(bench.events("job"), [(HistoryEvent::Error, "there is no job `job_1` here".to_owned())]);
    assert_eq!(bench.store.triggers().untold(None).unwrap().len(), 2);
}

#[tokio::test]
async fn triggers_of_a_configuration_follow_it() {
    let bench = Bench::new();
    let spec = |seconds: u64| Spec::of("add_timer", &json!({"interval": seconds, "prompt": "x"})).unwrap();
    let settle = async |wanted: &[(&str, u64)], now: u64| {
        let wanted: Vec<(String, Spec)> =
            wanted.iter().map(|(name, seconds)| ((*name).to_owned(), spec(*seconds))).collect();
        bench.service.settle("s", "config", &wanted, now).await
    };
    settle(&[("a", 10), ("b", 20)], NOW).await.unwrap();
    bench.add("own", "add_timer", json!({"interval": 5, "prompt": "x"})).await;
    // What did not change stays due when it was.
    settle(&[("a", 10), ("b", 30)], NOW + 5_000).await.unwrap();
    let next = async || -> Vec<(String, Option<u64>)> {
        let rows = bench.service.list(Some("s")).await.unwrap();
        rows.into_iter().map(|it| (it.id, it.next_fire_ms.map(|it| it - NOW))).collect()
    };
    let mut rows = next().await;
    rows.sort();
    assert_eq!(
        rows,
        [("a".to_owned(), Some(10_000)), ("b".to_owned(), Some(35_000)), ("own".to_owned(), Some(5_000))]
    );
    settle(&[("b", 30)], NOW + 6_000).await.unwrap();
    assert_eq!(next().await.len(), 2);
    let fault = settle(&[("own", 1)], NOW).await.unwrap_err();
    assert!(fault.what.contains("exists already"), "{}", fault.what);
}

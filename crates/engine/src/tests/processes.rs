//! Several processes: this test program runs itself as workers, some of which are killed.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Write as _,
    path::Path,
    process::{Child, Command, Stdio},
};

use super::*;
use crate::{Options, tests::places::Place};

for_each_engine! {
    killed_worker_processes_lose_nothing_and_repeat_nothing,
}

const WORKS: u64 = 30;

fn child(place: &impl Place, name: &str, effects: &Path) -> Child {
    let (url, state, nkey) = place.address();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "tests::processes::worker_process", "--nocapture"]);
    command.envs([("HAFT_WORKER", name), ("HAFT_URL", &url), ("HAFT_STATE", &state), ("HAFT_NKEY", &nkey)]);
    command.env("HAFT_EFFECTS", effects).stdout(Stdio::null()).spawn().unwrap()
}

/// The worker of a child process; nothing in the process that runs the tests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_process() {
    let Ok(name) = std::env::var("HAFT_WORKER") else { return };
    let of = |name: &str| std::env::var(name).unwrap();
    let nkey = Some(of("HAFT_NKEY").into()).filter(|it: &std::path::PathBuf| !it.as_os_str().is_empty());
    let options = Options { lease: LEASE, nkey, ..Options::default() };
    let engine = crate::open(&of("HAFT_URL"), Path::new(&of("HAFT_STATE")), options).await.unwrap();
    let mut effects = File::options().append(true).create(true).open(of("HAFT_EFFECTS")).unwrap();
    while let Some((work, mut lease)) = engine.claim(&worker(&name)).await.unwrap() {
        if engine.begin(&mut lease).await.is_err() {
            continue;
        }
        let line = format!("{} {name}\n", work.key.step);
        effects.write_all(line.as_bytes()).unwrap();
        tokio::time::sleep(Duration::from_millis(30)).await;
        let _ = engine.finish(&mut lease, done(&name)).await;
    }
}

async fn killed_worker_processes_lose_nothing_and_repeat_nothing<P: Place>(place: &P) {
    let folder = tempfile::tempdir().unwrap();
    let effects = folder.path().join("effects");
    let sender = engine(place).await;
    let mut children: Vec<_> = (0..3).map(|it| child(place, &format!("p{it}"), &effects)).collect();
    for step in 0..WORKS {
        sender.offer(work(step)).await.unwrap();
    }
    // One is killed in the middle, once it has done something.
    let begun = |name: &str| fs::read_to_string(&effects).unwrap_or_default().contains(name);
    let start = Instant::now();
    while !begun(" p0") {
        assert!(since(start) < Duration::from_secs(30), "no worker began");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    children[0].kill().unwrap();
    let mut interrupted = Vec::new();
    for step in 0..WORKS {
        match outcome(&sender, &key(step)).await {
            Outcome::Interrupted => interrupted.push(step),
            other => assert!(matches!(other, Outcome::Done { .. }), "{other:?}"),
        }
    }
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let mut counts: BTreeMap<u64, u32> = BTreeMap::new();
    for line in fs::read_to_string(&effects).unwrap().lines() {
        *counts.entry(line.split(' ').next().unwrap().parse().unwrap()).or_default() += 1;
    }
    assert!(counts.values().all(|it| *it == 1), "an effect happened twice: {counts:?}");
    assert!(interrupted.len() <= 1, "one worker was killed, but {interrupted:?} are interrupted");
    let done = (0..WORKS).filter(|it| !interrupted.contains(it));
    for step in done {
        assert!(counts.contains_key(&step), "{step} is done without an effect");
    }
}

//! Kills in the middle of a landing.

use std::{
    fs,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use policy::Policy;
use runtime::Unattended;
use snapshots::{Cache, Patch, land};
use store::journal::Filter;
use tokio_util::sync::CancellationToken;

use crate::support::{Sender, chmod, link, session, tree, write};

const FOLDER: &str = "HAFT_LANDING_TEST";

/// The process that is killed: it lands the patch of the folder that a variable names.
#[tokio::test]
async fn lands_for_another_test() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = std::path::PathBuf::from(folder);
    let patch = Patch::from_bytes(&fs::read(folder.join("patch")).unwrap()).unwrap();
    let session = session(&folder, Policy::default(), Arc::new(Unattended));
    let blobs = Arc::new(Cache::new(folder.join("engine")));
    fs::write(folder.join("begun"), "").unwrap();
    land(&session, &patch, blobs, &CancellationToken::new()).await.unwrap();
    fs::write(folder.join("done"), "").unwrap();
}

/// Prepares a sender and a patch of 20 files of all kinds. Returns the files before and after.
fn prepared() -> (tempfile::TempDir, [std::collections::BTreeMap<String, String>; 2]) {
    let sender = Sender::new();
    for at in 0..20 {
        sender.write(&format!("d{}/f{at}", at % 4), &format!("old {at}\n").repeat(100));
    }
    link("d0/f0", &sender.ws().join("l"));
    let manifest = sender.take();
    let worker = sender.worker(&manifest);
    for at in 0..20 {
        let path = worker.path().join(format!("d{}/f{at}", at % 4));
        match at % 5 {
            0 => fs::remove_file(path).unwrap(),
            1 => chmod(&path, 0o755),
            2 => {
                write(&path, &format!("new {at}\n").repeat(100));
                chmod(&path, 0o755);
            }
            _ => write(&path, &format!("new {at}\n").repeat(100)),
        }
        write(&worker.path().join(format!("new/n{at}")), "new\n");
    }
    fs::remove_file(worker.path().join("l")).unwrap();
    link("d1/f1", &worker.path().join("l"));
    let patch = sender.patch(&manifest, worker.path());
    fs::write(sender.dir.path().join("patch"), patch.to_bytes()).unwrap();
    let trees = [tree(&sender.ws()), tree(worker.path())];
    (sender.dir, trees)
}

fn child(folder: &std::path::Path) -> Command {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "killed::lands_for_another_test", "--test-threads", "1"]).env(FOLDER, folder);
    child.stdout(Stdio::null()).stderr(Stdio::null());
    child
}

/// Each file is old or new, the journal knows of the call, and landing again completes it; one undo then takes back each call.
async fn checked(
    folder: tempfile::TempDir,
    [old, new]: &[std::collections::BTreeMap<String, String>; 2],
) -> usize {
    let now = tree(&folder.path().join("ws"));
    let mut landed = 0;
    // The file that was about to be renamed is swept by the recovery below.
    let is_kept = |path: &&String| !path.rsplit('/').next().is_some_and(|it| it.starts_with(".haft-"));
    for path in old.keys().chain(new.keys()).chain(now.keys().filter(is_kept)) {
        let state = now.get(path);
        assert!(state == old.get(path) || state == new.get(path), "{path} is neither old nor new: {state:?}");
        landed += usize::from(old.get(path) != new.get(path) && state == new.get(path));
    }
    let patch = Patch::from_bytes(&fs::read(folder.path().join("patch")).unwrap()).unwrap();
    let sender = Sender::with(folder, Policy::default(), Arc::new(Unattended));
    let runtime = sender.session.runtime().clone();
    let recovered =
        tokio::task::spawn_blocking(move || runtime.wait_recovered(Duration::from_secs(30))).await;
    assert!(recovered.unwrap());
    let store = sender.session.runtime().store().clone();
    let log =
        tokio::task::spawn_blocking(move || store.journal().log(Filter::default()).unwrap()).await.unwrap();
    assert!(
        landed == 0 || log.iter().any(|it| it.tool == "land" && it.outcome.is_some()),
        "the journal knows the call"
    );
    let landing = sender.land(&patch).await;
    assert_eq!(landing.refused().count(), 0, "{}", landing.as_text());
    assert_eq!(tree(&sender.ws()), *new);
    // The completing call first, then the one that was killed.
    for _ in 0..2 {
        if tree(&sender.ws()) != *old {
            sender.undo().await;
        }
    }
    assert_eq!(tree(&sender.ws()), *old);
    landed
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_between_two_files_leaves_each_old_or_new_and_the_rest_lands_later() {
    for after in [1, 7, 18, 30] {
        let (folder, trees) = prepared();
        let point = format!("landing-{after}");
        let status = child(folder.path()).env(kit_variable(), point).status().unwrap();
        assert!(!status.success() && !folder.path().join("done").exists());
        checked(folder, &trees).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_at_any_time_leaves_each_file_old_or_new() {
    let mut in_the_middle = 0;
    for at in 0..12u64 {
        let (folder, trees) = prepared();
        let mut running = child(folder.path()).spawn().unwrap();
        while !folder.path().join("begun").exists() {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(at * 8));
        running.kill().unwrap();
        running.wait().unwrap();
        let all = trees[1].len();
        let landed = checked(folder, &trees).await;
        in_the_middle += usize::from(landed > 0 && landed < all);
    }
    println!("{in_the_middle} of 12 kills were in the middle");
}

/// The variable by which a test chooses where a process kills itself.
fn kit_variable() -> &'static str {
    "HAFT_BREAK"
}

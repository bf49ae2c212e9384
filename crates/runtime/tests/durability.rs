//! The journal and the undo history after kills, under concurrency and with damage.

use std::{
    collections::HashSet,
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use kit::{Fault, Kind, Touch, Touches, redact::Secrets, services::History, text::Content};
use store::{
    Store,
    journal::{Begun, Durability, Ended, Filter, Outcome},
};

/// The environment variable with a child's state folder.
const STATE: &str = "HAFT_TEST_STATE";

fn open(state: &Path) -> Store {
    Store::open(state, Path::new("/nowhere/w"), Arc::new(Secrets::none()))
}

fn begun(call: &str, touches: Touches) -> Begun {
    Begun {
        call: call.to_owned(),
        session: "s".to_owned(),
        tool: "edit".to_owned(),
        arguments: r#"{"path":"a"}"#.to_owned(),
        touches,
        decision: "allowed: in the workspace".to_owned(),
    }
}

fn ended(call: &str) -> Ended {
    Ended {
        call: call.to_owned(),
        session: "s".to_owned(),
        outcome: Outcome::Ok,
        said: None,
        notes: Vec::new(),
        took: Duration::from_micros(1500),
        waited: Duration::ZERO,
        job: None,
        bytes_out: 7,
    }
}

fn all() -> Filter {
    Filter { limit: usize::MAX, ..Filter::default() }
}

fn read_real(path: &Path) -> Result<Option<Vec<u8>>, Fault> {
    Ok(fs::read(path).ok())
}

/// Returns the state folder, if this process is the child of a test.
fn as_child() -> Option<PathBuf> {
    std::env::var_os(STATE).map(PathBuf::from)
}

/// Starts this test in a child process, which finds [`as_child`].
fn child(test: &str, state: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("durability::{test}"), "--nocapture", "--test-threads=1"])
        .env(STATE, state)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn say(line: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "\n{line}").unwrap();
    out.flush().unwrap();
}

/// Returns the lines that a child prints, without those of the test harness.
fn heard(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.map(Result::unwrap).filter(|it| it.starts_with("c_"))
}

/// Journals calls, each with a change, until it is killed. Prints each call that is durably begun.
async fn journal_forever(state: &Path) {
    let store = open(state);
    let file = state.join("file");
    for round in 0_u64.. {
        let call = store.call_id();
        let touches = Touches::write(file.to_str().unwrap());
        store.journal().begin(begun(&call, touches), Durability::Wait).await.unwrap();
        say(&call);
        let before = fs::read(&file).ok().map(Content::from);
        let after = Content::from(round.to_string().into_bytes());
        store.history("s", call.clone()).keep(&file, before.as_ref(), Some(&after)).unwrap();
        fs::write(&file, &*after).unwrap();
        store.journal().end(ended(&call), Durability::Later).await.unwrap();
        let look = store.call_id();
        store.journal().begin(begun(&look, Touches::read("/")), Durability::Later).await.unwrap();
        store.journal().end(ended(&look), Durability::Later).await.unwrap();
    }
}

#[tokio::test]
async fn a_killed_process_leaves_no_call_without_a_result() {
    if let Some(state) = as_child() {
        return journal_forever(&state).await;
    }
    let state = tempfile::tempdir().unwrap();
    let mut said = HashSet::new();
    let mut interrupted = 0;
    for round in 0..12_usize {
        let mut child = child("a_killed_process_leaves_no_call_without_a_result", state.path());
        let lines = heard(&mut child);
        let mut lines = lines.inspect(|it| {
            said.insert(it.clone());
        });
        // Each child is killed at another moment, during its work.
        assert_eq!(lines.by_ref().take(round * 7 % 40 + 1).count(), round * 7 % 40 + 1);
        child.kill().unwrap();
        // Lines that it printed before its end count too.
        lines.for_each(drop);
        child.wait().unwrap();

        let store = open(state.path());
        let recovered = store.journal().recover(&read_real).unwrap();
        for it in &recovered {
            assert!(it.text.starts_with("interrupted; it "), "{}", it.text);
        }
        interrupted += recovered.len();
        assert!(store.journal().recover(&read_real).unwrap().is_empty());
        let log = store.journal().log(all()).unwrap();
        assert!(log.iter().all(|it| it.outcome.is_some()));
        let known: HashSet<&String> = log.iter().map(|it| &it.call).collect();
        assert_eq!(known.len(), log.len(), "one result for each call");
        assert!(said.iter().all(|it| known.contains(it)), "a call that was begun for good is known");
        assert_eq!(log.iter().filter(|it| it.outcome.as_deref() == Some("interrupted")).count(), interrupted);
    }
    // The content that a recorded change replaced is complete.
    let store = open(state.path());
    let mut images = 0;
    for hash in store
        .journal()
        .log(all())
        .unwrap()
        .iter()
        .flat_map(|it| &it.changes)
        .filter_map(|it| it.before.as_ref())
    {
        let image = fs::read(store.folder().join("blobs").join(&hash[..2]).join(hash)).unwrap();
        assert_eq!(blake3::hash(&image).to_hex().as_str(), hash);
        images += 1;
    }
    assert!(images > 0);
    // The control: some kills interrupted calls.
    assert!(interrupted > 0);
}

#[tokio::test]
async fn a_torn_tail_costs_no_more_than_the_tail() {
    const CALLS: usize = 20;
    if let Some(state) = as_child() {
        let store = open(&state);
        for round in 0..CALLS {
            let call = begun(&format!("c_{round}"), Touches::none());
            store.journal().begin(call, Durability::Wait).await.unwrap();
        }
        say("c_done");
        std::future::pending::<()>().await;
    }
    let state = tempfile::tempdir().unwrap();
    let mut child = child("a_torn_tail_costs_no_more_than_the_tail", state.path());
    assert_eq!(heard(&mut child).next().as_deref(), Some("c_done"));
    child.kill().unwrap();
    child.wait().unwrap();
    let wal = open(state.path()).folder().join("haft.db-wal");
    let whole = fs::metadata(&wal).unwrap().len();
    fs::File::options().write(true).open(&wal).unwrap().set_len(whole - 10).unwrap();
    let store = open(state.path());
    let left = store.journal().log(all()).unwrap().len();
    assert!((CALLS - 2..CALLS).contains(&left), "{left}");
    assert_eq!(store.journal().recover(&read_real).unwrap().len(), left);
    store.journal().begin(begun("c_new", Touches::none()), Durability::Wait).await.unwrap();
}

#[tokio::test]
async fn processes_that_work_at_once_lose_nothing() {
    const CALLS: usize = 200;
    if let Some(state) = as_child() {
        let store = open(&state);
        for round in 0..CALLS {
            let call = store.call_id();
            let durability = if round % 8 == 0 { Durability::Wait } else { Durability::Later };
            store.journal().begin(begun(&call, Touches::none()), durability).await.unwrap();
            store.journal().end(ended(&call), Durability::Later).await.unwrap();
            say(&call);
        }
        assert!(store.close(Duration::from_secs(30)));
        return;
    }
    let state = tempfile::tempdir().unwrap();
    let mut children: Vec<Child> =
        (0..3).map(|_| child("processes_that_work_at_once_lose_nothing", state.path())).collect();
    let mut said = HashSet::new();
    for child in &mut children {
        said.extend(heard(child));
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(said.len(), 3 * CALLS, "ids are unique");
    let store = open(state.path());
    assert!(store.journal().recover(&read_real).unwrap().is_empty());
    let log = store.journal().log(all()).unwrap();
    assert_eq!(log.len(), 3 * CALLS);
    assert!(log.iter().all(|it| said.contains(&it.call) && it.outcome.as_deref() == Some("ok")));
    // A process that ended cleanly leaves no file.
    let live = fs::read_dir(store.folder().join("live")).unwrap().count();
    assert_eq!(live, 1);
}

#[tokio::test]
async fn concurrent_recoveries_get_each_call_once() {
    if let Some(state) = as_child() {
        let store = open(&state);
        for _ in 0..20 {
            let call = store.call_id();
            store
                .journal()
                .begin(begun(&call, Touches::write("/nowhere/a")), Durability::Wait)
                .await
                .unwrap();
        }
        say("c_done");
        std::future::pending::<()>().await;
    }
    let state = tempfile::tempdir().unwrap();
    let mut children: Vec<Child> =
        (0..3).map(|_| child("concurrent_recoveries_get_each_call_once", state.path())).collect();
    for child in &mut children {
        assert_eq!(heard(child).next().as_deref(), Some("c_done"));
    }
    // A living process keeps its calls.
    assert!(open(state.path()).journal().recover(&read_real).unwrap().is_empty());
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let found: Vec<String> = std::thread::scope(|scope| {
        let racers: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| open(state.path()).journal().recover(&read_real).unwrap()))
            .collect();
        racers.into_iter().flat_map(|it| it.join().unwrap()).map(|it| it.call.call).collect()
    });
    assert_eq!(found.len(), 60);
    assert_eq!(found.iter().collect::<HashSet<_>>().len(), 60);
    let log = open(state.path()).journal().log(all()).unwrap();
    assert!(log.iter().all(|it| it.outcome.as_deref() == Some("interrupted")));
    assert_eq!(log.len(), 60);
}

#[tokio::test]
async fn interrupted_call_reports_the_present_content_of_files() {
    if let Some(state) = as_child() {
        let store = open(&state);
        let touches = |names: &[&str]| {
            names.iter().fold(Touches::none(), |all, name| {
                all.and(Touch::Write(state.join(name).to_str().unwrap().to_owned()))
            })
        };
        let journal = store.journal();
        journal
            .begin(begun("c_1", touches(&["new", "old", "other", "not"])), Durability::Wait)
            .await
            .unwrap();
        let history = store.history("s", "c_1");
        for name in ["new", "old", "other"] {
            history.keep(&state.join(name), Some(&b"before".into()), Some(&b"after".into())).unwrap();
        }
        journal.begin(begun("c_2", Touches::read("/")), Durability::Wait).await.unwrap();
        let run = Touches::none().and(Touch::Run("make".to_owned()));
        journal.begin(begun("c_3", run), Durability::Wait).await.unwrap();
        say("c_done");
        std::future::pending::<()>().await;
    }
    let state = tempfile::tempdir().unwrap();
    let mut child = child("interrupted_call_reports_the_present_content_of_files", state.path());
    assert_eq!(heard(&mut child).next().as_deref(), Some("c_done"));
    child.kill().unwrap();
    child.wait().unwrap();
    for (name, text) in [("new", "after"), ("old", "before"), ("other", "else")] {
        fs::write(state.path().join(name), text).unwrap();
    }
    let store = open(state.path());
    let found = store.journal().recover(&read_real).unwrap();
    let at = state.path().display().to_string();
    assert_eq!(
        found[0].text.replace(&at, ""),
        "interrupted; it may or may not have finished; these paths were declared: /new, /old, /other, /not; check before retrying\n\
         /new: it holds the new content\n\
         /old: it holds the old content; the change did not land\n\
         /other: it holds other content: neither the old nor the new\n\
         /not: haft had not begun to change it"
    );
    assert_eq!(found[0].paths().len(), 4);
    assert_eq!(found[1].text, "interrupted; it only read, so nothing was changed; call it again");
    assert_eq!(found[2].text, "interrupted: `make` may or may not have finished; check before retrying");
    let log = store.journal().log(all()).unwrap();
    assert_eq!(log[0].said.as_ref(), Some(&found[0].text));
}

#[tokio::test]
async fn a_record_is_read_as_it_was_written_without_secrets() {
    let state = tempfile::tempdir().unwrap();
    let secrets = Secrets::collect([("A_TOKEN", "s3cret-s3cret")], []);
    let store = Store::open(state.path(), Path::new("/nowhere/w"), Arc::new(secrets));
    let journal = store.journal();
    let touches = Touches::read("/a").and(Touch::Write("/b".into())).and(Touch::Exclusive);
    let arguments = format!(r#"{{"key":"s3cret-s3cret","long":"{}"}}"#, "x".repeat(9000));
    let record = Begun { arguments: arguments.clone(), ..begun("c_1", touches.clone()) };
    journal.begin(record, Durability::Later).await.unwrap();
    store.history("s", "c_1").keep(Path::new("/b"), None, Some(&b"b".into())).unwrap();
    let end = Ended {
        outcome: Outcome::Fault(Kind::Stale),
        said: Some("no s3cret-s3cret here".into()),
        notes: vec!["s3cret-s3cret".into()],
        ..ended("c_1")
    };
    journal.end(end, Durability::Wait).await.unwrap();
    journal.begin(begun("c_2", Touches::none()), Durability::Later).await.unwrap();
    let log = journal.log(all()).unwrap();
    assert_eq!(log.len(), 2);
    let first = &log[0];
    assert!(first.arguments.starts_with(r#"{"key":"[masked:A_TOKEN]","long":"xxx"#));
    assert!(first.arguments.len() < 4200 && first.arguments.ends_with(" bytes in all]"));
    assert_eq!(first.arguments_hash, blake3::hash(arguments.as_bytes()).to_hex().as_str());
    assert_eq!(first.touches, touches.iter().cloned().collect::<Vec<_>>());
    assert_eq!((first.bytes_in, first.bytes_out), (arguments.len() as u64, Some(7)));
    assert_eq!((first.outcome.as_deref(), first.took_ms), (Some("stale"), Some(1.5)));
    assert_eq!(first.said.as_deref(), Some("no [masked:A_TOKEN] here"));
    assert_eq!(first.notes, ["[masked:A_TOKEN]"]);
    assert_eq!((first.changes.len(), first.changes[0].before.as_ref()), (1, None));
    assert_eq!(log[1].outcome, None);
    let faults = journal.log(Filter { faults: true, ..Filter::default() }).unwrap();
    assert_eq!(faults.iter().map(|it| &it.call).collect::<Vec<_>>(), ["c_1"]);
    assert_eq!(journal.log(Filter { tool: Some("grep".into()), ..Filter::default() }).unwrap(), []);
    let newest = journal.log(Filter { limit: 1, ..Filter::default() }).unwrap();
    assert_eq!(newest[0].call, "c_2");
    drop((journal, store));
    for file in ["haft.db", "haft.db-wal"] {
        let folder = fs::read_dir(state.path().join("workspaces")).unwrap().next().unwrap().unwrap().path();
        let bytes = fs::read(folder.join(file)).unwrap_or_default();
        assert!(!bytes.windows(13).any(|it| it == b"s3cret-s3cret"), "{file}");
    }
}

#[tokio::test]
async fn a_call_ends_once() {
    let state = tempfile::tempdir().unwrap();
    let journal = open(state.path()).journal();
    journal.begin(begun("c_1", Touches::none()), Durability::Wait).await.unwrap();
    journal.end(ended("c_1"), Durability::Wait).await.unwrap();
    assert_eq!(journal.end(ended("c_1"), Durability::Wait).await.unwrap_err().kind, Kind::Unavailable);
    assert_eq!(journal.log(all()).unwrap().len(), 1);
    // A failed one does not affect the same transaction, or later ones.
    journal.begin(begun("c_2", Touches::none()), Durability::Later).await.unwrap();
    journal.end_later(ended("c_1")).unwrap();
    journal.end(ended("c_2"), Durability::Wait).await.unwrap();
    assert_eq!(journal.log(all()).unwrap().len(), 2);
}

#[test]
fn history_can_only_be_added_to() {
    let state = tempfile::tempdir().unwrap();
    let store = open(state.path());
    store.history("s", "c_1").keep(Path::new("/a"), None, Some(&b"x".into())).unwrap();
    let database = rusqlite::Connection::open(store.folder().join("haft.db")).unwrap();
    database.execute("INSERT INTO undone (change, call, at_ms) VALUES (1, 'c', 0)", []).unwrap();
    database
        .execute(
            "INSERT INTO journal (event, call, session, instance, at_ms, up_us) VALUES ('ended', 'c', 's', 'i', 0, 0)",
            [],
        )
        .unwrap();
    for (table, column) in [("journal", "outcome"), ("changes", "call"), ("undone", "call")] {
        for statement in [format!("DELETE FROM {table}"), format!("UPDATE {table} SET {column} = 'x'")] {
            let error = database.execute(&statement, []).unwrap_err().to_string();
            assert!(error.contains("append-only"), "{statement}: {error}");
        }
    }
}

#[tokio::test]
async fn a_damaged_database_is_a_fault_and_is_left_as_it_is() {
    let state = tempfile::tempdir().unwrap();
    let path = open(state.path()).folder().join("haft.db");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let damaged = b"this is not a database at all. ".repeat(500);
    fs::write(&path, &damaged).unwrap();
    let store = open(state.path());
    let fault = store.journal().begin(begun("c_1", Touches::none()), Durability::Wait).await.unwrap_err();
    assert_eq!(fault.kind, Kind::Unavailable);
    let text = fault.as_text();
    assert!(text.contains("haft.db: it is damaged") && text.contains("Move it away (mv '"), "{text}");
    assert!(store.trouble().is_some());
    // The damage is known now, and nothing hangs.
    assert!(store.journal().begin(begun("c_2", Touches::none()), Durability::Later).await.is_err());
    assert!(store.history("s", "c_1").keep(Path::new("/a"), None, Some(&b"x".into())).is_err());
    assert!(store.close(Duration::from_secs(10)));
    assert_eq!(fs::read(&path).unwrap(), damaged);
}

#[tokio::test]
async fn a_newer_database_is_a_fault_and_is_left_as_it_is() {
    let state = tempfile::tempdir().unwrap();
    let store = open(state.path());
    store.flush().await.unwrap();
    let path = store.folder().join("haft.db");
    drop(store);
    let database = rusqlite::Connection::open(&path).unwrap();
    database.execute_batch("PRAGMA user_version = 77").unwrap();
    drop(database);
    let fault = open(state.path()).flush().await.unwrap_err();
    assert!(fault.what.contains("made by a newer haft (version 77; this one knows 11)"), "{}", fault.what);
    let database = rusqlite::Connection::open(&path).unwrap();
    let version: i64 = database.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    assert_eq!(version, 77);
}

#[tokio::test]
async fn a_state_folder_that_can_not_be_written_is_a_fault_on_first_use() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let store = open(file.path());
    let fault = store.flush().await.unwrap_err();
    assert_eq!(fault.kind, Kind::Unavailable);
    assert!(fault.as_text().contains("Make the folder writable"), "{}", fault.as_text());
    assert!(fault.what.contains(file.path().to_str().unwrap()), "{}", fault.what);
    assert!(store.spills().keep("s", b"x").is_err());
}

#[tokio::test]
async fn state_folder_is_private() {
    let state = tempfile::tempdir().unwrap();
    let below = state.path().join("state");
    let store = open(&below);
    store.journal().begin(begun("c_1", Touches::none()), Durability::Wait).await.unwrap();
    store.history("s", "c_1").keep(Path::new("/a"), Some(&b"x".into()), None).unwrap();
    store.spills().keep("s", b"x").unwrap();
    let mut folders = vec![below];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        assert_eq!(
            fs::metadata(&folder).unwrap().permissions().mode() & 0o777,
            0o700,
            "{}",
            folder.display()
        );
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            files += 1;
            assert_eq!(
                fs::metadata(&path).unwrap().permissions().mode() & 0o777,
                0o600,
                "{}",
                path.display()
            );
        }
    }
    // Database, WAL, shared memory, a life, a lock, a before-image, a spill.
    assert_eq!(files, 7);
}

#[tokio::test]
async fn queued_records_are_written_when_the_last_owner_is_dropped() {
    let state = tempfile::tempdir().unwrap();
    let store = open(state.path());
    for round in 0..100 {
        let call = format!("c_{round}");
        store.journal().begin(begun(&call, Touches::none()), Durability::Later).await.unwrap();
    }
    store.sessions().used("s", "cli").unwrap();
    store.sessions().put("s", "views", vec![1, 2, 3]).unwrap();
    drop(store);
    let store = open(state.path());
    assert_eq!(store.journal().log(all()).unwrap().len(), 100);
    assert_eq!(store.sessions().get("s", "views").unwrap(), Some(vec![1, 2, 3]));
    assert_eq!(store.sessions().get("other", "views").unwrap(), None);
    store.sessions().used("s", "mcp").unwrap();
    store.sessions().remove("s", "views").unwrap();
    assert_eq!(store.sessions().get("s", "views").unwrap(), None);
    let sessions = store.sessions().list().unwrap();
    assert_eq!((sessions.len(), sessions[0].front_end.as_str()), (1, "cli"));
    // Open calls of a process that closed stay open until a recovery.
    assert_eq!(store.journal().recover(&read_real).unwrap().len(), 100);
    assert!(store.close(Duration::from_secs(10)));
    assert_eq!(store.flush().await.unwrap_err().kind, Kind::Unavailable);
}

#[tokio::test]
async fn opening_does_not_wait_for_the_database() {
    let state = tempfile::tempdir().unwrap();
    open(state.path()).flush().await.unwrap();
    let folder = open(state.path()).folder().to_owned();
    // Another process is opening it, and blocks.
    let lock = fs::File::open(folder.join("locks/open")).unwrap();
    lock.lock().unwrap();
    let store = open(state.path());
    let journal = store.journal();
    journal.begin(begun("c_1", Touches::none()), Durability::Later).await.unwrap();
    let wait = tokio::spawn({
        let store = store.clone();
        async move { store.flush().await }
    });
    tokio::task::yield_now().await;
    assert!(!wait.is_finished());
    lock.unlock().unwrap();
    wait.await.unwrap().unwrap();
    assert_eq!(store.journal().log(all()).unwrap().len(), 1);
}

/// Also prints the caller's cost: `cargo test -p haft-runtime --release --test main thousands --
/// --nocapture`.
#[tokio::test]
async fn thousands_of_records_in_a_row_all_arrive() {
    const ROUNDS: u32 = 2000;
    let state = tempfile::tempdir().unwrap();
    let opening = Instant::now();
    let store = open(state.path());
    let opened = opening.elapsed();
    store.flush().await.unwrap();
    let first = opening.elapsed();
    let journal = store.journal();
    let ids: Vec<String> = (0..ROUNDS).map(|_| store.call_id()).collect();
    let start = Instant::now();
    for id in &ids {
        journal.begin(begun(id, Touches::read("/a")), Durability::Later).await.unwrap();
        journal.end(ended(id), Durability::Later).await.unwrap();
    }
    let later = start.elapsed() / ROUNDS;
    store.flush().await.unwrap();
    let through = start.elapsed() / ROUNDS;
    let mut waits = Vec::new();
    for _ in 0..200 {
        let id = store.call_id();
        let start = Instant::now();
        journal.begin(begun(&id, Touches::write("/a")), Durability::Wait).await.unwrap();
        waits.push(start.elapsed());
    }
    waits.sort();
    writeln!(
        std::io::stdout(),
        "open {opened:?}, until the database answers {first:?}; begin + end later {later:?} ({through:?} until \
         committed); begin and wait p50 {:?} p95 {:?}",
        waits[100],
        waits[190]
    )
    .unwrap();
    assert_eq!(journal.log(all()).unwrap().len(), ROUNDS as usize + 200);
}

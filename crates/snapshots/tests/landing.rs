//! Landing a patch: by the edit promise, with one undo for all of it.

use std::{fs, sync::Arc};

use kit::Kind;
use policy::Approve;
use snapshots::{Fate, Landing};
use store::journal::Filter;

use crate::support::{Person, SECRET, Sender, chmod, fates, link, tree, write};

fn fault<'l>(landing: &'l Landing, path: &str) -> &'l kit::Fault {
    landing.refused().find(|it| it.0 == path).unwrap().1
}

#[tokio::test]
async fn a_patch_lands_whole_and_one_undo_takes_all_of_it_back_and_the_next_does_it_again() {
    let sender = Sender::new();
    for (path, content) in
        [("a", "one\n"), ("gone", "g\n"), ("d/gone", "g\n"), ("run", "#!\n"), ("tool", "t\n")]
    {
        sender.write(path, content);
    }
    sender.write("becomes/a/folder", "x");
    sender.write("folder", "becomes one");
    link("a", &sender.ws().join("l"));
    link("a", &sender.ws().join("l2"));
    chmod(&sender.ws().join("tool"), 0o755);
    let before = tree(&sender.ws());
    let manifest = sender.take();
    let worker = sender.worker(&manifest);
    let at = |path: &str| worker.path().join(path);
    write(&at("a"), "two\n");
    write(&at("new/deep/file"), "new\n");
    write(&at("script"), "#!/bin/sh\n");
    chmod(&at("script"), 0o755);
    chmod(&at("run"), 0o755);
    for path in ["gone", "d/gone", "tool", "l", "l2", "folder", "becomes/a/folder"] {
        fs::remove_file(at(path)).unwrap();
    }
    fs::remove_dir_all(at("becomes")).unwrap();
    fs::remove_dir_all(at("d")).unwrap();
    link("new/deep/file", &at("l"));
    write(&at("l2"), "a file now\n");
    write(&at("becomes"), "a file now\n");
    write(&at("folder/x"), "below what was a file\n");
    link("a", &at("l3"));
    let patch = sender.patch(&manifest, worker.path());
    let landing = sender.land(&patch).await;
    assert_eq!(landing.refused().count(), 0, "{}", landing.as_text());
    assert_eq!(tree(&sender.ws()), tree(worker.path()));
    assert!(!sender.ws().join("d").exists(), "emptied folders go, as with git");
    // Landing it again changes nothing.
    let again = sender.land(&patch).await;
    assert!(again.files.iter().all(|it| matches!(it.fate, Fate::Already)), "{}", again.as_text());
    let report = sender.undo().await;
    assert_eq!(tree(&sender.ws()), before, "{report}");
    let report = sender.undo_call(report.rsplit("--call ").next().unwrap().trim()).await;
    assert_eq!(tree(&sender.ws()), tree(worker.path()), "{report}");
}

#[tokio::test]
async fn a_file_that_changed_here_is_refused_with_fresh_anchors_and_the_others_land() {
    let sender = Sender::new();
    let lines: String = (1..=40).map(|it| format!("line {it}\n")).collect();
    sender.write("a", &lines);
    sender.write("b", "one\n");
    sender.write("removed", "r\n");
    let manifest = sender.take();
    let worker = sender.worker(&manifest);
    write(&worker.path().join("a"), &lines.replace("line 30\n", "line thirty\n"));
    write(&worker.path().join("b"), "two\n");
    write(&worker.path().join("c"), "theirs\n");
    fs::remove_file(worker.path().join("removed")).unwrap();
    // Meanwhile, here:
    sender.write("a", &format!("above\n{lines}"));
    sender.write("c", "mine\n");
    sender.write("removed", "changed\n");
    let patch = sender.patch(&manifest, worker.path());
    let landing = sender.land(&patch).await;
    assert_eq!(fates(&landing), ["refused a", "landed b", "refused c", "refused removed"]);
    assert_eq!((sender.read("a"), sender.read("b")), (format!("above\n{lines}"), "two\n".to_owned()));
    assert_eq!((sender.read("c"), sender.read("removed")), ("mine\n".to_owned(), "changed\n".to_owned()));
    let said = fault(&landing, "a");
    assert_eq!(said.kind, Kind::Stale);
    let seen = said.seen.as_ref().unwrap().as_text();
    assert!(seen.contains("31:") && seen.contains("|line 30"), "{seen}");
    assert!(seen.contains("+line thirty"), "{seen}");
    assert!(fault(&landing, "c").seen.as_ref().unwrap().as_text().contains("theirs"));
    // The journal has the call with its refusals.
    let store = sender.session.runtime().store().clone();
    let call = landing.call.clone();
    let filter = Filter { call: Some(call), ..Filter::default() };
    let log = tokio::task::spawn_blocking(move || store.journal().log(filter).unwrap()).await.unwrap();
    assert_eq!((log.len(), log[0].tool.as_str(), log[0].outcome.as_deref()), (1, "land", Some("ok")));
}

#[tokio::test]
async fn the_bit_that_the_work_did_not_change_stays_as_it_is_here() {
    let sender = Sender::new();
    sender.write("a", "one\n");
    let manifest = sender.take();
    let worker = sender.worker(&manifest);
    write(&worker.path().join("a"), "two\n");
    chmod(&sender.ws().join("a"), 0o755);
    let landing = sender.land(&sender.patch(&manifest, worker.path())).await;
    assert_eq!((fates(&landing), tree(&sender.ws())["a"].as_str()), (vec!["landed a".to_owned()], "x:two\n"));
}

#[tokio::test]
async fn a_patch_never_follows_a_symlink_that_is_here_now() {
    let sender = Sender::new();
    sender.write("d/a", "one\n");
    sender.write("b", "one\n");
    let manifest = sender.take();
    let worker = sender.worker(&manifest);
    write(&worker.path().join("d/a"), "two\n");
    write(&worker.path().join("b"), "two\n");
    let patch = sender.patch(&manifest, worker.path());
    fs::rename(sender.ws().join("d"), sender.ws().join("real")).unwrap();
    link("real", &sender.ws().join("d"));
    fs::rename(sender.ws().join("b"), sender.ws().join("real/b")).unwrap();
    link("real/b", &sender.ws().join("b"));
    let landing = sender.land(&patch).await;
    assert_eq!(fates(&landing), ["refused b", "refused d/a"]);
    assert_eq!((sender.read("real/a"), sender.read("real/b")), ("one\n".to_owned(), "one\n".to_owned()));
}

#[tokio::test]
async fn control_files_are_asked_about_once_and_a_no_keeps_the_others_from_nothing() {
    for yes in [false, true] {
        let person = Arc::new(Person(yes, Default::default()));
        let sender = Sender::asking(Approve::Ask, person.clone());
        sender.write("a", "one\n");
        sender.write(".envrc", "one\n");
        let manifest = sender.take();
        let worker = sender.worker(&manifest);
        for path in ["a", ".envrc", ".vscode/tasks.json"] {
            write(&worker.path().join(path), "two\n");
        }
        let landing = sender.land(&sender.patch(&manifest, worker.path())).await;
        let fate = if yes { "landed" } else { "refused" };
        let expected =
            [format!("{fate} .envrc"), format!("{fate} .vscode/tasks.json"), "landed a".to_owned()];
        assert_eq!(fates(&landing), expected, "{}", landing.as_text());
        let asked = person.1.lock();
        assert_eq!((asked.len(), asked[0].changes.len()), (1, 2));
        assert!(asked[0].changes.iter().any(|it| it.diff.contains("+two")));
        assert_eq!(sender.ws().join(".vscode").exists(), yes);
    }
}

#[tokio::test]
async fn nobody_to_ask_refuses_control_files_and_ask_edits_asks_about_all() {
    let sender = Sender::asking(Approve::Never, Arc::new(Person(true, Default::default())));
    let manifest = sender.take();
    let worker = sender.worker(&manifest);
    write(&worker.path().join(".envrc"), "two\n");
    write(&worker.path().join("a"), "two\n");
    let patch = sender.patch(&manifest, worker.path());
    let landing = sender.land(&patch).await;
    assert_eq!(fates(&landing), ["refused .envrc", "landed a"]);
    assert_eq!(fault(&landing, ".envrc").kind, Kind::Denied);

    let person = Arc::new(Person(false, Default::default()));
    let sender = Sender::asking(Approve::AskEdits, person.clone());
    let manifest = sender.take();
    let worker = sender.worker(&manifest);
    write(&worker.path().join("a"), "two\n");
    link("a", &worker.path().join("l"));
    let landing = sender.land(&sender.patch(&manifest, worker.path())).await;
    assert_eq!(fates(&landing), ["refused a", "refused l"], "{}", landing.as_text());
    assert_eq!((person.1.lock().len(), tree(&sender.ws()).len()), (1, 0));
}

#[tokio::test]
async fn folders_without_files_give_way_to_a_new_file_and_an_undo_makes_them_again() {
    let sender = Sender::new();
    sender.write("a", "one\n");
    let manifest = sender.take();
    let worker = sender.worker(&manifest);
    write(&worker.path().join("free"), "new\n");
    write(&worker.path().join("taken"), "new\n");
    fs::create_dir_all(sender.ws().join("free/deep/er")).unwrap();
    fs::create_dir_all(sender.ws().join("free/wide")).unwrap();
    sender.write("taken/deep/file", "the person's\n");
    let patch = sender.patch(&manifest, worker.path());
    let landing = sender.land(&patch).await;
    assert_eq!(fates(&landing), ["landed free", "refused taken"]);
    assert_eq!(
        fault(&landing, "taken").what,
        "`taken` is a folder where the snapshot had nothing; it was left as it is"
    );
    assert_eq!(sender.read("free"), "new\n");
    let report = sender.undo().await;
    assert!(sender.ws().join("free/deep/er").is_dir(), "{report}");
    assert!(sender.ws().join("free/wide").is_dir(), "{report}");
    assert_eq!(sender.read("taken/deep/file"), "the person's\n");
}

#[tokio::test]
async fn what_changes_after_the_landing_is_left_alone_by_its_undo() {
    let sender = Sender::new();
    for path in ["a", "b", "x"] {
        sender.write(path, "one\n");
    }
    let manifest = sender.take();
    let worker = sender.worker(&manifest);
    write(&worker.path().join("a"), "two\n");
    write(&worker.path().join("b"), "two\n");
    chmod(&worker.path().join("x"), 0o755);
    sender.land(&sender.patch(&manifest, worker.path())).await;
    sender.write("a", "three\n");
    sender.write("x", "longer than before\n");
    let report = sender.undo().await;
    assert_eq!((sender.read("a"), sender.read("b")), ("three\n".to_owned(), "one\n".to_owned()), "{report}");
    assert_eq!(sender.read("x"), "longer than before\n", "{report}");
}

#[tokio::test]
async fn a_secret_of_the_worker_does_not_travel_back() {
    let sender = Sender::new();
    sender.write("a", "one\n");
    let manifest = sender.take();
    let worker = sender.worker(&manifest);
    write(&worker.path().join("a"), &format!("{SECRET}\n"));
    write(&worker.path().join("b"), "fine\n");
    let patch = sender.patch(&manifest, worker.path());
    assert_eq!(patch.changes.iter().map(|it| it.path.as_str()).collect::<Vec<_>>(), ["b"]);
    assert_eq!(patch.left_out.iter().map(|it| it.path.as_str()).collect::<Vec<_>>(), ["a"]);
}

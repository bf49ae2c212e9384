//! Taking a snapshot and making its files again.

use std::{fs, process::Command, time::Instant};

use kit::Kind;
use snapshots::{BlobHash, Blobs, Cache, Limits, Manifest, Source, Why, materialize, take};

use crate::support::{SECRET, Sender, chmod, link, tree, write};

fn git(sender: &Sender, arguments: &[&str]) -> String {
    let mut git = Command::new("git");
    git.current_dir(sender.ws())
        .args(["-c", "user.name=a", "-c", "user.email=a@example.org"])
        .args(arguments);
    let output = git.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The files that git shows: the tracked ones that exist, and those that it does not ignore.
fn shown_by_git(sender: &Sender) -> Vec<String> {
    let listed = git(sender, &["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let mut names: Vec<String> = listed.split_terminator('\0').map(str::to_owned).collect();
    names.retain(|it| sender.ws().join(it).symlink_metadata().is_ok());
    names.sort();
    names.dedup();
    names
}

#[test]
fn snapshot_has_what_git_shows_and_becomes_the_same_files() {
    let sender = Sender::new();
    git(&sender, &["init", "-q", "-b", "main"]);
    for (path, content) in [
        (".gitignore", "*.log\n/build/\n!keep.log\nsub/*.tmp\n"),
        ("a.txt", "one\n"),
        ("x.log", "ignored"),
        ("keep.log", "kept"),
        ("build/out", "ignored"),
        ("sub/build/out", "kept"),
        ("sub/x.tmp", "ignored"),
        ("sub/.gitignore", "!x.log\n/only-here\n"),
        ("sub/x.log", "kept"),
        ("sub/only-here", "ignored"),
        ("excluded.txt", "ignored by .git/info/exclude"),
        ("node_modules/m.js", "git shows it"),
        (".ignore", "a.txt\n"),
    ] {
        sender.write(path, content);
    }
    sender.write("tracked.log", "tracked though ignored");
    sender.write("build/tracked", "tracked in an ignored folder");
    git(&sender, &["add", "-f", "tracked.log", "build/tracked", "a.txt"]);
    git(&sender, &["commit", "-q", "-m", "first"]);
    write(&sender.ws().join(".git/info/exclude"), "excluded.txt\n");
    chmod(&sender.ws().join("sub/build/out"), 0o755);
    link("sub/x.log", &sender.ws().join("inside"));
    let manifest = sender.take();
    let names: Vec<String> = manifest.files.keys().cloned().collect();
    assert_eq!(names, shown_by_git(&sender));
    let commit = git(&sender, &["rev-parse", "HEAD"]);
    let state = manifest.git.clone().unwrap();
    assert_eq!((state.commit.as_deref(), state.branch.as_deref()), (Some(commit.trim()), Some("main")));
    let worker = sender.worker(&manifest);
    let mut sent = tree(&sender.ws());
    sent.retain(|name, _| names.contains(name));
    assert_eq!(tree(worker.path()), sent);
    // The worker has no `.git`, and ignores the same files all the same.
    for name in ["excluded.txt", "y.log", "build/new"] {
        write(&worker.path().join(name), "made by the work");
    }
    assert!(sender.patch(&manifest, worker.path()).is_empty());
}

#[test]
fn each_form_of_an_index_is_read() {
    for arguments in
        [&["update-index", "--index-version", "4"][..], &["update-index", "--index-version", "2"]]
    {
        let sender = Sender::new();
        git(&sender, &["init", "-q"]);
        sender.write(".gitignore", "*\n");
        for at in 0..30 {
            sender.write(&format!("d{}/some-long-name-{at}", at % 3), "x");
        }
        git(&sender, &["add", "-f", "."]);
        git(&sender, arguments);
        let names: Vec<String> = sender.take().files.into_keys().collect();
        assert_eq!(names, shown_by_git(&sender), "{arguments:?}");
        assert_eq!(names.len(), 31);
    }
}

#[test]
fn secrets_hidden_paths_links_out_and_long_files_stay_and_are_named() {
    let sender = Sender::new();
    sender.write("a", "one");
    sender.write("secret.env", &format!("TOKEN={SECRET}\n"));
    sender.write("long", &"x".repeat(5000));
    link("/etc/passwd", &sender.ws().join("absolute"));
    link("../state", &sender.ws().join("up"));
    link(".", &sender.ws().join("here"));
    link("here/../../state", &sender.ws().join("through"));
    let limits = Limits { file: 1000, ..Limits::default() };
    let source = Source::workspace(sender.session.runtime()).limited(limits);
    let manifest = take(&source, &sender.blobs).unwrap();
    assert_eq!(manifest.files.keys().collect::<Vec<_>>(), ["a", "here"]);
    let left: Vec<(&str, &Why)> = manifest.left_out.iter().map(|it| (it.path.as_str(), &it.why)).collect();
    let leads_out = &Why::LeadsOut;
    assert_eq!(
        left,
        [
            ("absolute", leads_out),
            ("long", &Why::TooLarge { len: 5000 }),
            ("secret.env", &Why::Secret),
            ("through", leads_out),
            ("up", leads_out)
        ]
    );
    assert!(!String::from_utf8_lossy(&manifest.to_bytes()).contains(SECRET));
    let hash = BlobHash::of(format!("TOKEN={SECRET}\n").as_bytes());
    assert_eq!(sender.blobs.lacking(&[hash]).unwrap(), [hash]);
    let fault = take(
        &Source::workspace(sender.session.runtime()).limited(Limits { files: 1, ..limits }),
        &sender.blobs,
    );
    assert_eq!(fault.unwrap_err().kind, Kind::TooBig);
}

#[test]
fn only_contents_that_the_other_side_lacks_are_stored() {
    struct Counted(Cache, parking_lot::Mutex<usize>);
    impl Blobs for Counted {
        fn lacking(&self, hashes: &[BlobHash]) -> Result<Vec<BlobHash>, kit::Fault> {
            self.0.lacking(hashes)
        }
        fn put(&self, hash: &BlobHash, content: &[u8]) -> Result<(), kit::Fault> {
            *self.1.lock() += 1;
            self.0.put(hash, content)
        }
        fn get(&self, hash: &BlobHash) -> Result<Vec<u8>, kit::Fault> {
            self.0.get(hash)
        }
    }
    let sender = Sender::new();
    for at in 0..10 {
        sender.write(&format!("f{at}"), &format!("content {}", at % 5));
    }
    let blobs = Counted(sender.blobs.clone(), parking_lot::Mutex::new(0));
    let source = Source::workspace(sender.session.runtime()).indexed(sender.dir.path().join("index"));
    take(&source, &blobs).unwrap();
    assert_eq!(*blobs.1.lock(), 5);
    sender.write("f3", "new");
    let manifest = take(&source, &blobs).unwrap();
    assert_eq!(*blobs.1.lock(), 6);
    assert_eq!(tree(sender.worker(&manifest).path()), tree(&sender.ws()));
}

#[test]
fn a_remembered_file_that_changed_is_read_again() {
    let sender = Sender::new();
    let path = sender.ws().join("a");
    sender.write("a", "one");
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(100);
    fs::File::options().write(true).open(&path).unwrap().set_modified(long_ago).unwrap();
    let source = Source::workspace(sender.session.runtime()).indexed(sender.dir.path().join("index"));
    let first = take(&source, &sender.blobs).unwrap();
    // The same length and the same time: only the time of the change tells.
    sender.write("a", "two");
    fs::File::options().write(true).open(&path).unwrap().set_modified(long_ago).unwrap();
    let second = take(&source, &sender.blobs).unwrap();
    assert_ne!(first.files["a"], second.files["a"]);
}

#[test]
fn a_file_that_is_written_to_meanwhile_has_one_of_its_contents() {
    let sender = Sender::new();
    let path = sender.ws().join("a");
    let contents: Vec<String> = (0..4).map(|it| it.to_string().repeat(200_000)).collect();
    fs::write(&path, &contents[0]).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let beside = sender.dir.path().join("beside");
            for at in (0..4).cycle() {
                if stop.load(std::sync::atomic::Ordering::Relaxed) {
                    return;
                }
                fs::write(&beside, &contents[at]).unwrap();
                fs::rename(&beside, &path).unwrap();
            }
        });
        for _ in 0..50 {
            let manifest = sender.take();
            if let Some(hash) = manifest.files.get("a").and_then(snapshots::Node::hash) {
                let content = String::from_utf8(sender.blobs.get(&hash).unwrap()).unwrap();
                assert!(contents.contains(&content));
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn hostile_manifests_write_nothing_outside_and_damaged_contents_are_refused() {
    let sender = Sender::new();
    sender.write("a", "one");
    let honest = String::from_utf8(sender.take().to_bytes()).unwrap();
    for path in ["../a", "/a", "a/../b", "", "a//b", ".git/hooks/x", "d/.GIT/x", "."] {
        let hostile = honest.replace("\"a\":{", &format!("{path:?}:{{"));
        assert_ne!(hostile, honest);
        assert_eq!(Manifest::from_bytes(hostile.as_bytes()).unwrap_err().kind, Kind::BadArgs, "{path}");
    }
    let mut manifest = Manifest::from_bytes(honest.as_bytes()).unwrap();
    let file = manifest.files["a"].clone();
    for (path, target) in [("l", "/etc"), ("l", ".."), ("d/l", "../../x"), ("l", "x/../y")] {
        manifest.files.insert(path.to_owned(), snapshots::Node::Link { target: target.to_owned() });
        assert!(Manifest::from_bytes(&manifest.to_bytes()).is_err(), "{target}");
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(sender.dir.path().join("cache"));
        assert!(materialize(&manifest, &sender.blobs, &cache, folder.path()).is_err());
        manifest.files.remove(path);
    }
    manifest.files.insert("l".to_owned(), snapshots::Node::Link { target: "d".to_owned() });
    manifest.files.insert("l/x".to_owned(), file);
    assert!(Manifest::from_bytes(&manifest.to_bytes()).is_err());

    struct Damaged;
    impl Blobs for Damaged {
        fn lacking(&self, _: &[BlobHash]) -> Result<Vec<BlobHash>, kit::Fault> {
            Ok(Vec::new())
        }
        fn put(&self, _: &BlobHash, _: &[u8]) -> Result<(), kit::Fault> {
            Ok(())
        }
        fn get(&self, _: &BlobHash) -> Result<Vec<u8>, kit::Fault> {
            Ok(b"something else".to_vec())
        }
    }
    let manifest = Manifest::from_bytes(honest.as_bytes()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let fresh = Cache::new(sender.dir.path().join("fresh"));
    assert_eq!(materialize(&manifest, &Damaged, &fresh, folder.path()).unwrap_err().kind, Kind::Failed);
    assert!(fs::read_dir(folder.path()).unwrap().next().is_none());
    fs::write(folder.path().join("mine"), "").unwrap();
    let fault = materialize(&manifest, &sender.blobs, &fresh, folder.path()).unwrap_err();
    assert_eq!(fault.kind, Kind::BadArgs);
}

/// Prints how long a snapshot takes: of 5,000 files, and of the folder in `SNAPSHOT_OF`.
#[test]
#[ignore = "a measurement"]
fn speed() {
    let sender = Sender::new();
    for at in 0..5000 {
        sender.write(&format!("d{}/f{at}", at % 100), &format!("{at} ").repeat(400));
    }
    let mut folders = vec![sender.ws()];
    folders.extend(std::env::var_os("SNAPSHOT_OF").map(Into::into));
    for folder in folders {
        let blobs = tempfile::tempdir().unwrap();
        let blobs = Cache::new(blobs.path());
        let index = tempfile::tempdir().unwrap();
        let source = || Source::folder(&folder, |_| false).unwrap().indexed(index.path().join("index"));
        std::thread::sleep(std::time::Duration::from_secs(3));
        let timed = |what: &str| {
            let began = Instant::now();
            let manifest = take(&source(), &blobs).unwrap();
            println!("{}: {what}: {} files, {:?}", folder.display(), manifest.files.len(), began.elapsed());
            manifest
        };
        let manifest = timed("first");
        timed("again");
        let worker = tempfile::tempdir().unwrap();
        let began = Instant::now();
        materialize(&manifest, &blobs, &blobs, worker.path()).unwrap();
        println!("materialize: {:?}", began.elapsed());
        let began = Instant::now();
        let source = Source::folder(worker.path(), |_| false).unwrap();
        let patch = snapshots::Patch::between(&manifest, &source, &blobs).unwrap();
        println!("between: {:?}, {} changes", began.elapsed(), patch.changes.len());
    }
}

//! File access below the roots while symlinks and folders are swapped.

use std::{
    ffi::CString,
    fs,
    os::unix::{
        ffi::OsStrExt,
        fs::{PermissionsExt, symlink},
    },
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use kit::{
    Kind, Touch, Touches,
    files::{Before, Go, Ignored, Walk},
    testing::TestWorkspace,
};
use rustix::fs::{CWD, RenameFlags, renameat_with};

const ALL: Walk = Walk { ignored: Ignored::Show, depth: usize::MAX };

/// On a busy machine it may take many rounds until one falls between two swaps.
const ROUNDS: usize = 200_000;

/// Returns a workspace, and beside it a folder with a secret that nothing may reach.
fn workspace_beside_a_secret() -> (TestWorkspace, tempfile::TempDir) {
    let test_ws = TestWorkspace::new("//- real/file\ninside\n//- plain\ninside\n");
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("file"), "SECRET\n").unwrap();
    (test_ws, outside)
}

/// Exchanges `one` and `other` as fast as possible, while `work` runs.
fn while_swapping(one: &Path, other: &Path, work: impl FnOnce()) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
            }
        });
        work();
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_folder_swapped_for_a_link_is_never_read_through() {
    let (test_ws, outside) = workspace_beside_a_secret();
    symlink(outside.path(), test_ws.path().join("link")).unwrap();
    let cx = test_ws.cx();
    let mut read = 0;
    while_swapping(&test_ws.path().join("real"), &test_ws.path().join("link"), || {
        for round in 0..ROUNDS {
            if round >= 5_000 && read > 0 {
                return;
            }
            if let Ok(loaded) = cx.files().load("real/file", 1000) {
                assert_eq!(&*loaded.bytes, b"inside\n");
                read += 1;
            }
            if let Ok(entries) = cx.files().list("real") {
                assert!(entries.iter().all(|entry| entry.name == "file"));
            }
        }
    });
    assert!(read > 0, "the test saw nothing but refusals, so it proved nothing");
}

#[test]
fn a_file_swapped_for_a_link_is_never_read_or_written_through() {
    let (test_ws, outside) = workspace_beside_a_secret();
    symlink(outside.path().join("file"), test_ws.path().join("link")).unwrap();
    let mut landed = 0;
    while_swapping(&test_ws.path().join("plain"), &test_ws.path().join("link"), || {
        for round in 0..ROUNDS {
            if round >= 1_000 && landed > 0 {
                return;
            }
            let cx = test_ws.cx_for(&Touches::write("plain"));
            let Ok(loaded) = cx.files().load("plain", 1000) else { continue };
            assert_ne!(&*loaded.bytes, b"SECRET\n");
            landed += usize::from(cx.files().save("plain", Before::Was(&loaded), b"ours\n").is_ok());
        }
    });
    assert!(landed > 0, "nothing landed, so nothing was proved");
    assert_eq!(fs::read(outside.path().join("file")).unwrap(), b"SECRET\n");
}

#[test]
fn a_new_file_is_never_made_outside() {
    let (test_ws, outside) = workspace_beside_a_secret();
    symlink(outside.path(), test_ws.path().join("link")).unwrap();
    let mut made = 0;
    while_swapping(&test_ws.path().join("real"), &test_ws.path().join("link"), || {
        for number in 0..ROUNDS {
            if number >= 1_000 && made > 0 {
                return;
            }
            let path = format!("real/new/{number}");
            let cx = test_ws.cx_for(&Touches::write(&path));
            made += usize::from(cx.files().save(&path, Before::Absent, b"x").is_ok());
        }
    });
    assert!(made > 0, "nothing was made, so nothing was proved");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[test]
fn a_walk_is_never_led_outside() {
    let (test_ws, outside) = workspace_beside_a_secret();
    symlink(outside.path(), test_ws.path().join("link")).unwrap();
    fs::create_dir(outside.path().join("deep")).unwrap();
    let cx = test_ws.cx();
    while_swapping(&test_ws.path().join("real"), &test_ws.path().join("link"), || {
        for _ in 0..500 {
            cx.files()
                .walk("", ALL, &|| Ok(()), &|met| {
                    assert!(!met.path.ends_with("deep"), "walked outside: {}", met.path.display());
                    if let Some((file, _)) = met.open() {
                        assert_ne!(std::io::read_to_string(file).unwrap(), "SECRET\n");
                    }
                    Go::On
                })
                .unwrap();
        }
    });
}

#[test]
fn links_that_stay_inside_work_and_those_that_lead_out_name_their_target() {
    let (test_ws, outside) = workspace_beside_a_secret();
    symlink("real", test_ws.path().join("good")).unwrap();
    symlink(outside.path(), test_ws.path().join("bad")).unwrap();
    let cx = test_ws.cx();
    assert_eq!(&*cx.files().load("good/file", 100).unwrap().bytes, b"inside\n");
    for path in ["bad/file", "bad", "bad/new"] {
        let fault = cx.files().load(path, 100).err().unwrap();
        assert_eq!(fault.kind, Kind::Denied, "{path}");
        assert!(fault.what.contains(&outside.path().display().to_string()), "{}", fault.what);
    }
}

#[test]
fn writing_through_a_link_changes_the_target_and_keeps_the_link() {
    let (test_ws, _outside) = workspace_beside_a_secret();
    symlink("real/file", test_ws.path().join("link")).unwrap();
    let cx = test_ws.cx_for(&Touches::write("link"));
    let loaded = cx.files().load("link", 100).unwrap();
    cx.files().save("link", Before::Was(&loaded), b"new\n").unwrap();
    assert!(fs::symlink_metadata(test_ws.path().join("link")).unwrap().is_symlink());
    assert_eq!(test_ws.bytes("real/file"), b"new\n");
}

#[test]
fn a_call_reaches_only_what_it_was_granted() {
    let (test_ws, _outside) = workspace_beside_a_secret();
    let cx = test_ws.cx_for(&Touches::read("real").and(Touch::Write("other".to_owned())));
    assert!(cx.files().load("real/file", 100).is_ok());
    let fault = cx.files().load("plain", 100).err().unwrap();
    assert_eq!(fault.kind, Kind::Denied);
    assert!(fault.what.contains("rule `grants`"));
    let loaded = cx.files().load("real/file", 100).unwrap();
    assert_eq!(cx.files().save("real/file", Before::Was(&loaded), b"x").unwrap_err().kind, Kind::Denied);
    assert!(cx.files().save("other", Before::Absent, b"x").is_ok());
}

#[test]
fn a_hard_link_to_a_file_outside_is_refused_and_one_within_is_read() {
    let (test_ws, _outside) = workspace_beside_a_secret();
    // In the same file system, or there could be no hard link.
    let secret = test_ws.path().with_extension("secret");
    fs::write(&secret, "SECRET\n").unwrap();
    fs::hard_link(&secret, test_ws.path().join("alias")).unwrap();
    fs::hard_link(test_ws.path().join("plain"), test_ws.path().join("real/twin")).unwrap();
    let cx = test_ws.cx();
    let fault = cx.files().load("alias", 100).err().unwrap();
    assert_eq!(fault.kind, Kind::Denied);
    assert!(fault.what.contains("of the 2 names"), "{}", fault.what);
    assert_eq!(&*cx.files().load("plain", 100).unwrap().bytes, b"inside\n");
    fs::remove_file(secret).unwrap();
}

#[test]
fn files_that_are_not_regular_are_refused_at_once() {
    let test_ws = TestWorkspace::empty();
    let fifo = CString::new(test_ws.path().join("fifo").as_os_str().as_bytes()).unwrap();
    rustix::fs::mknodat(CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(test_ws.path().join("socket")).unwrap();
    let cx = test_ws.cx();
    for (path, what) in [("fifo", "a named pipe"), ("socket", "a socket"), ("", "is a folder")] {
        let fault = cx.files().load(path, 100).err().unwrap();
        assert_eq!(fault.kind, Kind::BadArgs);
        assert!(fault.what.contains(what), "{}", fault.what);
    }
    // A pipe that is walked past, too.
    let walked = cx.files().walk("", ALL, &|| Ok(()), &|met| {
        assert!(met.open().is_none());
        Go::On
    });
    assert!(walked.is_ok());
}

#[test]
fn files_of_the_kernel_are_refused_even_below_a_root() {
    let spec = kit::files::RootSpec { path: "/proc/self".into(), read_only: true };
    let roots = kit::files::Roots::open(&[spec], kit::files::OtherNames::Allow).unwrap();
    let location = roots.locate("").unwrap();
    let grant = kit::files::Grant { location, access: kit::files::Access::Read };
    let test_ws = TestWorkspace::empty();
    let files = kit::Files::new(roots, vec![grant], test_ws.cx().services().history.clone());
    for path in ["environ", "cwd/x", "root/etc/passwd", "fd/0"] {
        assert!(files.load(path, 1000).is_err(), "{path}");
    }
}

#[test]
fn a_change_keeps_mode_and_refuses_a_file_that_moved_on() {
    let test_ws = TestWorkspace::new("//- run.sh\nold\n");
    let path = test_ws.path().join("run.sh");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o751)).unwrap();
    let cx = test_ws.cx_for(&Touches::write("run.sh"));
    let loaded = cx.files().load("run.sh", 100).unwrap();
    cx.files().save("run.sh", Before::Was(&loaded), b"new\n").unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o751);
    let again = cx.files().save("run.sh", Before::Was(&loaded), b"newer\n");
    assert_eq!(again.unwrap_err().kind, Kind::Stale);
    assert_eq!(cx.files().save("run.sh", Before::Absent, b"x").unwrap_err().kind, Kind::Stale);
    assert_eq!(test_ws.bytes("run.sh"), b"new\n");
    let left: Vec<_> = fs::read_dir(test_ws.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(left, ["run.sh"]);
}

#[test]
fn nothing_is_written_after_the_gate_closes() {
    let test_ws = TestWorkspace::empty();
    let cx = test_ws.cx_for(&Touches::write("new"));
    assert!(cx.files().close_gate());
    assert_eq!(cx.files().save("new", Before::Absent, b"x").unwrap_err().kind, Kind::Cancelled);
    assert!(!test_ws.path().join("new").exists());
}

#[test]
fn a_missing_file_is_answered_with_the_nearest_names() {
    let test_ws = TestWorkspace::new("//- src/parser.rs\n\n//- src/lexer.rs\n\n");
    let fault = test_ws.cx().files().load("src/parsers.rs", 100).err().unwrap();
    assert_eq!(fault.kind, Kind::NotFound);
    assert_eq!(fault.next.unwrap(), "Did you mean `src/parser.rs`?");
}

#[test]
fn a_walk_leaves_out_what_git_and_convention_ignore() {
    let test_ws = TestWorkspace::new(
        "//- .gitignore\n*.log\n/build\n!keep.log\n//- a.log\n\n//- keep.log\n\n//- build/x\n\n//- src/build/y\n\n\
         //- src/.gitignore\nsecret/\n//- src/secret/z\n\n//- node_modules/m/i.js\n\n//- .git/config\n\n\
         //- cache/CACHEDIR.TAG\nSignature: 8a477f597d28d172789f06886806bc55\n//- cache/c\n\n//- .ignore\nnotes\n//- notes/n\n\n\
         //- sub/.git/x\n\n//- sub/b.log\n\n",
    );
    let cx = test_ws.cx();
    let walk = |dir: &str, ignored| {
        let met = parking_lot::Mutex::new(Vec::new());
        let walk = Walk { ignored, depth: usize::MAX };
        cx.files()
            .walk(dir, walk, &|| Ok(()), &|it| {
                if it.kind == kit::files::EntryKind::File {
                    met.lock().push(it.path.display().to_string());
                }
                Go::On
            })
            .unwrap();
        let mut met = met.into_inner();
        met.sort();
        met
    };
    // A repository of its own does not take the rules of the one around it.
    assert_eq!(
        walk("", Ignored::Skip),
        [".gitignore", ".ignore", "keep.log", "src/.gitignore", "src/build/y", "sub/b.log"]
    );
    assert_eq!(walk("src", Ignored::Skip), [".gitignore", "build/y"]);
    assert!(walk("", Ignored::Show).contains(&"node_modules/m/i.js".to_owned()));
    assert!(!walk("", Ignored::Show).iter().any(|it| it.starts_with(".git/")));
}

#[test]
fn a_deep_and_a_wide_tree_are_walked_whole() {
    let test_ws = TestWorkspace::empty();
    let mut deep = test_ws.path().to_owned();
    for _ in 0..700 {
        deep.push("d");
    }
    fs::create_dir_all(&deep).unwrap_or_else(|error| panic!("{error}"));
    let wide = test_ws.path().join("wide");
    fs::create_dir(&wide).unwrap();
    for number in 0..5_000 {
        fs::write(wide.join(number.to_string()), "").unwrap();
    }
    let met = std::sync::atomic::AtomicUsize::new(0);
    let cx = test_ws.cx();
    cx.files()
        .walk("", ALL, &|| Ok(()), &|_| {
            met.fetch_add(1, Ordering::Relaxed);
            Go::On
        })
        .unwrap();
    assert_eq!(met.into_inner(), 700 + 1 + 5_000);
    assert_eq!(cx.files().list("wide").unwrap().len(), 5_000);
}

#[test]
fn a_walk_whose_visitor_panics_ends_with_that_panic() {
    let test_ws = TestWorkspace::empty();
    for number in 0..1_000 {
        fs::create_dir(test_ws.path().join(number.to_string())).unwrap();
    }
    let cx = test_ws.cx();
    let walked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        cx.files().walk("", ALL, &|| Ok(()), &|met| {
            assert!(!met.path.ends_with("500"), "meant to happen");
            Go::On
        })
    }));
    assert!(walked.is_err());
}

#[test]
fn a_link_may_lead_from_one_root_into_another_with_the_rights_of_that() {
    use kit::files::{Access, Grant, OtherNames, RootSpec, Roots};
    let (test_ws, other) = workspace_beside_a_secret();
    fs::create_dir(other.path().join("sub")).unwrap();
    symlink(other.path(), test_ws.path().join("there")).unwrap();
    symlink(test_ws.path().join("real"), other.path().join("back")).unwrap();
    let spec = |path: &Path, read_only| RootSpec { path: path.to_owned(), read_only };
    let roots =
        Roots::open(&[spec(test_ws.path(), false), spec(other.path(), true)], OtherNames::Refuse).unwrap();
    let location = roots.locate("there/sub/../file").unwrap();
    assert_eq!(location.absolute(), other.path().canonicalize().unwrap().join("file"));
    assert!(location.is_read_only());
    assert!(!roots.locate("there/back/file").unwrap().is_read_only());
    assert_eq!(roots.locate("there/../../x").unwrap_err().kind, Kind::Denied);
    let grants = vec![Grant { location, access: Access::Write }];
    let files = kit::Files::new(roots, grants, test_ws.cx().services().history.clone());
    assert!(files.load("there/file", 100).is_ok());
    assert_eq!(files.save("there/file", Before::Absent, b"x").unwrap_err().kind, Kind::Denied);
}

#[test]
fn a_count_of_names_does_not_outlive_the_file_it_was_made_for() {
    let test_ws = TestWorkspace::new("//- a\nmine\n");
    let cx = test_ws.cx();
    let (a, b, c) = (test_ws.path().join("a"), test_ws.path().join("b"), test_ws.path().join("c"));
    let outside = test_ws.path().with_extension("outside");
    fs::hard_link(&a, &b).unwrap();
    assert!(cx.files().load("a", 100).is_ok());
    fs::remove_file(&a).unwrap();
    fs::remove_file(&b).unwrap();
    // A new file often gets the inode number of the old one.
    for _ in 0..50 {
        fs::write(&outside, "SECRET\n").unwrap();
        fs::hard_link(&outside, &c).unwrap();
        assert_eq!(cx.files().load("c", 100).err().map(|fault| fault.kind), Some(Kind::Denied));
        fs::remove_file(&outside).unwrap();
        fs::remove_file(&c).unwrap();
    }
}

#[test]
fn the_innermost_root_decides_by_whatever_spelling_it_is_reached() {
    use kit::files::{OtherNames, RootSpec, Roots};
    let test_ws = TestWorkspace::new("//- sub/x\nx\n//- plain\nx\n");
    symlink("sub", test_ws.path().join("link")).unwrap();
    let spec = |path: std::path::PathBuf, read_only| RootSpec { path, read_only };
    let inner = test_ws.path().join("sub");
    let specs = [spec(test_ws.path().to_owned(), false), spec(inner.clone(), true)];
    let roots = Roots::open(&specs, OtherNames::Refuse).unwrap();
    let absolute = inner.join("new").display().to_string();
    for path in ["sub/x", "sub/new", "link/new", "./sub/../sub/x", &absolute] {
        assert!(roots.locate(path).unwrap().is_read_only(), "{path}");
    }
    let up = format!("{}/../plain", inner.display());
    assert!(!roots.locate(&up).unwrap().is_read_only());
}

#[test]
fn hidden_folders_are_neither_read_nor_walked() {
    use kit::files::{Access, Grant, OtherNames, RootSpec, Roots};
    let test_ws = TestWorkspace::new("//- state/db\nx\n//- plain\nx\n");
    symlink("state/db", test_ws.path().join("link")).unwrap();
    let spec = RootSpec { path: test_ws.path().to_owned(), read_only: false };
    let roots = Roots::open(&[spec], OtherNames::Refuse).unwrap();
    let roots = roots.hiding(&[test_ws.path().join("state")], Vec::new);
    for path in ["state/db", "state/new", "state", "link", "./state/../state/db"] {
        assert_eq!(roots.locate(path).unwrap_err().kind, Kind::Denied, "{path}");
    }
    let grants = vec![Grant { location: roots.locate("").unwrap(), access: Access::Read }];
    let files = kit::Files::new(roots, grants, test_ws.cx().services().history.clone());
    let walked = files.walk("", ALL, &|| Ok(()), &|met| {
        assert!(!met.path.starts_with("state"), "{}", met.path.display());
        Go::On
    });
    assert!(walked.is_ok());
}

#[test]
fn credentials_are_out_of_reach_unless_a_root_lies_in_them() {
    use kit::files::{OtherNames, RootSpec, Roots};
    let test_ws = TestWorkspace::new("//- .ssh/id\nx\n//- .claude/skills/x\nx\n//- plain\nx\n");
    symlink(".ssh/id", test_ws.path().join("link")).unwrap();
    let spec = |path| RootSpec { path, read_only: false };
    let specs = [spec(test_ws.path().to_owned()), spec(test_ws.path().join(".claude/skills"))];
    let secrets = [".ssh", ".netrc", ".claude"].map(|it| test_ws.path().join(it)).to_vec();
    let roots = Roots::open(&specs, OtherNames::Refuse).unwrap().hiding(&[], || secrets);
    for path in [".ssh/id", ".ssh", "link", ".netrc"] {
        let fault = roots.locate(path).unwrap_err();
        assert!(fault.kind == Kind::Denied && fault.what.contains("credentials"), "{path}: {fault:?}");
    }
    for path in ["plain", ".claude/skills/x"] {
        assert!(roots.locate(path).is_ok(), "{path}");
    }
}

#[test]
fn a_change_of_bytes_is_noticed_although_size_and_time_are_as_before() {
    let test_ws = TestWorkspace::new("//- a\none\n");
    let path = test_ws.path().join("a");
    let cx = test_ws.cx_for(&Touches::write("a"));
    let loaded = cx.files().load("a", 100).unwrap();
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    fs::write(&path, "two\n").unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    assert_eq!(cx.files().save("a", Before::Was(&loaded), b"new\n").unwrap_err().kind, Kind::Stale);
    assert_eq!(test_ws.bytes("a"), b"two\n");
}

#[test]
fn a_mode_set_meanwhile_and_extended_attributes_are_kept() {
    let test_ws = TestWorkspace::new("//- a\none\n");
    let path = test_ws.path().join("a");
    let can = rustix::fs::setxattr(&path, "user.note", b"kept", rustix::fs::XattrFlags::empty()).is_ok();
    let cx = test_ws.cx_for(&Touches::write("a"));
    let loaded = cx.files().load("a", 100).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    cx.files().save("a", Before::Was(&loaded), b"new\n").unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o755);
    // Not every file system has user attributes.
    if can {
        let mut value = [0; 16];
        assert_eq!(rustix::fs::getxattr(&path, "user.note", value.as_mut_slice()).unwrap(), 4);
    }
}

#[test]
fn a_sweep_takes_what_a_dead_process_left_of_ours_and_nothing_else() {
    use kit::files::{OtherNames, RootSpec, Roots};
    let test_ws = TestWorkspace::new("//- a\none\n");
    let mut dead = std::process::Command::new("true").spawn().unwrap();
    dead.wait().unwrap();
    let leave = |process: u32, content: &str| {
        let name = format!(".haft-{process}-{content}");
        fs::write(test_ws.path().join(&name), content).unwrap();
        test_ws.path().join(name)
    };
    let ours = leave(dead.id(), "ours");
    let theirs = leave(dead.id(), "theirs");
    let alive = leave(std::process::id(), "ours");
    let spec = RootSpec { path: test_ws.path().to_owned(), read_only: false };
    let roots = Roots::open(&[spec], OtherNames::Refuse).unwrap();
    roots.sweep("a", &|bytes| bytes == b"ours");
    assert!(!ours.exists() && theirs.exists() && alive.exists());
}

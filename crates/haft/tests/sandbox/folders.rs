//! Folders that haft does not work in, or keep its state in, unless a person says so.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};

use crate::{
    client::said,
    support::{User, World},
};

pub(crate) fn home_and_what_holds_it_is_no_workspace_unasked(user: User) {
    let world = World::new(user);
    world.configure("");
    let home = world.base.join("home");
    fs::write(home.join("thesis"), "years of work\n").unwrap();
    std::os::unix::fs::symlink(&home, world.base.join("link")).unwrap();
    world.give(&home);
    fs::write(home.join("model"), "{\"say\": \"Done.\"}\n").unwrap();
    let delete = ["call", "shell", "{\"command\": \"rm -rf *\"}"];
    let verbs: [&[&str]; 5] = [
        &delete,
        &["run", "--model", "script:model", "delete all"],
        &["chat", "--model", "script:model", "delete all"],
        &["mcp", "--http", "127.0.0.1:0"],
        &["call", "write", "{\"path\": \"new\", \"content\": \"\"}"],
    ];
    for folder in [home.clone(), world.base.clone(), world.base.join("link"), "/".into()] {
        for verb in verbs {
            let ran = world.haft(&folder, verb).output().unwrap();
            let (out, err) = said(&ran);
            assert_eq!(ran.status.code(), Some(1), "{verb:?} in {}: {out}{err}", folder.display());
            let says = ["the workspace would be", "there is no workspace"].iter().any(|it| err.contains(it));
            assert!(out.is_empty() && says, "{verb:?}: {out}{err}");
            assert!(err.contains("--dir"), "{err}");
        }
    }
    assert!(home.join("thesis").exists() && !home.join("new").exists());
    // Without HOME the home folder is the one of the system's list of users.
    let own = rustix::process::getuid().as_raw();
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let listed =
        users.lines().map(|it| it.split(':').collect::<Vec<_>>()).find(|it| it[2] == own.to_string());
    if let Some(listed) = listed.filter(|it| user != User::Ordinary && Path::new(it[5]).is_dir()) {
        let ran = world.haft(Path::new(listed[5]), &["call", "tree"]).env_remove("HOME").output().unwrap();
        assert_eq!(ran.status.code(), Some(1), "{:?}", said(&ran));
    }
    // A project below is like any other; and a folder that a person names is accepted.
    let project = home.join("project");
    fs::create_dir(&project).unwrap();
    world.give(&project);
    assert!(
        world
            .haft(&project, &["call", "write", "{\"path\": \"a\", \"content\": \"\"}"])
            .status()
            .unwrap()
            .success()
    );
    assert!(world.haft(&home, &["--dir", ".", "call", "tree"]).status().unwrap().success());
}

pub(crate) fn state_folder_of_others_is_not_used(user: User) {
    let world = World::new(user);
    world.configure("");
    let (ws, state) = (world.base.join("ws"), world.base.join("state"));
    fs::set_permissions(&state, fs::Permissions::from_mode(0o777)).unwrap();
    let ran = world.haft(&ws, &["--dir", ".", "call", "tree"]).output().unwrap();
    let (_, err) = said(&ran);
    assert!(ran.status.success() && err.contains("was writable by other users (mode 777)"), "{err}");
    assert_eq!(fs::metadata(&state).unwrap().mode() & 0o777, 0o700);
    let ran = world.haft(&ws, &["--dir", ".", "call", "tree"]).output().unwrap();
    assert!(!said(&ran).1.contains("writable"), "{ran:?}");
    if user == User::Myself {
        return;
    }
    // Somebody else's, whatever its mode.
    std::os::unix::fs::chown(&state, Some(54321), None).unwrap();
    fs::set_permissions(&state, fs::Permissions::from_mode(0o755)).unwrap();
    for verb in [&["call", "tree"][..], &["grants"], &["log"], &["doctor"]] {
        let ran = world.haft(&ws, &[&["--dir", "."], verb].concat()).output().unwrap();
        let (_, err) = said(&ran);
        assert_eq!(ran.status.code(), Some(1), "{verb:?}: {err}");
        assert!(err.contains("belongs to user 54321") && err.contains("HAFT_STATE_DIR"), "{verb:?}: {err}");
    }
}

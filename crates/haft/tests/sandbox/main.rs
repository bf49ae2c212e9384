//! Attacks on the sandbox, on this kernel, as root and as an ordinary user.
//!
//! Each attack runs outside the sandbox too, where it has to succeed: one that never succeeds proves nothing. This program
//! restarts itself as the user who runs haft, so it has a `main` of its own.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod bounds;
mod client;
mod control;
mod decoders;
mod drive;
mod folders;
mod packages;
mod ports;
mod support;
mod tools;
#[path = "../support/uv.rs"]
mod uv;

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use haft::{policy::Approve, sandbox::SandboxMode};
use kit::testing::needs::{
    self,
    Program::{Bubblewrap, Git, Node, Procps, SystemPython, Uv},
};
use serde_json::json;
use support::{CANARY, Driver, User, World, git};

type Case = (&'static str, fn(User));

const CASES: &[Case] = &[
    ("no_attack_reaches_anything", no_attack_reaches_anything),
    ("files_of_passwords_can_t_be_opened", files_of_passwords_can_t_be_opened),
    ("programs_of_every_day_work", programs_of_every_day_work),
    ("git_works_in_a_plain_repository", git_works_in_a_plain_repository),
    ("git_works_in_a_submodule", git_works_in_a_submodule),
    ("git_works_in_a_linked_worktree", git_works_in_a_linked_worktree),
    ("git_is_not_led_elsewhere", git_is_not_led_elsewhere),
    ("git_is_not_led_elsewhere_when_haft_is_killed", git_is_not_led_elsewhere_when_haft_is_killed),
    ("many_folders_hide_no_repository", many_folders_hide_no_repository),
    ("nested_control_files_are_read_only", control::nested_control_files_are_read_only),
    ("repositories_are_found_wherever_they_lie", control::repositories_are_found_wherever_they_lie),
    ("what_git_s_configuration_runs_is_read_only", control::what_git_s_configuration_runs_is_read_only),
    ("a_hook_of_a_linked_worktree_is_read_only", control::a_hook_of_a_linked_worktree_is_read_only),
    (
        "a_control_file_that_a_command_makes_is_set_aside",
        control::a_control_file_that_a_command_makes_is_set_aside,
    ),
    ("a_new_repository_works_and_runs_nothing", control::a_new_repository_works_and_runs_nothing),
    (
        "a_folder_of_git_that_is_swapped_for_a_link_is_not_entered",
        control::a_folder_of_git_that_is_swapped_for_a_link_is_not_entered,
    ),
    ("no_credential_beside_a_program_is_seen", control::no_credential_beside_a_program_is_seen),
    ("a_root_may_be_read_only_for_commands", a_root_may_be_read_only_for_commands),
    ("a_granted_host_is_reached_through_the_proxy", a_granted_host_is_reached_through_the_proxy),
    ("what_is_denied_is_told_with_its_rule", what_is_denied_is_told_with_its_rule),
    ("a_fork_bomb_ends_at_its_limit", a_fork_bomb_ends_at_its_limit),
    ("a_memory_hog_is_ended", a_memory_hog_is_ended),
    ("nothing_outlives_haft", nothing_outlives_haft),
    ("a_decoder_reaches_nothing", decoders::a_decoder_reaches_nothing),
    ("a_sandbox_that_can_t_be_built_is_refused", a_sandbox_that_can_t_be_built_is_refused),
    ("a_weaker_sandbox_is_had_by_name_and_still_holds", a_weaker_sandbox_is_had_by_name_and_still_holds),
    ("bubblewrap_does_what_we_may_not", bubblewrap_does_what_we_may_not),
    ("a_new_control_file_is_named", a_new_control_file_is_named),
    (
        "fork_bomb_ends_itself_and_other_commands_go_on",
        bounds::fork_bomb_ends_itself_and_other_commands_go_on,
    ),
    ("stopped_fork_bomb_is_gone_at_once", bounds::stopped_fork_bomb_is_gone_at_once),
    ("fork_bomb_ends_with_a_killed_haft", bounds::fork_bomb_ends_with_a_killed_haft),
    ("shared_memory_counts", bounds::shared_memory_counts),
    ("private_folders_share_one_bound", bounds::private_folders_share_one_bound),
    ("inotify_of_the_user_is_not_used_up", bounds::inotify_of_the_user_is_not_used_up),
    ("kept_outputs_of_a_session_share_one_bound", bounds::kept_outputs_of_a_session_share_one_bound),
    (
        "home_and_what_holds_it_is_no_workspace_unasked",
        folders::home_and_what_holds_it_is_no_workspace_unasked,
    ),
    ("state_folder_of_others_is_not_used", folders::state_folder_of_others_is_not_used),
    (
        "a_tool_leaves_its_sandbox_no_more_than_a_command",
        tools::a_tool_leaves_its_sandbox_no_more_than_a_command,
    ),
    ("a_tool_changes_data_beside_it_and_no_code", tools::a_tool_changes_data_beside_it_and_no_code),
    (
        "a_tool_of_the_person_sees_no_more_of_the_configuration",
        tools::a_tool_of_the_person_sees_no_more_of_the_configuration,
    ),
    ("a_tool_reaches_what_was_granted_to_it_alone", tools::a_tool_reaches_what_was_granted_to_it_alone),
    ("a_tool_ends_nothing_but_itself", tools::a_tool_ends_nothing_but_itself),
    ("paths_that_a_tool_was_given_are_where_they_are", tools::paths_that_a_tool_was_given_are_where_they_are),
    (
        "a_tool_writes_nothing_where_nothing_may_be_written",
        tools::a_tool_writes_nothing_where_nothing_may_be_written,
    ),
    ("a_folder_of_tools_with_a_link_is_closed", tools::a_folder_of_tools_with_a_link_is_closed),
    (
        "a_tool_in_a_weaker_sandbox_changes_no_tool_of_the_person",
        tools::a_tool_in_a_weaker_sandbox_changes_no_tool_of_the_person,
    ),
    (
        "a_repository_made_meanwhile_is_closed_to_the_next_tool",
        tools::a_repository_made_meanwhile_is_closed_to_the_next_tool,
    ),
    (
        "port_of_a_job_is_reached_and_that_of_the_machine_is_not",
        ports::port_of_a_job_is_reached_and_that_of_the_machine_is_not,
    ),
    ("packages_are_had_once_and_can_t_be_changed", packages::packages_are_had_once_and_can_t_be_changed),
    ("packages_come_from_granted_hosts_alone", packages::packages_come_from_granted_hosts_alone),
    ("packages_without_uv_are_a_clear_fault", packages::packages_without_uv_are_a_clear_fault),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [verb, setup] = arguments.as_slice()
        && verb == "drive"
    {
        drive::drive(setup);
        return ExitCode::SUCCESS;
    }
    let users: &[User] = if is_root() { &[User::Root, User::Ordinary] } else { &[User::Myself] };
    let wanted: Vec<_> = arguments.iter().filter(|it| !it.starts_with('-')).collect();
    let mut failed = 0;
    for (name, case) in CASES {
        for user in users {
            let name = format!("{name} ({user:?})");
            if !wanted.is_empty() && !wanted.iter().any(|it| name.contains(it.as_str())) {
                continue;
            }
            if skips(&name, *user) {
                println!("test {name} ... skipped");
                continue;
            }
            let good = catch_unwind(AssertUnwindSafe(|| case(*user))).is_ok();
            println!("test {name} ... {}", if good { "ok" } else { "FAILED" });
            failed += usize::from(!good);
        }
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether a case can't be tried here. It says why, or fails in strict mode where a program is missing.
fn skips(name: &str, user: User) -> bool {
    if name.starts_with("bubblewrap") && user != User::Root {
        println!("{name}: an ordinary user gets no other namespaces by bubblewrap than by haft");
        return true;
    }
    let mut programs = vec![Git, SystemPython, Procps];
    match name {
        _ if name.starts_with("bubblewrap") => programs.push(Bubblewrap),
        _ if name.starts_with("programs_of_every_day") => programs.push(Node),
        _ if name.starts_with("packages_") => programs.push(Uv),
        _ => {}
    }
    needs::skips_test(name, &programs)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

pub(crate) fn confined(world: &World) -> Driver {
    world.start(&world.setup())
}

/// Returns whether an attack can't be tried outside the sandbox, or does not succeed there for every user.
fn is_proved_outside(attack: &str, user: User) -> bool {
    let never = [
        "memory_of_the_first_process",
        "files_of_the_first_process",
        "far_away",
        "vsock",
        "remount",
        "unmount_guard",
        "write_sysrq",
        "type_into_terminal",
        "new_privileges",
        "trace_haft",
        "write_usr",
        "hardware_by_sys",
        "write_etc",
        "outside_by_proc_cwd",
    ];
    let by_root = [
        "read_shadow",
        "write_core_pattern",
        "raw_socket",
        "packet_socket",
        "mount",
        "new_mount_api",
        "enter_namespace",
        "change_root",
        "make_device",
        "bpf",
        "perf",
        "file_handle",
        "capabilities",
    ];
    let by_user = ["set_id_program"];
    !never.contains(&attack)
        && (user == User::Root || !by_root.contains(&attack))
        && (user == User::Ordinary || !by_user.contains(&attack))
}

fn no_attack_reaches_anything(user: User) {
    let world = World::new(user);
    let mut driver = confined(&world);
    let before = world.outside();
    let inside = driver.attack(&world, false);
    let broken: Vec<_> = inside.iter().filter(|it| it.1.0).collect();
    assert!(broken.is_empty(), "{broken:#?}");
    assert_eq!(before, world.outside());
    assert!(inside.len() > 60, "{}", inside.len());
    // The same outside: what does not work there proves nothing.
    let outside = driver.attack(&world, true);
    let idle: Vec<_> = outside.iter().filter(|it| !it.1.0 && is_proved_outside(it.0, user)).collect();
    assert!(idle.is_empty(), "{idle:#?}");
    assert_ne!(before, world.outside());
}

fn files_of_passwords_can_t_be_opened(user: User) {
    let world = World::new(user);
    let mut driver = confined(&world);
    for name in ["shadow", "gshadow", "shadow-", "gshadow-"] {
        let file = Path::new("/etc").join(name);
        if !file.exists() {
            continue;
        }
        let file = file.display();
        let ran =
            driver.sh(&format!("cat {file} && echo it opens; chmod 644 {file}; cat {file}; wc -c < {file}"));
        assert_eq!(ran.text.matches("Permission denied").count(), 3, "{ran:?}");
        assert!(ran.denials.iter().any(|it| it.contains("holds keys")), "{ran:?}");
    }
}

fn programs_of_every_day_work(user: User) {
    let world = World::new(user);
    let mut driver = confined(&world);
    for (command, says) in [
        ("/usr/bin/python3 -c 'print(6*7)'", "42"),
        (
            "echo a > a && git add a && git commit -qm a && git log --oneline | wc -l && git status --short a",
            "1",
        ),
        ("echo $HOME; echo x > ~/x && cat ~/x", "x"),
        ("echo x > /tmp/x && cat /tmp/x && echo $TMPDIR", "/tmp"),
        ("/usr/bin/python3 -c 'import os; m, s = os.openpty(); print(os.ttyname(s))'", "/dev/pts/0"),
        ("echo out > /dev/stdout; echo $((1 + 1)) | cat > /dev/null; head -c 3 /dev/urandom | wc -c", "3"),
        ("/usr/bin/python3 -c 'import multiprocessing as m; print(m.Pool(2).map(abs, [-1]))'", "[1]"),
        (
            "/usr/bin/python3 -c 'import http.server, threading, urllib.request as r\n\
             s = http.server.HTTPServer((\"127.0.0.1\", 0), http.server.SimpleHTTPRequestHandler)\n\
             threading.Thread(target=s.serve_forever, daemon=True).start()\n\
             print(r.urlopen(\"http://127.0.0.1:%d/a\" % s.server_port).status)' 2>&1",
            "200",
        ),
        ("node -p 6*7", "42"),
        ("nproc >/dev/null && ps ax | wc -l >/dev/null && echo good", "good"),
        ("env | grep -c -e SECRET -e HAFT", "0"),
        ("ulimit -c; ulimit -n", "1024"),
        ("sleep 30 & kill -9 $! && wait; echo done", "done"),
    ] {
        let ran = driver.sh(command);
        assert!(ran.text.contains(says) && ran.fault.is_none(), "{command}: {ran:?}");
        assert!(ran.denials.is_empty(), "{command}: {ran:?}");
    }
    if user == User::Root
        && std::env::var_os("PATH").is_some_and(|it| it.to_string_lossy().contains(".cargo/bin"))
    {
        // The driver's home is not root's: the toolchain is found by its variables or by the path.
        let ran = driver.sh("cargo --version");
        assert!(ran.text.contains("cargo 1") || ran.text.contains("rustup"), "{ran:?}");
    }
}

/// Everyday git commands, in a repository with one commit.
const EVERY_DAY: &str = "set -e; git status --short >/dev/null
    echo a > new && git add new && git commit -qm second && git branch side && git checkout -q side
    echo b > b && git add b && git commit -qm third && git checkout -q -
    echo c >> new && git stash -q && git stash pop -q && git checkout -q new
    git merge -q --no-ff -m merge side && git worktree add -q new-tree
    cd new-tree && git status --short && echo d > d && git add d && git commit -qm fourth
    git log --oneline | wc -l";

fn git_works_in_a_plain_repository(user: User) {
    let world = World::new(user);
    git(&world.base.join("ws"), &["commit", "--quiet", "--allow-empty", "-m", "first"]);
    world.give(&world.base.join("ws/.git"));
    let ran = confined(&world).sh(EVERY_DAY);
    assert_eq!((ran.exit, ran.text.trim()), (0, "5"), "{ran:?}");
}

fn git_works_in_a_submodule(user: User) {
    let world = World::new(user);
    let (part, whole) = (world.base.join("part"), world.base.join("whole"));
    for repository in [&part, &whole] {
        fs::create_dir(repository).unwrap();
        git(repository, &["init", "--quiet"]);
        git(repository, &["commit", "--quiet", "--allow-empty", "-m", "first"]);
    }
    git(&whole, &["submodule", "--quiet", "add", "../part", "n/part"]);
    git(&whole, &["commit", "--quiet", "-m", "a part"]);
    world.give(&whole);
    let mut driver = world.start(&drive::Setup { workspace: whole, ..world.setup() });
    let ran = driver.sh(&format!("cd n/part; {EVERY_DAY}"));
    assert_eq!((ran.exit, ran.text.trim()), (0, "5"), "{ran:?}");
    let ran =
        driver.sh("git add n/part && git commit -qm more && git submodule status && git status --short");
    assert!(ran.exit == 0 && ran.text.contains("n/part"), "{ran:?}");
    for command in ["echo x > .git/modules/n/part/hooks/post-commit", "echo x > n/part/.git", "mv n n2"] {
        let ran = driver.sh(command);
        assert_ne!(ran.exit, 0, "{command}: {ran:?}");
    }
}

/// Creates a repository `main`, and `tree`, a worktree of it.
fn linked_worktree(world: &World) -> drive::Setup {
    let main = world.base.join("main");
    fs::create_dir(&main).unwrap();
    git(&main, &["init", "--quiet"]);
    git(&main, &["commit", "--quiet", "--allow-empty", "-m", "first"]);
    git(&main, &["worktree", "add", "--quiet", "../other"]);
    git(&main, &["worktree", "add", "--quiet", "../tree"]);
    for folder in [&main, &world.base.join("tree"), &world.base.join("other")] {
        world.give(folder);
    }
    drive::Setup { workspace: world.base.join("tree"), ..world.setup() }
}

fn git_works_in_a_linked_worktree(user: User) {
    let world = World::new(user);
    let mut driver = world.start(&linked_worktree(&world));
    let ran = driver.sh(EVERY_DAY);
    assert_eq!((ran.exit, ran.text.trim()), (0, "5"), "{ran:?}");
    for command in [
        "echo x > ../main/.git/hooks/post-commit",
        "git config a.b c",
        "echo x > .git",
        "echo x > ../main/.git/worktrees/tree/commondir",
        "echo x > ../main/.git/worktrees/other/commondir",
        "echo x > ../main/.git/HEAD",
        "echo x > ../main/.git/info/attributes",
        "echo x > ../main/.git/objects/info/alternates",
    ] {
        let ran = driver.sh(command);
        assert_ne!(ran.exit, 0, "{command}: {ran:?}");
    }
    assert_eq!(driver.sh("ls ../main").text.trim(), "", "only what git keeps is there, not the files");
}

/// Makes a repository take its configuration from a folder that runs a program at every `git status`.
fn lead_elsewhere(world: &World, git: &Path) -> (PathBuf, String) {
    let (git, ran) = (git.display(), world.base.join("state/ran"));
    let command = format!(
        "rm -rf evil && mkdir evil && cp -r {git}/objects {git}/refs evil/ && \
         printf '[core]\\n\\tbare=false\\n\\tfsmonitor=\"touch {}; false\"\\n' > evil/config && \
         echo \"$PWD/evil\" > {git}/commondir",
        ran.display()
    );
    (ran, command)
}

fn git_is_not_led_elsewhere(user: User) {
    let world = World::new(user);
    let linked = linked_worktree(&world);
    for (setup, repository) in [(world.setup(), "ws"), (linked, "main")] {
        let repository = world.base.join(repository);
        let common = repository.join(".git/commondir");
        let (marker, command) = lead_elsewhere(&world, &repository.join(".git"));
        let mut driver = world.start(&setup);
        let ran = driver.sh(&command);
        let told =
            ran.denials.iter().any(|it| it.contains("rule `control_files`") && it.contains("commondir"));
        assert!(ran.exit == 0 && told, "{ran:?}");
        assert!(fs::symlink_metadata(&common).is_err());
        git(&repository, &["status"]);
        assert!(!marker.exists());
        assert!(driver.sh("true").denials.is_empty());
        // The same outside: what does not work there proves nothing.
        let ran = driver.run(&json!({"command": command, "unconfined": true}));
        assert_eq!(ran.exit, 0, "{ran:?}");
        git(&repository, &["status"]);
        assert!(marker.exists());
        fs::remove_file(marker).unwrap();
        fs::remove_file(common).unwrap();
    }
}

fn git_is_not_led_elsewhere_when_haft_is_killed(user: User) {
    let world = World::new(user);
    let common = world.base.join("ws/.git/commondir");
    let mut driver = confined(&world);
    let mark = format!("mark{}", driver.id());
    driver.begin(&format!("export MARK={mark}; while /bin/true; do echo ../evil > .git/commondir; done"));
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !common.exists() {
        assert!(std::time::Instant::now() < until, "it is not made");
        std::thread::yield_now();
    }
    // haft itself can do nothing about it any more.
    driver.kill();
    drop(driver);
    while is_marked(&mark) || fs::symlink_metadata(&common).is_ok() {
        assert!(std::time::Instant::now() < until, "it is still there");
        std::thread::yield_now();
    }
}

fn many_folders_hide_no_repository(user: User) {
    let world = World::new(user);
    let ws = world.base.join("ws");
    (0..2100).for_each(|it| fs::create_dir_all(ws.join(format!("many/{it}"))).unwrap());
    fs::create_dir_all(ws.join("last/repository")).unwrap();
    git(&ws.join("last/repository"), &["init", "--quiet"]);
    world.give(&ws);
    let ran = confined(&world).sh("echo x >> last/repository/.git/config");
    assert_ne!(ran.exit, 0, "{ran:?}");
}

fn a_root_may_be_read_only_for_commands(user: User) {
    let world = World::new(user);
    let mut driver = world.start(&drive::Setup { sandbox: SandboxMode::ReadOnly, ..world.setup() });
    let ran = driver.sh("cat haft.toml && echo x > new");
    assert!(ran.exit != 0 && !world.base.join("ws/new").exists(), "{ran:?}");
    assert_eq!(driver.sh("echo x > /tmp/new && cat /tmp/new").text, "x\n");
}

fn a_granted_host_is_reached_through_the_proxy(user: User) {
    let world = World::new(user);
    let mut driver = world.start(&drive::Setup { approve: Approve::Ask, agrees: true, ..world.setup() });
    let places: serde_json::Value = serde_json::from_str(&world.places(0)).unwrap();
    let host = format!("127.0.0.1:{}", places["tcp"]);
    let fetch = format!(
        "/usr/bin/python3 -c 'import os, urllib.request as r\n\
         os.environ.pop(\"no_proxy\"); os.environ.pop(\"NO_PROXY\")\n\
         print(r.urlopen(\"http://{host}/\").read())' 2>&1"
    );
    let refused = driver.sh(&fetch);
    assert!(refused.exit != 0 && refused.text.contains("403"), "{refused:?}");
    assert!(refused.denials.iter().any(|it| it.contains("rule `net`") && it.contains(&host)), "{refused:?}");
    let reached = driver.run(&json!({"command": fetch, "net": [host]}));
    assert_eq!(reached.text.trim(), "b'hi'", "{reached:?}");
    // A program that asks no proxy is forwarded.
    for host_of_program in ["127.0.0.1", "[::1]", "localhost"] {
        let directly =
            fetch.replace("127.0.0.1", host_of_program).replace("os.environ.pop", "os.environ.get");
        let reached = driver.run(&json!({"command": directly, "net": [host]}));
        assert_eq!(reached.text.trim(), "b'hi'", "{reached:?}");
        let refused = driver.sh(&directly);
        let says =
            |it: &String| it.contains("rule `net`") && it.contains("own loopback is closed to commands");
        assert!(refused.exit != 0 && refused.denials.iter().any(says), "{refused:?}");
    }
    // Processes that it leaves to another process still belong to the call.
    let below = format!("(setsid sh -c {} &) | cat", quoted(&fetch));
    let reached = driver.run(&json!({"command": below, "net": [host]}));
    assert_eq!(reached.text.trim(), "b'hi'", "{reached:?}");
    assert_ne!(driver.sh(&fetch).exit, 0, "a grant ends with its call");
    // Where nobody was asked, no call reaches this machine, by its address or by a name.
    let mut driver = confined(&world);
    for host in [host.clone(), host.replace("127.0.0.1", "localhost")] {
        let said = driver.run(&json!({"command": fetch, "net": [host]}));
        let fault = said.fault.as_deref().unwrap_or_default();
        assert!(fault.contains("rule `private_net`"), "{said:?}");
    }
}

fn quoted(command: &str) -> String {
    format!("'{}'", command.replace('\'', "'\\''"))
}

fn what_is_denied_is_told_with_its_rule(user: User) {
    let world = World::new(user);
    let mut driver = confined(&world);
    let shared = world.base.join("shared/x");
    for (command, rule) in [
        ("touch /usr/x".to_owned(), "write"),
        (format!("touch {}", shared.display()), "read_only"),
        ("git config a.b c".to_owned(), "control_files"),
        ("echo x >> .vscode/tasks.json".to_owned(), "control_files"),
        (format!("cat {}/home/.ssh/id", world.base.display()), "read"),
        (
            "/usr/bin/python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80))'".to_owned(),
            "net",
        ),
        ("unshare -U true".to_owned(), "system_calls"),
    ] {
        let ran = driver.sh(&format!("{command} 2>&1"));
        let named = ran.denials.iter().any(|it| it.starts_with(&format!("sandbox: rule `{rule}`: ")));
        assert!(ran.exit != 0 && named, "{command}: {ran:?}");
    }
    assert!(driver.sh("false").denials.is_empty());
    assert!(driver.sh("cat missing").denials.is_empty());
}

fn a_fork_bomb_ends_at_its_limit(user: User) {
    let world = World::new(user);
    let mut driver = confined(&world);
    let bomb = "/usr/bin/python3 -c 'import os, signal, sys\n\
                n = 0\n\
                try:\n\
                \x20   while n < 6000:\n\
                \x20       if os.fork() == 0: signal.pause()\n\
                \x20       n += 1\n\
                except OSError as e: print(n, e, flush=True)\n\
                os.kill(0, 9)'";
    let ran = driver.sh(bomb);
    assert!(ran.denials.iter().any(|it| it.starts_with("sandbox: rule `processes`: ")), "{ran:?}");
    // A killed process still counts until it is gone.
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while driver.sh("echo alive").text != "alive\n" {
        assert!(std::time::Instant::now() < until, "no command starts any more");
    }
}

fn a_memory_hog_is_ended(user: User) {
    let world = World::new(user);
    let mut driver = world.start(&drive::Setup { memory: 200 << 20, ..world.setup() });
    // More than one of them has: each for itself stays below the limit.
    let hog = "/usr/bin/python3 -c 'import os, time\n\
               for _ in range(4):\n\
               \x20   if os.fork() == 0:\n\
               \x20       x = bytearray(b\"x\") * (80 << 20); time.sleep(600)\n\
               codes = [os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(2)]\n\
               print(codes, flush=True); os._exit(1)'";
    let ran = driver.sh(hog);
    assert!(ran.text.contains("-9"), "{ran:?}");
    assert!(ran.denials.iter().any(|it| it.starts_with("sandbox: rule `memory`: ")), "{ran:?}");
}

fn nothing_outlives_haft(user: User) {
    let world = World::new(user);
    let mut driver = confined(&world);
    let mark = format!("mark{}", driver.id());
    let ran = driver.sh(&format!(
        "MARK={mark} setsid sh -c 'sleep 600 & sleep 600' >/dev/null 2>&1 & sleep 0.1; echo up"
    ));
    assert_eq!(ran.text, "up\n");
    drop(driver);
    let mut driver = confined(&world);
    let command = format!(
        "MARK={mark} nohup setsid sleep 600 >/dev/null 2>&1 & sleep 0.1; ps ax -o comm= | grep -c sleep"
    );
    assert_eq!(driver.sh(&command).text.trim(), "1");
    driver.kill();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while is_marked(&mark) {
        assert!(std::time::Instant::now() < until, "it lives on");
        std::thread::yield_now();
    }
}

/// Returns whether a process of this machine has the mark in its environment.
pub(crate) fn is_marked(mark: &str) -> bool {
    marked(mark) > 0
}

/// Returns the number of processes of this machine with the mark in their environment.
pub(crate) fn marked(mark: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let environments = processes.filter_map(|it| fs::read(it.path().join("environ")).ok());
    environments.filter(|it| String::from_utf8_lossy(it).contains(mark)).count()
}

/// Starts a driver in a user namespace that allows no other below it.
pub(crate) fn without_namespaces(world: &World, setup: &drive::Setup) -> Driver {
    let mut command = Command::new("unshare");
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
    let driver = world.base.join("bin/driver");
    command.args(["--user", "--map-current-user", "--keep-caps", "sh", "-c", script, "sh"]).arg(driver);
    world.start_by(command, setup)
}

/// Returns a setup without bubblewrap, which may have permissions that this user lacks.
pub(crate) fn without_bubblewrap(setup: drive::Setup) -> drive::Setup {
    drive::Setup { path: "/usr/sbin:/sbin".to_owned(), ..setup }
}

fn bubblewrap_does_what_we_may_not(user: User) {
    let world = World::new(user);
    let mut driver = without_namespaces(&world, &world.setup());
    let before = world.outside();
    let inside = driver.attack(&world, false);
    let broken: Vec<_> = inside.iter().filter(|it| it.1.0).collect();
    assert!(broken.is_empty(), "{broken:#?}");
    assert_eq!(before, world.outside());
    let ran = driver.sh("echo a > a && git add a && git commit -qm a && cat a && tr '\\0' '\\n' < /proc/1/environ | wc -l; cat /proc/1/cmdline");
    assert!(ran.text.starts_with("a\n") && !ran.text.contains(CANARY), "{ran:?}");
    tools::changes_data_and_no_code(&world, &mut driver);
}

fn a_sandbox_that_can_t_be_built_is_refused(user: User) {
    let world = World::new(user);
    let mut driver = without_namespaces(&world, &without_bubblewrap(world.setup()));
    let ran = driver.sh("echo ran > ran");
    let fault = ran.fault.unwrap_or_default();
    assert!(fault.contains("namespaces") && fault.contains("--accept-weaker namespaces"), "{fault}");
    assert!(!world.base.join("ws/ran").exists());
}

fn a_weaker_sandbox_is_had_by_name_and_still_holds(user: User) {
    let world = World::new(user);
    let setup = drive::Setup { accept_weaker: vec!["namespaces".to_owned()], ..world.setup() };
    let mut driver = without_namespaces(&world, &without_bubblewrap(setup));
    assert_eq!(
        driver.sh("echo in > in && /bin/cat in && echo x > $TMPDIR/x && /bin/cat $TMPDIR/x").text,
        "in\nx\n"
    );
    let before = world.outside();
    let attacks = driver.attack(&world, false);
    // The gaps that this part is known to leave are shown when a person accepts it.
    let known = [
        "change_mode",
        "change_owner",
        "change_times",
        "set_attribute",
        "hook",
        "hooks_renamed",
        "git_config",
        "git_config_replaced",
        "git_renamed",
        "git_info_renamed",
        "nested_git_config",
        "deep_git_config",
        "folder_of_a_repository_renamed",
        "folder_of_folders_renamed",
        "kept_apart_config",
        "kept_apart_hook",
        "kept_apart_renamed",
        "kept_apart_led_elsewhere",
        "kept_apart_file_replaced",
        "linked_git_config",
        "linked_git_hook",
        "linked_git_renamed",
        "submodule_config",
        "submodule_hook",
        "submodule_led_elsewhere",
        "submodule_renamed",
        "bare_repository_config",
        "worktree_configuration",
        "tasks_of_an_editor",
        "own_configuration",
        "own_configuration_replaced",
        "hardware_by_sys",
    ];
    let broken: Vec<_> = attacks.iter().filter(|it| it.1.0 && !known.contains(&it.0.as_str())).collect();
    assert!(broken.is_empty(), "{broken:#?}");
    let content =
        |world: &World| world.outside().into_iter().map(|(path, it)| (path, it.0)).collect::<Vec<_>>();
    assert_eq!(before.into_iter().map(|(path, it)| (path, it.0)).collect::<Vec<_>>(), content(&world));
    assert!(!driver.sh("/usr/bin/env").text.contains(CANARY));
}

fn a_new_control_file_is_named(user: User) {
    let world = World::new(user);
    let mut driver = confined(&world);
    let first = driver.sh("true").microseconds;
    let ran = driver.sh("echo '{}' > .mcp.json");
    assert!(
        ran.denials.iter().any(|it| it.contains("rule `control_files`") && it.contains(".mcp.json")),
        "{ran:?}"
    );
    assert!(driver.sh("true").denials.is_empty());
    let times: Vec<u64> = (0..20).map(|_| driver.sh("true").microseconds).collect();
    println!(
        "  {user:?}: the first command took {first} us, one after it {} us",
        times.iter().min().unwrap()
    );
    drop(driver);
    drop(world.keep_folder());
}

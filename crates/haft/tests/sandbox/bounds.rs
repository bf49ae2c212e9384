//! Bounds on what commands use of the machine: processes, memory, private folders, inotify, kept outputs.

use std::{
    fs,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::{
    client::Client,
    is_marked, marked,
    support::{User, World},
};

/// Returns a fork bomb that grows as fast as it can. `MARK` is in the environment of all of it.
fn bomb(mark: &str) -> String {
    format!(
        "MARK={mark} /usr/bin/python3 -c 'import os\nwhile True:\n  try: os.fork()\n  except OSError: pass'"
    )
}

/// Waits for this; how long that took.
#[track_caller]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
    begun.elapsed()
}

pub(crate) fn fork_bomb_ends_itself_and_other_commands_go_on(user: User) {
    let world = World::new(user);
    let mut client = Client::start(&world);
    let steady = format!("steady{}", std::process::id());
    let job = client.job(&format!("MARK={steady} /usr/bin/python3 -c 'import time; time.sleep(600)'"));
    wait_until("the other command runs", || marked(&steady) > 0);
    let mark = format!("bomb{}", std::process::id());
    let begun = Instant::now();
    let text = client.shell(&bomb(&mark));
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}: {text}", begun.elapsed());
    assert!(text.contains("sandbox: rule `processes`: "), "{text}");
    assert!(!is_marked(&mark), "{} are left", marked(&mark));
    assert!(client.shell("echo alive").contains("alive"));
    // An unrelated process is not affected.
    assert!(is_marked(&steady));
    assert!(client.call("read_job", &json!({"job": job})).contains("running"));
    // As many as are usual are not a bomb.
    let many = "for i in $(seq 150); do sleep 1 & done; wait; echo all";
    assert!(client.shell(many).contains("all"));
}

/// Returns the number of processes and threads that this machine has started.
fn forks() -> u64 {
    let stat = fs::read_to_string("/proc/stat").unwrap();
    stat.lines().find_map(|it| it.strip_prefix("processes ")?.parse().ok()).unwrap()
}

/// Starts a bomb that is as large as the sandbox allows, with a persistent terminal beside it.
fn large_bomb(world: &World, mark: &str) -> (Client, String) {
    world.configure("[limits]\nprocesses = 2048\n");
    let mut client = Client::start(world);
    let screen = client.call("interact", &json!({"command": "cat", "wait_ms": 500}));
    assert!(screen.contains("job_"), "{screen}");
    // It stays below its own bound and forks on and on, once it is large: who counts it meanwhile would hardly get a turn.
    let job = client.job(&format!(
        "MARK={mark} /usr/bin/python3 -c 'import os, time\n\
         begin = time.time() + 2\n\
         for _ in range(8):\n  os.fork()\n\
         time.sleep(max(0, begin - time.time()))\n\
         while True:\n\
         \x20 try:\n\
         \x20   if os.fork() == 0: os._exit(0)\n\
         \x20   os.wait()\n\
         \x20 except OSError: pass'"
    ));
    wait_until("it grows", || marked(mark) > 200);
    let grown = forks();
    wait_until("it forks on", || forks() > grown + 1000);
    (client, job)
}

pub(crate) fn stopped_fork_bomb_is_gone_at_once(user: User) {
    let world = World::new(user);
    let mark = format!("large{}", std::process::id());
    let (mut client, job) = large_bomb(&world, &mark);
    let begun = Instant::now();
    let text = client.call("stop_task", &json!({"job": job}));
    let (took, left) = (begun.elapsed(), marked(&mark));
    assert_eq!(left, 0, "left after {took:?}: {text}");
    assert!(took < Duration::from_secs(8), "{took:?}: {text}");
    let begun = Instant::now();
    assert!(client.shell("echo alive").contains("alive"));
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    // The terminal is still there.
    let terminal = client.call("continue_job", &json!({"job": "job_1", "input": "over here"}));
    assert!(terminal.contains("over here"), "{terminal}");
}

pub(crate) fn fork_bomb_ends_with_a_killed_haft(user: User) {
    let world = World::new(user);
    let mark = format!("killed{}", std::process::id());
    let (mut client, _) = large_bomb(&world, &mark);
    client.kill();
    let took = wait_until("all of it is gone", || !is_marked(&mark));
    assert!(took < Duration::from_secs(3), "{took:?}");
}

pub(crate) fn shared_memory_counts(user: User) {
    let world = World::new(user);
    world.configure("[limits]\nmemory_mib = 200\n");
    let mut client = Client::start(&world);
    let memfd = "f = os.memfd_create(\"x\")\n[os.write(f, b\"x\" * (1 << 20)) for _ in range(SIZE)]";
    let shared = "m = mmap.mmap(-1, SIZE << 20)\nfor at in range(0, SIZE << 20, 4096): m[at] = 1";
    let segment = "c = ctypes.CDLL(None)\nc.shmat.restype = ctypes.c_void_p\n\
                   i = c.shmget(0, SIZE << 20, 0o1600)\nassert i >= 0\np = c.shmat(i, None, 0)\n\
                   ctypes.memset(p, 1, SIZE << 20)";
    let own = "b = bytearray(b\"x\") * (SIZE << 20)";
    for (what, allocate) in [("memfd", memfd), ("shared", shared), ("segment", segment), ("own", own)] {
        // A small allocation is allowed: the call itself does not fail.
        for (size, is_ended) in [(60, false), (400, true)] {
            let script = allocate.replace("SIZE", &size.to_string());
            let command = format!(
                "/usr/bin/python3 -c 'import os, mmap, ctypes, time\n{script}\ntime.sleep({})\nprint(\"he\" + \"ld\")' 2>&1",
                if is_ended { 20 } else { 1 }
            );
            let text = client.shell(&command);
            assert_eq!(text.contains("sandbox: rule `memory`: "), is_ended, "{what} {size}: {text}");
            assert_eq!(text.contains("held"), !is_ended, "{what} {size}: {text}");
        }
    }
}

pub(crate) fn private_folders_share_one_bound(user: User) {
    let world = World::new(user);
    let mut client = Client::start(&world);
    let size = client.shell("df -B1 --output=size /tmp | tail -1");
    let size: u64 =
        size.split_whitespace().find_map(|it| it.parse().ok()).unwrap_or_else(|| panic!("{size}"));
    assert!((64 << 20..=1 << 30).contains(&size), "{size}");
    let most = (size >> 20) * 6 / 10;
    for (first, second) in [("/tmp", "/dev/shm"), ("/var/tmp", "$HOME"), ("$HOME", "/run")] {
        let fill = |at: &str| format!("head -c {most}M /dev/zero > {at}/fill");
        let text = client.shell(&format!(
            "{} && echo first && {}; rm -f {first}/fill {second}/fill",
            fill(first),
            fill(second)
        ));
        assert!(
            text.contains("first") && text.contains("No space left on device"),
            "{first} {second}: {text}"
        );
    }
    // They are folders of their own all the same, with the modes that programs expect.
    let text = client.shell(
        "echo x > /tmp/a; ls -A /var/tmp /dev/shm; stat -c '%a' /tmp /var/tmp /dev/shm ~; ls -d /.scratch",
    );
    assert!(text.contains("1777\n1777\n1777\n700") && !text.contains("\na\n"), "{text}");
    assert!(text.contains("cannot access '/.scratch'"), "{text}");
}

pub(crate) fn inotify_of_the_user_is_not_used_up(user: User) {
    let world = World::new(user);
    let mut client = Client::start(&world);
    let most: u64 =
        fs::read_to_string("/proc/sys/fs/inotify/max_user_instances").unwrap().trim().parse().unwrap();
    let text = client.shell(
        "/usr/bin/python3 -c 'import ctypes\nc = ctypes.CDLL(None)\nn = 0\n\
         while n < 100000 and c.inotify_init() >= 0: n += 1\nprint(\"made\", n)'",
    );
    let words: Vec<&str> = text.split_whitespace().collect();
    let made = words.iter().position(|it| *it == "made").and_then(|at| words[at + 1].parse::<u64>().ok());
    let made = made.unwrap_or_else(|| panic!("{text}"));
    // Enough for programs that watch files, and most of them are left for the person's own.
    assert!(made >= 16 && made <= most / 2, "{made} of {most}: {text}");
}

pub(crate) fn kept_outputs_of_a_session_share_one_bound(user: User) {
    let world = World::new(user);
    world.configure("[limits]\noutputs_mib = 8\n");
    let mut client = Client::start(&world);
    let kept = || -> u64 {
        let mut folders = vec![world.base.join("state")];
        let mut sum = 0;
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().flatten() {
                let about = entry.metadata().unwrap();
                if about.is_dir() {
                    folders.push(entry.path());
                } else if entry.file_name().to_string_lossy().starts_with("out_") {
                    sum += about.len();
                }
            }
        }
        sum
    };
    for _ in 0..3 {
        let text = client.shell("yes | head -c 5000000");
        assert!(text.contains("all of it: out_"), "{text}");
    }
    assert!((4 << 20..=8 << 20).contains(&kept()), "{}", kept());
    let first = client.call("read", &json!({"path": "out_1"}));
    assert!(first.contains("`out_1` is empty"), "{first}");
    // One that is still being written is bounded, too.
    let text = client.shell("yes | head -c 30000000");
    assert!(text.contains("bytes were kept"), "{text}");
    assert!((4 << 20..=8 << 20).contains(&kept()), "{}", kept());
}

//! Random trees, random scripts, and `kill -9` of haft or of the command at random moments: the tree after
//! `haft undo` is the tree before, and the tree without undo is what the command alone makes.
//!
//! haft is killed when the log of changes has a random number of records, so in the middle of the changes.
//!
//! `HAFT_RANDOM_RUNS` is the number of runs (default: a few), `HAFT_RANDOM_SEED` that of the first. With a number, a
//! table of the runs is printed.

use std::{
    fmt::Write as _,
    io::Write as _,
    process::{Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use serde_json::json;

use super::{script, tree::Tree, undo};
use crate::support::TestWorkspace;

/// A small generator of numbers (xorshift), so that a seed names a run.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % most
    }

    fn one_of<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[usize::try_from(self.below(of.len() as u64)).unwrap()]
    }

    /// Returns the path of a file or folder that may exist.
    fn path(&mut self) -> String {
        let folder = self.one_of(&["", "a/", "b/", "a/c/", "a/c/d/", "e/"]);
        let name = self.one_of(&["1", "2", "3", "x y", "l", "c", "a"]);
        format!("'{folder}{name}'")
    }

    fn folder(&mut self) -> &'static str {
        self.one_of(&["a", "b", "a/c", "a/c/d", "e"])
    }

    /// Returns the script of a tree.
    fn tree(&mut self) -> String {
        let mut text = "mkdir -p a/c/d b e\n".to_owned();
        for number in 0..10 + self.below(20) {
            let path = self.path();
            let _ = match self.below(8) {
                0 => writeln!(text, "ln -s {} {path} 2>/dev/null || true", self.folder()),
                1 => writeln!(text, "ln $(find . -type f | head -n 1) {path} 2>/dev/null || true"),
                2 => writeln!(
                    text,
                    "[ -d {path} ] || head -c {} /dev/zero > {path} || true",
                    self.below(200_000)
                ),
                _ => writeln!(text, "[ -d {path} ] || echo {number} > {path} || true"),
            };
        }
        let _ = writeln!(text, "chmod {} a/1 2>/dev/null || true", self.one_of(&["600", "755", "444"]));
        text.push_str("find . -depth -exec touch -h -d '2019-03-04 05:06:07.123456789' {} +\n");
        text
    }

    /// Returns a command line of at least so many steps that changes a tree.
    fn command(&mut self, least: u64) -> String {
        let mut text = String::new();
        for _ in 0..least + self.below(14) {
            let (one, other, folder) = (self.path(), self.path(), self.folder());
            let number = self.below(100_000);
            let _ = match self.below(24) {
                0 => writeln!(text, "rm -f {one}"),
                1 => writeln!(text, "rm -rf {folder}"),
                2 => writeln!(text, "mv {one} {other}"),
                3 => writeln!(text, "mv {folder} {}", self.one_of(&["e", "b", "new", "a/new"])),
                4 => writeln!(text, "cp {one} {other}"),
                5 => writeln!(text, "echo {number} > {one}"),
                6 => writeln!(text, "echo {number} >> {one}"),
                7 => writeln!(text, "truncate -s {number} {one}"),
                8 => writeln!(text, "ln -sfn {folder} {one}"),
                9 => writeln!(text, "ln -f {one} {other}"),
                10 => writeln!(text, "chmod {} {one}", self.one_of(&["000", "600", "777"])),
                11 => writeln!(text, "touch {one}"),
                12 => writeln!(text, "mkdir -p {one}"),
                13 => writeln!(text, "sed -i s/1/{number}/ {one}"),
                14 => writeln!(text, "dd if=/dev/zero of={one} bs=7 count=9 seek=3 conv=notrunc"),
                15 => {
                    writeln!(text, "exec 3>>{one} && echo {number} >&3 && truncate -s 2 {one} && echo x >&3")
                }
                16 => writeln!(text, "chmod {} {folder}", self.one_of(&["700", "500", "755"])),
                17 => writeln!(text, "(echo {number} > {one}; rm -f {other}) &"),
                18 => writeln!(text, "cp -a {folder} {}", self.one_of(&["e/copy", "copy"])),
                19 => writeln!(text, "mv -T {folder} {}", self.folder()),
                20 => writeln!(text, "mv {folder} {folder}/new; mv {one} {folder}/"),
                21 => writeln!(text, "exec 4<>{one} && echo {number} >&4; rm -f {one}; echo x >&4"),
                22 => writeln!(text, "mv {one} /tmp/{number} && mv /tmp/{number} {other}"),
                _ => writeln!(text, "find {folder} -name '{}' -delete", self.one_of(&["1", "2", "x*"])),
            };
        }
        text.push_str("wait\n");
        text
    }
}

/// How a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    ByItself,
    HaftIsKilled,
    CommandIsKilled,
}

/// A run, for the table.
struct Done {
    ends: Ends,
    is_changed: bool,
    /// Whether the command was still at its changes when haft was killed.
    is_in_the_middle: bool,
    /// Whether the tree was compared with what the command alone makes.
    is_compared: bool,
    /// Paths that the undo left alone, and said so.
    told: usize,
    /// The faults; none, if it is empty.
    wrong: String,
}

fn run(seed: u64) -> Done {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let test_ws = TestWorkspace::new();
    // The limits of questions are not what is tested here.
    std::fs::create_dir_all(test_ws.config()).unwrap();
    std::fs::write(test_ws.config().join("haft.toml"), "[undo]\nask_files = 100000\nask_percent = 100\n")
        .unwrap();
    let made = random.tree();
    script(&test_ws, &made);
    let before = Tree::of(&test_ws.at(""));
    let ends = match random.below(3) {
        0 => Ends::HaftIsKilled,
        1 => Ends::CommandIsKilled,
        _ => Ends::ByItself,
    };
    let least = if ends == Ends::HaftIsKilled { 6 } else { 1 };
    let commands = random.command(least);
    let alone = test_ws.base().join("alone");
    let copied = Command::new("cp").arg("-a").arg(test_ws.at("")).arg(&alone).status().unwrap();
    assert!(copied.success());
    let until_records = 1 + random.below(12);
    let command = match ends {
        Ends::CommandIsKilled => {
            format!("({commands}) & sleep 0.0{}; kill -9 $!; wait", 1 + random.below(9))
        }
        _ => commands.clone(),
    };
    let arguments = json!({"command": command}).to_string();
    let mut child = test_ws
        .haft(&["call", "shell", &arguments])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut is_in_the_middle = false;
    if ends == Ends::HaftIsKilled {
        while child.try_wait().unwrap().is_none() {
            if records(&test_ws) >= until_records {
                // It has not answered, so the command has not ended.
                child.kill().unwrap();
                is_in_the_middle = child.wait().unwrap().code().is_none();
                break;
            }
            std::thread::yield_now();
        }
    }
    child.wait().unwrap();
    wait_for_the_sandbox(&test_ws);
    let after_it = Tree::of(&test_ws.at(""));
    let is_changed = !before.differences(&after_it).is_empty();
    // Two processes at once may make one or the other, and a folder that is copied into itself any part of it.
    let is_compared =
        ends == Ends::ByItself && !commands.contains(") &") && !commands.contains("cp -a e e/copy");
    let mut wrong = Vec::new();
    if is_compared {
        run_alone(&commands, &alone);
        let mut differences = Tree::of(&alone).made_differences(&after_it);
        // In the sandbox the temporary folder is another file system, so that a move there takes no name along.
        if commands.contains(" /tmp/") {
            differences.retain(|it| !it.contains(" names, not "));
        }
        wrong.extend(differences.into_iter().map(|it| format!("not what the command alone makes: {it}")));
    }
    let said = undone(&test_ws);
    let left = before.differences(&Tree::of(&test_ws.at("")));
    let (told, silent): (Vec<_>, Vec<_>) = left.into_iter().partition(|it| super::tells(&said, it, ""));
    wrong.extend(silent);
    let wrong = match wrong.is_empty() {
        true => String::new(),
        false => format!(
            "seed {seed}, {ends:?}, changed: {is_changed}\n{}\nThe tree:\n{made}\nThe command:\n{commands}\n{said}",
            wrong.join("\n")
        ),
    };
    Done { ends, is_changed, is_in_the_middle, is_compared, told: told.len(), wrong }
}

/// Undoes the command, once the processes of a killed haft are gone; returns the output.
fn undone(test_ws: &TestWorkspace) -> String {
    let until = Instant::now() + crate::support::TIMEOUT;
    loop {
        let undone = undo(test_ws);
        let said = format!("{}{}", undone.out, undone.err);
        if !said.contains("it still runs") || Instant::now() > until {
            return said;
        }
    }
}

/// Returns the number of records in the log of the only call that has one.
fn records(test_ws: &TestWorkspace) -> u64 {
    let below = |folder: std::path::PathBuf| {
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|it| it.path())
    };
    let calls = below(test_ws.state().join("workspaces")).flat_map(|it| below(it.join("tracked")));
    let logs = calls.filter_map(|it| std::fs::read(it.join("log")).ok());
    logs.map(|it| it.iter().filter(|byte| **byte == b'\n').count() as u64).sum()
}

/// Runs the commands in a copy of the tree, with the rights that the sandbox leaves.
fn run_alone(commands: &str, folder: &std::path::Path) {
    let mut command = match rustix::process::geteuid().is_root() {
        true => {
            let mut command = Command::new("setpriv");
            command.args(["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", "bash"]);
            command
        }
        false => Command::new("bash"),
    };
    let ran = command.args(["-c", commands]).current_dir(folder).stdin(Stdio::null()).output().unwrap();
    assert!(!String::from_utf8_lossy(&ran.stderr).starts_with("setpriv:"), "{ran:?}");
}

/// Waits until no process has the workspace as its root or folder: the sandbox of a killed haft ends by itself.
fn wait_for_the_sandbox(test_ws: &TestWorkspace) {
    let until = Instant::now() + crate::support::TIMEOUT;
    let is_inside = |pid: &std::path::Path| {
        std::fs::read_link(pid.join("cwd")).is_ok_and(|it| it.starts_with(test_ws.base().join("ws")))
    };
    while Instant::now() < until {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        if !processes.into_iter().any(|it| is_inside(&it.path())) {
            return;
        }
        std::thread::yield_now();
    }
}

#[test]
fn random_trees_and_scripts_are_undone_also_after_kill_9() {
    let number = |name: &str| std::env::var(name).ok().and_then(|it| it.parse::<u64>().ok());
    let (asked, first) = (number("HAFT_RANDOM_RUNS"), number("HAFT_RANDOM_SEED").unwrap_or(1));
    let (next, end) = (AtomicU64::new(first), first + asked.unwrap_or(12));
    let all = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    let done = run(seed);
                    all.lock().unwrap().push(done);
                }
            });
        }
    });
    let all = all.into_inner().unwrap();
    if asked.is_some() {
        let _ = std::io::stderr().write_all(table(&all).as_bytes());
    }
    let wrong: Vec<&str> = all.iter().map(|it| it.wrong.as_str()).filter(|it| !it.is_empty()).collect();
    assert!(wrong.is_empty(), "{} of {} runs\n{}", wrong.len(), all.len(), wrong.join("\n\n"));
    let killed = || all.iter().filter(|it| it.ends == Ends::HaftIsKilled);
    let in_the_middle = killed().filter(|it| it.is_in_the_middle && it.is_changed).count();
    assert!(
        in_the_middle * 2 >= killed().count(),
        "of {} kills of haft, only {in_the_middle} were in the middle of the changes:\n{}",
        killed().count(),
        table(&all)
    );
}

fn table(all: &[Done]) -> String {
    let mut text =
        "| ends | runs | changed something | in the middle of the changes | compared with the command alone | paths left and named | wrong |\n|---|---|---|---|---|---|---|\n"
            .to_owned();
    for ends in [Ends::ByItself, Ends::HaftIsKilled, Ends::CommandIsKilled] {
        let of_it = || all.iter().filter(|it| it.ends == ends);
        let _ = writeln!(
            text,
            "| {ends:?} | {} | {} | {} | {} | {} | {} |",
            of_it().count(),
            of_it().filter(|it| it.is_changed).count(),
            of_it().filter(|it| it.is_in_the_middle).count(),
            of_it().filter(|it| it.is_compared).count(),
            of_it().map(|it| it.told).sum::<usize>(),
            of_it().filter(|it| !it.wrong.is_empty()).count(),
        );
    }
    text
}

//! Commands that destroy: after `haft undo` the tree is what it was, or an answer had said that it would not be.
//!
//! Each case (`cases.rs`) is a folder, a command in it, and what has to hold. The whole table runs on several file
//! systems (`file_systems.rs`); `TMPDIR` chooses one more.

mod asked;
mod at_once;
mod cases;
mod descriptors;
mod everywhere;
mod file_systems;
mod history;
mod mounts;
mod random;
mod table;
mod tree;
mod uncopied;

use std::{
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use kit::testing::needs::Program;

use crate::support::{Ran, TIMEOUT, TestWorkspace};

/// One case of destruction.
#[derive(Debug)]
struct Case {
    name: &'static str,
    /// The programs that it runs beyond a minimal Debian.
    programs: &'static [Program],
    /// A script that makes the folder what it is before, on top of [`BASE`].
    setup: &'static str,
    /// The command that a model sends.
    command: &'static str,
    then: Then,
}

/// The expectation after the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// The tree is another one, and `haft undo` makes it the one before.
    Undone,
    /// As above, but for paths that an answer names; or it is denied.
    UndoneOrTold,
    /// It is too much: nobody is there to ask, so it is denied, and the tree is as before.
    Denied,
    /// The same in a workspace of its own. Among others it is a small part, and [`Undone`](Self::Undone).
    DeniedAlone,
    /// The system refuses it to the command: the tree is as before.
    Refused,
}

/// Makes a folder with files of every kind.
const BASE: &str = r"
mkdir -p src/deep/er docs data empty
for i in 1 2 3 4 5 6; do echo file $i > src/$i.c; echo deep $i > src/deep/er/$i.h; done
printf '#!/bin/sh\necho run\n' > src/run.sh; chmod 755 src/run.sh
echo letter > docs/letter; chmod 640 docs/letter
echo readme > README
: > docs/nothing
head -c 300000 /dev/zero | tr '\0' 'x' > data/blob
ln -s ../src/1.c docs/link; ln -s nowhere docs/dangling; ln -s ../src docs/folder
";

/// Ends each setup: times that no restore meets by chance.
const AGE: &str =
    "\nfind . -depth -path ./.git -prune -o -exec touch -h -d '2020-01-02 03:04:05.678901234' {} +\n";

/// Makes the folder a repository with two branches.
const GIT: &str = r"
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
git init -q -b main; printf 'target/\n*.o\n' > .gitignore; git config user.name a; git config user.email a@b
git add -A; git commit -qm one; git branch other; echo two >> README; git commit -qam two
";

/// Makes a script that tries ways to change files that the tracker does not stop. A way that is open removes README.
const WAYS: &str = r#"
cat > ways.py <<'END'
import ctypes, os
c = ctypes.CDLL(None, use_errno=True)
x86 = os.uname().machine == "x86_64"
room = ctypes.create_string_buffer(256)
ways = {
    "io_uring_setup": (425, 4, room),
    "open_tree": (428, -100, b"src", 0),
    "move_mount": (429, -100, b"src", -100, b"docs", 0),
    "fsopen": (430, b"tmpfs", 0),
    "name_to_handle_at": (303 if x86 else 264, -100, b"README", room, room, 0),
    "open_by_handle_at": (304 if x86 else 265, -100, room, 2),
    "mount": (165 if x86 else 40, b"src", b"docs", 0, 4096, 0),
    "unshare": (272 if x86 else 97, 0x10020000),
    "ptrace": (101 if x86 else 117, 0, 0, 0, 0),
    "fanotify_init": (300 if x86 else 262, 0, 2),
}
if x86:
    ways["unlink of x32"] = (0x40000000 | 87, b"README")
for name, arguments in ways.items():
    if c.syscall(*arguments) >= 0:
        print(name, "is open")
        os.unlink("README")
END
"#;

/// Makes a program that removes README by a call of 32 bits, where the machine has such.
const INT80: &str = r#"
if [ "$(uname -m)" = x86_64 ]; then
cat > int80.c <<'END'
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
int main(void) {
    char *name = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    strcpy(name, "README");
    long done;
    __asm__ volatile("int $0x80" : "=a"(done) : "a"(10), "b"(name) : "memory");
    return done != 0;
}
END
cc -o int80 int80.c
else
printf '#!/bin/sh\nfalse\n' > int80; chmod 755 int80
fi
"#;

/// Returns a setup or a command as a script.
fn script_of(text: &str) -> String {
    text.replace("%GIT%", GIT)
        .replace("%WAYS%", WAYS)
        .replace("%INT80%", INT80)
        .replace("%PY%", "/usr/bin/python3")
}

/// Makes the folder of a case.
fn prepare(test_ws: &TestWorkspace, setup: &str) {
    script(test_ws, &format!("{BASE}{}{AGE}", script_of(setup)));
}

/// Runs a script in the workspace, outside of haft.
fn script(test_ws: &TestWorkspace, script: &str) {
    let script = format!("set -e\nexport GIT_CONFIG_GLOBAL=/dev/null\n{script}");
    let ran = Command::new("bash")
        .args(["-c", script.as_str()])
        .current_dir(test_ws.at(""))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(ran.status.success(), "the setup failed: {ran:?}");
}

fn undo(test_ws: &TestWorkspace) -> Ran {
    test_ws.run(&["undo"])
}

/// Waits for what no event tells of.
#[track_caller]
fn until(otherwise: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < TIMEOUT, "{otherwise}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Returns whether an answer names the path of a difference, or a folder around it that is below `above`.
fn tells(said: &str, difference: &str, above: &str) -> bool {
    let path = difference.split(": ").next().unwrap_or_default();
    std::path::Path::new(path)
        .ancestors()
        .filter(|it| !it.as_os_str().is_empty())
        .any(|it| said.contains(&format!("{above}{}", it.display())))
}

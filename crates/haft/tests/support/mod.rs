//! A workspace with a haft of its own: runs the built program and reads its answers.

mod server;
mod terminal;
pub(crate) mod uv;

use std::{
    fs,
    io::Write as _,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};

pub(crate) use server::{CallResult, Pending, Server};
pub(crate) use terminal::Terminal;

/// Long enough for the slowest machine; a test that waits this long has failed.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// A workspace `ws`, a folder `outside` beside it, and state that nobody else has.
pub(crate) struct TestWorkspace {
    /// Removes everything at its end.
    _folder: tempfile::TempDir,
    base: PathBuf,
    state: PathBuf,
}

/// The result of a run of the program.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// The result of one call, from its `--json` output.
#[derive(Debug)]
pub(crate) struct Called {
    whole: Value,
}

impl TestWorkspace {
    pub(crate) fn new() -> Self {
        Self::new_in(&std::env::temp_dir())
    }

    /// The same in this folder, which chooses the file system.
    pub(crate) fn new_in(folder: &Path) -> Self {
        let folder = tempfile::tempdir_in(folder).unwrap();
        let base = folder.path().canonicalize().unwrap();
        for name in ["ws", "outside", "home"] {
            fs::create_dir(base.join(name)).unwrap();
        }
        Self { _folder: folder, state: base.join("state"), base }
    }

    /// Keeps the state in this folder.
    pub(crate) fn with_state(self, state: &Path) -> Self {
        Self { state: state.to_owned(), ..self }
    }

    /// Returns this path in the workspace; `../outside` is outside of it.
    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.base.join("ws").join(path)
    }

    pub(crate) fn base(&self) -> &Path {
        &self.base
    }

    pub(crate) fn outside(&self) -> PathBuf {
        self.base.join("outside")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.state.clone()
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.base.join("config")
    }

    /// Puts a file into the workspace, and the folders on its way.
    pub(crate) fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn bytes(&self, path: &str) -> Vec<u8> {
        fs::read(self.at(path)).unwrap()
    }

    pub(crate) fn text(&self, path: &str) -> String {
        String::from_utf8(self.bytes(path)).unwrap()
    }

    /// Returns the program in this workspace, with a minimal environment.
    pub(crate) fn haft<S: AsRef<std::ffi::OsStr>>(&self, arguments: &[S]) -> Command {
        self.haft_in(&self.at(""), arguments)
    }

    /// The same in another workspace.
    pub(crate) fn haft_in<S: AsRef<std::ffi::OsStr>>(&self, workspace: &Path, arguments: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_haft"));
        command
            .env_clear()
            .env("HAFT_STATE_DIR", self.state())
            .env("HAFT_CONFIG_DIR", self.config())
            .env("HOME", self.base.join("home"))
            .current_dir(self.base.join("home"))
            .arg("--dir")
            .arg(workspace)
            .args(arguments)
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        run(&mut self.haft(arguments), "")
    }

    /// Runs one call in a process of its own.
    pub(crate) fn call(&self, tool: &str, arguments: &Value) -> Called {
        self.call_with(&[], tool, arguments)
    }

    pub(crate) fn call_with(&self, options: &[&str], tool: &str, arguments: &Value) -> Called {
        let arguments = arguments.to_string();
        let ran = self.run(&[options, &["call", "--json", tool, &arguments]].concat());
        let called = Called { whole: serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{ran:?}")) };
        assert_eq!(ran.code, i32::from(!called.ok()), "the exit code tells how it went: {ran:?}");
        called
    }

    /// Many calls, one after the other, in one process.
    pub(crate) fn batch(&self, options: &[&str], calls: &[(&str, Value)]) -> Vec<Called> {
        let lines: String = calls
            .iter()
            .map(|(tool, arguments)| json!({"tool": tool, "arguments": arguments}).to_string() + "\n")
            .collect();
        let ran = run(&mut self.haft(&[options, &["call", "--json", "--batch", "-"]].concat()), &lines);
        let called: Vec<Called> =
            ran.out.lines().map(|line| Called { whole: serde_json::from_str(line).unwrap() }).collect();
        assert_eq!(called.len(), calls.len(), "one answer for each call: {ran:?}");
        called
    }

    /// Returns the calls in the log, oldest first.
    pub(crate) fn log(&self) -> Vec<Value> {
        let ran = self.run(&["log", "--json", "-n", "100000"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.out
            .lines()
            .filter(|line| *line != "no calls")
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Returns the content of the folder outside: names, kinds, contents, modes and modification times.
    pub(crate) fn outside_now(&self) -> Vec<String> {
        let mut found = Vec::new();
        look(&self.outside(), &mut found);
        found.sort();
        found
    }

    /// Names in a folder of the workspace that a change may have left behind.
    pub(crate) fn leftovers(&self, dir: &str) -> Vec<String> {
        names(&self.at(dir)).into_iter().filter(|name| name.starts_with(".haft-")).collect()
    }
}

impl Called {
    pub(crate) fn ok(&self) -> bool {
        self.whole["ok"] == true
    }

    /// `ok`, or the fault's kind.
    pub(crate) fn kind(&self) -> &str {
        if self.ok() { "ok" } else { self.whole["fault"]["kind"].as_str().unwrap() }
    }

    pub(crate) fn id(&self) -> &str {
        self.whole["id"].as_str().unwrap()
    }

    pub(crate) fn notes(&self) -> String {
        self.whole["notes"].to_string()
    }

    /// Returns all text: the output, or the error with the output until then.
    pub(crate) fn text(&self) -> String {
        let parts = |parts: &Value| -> Vec<String> {
            parts
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|it| it["text"].as_str())
                .map(str::to_owned)
                .collect()
        };
        let mut said = parts(&self.whole["content"]);
        let fault = &self.whole["fault"];
        said.extend(
            [&fault["what"], &fault["next"]].into_iter().filter_map(|it| it.as_str()).map(str::to_owned),
        );
        said.extend(parts(&fault["seen"]));
        said.join("\n")
    }

    #[track_caller]
    pub(crate) fn must(self, kind: &str) -> Self {
        assert_eq!(self.kind(), kind, "{}", self.whole);
        self
    }
}

pub(crate) fn run(command: &mut Command, input: &str) -> Ran {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writing = std::thread::spawn(move || {
        // A program that needs no more of its input may have ended before it.
        let _ = stdin.write_all(input.as_bytes());
    });
    let ended = child.wait_with_output().unwrap();
    writing.join().unwrap();
    Ran {
        code: ended.status.code().unwrap_or(-1),
        out: String::from_utf8(ended.stdout).unwrap(),
        err: String::from_utf8(ended.stderr).unwrap(),
    }
}

/// Returns the anchor, `LINE:HASH`, of the first line shown that reads `line`.
#[track_caller]
pub(crate) fn anchor(shown: &str, line: &str) -> String {
    let found = shown.lines().find_map(|it| it.split_once('|').filter(|(_, text)| *text == line));
    found.unwrap_or_else(|| panic!("`{line}` was not shown in:\n{shown}")).0.to_owned()
}

pub(crate) fn names(dir: &Path) -> Vec<String> {
    fs::read_dir(dir).unwrap().map(|it| it.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

fn look(dir: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let about = fs::symlink_metadata(&path).unwrap();
        let content = if about.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        let when = (about.mtime(), about.mtime_nsec());
        found.push(format!("{} {:o} {when:?} {content:?}", path.display(), about.mode()));
        if about.is_dir() {
            look(&path, found);
        }
    }
}

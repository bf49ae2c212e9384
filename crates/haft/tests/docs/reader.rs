//! A reader of one page: does what it says, from top to bottom, on a machine that has haft and nothing else.
//!
//! Home and workspace are folders of the reader's own. The model of `haft run` and `haft chat` is a script, so no block
//! needs a key; `cargo run --release --` starts the haft that these tests were built with.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    os::unix::{fs::PermissionsExt as _, fs::symlink, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::channel,
};

use haft::runtime::config::Config;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

use super::{
    outcome::is_same,
    page::{Block, Page, REPOSITORY, Step},
};
use crate::support::TIMEOUT;

/// The reader's home folder, as pages show it.
const HOME: &str = "/home/you";

/// Stands in for a build that would take minutes.
const CARGO: &str = r#"#!/bin/sh
if [ "$1 $2 $3" = "run --release --" ]; then shift 3; exec haft "$@"; fi
echo "cargo: only \`cargo run --release -- ARGUMENTS\` is known here, not: $*" >&2
exit 97
"#;

pub(crate) struct Reader {
    page: Page,
    base: tempfile::TempDir,
    servers: Vec<Running>,
    /// Outdated parts of the page: the range, and the current text.
    changed: Vec<(std::ops::Range<usize>, String)>,
}

impl Reader {
    /// Follows the page of this name.
    pub(crate) fn follows(name: &str) {
        let page = Page::read(name);
        let mut reader =
            Self { page, base: tempfile::tempdir().unwrap(), servers: Vec::new(), changed: Vec::new() };
        reader.settle_in();
        let steps = std::mem::take(&mut reader.page.steps);
        for step in &steps {
            match step {
                Step::Setup(script) => {
                    let (code, said) = reader.runs(script);
                    assert_eq!(code, 0, "{name}: its setup failed: {said}");
                }
                Step::Block(block) => reader.reads(block),
            }
        }
        reader.tried_the_tools();
        reader.wrote();
    }

    fn settle_in(&self) {
        let bin = self.base().join("bin");
        for folder in [&bin, &self.workspace()] {
            fs::create_dir_all(folder).unwrap();
        }
        symlink(env!("CARGO_BIN_EXE_haft"), bin.join("haft")).unwrap();
        fs::write(bin.join("cargo"), CARGO).unwrap();
        fs::set_permissions(bin.join("cargo"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(self.home().join("model.jsonl"), "{\"say\": \"Done.\"}\n").unwrap();
    }

    fn base(&self) -> PathBuf {
        self.base.path().canonicalize().unwrap()
    }

    fn home(&self) -> PathBuf {
        self.base().join("home")
    }

    fn workspace(&self) -> PathBuf {
        self.home().join("shop")
    }

    fn reads(&mut self, block: &Block) {
        let at = format!("{}:{}", self.page.name, block.line);
        if let Some(path) = &block.copy_of {
            let original = fs::read_to_string(Path::new(REPOSITORY).join(path)).unwrap();
            return self.shows(block, &original, original == block.text, &at);
        }
        if let Some(path) = &block.file {
            let path = match path.strip_prefix("~/") {
                Some(path) => self.home().join(path),
                None => self.workspace().join(path),
            };
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &block.text).unwrap();
            if block.text.starts_with("#!") {
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            }
        }
        let is_file = block.file.is_some();
        match block.language.as_str() {
            _ if block.not_run.is_some() => {}
            // It was made from an example that is parsed as a whole.
            "toml" if self.page.is_generated() => {}
            "sh" if !is_file => match &block.server {
                Some(text) => self.serves(&block.text, text, &at),
                None => {
                    let (code, said) = self.runs(&block.text);
                    assert_eq!(code, block.exit, "{at}: {said}");
                }
            },
            "console" => self.types(block, &at),
            "toml" if block.file.as_deref().is_none_or(|it| it.ends_with("haft.toml")) => {
                let file = self.base().join("checked.toml");
                fs::write(&file, &block.text).unwrap();
                Config::read(&file).unwrap_or_else(|fault| panic!("{at}: {}", fault.as_text()));
            }
            "toml" => drop(block.text.parse::<toml::Table>().unwrap_or_else(|error| panic!("{at}: {error}"))),
            "json" => drop(parsed(&block.text, &at)),
            "jsonl" => block.text.lines().for_each(|line| drop(parsed(line, &at))),
            "sh" | "python" | "rust" | "markdown" | "javascript" if is_file => {}
            // No command hides in a block that nobody runs. What the program prints itself is another matter.
            "text" => assert!(
                self.page.is_generated()
                    || !block.text.lines().any(|it| it.starts_with("$ ") || it.starts_with("haft ")),
                "{at}: commands are `console` or `sh`"
            ),
            other => panic!(
                "{at}: a `{other}` block is neither run nor loaded; say `file`, `copy of` or `not run`"
            ),
        }
    }

    /// Types the commands of a transcript, and compares their output.
    fn types(&mut self, block: &Block, at: &str) {
        let mut now = String::new();
        let mut is_current = true;
        let mut commands: Vec<(String, String)> = Vec::new();
        for line in block.text.lines() {
            if let Some(command) = line.strip_prefix("$ ") {
                commands.push((command.to_owned(), String::new()));
            } else if let Some(more) = line
                .strip_prefix("> ")
                .filter(|_| commands.last().is_some_and(|it| it.1.is_empty() && it.0.ends_with('\\')))
            {
                commands.last_mut().unwrap().0.push_str(&format!("\n{more}"));
            } else {
                let (_, shown) =
                    commands.last_mut().unwrap_or_else(|| panic!("{at}: it begins with no command"));
                shown.push_str(&format!("{line}\n"));
            }
        }
        let last = commands.len() - 1;
        for (index, (command, shown)) in commands.iter().enumerate() {
            let (code, said) = self.runs(command);
            let expected = if index == last { block.exit } else { 0 };
            assert_eq!(code, expected, "{at}: `{command}` said:\n{said}");
            let is_right = is_same(shown, &said);
            is_current &= is_right;
            let kept = if is_right { shown } else { &said };
            now.push_str(&format!("$ {}\n{kept}", command.replace("\\\n", "\\\n> ")));
        }
        self.shows(block, &now, is_current, at);
    }

    /// Compares a block with the current output. A difference updates the page if that was requested, else the test
    /// fails.
    fn shows(&mut self, block: &Block, now: &str, is_current: bool, at: &str) {
        if is_current {
            return;
        }
        assert!(
            std::env::var_os("UPDATE_EXPECT").is_some(),
            "{at} shows:\n{}\nand it is (UPDATE_EXPECT=1 puts it there):\n{now}",
            block.text
        );
        self.changed.push((block.range.clone(), now.to_owned()));
    }

    fn wrote(&self) {
        let mut text = self.page.text.clone();
        for (range, now) in self.changed.iter().rev() {
            text.replace_range(range.clone(), now);
        }
        if !self.changed.is_empty() {
            fs::write(Path::new(REPOSITORY).join(&self.page.name), text).unwrap();
        }
    }

    /// Checks that all tools that the reader wrote for a page can be loaded.
    fn tried_the_tools(&self) {
        if self.workspace().join(".haft/tools").is_dir() {
            let (code, said) = self.runs("haft --trust reload-tools --strict");
            assert!(code == 0 && said.contains("loaded: "), "{}: {said}", self.page.name);
        }
    }

    /// Runs a script; gives its exit code and all that it printed, as a terminal would show it.
    fn runs(&self, script: &str) -> (i32, String) {
        let mut child = self.starts(script);
        let mut out = child.stdout.take().unwrap();
        let group = Pid::from_child(&child);
        let (ended, end) = channel();
        let reading = std::thread::spawn(move || {
            let mut said = Vec::new();
            out.read_to_end(&mut said).unwrap();
            // Nobody waits for it any more where it took too long.
            let _ = ended.send(());
            said
        });
        let in_time = end.recv_timeout(TIMEOUT).is_ok();
        if !in_time {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let said = self.named(&String::from_utf8_lossy(&reading.join().unwrap()));
        let code = child.wait().unwrap().code().unwrap_or(-1);
        assert!(in_time, "{}: it does not end: {script}\n{said}", self.page.name);
        (code, said)
    }

    /// Starts a script that goes on, and waits until it has printed this text.
    fn serves(&mut self, script: &str, text: &str, at: &str) {
        let mut child = self.starts(script);
        let out = BufReader::new(child.stdout.take().unwrap());
        let running = Running(child);
        let (printed, lines) = channel();
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| printed.send(line)));
        let mut said = String::new();
        while !said.contains(text) {
            let Ok(line) = lines.recv_timeout(TIMEOUT) else { panic!("{at}: no `{text}` in:\n{said}") };
            said.push_str(&format!("{line}\n"));
        }
        self.servers.push(running);
    }

    fn starts(&self, script: &str) -> Child {
        let bin = self.base().join("bin");
        let model = self.home().join("model.jsonl");
        let mut command = Command::new("/bin/sh");
        command
            .args(["-euc", &format!("exec 2>&1\n{script}")])
            .env_clear()
            .env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()))
            .env("HOME", self.home())
            .env("LANG", "C.UTF-8")
            .env("TERM", "dumb")
            .env("HAFT_MODEL", format!("script:{}", model.display()))
            .current_dir(self.workspace())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0);
        command.spawn().unwrap()
    }

    /// The same text with the reader's folders called as pages call them.
    fn named(&self, text: &str) -> String {
        text.replace(&self.home().display().to_string(), HOME)
            .replace(&self.base().display().to_string(), HOME)
    }
}

/// A process group that goes with its reader.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

fn parsed(text: &str, at: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{at}: {error}: {text}"))
}

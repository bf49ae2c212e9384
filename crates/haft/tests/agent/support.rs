//! A workspace with a scripted `haft run`, and its transcript.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use haft::{
    agent::{Transcript, model::Item},
    kit::{files::OtherNames, redact::Secrets},
    policy::{Approve, Policy},
    runtime::{Commands, Runtime, Session, Settings, Unattended},
    sandbox::SandboxMode,
};
use serde_json::Value;

/// The session of all these conversations.
pub(crate) const SESSION: &str = "talk";

/// A workspace `ws`, and state that nobody else has.
pub(crate) struct TestWorkspace {
    _folder: tempfile::TempDir,
    base: PathBuf,
}

impl TestWorkspace {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        for name in ["ws", "home"] {
            fs::create_dir(base.join(name)).unwrap();
        }
        Self { _folder: folder, base }
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.base.join("ws").join(path)
    }

    pub(crate) fn put(&self, path: &str, content: &str) {
        fs::write(self.at(path), content).unwrap();
    }

    /// Returns the content of the file; empty if it is missing.
    pub(crate) fn text(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap_or_default()
    }

    /// Puts the script of the model where [`run`](Self::run) finds it.
    pub(crate) fn script(&self, lines: &[Value]) {
        let text: String = lines.iter().map(|it| format!("{it}\n")).collect();
        fs::write(self.base.join("script"), text).unwrap();
    }

    /// `haft run` of the script, with these arguments.
    pub(crate) fn run(&self, arguments: &[&str]) -> Command {
        self.with_script(&["run", "--json"], arguments)
    }

    /// `haft chat` of the script, with these arguments.
    pub(crate) fn chat(&self, arguments: &[&str]) -> Command {
        self.with_script(&["chat"], arguments)
    }

    fn with_script(&self, verb: &[&str], arguments: &[&str]) -> Command {
        let mut command = self.haft(verb);
        command.arg("--model").arg(format!("script:{}", self.base.join("script").display())).args(arguments);
        command
    }

    /// `haft` on the session, with these arguments.
    pub(crate) fn haft(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_haft"));
        command
            .env_clear()
            .env("HAFT_STATE_DIR", self.base.join("state"))
            .env("HAFT_CONFIG_DIR", self.base.join("config"))
            .env("HOME", self.base.join("home"))
            .arg("--dir")
            .arg(self.at(""))
            .args(["--approve", "auto", "--session", SESSION])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Returns what `haft sessions` prints with these arguments.
    pub(crate) fn sessions(&self, arguments: &[&str]) -> String {
        let ran = self.haft(&["sessions"]).args(arguments).output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
        String::from_utf8(ran.stdout).unwrap()
    }

    /// Returns the session in this process, whose commands the shipped program keeps.
    pub(crate) fn session(&self) -> Session {
        let settings = Settings {
            network: Default::default(),
            tool_files: Default::default(),
            workspace: self.at(""),
            roots: Vec::new(),
            state: self.base.join("state"),
            config: self.base.join("config"),
            policy: Policy { sandbox: SandboxMode::Workspace, approve: Approve::Auto, ..Policy::default() },
            other_names: OtherNames::Refuse,
            allowed: None,
            deadline: Duration::from_secs(60),
            secrets: Secrets::none(),
            commands: Commands { keeper: Some(env!("CARGO_BIN_EXE_haft").into()), ..Commands::default() },
        };
        let runtime = Runtime::open(settings, haft::tools::all()).unwrap();
        runtime.session(Some(SESSION), "test", Arc::new(Unattended))
    }

    /// Returns the items of the next request to the model.
    pub(crate) fn items(&self) -> Vec<Item> {
        Transcript::open(&self.session()).unwrap().items().to_vec()
    }
}

/// A run that is listened to, and ends with this.
pub(crate) struct Life {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Life {
    pub(crate) fn begin(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Returns the next event; `None` after the end.
    pub(crate) fn event(&mut self) -> Option<Value> {
        Some(serde_json::from_str(&self.lines.next()?.unwrap()).unwrap())
    }

    /// Returns whether it ended successfully.
    pub(crate) fn ended_well(mut self) -> bool {
        self.child.wait().unwrap().success()
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

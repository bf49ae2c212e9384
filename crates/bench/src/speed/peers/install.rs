//! The peers: installed once below the target folder, from their own registries.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
};

use super::super::Trouble;

/// The server of FastMCP.
const FASTMCP: &str = include_str!("../../../peers/fastmcp_server.py");

/// A peer, by its package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    /// `rust-mcp-filesystem`, of crates.io.
    Rust,
    /// `fastmcp`, of PyPI.
    FastMcp,
    /// `@modelcontextprotocol/server-filesystem`, of npm.
    Node,
    /// `@wonderwhy-er/desktop-commander`, of npm.
    Commander,
}

impl Peer {
    pub(super) const ALL: [Self; 4] = [Self::Rust, Self::FastMcp, Self::Node, Self::Commander];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rust => "rust-mcp-filesystem",
            Self::FastMcp => "FastMCP",
            Self::Node => "server-filesystem",
            Self::Commander => "desktop-commander",
        }
    }

    /// Installs it below `folder` unless it is there; returns the command that serves `workspace` over stdio.
    pub(super) fn command(self, folder: &Path, workspace: &Path) -> Result<Command, Trouble> {
        fs::create_dir_all(folder)?;
        let program = self.program(folder);
        if !program.exists() {
            self.install(folder)?;
        }
        let mut command = match self {
            Self::Rust => {
                let mut command = Command::new(&program);
                command.arg("--allow-write").arg(workspace);
                command
            }
            Self::FastMcp => {
                let script = folder.join("fastmcp_server.py");
                fs::write(&script, FASTMCP)?;
                let mut command = Command::new(&program);
                command.arg(script).arg(workspace).env("FASTMCP_LOG_LEVEL", "ERROR");
                command
            }
            Self::Node => {
                let mut command = Command::new(&program);
                command.arg(workspace);
                command
            }
            // It sends what it counts to its makers unless it is configured otherwise, in its home folder, which it
            // locks for some time after it was killed.
            Self::Commander => {
                static STARTED: AtomicUsize = AtomicUsize::new(0);
                let number = STARTED.fetch_add(1, Ordering::Relaxed);
                let home = workspace.with_file_name(format!("commander-home-{number}"));
                let config = home.join(".claude-server-commander");
                fs::create_dir_all(&config)?;
                let settings =
                    serde_json::json!({"telemetryEnabled": false, "allowedDirectories": [workspace]});
                fs::write(config.join("config.json"), settings.to_string())?;
                let mut command = Command::new(&program);
                command.env("HOME", home);
                command
            }
        };
        command.current_dir(workspace);
        Ok(command)
    }

    fn program(self, folder: &Path) -> PathBuf {
        folder.join(match self {
            Self::Rust => "cargo/bin/rust-mcp-filesystem",
            Self::FastMcp => "python/bin/python",
            Self::Node => "npm/node_modules/.bin/mcp-server-filesystem",
            Self::Commander => "npm/node_modules/.bin/desktop-commander",
        })
    }

    fn install(self, folder: &Path) -> Result<(), Trouble> {
        match self {
            Self::Rust => {
                let mut cargo = Command::new("cargo");
                run(cargo
                    .args(["install", "--quiet", "--locked", "--root"])
                    .arg(folder.join("cargo"))
                    .arg(self.name()))
            }
            Self::FastMcp => {
                let home = folder.join("python");
                run(Command::new("python3").args(["-m", "venv"]).arg(&home))?;
                run(Command::new(home.join("bin/python"))
                    .args(["-m", "pip", "install", "--quiet", "fastmcp"]))
            }
            Self::Node => npm(folder, "@modelcontextprotocol/server-filesystem"),
            Self::Commander => npm(folder, "@wonderwhy-er/desktop-commander"),
        }
    }
}

/// Installs a package of npm; without its scripts, which would load a browser.
fn npm(folder: &Path, package: &str) -> Result<(), Trouble> {
    let home = folder.join("npm");
    fs::create_dir_all(&home)?;
    let mut npm = Command::new("npm");
    run(npm
        .args(["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", package])
        .current_dir(home))
}

fn run(command: &mut Command) -> Result<(), Trouble> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let error = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?}: {}: {}", output.status, error.lines().last().unwrap_or_default()).into())
}

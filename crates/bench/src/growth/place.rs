//! The folders of a measurement, and haft in them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::Outcome;
use crate::client::Client;

/// Where a server works.
pub(super) struct Place {
    pub(super) haft: PathBuf,
    pub(super) base: PathBuf,
}

impl Place {
    pub(super) fn new(base: &Path) -> Outcome<Self> {
        let beside = std::env::current_exe()?.with_file_name("haft");
        let haft = std::env::var_os("HAFT_BIN").map_or(beside, PathBuf::from);
        for folder in ["ws", "home", "config/tools"] {
            fs::create_dir_all(base.join(folder))?;
        }
        Ok(Self { haft, base: base.to_owned() })
    }

    pub(super) fn tools(&self) -> PathBuf {
        self.base.join("config/tools")
    }

    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.haft);
        command
            .arg("--dir")
            .arg(self.base.join("ws"))
            .args(arguments)
            .env("HAFT_STATE_DIR", self.base.join("state"))
            .env("HAFT_CONFIG_DIR", self.base.join("config"))
            .env("HOME", self.base.join("home"))
            .stderr(Stdio::null());
        command
    }

    /// Starts `haft mcp`, and returns its client after the handshake.
    pub(super) fn server(&self) -> Outcome<Client> {
        let mut server = Client::start(self.command(&["mcp"]))?;
        server.greet()?;
        Ok(server)
    }
}

//! `haft trust`: is this workspace's haft.toml believed?

use std::process::ExitCode;

use clap::Args;
use kit::Fault;
use runtime::config::{FILE, Trust as Trusted};

use crate::{Options, Place, print};

#[derive(Args)]
pub struct Trust {}

impl Trust {
    /// # Errors
    /// When the list of trusted workspaces can't be written.
    pub fn run(&self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let workspace = options.workspace()?;
        Trusted::in_state(&place.state).add(&workspace)?;
        let file = workspace.join(FILE);
        print::out(&match std::fs::read_to_string(&file) {
            Ok(text) => format!("trusted, until it changes: {}\n{text}", file.display()),
            Err(_) => format!(
                "trusted: {} (it has no {FILE}; the trust ends when it gets one)",
                workspace.display()
            ),
        });
        Ok(ExitCode::SUCCESS)
    }
}

//! `haft trust`: is this workspace's haft.toml believed?

use std::process::ExitCode;

use clap::Args;
use kit::{Fault, Kind};
use runtime::config::{FILE, Trust as Trusted, workspace_text};

use crate::{Options, Place, print};

#[derive(Args)]
pub struct Trust {}

impl Trust {
    /// # Errors
    /// When the configuration can't be read, or the list of trusted workspaces not be written.
    pub fn run(&self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let workspace = options.workspace()?;
        let file = workspace.join(FILE);
        let text = match workspace_text(&workspace) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => {
                return Err(Fault::new(
                    Kind::Unavailable,
                    format!("nothing is trusted: can't read `{}`: {error}", file.display()),
                ));
            }
        };
        Trusted::in_state(&place.state).add(&workspace)?;
        print::out(&match text {
            Some(text) => format!("trusted, until it changes: {}\n{text}", file.display()),
            None => format!(
                "trusted: {} (it has no {FILE}; the trust ends when it gets one)",
                workspace.display()
            ),
        });
        Ok(ExitCode::SUCCESS)
    }
}

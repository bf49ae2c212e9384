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
        let text = workspace_text(&workspace).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Fault::not_found(format!(
                "there is no {FILE} in `{}`, so nothing to trust",
                workspace.display()
            )),
            _ => Fault::new(
                Kind::Unavailable,
                format!("nothing is trusted: can't read `{}`: {error}", file.display()),
            ),
        })?;
        Trusted::in_state(&place.state).add(&workspace)?;
        print::out(&format!("trusted, until it changes: {}\n{text}", file.display()));
        Ok(ExitCode::SUCCESS)
    }
}

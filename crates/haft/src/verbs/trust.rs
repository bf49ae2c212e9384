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
        let file = workspace.join(FILE);
        if !file.exists() {
            return Err(Fault::not_found(format!(
                "there is no {FILE} in `{}`, so nothing to trust",
                workspace.display()
            )));
        }
        Trusted::in_state(&place.state).add(&workspace)?;
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        print::out(&format!("trusted, until it changes: {}\n{text}", file.display()));
        Ok(ExitCode::SUCCESS)
    }
}

//! `haft completions`: a shell's completion script.

use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::{Shell, generate};
use kit::{Fault, Kind};

use crate::print;

#[derive(Args)]
pub struct Completions {
    /// Shell to complete in
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    /// Prints the script.
    ///
    /// # Errors
    /// When the script is not valid UTF-8.
    pub fn run(&self, mut command: Command) -> Result<ExitCode, Fault> {
        let mut script = Vec::new();
        generate(self.shell, &mut command, "haft", &mut script);
        let script = String::from_utf8(script)
            .map_err(|error| Fault::new(Kind::Bug, format!("the script is not text: {error}")))?;
        print::out(&script);
        Ok(ExitCode::SUCCESS)
    }
}

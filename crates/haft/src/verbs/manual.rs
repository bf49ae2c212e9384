//! `haft manual`: how is a tool used?

use std::{process::ExitCode, sync::Arc};

use clap::Args;
use kit::{Fault, Origin};
use runtime::Unattended;

use super::close;
use crate::{Options, Place, print};

#[derive(Args)]
pub struct Manual {
    /// The tool's name.
    tool: String,
}

impl Manual {
    /// # Errors
    /// When there is no such tool.
    pub async fn run(&self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let opened = options.open(place)?;
        opened.runtime.load_tools().await;
        let session = opened.runtime.session(None, "cli", Arc::new(Unattended));
        close(&opened.runtime);
        let catalog = session.catalog();
        let Some(tool) = catalog.get(&self.tool) else {
            let all: Vec<&str> = catalog.specs().map(|spec| spec.name.as_str()).collect();
            return Err(Fault::not_found(format!("there is no tool `{}`", self.tool))
                .next(format!("The tools are: {}.", all.join(", "))));
        };
        let mut text = tool.spec().manual();
        let written = match &tool.spec().origin {
            Origin::Program if opened.toolset == tools::HAFT => tools::manual(&self.tool).map(str::to_owned),
            Origin::Program => None,
            Origin::File(path) => {
                text.push_str(&format!("\nIt is the file {}.\n", path.display()));
                opened.runtime.outside().manual(&self.tool)
            }
        };
        if let Some(written) = written {
            text.push('\n');
            text.push_str(&written);
        }
        print::out(&text);
        Ok(ExitCode::SUCCESS)
    }
}

//! `haft tools`: the tools as a model sees them, and what they cost.

mod cost;

use std::{process::ExitCode, sync::Arc};

use clap::Args;
use kit::{Fault, Spec};
use runtime::{Session, Unattended};
use serde_json::json;

use super::{
    close, in_short, report_ignored,
    strict::{Strict, all_there, offer_own_tools, unknown_names},
};
use crate::{Opened, Options, Place, print};
use cost::Bill;

#[derive(Args)]
pub struct Tools {
    /// Print names, descriptions and schemas as JSON
    #[arg(long)]
    json: bool,
    /// Print the size of each tool's definition for an MCP client, in bytes and tokens (bytes / 4), and whether it is listed
    #[arg(long)]
    cost: bool,
    #[command(flatten)]
    strict: Strict,
}

impl Tools {
    /// # Errors
    /// When no runtime can be opened, or with `--strict` when a tool is missing.
    pub async fn run(&self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let opened = options.open_with(place, tools::of_agents)?;
        opened.runtime.plugins().refreshed().await;
        let session = opened.runtime.session(None, "cli", Arc::new(Unattended));
        session.list_within(opened.listing_of_mcp());
        let lapsed = opened.runtime.plugins().lapsed();
        offer_own_tools(&session, &opened, place);
        let shown = self.show(&session, &opened);
        close(&opened.runtime);
        let catalog = session.catalog();
        let unknown = unknown_names(&opened, &session);
        if self.strict.strict {
            all_there(&opened, &session)?;
        }
        print::out(&shown);
        for it in catalog.failed() {
            print::err(&format!("haft: {}", in_short(&it.not_loaded())));
        }
        unknown.iter().for_each(|line| print::err(&format!("haft: {line}")));
        report_ignored(&opened, self.strict.strict);
        lapsed.iter().for_each(|line| print::err(&format!("haft: {line}")));
        Ok(ExitCode::SUCCESS)
    }

    fn show(&self, session: &Session, opened: &Opened) -> String {
        let catalog = session.catalog();
        if self.cost {
            let bill = Bill::of(&catalog, &tools::instructions(&opened.toolset, catalog.listed()));
            return match self.json {
                true => serde_json::to_string_pretty(&bill.as_json()).unwrap_or_default(),
                false => bill.as_text(),
            };
        }
        let specs: Vec<&Spec> = catalog.specs().collect();
        if self.json {
            let specs: Vec<_> = specs
                .iter()
                .map(|it| json!({"name": it.name, "description": it.description, "inputSchema": it.schema}))
                .collect();
            return serde_json::to_string_pretty(&specs).unwrap_or_default();
        }
        let width = specs.iter().map(|spec| spec.name.len()).max().unwrap_or(0);
        let line = |spec: &&Spec| format!("{:width$}  {}\n", spec.name, first_sentence(&spec.description));
        specs.iter().map(line).collect()
    }
}

/// Returns the first sentence of a description, for a list.
pub(super) fn first_sentence(description: &str) -> &str {
    let line = description.lines().next().unwrap_or_default();
    line.split_once(". ").map_or(line, |(sentence, _)| sentence).trim_end_matches('.')
}

//! `haft mcp list` and `haft mcp trust`: which servers is haft a client of, and what of them counts?

use std::process::ExitCode;

use clap::Args;
use kit::Fault;
use runtime::visible;

use crate::{Options, Place, print, verbs::close};

#[derive(Args)]
pub(super) struct List {}

#[derive(Args)]
pub(super) struct Trust {
    /// The server.
    name: String,
}

impl List {
    /// # Errors
    /// When there is no runtime to be had.
    pub(super) fn run(&self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let opened = options.open(place)?;
        let servers = opened.runtime.outside().servers();
        let mut text = String::new();
        for server in servers.list() {
            let name = &server.name;
            let tools = match servers.tools_of(name) {
                _ if server.section.disabled => "disabled".to_owned(),
                None => "tools not known yet".to_owned(),
                Some(1) => "1 tool".to_owned(),
                Some(tools) => format!("{tools} tools"),
            };
            text.push_str(&format!("{name}: {tools}; {} ({})\n", server.starts(), server.file));
            servers.notes(name).iter().for_each(|note| text.push_str(&format!("  {note}\n")));
        }
        if text.is_empty() {
            text.push_str("no servers are configured\n");
        }
        close(&opened.runtime);
        print::out(&visible(&text).0);
        opened.aside.iter().for_each(|line| print::err(&format!("haft: {line}")));
        Ok(ExitCode::SUCCESS)
    }
}

impl Trust {
    /// # Errors
    /// When there is no such server, nothing to accept, or it can't be kept.
    pub(super) fn run(&self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let opened = options.open(place)?;
        let accepted = opened.runtime.outside().servers().accept(&self.name);
        close(&opened.runtime);
        print::out(&format!("accepted, until it changes again:\n{}", visible(&accepted?).0));
        Ok(ExitCode::SUCCESS)
    }
}

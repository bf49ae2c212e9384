//! `haft mcp list` and `haft mcp trust`: which servers is haft a client of, and what of them counts?

use std::{
    io::{self, IsTerminal as _},
    process::ExitCode,
};

use clap::Args;
use kit::{Fault, Kind};
use runtime::{outside::mcp::Servers, visible};

use crate::{Options, Place, print, verbs::close};

#[derive(Args)]
pub(super) struct List {}

#[derive(Args)]
pub(super) struct Trust {
    /// The server.
    name: String,
    /// Accept it without being asked.
    #[arg(long)]
    yes: bool,
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
    /// When there is no such server, nothing to accept, nobody to ask, or it can't be kept.
    pub(super) fn run(&self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let opened = options.open(place)?;
        let accepted = self.accept(opened.runtime.outside().servers());
        close(&opened.runtime);
        print::out(if accepted? { "accepted, until it changes again" } else { "nothing was accepted" });
        Ok(ExitCode::SUCCESS)
    }

    fn accept(&self, servers: &Servers) -> Result<bool, Fault> {
        let difference = servers.difference(&self.name)?;
        print::out(visible(&difference).0.trim_end());
        if !self.yes && !agreed(&self.name)? {
            return Ok(false);
        }
        servers.accept(&self.name, &difference).map(|()| true)
    }
}

/// Does the person at the terminal want it so?
fn agreed(name: &str) -> Result<bool, Fault> {
    let input = io::stdin();
    if !input.is_terminal() {
        return Err(Fault::new(
            Kind::Unavailable,
            format!("nobody is there to say whether that of `{name}` is accepted"),
        )
        .next("`--yes` accepts it."));
    }
    print::err(&format!("Accept that of `{name}`? [y/N]"));
    let mut answer = String::new();
    input
        .read_line(&mut answer)
        .map_err(|error| Fault::new(Kind::Failed, format!("the answer can't be read: {error}")))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

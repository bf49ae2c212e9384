//! `haft mcp list` and `haft mcp trust`: the MCP servers that haft uses, and their pinned tool definitions.

use std::{
    io::{self, IsTerminal as _},
    process::ExitCode,
};

use clap::Args;
use kit::{Fault, Kind, quote::quote};
use runtime::mcp_client::Servers;

use crate::{Options, Place, print, verbs::close};

#[derive(Args)]
pub(super) struct List {}

#[derive(Args)]
pub(super) struct Trust {
    /// Name of the server
    name: String,
    /// Accept without asking
    #[arg(long)]
    yes: bool,
}

impl List {
    /// # Errors
    /// When no runtime can be opened.
    pub(super) fn run(&self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let opened = options.open(place)?;
        let servers = opened.runtime.plugins().servers();
        let mut text = String::new();
        for server in servers.list() {
            let name = &server.name;
            let tools = match servers.tools_of(name) {
                _ if server.section.disabled => "disabled".to_owned(),
                None => "tools unknown until its first start".to_owned(),
                Some(1) => "1 tool".to_owned(),
                Some(tools) => format!("{tools} tools"),
            };
            text.push_str(&format!("{name}: {tools}; {} ({})\n", server.starts(), server.file));
            servers.notes(name).iter().for_each(|note| text.push_str(&format!("  {note}\n")));
            if !server.section.disabled && servers.tools_of(name).is_none() {
                let arguments = serde_json::json!({"server": name}).to_string();
                text.push_str(&format!(
                    "  To start it and list its tools: haft call mcp_list {}\n",
                    quote(&arguments)
                ));
            }
        }
        // The servers of a broken file are unknown, so "there are none" would be wrong.
        let is_broken = opened.broken.first().is_some();
        if is_broken {
            text.push_str("MCP servers are unknown until haft.toml is repaired\n");
        } else if text.is_empty() {
            text.push_str("no MCP servers are configured; `haft config mcp.files` explains how\n");
        }
        close(&opened.runtime);
        print::out(&text);
        opened.aside.iter().for_each(|line| print::err(&format!("haft: {line}")));
        Ok(if is_broken { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

impl Trust {
    /// # Errors
    /// When there is no such server, nothing to accept, nobody to ask, or the answer can't be saved.
    pub(super) fn run(&self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let opened = options.open(place)?;
        let accepted = self.accept(opened.runtime.plugins().servers());
        close(&opened.runtime);
        print::out(if accepted? { "accepted until they change again" } else { "nothing was accepted" });
        Ok(ExitCode::SUCCESS)
    }

    fn accept(&self, servers: &Servers) -> Result<bool, Fault> {
        let difference = servers.difference(&self.name)?;
        print::out(difference.trim_end());
        if !self.yes && !agreed(&self.name)? {
            return Ok(false);
        }
        servers.accept(&self.name, &difference).map(|()| true)
    }
}

/// Asks the person at the terminal; returns whether they accept the definitions.
fn agreed(name: &str) -> Result<bool, Fault> {
    let input = io::stdin();
    if !input.is_terminal() {
        return Err(Fault::new(
            Kind::Unavailable,
            format!("the changed tools of `{name}` need your yes, and standard input is not a terminal"),
        )
        .next("`--yes` accepts them."));
    }
    print::err(&format!("Accept these definitions of `{name}`? [y/N]"));
    let mut answer = String::new();
    input
        .read_line(&mut answer)
        .map_err(|error| Fault::new(Kind::Failed, format!("the answer can't be read: {error}")))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

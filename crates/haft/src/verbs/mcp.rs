//! `haft mcp`: the tools, for an MCP client; and the servers that haft is a client of.

mod servers;

use std::{process::ExitCode, sync::Arc};

use clap::{Args, Subcommand};
use kit::{Fault, Kind};
use runtime::Unattended;

use super::{finish, in_short};
use crate::{Options, Place, print};

#[derive(Args)]
pub struct Mcp {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Subcommand)]
enum What {
    /// Show the MCP servers that haft may be a client of, and how each stands.
    List(servers::List),
    /// Accept what a server says of its tools by now, where that is not what was accepted; shows the difference.
    Trust(servers::Trust),
}

impl Mcp {
    /// # Errors
    /// When there is no runtime to be had, or standard input and output break.
    pub async fn run(&self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        match &self.what {
            None => {}
            Some(What::List(list)) => return list.run(options, place),
            Some(What::Trust(trust)) => return trust.run(options, place),
        }
        let opened = options.open(place)?;
        for line in &opened.aside {
            print::err(&format!("haft: {line}"));
        }
        let session = opened.runtime.session(options.session.as_deref(), "mcp", Arc::new(Unattended));
        let outside = opened.runtime.outside();
        let place_variables = place.variables.clone();
        let (options, place, toolset) = (options.clone(), place.clone(), opened.toolset.clone());
        let deciding = Options::deciding(&place, opened.runtime.roots().workspace());
        // A client need not start anew when a person trusts the workspace.
        outside.follow(deciding, move || options.tool_files(&place, &toolset).ok());
        outside.ask_servers(&place_variables);
        // From here on, so that a client is answered at once, whatever there is to load.
        let _watching = outside.watch(|it| print::err(&format!("haft: {}", in_short(it))));
        let loaded = outside.clone();
        tokio::spawn(async move {
            loaded.settled().await;
            loaded.lapsed().iter().for_each(|line| print::err(&format!("haft: {line}")));
        });
        let instructions = tools::instructions(&opened.toolset, session.catalog().specs());
        let served = serve::mcp_stdio(session.clone(), serve::About::new(instructions)).await;
        finish(&session).await;
        served.map(|()| ExitCode::SUCCESS).map_err(|error| {
            Fault::new(Kind::Unavailable, format!("the connection to the MCP client broke: {error}"))
        })
    }
}

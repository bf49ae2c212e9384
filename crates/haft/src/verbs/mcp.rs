//! `haft mcp`: the tools, for an MCP client.

use std::{process::ExitCode, sync::Arc};

use clap::Args;
use kit::{Fault, Kind};

use super::{finish, in_short};
use crate::{ForClients, Options, Place, print, through_client::Desk};

#[derive(Args)]
pub struct Mcp {}

impl Mcp {
    /// # Errors
    /// When there is no runtime to be had, or standard input and output break.
    pub async fn run(&self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let opened = options.open_with(place, tools::of_agents)?;
        for line in &opened.aside {
            print::err(&format!("haft: {line}"));
        }
        let desk = Arc::new(Desk::default());
        let session = opened.runtime.session(options.session.as_deref(), "mcp", desk.approver());
        desk.serve_agents(&session, &opened, place);
        let outside = opened.runtime.outside();
        outside.asks(desk.approver());
        let (options, place, toolset) = (options.clone(), place.clone(), opened.toolset.clone());
        let deciding = Options::deciding(&place, opened.runtime.roots().workspace());
        // A client need not start anew when a person trusts the workspace.
        outside.follow(deciding, move || options.tool_files(&place, &toolset).ok());
        // From here on, so that a client is answered at once, whatever there is to load.
        let hands = ForClients::new(session.clone(), &opened, desk);
        let tell = hands.tell_not_loaded();
        let _watching = outside.watch(move |it| {
            print::err(&format!("haft: {}", in_short(it)));
            tell(it);
        });
        let loaded = outside.clone();
        tokio::spawn(async move {
            loaded.settled().await;
            loaded.lapsed().iter().for_each(|line| print::err(&format!("haft: {line}")));
        });
        let instructions = tools::instructions(&opened.toolset, session.catalog().specs());
        let served = serve::mcp_stdio(hands, serve::About::new(instructions)).await;
        finish(&session).await;
        served.map(|()| ExitCode::SUCCESS).map_err(|error| {
            Fault::new(Kind::Unavailable, format!("the connection to the MCP client broke: {error}"))
        })
    }
}

//! `haft mcp`: the tools, for an MCP client.

use std::{process::ExitCode, sync::Arc};

use clap::Args;
use kit::{Fault, Kind};
use runtime::Unattended;

use super::finish;
use crate::{Options, Place, print};

#[derive(Args)]
pub struct Mcp {}

impl Mcp {
    /// # Errors
    /// When there is no runtime to be had, or standard input and output break.
    pub async fn run(&self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let opened = options.open(place)?;
        for line in &opened.aside {
            print::err(&format!("haft: {line}"));
        }
        let session = opened.runtime.session(options.session.as_deref(), "mcp", Arc::new(Unattended));
        // From here on, so that a client is answered at once, whatever there is to load.
        let _watching = opened.runtime.outside().watch();
        let outside = opened.runtime.outside().clone();
        tokio::spawn(async move {
            outside.settled().await;
            outside.lapsed().iter().for_each(|line| print::err(&format!("haft: {line}")));
        });
        let served =
            serve::mcp_stdio(session.clone(), serve::About::new(tools::instructions(&opened.toolset))).await;
        finish(&session).await;
        served.map(|()| ExitCode::SUCCESS).map_err(|error| {
            Fault::new(Kind::Unavailable, format!("the connection to the MCP client broke: {error}"))
        })
    }
}

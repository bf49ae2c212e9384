//! `haft mcp`: the tools, for an MCP client; and the servers that haft is a client of.

mod http;
mod install;
mod login;
mod servers;

use std::{process::ExitCode, sync::Arc};

use clap::{Args, Subcommand};
use kit::{Fault, Kind};
use runtime::{Listing, Runtime, Session, Unattended};
use tokio_util::sync::CancellationToken;

use super::{finish, in_short};
use crate::{Options, Place, print};

#[derive(Args)]
pub struct Mcp {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    http: http::HttpArgs,
    /// List all tools, whatever that costs the client's model.
    #[arg(long)]
    all_tools: bool,
}

/// What is done in place of serving.
#[derive(Subcommand)]
enum What {
    /// Tell a client of haft, in its own configuration.
    Install(install::Install),
    /// Let haft in to a server that is elsewhere, in a browser.
    Login(login::Login),
    /// Forget what haft was given for a server.
    Logout(login::Logout),
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
            Some(What::Install(install)) => return install.run(options, place),
            Some(What::Login(login)) => return login.run(options, place).await,
            Some(What::Logout(logout)) => return logout.run(options, place),
            Some(What::List(list)) => return list.run(options, place),
            Some(What::Trust(trust)) => return trust.run(options, place),
        }
        let listening = self.http.listen(place)?;
        let opened = options.open(place)?;
        for line in &opened.aside {
            print::err(&format!("haft: {line}"));
        }
        let session = opened.runtime.session(options.session.as_deref(), "mcp", Arc::new(Unattended));
        let listed = (!self.all_tools).then(|| opened.listing_of_mcp());
        if let Some(listed) = &listed {
            session.list_within(listed.clone());
        }
        let named = options.session.is_some().then(|| session.clone());
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
        let instructions = tools::instructions(&opened.toolset, session.catalog().listed());
        let about = serve::About::new(instructions);
        let served = match listening {
            None => serve::mcp_stdio(session.clone(), about).await,
            Some(listening) => http(listening, about, named, listed, &opened.runtime).await,
        };
        finish(&session).await;
        served.map(|()| ExitCode::SUCCESS).map_err(|error| {
            Fault::new(Kind::Unavailable, format!("the connection to the MCP client broke: {error}"))
        })
    }
}

/// Serves over HTTP until the process is told to end: each MCP session has a session of its own, unless one was named.
async fn http(
    listening: http::Listening,
    about: serve::About,
    named: Option<Session>,
    listed: Option<Listing>,
    runtime: &Runtime,
) -> std::io::Result<()> {
    let http::Listening { listener, mut settings } = listening;
    settings.one_session = named.is_some();
    let stop = CancellationToken::new();
    let runtime = runtime.clone();
    let open = move |_: serve::Visit<'_>| {
        Ok(named.clone().unwrap_or_else(|| {
            let session = runtime.session(None, "mcp", Arc::new(Unattended));
            if let Some(listed) = &listed {
                session.list_within(listed.clone());
            }
            session
        }))
    };
    let ending = stop.clone();
    tokio::spawn(async move {
        http::told_to_end().await;
        ending.cancel();
    });
    serve::http(listener, settings, about, open, stop).await
}

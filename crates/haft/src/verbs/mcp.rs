//! `haft mcp`: serves tools over MCP, and manages MCP clients and servers.

mod http;
pub(super) mod install;
mod login;
mod servers;
pub(super) mod workspaces;

use std::{io, process::ExitCode, sync::Arc};

use clap::{Args, Subcommand};
use kit::{Fault, Kind};
use tokio_util::sync::CancellationToken;

pub(crate) use self::install::{Client, clients};
use self::workspaces::Opening;
use crate::{
    Options, Place,
    client_roots::{ClientRoots, Open, no_workspace},
    verbs::{listening, strict::Strict},
    workspace_check::{self, Asking, WideFolders},
};

#[derive(Args)]
pub struct Mcp {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    http: http::HttpArgs,
    #[command(flatten)]
    tools: ToolArgs,
}

/// The selection of served tools.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(super) struct ToolArgs {
    /// List all tools, instead of as many as `list_tokens` allows
    #[arg(long)]
    all_tools: bool,
    #[command(flatten)]
    strict: Strict,
}

impl ToolArgs {
    /// Returns the options as arguments of a command line.
    fn as_arguments(self) -> Vec<String> {
        let named = [(self.all_tools, "--all-tools"), (self.strict.strict, "--strict")];
        named.into_iter().filter(|it| it.0).map(|it| it.1.to_owned()).collect()
    }
}

/// Commands that run in place of serving.
#[derive(Subcommand)]
enum What {
    /// Add haft to an MCP client's configuration, or remove it
    ///
    /// Global options such as `--toolset` and `--sandbox` become part of the entry. haft keeps a copy of the file as it was.
    Install(install::Install),
    /// Sign in to a remote MCP server, in a browser
    Login(login::Login),
    /// Sign out of a remote MCP server
    Logout(login::Logout),
    /// List the MCP servers that haft can use, and their tools
    List(servers::List),
    /// Accept changed tool definitions of a server, after showing the difference
    ///
    /// haft pins the tool definitions of each server on first use. A changed definition is not used before you accept it.
    Trust(servers::Trust),
}

impl Mcp {
    /// # Errors
    /// When no runtime can be opened, or standard input or output fails.
    pub async fn run(&self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let is_install = matches!(self.what, Some(What::Install(_)));
        let of_serving = match self.http.is_wanted() {
            true => Some("--http".to_owned()),
            false if is_install => None,
            false => self.tools.as_arguments().into_iter().next(),
        };
        if let (Some(_), Some(option)) = (&self.what, of_serving) {
            let mut fault = Fault::bad_args(format!("`{option}` has no effect with a command of `haft mcp`"));
            if is_install {
                fault = fault.next("`haft mcp install CLIENT --http URL` adds a server that runs already.");
            }
            return Err(fault);
        }
        match &self.what {
            None => self.serve(options, place).await,
            Some(What::Install(install)) => install.run(options, self.tools, place),
            Some(What::Login(login)) => login.run(options, place).await,
            Some(What::Logout(logout)) => logout.run(options, place),
            Some(What::List(list)) => list.run(options, place),
            Some(What::Trust(trust)) => trust.run(options, place),
        }
    }

    async fn serve(&self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let wide = WideFolders::of(place);
        if self.http.is_wanted() && options.dir.is_none() {
            let here = options.workspace()?;
            if wide.refused(&here).is_some() {
                return Err(no_workspace(&here, "and over HTTP no client tells its folder"));
            }
        }
        // Over stdio a client may still name its workspace; until then haft makes no calls in a folder that is too wide.
        if options.dir.is_some() || wide.what(&options.workspace()?).is_none() {
            workspace_check::check(options, place, Asking::No)?;
        }
        let listening = self.http.listen(place)?;
        let opening = Arc::new(Opening::new(options, place, self.tools).await?);
        let about = opening.about()?;
        let served = match listening {
            Some(listening) => over_http(listening, about, opening.clone(), options.session.is_some()).await,
            None if options.dir.is_some() => serve::mcp_stdio(opening.backend()?, about).await,
            None => {
                let elsewhere = opening.clone();
                let open: Open<_> = Box::new(move |workspace, others| {
                    let opening = elsewhere.clone();
                    Box::pin(async move { opening.backend_in(workspace, others).await })
                });
                let client_roots = ClientRoots::new(opening.backend()?, options.workspace()?, wide, open);
                serve::mcp_stdio(client_roots, about).await
            }
        };
        opening.finish().await;
        served.map(|()| ExitCode::SUCCESS).map_err(|error| {
            Fault::new(Kind::Unavailable, format!("the connection to the MCP client broke: {error}"))
        })
    }
}

/// Serves over HTTP until the process gets a signal to end: each MCP session has a session of its own, unless one was named.
async fn over_http(
    listening: http::Listening,
    about: serve::About,
    opening: Arc<Opening>,
    named: bool,
) -> io::Result<()> {
    let http::Listening { listener, mut settings } = listening;
    settings.one_session = named;
    settings.hooks = Some(opening.hooks()?);
    let stop = CancellationToken::new();
    let open = move |visit: serve::Visit<'_>| {
        let backend =
            if named { opening.backend() } else { opening.backend_of(visit.principal.unwrap_or_default()) };
        backend.map_err(|fault| io::Error::other(fault.as_text()))
    };
    let ending = stop.clone();
    tokio::spawn(async move {
        listening::end_signal().await;
        ending.cancel();
    });
    serve::http(listener, settings, about, open, stop).await
}

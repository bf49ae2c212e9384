//! `haft mcp`: the tools, for an MCP client.

mod http;
mod install;

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use clap::{Args, Subcommand};
use kit::{Fault, Kind};
use parking_lot::Mutex;
use runtime::{Session, Unattended, outside::Watching};
use tokio_util::sync::CancellationToken;

use super::{finish, in_short};
use crate::{ForClients, Opened, Options, Place, following::Following, print};

#[derive(Args)]
pub struct Mcp {
    #[command(flatten)]
    http: http::HttpArgs,
    #[command(subcommand)]
    instead: Option<Instead>,
}

/// What is done in place of serving.
#[derive(Subcommand)]
enum Instead {
    /// Tell a client of haft, in its own configuration.
    Install(install::Install),
}

impl Mcp {
    /// # Errors
    /// When there is no runtime to be had, or standard input and output break.
    pub async fn run(&self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        if let Some(Instead::Install(install)) = &self.instead {
            return install.run(options, place);
        }
        let listening = self.http.listen(place)?;
        let sessions =
            Arc::new(Sessions { options: options.clone(), place: place.clone(), all: Mutex::default() });
        let (hands, session, opened) = sessions.open(options)?;
        let instructions = tools::instructions(&opened.toolset, session.catalog().specs());
        let about = serve::About::new(instructions);
        let served = match listening {
            Some(listening) => {
                http(listening, about, options.session.is_some().then_some(hands), opened).await
            }
            None if options.dir.is_some() => serve::mcp_stdio(hands, about).await,
            None => {
                let elsewhere = Arc::clone(&sessions);
                let open = Box::new(move |workspace, others| elsewhere.open_in(workspace, others));
                let here = options.workspace()?;
                serve::mcp_stdio(Following::new(hands, here, place.home(), open), about).await
            }
        };
        sessions.finish().await;
        served.map(|()| ExitCode::SUCCESS).map_err(|error| {
            Fault::new(Kind::Unavailable, format!("the connection to the MCP client broke: {error}"))
        })
    }
}

/// The session that is served, and the one before it, if the client works elsewhere than haft was started.
struct Sessions {
    options: Options,
    place: Place,
    all: Mutex<Vec<(Session, Watching)>>,
}

impl Sessions {
    fn open(&self, options: &Options) -> Result<(ForClients, Session, Opened), Fault> {
        let opened = options.open(&self.place)?;
        for line in &opened.aside {
            print::err(&format!("haft: {line}"));
        }
        let session = opened.runtime.session(options.session.as_deref(), "mcp", Arc::new(Unattended));
        let outside = opened.runtime.outside();
        let (asked, place, toolset) = (options.clone(), self.place.clone(), opened.toolset.clone());
        let deciding = Options::deciding(&place, opened.runtime.roots().workspace());
        // A client need not start anew when a person trusts the workspace.
        outside.follow(deciding, move || asked.tool_files(&place, &toolset).ok());
        // From here on, so that a client is answered at once, whatever there is to load.
        let hands = ForClients::new(session.clone(), &opened);
        let tell = hands.tell_not_loaded();
        let watching = outside.watch(move |it| {
            print::err(&format!("haft: {}", in_short(it)));
            tell(it);
        });
        let loaded = outside.clone();
        tokio::spawn(async move {
            loaded.settled().await;
            loaded.lapsed().iter().for_each(|line| print::err(&format!("haft: {line}")));
        });
        self.all.lock().push((session.clone(), watching));
        Ok((hands, session, opened))
    }

    /// The same, where the client works.
    fn open_in(&self, workspace: PathBuf, others: Vec<PathBuf>) -> Result<ForClients, Fault> {
        let mut options = self.options.clone();
        options.dir = Some(workspace);
        options.roots.extend(others.into_iter().filter_map(|it| it.into_os_string().into_string().ok()));
        self.open(&options).map(|(hands, ..)| hands)
    }

    async fn finish(&self) {
        let all = std::mem::take(&mut *self.all.lock());
        for (session, _watching) in all {
            finish(&session).await;
        }
    }
}

/// Serves over HTTP until the process is told to end: each MCP session has a session of its own, unless one was named.
async fn http(
    listening: http::Listening,
    about: serve::About,
    named: Option<ForClients>,
    opened: Opened,
) -> std::io::Result<()> {
    let http::Listening { listener, mut settings } = listening;
    settings.one_session = named.is_some();
    let stop = CancellationToken::new();
    let open = move |visit: serve::Visit<'_>| {
        Ok(named.clone().unwrap_or_else(|| {
            let session = opened.runtime.session(None, "mcp", Arc::new(Unattended));
            // Who comes back with the same token finds the jobs of before. No session's name has a slash.
            session.keep_jobs(&format!("http/{}", visit.principal.unwrap_or_default()));
            ForClients::new(session, &opened)
        }))
    };
    let ending = stop.clone();
    tokio::spawn(async move {
        http::told_to_end().await;
        ending.cancel();
    });
    serve::http(listener, settings, about, open, stop).await
}

//! `haft mcp`: the tools, for an MCP client.

mod install;

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use clap::{Args, Subcommand};
use kit::{Fault, Kind};
use parking_lot::Mutex;
use runtime::{Session, Unattended, outside::Watching};

use super::{finish, in_short};
use crate::{Options, Place, following::Following, print};

#[derive(Args)]
pub struct Mcp {
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
        let sessions = Sessions { options: options.clone(), place: place.clone(), opened: Mutex::default() };
        let sessions = Arc::new(sessions);
        let session = sessions.open(options)?;
        let instructions = tools::instructions(&sessions.toolset(), session.catalog().specs());
        let about = serve::About::new(instructions);
        let served = if options.dir.is_some() {
            serve::mcp_stdio(session, about).await
        } else {
            let elsewhere = Arc::clone(&sessions);
            let open = Box::new(move |workspace, others| elsewhere.open_in(workspace, others));
            let here = options.workspace()?;
            serve::mcp_stdio(Following::new(session, here, place.home(), open), about).await
        };
        sessions.finish().await;
        served.map(|()| ExitCode::SUCCESS).map_err(|error| {
            Fault::new(Kind::Unavailable, format!("the connection to the MCP client broke: {error}"))
        })
    }
}

/// The session that is served, and those before it, if the client works elsewhere than haft was started.
struct Sessions {
    options: Options,
    place: Place,
    opened: Mutex<Vec<Standing>>,
}

struct Standing {
    session: Session,
    toolset: String,
    _watching: Watching,
}

impl Sessions {
    fn open(&self, options: &Options) -> Result<Session, Fault> {
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
        let watching = outside.watch(|it| print::err(&format!("haft: {}", in_short(it))));
        let loaded = outside.clone();
        tokio::spawn(async move {
            loaded.settled().await;
            loaded.lapsed().iter().for_each(|line| print::err(&format!("haft: {line}")));
        });
        let standing = Standing { session: session.clone(), toolset: opened.toolset, _watching: watching };
        self.opened.lock().push(standing);
        Ok(session)
    }

    /// The same, where the client works.
    fn open_in(&self, workspace: PathBuf, others: Vec<PathBuf>) -> Result<Session, Fault> {
        let mut options = self.options.clone();
        options.dir = Some(workspace);
        options.roots.extend(others.into_iter().filter_map(|it| it.into_os_string().into_string().ok()));
        self.open(&options)
    }

    fn toolset(&self) -> String {
        self.opened.lock().last().map(|it| it.toolset.clone()).unwrap_or_default()
    }

    async fn finish(&self) {
        let opened = std::mem::take(&mut *self.opened.lock());
        for standing in opened {
            finish(&standing.session).await;
        }
    }
}

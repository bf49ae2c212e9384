//! `haft serve`: sessions over HTTP, for a browser and for programs.

mod folders;
mod limits;
mod open_agents;
mod protocols;

use std::{
    collections::{HashMap, HashSet},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use agent::Agent;
use clap::Args;
use kit::{Fault, Kind, services::Soon};
use parking_lot::Mutex;
use runtime::{Session, Unattended, WeakSession};
use sessions::{Opened, Opener, Operation, Prepared, Report, Sessions};
use tokio_util::sync::CancellationToken;
use web::{FileToken, Role, Server, Settings, Workspace, hash_of};

use self::{
    folders::OpenableFolders,
    limits::Limits,
    open_agents::OpenAgents,
    protocols::{ApprovalPage, ServedProtocols},
};
use super::{
    close,
    listening::{address, end_signal, is_name, listen, private},
    report_ignored,
};
use crate::{
    Options, Place,
    agent_factory::{AgentFactory, AgentOptions},
    print,
    session_service::{records, report},
    workspace_check::{self, Asking},
};

/// The folder, in the state folder, that keeps sign-ins, tokens and shares.
const FOLDER: &str = "serve";

/// Time that sessions have to end.
const LAST: Duration = Duration::from_secs(5);

#[derive(Args)]
pub struct Serve {
    #[command(flatten)]
    agent: AgentOptions,
    /// Address to listen on, or a port of loopback; port 0 takes any free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8723")]
    addr: String,
    /// Another workspace to serve, beside that of `--dir`; repeatable
    #[arg(long, value_name = "PATH")]
    workspace: Vec<PathBuf>,
    /// Name by which others reach the server: HOST, HOST:PORT or a URL; required for an address other than loopback, repeatable
    #[arg(long, value_name = "HOSTNAME")]
    public: Vec<String>,
    /// File with tokens, a line each: `NAME ROLE TOKEN`; a role is view, say, approve or own
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,
    /// Time that a call by `/mcp` waits for approval on the page, if its client can't ask; 0 refuses it at once
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    approval_wait: u32,
}

impl Serve {
    /// # Errors
    /// When the address, a name, a token or a workspace is not valid, or no agent can be created.
    pub async fn run(self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let Self { agent, addr, workspace: others, public, tokens: tokens_file, approval_wait } = self;
        if options.session.is_some() {
            return Err(Fault::bad_args("`--session` has no effect here: all sessions are served")
                .next("Leave it out."));
        }
        let address = address_of(&addr, &public, tokens_file.is_some())?;
        let tokens = tokens_file.as_deref().map(of_file).transpose()?.unwrap_or_default();
        let mut dirs = vec![options.workspace()?];
        for other in others {
            let of_other = Options { dir: Some(other), ..options.clone() };
            let named = |fault: Fault| fault.next("Name a folder that exists with `--workspace PATH`.");
            let dir = of_other.workspace().map_err(named)?;
            if !dirs.contains(&dir) {
                dirs.push(dir);
            }
        }
        if let Some(file) = &tokens_file {
            is_outside(file, &dirs)?;
        }
        let limits = Limits::default();
        let open_agents = Arc::new(OpenAgents::new(&limits));
        let mut served = Vec::new();
        for dir in dirs {
            let options = Options { dir: Some(dir), ..options.clone() };
            served.push(Served::open(&agent, &options, place, &open_agents).await?);
        }
        let listener = listen(address)?;
        let address = listener.local_addr().unwrap_or(address);
        let url = url_of(address, &public);
        served.iter().for_each(|it| it.agents.serve_files_at(&url));
        let workspaces: Vec<Workspace> = served.iter().map(Served::workspace).collect();
        let page = ApprovalPage { url: url.clone(), wait: Duration::from_secs(approval_wait.into()) };
        let protocols = Arc::new(ServedProtocols::new(options, &agent, place, page));
        for (it, workspace) in served.iter().zip(&workspaces) {
            let options = Options { dir: Some(it.path().to_owned()), ..options.clone() };
            protocols.add(it, workspace.id.clone(), options);
        }
        let folders = Arc::new(OpenableFolders {
            options: options.clone(),
            agent,
            place: place.clone(),
            tokens: tokens_file,
            url: url.clone(),
            open_agents: open_agents.clone(),
            protocols: protocols.clone(),
            opened: Mutex::default(),
        });
        let settings = Settings {
            public: public.clone(),
            tokens,
            folder: place.state.join(FOLDER),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            protocols: protocols.clone(),
            folders: folders.clone(),
            silence: limits.silence,
            url,
        };
        let server = Server::new(listener, settings, workspaces)?;
        tell(&server, &served, address, &public)?;
        let stop = CancellationToken::new();
        let ending = stop.clone();
        tokio::spawn(async move {
            end_signal().await;
            ending.cancel();
        });
        let done = server.serve(stop).await;
        protocols.finish().await;
        open_agents.forget_sessions();
        for it in served.into_iter().chain(folders.take_opened()) {
            it.end().await;
        }
        done.map(|()| ExitCode::SUCCESS)
            .map_err(|error| Fault::new(Kind::Unavailable, format!("the server failed: {error}")))
    }
}

/// Returns the address to listen on.
fn address_of(text: &str, public: &[String], has_tokens: bool) -> Result<SocketAddr, Fault> {
    let address = address("--addr", text)?;
    public.iter().try_for_each(|it| is_name(it))?;
    if address.ip().is_loopback() {
        return Ok(address);
    }
    let missing = match (public.is_empty(), has_tokens) {
        (false, true) => return Ok(address),
        (true, true) => "`--public` is missing",
        (false, false) => "`--tokens` is missing",
        (true, false) => "`--public` and `--tokens` are missing",
    };
    Err(Fault::bad_args(format!("other machines can reach {address}, and {missing}")).next(
        "Listen on 127.0.0.1; or name the host that others use with `--public HOSTNAME`, and the file of their tokens with `--tokens FILE`.",
    ))
}

/// Prints where the server is.
fn tell(server: &Server, served: &[Served], address: SocketAddr, public: &[String]) -> Result<(), Fault> {
    for it in served {
        print::err(&format!("haft: serving the sessions of {}", it.path().display()));
    }
    for name in public {
        print::err(&format!("haft: others reach it at {}, each with a token", url_of_name(name)));
    }
    if address.ip().is_loopback() {
        print::err("haft: this address signs in once, within 10 minutes:");
        print::out(&format!("http://{address}/#code={}", server.code()?));
    } else {
        print::out(&format!("http://{address}/"));
    }
    Ok(())
}

/// Returns the address that links begin with: the first public name, if there is one.
fn url_of(address: SocketAddr, public: &[String]) -> String {
    public.first().map_or_else(|| format!("http://{address}"), |it| url_of_name(it))
}

fn url_of_name(name: &str) -> String {
    let url = if name.contains("://") { name.to_owned() } else { format!("http://{name}") };
    url.trim_end_matches('/').to_owned()
}

/// Refuses a file of tokens in a served workspace: whoever may read the workspace's files would have the tokens of all.
fn is_outside(file: &Path, workspaces: &[PathBuf]) -> Result<(), Fault> {
    let real = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let Some(workspace) =
        workspaces.iter().find(|it| real.starts_with(it.canonicalize().as_deref().unwrap_or(it)))
    else {
        return Ok(());
    };
    Err(Fault::bad_args(format!("`--tokens {}` is in the workspace {}", file.display(), workspace.display()))
        .next("Models, and all who may read files here, would read the tokens. Put it elsewhere, such as ~/haft-tokens."))
}

/// Returns the tokens of a file that nobody else can read.
fn of_file(file: &Path) -> Result<Vec<FileToken>, Fault> {
    let wrong = |why: String| {
        Fault::bad_args(format!("`--tokens {}`: {why}", file.display()))
            .next("It has lines of `NAME ROLE TOKEN`; `chmod 600` keeps it to you.")
    };
    let text = private(file).map_err(|error| wrong(error.to_string()))?;
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    let mut tokens: Vec<FileToken> = Vec::new();
    for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, role, token] = words.as_slice() else {
            return Err(wrong(format!("line {number} has {} words, and not three", words.len())));
        };
        let role = Role::named(role).ok_or_else(|| {
            wrong(format!("line {number}: `{role}` is no role; they are view, say, approve and own"))
        })?;
        let principal = serve::Principal::new(*name, *token).map_err(&wrong)?;
        let is_same = |it: &FileToken| it.principal.name() == *name || it.principal.has_token_of(&principal);
        if tokens.iter().any(is_same) {
            return Err(wrong(format!("the name or the token of `{name}` is in another line already")));
        }
        tokens.push(FileToken { principal, role, hash: hash_of(token) });
    }
    if tokens.is_empty() {
        return Err(wrong("it has no token".to_owned()));
    }
    Ok(tokens)
}

/// A workspace that is served.
struct Served {
    factory: Arc<AgentFactory>,
    agents: Arc<ServedAgents>,
    sessions: Sessions,
}

impl Served {
    async fn open(
        agent: &AgentOptions,
        options: &Options,
        place: &Place,
        open_agents: &Arc<OpenAgents>,
    ) -> Result<Self, Fault> {
        workspace_check::check(options, place, Asking::Possible)?;
        let factory = Arc::new(agent.clone().open(options, place, Arc::new(Unattended)).await?);
        report_ignored(&factory.opened, false);
        let runtime = &factory.opened.runtime;
        let agents = Arc::new(ServedAgents {
            factory: factory.clone(),
            open: Mutex::default(),
            url: OnceLock::new(),
            limited: open_agents.clone(),
            choosing: Mutex::default(),
            is_closing: AtomicBool::new(false),
        });
        let records = Some(records(runtime));
        let sessions =
            Sessions::with_records(runtime.store().clone(), "serve", Some(agents.clone()), records);
        open_agents.serve(runtime.roots().workspace(), &sessions);
        Ok(Self { factory, agents, sessions })
    }

    fn path(&self) -> &Path {
        self.factory.opened.runtime.roots().workspace()
    }

    fn workspace(&self) -> Workspace {
        let runtime = self.factory.opened.runtime.clone();
        Workspace::new(self.path().to_owned(), runtime, self.sessions.clone(), self.agents.clone())
    }

    /// Ends the sessions that this process runs; those of others go on.
    async fn end(self) {
        let names: Vec<String> = self.agents.open.lock().keys().cloned().collect();
        let open = names.into_iter().filter(|it| web::Agents::session(&*self.agents, it).is_some());
        let store = self.factory.opened.runtime.store().clone();
        for session in open {
            let closing = async {
                let handle = self.sessions.open(Some(&session), "serve").await?;
                handle.act(&store.call_id(), Operation::Cancel { prompt: None }).await?;
                handle.act(&store.call_id(), Operation::Close).await
            };
            match tokio::time::timeout(LAST, closing).await {
                Ok(Ok(_)) => {}
                Ok(Err(fault)) => print::err(&format!("haft: {session}: {}", fault.as_text())),
                Err(_) => print::err(&format!("haft: {session} did not end in time")),
            }
        }
        drop(self.sessions);
        close(&self.factory.opened.runtime);
    }
}

/// Makes the agents of sessions that this process runs.
struct ServedAgents {
    factory: Arc<AgentFactory>,
    /// The sessions that were opened here.
    open: Mutex<HashMap<String, WeakSession>>,
    /// The address of the server.
    url: OnceLock<String>,
    /// The agents of all workspaces.
    limited: Arc<OpenAgents>,
    /// Sessions whose model is chosen right after they are opened.
    choosing: Mutex<HashSet<String>>,
    /// The workspace is being closed, or is.
    is_closing: AtomicBool,
}

impl ServedAgents {
    fn workspace(&self) -> &Path {
        self.factory.opened.runtime.roots().workspace()
    }

    /// Opens no more sessions.
    fn close(&self) {
        self.is_closing.store(true, Ordering::SeqCst);
    }

    fn reopen(&self) {
        self.is_closing.store(false, Ordering::SeqCst);
    }

    /// Files that a session shares have links to this server.
    fn serve_files_at(&self, url: &str) {
        // It is set once, before any session is opened.
        let _ = self.url.set(url.to_owned());
    }
}

impl Opener for ServedAgents {
    fn admit<'a>(&'a self, session: &'a str, who: &'a str) -> Soon<'a, Result<(), Fault>> {
        Box::pin(async move {
            self.limited.admit(self.workspace(), session, who).await?;
            // Whoever closes the workspace checks its sessions after this, or has said so before.
            if !self.is_closing.load(Ordering::SeqCst) {
                return Ok(());
            }
            let what = format!("the folder {} is being closed", self.workspace().display());
            Err(Fault::new(Kind::Stale, what).next("Have the owner open it again, or use another workspace."))
        })
    }

    fn open(&self, prepared: &Prepared) -> Result<Opened, Fault> {
        let session = self.factory.session(Some(prepared.session()), "serve", prepared.approver());
        session.restore_sandbox()?;
        if let Some(url) = self.url.get() {
            session.files().serve_at(web::files_of(url, session.name()));
        }
        let (observer, asker) = (prepared.observer(), prepared.asker());
        let (agent, notes) = if self.choosing.lock().remove(prepared.session()) {
            self.factory.agent_without_model(session, observer, asker)?
        } else {
            self.factory.agent(session, observer, asker)?
        };
        let mut open = self.open.lock();
        open.retain(|_, it| it.get().is_some());
        open.insert(prepared.session().to_owned(), agent.session().weak());
        self.limited.is_open(self.workspace(), prepared.session(), agent.session().weak());
        Ok(Opened { agent, driver: self.factory.driver(false), notes })
    }

    fn set_model(&self, agent: &Agent, name: &str) -> Result<(), Fault> {
        agent.steering().set_model(self.factory.model(name)?);
        Ok(())
    }

    fn report(&self, agent: &Agent, report: &Report) -> Result<String, Fault> {
        report::of(agent, report)
    }

    fn keep(&self, agent: &Agent) -> Result<(), Fault> {
        self.limited.is_used(self.workspace(), agent.session().name());
        self.factory.keep(agent)?;
        // The process may be killed before the session ends.
        agent.session().keep()
    }
}

impl web::Agents for ServedAgents {
    fn session(&self, name: &str) -> Option<Session> {
        self.open.lock().get(name).and_then(WeakSession::get)
    }

    fn models(&self) -> Vec<(String, String)> {
        self.factory.model_names()
    }

    fn model(&self) -> Option<String> {
        self.factory.named().map(str::to_owned)
    }

    fn profiles(&self) -> Vec<String> {
        self.factory.opened.profiles.read().profiles.iter().map(|it| it.name.clone()).collect()
    }

    fn text_model(&self) -> Result<Arc<dyn agent::model::Model>, Fault> {
        self.factory.usual_model()
    }

    fn choose(&self, session: &str, model: Option<&str>, profile: Option<&str>) -> Result<(), Fault> {
        if let Some(name) = model {
            self.factory.model(name)?;
        }
        let has_model = |name| self.factory.opened.profiles.read().find(name).map(|it| it.model.is_some());
        let of_profile = profile.map(has_model).transpose()?.unwrap_or_default();
        if model.is_some() || of_profile {
            self.choosing.lock().insert(session.to_owned());
        }
        Ok(())
    }

    fn working(&self) -> Soon<'_, Result<Vec<String>, Fault>> {
        Box::pin(self.limited.working(self.workspace()))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn other_machines_need_a_name_and_tokens() {
        let public = ["haft.example.com".to_owned()];
        assert!(address_of("0.0.0.0:80", &public, true).is_ok());
        assert!(address_of("9000", &[], false).unwrap().ip().is_loopback());
        for (public, has_tokens, missing) in [
            (&public[..], false, "`--tokens` is missing"),
            (&[], true, "`--public` is missing"),
            (&[], false, "`--public` and `--tokens` are missing"),
        ] {
            let fault = address_of("0.0.0.0:80", public, has_tokens).unwrap_err();
            assert!(fault.what.contains(missing), "{}", fault.what);
        }
    }
}

//! The workspaces that one server serves, and where a session is.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use agent::model::Model;
use kit::{Fault, services::Soon};
use parking_lot::{Mutex, RwLock};
use runtime::{Runtime, Session};
use sessions::{Guard, Handle, Operation, Sessions};
use store::journal::Filter;
use tokio_util::sync::CancellationToken;

use crate::{
    access::{Who, now_ms},
    problem::Problem,
    role::Role,
};

/// The next step of whoever names a workspace that there is not.
pub(crate) const LISTED: &str = "GET /api/v1/workspaces lists them, each with its `id`.";

/// So many sessions without a word are listed.
const BEGUN: usize = 1000;

/// A workspace, as the program that serves it opened it.
pub struct Workspace {
    /// Its id, the same at each start.
    pub id: String,
    /// Its folder.
    pub path: PathBuf,
    /// Its runtime.
    pub runtime: Runtime,
    /// Its sessions, with an opener: the server runs them.
    pub sessions: Sessions,
    /// The agents of the program.
    pub agents: Arc<dyn Agents>,
    /// Sessions that began here, and when: as long as nobody said anything in one, the store does not list it.
    begun: Mutex<BTreeMap<String, u64>>,
    /// Cancelled when it is served no more.
    pub(crate) closed: CancellationToken,
}

/// The agents of the program that serves.
pub trait Agents: Send + Sync {
    /// Returns a session that runs in this process.
    fn session(&self, name: &str) -> Option<Session>;

    /// Returns the models that a person can choose, each with a description. Blocks.
    fn models(&self) -> Vec<(String, String)>;

    /// Returns the model of new sessions, where one is named.
    fn model(&self) -> Option<String>;

    /// Returns the model of new sessions, for an answer without an agent. Blocks.
    fn text_model(&self) -> Result<Arc<dyn Model>, Fault>;

    /// Returns the names of the profiles. Blocks.
    fn profiles(&self) -> Vec<String>;

    /// Checks the model and the profile that the request which begins this session names, and lets the session be opened
    /// before it has one of them: it gets them right after. Blocks.
    fn choose(&self, session: &str, model: Option<&str>, profile: Option<&str>) -> Result<(), Fault>;

    /// Returns the sessions that can't be closed now, in order: each has a turn, an approval or a question that is open, a job or
    /// a trigger.
    fn working(&self) -> Soon<'_, Result<Vec<String>, Fault>>;
}

/// Opens folders while the server runs, as the program that serves does at its start.
pub trait Folders: Send + Sync {
    /// Returns the folders that the owner may have opened: those that the person trusts or has used haft in. Blocks.
    fn list(&self) -> Vec<PathBuf>;

    /// Opens one of them. A folder that is not among them is refused.
    fn open<'a>(&'a self, path: &'a Path) -> Soon<'a, Result<Workspace, Fault>>;

    /// Closes one that was opened here, with its idle sessions. It is refused while a session or an MCP client works in it, and
    /// stays open then.
    fn close<'a>(&'a self, path: &'a Path) -> Soon<'a, Result<(), Fault>>;
}

/// Returns the guard of handles for whoever has this role: it refuses operations of higher roles, and to all but the owner models
/// that are not in the list, as the name of a model may be any address, or a file.
pub fn guard(role: Role, agents: Arc<dyn Agents>) -> Guard {
    Arc::new(move |operation| {
        check_role(role, operation)?;
        match operation {
            Operation::Model { name }
                if role < Role::Own && !agents.models().iter().any(|it| it.0 == *name) =>
            {
                Err(not_listed(role, name))
            }
            _ => Ok(()),
        }
    })
}

/// Refuses an operation to a role below the one that it needs.
pub(crate) fn check_role(role: Role, operation: &Operation) -> Result<(), Fault> {
    let needed = Role::needed(operation);
    if role >= needed {
        return Ok(());
    }
    let what = format!("this needs the role `{}`, and you have `{}`", needed.name(), role.name());
    Err(Fault::denied(what).next("Ask the owner for a token with that role."))
}

/// The error of choosing a model that is not in the list.
pub(crate) fn not_listed(role: Role, name: &str) -> Fault {
    let what =
        format!("the role `{}` can't choose the model `{name}`, which is not in the list", role.name());
    Fault::denied(what).next("GET /api/v1/info lists the models; the role `own` may name others.")
}

impl Workspace {
    /// A workspace in this folder.
    pub fn new(path: PathBuf, runtime: Runtime, sessions: Sessions, agents: Arc<dyn Agents>) -> Self {
        let hash = blake3::hash(path.as_os_str().as_encoded_bytes()).to_hex().to_string();
        let id = hash.chars().take(12).collect();
        let closed = CancellationToken::new();
        Self { id, path, runtime, sessions, agents, begun: Mutex::default(), closed }
    }

    /// Goes on with what an earlier server left to do, beside everything else.
    pub(crate) fn take_up(self: &Arc<Self>) {
        let workspace = Arc::clone(self);
        tokio::spawn(async move {
            if let Err(fault) = workspace.sessions.take_up().await {
                tracing::warn!(%fault, "what was left to do is not taken up");
            }
        });
    }

    /// Returns its name: that of its folder.
    pub(crate) fn name(&self) -> String {
        self.path
            .file_name()
            .map_or_else(|| self.path.display().to_string(), |it| it.to_string_lossy().into_owned())
    }

    /// A session began here.
    pub(crate) fn has_begun(&self, session: &str) {
        let mut begun = self.begun.lock();
        begun.insert(session.to_owned(), now_ms());
        if begun.len() > BEGUN
            && let Some(oldest) = begun.iter().min_by_key(|it| it.1).map(|it| it.0.clone())
        {
            begun.remove(&oldest);
        }
    }

    /// The sessions that began here, and when.
    pub(crate) fn begun(&self) -> BTreeMap<String, u64> {
        self.begun.lock().clone()
    }

    /// The session was deleted.
    pub(crate) fn is_gone(&self, session: &str) {
        self.begun.lock().remove(session);
    }

    /// Returns whether there is such a session. Blocks.
    fn has(&self, session: &str) -> Result<bool, Fault> {
        let store = self.runtime.store();
        if store.conversations().is_deleted(session)? {
            return Ok(false);
        }
        Ok(self.begun.lock().contains_key(session)
            || store.events().head(session)? > 0
            || store.conversations().about(session)?.is_some())
    }

    /// Attaches to a session that there is; it runs here, where nobody runs it. The handle does only what the role may.
    pub(crate) async fn attach(&self, session: &str, who: &Who) -> Result<Handle, Fault> {
        let handle = self.sessions.open(Some(session), &who.name).await?;
        Ok(handle.guarded(guard(who.role, self.agents.clone())))
    }

    /// Returns the calls of a session, newest last. Blocks.
    pub(crate) fn calls(
        &self,
        session: &str,
        limit: usize,
    ) -> Result<Vec<store::journal::CallRecord>, Fault> {
        let filter = Filter { session: Some(session.to_owned()), limit, ..Filter::default() };
        self.runtime.store().journal().log(filter)
    }
}

/// All workspaces of a server.
pub(crate) struct Workspaces {
    all: RwLock<Vec<Arc<Workspace>>>,
    /// The number of those with which the server began. They come before those that were opened later: who names no workspace,
    /// or a name that one of them has, is not disturbed by more.
    first: usize,
}

impl Workspaces {
    pub(crate) fn new(all: Vec<Workspace>) -> Self {
        Self { first: all.len(), all: RwLock::new(all.into_iter().map(Arc::new).collect()) }
    }

    /// Returns all workspaces, in the order in which they were opened.
    pub(crate) fn all(&self) -> Vec<Arc<Workspace>> {
        self.all.read().clone()
    }

    /// Serves one more.
    pub(crate) fn add(&self, workspace: Workspace) -> Arc<Workspace> {
        let workspace = Arc::new(workspace);
        self.all.write().push(workspace.clone());
        workspace
    }

    /// Serves this one no more.
    pub(crate) fn remove(&self, id: &str) {
        self.all.write().retain(|it| it.id != id);
    }

    /// Returns whether a workspace was opened after the server began.
    pub(crate) fn was_opened(&self, id: &str) -> bool {
        self.all.read().iter().skip(self.first).any(|it| it.id == id)
    }

    /// Returns the workspace of this id; without one, the first.
    pub(crate) fn of_id(&self, id: Option<&String>) -> Result<Arc<Workspace>, Problem> {
        let all = self.all.read();
        let found = match id {
            Some(id) => all.iter().find(|it| it.id == *id),
            None => all.first(),
        };
        found.cloned().ok_or_else(|| {
            Problem::missing(format!("there is no workspace `{}`", id.map_or("", |it| it))).next(LISTED)
        })
    }

    /// Returns the workspace that a program names, by its id or its name; without one, the only one.
    pub(crate) fn named(&self, name: Option<&String>) -> Result<Arc<Workspace>, Problem> {
        let served = self.all();
        let all =
            || served.iter().map(|it| format!("{} ({})", it.name(), it.id)).collect::<Vec<_>>().join(", ");
        let (first, later) = served.split_at(self.first.min(served.len()));
        let found = |of: &'_ [Arc<Workspace>]| -> Vec<Arc<Workspace>> {
            let is_it = |it: &&Arc<Workspace>| name.is_none_or(|name| it.id == *name || it.name() == *name);
            of.iter().filter(is_it).cloned().collect()
        };
        let found = Some(found(first)).filter(|it| !it.is_empty()).unwrap_or_else(|| found(later));
        match (found.as_slice(), name) {
            ([one], _) => Ok(one.clone()),
            ([], Some(name)) => Err(Problem::missing(format!("there is no workspace `{name}`"))
                .next(format!("Name one of these, or its id: {}.", all()))),
            (_, Some(name)) => Err(Problem::bad(format!("several workspaces are called `{name}`"))
                .next(format!("Name the id of one: {}.", all()))),
            (_, None) => Err(Problem::bad("this server has several workspaces, and none is named")
                .next(format!("Add `?workspace=NAME` to the address: {}.", all()))),
        }
    }

    /// Returns the workspace that has a session.
    pub(crate) async fn of_session(
        &self,
        session: &str,
        workspace: Option<&String>,
    ) -> Result<Arc<Workspace>, Problem> {
        let all = match workspace {
            Some(_) => vec![self.of_id(workspace)?],
            None => self.all(),
        };
        let name = session.to_owned();
        let found = blocking(move || {
            for workspace in all {
                if workspace.has(&name)? {
                    return Ok(Some(workspace));
                }
            }
            Ok(None)
        })
        .await?;
        found.ok_or_else(|| {
            Problem::missing(format!("there is no session `{session}`"))
                .next("GET /api/v1/sessions lists them; with `?archived=true` those that are archived.")
        })
    }
}

/// Does what blocks.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Fault::bug(format!("work of the server was not done: {error}")))?
}

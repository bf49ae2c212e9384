//! The workspaces that one server serves, and where a session is.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use kit::Fault;
use parking_lot::Mutex;
use runtime::{Runtime, Session};
use sessions::{Handle, Sessions};
use store::journal::Filter;

use crate::{access::now_ms, problem::Problem};

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
}

/// The agents of the program that serves.
pub trait Agents: Send + Sync {
    /// Returns a session that runs in this process.
    fn session(&self, name: &str) -> Option<Session>;

    /// Returns the models that a person can choose, each with a description. Blocks.
    fn models(&self) -> Vec<(String, String)>;

    /// Returns the model of new sessions, where one is named.
    fn model(&self) -> Option<String>;

    /// Returns the names of the profiles. Blocks.
    fn profiles(&self) -> Vec<String>;
}

impl Workspace {
    /// A workspace in this folder.
    pub fn new(path: PathBuf, runtime: Runtime, sessions: Sessions, agents: Arc<dyn Agents>) -> Self {
        let hash = blake3::hash(path.as_os_str().as_encoded_bytes()).to_hex().to_string();
        let id = hash.chars().take(12).collect();
        Self { id, path, runtime, sessions, agents, begun: Mutex::default() }
    }

    /// Returns its name: that of its folder.
    pub(crate) fn name(&self) -> String {
        self.path
            .file_name()
            .map_or_else(|| self.path.display().to_string(), |it| it.to_string_lossy().into_owned())
    }

    /// A session began here.
    pub(crate) fn has_begun(&self, session: &str) {
        self.begun.lock().insert(session.to_owned(), now_ms());
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

    /// Attaches to a session that there is; it runs here, where nobody runs it.
    pub(crate) async fn attach(&self, session: &str, who: &str) -> Result<Handle, Fault> {
        self.sessions.open(Some(session), who).await
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
pub(crate) struct Workspaces(pub(crate) Vec<Arc<Workspace>>);

impl Workspaces {
    /// Returns the workspace of this id; without one, the first.
    pub(crate) fn of_id(&self, id: Option<&String>) -> Result<&Arc<Workspace>, Problem> {
        let found = match id {
            Some(id) => self.0.iter().find(|it| it.id == *id),
            None => self.0.first(),
        };
        found.ok_or_else(|| Problem::missing(format!("there is no workspace `{}`", id.map_or("", |it| it))))
    }

    /// Returns the workspace that has a session.
    pub(crate) async fn of_session(
        &self,
        session: &str,
        workspace: Option<&String>,
    ) -> Result<Arc<Workspace>, Problem> {
        let all = match workspace {
            Some(_) => vec![self.of_id(workspace)?.clone()],
            None => self.0.clone(),
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
        found.ok_or_else(|| Problem::missing(format!("there is no session `{session}`")))
    }
}

/// Does what blocks.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Fault::bug(format!("work of the server was not done: {error}")))?
}

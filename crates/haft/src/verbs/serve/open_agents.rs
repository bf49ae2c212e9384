//! Agents that are open on a server: at most so many in all and of one person. Where that is reached, an idle one is closed, the one
//! used longest ago first; its session is opened again when somebody uses it.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use kit::Fault;
use parking_lot::Mutex;
use runtime::WeakSession;
use sessions::{Operation, Sessions};
use tokio::time::{Instant, sleep, timeout};
use triggers::Service;

use super::limits::Limits;

/// Time in which an agent that is admitted is opened, and in which one that is closed lets go of its session.
const OPENING: Duration = Duration::from_secs(10);
const CLOSING: Duration = Duration::from_secs(3);

/// The open agents of all workspaces of a server.
pub(super) struct OpenAgents {
    most: usize,
    most_of_one: usize,
    workspaces: Mutex<Vec<(PathBuf, Sessions)>>,
    open: Mutex<Vec<OpenAgent>>,
    /// Held while one is admitted.
    admitting: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct OpenAgent {
    workspace: PathBuf,
    session: String,
    /// The person for whom it was opened.
    person: String,
    admitted: Instant,
    used: Instant,
    /// None until it is open.
    agent: Option<WeakSession>,
}

impl OpenAgent {
    fn is(&self, workspace: &Path, session: &str) -> bool {
        self.session == session && self.workspace == workspace
    }
}

impl OpenAgents {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            most: limits.agents,
            most_of_one: limits.agents_of_one,
            workspaces: Mutex::default(),
            open: Mutex::default(),
            admitting: tokio::sync::Mutex::default(),
        }
    }

    /// The sessions of this workspace are served.
    pub(super) fn serve(&self, workspace: &Path, sessions: &Sessions) {
        self.workspaces.lock().push((workspace.to_owned(), sessions.clone()));
    }

    /// The sessions of this workspace are served no more.
    pub(super) fn forget_workspace(&self, workspace: &Path) {
        self.workspaces.lock().retain(|(path, _)| path != workspace);
        self.open.lock().retain(|it| it.workspace != workspace);
    }

    /// Returns the open sessions of a workspace that are not idle.
    pub(super) async fn working(&self, workspace: &Path) -> Result<Vec<String>, Fault> {
        let found = self.workspaces.lock().iter().find(|(path, _)| path == workspace).cloned();
        let Some((_, sessions)) = found else { return Ok(Vec::new()) };
        let mut working = Vec::new();
        for agent in self.known().iter().filter(|it| it.workspace == workspace) {
            if sessions.runs_here(&agent.session) && !is_idle(&sessions, agent).await? {
                working.push(agent.session.clone());
            }
        }
        working.sort();
        Ok(working)
    }

    /// Closes the agents of a workspace, all of which are idle. Returns the sessions of those that work by now.
    pub(super) async fn close_all(&self, workspace: &Path) -> Vec<String> {
        let mut working = Vec::new();
        for agent in self.known().iter().filter(|it| it.workspace == workspace) {
            if !self.close_idle(agent).await {
                working.push(agent.session.clone());
            }
        }
        working
    }

    /// The server ends: nothing is closed here any more.
    pub(super) fn forget_sessions(&self) {
        self.workspaces.lock().clear();
    }

    /// The agent of a session is open.
    pub(super) fn is_open(&self, workspace: &Path, session: &str, agent: WeakSession) {
        let mut open = self.open.lock();
        let now = Instant::now();
        match open.iter_mut().find(|it| it.is(workspace, session)) {
            Some(known) => {
                known.agent = Some(agent);
                known.used = now;
            }
            // Nobody asked for it: the server goes on with what an earlier one left.
            None => open.push(OpenAgent {
                workspace: workspace.to_owned(),
                session: session.to_owned(),
                person: String::new(),
                admitted: now,
                used: now,
                agent: Some(agent),
            }),
        }
    }

    /// The agent of a session has done something.
    pub(super) fn is_used(&self, workspace: &Path, session: &str) {
        if let Some(known) = self.open.lock().iter_mut().find(|it| it.is(workspace, session)) {
            known.used = Instant::now();
        }
    }

    /// Admits one more agent, of this session and for this person. Closes an idle one for that, where there are too many.
    ///
    /// # Errors
    /// When there are too many, and all of them work.
    pub(super) async fn admit(&self, workspace: &Path, session: &str, who: &str) -> Result<(), Fault> {
        let _one = self.admitting.lock().await;
        let (mut busy, mut known) = (Vec::new(), self.known());
        if known.iter().any(|it| it.is(workspace, session)) {
            return Ok(());
        }
        loop {
            let of_one = known.iter().filter(|it| it.person == who).count();
            let is_full_for_one = of_one >= self.most_of_one;
            if known.len() < self.most && !is_full_for_one {
                break;
            }
            let mut idle: Vec<&OpenAgent> =
                known.iter().filter(|it| !is_full_for_one || it.person == who).collect();
            idle.retain(|it| !busy.contains(&(it.workspace.clone(), it.session.clone())));
            idle.sort_by_key(|it| it.used);
            let Some(oldest) = idle.first().map(|it| (*it).clone()) else {
                return Err(if is_full_for_one {
                    web::all_agents_work(&format!("all {of_one} sessions that `{who}` has open here work"))
                } else {
                    web::all_agents_work(&format!("all {} sessions that are open here work", known.len()))
                });
            };
            if !self.close_idle(&oldest).await {
                busy.push((oldest.workspace, oldest.session));
            }
            known = self.known();
        }
        let now = Instant::now();
        self.open.lock().push(OpenAgent {
            workspace: workspace.to_owned(),
            session: session.to_owned(),
            person: who.to_owned(),
            admitted: now,
            used: now,
            agent: None,
        });
        Ok(())
    }

    /// Returns the agents that are open or are being opened.
    fn known(&self) -> Vec<OpenAgent> {
        let workspaces = self.workspaces.lock().clone();
        let mut open = self.open.lock();
        open.retain(|it| {
            let sessions = workspaces.iter().find(|(path, _)| *path == it.workspace);
            it.admitted.elapsed() < OPENING && it.agent.as_ref().is_none_or(|it| it.get().is_some())
                || sessions.is_some_and(|(_, sessions)| sessions.runs_here(&it.session))
        });
        open.clone()
    }

    /// Closes an agent, if it is idle. Returns whether it is closed.
    async fn close_idle(&self, agent: &OpenAgent) -> bool {
        let found = self.workspaces.lock().iter().find(|(path, _)| *path == agent.workspace).cloned();
        let Some((_, sessions)) = found else { return false };
        match is_idle(&sessions, agent).await {
            Ok(true) => {}
            Ok(false) => return false,
            Err(fault) => {
                tracing::warn!(%fault, session = agent.session, "how a session stands is not known");
                return false;
            }
        }
        let closing = async {
            let handle = sessions.open(Some(&agent.session), "serve").await?;
            handle.act(&sessions.new_name(), Operation::Close).await?;
            // The agent lets go of the session a moment after it answered that it closes.
            while sessions.runs_here(&agent.session) {
                sleep(Duration::from_millis(5)).await;
            }
            Ok::<_, Fault>(())
        };
        match timeout(CLOSING, closing).await {
            Ok(Ok(())) => {
                self.open.lock().retain(|it| !it.is(&agent.workspace, &agent.session));
                true
            }
            Ok(Err(fault)) => {
                tracing::warn!(%fault, session = agent.session, "an idle session was not closed");
                false
            }
            Err(_) => false,
        }
    }
}

/// Returns whether nothing would be lost: no turn, nothing that waits, no job, no trigger.
async fn is_idle(sessions: &Sessions, agent: &OpenAgent) -> Result<bool, Fault> {
    let Some(session) = agent.agent.as_ref().and_then(WeakSession::get) else { return Ok(false) };
    if !sessions.runs_here(&agent.session) || session.has_running_jobs() || session.owes_notifications() {
        return Ok(false);
    }
    let Some(state) = sessions.state_of(&agent.session).await? else { return Ok(false) };
    let works = state.turn.is_some() || state.waiting > 0;
    if works || !state.approvals.is_empty() || !state.questions.is_empty() {
        return Ok(false);
    }
    let triggers = Service::new(session.runtime().store().clone()).list(Some(&agent.session)).await?;
    Ok(triggers.is_empty())
}

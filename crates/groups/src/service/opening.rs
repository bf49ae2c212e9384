//! Opening the session of a member: its agent, with the block of the group in its system prompt.

use std::sync::{Arc, Weak};

use agent::Agent;
use kit::{Fault, Kind, services::Groups};
use sessions::{Opened, Opener, Prepared};

use super::{GroupOf, Inner, Meter, state::LiveAgent};
use crate::{
    recipe::MemberSpec,
    runtime_prompt::block,
    status::{Spawnable, Status},
};

/// Makes the agents of a group.
pub trait Maker: Send + Sync + 'static {
    /// Opens the agent of a member. Blocks.
    ///
    /// # Errors
    /// When there is no such model or profile.
    fn make(&self, member: NewAgent<'_>) -> Result<Opened, Fault>;

    /// Has the model of this name answer from now on. Blocks.
    ///
    /// # Errors
    /// When there is no such model.
    fn set_model(&self, agent: &Agent, name: &str, meter: &Meter) -> Result<(), Fault>;

    /// Keeps how the conversation stands. Blocks.
    ///
    /// # Errors
    /// When that can't be written.
    fn keep(&self, agent: &Agent) -> Result<(), Fault>;

    /// Returns a member that works under this profile. Blocks.
    ///
    /// # Errors
    /// When there is no such profile.
    fn profile(&self, name: &str) -> Result<MemberSpec, Fault>;

    /// Returns the configs that a member may start. Blocks.
    fn spawnable(&self) -> Vec<Spawnable>;

    /// Checks a model that a member chose for another one: it decides who reads the conversation, and the cost.
    ///
    /// # Errors
    /// When the person did not configure it.
    fn check_model(&self, name: &str) -> Result<(), Fault>;

    /// Returns the folder of a member, which lies below the workspace. Blocks.
    ///
    /// # Errors
    /// When it does not.
    fn check_folder(&self, folder: &str) -> Result<(), Fault>;

    /// Returns whether a person is there to answer questions.
    fn is_attended(&self) -> bool {
        false
    }

    /// Returns the configuration by which the process of a member makes its agent: it may not read it anew, as agents may have
    /// changed its files.
    fn configuration(&self) -> serde_json::Value {
        serde_json::Value::Null
    }

    /// Returns the command that runs this member in a process of its own, by [`Joined::run`](crate::member_process::Joined::run).
    /// Its standard input becomes the socket to the group.
    ///
    /// # Errors
    /// When this program has no such command.
    fn process(&self, group: &str, id: &str) -> Result<std::process::Command, Fault> {
        let fault = Fault::bad_args(format!(
            "this program can't run the agent `{id}` of `{group}` in a process of its own"
        ));
        Err(fault.next("Leave `process` out."))
    }
}

/// A member whose agent is to be opened.
pub struct NewAgent<'a> {
    /// The session, whose observer, approver and asker the agent has.
    pub prepared: &'a Prepared,
    /// Its config.
    pub spec: &'a MemberSpec,
    /// Its name.
    pub name: &'a str,
    /// Whether it may change the group.
    pub is_privileged: bool,
    /// Returns the block of its system prompt about the group, as it is now.
    pub block: Arc<dyn Fn() -> Option<String> + Send + Sync>,
    /// Its group, for its tools.
    pub groups: Arc<dyn Groups>,
    /// Counts what it uses.
    pub meter: Meter,
    /// Whether a person is there to answer questions.
    pub is_attended: bool,
    /// Whether it admits turns that its messages begin.
    pub gate: tokio::sync::watch::Receiver<bool>,
}

/// Opens the sessions of members.
pub(super) struct Members(pub(super) Weak<Inner>);

impl Members {
    fn inner(&self) -> Result<Arc<Inner>, Fault> {
        self.0.upgrade().ok_or_else(|| Fault::new(Kind::Unavailable, "the group has ended"))
    }
}

impl Opener for Members {
    fn open(&self, prepared: &Prepared) -> Result<Opened, Fault> {
        let inner = self.inner()?;
        let (id, spec, name, is_privileged, gate) = {
            let state = inner.state.lock();
            let id = state.by_session(prepared.session()).cloned().ok_or_else(|| {
                Fault::not_found(format!("`{}` is no member of the group", prepared.session()))
            })?;
            let live = state.live.get(&id).ok_or_else(|| Fault::bug("a member without a state"))?;
            if live.spec.process {
                let what =
                    format!("`{}` has a process of its own, which has ended", state.topology.name(&id));
                return Err(Fault::new(Kind::Unavailable, what));
            }
            let gate = live.gate.subscribe();
            let name = state.topology.name(&id).to_owned();
            (id.clone(), live.spec.clone(), name, state.topology.is_privileged(&id), gate)
        };
        let (weak, of) = (self.0.clone(), id.clone());
        let now = move || block(&weak.upgrade()?.state.lock().topology, &of);
        let opened = inner.maker.make(NewAgent {
            prepared,
            spec: &spec,
            name: &name,
            is_privileged,
            block: Arc::new(now),
            groups: Arc::new(GroupOf { inner: self.0.clone(), id: id.clone() }),
            meter: inner.budget.meter(),
            is_attended: inner.maker.is_attended(),
            gate,
        })?;
        if let Some(live) = inner.state.lock().live.get_mut(&id) {
            live.agent = Some(LiveAgent::of(&opened.agent));
            live.standing.status = Status::Idle;
        }
        Ok(opened)
    }

    fn set_model(&self, agent: &Agent, name: &str) -> Result<(), Fault> {
        let inner = self.inner()?;
        inner.maker.set_model(agent, name, &inner.budget.meter())
    }

    fn keep(&self, agent: &Agent) -> Result<(), Fault> {
        self.inner()?.maker.keep(agent)
    }
}

//! The agents of a group of the plan.

use std::{path::PathBuf, process::Command, sync::Arc, time::Duration};

use agent::{Agent, Driver, Driving, Settings};
use groups::{
    recipe::{MemberSpec, ROOT},
    service::{Maker, Meter, NewAgent},
    status::Spawnable,
};
use kit::{
    Fault,
    services::{Jobs, Soon},
};
use runtime::Runtime;
use sessions::Opened;
use tokio_util::task::AbortOnDropHandle;
use triggers::{Clock, Engine, FileChanges, Sources, Spec};

use super::{model::Talker, plan::Plan};

/// A clock that is ahead of the system clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ahead(pub(super) u64);

impl Clock for Ahead {
    fn now_ms(&self) -> u64 {
        store::now_ms() + self.0
    }

    fn sleep_until(&self, at_ms: Option<u64>) -> Soon<'_, ()> {
        let Some(at_ms) = at_ms else { return Box::pin(std::future::pending()) };
        Box::pin(tokio::time::sleep(Duration::from_millis(at_ms.saturating_sub(self.now_ms()))))
    }
}

struct Nothing;

impl Sources for Nothing {
    fn files(&self, _: &Spec) -> Result<Box<dyn FileChanges>, Fault> {
        Err(Fault::not_found("no files are watched here"))
    }

    fn jobs(&self) -> Option<Arc<dyn Jobs>> {
        None
    }
}

/// Makes the agents of a group.
pub(super) struct Members {
    pub(super) runtime: Runtime,
    pub(super) plan: Plan,
    pub(super) clock: Ahead,
    /// Called with each request to a model.
    pub(super) asked: fn(),
    /// The folder of the run.
    pub(super) folder: PathBuf,
}

impl Members {
    fn model(&self, member: &NewAgent<'_>) -> Talker {
        let recipe = &self.plan.recipe;
        let has_root = recipe.root.is_some();
        let peers = match (member.is_privileged, has_root) {
            (true, _) => recipe.members.iter().map(|it| it.name.clone()).collect(),
            (false, true) => vec![ROOT.to_owned()],
            (false, false) => Vec::new(),
        };
        Talker::new(self.plan.seed, member.name, member.spec.send.clone(), peers, self.asked)
    }
}

fn none(what: &str) -> Fault {
    Fault::not_found(format!("there is no {what} here"))
}

impl Maker for Members {
    fn make(&self, member: NewAgent<'_>) -> Result<Opened, Fault> {
        let prepared = member.prepared;
        let session = self.runtime.session(Some(prepared.session()), "group", prepared.approver());
        session.joins(member.groups.clone());
        let mut agent = Agent::open(Settings {
            session,
            model: member.meter.wrap(Arc::new(self.model(&member))),
            system: "You talk.".into(),
            bounds: Default::default(),
            visible: Default::default(),
            host: prepared.observer(),
        })?;
        let handle =
            tokio::runtime::Handle::try_current().map_err(|_| Fault::bug("there is no async runtime"))?;
        let engine =
            Engine::new(self.runtime.store(), prepared.session(), Arc::new(self.clock), Arc::new(Nothing));
        agent.keep_with(Box::new(AbortOnDropHandle::new(handle.spawn(engine.run()))));
        let driver = Driver::new(Driving { wait: Duration::ZERO, wakes: 10 }).gated(member.gate.clone());
        Ok(Opened { agent, driver, notes: Vec::new() })
    }

    fn set_model(&self, _: &Agent, name: &str, _: &Meter) -> Result<(), Fault> {
        Err(none(&format!("model `{name}`")))
    }

    fn keep(&self, agent: &Agent) -> Result<(), Fault> {
        agent.session().keep()
    }

    fn profile(&self, name: &str) -> Result<MemberSpec, Fault> {
        Err(none(&format!("profile `{name}`")))
    }

    fn spawnable(&self) -> Vec<Spawnable> {
        Vec::new()
    }

    fn check_model(&self, name: &str) -> Result<(), Fault> {
        Err(none(&format!("model `{name}`")))
    }

    fn process(&self, _: &str, _: &str) -> Result<Command, Fault> {
        let program = std::env::current_exe().map_err(|_| none("program"))?;
        let mut command = Command::new(program);
        command.arg("member").arg(&self.folder).arg(self.clock.0.to_string());
        Ok(command)
    }

    fn check_folder(&self, folder: &str) -> Result<(), Fault> {
        Err(none(&format!("folder `{folder}`")))
    }
}

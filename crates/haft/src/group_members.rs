//! Members of groups: their agents, with the profile, the model and the tools that a recipe gives them.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
};

use agent::{
    Agent, Bounds, Setup,
    dialect::Dialect,
    model::{self, Model},
    profiles::{NamedTrigger, Origin, Profile},
};
use groups::{
    recipe::{MemberSpec, TRIGGERS},
    runtime_prompt::with_block,
    service::{Maker, Meter, NewAgent},
    status::Spawnable,
};
use kit::{Fault, Kind, services::PRIVILEGED_TOOLS};
use runtime::{Session, config::spec_of_creature};
use sessions::Opened;

use crate::{
    agent_factory::{AgentFactory, chosen},
    options::Frozen,
    remote::{OnWorkers, RemoteMember},
    triggers,
};

/// The tools of every member.
const OF_MEMBERS: [&str; 2] = ["send_channel", "group_send"];

/// Names of tools elsewhere, and the tools here that do the same.
const ALSO_CALLED: [(&str, &str); 3] = [("bash", "shell"), ("multi_edit", "edit"), ("python", "code_exec")];

/// Makes the agents of a group.
pub(crate) struct GroupMembers {
    factory: Arc<AgentFactory>,
    /// Whether models that the workspace names count.
    trusted: bool,
    packages: Option<PathBuf>,
    attended: bool,
    frozen: Frozen,
}

impl GroupMembers {
    /// Members with the models, tools and profiles of this factory. `packages` is the folder of installed packages of creatures;
    /// `attended` says whether a person is there to answer questions.
    /// `frozen` is the workspace's configuration, for members with a process of their own.
    pub(crate) fn new(
        factory: &Arc<AgentFactory>,
        packages: Option<PathBuf>,
        attended: bool,
        frozen: Frozen,
    ) -> Self {
        Self { trusted: factory.opened.trusted, packages, attended, frozen, factory: factory.clone() }
    }

    /// Returns the profile of a member, and notes.
    fn profile_of(
        &self,
        session: &Session,
        member: &NewAgent<'_>,
        notes: &mut Vec<String>,
    ) -> Result<Profile, Fault> {
        let spec = member.spec;
        let base = match &spec.profile {
            Some(name) => Some(self.factory.opened.profiles.read().find(name)?),
            None => None,
        };
        let base = base.as_deref();
        let prompts = [base.map_or("", |it| it.prompt.as_str()), spec.prompt.as_str()];
        let folder = spec.pwd.as_ref().map(|it| {
            format!(
                "Your folder is `{it}`: relative paths and commands begin there. Tools show paths as they are below the workspace."
            )
        });
        let prompt: Vec<&str> =
            prompts.into_iter().chain(folder.as_deref()).filter(|it| !it.is_empty()).collect();
        let tools = spec.tools.clone().or_else(|| base.and_then(|it| it.tools.clone()));
        let tools = tools.map(|names| self.tools(session, names, member, notes));
        Ok(Profile {
            name: member.name.to_owned(),
            title: member.name.to_owned(),
            description: spec.description.clone(),
            prompt: prompt.join("\n\n"),
            model: None,
            tools,
            without: base.map(|it| it.without.clone()).unwrap_or_default(),
            read_only: spec.read_only || base.is_some_and(|it| it.read_only),
            max_turns: spec.max_steps.or_else(|| base.and_then(|it| it.max_turns)),
            origin: Origin::Workspace(spec.source.clone()),
            notes: Vec::new(),
            triggers: triggers_of(spec, base, notes),
        })
    }

    /// Returns the tools of a list by their names here, with those of every member.
    fn tools(
        &self,
        session: &Session,
        names: Vec<String>,
        member: &NewAgent<'_>,
        notes: &mut Vec<String>,
    ) -> Vec<String> {
        let catalog = session.catalog();
        let mut tools = Vec::new();
        for name in names {
            let other = ALSO_CALLED.iter().find(|it| it.0 == name).map(|it| it.1);
            match [Some(name.as_str()), other].into_iter().flatten().find(|it| catalog.has(it)) {
                Some(here) => tools.push(here.to_owned()),
                None => notes.push(format!("{}: there is no tool `{name}` here", member.name)),
            }
        }
        tools.extend(OF_MEMBERS.map(str::to_owned));
        if member.is_privileged {
            tools.extend(PRIVILEGED_TOOLS.map(str::to_owned));
        }
        tools
    }

    /// Returns the model of a member: that of its config where it counts, else that of the group.
    fn model_of(&self, spec: &MemberSpec, notes: &mut Vec<String>) -> Result<Arc<dyn Model>, Fault> {
        let factory = &self.factory;
        let wanted = spec.model.as_deref().filter(|name| self.counts(name, spec, notes));
        let dialect =
            spec.tool_format.as_deref().filter(|it| *it == "native" || it.parse::<Dialect>().is_ok());
        if let (Some(name), None) = (&spec.tool_format, dialect) {
            notes.push(format!("{}: `tool_format: {name}` is not known here", spec.name));
        }
        let usual =
            || factory.named().map(str::to_owned).or_else(|| model::usual(factory.choices()).map(|it| it.0));
        if let Some(name) = wanted {
            match self.named(name, dialect) {
                Ok(model) => return Ok(model),
                Err(fault) if usual().is_some() => {
                    notes.push(format!("{}: {}; the group's model is used", spec.name, fault.what));
                }
                Err(fault) => return Err(fault),
            }
        }
        let name = usual().ok_or_else(|| {
            Fault::bad_args(format!("no model was named for `{}`", spec.name))
                .next("Name one with `--model NAME`, or `model` of `[agent]` in haft.toml.")
        })?;
        self.named(&name, dialect)
    }

    /// Returns the model of a member whose turns run on workers with these labels.
    fn on_workers(
        &self,
        on: &str,
        session: &Session,
        member: &NewAgent<'_>,
        notes: &mut Vec<String>,
    ) -> Result<Arc<dyn Model>, Fault> {
        let spec = member.spec;
        let elsewhere = self.factory.elsewhere().ok_or_else(|| {
            Fault::bad_args(format!("`{}` has `on`, and this machine sends nothing to workers", member.name))
        })?;
        // Without a model of its own, it has that of the worker.
        let model = spec.model.clone().filter(|name| self.counts(name, spec, notes));
        let tools = spec.tools.clone().map(|names| {
            let mut tools = self.tools(session, names, member, notes);
            tools.retain(|it| !OF_MEMBERS.contains(&it.as_str()));
            tools
        });
        let it = OnWorkers {
            on: on.to_owned(),
            name: member.name.to_owned(),
            prompt: spec.prompt.clone(),
            model,
            profile: spec.profile.clone(),
            dialect: spec.tool_format.clone(),
            tools,
            read_only: spec.read_only,
            max_steps: spec.max_steps,
            max_seconds: spec.max_seconds,
        };
        let model = RemoteMember::new(it, elsewhere.clone(), session, member.meter.clone());
        Ok(Arc::new(
            model.map_err(|fault| Fault { what: format!("`{}`: {}", member.name, fault.what), ..fault })?,
        ))
    }

    /// Returns whether a model that a config names counts, with a note if it does not.
    fn counts(&self, name: &str, spec: &MemberSpec, notes: &mut Vec<String>) -> bool {
        let counts = self.trusted || self.check_model(name).is_ok();
        if !counts {
            notes
                .push(format!("{}: its model `{name}` does not count until you run `haft trust`", spec.name));
        }
        counts
    }

    fn named(&self, name: &str, dialect: Option<&str>) -> Result<Arc<dyn Model>, Fault> {
        let factory = &self.factory;
        // A script that a config names is in its workspace, wherever haft was started.
        let name = match name.strip_prefix("script:") {
            Some(file) => {
                format!("script:{}", factory.opened.runtime.roots().workspace().join(file).display())
            }
            None => name.to_owned(),
        };
        match dialect {
            Some(dialect) => chosen(&name, &factory.opened.agents, factory.variables(), Some(dialect)),
            None => factory.model(&name),
        }
    }
}

/// Returns the triggers of a member: those of its profile, and those of the recipe. One that is not valid gives a note.
fn triggers_of(spec: &MemberSpec, base: Option<&Profile>, notes: &mut Vec<String>) -> Vec<NamedTrigger> {
    let mut all = base.map(|it| it.triggers.clone()).unwrap_or_default();
    let known = spec.triggers.iter().enumerate().filter(|(_, it)| TRIGGERS.contains(&it.kind.as_str()));
    for (place, trigger) in known {
        let (id, keys) = (trigger.id(place), trigger.keys());
        match spec_of_creature(&keys) {
            Ok(spec) => all.push((id, spec)),
            Err(fault) => notes.push(format!("the trigger `{id}` is not armed: {}", fault.what)),
        }
    }
    all
}

impl Maker for GroupMembers {
    fn make(&self, member: NewAgent<'_>) -> Result<Opened, Fault> {
        let prepared = member.prepared;
        prepared.hub().set_waits(member.is_attended);
        let factory = &self.factory;
        let session = factory.session(Some(prepared.session()), "group", prepared.approver());
        session.joins(member.groups.clone());
        if let Some(folder) = &member.spec.pwd {
            session.works_in(folder).map_err(|fault| Fault {
                what: format!("the folder (`pwd`) of `{}`: {}", member.name, fault.what),
                ..fault
            })?;
        }
        let mut notes = Vec::new();
        let model = match &member.spec.on {
            Some(on) => self.on_workers(on, &session, &member, &mut notes)?,
            None => self.model_of(member.spec, &mut notes)?,
        };
        let model = member.meter.wrap(model);
        let (meter, block) = (member.meter.clone(), member.block.clone());
        // The tools of a group are there once the agent is open, which reads whether the session is a member.
        let mut agent = factory.simple(session, model, prepared.observer())?;
        let profile = Arc::new(self.profile_of(agent.session(), &member, &mut notes)?);
        let max_steps = profile.max_turns;
        let own = profile.clone();
        let with_group = move |setup: Setup| {
            let (compose, choose) = (setup.compose.clone(), setup.choose.clone());
            Setup {
                profiles: setup.profiles.clone().with_first(own),
                compose: Arc::new(move |session, profile| {
                    let system = compose(session, profile);
                    match block() {
                        Some(block) => with_block(system.text(), Some(&block)).into(),
                        None => system,
                    }
                }),
                choose: Arc::new(move |name| Ok(meter.wrap(choose(name)?))),
                ..setup
            }
        };
        factory.lead(&mut agent, prepared.asker(), with_group);
        if let Some(crew) = agent.crew() {
            let said = crew.begin(Some(&profile.name), false)?;
            notes.extend(said.lines().filter_map(|it| it.strip_prefix("note: ")).map(str::to_owned));
        }
        let engine = triggers::begin(agent.session(), &factory.opened.agents.triggers, Some(&profile))?;
        agent.keep_with(engine);
        let bounds = factory.bounds();
        agent.set_bounds(Bounds {
            steps: max_steps.unwrap_or(bounds.steps).min(bounds.steps),
            time: member.spec.max_seconds.map(std::time::Duration::from_secs).or(bounds.time),
            ..bounds
        });
        let driver = factory.driver(false).gated(member.gate.clone());
        Ok(Opened { agent, driver, notes })
    }

    fn set_model(&self, agent: &Agent, name: &str, meter: &Meter) -> Result<(), Fault> {
        agent.steering().set_model(meter.wrap(self.factory.model(name)?));
        Ok(())
    }

    fn keep(&self, agent: &Agent) -> Result<(), Fault> {
        self.factory.keep(agent)?;
        // The process may be killed before the session ends.
        agent.session().keep()
    }

    fn profile(&self, name: &str) -> Result<MemberSpec, Fault> {
        let profile = self.factory.opened.profiles.read().find(name).map_err(|fault| Fault {
            what: format!("there is no config and no profile `{name}`"),
            ..fault
        })?;
        Ok(MemberSpec {
            name: profile.name.clone(),
            description: profile.description.clone(),
            profile: Some(profile.name.clone()),
            model: profile.model.clone(),
            source: name.to_owned(),
            ..MemberSpec::default()
        })
    }

    fn spawnable(&self) -> Vec<Spawnable> {
        let known = self.factory.opened.profiles.read();
        let profiles = known.profiles.iter().map(|it| Spawnable {
            reference: it.name.clone(),
            name: it.name.clone(),
            description: it.description.clone(),
            source: "workspace",
        });
        let workspace = self.factory.opened.runtime.roots().workspace().to_owned();
        let own = creatures_in(&workspace.join("creatures"), "creatures", "workspace");
        let packages = self.packages.iter().flat_map(|folder| {
            folders_in(folder).into_iter().flat_map(|package| {
                let at = folder.join(&package).join("creatures");
                creatures_in(&at, &format!("@{package}/creatures"), "package")
            })
        });
        own.into_iter().chain(profiles).chain(packages).collect()
    }

    fn check_model(&self, name: &str) -> Result<(), Fault> {
        let agents = &self.factory.opened.agents;
        if agents.models.contains_key(name) || self.factory.named() == Some(name) {
            return Ok(());
        }
        let mut known: Vec<&str> =
            agents.models.keys().map(String::as_str).chain(self.factory.named()).collect();
        known.dedup();
        let fault = Fault::denied(format!("the person did not configure a model `{name}`"));
        Err(match known.as_slice() {
            [] => fault.next("Leave the model out: the new agent has yours."),
            known => fault.next(format!("These are: {}.", known.join(", "))),
        })
    }

    fn is_attended(&self) -> bool {
        self.attended
    }

    fn configuration(&self) -> serde_json::Value {
        serde_json::json!(self.frozen)
    }

    fn process(&self, group: &str, id: &str) -> Result<std::process::Command, Fault> {
        // Also where another version has taken the place of this program.
        let mut command = std::process::Command::new("/proc/self/exe");
        command.args(member_arguments(std::env::args_os().skip(1), group, id));
        Ok(command)
    }

    fn check_folder(&self, folder: &str) -> Result<(), Fault> {
        let roots = self.factory.opened.runtime.roots();
        let at = roots.locate(folder)?.absolute();
        if at.is_dir() {
            return Ok(());
        }
        Err(Fault::new(Kind::NotFound, format!("`{folder}` is not a folder of the workspace")))
    }
}

/// Returns the arguments of `haft group run` for the process of one member: those of this process, so that all options are the
/// same, and the member before the end of the options.
fn member_arguments(own: impl Iterator<Item = OsString>, group: &str, id: &str) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = own.collect();
    let end = arguments.iter().position(|it| it == "--").unwrap_or(arguments.len());
    arguments.insert(end, format!("--process-of={group}/{id}").into());
    arguments
}

fn folders_in(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let is_folder = |it: &std::fs::DirEntry| it.path().is_dir();
    let mut names: Vec<String> = entries
        .flatten()
        .take(1000)
        .filter(is_folder)
        .filter_map(|it| it.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

fn creatures_in(folder: &Path, reference: &str, source: &'static str) -> Vec<Spawnable> {
    let has_config = |name: &String| groups::recipe::document::config_in(&folder.join(name)).is_ok();
    let one = |name: String| Spawnable {
        reference: format!("{reference}/{name}"),
        description: String::new(),
        name,
        source,
    };
    folders_in(folder).into_iter().filter(has_config).map(one).collect()
}

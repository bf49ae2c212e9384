//! Opening of the runtime, from the options and the configuration in effect.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use agent::{
    model::{Choices, Keys},
    profiles::Profiles,
    skills::Skills,
    slash,
};
use kit::{AnyTool, Fault, redact::Secrets};
use policy::Policy;
use runtime::{
    Commands, DEADLINE, Runtime, Settings,
    config::{
        AgentSection, ChatSection, Config, DOT_MCP, FILE, ModelSection, SubagentSection, TriggerSection,
        Trust, parse_path, parse_root,
    },
    plugins::{OWN, ToolFiles},
};

use super::Options;
use crate::{
    environment::Place, keys::KeyFiles, listing::Listed, nav_config, network_config::network_config,
};

/// A runtime, and notes for the person.
pub struct Opened {
    /// The runtime.
    pub runtime: Runtime,
    /// Ignored settings and tools with the reason, one line each.
    pub aside: Vec<String>,
    /// Configuration files that can't be read and are not used.
    pub broken: Broken,
    /// The notes of `aside` that are about tools.
    pub unseen: Vec<String>,
    /// Notes on nav's configuration file, one line each.
    pub nav: Vec<String>,
    /// The toolset that is shown.
    pub toolset: String,
    /// Limits of tool lists.
    pub listed: Listed,
    /// Configuration of agents and their models.
    pub agents: Agents,
    /// Whether the workspace's profiles and recipes may choose models.
    pub trusted: bool,
    /// The folders of profiles.
    pub profiles: Profiles,
    /// The folders of slash commands.
    pub slash: slash::Commands,
    /// The folders of skills.
    pub skills: Skills,
}

impl Opened {
    /// Returns a line for each name in a tool list of haft.toml that no tool has, once all tools are loaded. An MCP
    /// server that was not started yet may still add its tools.
    pub(crate) fn unknown_tools(&self) -> Vec<String> {
        let servers = !self.runtime.plugins().servers().list().is_empty();
        let of_agents = self.agents.subagent.tools.as_deref().unwrap_or_default();
        let [allowed, of_agents] = self.runtime.unknown_tools(of_agents);
        let placed = |place: &'static str, names: Vec<(String, String)>| {
            let told = names.into_iter().filter(move |(name, _)| !(servers && name.contains("__")));
            told.map(move |(name, near)| {
                format!("{place} in haft.toml names the unknown tool `{name}`{near}")
            })
        };
        placed("`tools`", allowed).chain(placed("`tools` of `[subagent]`", of_agents)).collect()
    }
}

/// Configuration files that can't be read.
#[derive(Debug, Default)]
pub struct Broken {
    /// The error of the person's own file. Until it is repaired, nothing may be changed and no approval is requested:
    /// the file may have required that.
    pub own: Option<Fault>,
    /// The error of the workspace's file. It is ignored, since everything that it could allow needs trust.
    pub workspace: Option<Fault>,
}

/// The configuration in effect.
struct InEffect {
    config: Config,
    /// Ignored settings, with the reason.
    aside: Vec<String>,
    broken: Broken,
}

/// Configuration of agents and their models.
#[derive(Debug, Clone, Default)]
pub struct Agents {
    /// Settings of agents.
    pub agent: AgentSection,
    /// Limits of sub-agents.
    pub subagent: SubagentSection,
    /// How the chat behaves at a terminal.
    pub chat: ChatSection,
    /// Models under names of their own.
    pub models: BTreeMap<String, ModelSection>,
    /// The keys that were entered with `haft login`.
    pub keys: Keys,
    /// The configured triggers.
    pub triggers: Vec<TriggerSection>,
}

impl Agents {
    /// Takes these settings out of the configuration, and adds the keys; also returns a line for each key that is not
    /// used.
    fn of(config: &mut Config, place: &Place) -> (Self, Vec<String>) {
        let (keys, unused) = KeyFiles::of(place).read();
        let agents = Self {
            agent: std::mem::take(&mut config.agent),
            subagent: std::mem::take(&mut config.subagent),
            chat: config.chat,
            models: std::mem::take(&mut config.models),
            keys,
            triggers: std::mem::take(&mut config.triggers),
        };
        (agents, unused)
    }

    /// Returns the choices of models, in this environment.
    pub fn choices<'a>(&'a self, variables: &'a [(String, String)]) -> Choices<'a> {
        Choices { models: &self.models, variables, keys: &self.keys, max_calls: self.agent.max_calls }
    }
}

impl Broken {
    /// Returns the error of either file, the person's own first.
    pub fn first(&self) -> Option<&Fault> {
        self.own.as_ref().or(self.workspace.as_ref())
    }

    /// Returns notes for the person about these files.
    fn notes(&self) -> Vec<String> {
        let own = self.own.iter().map(|fault| {
            format!(
                "{}\nUntil it is repaired tools may only read: no changes, no network, no approvals.",
                fault.what.trim_end()
            )
        });
        let workspace = self.workspace.iter().map(|fault| {
            format!("{}\nIt is ignored; `haft config --example` lists every key.", fault.what.trim_end())
        });
        own.chain(workspace).collect()
    }
}

impl Options {
    /// Makes the runtime.
    ///
    /// # Errors
    /// When the workspace, a root, a configuration or the toolset is not what it should be.
    pub fn open(&self, place: &Place) -> Result<Opened, Fault> {
        self.open_with(place, |_| Vec::new())
    }

    /// Does the same, with more tools for the toolset that is shown, such as those that need an agent.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub fn open_with(
        &self,
        place: &Place,
        more: impl FnOnce(&str) -> Vec<Arc<dyn AnyTool>>,
    ) -> Result<Opened, Fault> {
        let workspace = self.workspace()?;
        let InEffect { mut config, mut aside, broken } = self.in_effect(place, &workspace)?;
        let toolset = config.toolset.take().unwrap_or_else(|| tools::HAFT.to_owned());
        let tools = tools_of(&toolset, more)?;
        let nav = nav_config::apply(&mut config, &workspace, &toolset, place);
        aside.extend(nav.aside);
        let mut unseen: Vec<String> =
            aside.iter().filter(|it| it.starts_with("`tools_dirs`")).cloned().collect();
        let missing = missing_folders(&config, place);
        unseen.extend_from_slice(&missing);
        aside.extend(missing);
        let listed = Listed { tokens: config.list_tokens.take(), pinned: std::mem::take(&mut config.listed) };
        let (agents, unused) = Agents::of(&mut config, place);
        aside.extend(unused);
        let (tool_files, refused) = self.tool_files_of(place, &workspace, &mut config, &toolset);
        aside.extend(refused);
        let settings = settings(place, workspace, config, tool_files, &agents)?;
        let runtime = Runtime::open(settings, [tools, agent::provider_tools::all()].concat())?;
        let found = self.hooks_of(place, runtime.roots().workspace());
        aside.extend(found.aside);
        runtime.set_hooks(found.hooks);
        if let Some(line) = untrusted_tools(&runtime) {
            unseen.push(line.clone());
            aside.push(line);
        }
        let roots = runtime.roots().clone();
        let trusted = self.trusts_tools(place, roots.workspace());
        let profiles = Profiles::new(place.config.join("agents"), roots.clone(), trusted);
        let slash = slash::Commands::new(place.config.join("commands"), roots.clone(), trusted);
        let skills = Skills::new(place.config.join("skills"), roots, trusted);
        let nav = nav.all;
        Ok(Opened {
            runtime,
            aside,
            broken,
            unseen,
            nav,
            toolset,
            listed,
            agents,
            trusted,
            profiles,
            slash,
            skills,
        })
    }

    /// Merges the user's configuration, the workspace's and the command line. If the user's file can't be read, the narrowest
    /// settings replace it; a workspace's file that can't be read is ignored.
    fn in_effect(&self, place: &Place, workspace: &Path) -> Result<InEffect, Fault> {
        let mut broken = Broken::default();
        let own = Config::read(&place.config.join(FILE)).unwrap_or_else(|fault| {
            broken.own = Some(fault);
            Config::narrowest()
        });
        let trusted = self.trusts_config(place, workspace);
        let trusted = trusted && broken.own.is_none();
        let theirs = Config::read_workspace(self.config_folder(workspace)).unwrap_or_else(|fault| {
            broken.workspace = Some(fault);
            Config::default()
        });
        let (config, mut aside) = own.with_workspace(theirs, trusted);
        aside.splice(0..0, broken.notes());
        let typed = self.typed()?;
        let config = match broken.own {
            None => config.with_command_line(typed),
            Some(_) => over_narrowest(config, typed),
        };
        let config = match &self.narrowed_by {
            // What the other side's limits would allow does not count, like that of a workspace without trust.
            Some(limits) => config.with_workspace((**limits).clone(), false).0,
            None => config,
        };
        Ok(InEffect { config, aside, broken })
    }

    /// Reads the configuration in effect: the user's file, narrowed by the workspace's file, under the command line.
    ///
    /// # Errors
    /// When the workspace or a configuration is not what it should be.
    pub fn config(&self, place: &Place) -> Result<Config, Fault> {
        let workspace = self.workspace()?;
        let trusted = self.trusts_config(place, &workspace);
        let own = Config::read(&place.config.join(FILE))?;
        let (config, _) =
            own.with_workspace(Config::read_workspace(self.config_folder(&workspace))?, trusted);
        Ok(config.with_command_line(self.typed()?))
    }

    /// Reads the person's own file alone.
    ///
    /// # Errors
    /// When it is not what it should be.
    pub(crate) fn own_config(place: &Place) -> Result<Config, Fault> {
        Config::read(&place.config.join(FILE))
    }

    /// Returns the configuration of agents and their models, without a runtime; and a line for each key that is not
    /// used.
    ///
    /// # Errors
    /// When the workspace or a configuration is not what it should be.
    pub fn agents(&self, place: &Place) -> Result<(Agents, Vec<String>), Fault> {
        Ok(Agents::of(&mut self.config(place)?, place))
    }

    /// Returns the folders of tool files, as the person has configured them by now: see [`deciding`](Self::deciding).
    ///
    /// # Errors
    /// When the workspace or a configuration is not what it should be.
    pub fn tool_files(&self, place: &Place, toolset: &str) -> Result<ToolFiles, Fault> {
        let workspace = self.workspace()?;
        let mut config = self.in_effect(place, &workspace)?.config;
        Ok(self.tool_files_of(place, &workspace, &mut config, toolset).0)
    }

    /// Returns the configuration files that determine the folders of tool files.
    pub fn deciding(place: &Place, workspace: &Path) -> Vec<PathBuf> {
        let trust = Trust::in_state(&place.state).file().to_owned();
        vec![trust, place.config.join(FILE), workspace.join(FILE), workspace.join(DOT_MCP)]
    }

    /// Returns the sandbox parts that the person agreed to do without; none if their configuration can't be read.
    pub fn accept_weaker(&self, place: &Place) -> Vec<String> {
        let own = Config::read(&place.config.join(FILE)).and_then(|own| Ok((own, self.typed()?)));
        own.map(|(own, typed)| own.with_command_line(typed).accept_weaker).unwrap_or_default()
    }
}

/// Merges the command line over the narrowest settings, which it can't widen: the file that can't be read may deny what
/// the command line does not repeat. More folders to read don't change anything.
fn over_narrowest(config: Config, typed: Config) -> Config {
    let roots = typed.roots.clone();
    let mut config = config.with_workspace(typed, false).0;
    config.roots.extend(roots);
    config
}

/// Returns the tools of a toolset, with those that need an agent, and those that search for unlisted tools: beside the
/// tools of another ecosystem, a list may not have enough space for all.
fn tools_of(
    toolset: &str,
    more: impl FnOnce(&str) -> Vec<Arc<dyn AnyTool>>,
) -> Result<Vec<Arc<dyn AnyTool>>, Fault> {
    let Some(mut tools) = tools::toolset(toolset) else {
        let all: Vec<&str> = tools::toolsets().collect();
        return Err(Fault::bad_args(format!("unknown toolset `{toolset}`"))
            .next(format!("The toolsets are: {}.", all.join(", "))));
    };
    tools.extend(more(toolset));
    let is_there = |it: &Arc<dyn AnyTool>| tools.iter().any(|own| own.name() == it.name());
    let finders: Vec<_> = tools::finders().into_iter().filter(|it| !is_there(it)).collect();
    tools.extend(finders);
    Ok(tools)
}

/// Returns a line for each folder in `tools_dirs` that does not exist.
fn missing_folders(config: &Config, place: &Place) -> Vec<String> {
    let home = place.home();
    let folders = config.tools_dirs.iter().map(|it| parse_path(it, &home)).filter(|it| !it.exists());
    folders.map(|it| format!("`tools_dirs` names `{}`, which does not exist", it.display())).collect()
}

/// Returns a line about the workspace's tools that are ignored.
fn untrusted_tools(runtime: &Runtime) -> Option<String> {
    let left = runtime.plugins().aside();
    let (files, are) = if left == 1 { ("tool", "is") } else { ("tools", "are") };
    (left > 0).then(|| format!("{left} {files} in {OWN} {are} ignored until you run `haft trust`"))
}

/// Returns the settings of the runtime, from the rest of the configuration in effect.
fn settings(
    place: &Place,
    workspace: PathBuf,
    mut config: Config,
    tool_files: ToolFiles,
    agents: &Agents,
) -> Result<Settings, Fault> {
    let roots: Vec<_> = config.roots.iter().map(|root| parse_root(root, &workspace)).collect();
    if let Some(root) = roots.iter().find(|it| !it.path.exists()) {
        return Err(Fault::not_found(format!("the root `{}` does not exist", root.path.display())).next(
            "Create that folder, or remove it from `--root` or from `roots` in haft.toml: `haft config roots` shows the file.",
        ));
    }
    let network = network_config(place, &mut config)?;
    let policy = Policy {
        sandbox: config.sandbox.unwrap_or_default(),
        approve: config.approve.unwrap_or_default(),
        commands: Arc::new(config.rules(&workspace)?),
        hosts: config.net.allow.into(),
        web: config.net.web,
        workspace: workspace.as_path().into(),
        manual_first: config.manual_first.into(),
        ..Policy::default()
    };
    Ok(Settings {
        tool_files,
        workspace,
        roots,
        state: place.state.clone(),
        config: place.config.clone(),
        policy,
        other_names: config.hard_links.map(Into::into).unwrap_or_default(),
        allowed: config.tools,
        deadline: config.deadline_seconds.map_or(DEADLINE, Duration::from_secs),
        secrets: Secrets::collect(
            place.variables.iter().map(|(name, value)| (name, value)),
            network.hidden().into_iter().chain(agents.keys.values()),
        ),
        network,
        commands: Commands {
            variables: place.variables.clone(),
            env: config.env,
            accept_weaker: config.accept_weaker,
            limits: config.limits.of_commands(),
            kept_outputs: config.limits.outputs(),
            ask: config.undo.ask(),
            kept_for_undo: config.undo.kept(),
            overwrite: config.undo.overwrite.clone(),
            ..Commands::default()
        },
    })
}

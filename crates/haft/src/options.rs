//! Global options, and the runtime that they make together with the configuration.

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
use clap::{Args, ValueEnum};
use kit::{AnyTool, Fault, Kind, redact::Secrets};
use policy::{Approve, Policy, commands::Rules};
use runtime::{
    Commands, DEADLINE, Runtime, Settings,
    config::{
        AgentSection, ChatSection, Config, FILE, ModelSection, SubagentSection, Trust, parse_path,
        parse_root, servers_text,
    },
    mcp_client::{DOT_MCP, Server, configured, granted, imported},
    plugins::{Folder, OWN, Section, ToolFiles, Whose},
};
use sandbox::SandboxMode;

use crate::{
    environment::Place, keys::KeyFiles, listing::Listed, nav_config, network_config::network_config,
};

/// A session's name has at most so many characters.
const SESSION_NAME: usize = 100;

/// Options that every verb takes.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Global options")]
pub struct Options {
    /// Workspace: the folder that tools work in [default: the current folder]
    #[arg(long, global = true, value_name = "PATH")]
    pub dir: Option<PathBuf>,
    /// Additional folder that tools may reach, `PATH:ro` for read-only; repeatable
    #[arg(long = "root", global = true, value_name = "PATH[:ro]")]
    pub roots: Vec<String>,
    /// What tools may change [default: workspace]
    #[arg(long, global = true, value_enum)]
    pub sandbox: Option<SandboxArg>,
    /// What to do where a rule wants a person's approval [default: ask]
    #[arg(long, global = true, value_enum)]
    pub approve: Option<ApproveArg>,
    /// Session to continue: what it has read and changed is remembered
    #[arg(long, global = true, value_name = "NAME", value_parser = session_name)]
    pub session: Option<String>,
    /// Trust this workspace for this run: use its haft.toml and run its tools, pinned to their current content
    #[arg(long, global = true)]
    pub trust: bool,
    /// Run commands even without these sandbox parts: namespaces, landlock, signals, seccomp
    #[arg(long, global = true, value_name = "PART", value_delimiter = ',')]
    pub accept_weaker: Vec<String>,
    /// Tools to show, under the names of an ecosystem: haft, nav, hyperagents, navi, terrarium [default: haft]
    #[arg(long, global = true, value_name = "NAME")]
    pub toolset: Option<String>,
    /// MCP servers beside those of the configuration: those that an editor names for a session.
    #[arg(skip)]
    pub servers: Vec<Server>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum SandboxArg {
    /// Nothing
    ReadOnly,
    /// The workspace, and roots without `:ro`
    Workspace,
    /// The same for files; commands run outside the OS sandbox, each after approval
    Full,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ApproveArg {
    /// Ask, if there is somebody to ask; otherwise deny
    Ask,
    /// The same, and ask before each change of a file, showing its diff
    AskEdits,
    /// Allow without asking; addresses that are not public and unknown SSH hosts stay refused
    Auto,
    /// Deny without asking
    Never,
}

/// A runtime, and notes for the person.
pub struct Opened {
    /// The runtime.
    pub runtime: Runtime,
    /// What is ignored, and why: one line each.
    pub aside: Vec<String>,
    /// Configuration files that can't be read, and are not used.
    pub broken: Broken,
    /// Those of these lines that are about tools.
    pub unseen: Vec<String>,
    /// What there is to say of a configuration file of nav, one line each.
    pub nav: Vec<String>,
    /// The toolset that is shown.
    pub toolset: String,
    /// Limits of tool lists.
    pub listed: Listed,
    /// Configuration of agents and their models.
    pub agents: Agents,
    /// Where profiles are found.
    pub profiles: Profiles,
    /// Where slash commands are looked for.
    pub slash: slash::Commands,
    /// Where skills are looked for.
    pub skills: Skills,
}

impl Opened {
    /// A line for each name in a list of tools in haft.toml that no tool has, once all tools were loaded. One of an MCP
    /// server that was not started yet may still come.
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
    /// What is wrong with the person's own. Nothing may be changed and nobody is asked until it is repaired: it may have
    /// said so.
    pub own: Option<Fault>,
    /// What is wrong with the workspace's. It is ignored, as what it could have allowed needs trust.
    pub workspace: Option<Fault>,
}

/// The configuration in effect.
struct InEffect {
    config: Config,
    /// What is ignored, and why.
    aside: Vec<String>,
    broken: Broken,
}

/// Configuration of agents and their models.
#[derive(Debug, Clone, Default)]
pub struct Agents {
    /// How they work.
    pub agent: AgentSection,
    /// What those may do that an agent starts.
    pub subagent: SubagentSection,
    /// How the chat behaves at a terminal.
    pub chat: ChatSection,
    /// Models under names of their own.
    pub models: BTreeMap<String, ModelSection>,
    /// The keys that were entered with `haft login`.
    pub keys: Keys,
}

impl Agents {
    /// Takes it out of the configuration, and adds the keys; with a line for each key that is not used.
    fn of(config: &mut Config, place: &Place) -> (Self, Vec<String>) {
        let (keys, unused) = KeyFiles::of(place).read();
        let agents = Self {
            agent: std::mem::take(&mut config.agent),
            subagent: std::mem::take(&mut config.subagent),
            chat: config.chat,
            models: std::mem::take(&mut config.models),
            keys,
        };
        (agents, unused)
    }

    /// What a model is chosen from, in this environment.
    pub fn choices<'a>(&'a self, variables: &'a [(String, String)]) -> Choices<'a> {
        Choices { models: &self.models, variables, keys: &self.keys, max_calls: self.agent.max_calls }
    }
}

impl Broken {
    /// The fault of either file, the person's own first.
    pub fn first(&self) -> Option<&Fault> {
        self.own.as_ref().or(self.workspace.as_ref())
    }

    /// What a person is told of it.
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

    /// The same, with more tools for the toolset that is shown: those that need an agent, say.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub fn open_with(
        &self,
        place: &Place,
        more: impl FnOnce(&str) -> Vec<Arc<dyn AnyTool>>,
    ) -> Result<Opened, Fault> {
        let workspace = self.workspace()?;
        let trust = Trust::in_state(&place.state);
        let InEffect { mut config, mut aside, broken } = self.in_effect(place, &workspace);
        let toolset =
            self.toolset.clone().or_else(|| config.toolset.take()).unwrap_or_else(|| tools::HAFT.to_owned());
        let Some(mut tools) = tools::toolset(&toolset) else {
            let all: Vec<&str> = tools::toolsets().collect();
            return Err(Fault::bad_args(format!("unknown toolset `{toolset}`"))
                .next(format!("The toolsets are: {}.", all.join(", "))));
        };
        tools.extend(more(&toolset));
        let nav = nav_config::apply(&mut config, &workspace, &toolset, place);
        aside.extend(nav.aside);
        // What is beside the tools of another ecosystem may be more than a list has room for.
        let is_there = |it: &Arc<dyn AnyTool>| tools.iter().any(|own| own.spec().name == it.spec().name);
        let finders: Vec<_> = tools::finders().into_iter().filter(|it| !is_there(it)).collect();
        tools.extend(finders);
        let mut unseen: Vec<String> =
            aside.iter().filter(|it| it.starts_with("`tools_dirs`")).cloned().collect();
        let home = place.home();
        let named = config.tools_dirs.iter().map(|it| parse_path(it, &home));
        for folder in named.filter(|it| !it.exists()) {
            let line = format!("`tools_dirs` names `{}`, which does not exist", folder.display());
            unseen.push(line.clone());
            aside.push(line);
        }
        let listed = Listed { tokens: config.list_tokens.take(), pinned: std::mem::take(&mut config.listed) };
        let (agents, unused) = Agents::of(&mut config, place);
        aside.extend(unused);
        let (tool_files, refused) = self.tool_files_of(place, &workspace, &mut config, &toolset);
        aside.extend(refused);
        let mut roots: Vec<_> = config.roots.iter().map(|root| parse_root(root, &workspace)).collect();
        let here = std::env::current_dir().unwrap_or_default();
        roots.extend(self.roots.iter().map(|root| parse_root(root, &here)));
        if let Some(root) = roots.iter().find(|it| !it.path.exists()) {
            return Err(Fault::not_found(format!("the root `{}` does not exist", root.path.display())).next(
                "Create that folder, or remove it from `--root` or from `roots` in haft.toml: `haft config roots` shows the file.",
            ));
        }
        let network = network_config(place, &mut config)?;
        // What a person typed is meant beside their file, which may deny what the command line does not repeat.
        let typed = if broken.own.is_none() { self.clone() } else { Self::default() };
        let accept_weaker = [config.accept_weaker, typed.accept_weaker].concat();
        let policy = Policy {
            sandbox: typed.sandbox.map(SandboxMode::from).or(config.sandbox).unwrap_or_default(),
            approve: typed.approve.map(Approve::from).or(config.approve).unwrap_or_default(),
            commands: Arc::new(Rules::new(&config.commands, &workspace)?),
            hosts: config.net.allow.into(),
            web: config.net.web,
            workspace: workspace.as_path().into(),
            manual_first: config.manual_first.into(),
            ..Policy::default()
        };
        let settings = Settings {
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
                accept_weaker,
                limits: config.limits.of_commands(),
                kept_outputs: config.limits.outputs(),
                ..Commands::default()
            },
        };
        let runtime = Runtime::open(settings, [tools, agent::provider_tools::all()].concat())?;
        let left = runtime.plugins().aside();
        if left > 0 {
            let (files, are) = if left == 1 { ("tool", "is") } else { ("tools", "are") };
            let line = format!("{left} {files} in {OWN} {are} ignored until you run `haft trust`");
            unseen.push(line.clone());
            aside.push(line);
        }
        let trusted = self.trust || trust.holds_tools(runtime.roots().workspace());
        let own = place.config.join("agents");
        let roots = runtime.roots().clone();
        let profiles = Profiles::new(own, roots.clone(), trusted);
        let slash = slash::Commands::new(place.config.join("commands"), roots.clone(), trusted);
        let skills = Skills::new(place.config.join("skills"), roots, trusted);
        let nav = nav.all;
        Ok(Opened { runtime, aside, broken, unseen, nav, toolset, listed, agents, profiles, slash, skills })
    }

    /// Merges the user's configuration and the workspace's. If the user's file can't be read, the narrowest settings replace
    /// it; a workspace's file that can't be read is ignored.
    fn in_effect(&self, place: &Place, workspace: &Path) -> InEffect {
        let mut broken = Broken::default();
        let own = Config::read(&place.config.join(FILE)).unwrap_or_else(|fault| {
            broken.own = Some(fault);
            Config::narrowest()
        });
        let trusted = self.trust || Trust::in_state(&place.state).holds(workspace);
        let trusted = trusted && broken.own.is_none();
        let theirs = Config::read_workspace(workspace).unwrap_or_else(|fault| {
            broken.workspace = Some(fault);
            Config::default()
        });
        let (config, mut aside) = own.with_workspace(theirs, trusted);
        aside.splice(0..0, broken.notes());
        InEffect { config, aside, broken }
    }

    /// Reads the configuration in effect: the user's file, narrowed by the workspace's file.
    ///
    /// # Errors
    /// When the workspace or a configuration is not what it should be.
    pub fn config(&self, place: &Place) -> Result<Config, Fault> {
        let workspace = self.workspace()?;
        let trusted = self.trust || Trust::in_state(&place.state).holds(&workspace);
        let own = Config::read(&place.config.join(FILE))?;
        Ok(own.with_workspace(Config::read_workspace(&workspace)?, trusted).0)
    }

    /// What the configuration says about agents and their models, without a runtime; and a line for each key that is not
    /// used.
    ///
    /// # Errors
    /// When the workspace or a configuration is not what it should be.
    pub fn agents(&self, place: &Place) -> Result<(Agents, Vec<String>), Fault> {
        Ok(Agents::of(&mut self.config(place)?, place))
    }

    /// Where tools that are files are looked for, as the person has decided by now: see [`deciding`](Self::deciding).
    ///
    /// # Errors
    /// When the workspace or a configuration is not what it should be.
    pub fn tool_files(&self, place: &Place, toolset: &str) -> Result<ToolFiles, Fault> {
        let workspace = self.workspace()?;
        let mut config = self.in_effect(place, &workspace).config;
        Ok(self.tool_files_of(place, &workspace, &mut config, toolset).0)
    }

    /// The files by which a person decides that.
    pub fn deciding(place: &Place, workspace: &Path) -> Vec<PathBuf> {
        let trust = Trust::in_state(&place.state).file().to_owned();
        vec![trust, place.config.join(FILE), workspace.join(FILE), workspace.join(DOT_MCP)]
    }

    fn tool_files_of(
        &self,
        place: &Place,
        workspace: &Path,
        config: &mut Config,
        toolset: &str,
    ) -> (ToolFiles, Vec<String>) {
        let trusted = self.trust || Trust::in_state(&place.state).holds_tools(workspace);
        let whose = if trusted { Whose::Workspace } else { Whose::Untrusted };
        let home = place.home();
        let resolved = |sections: BTreeMap<String, Section>| {
            let path = |it: &mut PathBuf| *it = parse_path(it, &home);
            let of_tool = |(name, mut section): (String, Section)| {
                section.read.iter_mut().chain(&mut section.write).for_each(path);
                (name, section)
            };
            sections.into_iter().map(of_tool).collect()
        };
        let (servers, unused) = self.servers(place, workspace, config);
        let (folders, mut refused) = tool_folders(place, workspace, &config.tools_dirs, whose);
        refused.extend(unused);
        let files = ToolFiles {
            folders,
            servers,
            vouched_now: self.trust,
            sections: resolved(std::mem::take(&mut config.sections)),
            workspace_sections: resolved(std::mem::take(&mut config.workspace_sections)),
            // It is navi's word; with haft's own tools a profile's list is the whole list.
            enables: toolset != tools::HAFT,
        };
        (files, refused)
    }

    /// The MCP servers that haft may be a client of, a person's own first; and a line for each that it may not.
    fn servers(&self, place: &Place, workspace: &Path, config: &mut Config) -> (Vec<Server>, Vec<String>) {
        let mine = std::mem::take(&mut config.servers);
        let theirs = std::mem::take(&mut config.workspace_servers);
        let (whole, grants): (BTreeMap<_, _>, BTreeMap<_, _>) =
            mine.into_iter().partition(|(_, section)| section.is_whole());
        let file = place.config.join(FILE);
        let own = whole.iter().map(|(name, section)| configured(name, section, Whose::Person, &file));
        let of_workspace =
            theirs.iter().map(|(name, section)| configured(name, section, Whose::Workspace, Path::new(FILE)));
        let (mut servers, mut aside) = (Vec::new(), Vec::new());
        servers.extend(self.servers.iter().cloned());
        for server in own.chain(of_workspace) {
            match server {
                Ok(server) => servers.push(server),
                Err(why) => aside.push(why),
            }
        }
        match servers_text(workspace) {
            Ok(None) => {}
            Ok(Some(text)) if imported(&text) == (Vec::new(), Vec::new()) => {}
            Ok(Some(_)) if !self.trust && !Trust::in_state(&place.state).holds_servers(workspace) => {
                aside.push(format!("the servers in {DOT_MCP} are ignored until you run `haft trust`"));
            }
            Ok(Some(text)) => {
                let (named, wrong) = imported(&text);
                servers.extend(named);
                aside.extend(wrong);
            }
            Err(error) => aside.push(format!("{DOT_MCP} can't be read: {error}")),
        }
        let home = place.home();
        for server in &mut servers {
            if let Some(mine) = grants.get(&server.name).filter(|_| server.whose == Whose::Workspace) {
                *server = granted(server.clone(), mine);
            }
            let section = &mut server.section;
            for path in section.read.iter_mut().chain(&mut section.write).chain(&mut section.cwd) {
                *path = parse_path(path, &home);
            }
        }
        (servers, aside)
    }

    /// The parts of the sandbox that the person agreed to do without; none, where their configuration can't be read.
    pub fn accept_weaker(&self, place: &Place) -> Vec<String> {
        match Config::read(&place.config.join(FILE)) {
            Ok(own) => [own.accept_weaker, self.accept_weaker.clone()].concat(),
            Err(_) => Vec::new(),
        }
    }

    /// These options, but for the workspace and what is for one run only, as they are given on a command line.
    pub(crate) fn as_arguments(&self) -> Vec<String> {
        let pairs = [
            ("--sandbox", self.sandbox.as_ref().and_then(name_of)),
            ("--approve", self.approve.as_ref().and_then(name_of)),
            ("--session", self.session.clone()),
            ("--toolset", self.toolset.clone()),
        ];
        let mut arguments: Vec<String> =
            self.roots.iter().flat_map(|root| ["--root".to_owned(), from_anywhere(root)]).collect();
        arguments
            .extend(pairs.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?])).flatten());
        if !self.accept_weaker.is_empty() {
            arguments.extend(["--accept-weaker".to_owned(), self.accept_weaker.join(",")]);
        }
        arguments
    }

    /// The workspace's canonical path.
    ///
    /// # Errors
    /// When it is not there, or is not a folder.
    pub fn workspace(&self) -> Result<PathBuf, Fault> {
        let dir = self.dir.clone().unwrap_or_else(|| PathBuf::from("."));
        let canonical = dir.canonicalize().map_err(|error| {
            Fault::new(Kind::NotFound, format!("the workspace `{}` can't be opened: {error}", dir.display()))
                .next("Name a folder that exists with `--dir PATH`.".to_owned())
        })?;
        if !canonical.is_dir() {
            return Err(Fault::bad_args(format!("the workspace `{}` is not a folder", dir.display())));
        }
        Ok(canonical)
    }
}

/// A root as it is named by who works in another folder.
fn from_anywhere(root: &str) -> String {
    let (path, mode) = root.strip_suffix(":ro").map_or((root, ""), |path| (path, ":ro"));
    let whole = std::path::absolute(path).ok().and_then(|it| it.into_os_string().into_string().ok());
    // `~` is meant as it is.
    if path.starts_with('~') { root.to_owned() } else { whole.unwrap_or_else(|| path.to_owned()) + mode }
}

/// What a value is called on a command line.
fn name_of(value: &impl ValueEnum) -> Option<String> {
    Some(value.to_possible_value()?.get_name().to_owned())
}

/// Where tools that are files are looked for, in the order in which a name is looked for; and a line for each folder that
/// was named and is none of them.
pub(crate) fn tool_folders(
    place: &Place,
    workspace: &Path,
    more: &[PathBuf],
    whose: Whose,
) -> (Vec<Folder>, Vec<String>) {
    let home = place.home();
    let control = workspace.join(OWN).parent().map(Path::to_owned).unwrap_or_default();
    let mut folders = vec![Folder { path: place.config.join("tools"), whose: Whose::Person }];
    let mut refused = Vec::new();
    let own = workspace.join(OWN);
    for path in more.iter().map(|path| parse_path(path, &home)).chain([own]) {
        let real = path.canonicalize();
        let names = || [Some(&path), real.as_ref().ok()].into_iter().flatten();
        // What lies in the workspace came with it, whatever name leads there.
        let inside = names().any(|it| it.starts_with(workspace));
        if inside && !names().all(|it| it.starts_with(&control)) && path != workspace.join(OWN) {
            refused.push(format!(
                "`tools_dirs` names {}, which any command in the workspace may change, so haft loads no tools from it: \
                 put them below .haft, which commands can't change",
                path.strip_prefix(workspace).unwrap_or(&path).display()
            ));
            continue;
        }
        let folder = Folder { path, whose: if inside { whose } else { Whose::Person } };
        if !folders.iter().any(|it| it.path == folder.path) {
            folders.push(folder);
        }
    }
    (folders, refused)
}

/// A session's name stands in lists, in lines, and in a file's name.
fn session_name(name: &str) -> Result<String, String> {
    let letters = name.chars().count();
    if name.trim().is_empty() {
        return Err("a session's name can't be empty".to_owned());
    }
    if letters > SESSION_NAME {
        return Err(format!("it has {letters} characters; the maximum is {SESSION_NAME}"));
    }
    match name.chars().find(|it| *it == '/' || it.is_control()) {
        Some(letter) => Err(format!("a session's name can't have {letter:?}")),
        None => Ok(name.to_owned()),
    }
}

impl From<SandboxArg> for SandboxMode {
    fn from(arg: SandboxArg) -> Self {
        match arg {
            SandboxArg::ReadOnly => Self::ReadOnly,
            SandboxArg::Workspace => Self::Workspace,
            SandboxArg::Full => Self::Full,
        }
    }
}

impl From<ApproveArg> for Approve {
    fn from(arg: ApproveArg) -> Self {
        match arg {
            ApproveArg::Ask => Self::Ask,
            ApproveArg::AskEdits => Self::AskEdits,
            ApproveArg::Auto => Self::Auto,
            ApproveArg::Never => Self::Never,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::session_name;

    #[test]
    fn a_session_s_name_is_one_short_word_of_a_line() {
        let long = "x".repeat(101);
        for name in ["", " ", "../x", "a/b", "a\u{1b}[0m", "a\nb", long.as_str()] {
            assert!(session_name(name).is_err(), "{name:?}");
        }
        for name in ["a", "fix the test", "s_0tt6s70jqxmy", "über"] {
            assert_eq!(session_name(name).as_deref(), Ok(name));
        }
    }
}

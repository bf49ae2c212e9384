//! Configuration: the person's haft.toml, narrowed by the workspace's.
//!
//! Two files: the user's own, which is believed, and the workspace's `haft.toml`, which
//! came with whatever was cloned. The workspace's may narrow what is allowed; where it
//! would widen it, it counts only once the person has trusted this very text.

mod agent;
pub mod keys;
mod limits;
mod provenance;
pub(crate) mod tool_list;
mod trust;

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read},
    path::{Component, Path, PathBuf},
};

use kit::{
    Fault, Kind, Programs, Search, Ssh,
    effect::is_host,
    files::{OtherNames, RootSpec},
};
use policy::{Approve, Web, commands::Rules};
use rustix::{
    fd::AsFd,
    fs::{CWD, Mode, OFlags},
    io::Errno,
};
use sandbox::SandboxMode;
use serde::{Deserialize, Serialize};

pub use agent::{
    AgentSection, CALLS, ChatSection, ModelSection, Notify, PriceSection, STEPS, SUBAGENT_SECONDS,
    SUBAGENT_STEPS, SubagentSection, Theme, Visible, WAIT_SECONDS, WAKES,
};
pub use limits::LimitsSection;
pub use provenance::{Layer, Origin, Origins, Source, Unused, Why, origins};
pub use trust::Trust;

use crate::{
    mcp_client::{DOT_MCP, ServerSection},
    plugins::Section,
    vault::SecretSection,
};
pub use policy::commands::{CommandRule, Commands, Then};

/// A longer configuration is refused.
const LARGEST: u64 = 64 * 1024;

/// The longest deadline there is, in seconds.
const LONGEST: u64 = 3600;

/// What one file says. A key it doesn't know is an error: a typo must not pass as a default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The only tools there are; all, if this is not given.
    #[serde(default, deserialize_with = "tool_list::names")]
    pub tools: Option<Vec<String>>,
    /// Tools that are always listed, whatever they cost.
    #[serde(default)]
    pub listed: Vec<String>,
    /// What a list of tools may cost, in tokens; 0 for no bound.
    pub list_tokens: Option<usize>,
    /// The toolset to show.
    pub toolset: Option<String>,
    /// More folders that may be reached, `PATH` or `PATH:ro`.
    #[serde(default)]
    pub roots: Vec<String>,
    /// What may be changed at all.
    pub sandbox: Option<SandboxMode>,
    /// What to do where a person has to be asked.
    pub approve: Option<Approve>,
    /// Whether files are read that have names outside the roots.
    pub hard_links: Option<HardLinks>,
    /// After how many seconds a call is stopped.
    pub deadline_seconds: Option<u64>,
    /// Variables of haft's environment that commands get too.
    #[serde(default)]
    pub env: Vec<String>,
    /// Parts of the sandbox that commands may do without, where the machine does not have them.
    #[serde(default)]
    pub accept_weaker: Vec<String>,
    /// Which commands are allowed, asked about, denied.
    #[serde(default)]
    pub commands: Commands,
    /// The same in a longer form, each with examples.
    #[serde(default, skip_serializing)]
    command: Vec<CommandRule>,
    /// Which hosts may be spoken to.
    #[serde(default)]
    pub net: Net,
    /// The secrets that have names.
    #[serde(default, rename = "secret")]
    pub secrets: BTreeMap<String, SecretSection>,
    /// How the web is searched.
    #[serde(default)]
    pub search: Search,
    /// How other machines are reached.
    #[serde(default)]
    pub ssh: Ssh,
    /// Where programs are that tools start.
    #[serde(default)]
    pub programs: Programs,
    /// How agents work.
    #[serde(default)]
    pub agent: AgentSection,
    /// How `haft chat` behaves at a terminal.
    #[serde(default)]
    pub chat: ChatSection,
    /// What agents may do that an agent starts.
    #[serde(default)]
    pub subagent: SubagentSection,
    /// How much of the machine commands may use.
    #[serde(default)]
    pub limits: LimitsSection,
    /// Models under names of their own.
    #[serde(default)]
    pub models: BTreeMap<String, ModelSection>,
    /// Tools that are called only once their manual was read in the same session.
    #[serde(default)]
    pub manual_first: Vec<String>,
    /// More folders of tools, absolute or below `~`.
    #[serde(default)]
    pub tools_dirs: Vec<PathBuf>,
    /// What tools that are files may do, by their names.
    #[serde(default, rename = "tool")]
    pub sections: BTreeMap<String, Section>,
    /// The same by the workspace's own file, for the workspace's own tools.
    #[serde(skip_deserializing)]
    pub workspace_sections: BTreeMap<String, Section>,
    /// The MCP servers that haft may be a client of, by their names.
    #[serde(default, rename = "mcp")]
    pub servers: BTreeMap<String, ServerSection>,
    /// The same by the workspace's own file.
    #[serde(skip_deserializing)]
    pub workspace_servers: BTreeMap<String, ServerSection>,
}

/// What is said about hosts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Net {
    /// Hosts that may be spoken to: `host`, `host:port`, `*.example.org`, `*`.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Whether the open web may be looked at.
    pub web: Option<Web>,
    /// The proxy that requests go through, `http://host:port`.
    pub proxy: Option<String>,
}

/// Whether files are read that have names outside the roots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HardLinks {
    /// They are not.
    Refuse,
    /// They are.
    Allow,
}

impl From<HardLinks> for OtherNames {
    fn from(links: HardLinks) -> Self {
        match links {
            HardLinks::Refuse => Self::Refuse,
            HardLinks::Allow => Self::Allow,
        }
    }
}

/// A configuration file's name, in the workspace and in the user's folder alike.
pub const FILE: &str = "haft.toml";

impl Config {
    /// What the user's own file says; nothing, if there is none.
    ///
    /// # Errors
    /// When it can't be read, or is no such configuration; the line is named.
    pub fn read(path: &Path) -> Result<Self, Fault> {
        Self::parse(path, bounded(path, OFlags::empty()))
    }

    /// The narrowest settings: nothing is changed, nobody is asked, and nothing outside is contacted. They hold in place
    /// of a person's file that can't be read, which may have said so.
    pub fn narrowest() -> Self {
        Self {
            sandbox: Some(SandboxMode::ReadOnly),
            approve: Some(Approve::Never),
            net: Net { web: Some(Web::None), ..Net::default() },
            ..Self::default()
        }
    }

    /// What the workspace's file says. A link in its place is not followed.
    ///
    /// # Errors
    /// Those of [`Self::read`].
    pub fn read_workspace(workspace: &Path) -> Result<Self, Fault> {
        let path = workspace.join(FILE);
        Self::parse(&path, bounded(&path, OFlags::NOFOLLOW))
    }

    fn parse(path: &Path, read: io::Result<Vec<u8>>) -> Result<Self, Fault> {
        match text(path, read)? {
            Some(bytes) => Self::of_bytes(path, &bytes),
            None => Ok(Self::default()),
        }
    }

    fn of_bytes(path: &Path, bytes: &[u8]) -> Result<Self, Fault> {
        toml::from_slice::<Self>(bytes).map_err(|error| wrong(path, error))?.settled(path)
    }

    /// Bounds numbers, resolves paths against the file's folder, and checks hosts and rules.
    fn settled(mut self, path: &Path) -> Result<Self, Fault> {
        self.deadline_seconds = self.deadline_seconds.map(|it| it.clamp(1, LONGEST));
        self.limits = self.limits.settled();
        self.commands.rules = std::mem::take(&mut self.command);
        let base = path.parent().unwrap_or(Path::new(""));
        self.tools_dirs.iter_mut().for_each(|it| meant_from(base, it));
        for section in self.sections.values_mut() {
            section.read.iter_mut().chain(&mut section.write).for_each(|it| meant_from(base, it));
            section.timeout_seconds = section.timeout_seconds.map(|it| it.clamp(1, LONGEST));
        }
        for server in self.servers.values_mut() {
            server.read.iter_mut().chain(&mut server.write).for_each(|it| meant_from(base, it));
            server.timeout_seconds = server.timeout_seconds.map(|it| it.clamp(1, LONGEST));
            server.start_seconds = server.start_seconds.map(|it| it.clamp(1, LONGEST));
        }
        self.check().map_err(|fault| Fault {
            what: format!("`{}` is not a valid configuration: {}", path.display(), fault.what),
            ..fault
        })?;
        Ok(self)
    }

    /// Tries the rules and their examples.
    fn check(&self) -> Result<(), Fault> {
        Rules::new(&self.commands, Path::new(""))?;
        let of_net = self.net.allow.iter().map(|host| (host, "[net]".to_owned()));
        let of_tools = self
            .sections
            .iter()
            .flat_map(|(name, section)| section.net.iter().map(move |host| (host, format!("[tool.{name}]"))));
        let of_servers = self
            .servers
            .iter()
            .flat_map(|(name, section)| section.net.iter().map(move |host| (host, format!("[mcp.{name}]"))));
        let of_secrets = self.secrets.iter().flat_map(|(name, section)| {
            section.hosts.iter().map(move |host| (host, format!("[secret.{name}]")))
        });
        match of_net.chain(of_tools).chain(of_servers).chain(of_secrets).find(|(host, _)| !is_host(host)) {
            None => Ok(()),
            Some((host, place)) => Err(Fault::bad_args(format!("`{host}` in `{place}` is not a host"))
                .next("A host is `host`, `host:port`, `*.example.org` or `*`.".to_owned())),
        }
    }

    /// Merges the user's file with the workspace's: narrowed by it, and widened only if that is trusted. Also returns what
    /// is ignored, one line each.
    #[must_use]
    pub fn with_workspace(self, workspace: Self, trusted: bool) -> (Self, Vec<String>) {
        keys::merge(self, workspace, trusted)
    }
}

/// The bytes of a configuration file; nothing, if there is none.
fn text(path: &Path, read: io::Result<Vec<u8>>) -> Result<Option<Vec<u8>>, Fault> {
    match read {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Fault::new(Kind::Unavailable, format!("can't read `{}`: {error}", path.display()))),
    }
}

fn wrong(path: &Path, error: impl std::fmt::Display) -> Fault {
    Fault::bad_args(format!("`{}` is not a valid configuration: {error}", path.display()))
        .next("`haft config --example` lists every key.")
}

/// A path of a file is meant from the folder of that file, but for one that begins with `~`.
fn meant_from(base: &Path, path: &mut PathBuf) {
    if !path.starts_with("~") {
        *path = base.join(&*path);
    }
}

/// A path with the home folder in place of a leading `~`, without `.` and `..`.
pub fn parse_path(path: &Path, home: &Path) -> PathBuf {
    let path = path.strip_prefix("~").map_or_else(|_| path.to_owned(), |below| home.join(below));
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

/// A root as it is written: `PATH`, or `PATH:ro` for one that nothing may change.
/// Relative ones are meant from `base`.
pub fn parse_root(text: &str, base: &Path) -> RootSpec {
    let (path, read_only) = match text.strip_suffix(":ro") {
        Some(path) => (path, true),
        None => (text.strip_suffix(":rw").unwrap_or(text), false),
    };
    RootSpec { path: base.join(path), read_only }
}

/// The workspace's configuration as it is written.
///
/// # Errors
/// When there is none, or it is not a short regular file.
pub fn workspace_text(workspace: &Path) -> io::Result<String> {
    let bytes = bounded(&workspace.join(FILE), OFlags::NOFOLLOW)?;
    String::from_utf8(bytes).map_err(io::Error::other)
}

/// The workspace's list of MCP servers, `.mcp.json`, as it is written; none, if there is none.
///
/// # Errors
/// When it is not a short regular file, or no text.
pub fn servers_text(workspace: &Path) -> io::Result<Option<String>> {
    match bounded(&workspace.join(DOT_MCP), OFlags::NOFOLLOW) {
        Ok(bytes) => String::from_utf8(bytes).map(Some).map_err(io::Error::other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The configuration file of another program in a folder of the workspace, as it is written; none, if there is none. A link
/// in place of the file or of the folder is not followed.
///
/// # Errors
/// When it is not a short regular file, or no text.
pub fn text_of_another(workspace: &Path, folder: &str, file: &str) -> io::Result<Option<String>> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    let bytes = match rustix::fs::open(workspace.join(folder), flags, Mode::empty()) {
        Ok(folder) => bounded_in(&folder, Path::new(file), OFlags::NOFOLLOW),
        Err(Errno::NOTDIR | Errno::LOOP) => Err(io::Error::other(format!("{folder} is not a folder"))),
        Err(errno) => Err(errno.into()),
    };
    match bytes {
        Ok(bytes) => String::from_utf8(bytes).map(Some).map_err(io::Error::other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The bytes of a configuration file: a regular one, and a short one. A pipe or a device
/// in its place is refused at once.
fn bounded(path: &Path, how: OFlags) -> io::Result<Vec<u8>> {
    bounded_in(CWD, path, how)
}

fn bounded_in(folder: impl AsFd, path: &Path, how: OFlags) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY | how;
    let file = match rustix::fs::openat(folder, path, flags, Mode::empty()) {
        Ok(file) => fs::File::from(file),
        Err(Errno::LOOP) => return Err(io::Error::other("it is a link, which is not followed")),
        Err(errno) => return Err(errno.into()),
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::Error::other(format!("it has more than {LARGEST} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::mcp_client::{OauthSection, Variables};

    fn parse(text: &str) -> Config {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_workspace_narrows_at_once_and_widens_only_when_trusted() {
        let widening =
            parse("roots = [\"/\"]\nsandbox = \"full\"\napprove = \"auto\"\nhard_links = \"allow\"");
        let (config, aside) = Config::default().with_workspace(widening.clone(), false);
        assert_eq!(config, Config::default());
        assert_eq!(aside.len(), 4, "{aside:?}");
        let (config, aside) = Config::default().with_workspace(widening.clone(), true);
        assert_eq!((config, aside.len()), (widening, 0));

        let narrowing = parse("tools = [\"read\"]\nsandbox = \"read-only\"\napprove = \"never\"");
        let (config, aside) = Config::default().with_workspace(narrowing.clone(), false);
        assert_eq!((config, aside.len()), (narrowing, 0));
    }

    #[test]
    fn a_workspace_cannot_bring_back_a_tool_that_the_user_left_out() {
        let mine = parse("tools = [\"read\", \"grep\"]\napprove = \"never\"");
        let (config, _) =
            mine.with_workspace(parse("tools = [\"read\", \"edit\"]\napprove = \"ask\""), false);
        assert_eq!(config.tools.unwrap(), ["read"]);
        assert_eq!(config.approve, Some(Approve::Never));
    }

    #[test]
    fn the_word_all_stands_for_every_list_of_tools() {
        let config = parse(
            "tools = \"all\"\n[subagent]\ntools = \"all\"\n[mcp.a]\ncommand = \"a\"\ntools = \"all\"\n\
             read_only = \"all\"\nidempotent = \"all\"",
        );
        assert_eq!((config.tools.clone(), config.subagent.tools.clone()), (None, None));
        let server = config.servers.get("a").unwrap();
        assert_eq!((server.tools.clone(), server.read_only.as_slice()), (None, &["*".to_owned()][..]));
        assert_eq!(server.idempotent, ["*"]);
        // It takes nothing back of what the other file says.
        let some = parse("tools = [\"read\"]");
        assert_eq!(some.clone().with_workspace(config.clone(), true).0.tools.unwrap(), ["read"]);
        assert_eq!(config.with_workspace(some, true).0.tools.unwrap(), ["read"]);
        for text in ["tools = \"read\"", "tools = 3", "tools = [3]"] {
            let error = toml::from_str::<Config>(text).unwrap_err().to_string();
            assert!(error.contains("line 1") && !error.contains("did not match"), "{error}");
        }
        let error = toml::from_str::<Config>("tools = \"read\"").unwrap_err().to_string();
        assert!(error.contains("\"read\", expected a list of names of tools, or \"all\""), "{error}");
    }

    #[test]
    fn a_workspace_may_only_have_more_asked_and_nothing_let_through() {
        for (mine, theirs, holds) in [
            ("ask", "ask-edits", "ask-edits"),
            ("ask", "never", "never"),
            ("ask", "auto", "ask"),
            ("auto", "ask-edits", "ask-edits"),
            ("ask-edits", "ask", "ask-edits"),
            ("ask-edits", "auto", "ask-edits"),
            // Who is never asked is not asked about edits either.
            ("ask-edits", "never", "ask-edits"),
            ("never", "ask-edits", "never"),
        ] {
            let approve = |it: &str| parse(&format!("approve = \"{it}\""));
            let (config, aside) = approve(mine).with_workspace(approve(theirs), false);
            assert_eq!(config.approve.map(Approve::name), Some(holds), "{mine} {theirs}");
            assert_eq!(aside.is_empty(), holds == theirs, "{aside:?}");
            let (config, _) = approve(mine).with_workspace(approve(theirs), true);
            assert_eq!(config.approve.map(Approve::name), Some(theirs), "trusted");
        }
    }

    #[test]
    fn a_typo_is_an_error_with_its_line() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(FILE), "tools = []\ntoolz = []\n").unwrap();
        let fault = Config::read(&dir.path().join(FILE)).unwrap_err();
        assert!(fault.what.contains("toolz") && fault.what.contains("line 2"), "{}", fault.what);
    }

    /// The example, with its lines that are settings and no longer comments.
    fn example() -> Config {
        let text = include_str!("../../../haft.example.toml");
        let is_setting = |line: &str| {
            let key = line.split_once(" = ").map_or("", |(key, _)| key);
            line.starts_with('[')
                || !key.is_empty() && key.bytes().all(|it| it.is_ascii_lowercase() || it == b'_')
        };
        let settings = text.lines().filter_map(|it| it.strip_prefix("# ")).filter(|it| is_setting(it));
        parse(&settings.collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn the_example_has_every_key_of_agents_and_models() {
        let config = example();
        assert!(!config.manual_first.is_empty() && config.tools.is_some() && !config.sections.is_empty());
        let AgentSection { model, profile, max_steps, max_calls, visible, wait_seconds, wakes } =
            config.agent;
        assert!(model.is_some() && profile.is_some() && max_steps.is_some() && visible.is_some());
        assert!(max_calls.is_some() && wait_seconds.is_some() && wakes.is_some());
        let ChatSection { notify, theme } = config.chat;
        assert!(notify.is_some() && theme.is_some());
        let SubagentSection { tools, nested, max_steps, seconds, tokens } = config.subagent;
        assert!(tools.is_some() && nested.is_some() && max_steps.is_some());
        assert!(seconds.is_some() && tokens.is_some());
        let ModelSection {
            api,
            url,
            model,
            key_env,
            headers,
            window,
            longest,
            dialect,
            images,
            effort,
            own_tools,
            price,
        } = config.models.get("local").unwrap().clone();
        assert!(api.is_some() && url.is_some() && model.is_some() && key_env.is_some());
        assert!(window.is_some() && longest.is_some() && dialect.is_some() && images.is_some());
        assert!(effort.is_some() && price.is_some() && !headers.is_empty() && !own_tools.is_empty());
    }

    #[test]
    fn the_example_has_every_key_of_servers() {
        let config = example();
        let ServerSection {
            command,
            args,
            env,
            cwd,
            url: _,
            headers: _,
            bearer_env: _,
            oauth: _,
            sampling: _,
            tools,
            disabled,
            timeout_seconds,
            start_seconds,
            net,
            read,
            write,
            read_only,
            idempotent,
        } = config.servers.get("files").unwrap().clone();
        assert!(command.is_some() && !args.is_empty() && env != Variables::default() && cwd.is_some());
        assert!(tools.is_some() && disabled && timeout_seconds.is_some() && start_seconds.is_some());
        assert!(!net.is_empty() && !read.is_empty() && !write.is_empty());
        assert!(!read_only.is_empty() && !idempotent.is_empty());
        let ServerSection { url, headers, bearer_env, oauth, sampling, .. } =
            config.servers.get("tracker").unwrap().clone();
        assert!(url.is_some() && !headers.is_empty() && bearer_env.is_some() && sampling);
        let OauthSection { client_id, client_secret_env, client_metadata_url, scopes, redirect_port } = oauth;
        assert!(client_id.is_some() && client_secret_env.is_some() && client_metadata_url.is_some());
        assert!(!scopes.is_empty() && redirect_port.is_some());
    }

    #[test]
    fn trust_ends_when_the_configuration_changes() {
        let (state, workspace) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let trust = Trust::in_state(state.path());
        fs::write(workspace.path().join(FILE), "tools = []").unwrap();
        assert!(!trust.holds(workspace.path()));
        trust.add(workspace.path()).unwrap();
        assert!(trust.holds(workspace.path()));
        fs::write(workspace.path().join(FILE), "roots = [\"/\"]").unwrap();
        assert!(!trust.holds(workspace.path()));
    }

    #[test]
    fn a_root_may_be_read_only() {
        let root = |text| parse_root(text, Path::new("/ws"));
        assert_eq!(root("../lib:ro"), RootSpec { path: "/ws/../lib".into(), read_only: true });
        assert_eq!(root("/data"), RootSpec { path: "/data".into(), read_only: false });
    }

    #[test]
    fn a_workspace_only_shortens_the_deadline() {
        let seconds = |mine: &str, workspace: &str| {
            parse(mine).with_workspace(parse(workspace), true).0.deadline_seconds
        };
        assert_eq!(seconds("", "deadline_seconds = 18446744073709551615"), Some(120));
        assert_eq!(seconds("", "deadline_seconds = 30"), Some(30));
        assert_eq!(seconds("deadline_seconds = 600", "deadline_seconds = 300"), Some(300));
        assert_eq!(seconds("deadline_seconds = 60", "deadline_seconds = 300"), Some(60));
        assert_eq!(seconds("", "deadline_seconds = 0"), Some(1));
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(FILE), "deadline_seconds = 9223372036854775807").unwrap();
        assert_eq!(Config::read(&dir.path().join(FILE)).unwrap().deadline_seconds, Some(3600));
    }

    #[test]
    fn a_workspace_adds_what_asks_and_denies_and_allows_only_when_trusted() {
        let read = |text: &str| {
            let dir = tempfile::tempdir().unwrap();
            fs::write(dir.path().join(FILE), text).unwrap();
            Config::read(&dir.path().join(FILE)).unwrap()
        };
        let mine = read("[commands]\nallow = [\"ls\"]\ndeny = [\"sudo\"]\nonly = [\"git\", \"cargo test\"]");
        let theirs = "[commands]\nallow = [\"curl\"]\nask = [\"git push\"]\ndeny = [\"rm\"]\n\
            only = [\"git status\", \"cargo\", \"curl\"]\n[net]\nallow = [\"evil.org\"]\n\
            [[command]]\nprefix = [\"a\"]\nthen = \"allow\"\n[[command]]\nprefix = [\"b\"]\nthen = \"deny\"";
        let (config, aside) = mine.clone().with_workspace(read(theirs), false);
        assert_eq!(aside.len(), 3, "{aside:?}");
        assert!(config.net.allow.is_empty());
        let Commands { allow, ask, deny, only, rules } = config.commands;
        assert_eq!(
            (allow, ask, deny),
            (vec!["ls".to_owned()], vec!["git push".to_owned()], vec!["sudo".to_owned(), "rm".to_owned()])
        );
        assert_eq!(only.unwrap(), ["git status", "cargo test"]);
        assert_eq!(rules.iter().map(|it| it.then).collect::<Vec<_>>(), [Then::Deny]);
        let (config, aside) = mine.with_workspace(read(theirs), true);
        assert!(aside.is_empty());
        assert_eq!(
            (config.commands.allow, config.net.allow),
            (vec!["ls".to_owned(), "curl".to_owned()], vec!["evil.org".to_owned()])
        );
    }

    #[test]
    fn a_workspace_only_lowers_what_agents_may_take() {
        let of = |mine: &str, workspace: &str| parse(mine).with_workspace(parse(workspace), false).0;
        let high = "[agent]\nmax_steps = 1000\n[subagent]\nmax_steps = 1000\nseconds = 90000\ntokens = 5";
        let config = of("", high);
        assert_eq!(config.agent.max_steps, Some(STEPS));
        let below = SubagentSection {
            max_steps: Some(SUBAGENT_STEPS),
            seconds: Some(SUBAGENT_SECONDS),
            tokens: Some(5),
            ..SubagentSection::default()
        };
        assert_eq!(config.subagent, below);
        assert_eq!(of("[agent]\nmax_steps = 2000", high).agent.max_steps, Some(1000));
        assert_eq!(of("[agent]\nmax_steps = 2000", "").agent.max_steps, Some(2000));
        let calls = |mine: &str, theirs: &str| of(mine, theirs).agent.max_calls;
        assert_eq!(calls("", "[agent]\nmax_calls = 0"), Some(CALLS));
        assert_eq!(calls("[agent]\nmax_calls = 0", "[agent]\nmax_calls = 1"), Some(1));
        assert_eq!(calls("[agent]\nmax_calls = 0", ""), Some(usize::MAX));
    }

    #[test]
    fn a_rule_whose_example_is_wrong_is_refused_when_it_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            fs::write(dir.path().join(FILE), text).unwrap();
            Config::read(&dir.path().join(FILE)).map_err(|fault| fault.what)
        };
        let rule = "[[command]]\nprefix = [\"git\", \"push\"]\nthen = \"ask\"\n";
        read(&format!(
            "{rule}match = [\"git push origin\", \"cd x && git -C y push\"]\nnot_match = [\"git pull\"]"
        ))
        .unwrap();
        for (text, why) in [
            (format!("{rule}match = [\"git pull\"]"), "does not match its example `git pull`"),
            (format!("{rule}not_match = [\"ls; git push\"]"), "matches its example `ls; git push`"),
            (format!("{rule}match = [\"git 'push\"]"), "the example `git 'push`"),
            ("[[command]]\nprefix = []\nthen = \"ask\"".to_owned(), "empty `prefix`"),
            ("[[command]]\nprefix = [\"a\"]\nthen = \"maybe\"".to_owned(), "maybe"),
            ("[commands]\nallow = [\"*\"]".to_owned(), "would allow every command"),
            ("[commands]\nallow = [\"git 'x y'\"]".to_owned(), "is not the first words"),
            ("[commands]\nalow = []".to_owned(), "alow"),
            ("[net]\nallow = [\"http://x\"]".to_owned(), "is not a host"),
        ] {
            let what = read(&text).unwrap_err();
            assert!(what.contains(why), "{what}");
        }
    }

    #[test]
    fn what_is_no_short_regular_file_is_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(FILE);
        let refused = |why: &str| {
            let fault = Config::read_workspace(dir.path()).unwrap_err();
            assert!(fault.what.contains(why), "{}", fault.what);
            let _ = trust::mark(dir.path());
            fs::remove_file(&file).unwrap();
        };
        std::os::unix::fs::symlink("/dev/zero", &file).unwrap();
        assert!(Config::read(&file).unwrap_err().what.contains("not a regular file"));
        refused("a link, which is not followed");
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &file, fifo, Mode::RUSR, 0).unwrap();
        refused("not a regular file");
        fs::write(&file, "#".repeat(64 * 1024 + 1)).unwrap();
        refused("more than 65536 bytes");
        assert_eq!(Config::read_workspace(dir.path()).unwrap(), Config::default());
    }
}

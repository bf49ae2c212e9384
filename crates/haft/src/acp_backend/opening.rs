//! Opening of a session: checks the folder, roots and MCP servers that the editor names, and restores saved settings.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use clap::ValueEnum as _;
use kit::{Fault, Kind};
use runtime::{
    config::{Config, FILE, ServerSection, Variables},
    mcp_client::{Server, configured, granted},
    plugins::Whose,
};
use serde::{Deserialize, Serialize};
use serve::acp::{
    error_of,
    v1::{Error, McpServer, SessionId},
};
use store::Store;

use super::{Asked, Backend};
use crate::{
    Options, SandboxArg,
    workspace_check::{WideFolders, shown},
};

/// The key under which a session keeps the settings of an editor.
const KEY: &str = "acp";

/// The checked parameters of a session.
#[derive(Debug, Clone)]
pub(super) struct Opening {
    /// The workspace, canonical.
    pub(super) cwd: PathBuf,
    /// Further roots.
    pub(super) dirs: Vec<PathBuf>,
    pub(super) servers: Vec<Server>,
    /// Servers that are not used, one line each.
    pub(super) notes: Vec<String>,
    pub(super) sandbox: Option<SandboxArg>,
}

/// Settings that an editor made in a session, saved for the next time that it is opened.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SavedSettings {
    pub(super) dirs: Vec<PathBuf>,
    pub(super) sandbox: Option<String>,
    pub(super) effort: Option<String>,
}

impl SavedSettings {
    /// Reads the saved settings of this session. Blocks.
    pub(super) fn of(store: &Store, session: &SessionId) -> Result<Self, Fault> {
        let kept = store.sessions().get(&session.0, KEY)?;
        Ok(kept.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default())
    }

    pub(super) fn save(&self, store: &Store, session: &SessionId) -> Result<(), Fault> {
        let bytes = serde_json::to_vec(self)
            .map_err(|error| Fault::bug(format!("what an editor set can't be written: {error}")))?;
        store.sessions().put(&*session.0, KEY, bytes)
    }
}

impl Opening {
    /// Adds the settings that were saved in this session before.
    pub(super) fn with(mut self, kept: &SavedSettings) -> Self {
        let sandbox = kept.sandbox.as_deref().and_then(|it| SandboxArg::from_str(it, false).ok());
        self.sandbox = self.sandbox.or(sandbox);
        self
    }
}

impl Backend {
    /// Checks the parameters with which the editor opens a session.
    pub(super) fn opening(&self, asked: Asked) -> Result<Opening, Error> {
        let Asked { cwd, dirs, servers } = asked;
        let cwd = self.workspace(&cwd).map_err(|fault| error_of(&fault))?;
        let wide = WideFolders::of(&self.place);
        let dirs =
            dirs.iter().map(|it| folder(it, "additional directory").and_then(|it| not_wide(&wide, it)));
        let dirs = dirs.collect::<Result<Vec<_>, _>>().map_err(|fault| error_of(&fault))?;
        let own = Config::read(&self.place.config.join(FILE)).unwrap_or_default();
        let (mut found, mut notes) = (Vec::new(), Vec::new());
        for server in servers {
            match section(server) {
                Ok((name, section)) => {
                    match configured(&name, &section, Whose::Person, Path::new("the editor's settings")) {
                        Ok(server) => found.push(match own.servers.user.get(&name) {
                            // The person configures in haft.toml what the server may reach beyond the workspace.
                            Some(mine) if !mine.is_whole() => granted(server, mine),
                            _ => server,
                        }),
                        Err(why) => notes.push(why),
                    }
                }
                Err(why) => return Err(error_of(&why)),
            }
        }
        Ok(Opening { cwd, dirs, servers: found, notes, sandbox: None })
    }

    /// Returns the folder that a session works in.
    fn workspace(&self, cwd: &Path) -> Result<PathBuf, Fault> {
        let folder = folder(cwd, "`cwd`")?;
        if let Some(named) = &self.options.dir {
            // Any folder below `--dir` is accepted, however wide it is.
            let named = named.canonicalize().unwrap_or_else(|_| named.clone());
            if folder.starts_with(&named) {
                return Ok(folder);
            }
            let what = format!("{} is not in {}, which `--dir` named", shown(&folder), shown(&named));
            return Err(Fault::denied(what)
                .next("Leave `--dir` out of the editor's entry for haft, or open a folder below it."));
        }
        not_wide(&WideFolders::of(&self.place), folder)
    }

    /// Returns the options of a session.
    pub(super) fn options_of(&self, opening: &Opening) -> Options {
        let roots = opening.dirs.iter().map(|it| it.display().to_string());
        let mut options = self.options.clone();
        options.dir = Some(opening.cwd.clone());
        options.roots.extend(roots);
        options.sandbox = opening.sandbox.or(options.sandbox);
        options.servers.clone_from(&opening.servers);
        options
    }
}

fn folder(path: &Path, what: &str) -> Result<PathBuf, Fault> {
    if !path.is_absolute() {
        return Err(Fault::bad_args(format!("the {what} `{}` is not an absolute path", shown(path))));
    }
    let real = path
        .canonicalize()
        .map_err(|error| Fault::not_found(format!("the {what} {} can't be opened: {error}", shown(path))))?;
    if !real.is_dir() {
        return Err(Fault::bad_args(format!("the {what} {} is not a folder", shown(path))));
    }
    Ok(real)
}

/// Refuses the root of the file system, a home folder and the folders above, unless a person confirmed the folder.
fn not_wide(wide: &WideFolders, folder: PathBuf) -> Result<PathBuf, Fault> {
    let Some(what) = wide.refused(&folder) else { return Ok(folder) };
    let what = format!("{} is {what}: commands could delete everything in it", shown(&folder));
    Err(Fault::new(Kind::Denied, what).next(
        "Open a project folder in the editor. To work there all the same, answer yes once at a terminal: `haft chat`.",
    ))
}

/// Converts a server that the editor named into a section of haft's configuration.
fn section(server: McpServer) -> Result<(String, ServerSection), Fault> {
    Ok(match server {
        McpServer::Stdio(it) => {
            let env: BTreeMap<_, _> = it.env.into_iter().map(|it| (it.name, it.value)).collect();
            let command = Some(it.command.display().to_string());
            let env = Variables::Values(env);
            (it.name, ServerSection { command, args: it.args, env, ..ServerSection::default() })
        }
        McpServer::Http(it) => {
            let headers = it.headers.into_iter().map(|it| (it.name, it.value)).collect();
            (it.name, ServerSection { url: Some(it.url), headers, ..ServerSection::default() })
        }
        McpServer::Sse(it) => {
            let what =
                format!("the MCP server `{}` speaks `sse`, a transport that haft doesn't have", it.name);
            return Err(Fault::bad_args(what).next("Configure its `http` address, or its command."));
        }
        _ => return Err(Fault::bad_args("an MCP server has a transport that haft doesn't have")),
    })
}

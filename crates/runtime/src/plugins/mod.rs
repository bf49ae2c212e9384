//! Tool files: plugins in Python and executables, and how they run.
//!
//! A file in a folder of tools is a tool: Python in any of the formats people have, or any program that says what it
//! is. Each runs in a process and a sandbox of its own, so that nothing it does harms haft or another tool.

mod attestation;
pub(crate) mod cache;
mod call_rules;
pub(crate) mod compiled;
mod declared;
mod describe;
mod executable;
mod failure;
mod folder_config;
mod folders;
pub(crate) mod host;
pub(crate) mod hosts;
mod interpreter;
mod load;
mod manifest;
mod provenance_records;
mod pyenv;
mod python;
mod questions;
mod set;
mod status;
pub(crate) mod uv;
mod watch;
mod workspace_trust;

use std::{
    collections::{BTreeMap, HashSet},
    path::PathBuf,
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::ToolSection as Section;
pub use crate::provenance::Whose;
pub(crate) use hosts::{Hosts, Packages};
pub(crate) use kit::model_tools::own_files;
pub use kit::model_tools::{ENABLED, OWN};
pub use load::Plugins;
pub(crate) use questions::Recall;
pub(crate) use set::Loaded;
pub use set::gist;
pub use status::Status;
pub use watch::Watching;
pub use workspace_trust::{Attestation, OwnFile, adopt};

/// Where tools that are files are looked for, and what they may do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolFiles {
    /// The folders, in the order in which a name is looked for: the first tool of a name is the one.
    pub folders: Vec<Folder>,
    /// What a person granted to tools of a person's folders, by their names.
    pub sections: BTreeMap<String, Section>,
    /// The same for those of the workspace, by the workspace's own file, which the person trusts.
    pub workspace_sections: BTreeMap<String, Section>,
    /// The MCP servers that haft may be a client of; of two with a name the first one is the one.
    pub servers: Vec<crate::mcp_client::Server>,
    /// Every profile has the tools that the `enabled.json` of their folder names.
    pub enables: bool,
    /// A person vouches for the code in the workspace's folders, as it is when this is loaded first, for as long as this
    /// process runs.
    pub vouched_now: bool,
}

impl ToolFiles {
    /// The names that a person takes from built-in tools, for tools that are files.
    pub(super) fn replaced(&self) -> HashSet<String> {
        let sections = self.sections.iter().chain(&self.workspace_sections);
        sections.filter(|(_, it)| it.replaces_built_in).map(|(name, _)| name.clone()).collect()
    }

    /// What a person granted to tools that such a one put there; nothing, where nobody's word counts.
    fn granted(&self, whose: Whose) -> Option<&BTreeMap<String, Section>> {
        match whose {
            Whose::Person => Some(&self.sections),
            Whose::Workspace => Some(&self.workspace_sections),
            Whose::Untrusted => None,
        }
    }
}

/// A folder of tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    /// Where it is; it need not exist.
    pub path: PathBuf,
    /// Who put the tools there.
    pub whose: Whose,
}

/// One version of a file, whatever becomes of the file.
#[derive(Debug)]
pub(crate) struct Version {
    /// The file.
    pub(crate) path: PathBuf,
    /// The folder of tools it lies in.
    pub(crate) folder: PathBuf,
    /// Who put it there.
    pub(crate) whose: Whose,
    /// A model wrote it, or a tool made it, and no person has vouched for it since.
    pub(crate) by_model: bool,
    /// What it holds, where it is Python.
    pub(crate) source: Arc<[u8]>,
    /// The hash of that.
    pub(crate) hash: blake3::Hash,
}

/// How a tool of a file works that does not answer within the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Lasting {
    /// Its calls work in the background.
    Background,
    /// It is a generator: what it yields is an intermediate result, and it goes on with more input.
    Stateful,
}

/// What a tool file adds to the system prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Contribution {
    /// Where it stands among the others.
    bucket: Place,
    text: String,
}

/// Where a text stands among others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Place {
    First,
    Normal,
    Last,
}

/// What a file says of a tool in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Described {
    /// Its name.
    pub(crate) name: String,
    /// What it does.
    pub(crate) description: String,
    /// The JSON schema of its arguments, as declared.
    pub(crate) schema: Value,
    /// Which of the formats it is: `navi`, `navi-class`, `hyperagents`, `terrarium`, `terrarium-function`, `executable`.
    pub(crate) format: String,
    /// What in the file it is: the name of a class, a function; empty for the module itself.
    #[serde(default)]
    pub(crate) entry: String,
    /// What a call touches, where the file says so: `read {path}`, `write {path}`, `net HOST`, `session KEY`, with
    /// `{argument}` standing for its value. None: it says nothing, so it runs alone.
    #[serde(default)]
    pub(crate) touches: Option<Vec<String>>,
    /// How long a call may take, in seconds, where the file says so.
    #[serde(default)]
    pub(crate) timeout_seconds: Option<f64>,
    /// What it says of itself at length.
    #[serde(default)]
    pub(crate) manual: Option<String>,
    /// It is called only once that was read.
    #[serde(default)]
    pub(crate) manual_first: bool,
    /// What it adds to the system prompt.
    #[serde(default)]
    pub(crate) contribution: Option<Contribution>,
    /// How its result comes back, where that is not within the turn.
    #[serde(default)]
    pub(crate) mode: Option<Lasting>,
    /// What a person should know of how it was read: which of two formats was taken.
    #[serde(default)]
    pub(crate) notes: Vec<String>,
}

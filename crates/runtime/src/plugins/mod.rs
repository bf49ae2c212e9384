//! Tool files: plugins in Python and executables, and how they run.
//!
//! A file in a tool folder is a tool: Python in any of the common formats, or any program that prints its
//! spec. Each runs in its own process and sandbox, so that it can't harm haft or another tool.

mod attestation;
pub(crate) mod cache;
mod call_rules;
pub(crate) mod compiled;
mod declaration;
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
mod source;
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
pub(crate) use source::Source;
pub use status::Status;
pub use watch::Watching;
pub use workspace_trust::{Attestation, OwnFile, adopt};

/// The configuration of tool files: their folders, and their grants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolFiles {
    /// The folders in order of precedence: the first tool of a name wins.
    pub folders: Vec<Folder>,
    /// The grants to tools of a person's folders, by name.
    pub sections: BTreeMap<String, Section>,
    /// The grants to tools of the workspace, from the workspace's own file, which the person trusts.
    pub workspace_sections: BTreeMap<String, Section>,
    /// The MCP servers that haft may connect to; the first of a name wins.
    pub servers: Vec<crate::mcp_client::Server>,
    /// Whether every profile has the tools that the `enabled.json` of their folder names.
    pub enables: bool,
    /// Whether a person attests the code in the workspace's folders, as it is at the first load, until this
    /// process ends.
    pub vouched_now: bool,
    /// The code that a person attests until this process ends, as another process has found it: see
    /// [`Plugins::attested_now`].
    pub attested: Vec<String>,
}

impl ToolFiles {
    /// Returns the names of built-in tools that a person lets files replace.
    pub(super) fn replaced(&self) -> HashSet<String> {
        let sections = self.sections.iter().chain(&self.workspace_sections);
        sections.filter(|(_, it)| it.replaces_built_in).map(|(name, _)| name.clone()).collect()
    }

    /// Returns the grants to tools of this owner; nothing for an untrusted one.
    fn granted(&self, whose: Whose) -> Option<&BTreeMap<String, Section>> {
        match whose {
            Whose::Person => Some(&self.sections),
            Whose::Workspace => Some(&self.workspace_sections),
            Whose::Untrusted => None,
        }
    }
}

/// A tool folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    /// Its path; it need not exist.
    pub path: PathBuf,
    /// The owner of the tools in it.
    pub whose: Whose,
}

/// One version of a file, which stays when the file changes.
#[derive(Debug)]
pub(crate) struct Version {
    /// The file.
    pub(crate) path: PathBuf,
    /// The tool folder that it lies in.
    pub(crate) folder: PathBuf,
    /// The owner of the file.
    pub(crate) whose: Whose,
    /// Whether a model wrote it, or a tool made it, without an attestation by a person since.
    pub(crate) by_model: bool,
    /// Its content.
    pub(crate) source: Arc<Source>,
    /// The hash of the content.
    pub(crate) hash: blake3::Hash,
}

/// How a tool works that does not answer within the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Lasting {
    /// Its calls run in the background.
    Background,
    /// It is a generator: each yield is an intermediate result, and it continues with more input.
    Stateful,
}

/// The text that a tool file adds to the system prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Contribution {
    /// Its position among the others.
    bucket: Place,
    text: String,
}

/// The position of a text among others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Place {
    First,
    Normal,
    Last,
}

/// The declaration of a tool in a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Described {
    /// Its name.
    pub(crate) name: String,
    /// Its description.
    pub(crate) description: String,
    /// The JSON schema of its arguments, as declared.
    pub(crate) schema: Value,
    /// Its format: `navi`, `navi-class`, `hyperagents`, `terrarium`, `terrarium-function`, `executable`.
    pub(crate) format: String,
    /// Its entry in the file: the name of a class or a function; empty for the module itself.
    #[serde(default)]
    pub(crate) entry: String,
    /// The declared touches of a call: `read {path}`, `write {path}`, `net HOST`, `session KEY`, with
    /// `{argument}` for the argument's value. None: a call runs alone.
    #[serde(default)]
    pub(crate) touches: Option<Vec<String>>,
    /// The declared time limit of a call, in seconds.
    #[serde(default)]
    pub(crate) timeout_seconds: Option<f64>,
    /// Its manual.
    #[serde(default)]
    pub(crate) manual: Option<String>,
    /// Whether a call requires reading the manual first.
    #[serde(default)]
    pub(crate) manual_first: bool,
    /// Its addition to the system prompt.
    #[serde(default)]
    pub(crate) contribution: Option<Contribution>,
    /// How it returns its result, if not within the turn.
    #[serde(default)]
    pub(crate) mode: Option<Lasting>,
    /// Notes for a person on how the file was read, such as which of two formats applied.
    #[serde(default)]
    pub(crate) notes: Vec<String>,
}

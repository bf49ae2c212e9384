//! `[mcp.servers.NAME]` of haft.toml.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::config::tool_list;

/// What a person says of a server: `[mcp.NAME]` in haft.toml.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSection {
    /// The program that is the server.
    pub command: Option<String>,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Variables that it gets.
    #[serde(default)]
    pub env: Variables,
    /// Where it starts; the workspace, if this is not given.
    pub cwd: Option<PathBuf>,
    /// Where it is, if it runs elsewhere.
    pub url: Option<String>,
    /// What each request to that address carries.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The variable of haft's environment that has the token for it.
    pub bearer_env: Option<String>,
    /// How haft signs in there, where it has to.
    #[serde(default)]
    pub oauth: OauthSection,
    /// It may have haft's model answer.
    #[serde(default)]
    pub sampling: bool,
    /// The only tools of it that there are, by the server's names; all, if this is not given.
    #[serde(default, deserialize_with = "tool_list::names")]
    pub tools: Option<Vec<String>>,
    /// It is not used.
    #[serde(default)]
    pub disabled: bool,
    /// How long a call may take, in seconds.
    pub timeout_seconds: Option<u64>,
    /// How long its start may take, in seconds.
    pub start_seconds: Option<u64>,
    /// Hosts that it may reach, as in `allow` of `[net]`.
    #[serde(default)]
    pub net: Vec<String>,
    /// Paths outside the roots that it may read.
    #[serde(default)]
    pub read: Vec<PathBuf>,
    /// Paths outside the roots that it may change.
    #[serde(default)]
    pub write: Vec<PathBuf>,
    /// Those of its tools that change nothing, by the server's names; `*` stands for all. Its own word does not count.
    #[serde(default, deserialize_with = "tool_list::with_star")]
    pub read_only: Vec<String>,
    /// Those of its tools that may be called again when nobody knows whether they were; `*` stands for all.
    #[serde(default, deserialize_with = "tool_list::with_star")]
    pub idempotent: Vec<String>,
}

/// What a person says of signing in to a server: `[mcp.NAME.oauth]`. All of it can be left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OauthSection {
    /// As whom haft is known to the authorization server; it introduces itself, if this is not given.
    pub client_id: Option<String>,
    /// The variable of haft's environment that has the secret of that client.
    pub client_secret_env: Option<String>,
    /// An https address at which a document says who haft is; used where the authorization server takes such.
    pub client_metadata_url: Option<String>,
    /// What is asked for; what the server names, if this is not given.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// The port at which `haft mcp login` waits, where the authorization server insists on one.
    pub redirect_port: Option<u16>,
}

/// Variables: the names of those of haft's environment, or names with values, in which `${NAME}` stands for one of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a list of names, or a table of names with their values")]
pub enum Variables {
    /// Names.
    Names(Vec<String>),
    /// Names and values.
    Values(BTreeMap<String, String>),
}

impl Default for Variables {
    fn default() -> Self {
        Self::Names(Vec::new())
    }
}

impl ServerSection {
    /// Does it say where the server is, or does it only add to what another file says?
    pub fn is_whole(&self) -> bool {
        self.command.is_some() || self.url.is_some()
    }
}

impl Variables {
    /// The variables that these are, where `environment` is haft's own. Names that it does not have are left out.
    ///
    /// # Errors
    /// When a value needs a variable that there is not.
    pub(super) fn given(&self, environment: &[(String, String)]) -> Result<Vec<(String, String)>, String> {
        match self {
            Self::Names(names) => {
                Ok(environment.iter().filter(|(name, _)| names.contains(name)).cloned().collect())
            }
            Self::Values(values) => {
                values.iter().map(|(name, value)| Ok((name.clone(), expanded(value, environment)?))).collect()
            }
        }
    }
}

/// The text with the value of each `${NAME}` in its place, and of each `${NAME:-otherwise}`.
///
/// # Errors
/// When there is no such variable, and nothing is said for that case.
pub(super) fn expanded(text: &str, environment: &[(String, String)]) -> Result<String, String> {
    let mut whole = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        whole.push_str(before);
        let Some((inside, after)) = after.split_once('}') else {
            whole.push_str("${");
            rest = after;
            continue;
        };
        let (name, otherwise) = match inside.split_once(":-") {
            Some((name, otherwise)) => (name, Some(otherwise)),
            None => (inside, None),
        };
        // As in a shell, `:-` also stands for what is set and empty.
        let value = environment
            .iter()
            .find(|(it, value)| it == name && (otherwise.is_none() || !value.is_empty()))
            .map(|(_, value)| value.as_str())
            .or(otherwise);
        let Some(value) = value else { return Err(format!("`${{{name}}}` is not set")) };
        whole.push_str(value);
        rest = after;
    }
    whole.push_str(rest);
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_stand_for_their_values_and_a_missing_one_is_named() {
        let environment = [("A".to_owned(), "1".to_owned()), ("EMPTY".to_owned(), String::new())];
        for (text, value) in [
            ("x", Ok("x")),
            ("${A}/b${A}", Ok("1/b1")),
            ("${NONE:-two}", Ok("two")),
            ("${EMPTY:-two}", Ok("two")),
            ("${EMPTY}", Ok("")),
            ("${A:-two}", Ok("1")),
            ("$A ${", Ok("$A ${")),
            ("${NONE:-}", Ok("")),
            ("${NONE}", Err("`${NONE}` is not set")),
        ] {
            assert_eq!(expanded(text, &environment).as_deref().map_err(String::as_str), value, "{text}");
        }
    }
}

//! `[mcp.NAME]`: MCP servers that haft may connect to.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::{
    LONGEST,
    keys::{
        Fallback::*,
        declare::section,
        types::{Type, Typed},
    },
    tool_list,
};

/// The file in which a workspace configures servers for any client.
pub const DOT_MCP: &str = ".mcp.json";

section! {
    /// `[mcp.NAME]`: a server's address or command, and its grants.
    #[derive(Default, Eq)]
    #[serde(default)]
    pub struct ServerSection, merged whole {
        /// An MCP server that haft starts; its tools are named `files__NAME`. It starts with the first call
        /// of one of its tools, in the sandbox, with only the permissions given here. haft pins its tool
        /// definitions on first use: a changed definition is used only after `haft mcp trust files`. The
        /// first start of a workspace's server needs approval; so do servers of the workspace's .mcp.json. A
        /// section in your own file with neither `command` nor `url` adds permissions to the workspace's
        /// server of that name.
        "[mcp.files]" {
            /// Program that is the server.
            command: Option<String> {
                example: r#""npx""#,
                default: Words("none"),
                workspace: NeedsTrust,
            }
            /// Its arguments.
            args: Vec<String> {
                example: r#"["-y", "@modelcontextprotocol/server-filesystem", "."]"#,
                default: Words("none"),
                workspace: NeedsTrust,
            }
            /// Environment variables that it gets: a table of values, in which ${NAME} and ${NAME:-otherwise}
            /// stand for variables of yours, or a list of such names.
            env: Variables {
                example: r#"{ MODE = "fast", KEY = "${FILES_KEY:-none}" }"#,
                default: Words("none"),
                workspace: NeedsTrust,
            }
            /// Working directory.
            cwd: Option<PathBuf> {
                example: r#""tools""#,
                default: Words("the workspace"),
                workspace: NeedsTrust,
            }
            /// Allowlist of its tools, by the server's names, or "all".
            #[serde(deserialize_with = "tool_list::names")]
            tools: Option<Vec<String>> {
                words: tool_list::TYPE,
                example: r#"["read_file"]"#,
                default: Words("all"),
                workspace: NeedsTrust,
            }
            /// Whether haft ignores this server.
            disabled: bool {
                example: "true",
                default: Words("false"),
                workspace: NeedsTrust,
            }
            /// Time limit of its start.
            start_seconds: Option<u64> {
                unit: "seconds",
                range: 1..=LONGEST,
                example: "60",
                default: Words("60"),
                workspace: NeedsTrust,
            }
            /// Time limit of a call.
            timeout_seconds: Option<u64> {
                unit: "seconds",
                range: 1..=LONGEST,
                example: "30",
                default: Words("deadline_seconds"),
                workspace: NeedsTrust,
            }
            /// Hosts that it may contact.
            net: Vec<String> {
                example: r#"["registry.npmjs.org"]"#,
                default: Words("none"),
                workspace: NeedsTrust,
            }
            /// Paths outside the workspace that it may read.
            read: Vec<PathBuf> {
                example: r#"["~/notes"]"#,
                default: Words("none"),
                workspace: NeedsTrust,
            }
            /// Paths outside the workspace that it may change.
            write: Vec<PathBuf> {
                example: r#"["~/.npm"]"#,
                default: Words("none"),
                workspace: NeedsTrust,
            }
            /// Tools that change nothing, by the server's names; ["*"] or "all" for all. What the server
            /// itself says about that is not trusted.
            #[serde(deserialize_with = "tool_list::with_star")]
            read_only: Vec<String> {
                words: tool_list::TYPE,
                example: r#"["read_file"]"#,
                default: Words("none"),
                workspace: NeedsTrust,
            }
            /// Tools that haft may call again after the server died in the middle of a call, by the server's
            /// names; ["*"] or "all" for all.
            #[serde(deserialize_with = "tool_list::with_star")]
            idempotent: Vec<String> {
                words: tool_list::TYPE,
                example: r#"["list_files"]"#,
                default: Words("none"),
                workspace: NeedsTrust,
            }
        }
        /// A remote MCP server.
        "[mcp.tracker]" {
            /// Its address.
            url: Option<String> {
                example: r#""https://tracker.example.org/mcp""#,
                default: Words("none"),
                workspace: NeedsTrust,
            }
            /// HTTP headers of each request; ${NAME} stands for a variable of yours.
            headers: BTreeMap<String, String> {
                example: r#"{ "x-team" = "${TEAM}" }"#,
                default: Words("none"),
                workspace: NeedsTrust,
            }
            /// Environment variable that holds its bearer token.
            bearer_env: Option<String> {
                example: r#""TRACKER_TOKEN""#,
                default: Words("none"),
                workspace: NeedsTrust,
            }
            /// Whether it may use haft's model (MCP sampling).
            sampling: bool {
                example: "true",
                default: Words("false"),
                workspace: NeedsTrust,
            }
        }
        tables {
            /// The sign-in to the server, if it needs one.
            oauth: OauthSection as OauthSection;
        }
    }
}

section! {
    /// `[mcp.NAME.oauth]`: how haft signs in to a server.
    #[derive(Default, Eq)]
    #[serde(default)]
    pub struct OauthSection, merged whole {
        /// How `haft mcp login tracker` signs in (OAuth). All of it is optional.
        "[mcp.tracker.oauth]" {
            /// Client id; without one, haft registers itself.
            client_id: Option<String> {
                example: r#""haft""#,
                default: Words("none"),
                workspace: NeedsTrust,
            }
            /// Environment variable that holds the client secret.
            client_secret_env: Option<String> {
                example: r#""TRACKER_SECRET""#,
                default: Words("none"),
                workspace: NeedsTrust,
            }
            /// Address of a client metadata document.
            client_metadata_url: Option<String> {
                example: r#""https://example.org/haft.json""#,
                default: Words("none"),
                workspace: NeedsTrust,
            }
            /// Scopes to request.
            scopes: Vec<String> {
                example: r#"["read"]"#,
                default: Words("those that the server names"),
                workspace: NeedsTrust,
            }
            /// Local port for the redirect.
            redirect_port: Option<u16> {
                example: "8123",
                default: Words("any free port"),
                workspace: NeedsTrust,
            }
        }
    }
}

/// Environment variables: names of haft's own, or names with values, in which `${NAME}` stands for one of
/// haft's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a list of names, or a table of names with their values")]
pub enum Variables {
    /// Names.
    Names(Vec<String>),
    /// Names and values.
    Values(BTreeMap<String, String>),
}

impl Typed for Variables {
    const TYPE: Type = Type::Words("table of strings, or list of strings");
}

impl Default for Variables {
    fn default() -> Self {
        Self::Names(Vec::new())
    }
}

impl ServerSection {
    /// Returns whether the section configures a server; otherwise it only adds to another file's.
    pub fn is_whole(&self) -> bool {
        self.command.is_some() || self.url.is_some()
    }
}

//! Network and programs that tools may use: `[net]`, `[secret.NAME]`, `[search]`, `[ssh]`, `[programs]`.

use std::path::PathBuf;

use policy::Web;
use serde_json::json;

use super::keys::{Fallback::*, declare::section, merging::*};

section! {
    /// `[net]`: network access of tools and commands.
    #[derive(Default, Eq)]
    #[serde(default)]
    pub struct Net, merged by_key {
        /// Network access of tools and commands.
        "[net]" {
            /// Hosts that may be contacted without approval: host, host:port, *.example.org, *. A host with
            /// an address that is not public (loopback, intranet, VPN) counts only with its port, here as in
            /// every other list of hosts: "mirror.corp:443". A tool with PEP 723 dependencies needs
            /// "pypi.org" and "files.pythonhosted.org".
            allow: Vec<String> {
                example: r#"["crates.io"]"#,
                default: Words("none"),
                workspace: NeedsTrust,
                merge: append_trusted,
            }
            /// Read access to the web for web_search, web_fetch and http_request with a method that only
            /// reads: "public" (every public address, without approval), "known" (addresses that you, a
            /// search result or a page named; a host that the model composed an address for needs approval
            /// once), "ask" (each host needs approval), "none". By default "known" where a person can be
            /// asked, otherwise "public". A workspace may lower it; raising it needs trust.
            web: Option<Web> {
                example: r#""known""#,
                default: Words("known if a person can be asked, else public"),
                workspace: Narrows,
                merge: narrow(|theirs, mine| *theirs <= mine.copied().unwrap_or_default()),
            }
            /// HTTP proxy for the network tools (not ssh_exec). These tools ignore HTTPS_PROXY and its kind.
            /// haft still resolves each name itself and refuses addresses that are not public; a name that
            /// this machine can't resolve is left to the proxy. Private addresses granted as host:port are
            /// contacted directly.
            proxy: Option<String> {
                example: r#""http://proxy.example.org:3128""#,
                default: Words("none"),
                workspace: NeedsTrust,
                merge: replace_trusted,
            }
        }
    }
}

section! {
    /// `[secret.NAME]`: a secret, and the hosts that it may be sent to.
    #[derive(Default, Eq)]
    pub struct SecretSection, merged whole {
        /// A named secret. http_request puts it where a model writes {{secret:github}}, ssh_exec uses it as
        /// `password` or `passphrase`; no model ever sees the value. It has at least 4 characters.
        "[secret.github]" {
            /// The environment variable that holds the value. Set this or `file`.
            env: Option<String> {
                example: r#""GITHUB_TOKEN""#,
                default: Words("none"),
                workspace: NeedsTrust,
            }
            /// The file that holds the value and nothing else.
            file: Option<PathBuf> {
                example: r#""~/.config/github-token""#,
                default: Words("none"),
                workspace: NeedsTrust,
            }
            /// Hosts that the secret may be sent to, over https only, unless the host is given with its port.
            hosts: Vec<String> {
                example: r#"["api.github.com"]"#,
                default: Required,
                workspace: NeedsTrust,
            }
        }
    }
}

section! {
    /// `[search]`: the web search.
    #[derive(Default, Eq)]
    #[serde(default)]
    pub struct SearchSection, merged whole {
        /// How web_search searches. In a workspace's file this section replaces yours.
        "[search]" {
            /// Search engine: "duckduckgo" (no key), "searxng", "brave", "tavily". Naming one also allows its
            /// host.
            engine: Option<String> {
                example: r#""duckduckgo""#,
                default: Value(|| json!("duckduckgo")),
                workspace: NeedsTrust,
            }
            /// Address of the engine: required for searxng, for others only if it isn't the usual one.
            url: Option<String> {
                example: r#""https://searx.example.org""#,
                default: Words("the engine's own"),
                workspace: NeedsTrust,
            }
            /// Name of the secret (`[secret.NAME]`) that holds the engine's API key.
            key: Option<String> {
                example: r#""brave""#,
                default: Words("none"),
                workspace: NeedsTrust,
            }
        }
    }
}

section! {
    /// `[ssh]`: the access to other machines.
    #[derive(Default, Eq)]
    #[serde(default)]
    pub struct SshSection, merged whole {
        /// How ssh_exec reaches other machines. In a workspace's file this section replaces yours. A host
        /// whose key isn't known needs approval.
        "[ssh]" {
            /// OpenSSH configuration files.
            config: Vec<PathBuf> {
                example: r#"["~/.ssh/config"]"#,
                default: Value(|| json!(["~/.ssh/config"])),
                workspace: NeedsTrust,
            }
            /// A file with host names as JSON.
            hosts_file: Option<PathBuf> {
                example: r#""~/hosts.json""#,
                default: Words("none"),
                workspace: NeedsTrust,
            }
            /// File with known host keys; haft adds accepted ones to it.
            known_hosts: Option<PathBuf> {
                example: r#""~/.ssh/known_hosts""#,
                default: Value(|| json!("~/.ssh/known_hosts")),
                workspace: NeedsTrust,
            }
        }
    }
}

section! {
    /// `[programs]`: the paths of optional programs that tools start.
    #[derive(Default, Eq)]
    #[serde(default)]
    pub struct ProgramsSection, merged whole {
        /// Paths of optional programs that tools start. In a workspace's file this section replaces yours.
        "[programs]" {
            /// Chromium or Chrome, for web_fetch with `render`.
            chromium: Option<PathBuf> {
                example: r#""/usr/bin/chromium""#,
                default: Words("found on PATH"),
                workspace: NeedsTrust,
            }
            /// OpenSCAD, for model_3d.
            openscad: Option<PathBuf> {
                example: r#""/usr/bin/openscad""#,
                default: Words("found on PATH"),
                workspace: NeedsTrust,
            }
        }
    }
}

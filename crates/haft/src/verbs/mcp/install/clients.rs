//! MCP clients: the configuration file of each, and the entry that it needs.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use kit::Fault;
use serde_json::{Value, json};

use crate::Place;

/// A call ends by itself after its deadline; a client that gives up earlier loses the partial result.
const CALL_SECONDS: u64 = runtime::DEADLINE.as_secs() + 30;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ClientName {
    ClaudeCode,
    ClaudeDesktop,
    Codex,
    Cursor,
    Gemini,
    Opencode,
    Vscode,
    Zed,
}

/// The format of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::verbs) enum Format {
    /// JSON, with comments if the client allows them.
    Json,
    Toml,
}

/// The folders that a server is configured for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scope<'a> {
    /// All folders of this user.
    User,
    /// This project only.
    Project(&'a Path),
}

/// How a client reaches haft.
#[derive(Debug)]
pub(super) enum Reach {
    /// The client starts haft.
    Start { command: String, arguments: Vec<String> },
    /// haft already runs at this address, and requires the token that is in this variable.
    Http { url: String, token: String },
}

impl ClientName {
    /// Returns the display name of the client.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::ClaudeDesktop => "Claude Desktop",
            Self::Codex => "Codex",
            Self::Cursor => "Cursor",
            Self::Gemini => "Gemini CLI",
            Self::Opencode => "opencode",
            Self::Vscode => "VS Code",
            Self::Zed => "Zed",
        }
    }

    pub(super) fn format(self) -> Format {
        if self == Self::Codex { Format::Toml } else { Format::Json }
    }

    /// Returns the key that holds its servers.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::ClaudeCode | Self::ClaudeDesktop | Self::Cursor | Self::Gemini => "mcpServers",
            Self::Codex => "mcp_servers",
            Self::Opencode => "mcp",
            Self::Vscode => "servers",
            Self::Zed => "context_servers",
        }
    }

    /// Returns the configuration file that it reads.
    ///
    /// # Errors
    /// When the client has no file for a project.
    pub(super) fn file(self, scope: Scope<'_>, place: &Place) -> Result<PathBuf, Fault> {
        match scope {
            Scope::User => Ok(self.users_file(place)),
            Scope::Project(folder) => {
                let name = match self {
                    Self::ClaudeCode => ".mcp.json",
                    Self::ClaudeDesktop => {
                        return Err(Fault::bad_args("Claude Desktop has no projects")
                            .next("Leave `--project` out, and name a folder: `haft --dir PATH mcp install claude-desktop`."));
                    }
                    Self::Codex => ".codex/config.toml",
                    Self::Cursor => ".cursor/mcp.json",
                    Self::Gemini => ".gemini/settings.json",
                    Self::Opencode => return Ok(opencode_file(folder)),
                    Self::Vscode => ".vscode/mcp.json",
                    Self::Zed => ".zed/settings.json",
                };
                Ok(folder.join(name))
            }
        }
    }

    fn users_file(self, place: &Place) -> PathBuf {
        let home = place.home();
        let named = |name: &str| place.variable(name).map(PathBuf::from);
        let settings = || named("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
        // On macOS, graphical programs keep their files elsewhere.
        let application = || {
            if cfg!(target_os = "macos") { home.join("Library/Application Support") } else { settings() }
        };
        match self {
            Self::ClaudeCode => named("CLAUDE_CONFIG_DIR").unwrap_or(home).join(".claude.json"),
            Self::ClaudeDesktop => application().join("Claude/claude_desktop_config.json"),
            Self::Codex => named("CODEX_HOME").unwrap_or_else(|| home.join(".codex")).join("config.toml"),
            Self::Cursor => home.join(".cursor/mcp.json"),
            Self::Gemini => home.join(".gemini/settings.json"),
            Self::Opencode => opencode_file(&settings().join("opencode")),
            Self::Vscode => application().join("Code/User/mcp.json"),
            Self::Zed => settings().join("zed/settings.json"),
        }
    }

    /// Returns whether the client is on this machine: its program, its file or its folder.
    pub(super) fn is_there(self, place: &Place) -> bool {
        let programs: &[&str] = match self {
            Self::ClaudeCode => &["claude"],
            Self::ClaudeDesktop => &["claude-desktop"],
            Self::Codex => &["codex"],
            Self::Cursor => &["cursor", "cursor-agent"],
            Self::Gemini => &["gemini"],
            Self::Opencode => &["opencode"],
            Self::Vscode => &["code"],
            Self::Zed => &["zed", "zeditor"],
        };
        let file = self.users_file(place);
        // The file of Claude Code is in the home folder itself.
        let folder = file.parent().filter(|_| self != Self::ClaudeCode);
        place.on_path(programs).is_some() || file.is_file() || folder.is_some_and(Path::is_dir)
    }

    /// Returns the entry of haft in its format.
    ///
    /// # Errors
    /// When the client can't reach a server that way.
    pub(super) fn entry(self, reach: &Reach) -> Result<Value, Fault> {
        match reach {
            Reach::Start { command, arguments } => Ok(match self {
                Self::ClaudeCode | Self::Vscode => {
                    json!({"type": "stdio", "command": command, "args": arguments})
                }
                Self::Codex => {
                    json!({"command": command, "args": arguments, "tool_timeout_sec": CALL_SECONDS})
                }
                Self::Opencode => {
                    let whole: Vec<&String> = [command].into_iter().chain(arguments).collect();
                    json!({"type": "local", "command": whole, "enabled": true})
                }
                Self::ClaudeDesktop | Self::Cursor | Self::Gemini | Self::Zed => {
                    json!({"command": command, "args": arguments})
                }
            }),
            Reach::Http { url, token } => self.over_http(url, token),
        }
    }

    /// Returns the entry for HTTP. It does not contain the token: each client reads it from a variable.
    fn over_http(self, url: &str, token: &str) -> Result<Value, Fault> {
        let bearer = |variable: String| json!({"Authorization": format!("Bearer {variable}")});
        Ok(match self {
            Self::ClaudeCode => {
                json!({"type": "http", "url": url, "headers": bearer(format!("${{{token}}}"))})
            }
            Self::Codex => {
                json!({"url": url, "bearer_token_env_var": token, "tool_timeout_sec": CALL_SECONDS})
            }
            Self::Cursor => json!({"url": url, "headers": bearer(format!("${{env:{token}}}"))}),
            Self::Gemini => json!({"httpUrl": url, "headers": bearer(format!("${{{token}}}"))}),
            Self::Opencode => {
                let headers = bearer(format!("{{env:{token}}}"));
                json!({"type": "remote", "url": url, "headers": headers, "oauth": false, "enabled": true})
            }
            Self::Vscode => {
                json!({"type": "http", "url": url, "headers": bearer(format!("${{env:{token}}}"))})
            }
            Self::ClaudeDesktop | Self::Zed => {
                let what = format!(
                    "{} reads tokens only from its configuration file, where haft doesn't write them",
                    self.title()
                );
                return Err(
                    Fault::bad_args(what).next("Leave `--http` out: the client then starts haft itself.")
                );
            }
        })
    }

    /// Returns the next step for the person.
    pub(super) fn next(self, scope: Scope<'_>) -> &'static str {
        let project = matches!(scope, Scope::Project(_));
        match self {
            Self::ClaudeCode if project => {
                "Start `claude` in this folder and approve the server; `/mcp` shows it."
            }
            Self::ClaudeCode => "Restart `claude`; `/mcp` shows the server.",
            Self::ClaudeDesktop => {
                "Quit Claude Desktop and start it again; the tools are under `+` in a chat."
            }
            Self::Codex if project => "Start `codex` in this folder and trust it; `/mcp` shows the server.",
            Self::Codex => {
                "Restart `codex`; `/mcp` shows the server. `codex exec` can't ask for approval: see `default_tools_approval_mode`."
            }
            Self::Cursor => "Reload Cursor's window, then enable `haft` in its settings, under MCP.",
            Self::Gemini => "Restart `gemini`; `/mcp` shows the server.",
            Self::Opencode => "Restart `opencode`; `opencode mcp list` shows the server.",
            Self::Vscode => "In VS Code run `MCP: List Servers`, choose `haft`, start it and trust it.",
            Self::Zed => {
                "Zed starts the server at once; a green dot at `haft` in the agent settings shows that it runs."
            }
        }
    }
}

/// Returns the file of opencode, which reads both names; the one with comments is preferred, because a person wrote it.
fn opencode_file(folder: &Path) -> PathBuf {
    let commented = folder.join("opencode.jsonc");
    if commented.exists() { commented } else { folder.join("opencode.json") }
}

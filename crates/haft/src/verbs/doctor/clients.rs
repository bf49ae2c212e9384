//! MCP report: the clients on this machine, whether haft is installed in them, and the servers that haft uses.

use std::path::{Path, PathBuf};

use runtime::mcp_client::Servers;
use serde_json::{Value, json};

use super::in_lines;
use crate::{
    Place,
    verbs::mcp::{Client, clients},
};

/// The clients that haft knows, each with its state.
pub(super) struct Clients(Vec<Client>);

impl Clients {
    pub(super) fn find(place: &Place, workspace: &Path) -> Self {
        Self(clients(place, workspace))
    }

    /// Returns whether haft is installed in one of them.
    pub(super) fn is_installed(&self) -> bool {
        self.0.iter().any(|it| it.installed.is_some())
    }

    /// Returns the name of a client that is on this machine and lacks haft.
    pub(super) fn lacking(&self) -> Option<&str> {
        self.0
            .iter()
            .find(|it| it.is_there && it.installed.is_none() && it.problem.is_none())
            .map(|it| it.name.as_str())
    }

    pub(super) fn as_text(&self) -> String {
        let mut lines: Vec<(&str, String)> = Vec::new();
        for it in &self.0 {
            match (&it.installed, &it.problem) {
                (Some(file), _) => lines.push((it.title, format!("haft is installed ({})", file.display()))),
                (None, Some(why)) => lines.push((it.title, why.clone())),
                (None, None) if it.is_there => {
                    lines.push((it.title, format!("found; to add haft: haft mcp install {}", it.name)));
                }
                (None, None) => {}
            }
        }
        let absent = self.0.iter().filter(|it| !it.is_there && it.installed.is_none());
        let absent: Vec<&str> = absent.map(|it| it.title).collect();
        lines.extend(
            in_lines(&absent)
                .into_iter()
                .enumerate()
                .map(|(at, it)| (if at == 0 { "not found" } else { "" }, it)),
        );
        let width = lines.iter().map(|(title, _)| title.len()).max().unwrap_or(0);
        let text: String = lines.iter().map(|(title, what)| format!("{title:width$}  {what}\n")).collect();
        text
    }

    pub(super) fn as_json(&self) -> Value {
        let client = |it: &Client| json!({"name": it.name, "found": it.is_there, "installed_in": it.installed, "problem": it.problem});
        self.0.iter().map(client).collect()
    }
}

/// An MCP server that haft uses.
pub(super) struct Server {
    name: String,
    file: PathBuf,
    disabled: bool,
    tools: Option<usize>,
    notes: Vec<String>,
}

/// Returns the configured servers.
pub(super) fn servers(servers: &Servers) -> Vec<Server> {
    let server = |it: &std::sync::Arc<runtime::mcp_client::Server>| Server {
        name: it.name.clone(),
        file: PathBuf::from(&it.file),
        disabled: it.section.disabled,
        tools: servers.tools_of(&it.name),
        notes: servers.notes(&it.name),
    };
    servers.list().iter().map(server).collect()
}

impl Server {
    pub(super) fn as_text(&self) -> String {
        let tools = match self.tools {
            _ if self.disabled => "disabled".to_owned(),
            None => "not started yet".to_owned(),
            Some(1) => "1 tool".to_owned(),
            Some(tools) => format!("{tools} tools"),
        };
        let mut text = format!("{}: {tools} ({})\n", self.name, self.file.display());
        self.notes.iter().for_each(|note| text.push_str(&format!("  {note}\n")));
        text
    }

    pub(super) fn as_json(&self) -> Value {
        json!({"name": self.name, "file": self.file, "disabled": self.disabled, "tools": self.tools, "notes": self.notes})
    }
}

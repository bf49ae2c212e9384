//! A workspace's `.mcp.json`: reads the servers that it names.

use std::{collections::BTreeMap, path::Path};

use serde::Deserialize;
use serde_json::Value;

use super::{Server, ServerSection, Variables};
use crate::{config::DOT_MCP, provenance::Whose};

#[derive(Deserialize)]
struct File {
    #[serde(default, rename = "mcpServers")]
    servers: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct One {
    #[serde(rename = "type")]
    kind: Option<String>,
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    disabled: bool,
}

/// Returns the servers that this text names, and a line for each invalid one. Leaves out haft itself, which
/// is there for other clients.
pub fn imported(text: &str) -> (Vec<Server>, Vec<String>) {
    let file: File = match serde_json::from_str(text) {
        Ok(file) => file,
        Err(error) => return (Vec::new(), vec![format!("{DOT_MCP} names no servers: {error}")]),
    };
    let mut aside = Vec::new();
    let mut servers = Vec::new();
    for (name, value) in file.servers {
        match section(value) {
            Ok(section) if section.command.as_deref().is_some_and(|it| serves_haft(it, &section.args)) => {}
            Ok(section) => {
                servers.push(Server { name, section, whose: Whose::Workspace, file: DOT_MCP.to_owned() });
            }
            Err(why) => aside.push(format!("`{name}` in {DOT_MCP} is ignored: {why}")),
        }
    }
    (servers, aside)
}

fn section(value: Value) -> Result<ServerSection, String> {
    let one: One = serde_json::from_value(value).map_err(|error| error.to_string())?;
    let is_remote = match one.kind.as_deref() {
        None => one.command.is_none(),
        Some("stdio") => false,
        Some("http" | "streamable-http" | "streamableHttp") => true,
        Some("sse") => {
            return Err(
                "`sse` is a transport of 2024 that nobody needs any more; give its `http` address".to_owned()
            );
        }
        Some(other) => return Err(format!("`{other}` is not a transport that is known")),
    };
    let section = ServerSection { disabled: one.disabled, ..ServerSection::default() };
    match (is_remote, one.command, one.url) {
        (true, _, Some(url)) => Ok(ServerSection { url: Some(url), headers: one.headers, ..section }),
        (false, Some(command), _) => {
            let env = Variables::Values(one.env);
            Ok(ServerSection { command: Some(command), args: one.args, env, ..section })
        }
        (true, _, None) => Err("it has neither `command` nor `url`".to_owned()),
        (false, None, _) => Err("it has no `command`".to_owned()),
    }
}

/// Returns whether this command starts haft as a server.
pub fn serves_haft(command: &str, arguments: &[String]) -> bool {
    let path = Path::new(command);
    let is_this_program = || {
        let this = std::env::current_exe().and_then(|it| it.canonicalize()).ok();
        path.is_absolute() && this.is_some() && path.canonicalize().ok() == this
    };
    arguments.iter().any(|it| it == "mcp")
        && (path.file_name().is_some_and(|it| it == "haft") || is_this_program())
}

/// Checks the section of a server in the person's or the workspace's haft.toml.
///
/// # Errors
/// The reason why the section is ignored: something is missing or contradicts.
pub fn configured(name: &str, section: &ServerSection, whose: Whose, file: &Path) -> Result<Server, String> {
    let file = file.display().to_string();
    let wrong = |why: &str| Err(format!("`[mcp.{name}]` in {file} is ignored: {why}"));
    match (&section.command, &section.url) {
        (Some(_), Some(_)) => return wrong("it has both `command` and `url`"),
        (None, None) => return wrong("it has neither `command` nor `url`"),
        (None, Some(url))
            if !(url.starts_with("http://") || url.starts_with("https://") || url.starts_with("${")) =>
        {
            return wrong("its `url` is not an http address");
        }
        _ => {}
    }
    if name.is_empty() || name.contains(": ") || name.chars().any(char::is_control) {
        return wrong("that is not a name");
    }
    Ok(Server { name: name.to_owned(), section: section.clone(), whose, file })
}

/// Merges a workspace's server with the section of the same name in the person's file that has no command or
/// address.
pub fn granted(server: Server, mine: &ServerSection) -> Server {
    let section = ServerSection {
        command: server.section.command,
        args: server.section.args,
        env: if mine.env == Variables::default() { server.section.env } else { mine.env.clone() },
        cwd: server.section.cwd,
        url: server.section.url,
        headers: server.section.headers,
        bearer_env: mine.bearer_env.clone().or(server.section.bearer_env),
        ..mine.clone()
    };
    Server { section, ..server }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn servers_in_the_formats_of_other_clients_are_read() {
        let text = r#"{"mcpServers": {
            "files": {"command": "npx", "args": ["-y", "x"], "env": {"A": "${HOME}"}, "more": 1},
            "far": {"type": "http", "url": "https://x.test/mcp", "headers": {"X": "${T}"}},
            "bare": {"url": "https://y.test"},
            "old": {"type": "sse", "url": "https://x.test"},
            "none": {}}, "inputs": []}"#;
        let (servers, aside) = imported(text);
        let names: Vec<&str> = servers.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["bare", "far", "files"]);
        assert_eq!(servers.get(2).unwrap().starts(), "npx -y x");
        assert_eq!(aside.len(), 2, "{aside:?}");
        assert!(imported("{").1.concat().contains("names no servers"));
    }

    #[test]
    fn haft_does_not_import_itself() {
        let this = std::env::current_exe().unwrap();
        let text = serde_json::json!({"mcpServers": {
            "haft": {"command": "haft", "args": ["--sandbox", "read-only", "mcp"]},
            "hands": {"type": "stdio", "command": "/opt/bin/haft", "args": ["mcp"]},
            "this": {"command": this, "args": ["mcp"]},
            "other": {"command": "haft", "args": ["x"]},
            "like": {"command": "haft-like", "args": ["mcp"]}}});
        let (servers, aside) = imported(&text.to_string());
        let names: Vec<&str> = servers.iter().map(|it| it.name.as_str()).collect();
        assert_eq!((names, aside.len()), (vec!["like", "other"], 0));
    }

    #[test]
    fn a_persons_section_without_a_command_adds_grants_and_changes_nothing_else() {
        let (servers, _) = imported(r#"{"mcpServers": {"a": {"command": "x", "env": {"A": "1"}}}}"#);
        let mine = ServerSection {
            net: vec!["h".to_owned()],
            args: vec!["evil".to_owned()],
            ..ServerSection::default()
        };
        let server = granted(servers.into_iter().next().unwrap(), &mine);
        assert_eq!(server.starts(), "x");
        assert_eq!(server.section.net, ["h"]);
        assert_eq!(server.section.env, Variables::Values([("A".to_owned(), "1".to_owned())].into()));
    }
}

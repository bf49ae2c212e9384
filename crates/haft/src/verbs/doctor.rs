//! `haft doctor`: the state of this machine: guarantees of the sandbox, models and keys, optional programs, MCP.
//!
//! Each guarantee is tried, not assumed. A broken guarantee and a workspace that can't be used are failures; all else is
//! optional.

mod clients;
mod guarantees;
mod models;
mod programs;

use std::process::ExitCode;

use clap::Args;
use kit::Fault;
use runtime::{
    config::{Config, FILE, ProgramsSection},
    plugins::Status,
};
use serde_json::{Value, json};

use self::{
    clients::{Clients, Server, servers},
    guarantees::{Finding, State, findings},
    models::Models,
    programs::{Program, programs},
};
use super::FAULT;
use crate::{Broken, Options, Place, print};

#[derive(Args)]
pub struct Doctor {
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// The report of `haft doctor`.
struct Report {
    /// The workspace, the files and the folders, each with its path; and what is kept for undo.
    places: Vec<(&'static str, String)>,
    findings: Vec<Finding>,
    /// The workspace that the configuration opens, or the fault.
    workspace: Result<Workspace, Fault>,
    models: Result<Models, Fault>,
    programs: Vec<Program>,
    clients: Clients,
}

/// The tools, servers and configuration files of the workspace.
struct Workspace {
    tools: Status,
    servers: Vec<Server>,
    /// A line for each name in a list of tools that no tool has.
    unknown: Vec<String>,
    /// Remarks on configuration files of nav, one line each.
    nav: Vec<String>,
    /// The hooks in effect.
    hooks: Vec<runtime::hooks::Hook>,
    /// The space that before-images and long outputs take on the disk.
    held: Option<store::DiskUse>,
    /// Configuration files that can't be read.
    broken: Broken,
}

impl Doctor {
    /// Prints the report.
    ///
    /// # Errors
    /// When the self-test can't create its folder, or there is no workspace.
    pub async fn run(&self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let accepted = options.accept_weaker(place);
        let folder = options.workspace()?;
        let workspace = Workspace::open(options, place).await;
        let mut places = vec![
            ("workspace", folder.display().to_string()),
            ("configuration", place.config.join(FILE).display().to_string()),
            ("state", place.state.display().to_string()),
        ];
        if let Some(held) = workspace.as_ref().ok().and_then(|it| it.held) {
            places.push(("kept", super::prune::in_words(held)));
        }
        let report = Report {
            places,
            findings: findings(place, &accepted).await?,
            workspace,
            models: Models::find(options, place).await,
            programs: programs(place, &configured(options, place)),
            clients: Clients::find(place, &folder),
        };
        match self.json {
            true => print::json(&report.as_json()),
            false => print::out(&report.as_text()),
        }
        let fails = report.problem().is_some() || report.findings.iter().any(Finding::is_broken);
        Ok(if fails { ExitCode::from(FAULT) } else { ExitCode::SUCCESS })
    }
}

/// Returns the paths of programs in haft.toml; none if the file can't be read, which another part of the report shows.
fn configured(options: &Options, place: &Place) -> ProgramsSection {
    options.config(place).map(|it: Config| it.programs).unwrap_or_default()
}

impl Workspace {
    async fn open(options: &Options, place: &Place) -> Result<Self, Fault> {
        let opened = options.open_with(place, tools::of_agents)?;
        let outside = opened.runtime.plugins();
        outside.refreshed().await;
        let tools = outside.standing(&place.variables);
        let servers = servers(outside.servers());
        let unknown = opened.unknown_tools();
        let hooks = opened.runtime.hooks().map(|it| it.list().to_vec()).unwrap_or_default();
        let held = opened.runtime.store().held().ok();
        super::close(&opened.runtime);
        Ok(Self { hooks, tools, servers, unknown, held, nav: opened.nav, broken: opened.broken })
    }

    fn tools_as_text(&self) -> String {
        let Status { loaded, failed, aside, python, own_python, uv } = &self.tools;
        let shown = |path: &Option<std::path::PathBuf>| {
            path.as_ref().map_or("not found".to_owned(), |it| it.display().to_string())
        };
        let mut text = format!(
            "{loaded} loaded, {failed} failed, {aside} ignored until `haft trust`\nPython: {}; uv: {}\n",
            shown(python),
            shown(uv)
        );
        if own_python.is_some() {
            text.push_str(&format!("Python of this workspace's tools: {}\n", shown(own_python)));
        }
        self.unknown.iter().for_each(|line| text.push_str(&format!("{line}\n")));
        text
    }
}

impl Report {
    fn as_text(&self) -> String {
        let mut text = format!("haft {}\n", env!("CARGO_PKG_VERSION"));
        self.places.iter().for_each(|(name, path)| text.push_str(&format!("  {name:<13}  {path}\n")));
        let findings: String = self.findings.iter().map(Finding::as_text).collect();
        section(&mut text, "Guarantees, each tried in a workspace of its own", &findings);
        let models = match (&self.models, &self.workspace) {
            (Ok(models), _) => models.as_text(),
            (Err(_), Err(_)) => "unknown: no configuration can be read, as said below\n".to_owned(),
            (Err(fault), Ok(_)) => fault.as_text(),
        };
        section(&mut text, "Models and keys", &models);
        let programs: String = self.programs.iter().map(Program::as_text).collect();
        section(&mut text, "Optional programs (ripgrep and ssh are built in)", &programs);
        let broken = self.workspace.iter().flat_map(|it| [&it.broken.own, &it.broken.workspace]).flatten();
        for fault in broken {
            section(&mut text, "A configuration file is not used", &fault.as_text());
        }
        match &self.workspace {
            Ok(workspace) => {
                section(&mut text, "Your own tools", &workspace.tools_as_text());
                if !workspace.hooks.is_empty() {
                    section(&mut text, "Hooks", &super::hooks::listed(&workspace.hooks));
                }
                if !workspace.nav.is_empty() {
                    let lines: String = workspace.nav.iter().map(|line| format!("{line}\n")).collect();
                    section(&mut text, "nav's configuration", &lines);
                }
                let servers: String = workspace.servers.iter().map(Server::as_text).collect();
                let none = "none; `haft config mcp.files` explains how to add one\n";
                section(
                    &mut text,
                    "MCP servers that haft uses",
                    if servers.is_empty() { none } else { &servers },
                );
            }
            Err(fault) => section(&mut text, "This workspace can't be used", &fault.as_text()),
        }
        section(&mut text, "MCP clients that can use haft", &self.clients.as_text());
        if let Some(next) = self.next() {
            text.push_str(&format!("\nNext: {next}\n"));
        }
        text
    }

    fn as_json(&self) -> Value {
        let list = |items: Vec<Value>| Value::Array(items);
        let fault = |fault: &Fault| json!({"error": fault.as_text()});
        let tools = |workspace: &Workspace| {
            let it = &workspace.tools;
            json!({"loaded": it.loaded, "failed": it.failed, "ignored": it.aside, "python": it.python,
                "workspace_python": it.own_python, "uv": it.uv, "unknown": workspace.unknown})
        };
        let workspace = self.workspace.as_ref();
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "configuration_error": self.problem().map(Fault::as_text),
            "findings": list(self.findings.iter().map(Finding::as_json).collect()),
            "models": self.models.as_ref().map_or_else(fault, Models::as_json),
            "programs": list(self.programs.iter().map(Program::as_json).collect()),
            "tool_files": workspace.map_or_else(&fault, tools),
            "nav_config": workspace.map_or_else(&fault, |it| json!(it.nav)),
            "mcp_servers": workspace
                .map_or_else(fault, |it| list(it.servers.iter().map(Server::as_json).collect())),
            "hooks": workspace
                .map_or_else(&fault, |it| list(it.hooks.iter().map(super::hooks::as_json).collect())),
            "mcp_clients": self.clients.as_json(),
            "next": self.next(),
        })
    }

    /// Returns the fault of the workspace or of its configuration files.
    fn problem(&self) -> Option<&Fault> {
        self.workspace.as_ref().map_or_else(Some, |it| it.broken.first())
    }

    /// Returns the next step for the person, or `None` if there is none.
    fn next(&self) -> Option<String> {
        let broken: Vec<&str> = self.findings.iter().filter(|it| it.is_broken()).map(|it| it.name).collect();
        if !broken.is_empty() {
            return Some(format!("{} BROKEN on this machine: see the reason above", broken.join(", ")));
        }
        let workspace = match &self.workspace {
            Ok(workspace) => workspace,
            Err(fault) => return fault.next.clone().or_else(|| Some(fault.what.clone())),
        };
        if let Some(fault) = workspace.broken.first() {
            return fault.next.clone().or_else(|| Some(fault.what.clone()));
        }
        if workspace.tools.failed > 0 {
            return Some("`haft reload-tools` shows why tools failed to load".to_owned());
        }
        if !workspace.unknown.is_empty() {
            return Some(
                "correct the names of tools in haft.toml: `haft config tools` shows the file".to_owned(),
            );
        }
        let models = match &self.models {
            Ok(models) => models,
            Err(fault) => return fault.next.clone().or_else(|| Some(fault.what.clone())),
        };
        if let Some(remedy) = models.remedy() {
            return Some(remedy);
        }
        if let Some(model) = models.suggested().filter(|_| !self.clients.is_installed()) {
            return Some(format!("`haft chat --model {model}` uses the model on this machine"));
        }
        match (self.clients.is_installed(), models.is_usable(), self.clients.lacking()) {
            (true, ..) | (_, true, _) => None,
            (false, false, Some(client)) => Some(format!(
                "`haft mcp install {client}`, or `haft login anthropic` for an agent of haft's own"
            )),
            (false, false, None) => {
                Some("`haft login anthropic` or another provider; without a key: `haft demo`".to_owned())
            }
        }
    }
}

impl Finding {
    fn is_broken(&self) -> bool {
        matches!(self.state, State::Broken(_))
    }
}

/// Returns a list, wrapped to lines that fit a terminal next to a name.
fn in_lines(names: &[&str]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for name in names {
        match lines.last_mut() {
            Some(line) if line.len() + name.len() < 62 => line.push_str(&format!(", {name}")),
            Some(line) => {
                line.push(',');
                lines.push((*name).to_owned());
            }
            None => lines.push((*name).to_owned()),
        }
    }
    lines
}

/// Adds a section with its lines indented.
fn section(text: &mut String, title: &str, lines: &str) {
    text.push_str(&format!("\n{title}\n"));
    lines.lines().filter(|it| !it.is_empty()).for_each(|line| text.push_str(&format!("  {line}\n")));
}

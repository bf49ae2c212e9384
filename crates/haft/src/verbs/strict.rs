//! `--strict`: refuses to begin unless all tools are there.

use std::sync::Arc;

use agent::model::choose;
use clap::Args;
use kit::{Fault, Kind, counted};
use runtime::{Session, Unattended};

use super::{all_seen, close};
use crate::{Opened, Place};

#[derive(Debug, Clone, Copy, Default, Args)]
pub struct Strict {
    /// Fail unless all tools are there: none is ignored, all load, and haft.toml names no unknown tool
    #[arg(long)]
    pub(crate) strict: bool,
}

impl Strict {
    /// Waits until all tools are loaded, and checks that none is missing. Does nothing without `--strict`.
    ///
    /// # Errors
    /// When a tool is missing; then the runtime is closed.
    pub(crate) async fn require(self, opened: &Opened, place: &Place) -> Result<(), Fault> {
        if !self.strict {
            return Ok(());
        }
        opened.runtime.plugins().refreshed().await;
        // Tools that a profile or a saved conversation leaves out are not missing.
        let session = opened.runtime.session(None, "cli", Arc::new(Unattended));
        offer_own_tools(&session, opened, place);
        let there = all_there(opened, &session);
        if there.is_err() {
            close(&opened.runtime);
        }
        there
    }
}

/// Shows in this session the tools that the configured model's provider runs.
pub(super) fn offer_own_tools(session: &Session, opened: &Opened, place: &Place) {
    let choices = opened.agents.choices(&place.variables);
    let model = opened.agents.agent.model.as_ref().and_then(|name| choose(name, choices).ok());
    if let Some(model) = model {
        agent::provider_tools::offer(session, model.abilities());
    }
}

/// Checks that no tool is missing in a session that nothing narrows.
///
/// # Errors
/// When a tool is missing; the fault names each.
pub(super) fn all_there(opened: &Opened, session: &Session) -> Result<(), Fault> {
    let catalog = session.catalog();
    let failed = catalog.failed().iter().filter(|it| !is_of_agents(opened, &it.tool));
    let failed = failed.map(|it| format!("`{}`: {}", it.tool, it.why));
    let missing: Vec<String> = failed.chain(unknown_names(opened, session)).collect();
    if !missing.is_empty() {
        let are = if missing.len() == 1 { "is" } else { "are" };
        let count = counted(missing.len(), "tool");
        return Err(Fault::new(
            Kind::Unavailable,
            format!("{count} {are} missing, and `--strict` requires all:\n{}", missing.join("\n")),
        ));
    }
    if let Some(fault) = opened.broken.first() {
        return Err(Fault::new(fault.kind, fault.what.clone()));
    }
    all_seen(opened)
}

/// Returns a line for each name in haft.toml, outside of `tools`, that no tool has. An MCP server that has not started yet
/// may still add its tools.
pub(super) fn unknown_names(opened: &Opened, session: &Session) -> Vec<String> {
    let (catalog, policy) = (session.catalog(), opened.runtime.policy());
    let named = [
        ("`listed`", opened.listed.pinned.clone()),
        ("`manual_first`", policy.manual_first.to_vec()),
        ("a `[tool.NAME]` section", opened.runtime.plugins().names_of_sections()),
    ];
    let may_come = |name: &str| name.contains("__") && !opened.runtime.plugins().servers().list().is_empty();
    let lines = named.into_iter().flat_map(|(place, names)| names.into_iter().map(move |name| (place, name)));
    lines
        .filter(|(_, name)| !catalog.has(name) && !may_come(name) && !is_of_agents(opened, name))
        .map(|(place, name)| format!("{place} in haft.toml names the unknown tool `{name}`"))
        .collect()
}

/// Returns whether this is a tool that only agents and MCP clients have; commands that call tools directly lack it.
fn is_of_agents(opened: &Opened, name: &str) -> bool {
    tools::of_agents(&opened.toolset).iter().any(|it| it.spec().name == name)
}

//! Needs of a session, and what a worker has: tool files and MCP servers by hash, secrets and profiles by name.

use std::{collections::BTreeSet, sync::Arc};

use agent::profiles::{Origin, Profiles};
use engine::Need;
use runtime::{Runtime, Session, Unattended};

use crate::Opened;

/// Returns what a session of this workspace needs: every tool file and MCP server that its model would have, every secret, and
/// the profile if it is a file of the person. A profile of the workspace travels with it.
pub(crate) fn needs(opened: &Opened, profile: Option<&str>) -> BTreeSet<Need> {
    let session = opened.runtime.session(None, "run", Arc::new(Unattended));
    let profile = profile.or(opened.agents.agent.profile.as_deref());
    needs_of(&opened.runtime, &opened.profiles, &session, profile)
}

/// Returns the needs of a task with the tools of this session.
pub(super) fn needs_of(
    runtime: &Runtime,
    profiles: &Profiles,
    session: &Session,
    profile: Option<&str>,
) -> BTreeSet<Need> {
    let catalog = session.catalog();
    let mut needs = of_tools(runtime);
    needs.retain(|it| !matches!(it, Need::Tool { name, .. } if !catalog.has(name)));
    if let Some(profile) = profile.and_then(|name| profiles.read().find(name).ok())
        && matches!(profile.origin, Origin::Person(_))
    {
        needs.insert(Need::Profile { name: profile.name.clone() });
    }
    needs
}

/// Returns what a worker with this configuration has.
pub(crate) fn has(opened: &Opened) -> BTreeSet<Need> {
    let mut has = of_tools(&opened.runtime);
    let profiles = opened.profiles.read().profiles;
    let own = profiles.iter().filter(|it| matches!(it.origin, Origin::Person(_)));
    has.extend(own.map(|it| Need::Profile { name: it.name.clone() }));
    has
}

fn of_tools(runtime: &Runtime) -> BTreeSet<Need> {
    let plugins = runtime.plugins();
    let tools = plugins.hashes().into_iter().map(|(name, hash)| Need::Tool { name, hash });
    let servers = plugins.servers().list().into_iter().filter(|it| !it.section.disabled);
    let servers = servers.map(|it| {
        // The hash of its definition: values of variables are not in it, only their names.
        let definition = serde_json::to_vec(&it.section).unwrap_or_default();
        let hash = blake3::hash(&definition).to_hex().to_string();
        Need::McpServer { name: it.name.clone(), hash }
    });
    let secrets = runtime.secret_names().into_iter().map(|name| Need::Secret { name });
    tools.chain(servers).chain(secrets).collect()
}

/// Returns a need as a person reads it.
pub(super) fn shown(need: &Need) -> String {
    match need {
        Need::Tool { name, .. } => format!("the tool file `{name}` as you have it"),
        Need::Secret { name } => format!("the secret `{name}`"),
        Need::McpServer { name, .. } => format!("the MCP server `{name}` as you have it"),
        Need::Profile { name } => format!("the profile `{name}`"),
    }
}

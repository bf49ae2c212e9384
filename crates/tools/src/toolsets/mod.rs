//! Toolsets: tools under the names of other agents.
//!
//! A toolset gives the tools the names and arguments that one ecosystem's prompts and
//! models know, over the same implementations.

mod find;
mod hyperagents;
mod nav;
mod navi;
mod terrarium;

use std::sync::{Arc, LazyLock};

use kit::AnyTool;

#[cfg(feature = "ssh")]
use crate::remote;
use crate::{
    agents, cad, code, files, groups, importance::UNLISTED, jobs, manuals::manual, media, notes, search,
    servers, shell, toolsmith, triggers, web,
};

/// The default toolset.
pub const HAFT: &str = "haft";

/// The toolset of nav.
pub const NAV: &str = "nav";

type Make = fn() -> Vec<Arc<dyn AnyTool>>;

const TOOLSETS: [(&str, Make); 5] = [
    (HAFT, all),
    ("hyperagents", hyperagents::tools),
    (NAV, nav::tools),
    ("navi", navi::tools),
    ("terrarium", terrarium::tools),
];

/// Returns the tools of a toolset.
pub fn toolset(name: &str) -> Option<Vec<Arc<dyn AnyTool>>> {
    TOOLSETS.iter().find(|(known, _)| *known == name).map(|(_, make)| make())
}

/// Returns the tools of a toolset that need haft's own agent; an MCP client has its own agent and does not get them.
pub fn of_agents(name: &str) -> Vec<Arc<dyn AnyTool>> {
    match name {
        HAFT => [agents::all(), groups::all(), triggers::all()].concat(),
        NAV => nav::of_agents(),
        "navi" => navi::of_agents(),
        "terrarium" => terrarium::of_agents(),
        _ => Vec::new(),
    }
}

/// Returns those of [`of_agents`] that an MCP client gets too, if a person names them: not the triggers, as nothing
/// begins turns of a client's own agent.
pub fn of_clients(name: &str) -> Vec<Arc<dyn AnyTool>> {
    if name == HAFT {
        return [agents::all(), groups::all()].concat();
    }
    let mut tools = of_agents(name);
    tools.retain(|it| !UNLISTED.contains(&it.name()));
    tools
}

/// Returns the toolsets' names.
pub fn toolsets() -> impl Iterator<Item = &'static str> {
    TOOLSETS.iter().map(|(name, _)| *name)
}

/// Returns every tool, family by family.
pub fn all() -> Vec<Arc<dyn AnyTool>> {
    static ALL: LazyLock<Vec<Arc<dyn AnyTool>>> = LazyLock::new(make_all);
    ALL.clone()
}

fn make_all() -> Vec<Arc<dyn AnyTool>> {
    [
        files::all(),
        search::all(),
        shell::all(),
        code::all(),
        jobs::all(),
        notes::all(),
        toolsmith::all(),
        servers::all(),
        web::all(),
        #[cfg(feature = "ssh")]
        remote::all(),
        media::all(),
        cad::all(),
    ]
    .concat()
}

/// Returns the manual of a tool of this toolset, if there is one beyond its description: that of haft's own
/// tool with the same arguments, under the same or another name.
pub fn manual_in(toolset: &str, tool: &str) -> Option<&'static str> {
    if toolset == HAFT {
        return manual(tool);
    }
    let shown = shown_in(toolset);
    let shown = shown.iter().find(|it| it.name() == tool)?;
    let own = std::iter::once(tool).chain(shown.stands_for().iter().map(|it| it.tool));
    let own = own.filter_map(|own| Some((own, manual(own)?))).collect::<Vec<_>>();
    if own.is_empty() {
        return None;
    }
    let all = shown_in(HAFT);
    let is_same =
        |own: &str| all.iter().any(|it| it.name() == own && it.spec().schema == shown.spec().schema);
    own.into_iter().find(|(own, _)| is_same(own)).map(|(_, manual)| manual)
}

/// Returns the tools of a toolset, with those that need an agent.
pub fn shown_in(toolset: &str) -> Vec<Arc<dyn AnyTool>> {
    [self::toolset(toolset).unwrap_or_default(), of_agents(toolset)].concat()
}

//! Toolsets: tools under the names of other agents.
//!
//! A toolset gives the tools the names and arguments that one ecosystem's prompts and
//! models know, over the same implementations.

mod find;
mod hyperagents;
mod nav;
mod navi;
mod terrarium;

use std::sync::Arc;

use kit::AnyTool;

/// The default toolset.
pub const HAFT: &str = "haft";

/// The toolset of nav.
pub const NAV: &str = "nav";

type Make = fn() -> Vec<Arc<dyn AnyTool>>;

const TOOLSETS: [(&str, Make); 5] = [
    (HAFT, crate::all),
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
        HAFT => crate::agents::all(),
        NAV => nav::of_agents(),
        "navi" => navi::of_agents(),
        "terrarium" => terrarium::of_agents(),
        _ => Vec::new(),
    }
}

/// Returns the toolsets' names.
pub fn toolsets() -> impl Iterator<Item = &'static str> {
    TOOLSETS.iter().map(|(name, _)| *name)
}

//! The tools of navi-1, under its names, as far as there are any here.
//!
//! `todo`, `scratchpad` and `memory` have navi's names and arguments as they are.

mod filesystem;
mod spawn_agent;
mod switch_profile;
mod terminal;
mod test_tool;
mod tool_manual;

use std::sync::Arc;

use kit::{AnyTool, erase};

use crate::{
    agents::{list_profiles::ListProfiles, reflect::Reflect},
    code,
    notes::{Memory, Scratchpad, Todo},
    servers::McpStatus,
    toolsmith::{DeleteTool, ListTools, ReloadTools, WriteTool},
};

pub(super) fn tools() -> Vec<Arc<dyn AnyTool>> {
    vec![
        erase::<filesystem::Filesystem>(),
        erase::<terminal::Terminal>(),
        erase::<code::CodeExec>(),
        erase::<Todo>(),
        erase::<Scratchpad>(),
        erase::<Memory>(),
        erase::<WriteTool>(),
        erase::<DeleteTool>(),
        erase::<test_tool::TestTool>(),
        erase::<ListTools>(),
        erase::<tool_manual::ToolManual>(),
        erase::<ReloadTools>(),
        erase::<McpStatus>(),
    ]
}

/// Those that need an agent.
pub(super) fn of_agents() -> Vec<Arc<dyn AnyTool>> {
    vec![
        erase::<spawn_agent::SpawnAgent>(),
        erase::<ListProfiles>(),
        erase::<switch_profile::SwitchProfile>(),
        erase::<Reflect>(),
    ]
}

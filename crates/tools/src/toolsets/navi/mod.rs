//! The tools of navi-1, under its names, as far as there are any here.

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
    toolsmith::{DeleteTool, ListTools, ReloadTools, WriteTool},
};

pub(super) fn tools() -> Vec<Arc<dyn AnyTool>> {
    vec![
        erase::<terminal::Terminal>(),
        erase::<code::CodeExec>(),
        erase::<WriteTool>(),
        erase::<DeleteTool>(),
        erase::<test_tool::TestTool>(),
        erase::<ListTools>(),
        erase::<tool_manual::ToolManual>(),
        erase::<ReloadTools>(),
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

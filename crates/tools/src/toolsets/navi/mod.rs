//! The tools of navi-1, under its names.
//!
//! Most tools of haft have navi's names and arguments already; the others are here. Four tools that navi does
//! not have are listed as well.

mod filesystem;
mod folders;
mod spawn_agent;
mod switch_profile;
mod terminal;
mod test_tool;
mod tool_manual;
mod web_view;

use std::sync::Arc;

use kit::{AnyTool, erase};

use crate::{
    agents::{list_profiles::ListProfiles, reflect::Reflect},
    cad::{Model3d, Render3d, ScadLint},
    code,
    files::undo::Undo,
    jobs::{ReadJob, StopTask, Wait},
    media::{ContentPublish, ImageView, ShareFile},
    notes::{Memory, Scratchpad, Todo},
    servers::McpStatus,
    toolsmith::{DeleteTool, ListTools, ReloadTools, WriteTool},
    web::{http_request::HttpRequest, web_search::WebSearch},
};

pub(super) fn tools() -> Vec<Arc<dyn AnyTool>> {
    let own = vec![
        erase::<WebSearch>(),
        erase::<web_view::WebView>(),
        erase::<filesystem::Filesystem>(),
        erase::<HttpRequest>(),
        erase::<terminal::Terminal>(),
        erase::<code::CodeExec>(),
        erase::<ImageView>(),
        erase::<Todo>(),
        erase::<Scratchpad>(),
        erase::<Memory>(),
        erase::<WriteTool>(),
        erase::<DeleteTool>(),
        erase::<test_tool::TestTool>(),
        erase::<ListTools>(),
        erase::<tool_manual::ToolManual>(),
        erase::<ReloadTools>(),
        erase::<ShareFile>(),
        erase::<ContentPublish>(),
        erase::<Model3d>(),
        erase::<ScadLint>(),
        erase::<Render3d>(),
        erase::<McpStatus>(),
        // Besides navi's own: tools for a command in the background.
        erase::<ReadJob>(),
        erase::<Wait>(),
        erase::<StopTask>(),
        // And undo for file changes.
        erase::<Undo>(),
    ];
    #[cfg(feature = "ssh")]
    let own = [own, crate::remote::all()].concat();
    own
}

/// Returns the tools that need an agent.
pub(super) fn of_agents() -> Vec<Arc<dyn AnyTool>> {
    vec![
        erase::<spawn_agent::SpawnAgent>(),
        erase::<ListProfiles>(),
        erase::<switch_profile::SwitchProfile>(),
        erase::<Reflect>(),
    ]
}

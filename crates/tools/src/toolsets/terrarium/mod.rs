//! The tools of KohakuTerrarium, under its names.

mod ask_user;
mod bash;
mod critic;
mod difference;
mod edit;
mod explore;
mod gitignore;
mod glob;
mod grep;
mod guard;
mod info;
mod jobs;
mod json_read;
mod json_write;
mod modes;
mod multi_edit;
mod notebook_edit;
mod notebook_read;
mod read;
mod scratchpad;
mod search_memory;
mod show_card;
mod tree;
mod web_fetch;
mod write;

use std::sync::Arc;

use kit::{AnyTool, erase};

use crate::{
    agents::subagent::Subagent, code, groups, jobs::ContinueJob, triggers, web::web_search::WebSearch,
};

/// Returns them. The framework's commands `info`, `jobs`, `read_job` and `wait` are tools here.
pub(super) fn tools() -> Vec<Arc<dyn AnyTool>> {
    vec![
        erase::<bash::Bash>(),
        erase::<code::TerrariumPython>(),
        erase::<read::Read>(),
        erase::<write::Write>(),
        erase::<edit::Edit>(),
        erase::<multi_edit::MultiEdit>(),
        erase::<glob::Glob>(),
        erase::<grep::Grep>(),
        erase::<tree::Tree>(),
        erase::<json_read::JsonRead>(),
        erase::<json_write::JsonWrite>(),
        erase::<notebook_read::NotebookRead>(),
        erase::<notebook_edit::NotebookEdit>(),
        erase::<web_fetch::WebFetch>(),
        erase::<WebSearch>(),
        erase::<scratchpad::Scratchpad>(),
        erase::<search_memory::SearchMemory>(),
        erase::<info::Info>(),
        erase::<jobs::Jobs>(),
        erase::<jobs::ReadJob>(),
        erase::<jobs::Wait>(),
        erase::<jobs::StopTask>(),
        erase::<ContinueJob>(),
    ]
}

/// Returns the tools that need an agent.
pub(super) fn of_agents() -> Vec<Arc<dyn AnyTool>> {
    let mut tools = groups::all();
    tools.extend([
        erase::<explore::Explore>(),
        erase::<critic::Critic>(),
        // KohakuTerrarium calls each sub-agent by its name; a person's own profiles are named in the call.
        erase::<Subagent>(),
        erase::<ask_user::AskUser>(),
        erase::<show_card::ShowCard>(),
    ]);
    // A creature has them where its configuration names them: they are found by search.
    tools.extend(triggers::upstream());
    tools
}

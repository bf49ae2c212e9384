//! The tools of KohakuTerrarium, under its names, as far as there are any here.

mod ask_user;
mod bash;
mod critic;
mod explore;

use std::sync::Arc;

use kit::{AnyTool, erase};

use crate::{code, jobs};

/// Its framework's commands `jobs`, `read_job`, `wait` and `stop_task` are tools here.
pub(super) fn tools() -> Vec<Arc<dyn AnyTool>> {
    [vec![erase::<bash::Bash>(), erase::<code::TerrariumPython>()], jobs::all()].concat()
}

/// Those that need an agent.
pub(super) fn of_agents() -> Vec<Arc<dyn AnyTool>> {
    vec![erase::<explore::Explore>(), erase::<critic::Critic>(), erase::<ask_user::AskUser>()]
}

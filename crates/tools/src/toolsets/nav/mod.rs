//! The tools of nav, under its names.
//!
//! `read`, `write`, `skim` and `filegrep` have nav's names and arguments as they are.

mod edit;
mod shell;
mod shell_status;
mod subagent;

use std::sync::Arc;

use kit::{AnyTool, erase};

use crate::{agents::ask_user::AskUser, files};

pub(super) fn tools() -> Vec<Arc<dyn AnyTool>> {
    vec![
        erase::<files::read::Read>(),
        erase::<edit::Edit>(),
        erase::<files::write::Write>(),
        erase::<files::skim::Skim>(),
        erase::<files::filegrep::Filegrep>(),
        erase::<shell::Shell>(),
        erase::<shell_status::ShellStatus>(),
    ]
}

/// Those that need an agent.
pub(super) fn of_agents() -> Vec<Arc<dyn AnyTool>> {
    vec![erase::<subagent::Subagent>(), erase::<AskUser>()]
}

//! The tools of nav, under its names.
//!
//! `read` has nav's arguments as it is; the others wrap what haft has.

mod ask_user;
mod edit;
mod filegrep;
mod in_order;
mod older;
mod read;
mod shell;
mod shell_status;
mod skim;
mod started;
mod subagent;
mod write;

use std::sync::Arc;

use kit::{AnyTool, erase};

pub(super) fn tools() -> Vec<Arc<dyn AnyTool>> {
    vec![
        erase::<read::Read>(),
        erase::<edit::Edit>(),
        erase::<write::Write>(),
        erase::<skim::Skim>(),
        erase::<filegrep::Filegrep>(),
        erase::<shell::Shell>(),
        erase::<shell_status::ShellStatus>(),
    ]
}

/// Returns the tools that need an agent.
pub(super) fn of_agents() -> Vec<Arc<dyn AnyTool>> {
    vec![erase::<subagent::Subagent>(), erase::<ask_user::AskUser>()]
}

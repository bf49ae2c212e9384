//! The tools by which an agent reaches itself, others, and its person.

pub(crate) mod ask_user;
pub(crate) mod list_profiles;
pub(crate) mod reflect;
pub(crate) mod report;
pub(crate) mod subagent;
pub(crate) mod switch_profile;

use std::sync::Arc;

use kit::{AnyTool, erase};

/// In the order in which they are shown.
pub(crate) fn all() -> Vec<Arc<dyn AnyTool>> {
    vec![
        erase::<subagent::Subagent>(),
        erase::<list_profiles::ListProfiles>(),
        erase::<switch_profile::SwitchProfile>(),
        erase::<ask_user::AskUser>(),
        erase::<reflect::Reflect>(),
    ]
}

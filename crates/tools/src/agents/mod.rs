//! Tools by which an agent uses its own profiles, subagents, and its person.

pub(crate) mod ask_user;
pub(crate) mod list_profiles;
pub(crate) mod reflect;
pub(crate) mod report;
pub(crate) mod subagent;
pub(crate) mod switch_profile;

use std::sync::Arc;

use kit::{AnyTool, Kinds, erase};

/// The kinds of a subagent's work, which may be anything. Its calls are calls of their own, with their own
/// rules and locks.
pub(crate) const DELEGATED: Kinds = Kinds::WRITE.with(Kinds::RUN).with(Kinds::NET).with(Kinds::SESSION);

/// Returns the tools of this family, in the order in which they are shown.
pub(crate) fn all() -> Vec<Arc<dyn AnyTool>> {
    vec![
        erase::<subagent::Subagent>(),
        erase::<list_profiles::ListProfiles>(),
        erase::<switch_profile::SwitchProfile>(),
        erase::<ask_user::AskUser>(),
        erase::<reflect::Reflect>(),
    ]
}

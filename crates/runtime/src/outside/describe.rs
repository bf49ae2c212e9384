//! What do Python files say that they are?

use std::sync::Arc;

use kit::{Fault, Kind};

use super::{Described, Version};
use crate::ground::Ground;

/// Asks each of these files in a process of its own; gives for each what it says, or the traceback.
pub(crate) async fn describe(
    _ground: &Ground,
    files: &[Arc<Version>],
) -> Vec<Result<Vec<Described>, String>> {
    files.iter().map(|it| Err(format!("{} can't be asked yet", it.path.display()))).collect()
}

/// Tries code that is meant to be the tool `name`, as [`kit::services::Tools::check`] promises. The version is of the
/// file that it would be.
///
/// # Errors
/// [`Kind::BadArgs`] with everything that is missing, or the traceback.
pub(crate) async fn check(_ground: &Ground, draft: &Arc<Version>, name: &str) -> Result<Described, Fault> {
    Err(Fault::new(Kind::Unavailable, format!("`{name}` of {} can't be checked yet", draft.path.display())))
}

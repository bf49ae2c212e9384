//! Folder check: the places that a change of a whole folder touches; refuses a folder with a control file in it.

use kit::{
    Fault,
    files::{Access, Location},
};
use policy::Want;

use crate::session_state::SessionState;

/// Returns the places below `path` that a call needs to change it as a whole, or to make it like the folder
/// `like`.
///
/// Refuses a folder with a control file or a repository in it: a person who approves the folder has not seen them.
///
/// # Errors
/// [`Kind::Denied`](kit::Kind::Denied) when a control file is among them; those of
/// [`tree_places`](kit::files::Roots::tree_places).
pub(super) fn places(session: &SessionState, path: &str, like: Option<&str>) -> Result<Vec<Location>, Fault> {
    let policy = session.policy();
    let below = session.roots().tree_places(path, like)?.split_off(1);
    for place in &below {
        let is_git = place.relative().file_name().is_some_and(|it| it.eq_ignore_ascii_case(".git"));
        if is_git || policy.asks(&Want::Place(place.clone(), Access::Write)) {
            let what = format!(
                "`{place}` is a control file or a part of a repository, so the folder is not changed as a whole \
                 (rule `control_files`)"
            );
            return Err(Fault::denied(what).next(
                "Take what else is in it, by name: control files are changed one by one, after approval.",
            ));
        }
    }
    Ok(below)
}

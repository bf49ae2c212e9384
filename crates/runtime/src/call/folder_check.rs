//! A folder as a whole, as a call wants to change it: which places that are, and whether one of them speaks against it.

use kit::{
    Fault,
    files::{Access, Location},
};
use policy::Want;

use crate::session_state::SessionState;

/// The places below `path` that a call needs to change it as a whole, or to make it like the folder `like`.
///
/// A control file among them is a matter of its own: nobody who says yes to the folder has seen it.
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

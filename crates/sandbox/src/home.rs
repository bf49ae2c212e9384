//! The home folder of the user who runs haft.

use std::path::{Path, PathBuf};

/// System folders, which are the same for every user, as far as they exist.
pub(crate) const SYSTEM: &[&str] = &[
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/gnu", "/snap",
];

/// Returns the home folder of the user who runs haft, without symlinks.
pub fn home(variables: &[(String, String)]) -> Option<PathBuf> {
    let home = variables.iter().find(|(name, _)| name == "HOME").map(|(_, value)| PathBuf::from(value))?;
    let home = home.canonicalize().ok()?;
    // A service's "home" may be `/`, and a private `/` would leave no machine at all.
    (home.is_dir() && home.components().count() > 1 && !SYSTEM.iter().any(|it| Path::new(it) == home))
        .then_some(home)
}

//! State folder: haft uses it only if it belongs to this user and nobody else can write to it.
//!
//! It holds grants, trusted workspaces and keys. Anyone who can write there controls the permissions of tools.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _},
    path::Path,
};

use kit::{Fault, Kind};

use crate::{Place, print};

/// The mode bits with which others than the owner may write.
const OTHERS_WRITE: u32 = 0o022;
/// The mode of the folder.
const PRIVATE: u32 = 0o700;

/// Creates the folder, and its parents, for this user alone.
///
/// # Errors
/// When the file system refuses.
pub(crate) fn make(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(PRIVATE).create(folder)
}

/// Checks the state folder, and removes the write permission of others if this user owns the folder.
///
/// # Errors
/// [`Kind::Denied`] when it belongs to another user, or stays writable by others.
pub(crate) fn check(place: &Place) -> Result<(), Fault> {
    let folder = &place.state;
    // If the folder is missing, it is created when it is needed, which reports its own errors.
    let Ok(about) = fs::metadata(folder) else { return Ok(()) };
    let me = rustix::process::geteuid().as_raw();
    if about.uid() != me {
        return Err(refused(folder, &format!("belongs to user {}, and haft runs as user {me}", about.uid())));
    }
    let mode = about.mode() & 0o7777;
    if mode & OTHERS_WRITE == 0 {
        return Ok(());
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(PRIVATE)).map_err(|error| {
        refused(
            folder,
            &format!("is writable by other users (mode {mode:o}), and that can't be changed: {error}"),
        )
    })?;
    print::err(&format!(
        "haft: the state folder `{}` was writable by other users (mode {mode:o}) and is private now; `haft grants` shows \
         the permissions in it",
        folder.display()
    ));
    Ok(())
}

fn refused(folder: &Path, why: &str) -> Fault {
    Fault::new(Kind::Denied, format!("the state folder `{}` {why}", folder.display())).next(
        "Choose a folder of your own with HAFT_STATE_DIR, or change the owner: `chown -R \"$USER\" FOLDER`.",
    )
}

//! Unix sockets of owners: one per process and workspace, in the state folder, for this user alone.
//!
//! The folder is private (0700), the socket too (0600), and each end checks who the other is. A path that is longer than the
//! kernel takes is reached through the handle of its folder.

use std::{
    io,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::{ffi::OsStrExt as _, fs::PermissionsExt as _},
    },
    path::{Path, PathBuf},
};

use kit::{Fault, Kind};
use rustix::fs::{Mode, OFlags};
use store::{Store, corpse, create_folder};
use tokio::net::{UnixListener, UnixStream};

/// The longest path of a socket's address: `sun_path` has 108 bytes, one of which ends it.
const LONGEST: usize = 107;

/// The sockets of a workspace's owners.
pub(crate) fn folder(store: &Store) -> PathBuf {
    store.folder().join("sockets")
}

/// A socket that listens. Dropped, its file goes.
pub(crate) struct Listening {
    pub(crate) listener: UnixListener,
    path: PathBuf,
}

impl Drop for Listening {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.path));
    }
}

/// Makes the socket of this name. Sockets of processes that are dead are removed.
///
/// # Errors
/// When it can't be made.
pub(crate) fn listen(store: &Store, name: &str) -> Result<Listening, Fault> {
    let folder = folder(store);
    let path = folder.join(name);
    let failed = |error: io::Error| {
        Fault::new(Kind::Unavailable, format!("the socket {} can't be made: {error}", path.display()))
    };
    create_folder(&folder).map_err(failed)?;
    remove_dead(store, &folder, name);
    let (address, _handle) = address(&folder, name).map_err(failed)?;
    let listener = UnixListener::bind(address).map_err(failed)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    Ok(Listening { listener, path })
}

/// Connects to the socket of this name.
///
/// # Errors
/// When nobody listens there, or somebody else than this user.
pub(crate) async fn connect(folder: &Path, name: &str) -> io::Result<UnixStream> {
    // A name from the database leads nowhere else.
    if name.contains('/') || name.starts_with('.') {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let (address, _handle) = address(folder, name)?;
    let stream = UnixStream::connect(address).await?;
    if is_ours(&stream) { Ok(stream) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

/// Returns whether the other end is a process of this user.
pub(crate) fn is_ours(stream: &UnixStream) -> bool {
    let me = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|it| it.uid() == me)
}

/// The address of a socket: its path, or one through its folder's handle where that is too long. It counts as long as the
/// handle is held.
fn address(folder: &Path, name: &str) -> io::Result<(PathBuf, Option<OwnedFd>)> {
    let path = folder.join(name);
    if path.as_os_str().as_bytes().len() <= LONGEST {
        return Ok((path, None));
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let handle = rustix::fs::open(folder, flags, Mode::empty())?;
    let path = Path::new("/proc/self/fd").join(handle.as_raw_fd().to_string()).join(name);
    Ok((path, Some(handle)))
}

fn remove_dead(store: &Store, folder: &Path, own: &str) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|it| *it != own) else { continue };
        // A socket is named for the life of its process.
        let instance = name.split('.').next().unwrap_or_default();
        if instance != store.instance() && corpse(&store.live_folder(), instance).is_some() {
            drop(std::fs::remove_file(entry.path()));
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::sync::Arc;

    use kit::redact::Secrets;

    use super::*;

    #[tokio::test]
    async fn a_socket_is_private_and_reached_below_a_long_state_folder_too() {
        let folder = tempfile::tempdir().unwrap();
        for state in [folder.path().to_owned(), folder.path().join("x".repeat(150))] {
            let store = Store::open(&state, Path::new("/nowhere/w"), Arc::new(Secrets::none()));
            let listening = listen(&store, "one").unwrap();
            let path = super::folder(&store).join("one");
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            assert_eq!(
                std::fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777,
                0o700
            );
            let connecting = connect(path.parent().unwrap(), "one").await.unwrap();
            let (accepted, _) = listening.listener.accept().await.unwrap();
            assert!(is_ours(&accepted) && is_ours(&connecting));
            assert!(connect(path.parent().unwrap(), "../one").await.is_err());
            drop(listening);
            assert!(!path.exists() && connect(path.parent().unwrap(), "one").await.is_err());
        }
    }

    #[tokio::test]
    async fn sockets_of_dead_processes_are_removed_and_of_living_ones_kept() {
        let state = tempfile::tempdir().unwrap();
        let open = || Store::open(state.path(), Path::new("/nowhere/w"), Arc::new(Secrets::none()));
        let (one, other) = (open(), open());
        one.flush().await.unwrap();
        other.flush().await.unwrap();
        let living = listen(&other, other.instance()).unwrap();
        std::fs::write(super::folder(&one).join("dead"), "").unwrap();
        let _listening = listen(&one, one.instance()).unwrap();
        assert!(!super::folder(&one).join("dead").exists() && living.path.exists());
    }
}

//! The sandbox layout for bubblewrap, on machines that allow namespaces to it but not to haft.
//!
//! bubblewrap makes the namespaces and the mounts; the keeper that it starts does the rest. Its known leaks
//! are closed: it gets no environment from haft, the keeper keeps no capability, `/proc` is read-only, and no
//! folder with sockets is bound.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use super::layout::{Access, Mount, What};

/// The keeper's program, inside the sandbox.
const PROGRAM: &str = "/run/haft-keeper";

/// Finds bubblewrap in the folders of a `PATH`.
pub fn find(path: &str) -> Option<PathBuf> {
    let folders = path.split(':').map(Path::new).filter(|it| it.is_absolute());
    folders.map(|it| it.join("bwrap")).find(|it| it.is_file())
}

/// Returns the arguments with which bubblewrap starts `program` as the keeper. `scratch` is a folder for
/// content that has to be a file before it can be a mount.
///
/// # Errors
/// When such a file can't be written.
pub fn arguments(mounts: &[Mount], program: &Path, scratch: &Path) -> io::Result<Vec<OsString>> {
    let mut given = Arguments::default();
    for flag in [
        "--unshare-user-try",
        "--unshare-pid",
        "--unshare-net",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
        "--as-pid-1",
        "--clearenv",
    ] {
        given.flag(flag);
    }
    given.pair("--cap-drop", "ALL");
    // The keeper drops it, together with everything that it could restore.
    given.pair("--cap-add", "CAP_SETPCAP");
    let empty = scratch.join("empty");
    fs::write(&empty, "")?;
    let shut_file = scratch.join("shut");
    if !shut_file.exists() {
        fs::write(&shut_file, "")?;
        fs::set_permissions(&shut_file, fs::Permissions::from_mode(0o000))?;
    }
    let mut sealed = Vec::new();
    for (number, mount) in mounts.iter().enumerate() {
        let at = mount.at.as_path();
        // bubblewrap makes its own `/dev`, with the same devices.
        if at.starts_with("/dev") && at != Path::new("/dev") && at != Path::new("/dev/shm") {
            continue;
        }
        match &mount.what {
            _ if at == Path::new("/dev") => given.pair("--dev", at),
            What::Bind { from, access: Access::Write } => given.mount("--bind-try", from, at),
            What::Bind { from, .. } => given.mount("--ro-bind-try", from, at),
            What::Private { bytes, mode, sealed: seal, shared } => {
                // bubblewrap can't mount one file system in several places, so each gets a part of the limit.
                let part = if *shared { bytes / count_of_shared(mounts) } else { *bytes };
                given.pair("--perms", format!("{mode:o}"));
                given.pair("--size", part.to_string());
                given.pair("--tmpfs", at);
                sealed.extend(seal.then_some(at));
            }
            What::Hidden { folder: true, .. } => {
                given.pair("--tmpfs", at);
                sealed.push(at);
            }
            What::Hidden { folder: false, shut } => {
                given.mount("--ro-bind", if *shut { &shut_file } else { &empty }, at);
            }
            What::Link(to) => given.mount("--symlink", to, at),
            What::Text(text) => {
                let file = scratch.join(format!("text-{number}"));
                fs::write(&file, text)?;
                given.mount("--ro-bind", &file, at);
            }
            What::Processes => {
                given.pair("--proc", at);
                sealed.push(at);
            }
            // Plans with these are not for bubblewrap.
            What::Terminals | What::Overlay { .. } | What::Pinned => {}
        }
    }
    given.mount("--ro-bind", program, Path::new(PROGRAM));
    for at in sealed {
        given.pair("--remount-ro", at);
    }
    given.pair("--remount-ro", "/");
    given.pair("--chdir", "/");
    given.flag("--");
    given.flag(PROGRAM);
    Ok(given.0)
}

/// Returns the number of private folders that share one size limit.
fn count_of_shared(mounts: &[Mount]) -> u64 {
    let shared = mounts.iter().filter(|it| matches!(it.what, What::Private { shared: true, .. }));
    (shared.count() as u64).max(1)
}

#[derive(Default)]
struct Arguments(Vec<OsString>);

impl Arguments {
    fn flag(&mut self, flag: &str) {
        self.0.push(flag.into());
    }

    fn pair(&mut self, flag: &str, value: impl Into<OsString>) {
        self.0.extend([flag.into(), value.into()]);
    }

    fn mount(&mut self, flag: &str, from: &Path, at: &Path) {
        self.0.extend([flag.into(), from.into(), at.into()]);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_layout_is_sent_in_order_and_sealed_at_the_end() {
        let scratch = tempfile::tempdir().unwrap();
        let mount = |at: &str, what| Mount { at: at.into(), what };
        let bind = |at: &str, access| mount(at, What::Bind { from: at.into(), access });
        let mounts = [
            mount("/bin", What::Link("usr/bin".into())),
            mount("/dev", What::Private { bytes: 1, mode: 0o755, sealed: true, shared: false }),
            bind("/dev/null", Access::Device),
            mount("/proc", What::Processes),
            mount("/tmp", What::Private { bytes: 8192, mode: 0o1777, sealed: false, shared: true }),
            mount("/var/tmp", What::Private { bytes: 8192, mode: 0o1777, sealed: false, shared: true }),
            bind("/usr", Access::Read),
            bind("/ws", Access::Write),
            mount("/ws/.ssh", What::Hidden { folder: true, shut: false }),
        ];
        let said = arguments(&mounts, Path::new("/opt/haft"), scratch.path()).unwrap();
        let said: Vec<_> = said.iter().map(|it| it.to_str().unwrap()).collect();
        let said = said.join(" ");
        let (_, mounts) = said.split_once("--cap-add CAP_SETPCAP ").unwrap();
        assert_eq!(
            mounts,
            "--symlink usr/bin /bin --dev /dev --proc /proc --perms 1777 --size 4096 --tmpfs /tmp \
             --perms 1777 --size 4096 --tmpfs /var/tmp --ro-bind-try /usr /usr --bind-try /ws /ws --tmpfs /ws/.ssh --ro-bind /opt/haft /run/haft-keeper --remount-ro /proc --remount-ro /ws/.ssh \
             --remount-ro / --chdir / -- /run/haft-keeper"
        );
    }
}

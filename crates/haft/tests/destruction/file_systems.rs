//! The table on several file systems. Where the machine can't mount one, a line says that its test is skipped; where
//! it can and the mount fails, the test fails.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use kit::testing::needs::{Program, skipped_because, skips_test};

use super::table::all_hold;
use crate::support::TestWorkspace;

/// A mounted file system. It is unmounted at its end.
pub(super) struct Mount {
    /// The folder on which it is mounted.
    at: PathBuf,
    /// Holds that folder, and the image of a loop device.
    _folder: Option<tempfile::TempDir>,
}

impl Mount {
    pub(super) fn at(&self) -> &Path {
        &self.at
    }

    /// Mounts a new tmpfs; without the right to, it is the one of the system.
    pub(super) fn of_tmpfs(test: &str) -> Option<Self> {
        let shared = Path::new("/dev/shm");
        if !can_mount() && is_tmpfs(shared) {
            let folder = tempfile::tempdir_in(shared).ok()?;
            return Some(Self { at: folder.path().to_owned(), _folder: Some(folder) });
        }
        if is_skipped(test, "tmpfs") {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().to_owned();
        mount(&["-t", "tmpfs", "-o", "size=256m", "tmpfs"], &[&at]);
        Some(Self { at, _folder: Some(folder) })
    }

    /// Makes a file system on a loop device.
    fn on_loop(test: &str, kind: &str, maker: Program) -> Option<Self> {
        if skips_test(test, &[maker]) || is_skipped(test, kind) {
            return None;
        }
        if !Path::new("/dev/loop-control").exists() {
            skipped_because(test, "needs loop devices (/dev/loop-control)");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let (image, at) = (folder.path().join("image"), folder.path().join("at"));
        fs::File::create(&image).unwrap().set_len(512 << 20).unwrap();
        fs::create_dir(&at).unwrap();
        let maker = format!("/usr/sbin/mkfs.{kind}");
        let made = Command::new(maker).arg("-q").arg(&image).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        mount(&["-t", kind, "-o", "loop"], &[&image, &at]);
        Some(Self { at, _folder: Some(folder) })
    }

    /// Mounts an overlay over a folder, whose files are the lower ones.
    fn of_overlay(test: &str, over: &Path) -> Option<Self> {
        if is_skipped(test, "overlay") {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let (upper, work) = (folder.path().join("upper"), folder.path().join("work"));
        fs::create_dir(&upper).unwrap();
        fs::create_dir(&work).unwrap();
        let layers =
            format!("lowerdir={},upperdir={},workdir={}", over.display(), upper.display(), work.display());
        mount(&["-t", "overlay", "-o", &layers, "overlay"], &[over]);
        Some(Self { at: over.to_owned(), _folder: Some(folder) })
    }

    /// Mounts a tmpfs on a folder of the workspace.
    pub(super) fn of_tmpfs_at(test: &str, at: &Path) -> Option<Self> {
        if is_skipped(test, "tmpfs") {
            return None;
        }
        mount(&["-t", "tmpfs", "-o", "size=64m", "tmpfs"], &[at]);
        Some(Self { at: at.to_owned(), _folder: None })
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.at.starts_with("/dev/shm") {
            return;
        }
        let unmounted = Command::new("umount").arg(&self.at).output();
        if !unmounted.is_ok_and(|it| it.status.success()) {
            // A process that was killed may still have a folder of it.
            let _ = Command::new("umount").arg("-l").arg(&self.at).output();
        }
    }
}

#[track_caller]
fn mount(options: &[&str], paths: &[&Path]) {
    let done = Command::new("mount").args(options).args(paths).output().unwrap();
    assert!(done.status.success(), "this machine can mount, but mount {options:?} failed: {done:?}");
}

/// Returns whether this process may mount file systems: it has that capability, for the whole machine.
fn can_mount() -> bool {
    const SYS_ADMIN: u64 = 1 << 21;
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let capabilities = status.lines().find_map(|it| it.strip_prefix("CapEff:")).unwrap();
    let has = u64::from_str_radix(capabilities.trim(), 16).unwrap() & SYS_ADMIN != 0;
    let users = fs::read_to_string("/proc/self/uid_map").unwrap();
    has && users.split_whitespace().collect::<Vec<_>>() == ["0", "0", "4294967295"]
}

/// Returns whether the test is skipped, as the machine can't mount this, and reports it.
fn is_skipped(test: &str, kind: &str) -> bool {
    if !can_mount() {
        skipped_because(test, &format!("needs root, to mount {kind}"));
        return true;
    }
    let is_known = || {
        let known = fs::read_to_string("/proc/filesystems").unwrap();
        known.lines().any(|it| it.split_whitespace().last() == Some(kind))
    };
    if !is_known() {
        let _ = Command::new("modprobe").arg(kind).output();
    }
    if !is_known() {
        skipped_because(test, &format!("needs {kind} in the kernel"));
        return true;
    }
    false
}

fn is_tmpfs(folder: &Path) -> bool {
    const TMPFS: u64 = 0x0102_1994;
    rustix::fs::statfs(folder).is_ok_and(|it| it.f_type.cast_unsigned() == TMPFS)
}

/// Returns the name of a test, as libtest has it.
macro_rules! name_of {
    ($name:ident) => {
        concat!("destruction::file_systems::", stringify!($name))
    };
}

#[test]
fn table_holds_in_the_temporary_folder() {
    all_hold(name_of!(table_holds_in_the_temporary_folder), &TestWorkspace::new(), || {});
}

#[test]
fn table_holds_on_tmpfs() {
    let test = name_of!(table_holds_on_tmpfs);
    let Some(mount) = Mount::of_tmpfs(test) else { return };
    all_hold(test, &TestWorkspace::new_in(mount.at()), || {});
}

#[test]
fn table_holds_on_overlayfs_whose_lower_layer_has_the_files() {
    let test = name_of!(table_holds_on_overlayfs_whose_lower_layer_has_the_files);
    let test_ws = TestWorkspace::new();
    if is_skipped(test, "overlay") {
        return;
    }
    let mut mount = None;
    all_hold(test, &test_ws, || mount = Mount::of_overlay(test, test_ws.base()));
    drop(mount);
}

#[test]
fn table_holds_on_btrfs() {
    let test = name_of!(table_holds_on_btrfs);
    let Some(mount) = Mount::on_loop(test, "btrfs", Program::BtrfsProgs) else { return };
    all_hold(test, &TestWorkspace::new_in(mount.at()), || {});
}

#[test]
fn table_holds_on_xfs() {
    let test = name_of!(table_holds_on_xfs);
    let Some(mount) = Mount::on_loop(test, "xfs", Program::XfsProgs) else { return };
    all_hold(test, &TestWorkspace::new_in(mount.at()), || {});
}

#[test]
fn table_holds_where_the_state_is_on_another_file_system() {
    let test = name_of!(table_holds_where_the_state_is_on_another_file_system);
    let Some(mount) = Mount::of_tmpfs(test) else { return };
    let test_ws = TestWorkspace::new().with_state(&mount.at().join("state"));
    all_hold(test, &test_ws, || {});
}

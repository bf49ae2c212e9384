//! Previews: a sandbox whose writable folders are overlays, and what its commands changed in them.
//!
//! Changes go to folders on a tmpfs, one for each overlay, that no command has a path to. Nothing is copied
//! back: when the sandbox ends, they are gone.

mod compare;
mod moves;

use std::{
    fs,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use kit::{
    Fault, Kind,
    procs::preview::{Change, PathChange, Previewed},
};

use crate::{
    layout::{Access, Mount, What},
    limits::memory_of_machine,
};

const MIB: u64 = 1 << 20;

/// Returns how many bytes of changes a preview can hold, in memory.
pub fn space() -> u64 {
    (memory_of_machine() / 4).clamp(256 * MIB, 4096 * MIB)
}

/// Returns the names of the folders with the changes of the overlay of this number: the changes, and the
/// kernel's own work.
pub(crate) fn folders(number: usize) -> (String, String) {
    (format!("{number}-upper"), format!("{number}-work"))
}

/// Replaces every writable folder of the machine by an overlay.
///
/// # Errors
/// When the kernel can't put an overlay over one of them.
pub fn overlays(mounts: Vec<Mount>) -> Result<Vec<Mount>, Fault> {
    let mut planned: Vec<Mount> = Vec::new();
    for Mount { at, what } in mounts {
        let what = match what {
            What::Bind { from, access: Access::Write } => {
                let around = planned.iter().rev().find(|it| at.starts_with(&it.at) && it.at != at);
                match around.map(|it| &it.what) {
                    Some(What::Overlay { .. } | What::Pinned) => What::Pinned,
                    _ => overlay(from)?,
                }
            }
            other => other,
        };
        planned.push(Mount { at, what });
    }
    Ok(planned)
}

fn overlay(from: PathBuf) -> Result<What, Fault> {
    let refused = |why: String| {
        Fault::new(
            Kind::Unavailable,
            format!("nothing was run: a preview of changes in {} can't be made: {why}", from.display()),
        )
        .next("Run the command without `preview`, or in a smaller root.".to_owned())
    };
    if !from.is_dir() {
        return Err(refused("it is not a folder".to_owned()));
    }
    match mounts_below(&from).first() {
        Some(inner) => {
            Err(refused(format!("another file system is mounted below it, at {}", inner.display())))
        }
        None => Ok(What::Overlay { from }),
    }
}

/// Returns the mount points strictly below a folder.
fn mounts_below(folder: &Path) -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(4)).map(unescaped);
    points.filter(|it| it.starts_with(folder) && it != folder).collect()
}

/// Returns a path of the kernel's list, in which blanks are written as `\040`.
fn unescaped(path: &str) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    let mut bytes = Vec::new();
    let mut rest = path.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let octal = tail.get(..3).filter(|_| *first == b'\\').and_then(|it| std::str::from_utf8(it).ok());
        match octal.and_then(|it| u8::from_str_radix(it, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = tail.get(3..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    std::ffi::OsString::from_vec(bytes).into()
}

/// Returns what the commands of this sandbox changed. `uppers` is the folder that the keeper reported; no
/// process of the sandbox may run any more.
pub fn changes(uppers: &OwnedFd, mounts: &[Mount]) -> Previewed {
    let mut found = compare::Found::default();
    let overlays = mounts.iter().filter_map(|mount| match &mount.what {
        What::Overlay { from } => Some((&mount.at, from)),
        _ => None,
    });
    for (number, (at, from)) in overlays.enumerate() {
        if let Err(error) = compare::overlay(uppers, &folders(number).0, from, at, &mut found) {
            found.note(format!("{}: its changes can't be read: {error}", at.display()));
        }
    }
    if let Ok(space) = rustix::fs::fstatvfs(uppers)
        && (space.f_bavail.saturating_mul(space.f_bsize) < MIB || space.f_favail < 16)
    {
        found.note(format!(
            "the preview ran out of its {} MiB of memory for changes, so the command may have failed where it would not have \
             otherwise",
            space.f_blocks.saturating_mul(space.f_bsize) / MIB
        ));
    }
    let mut previewed = moves::found(found);
    previewed.changes.sort_by(|one, other| one.path.cmp(&other.path));
    previewed
}

fn change(path: &Path, change: Change) -> PathChange {
    PathChange { path: path.to_owned(), change }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn bind(at: &str, access: Access) -> Mount {
        Mount { at: at.into(), what: What::Bind { from: at.into(), access } }
    }

    #[test]
    fn writable_folders_become_overlays_and_those_inside_of_them_stay_pinned() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let at = |path: &str| root.join(path).to_str().unwrap().to_owned();
        for folder in ["a/.git/hooks", "a/ro/rw", "b"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let mounts = vec![
            bind("/usr", Access::Read),
            bind(&at("a"), Access::Write),
            bind(&at("a/.git"), Access::Write),
            bind(&at("a/.git/hooks"), Access::Read),
            bind(&at("a/ro"), Access::Read),
            bind(&at("a/ro/rw"), Access::Write),
            bind(&at("b"), Access::Write),
        ];
        let planned = overlays(mounts).unwrap();
        let names: Vec<&str> = planned
            .iter()
            .map(|it| match it.what {
                What::Overlay { .. } => "overlay",
                What::Pinned => "pinned",
                _ => "bind",
            })
            .collect();
        assert_eq!(names, ["bind", "overlay", "pinned", "bind", "bind", "overlay", "overlay"]);
    }

    #[test]
    fn a_mount_below_a_folder_is_found_and_a_file_is_refused() {
        assert!(mounts_below(Path::new("/")).contains(&PathBuf::from("/proc")));
        assert_eq!(unescaped(r"/a\040b\134c"), PathBuf::from("/a b\\c"));
        let file = tempfile::NamedTempFile::new().unwrap();
        let fault = overlay(file.path().to_owned()).unwrap_err();
        assert!(fault.what.contains("it is not a folder"), "{}", fault.what);
    }
}

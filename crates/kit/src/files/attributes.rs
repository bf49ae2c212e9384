//! Extended attributes of files, access lists among them: read for an undo, and set again.
//!
//! Those that the file's owner may set: `user.*` and POSIX access lists. The others belong to the system.

use std::{ffi::OsStr, io, os::fd::AsFd};

use crate::tracking::Attribute;

/// Returns the attributes of a file or folder, sorted by name; none for a symlink, and where the file system has none.
///
/// # Errors
/// When it is gone, or its attributes can't be read.
#[cfg(target_os = "linux")]
pub fn attributes(folder: impl AsFd, name: &OsStr) -> io::Result<Vec<Attribute>> {
    use std::os::unix::ffi::OsStrExt;

    use rustix::{
        fs::{lgetxattr, llistxattr},
        io::Errno,
    };

    let path = path(folder, name);
    let mut names = [0; 1 << 10];
    let long;
    let names = match llistxattr(&path, &mut names[..]) {
        Ok(length) => names.get(..length).unwrap_or_default(),
        Err(Errno::NOTSUP | Errno::PERM) => return Ok(Vec::new()),
        Err(Errno::RANGE) => {
            let mut all = vec![0; 1 << 16];
            let length = llistxattr(&path, &mut all[..])?;
            all.truncate(length);
            long = all;
            long.as_slice()
        }
        Err(error) => return Err(error.into()),
    };
    let mut found = Vec::new();
    for name in names.split(|it| *it == 0).map(OsStr::from_bytes).filter(|it| is_the_owner_s(it)) {
        let mut value = vec![0; 1 << 16];
        match lgetxattr(&path, name, &mut value[..]) {
            Ok(length) => value.truncate(length),
            Err(Errno::NODATA) => continue,
            Err(error) => return Err(error.into()),
        }
        found.push(Attribute { name: name.to_owned(), value });
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// Gives a file or folder these attributes, and removes others that its owner may set.
///
/// # Errors
/// Those of the system, also when its file system has no attributes.
#[cfg(target_os = "linux")]
pub fn set_attributes(folder: impl AsFd, name: &OsStr, wanted: &[Attribute]) -> io::Result<()> {
    use rustix::fs::{XattrFlags, lremovexattr, lsetxattr};

    let path = path(&folder, name);
    let present = attributes(&folder, name)?;
    for gone in present.iter().filter(|it| wanted.iter().all(|wanted| wanted.name != it.name)) {
        lremovexattr(&path, gone.name.as_os_str())?;
    }
    for attribute in wanted.iter().filter(|it| !present.contains(it)) {
        lsetxattr(&path, attribute.name.as_os_str(), &attribute.value, XattrFlags::empty())?;
    }
    Ok(())
}

/// Returns a path to a name in a folder that the system follows through the handle.
#[cfg(target_os = "linux")]
fn path(folder: impl AsFd, name: &OsStr) -> std::path::PathBuf {
    use std::os::fd::AsRawFd;

    let folder = std::path::PathBuf::from(format!("/proc/self/fd/{}", folder.as_fd().as_raw_fd()));
    // A root itself has no name.
    folder.join(if name.is_empty() { OsStr::new(".") } else { name })
}

#[cfg(target_os = "linux")]
fn is_the_owner_s(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("user.") || name.starts_with("system.posix_acl_")
}

/// Returns none: commands are tracked on Linux only.
///
/// # Errors
/// Never.
#[cfg(not(target_os = "linux"))]
pub fn attributes(_: impl AsFd, _: &OsStr) -> io::Result<Vec<Attribute>> {
    Ok(Vec::new())
}

/// Sets none: commands are tracked on Linux only.
///
/// # Errors
/// Never.
#[cfg(not(target_os = "linux"))]
pub fn set_attributes(_: impl AsFd, _: &OsStr, _: &[Attribute]) -> io::Result<()> {
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn attributes_are_read_set_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a"), "x").unwrap();
        let (folder, name) = (File::open(dir.path()).unwrap(), OsStr::new("a"));
        assert_eq!(attributes(&folder, name).unwrap(), []);
        let of = |name: &str, value: &[u8]| Attribute { name: name.into(), value: value.to_owned() };
        let two = [of("user.a", b"1"), of("user.b", &vec![0; 900])];
        set_attributes(&folder, name, &two).unwrap();
        assert_eq!(attributes(&folder, name).unwrap(), two);
        let one = [of("user.b", b"")];
        set_attributes(&folder, name, &one).unwrap();
        assert_eq!(attributes(&folder, name).unwrap(), one);
        assert_eq!(attributes(&folder, OsStr::new("")).unwrap(), [], "the folder itself");
    }
}

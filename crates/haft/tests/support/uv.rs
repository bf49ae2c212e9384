//! `uv` for tests, installed or fetched once, and a wheel to install.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// A wheel is a zip; this one holds one module.
const WHEEL: &str = r#"
import sys, zipfile
folder, version = sys.argv[1:]
info = "gadget-%s.dist-info" % version
with zipfile.ZipFile("%s/gadget-%s-py3-none-any.whl" % (folder, version), "w") as wheel:
    wheel.writestr("gadget.py", "VERSION = %r\n" % version)
    wheel.writestr(info + "/METADATA", "Metadata-Version: 2.1\nName: gadget\nVersion: %s\n" % version)
    wheel.writestr(info + "/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(info + "/RECORD", "gadget.py,,\n%s/METADATA,,\n%s/WHEEL,,\n%s/RECORD,,\n" % (info, info, info))
"#;

/// Returns the wheel of this version of `gadget`, in this folder.
pub(crate) fn wheel(folder: &Path, version: &str) -> PathBuf {
    let ran = Command::new("python3").args(["-c", WHEEL]).arg(folder).arg(version).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    folder.join(format!("gadget-{version}-py3-none-any.whl"))
}

/// Returns a `PATH` with `uv` on it: the one that is installed for everybody, or one that is fetched once.
pub(crate) fn with_uv() -> String {
    let path = std::env::var("PATH").unwrap();
    if path.split(':').map(|it| Path::new(it).join("uv")).any(|it| it.is_file() && is_for_all(&it)) {
        return path;
    }
    static FETCHED: OnceLock<PathBuf> = OnceLock::new();
    format!("{}:{path}", FETCHED.get_or_init(fetched).display())
}

/// Other users reach it too: nothing above it is closed to them, as a home folder may be.
pub(crate) fn is_for_all(path: &Path) -> bool {
    path.ancestors()
        .filter(|it| !it.as_os_str().is_empty())
        .all(|it| fs::metadata(it).is_ok_and(|it| it.permissions().mode() & 0o001 != 0))
}

/// The same without it.
pub(crate) fn without_uv() -> String {
    let path = std::env::var("PATH").unwrap();
    let folders: Vec<_> = path.split(':').filter(|it| !Path::new(it).join("uv").exists()).collect();
    folders.join(":")
}

/// A folder with nothing but `uv` in it. A virtual environment takes it where the system's Python is managed by others;
/// its own `python3` must not be the one that tests find.
fn fetched() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let only = target.join("only-uv");
    if only.join("uv").exists() {
        return only;
    }
    let folder = tempfile::tempdir_in(target).unwrap();
    let fetch = "python3 -m venv \"$0\" && \"$0/bin/pip\" install --quiet uv";
    let fetched = Command::new("sh").args(["-c", fetch]).arg(folder.path()).output().unwrap();
    assert!(folder.path().join("bin/uv").exists(), "this test needs `uv`: install it. {fetched:?}");
    fs::create_dir_all(&only).unwrap();
    // Other tests may look for it at this moment.
    fs::rename(folder.path().join("bin/uv"), only.join("uv")).unwrap();
    only
}

//! Known places of a machine and of a home folder: the folders of toolchains, which commands see, and the
//! files of credentials, which they don't.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use kit::deliberate_faults::is_broken;
use parking_lot::Mutex;

pub use crate::home::home;

/// Time for which the result of a search in `/etc` is reused.
const FRESH: Duration = Duration::from_secs(30);

/// Paths of `/sys` with facts about the hardware.
pub(super) const HARDWARE: &[&str] = &["/sys/devices/system/cpu", "/sys/devices/system/node"];

pub(super) const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];

pub(super) const DEVICE_LINKS: &[(&str, &str)] = &[
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// The files in which programs keep a person's credentials, with a source for each line.
const CREDENTIALS: &str = include_str!("credentials.txt");

/// A variable that names a toolchain's folder but is not passed on: its programs don't need it.
pub(super) const ALSO_A_FOLDER: &str = "GHCUP_INSTALL_BASE_PREFIX";

/// Folders below home that are a toolchain as a whole: its programs find each other by their location.
/// Credentials in them are still hidden.
const TOOLCHAINS: &[&str] = &[
    "go",
    "sdk",
    "miniconda3",
    "anaconda3",
    "miniforge3",
    "mambaforge",
    "micromamba",
    "perl5",
    "flutter",
    ".cargo",
    ".rustup",
    ".pyenv",
    ".nvm",
    ".nodenv",
    ".fnm",
    ".volta",
    ".bun",
    ".deno",
    ".rbenv",
    ".rvm",
    ".asdf",
    ".sdkman",
    ".jenv",
    ".jabba",
    ".goenv",
    ".gvm",
    ".ghcup",
    ".stack",
    ".elan",
    ".opam",
    ".juliaup",
    ".julia",
    ".zvm",
    ".swiftly",
    ".dotnet",
    ".perlbrew",
    ".phpbrew",
    ".luaver",
    ".tfenv",
    ".linuxbrew",
    ".moon",
    ".proto",
    ".pixi",
    ".choosenim",
    ".nimble",
    ".rye",
    ".pub-cache",
    ".plenv",
    ".phpenv",
    ".nodebrew",
    ".luarocks",
    ".kiex",
];

/// Siblings of a `bin` folder that belong to it.
const BESIDE: &[&str] =
    &["lib", "lib64", "libexec", "share", "include", "pyvenv.cfg", "gems", "specifications", "extensions"];

/// Folders that installers put below `.local` beside `.local/bin`.
const LOCAL: &[&str] = &[
    ".local/lib",
    ".local/share/uv/python",
    ".local/share/uv/tools",
    ".local/share/pipx/venvs",
    ".local/share/pipx/shared",
    ".local/share/pipx/py",
    ".local/share/mise/installs",
    ".local/share/mise/shims",
    ".local/share/mise/plugins",
    ".local/share/pnpm",
    ".local/share/fnm",
];

/// Maximum number of symlinks of one folder that are followed.
const LINKS: usize = 2_000;

/// Returns the well-known places of a person's credentials, whether they exist or not.
pub fn credentials(variables: &[(String, String)]) -> Vec<PathBuf> {
    secrets(variables, home(variables).as_deref())
}

/// Like [`credentials`], with this home folder.
pub(super) fn secrets(variables: &[(String, String)], home: Option<&Path>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for line in CREDENTIALS.lines().filter(|it| !it.starts_with('#')) {
        let mut words = line.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some("home"), Some(path), _) => found.extend(home.map(|home| home.join(path))),
            (Some("variable"), Some(name), Some(path)) => {
                let named = variables.iter().filter(|(it, value)| it == name && value.starts_with('/'));
                // `KUBECONFIG` names several.
                let named = named.flat_map(|it| it.1.split(':')).filter(|it| it.len() > 1).map(Path::new);
                found.extend(named.map(|it| if path == "." { it.to_owned() } else { it.join(path) }));
            }
            _ => {}
        }
    }
    // A whole home folder, or a folder around it, is not hidden as a credential.
    found.retain(|path| !home.is_some_and(|home| home.starts_with(path)) && path.components().count() > 2);
    found
}

/// Returns the files and folders that programs in `folder` need: the whole toolchain; for any other folder in
/// a home, the folder itself and the targets of its symlinks.
pub(super) fn below(home: &Path, folder: &Path, on_path: bool) -> Vec<PathBuf> {
    let Ok(rest) = folder.strip_prefix(home) else { return folder_of(folder, on_path) };
    let Some(first) = rest.components().next().and_then(|it| it.as_os_str().to_str()) else {
        return Vec::new();
    };
    let mut shown = if TOOLCHAINS.contains(&first) || is_broken("beside-programs") {
        vec![home.join(first)]
    } else if first.starts_with('.') {
        if on_path && folder != home.join(".local/bin") {
            with_its_own(folder)
        } else {
            vec![folder.to_owned()]
        }
    } else {
        folder_of(folder, on_path)
    };
    if first == ".cargo" {
        shown.push(home.join(".rustup"));
    }
    if first == ".local" {
        shown.extend(LOCAL.iter().map(|it| home.join(it)));
    }
    if on_path && !TOOLCHAINS.contains(&first) {
        shown.extend(led_to(home, folder));
    }
    shown
}

/// Returns the targets of symlinks in a folder of programs: the folder of each with its siblings; for a
/// target directly in a hidden folder, the file alone.
fn led_to(home: &Path, folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(LINKS);
    let links = entries.filter(|it| it.file_type().is_ok_and(|it| it.is_symlink()));
    let mut found = Vec::new();
    for target in links.filter_map(|it| it.path().canonicalize().ok()) {
        let Some(parent) = target.parent().filter(|it| it.starts_with(home) && !it.starts_with(folder))
        else {
            continue;
        };
        let depth = parent.strip_prefix(home).map_or(0, |it| it.components().count());
        // A package of node loads others beside itself.
        let packages =
            target.ancestors().filter(|it| it.file_name().is_some_and(|it| it == "node_modules")).last();
        let shown = match packages {
            Some(packages) => vec![packages.to_owned()],
            None if depth < 2 => vec![target.clone()],
            None => with_its_own(parent),
        };
        found.extend(shown.into_iter().filter(|it| !found.contains(it)).collect::<Vec<_>>());
    }
    found
}

/// Returns a folder of programs, and the folders that belong to it.
fn with_its_own(folder: &Path) -> Vec<PathBuf> {
    // Programs of PHP packages read the files around their folder.
    if folder.ends_with("vendor/bin") {
        return folder.parent().map(Path::to_owned).into_iter().collect();
    }
    let mut shown = vec![folder.to_owned()];
    if folder.file_name().is_some_and(|it| it == "bin") {
        shown.extend(folder.parent().into_iter().flat_map(|it| BESIDE.iter().map(|name| it.join(name))));
    }
    shown
}

/// Returns the folder itself, or the one whose `bin` it is.
pub(super) fn folder_of(folder: &Path, on_path: bool) -> Vec<PathBuf> {
    let whole = folder.parent().filter(|parent| {
        on_path
            && folder.file_name().is_some_and(|name| name == "bin")
            && ["lib", "libexec", "pyvenv.cfg"].iter().any(|beside| parent.join(beside).exists())
            && parent.components().count() > 2
    });
    vec![whole.unwrap_or(folder).to_owned()]
}

/// Returns the files in `/etc` that are not world-readable. The result is reused for a while: many sandboxes
/// are made one after the other, and little changes there.
pub(super) fn closed_files() -> Vec<PathBuf> {
    static CLOSED: Mutex<Option<(Instant, Vec<PathBuf>)>> = Mutex::new(None);
    let mut closed = CLOSED.lock();
    match &*closed {
        Some((looked, found)) if looked.elapsed() < FRESH => found.clone(),
        _ => {
            let found = look_for_closed(Path::new("/etc"));
            *closed = Some((Instant::now(), found.clone()));
            found
        }
    }
}

/// Begins to look for the files that are hidden from every command, in a thread, while the program starts for one.
pub fn look_ahead() {
    // Without the thread the sandbox looks for them.
    let _ = kit::on_other_processor("haft-closed", || drop(closed_files()));
}

/// Returns whether this is a password file of the system, or a backup of one.
pub(super) fn holds_passwords(path: &Path) -> bool {
    let name = path.file_name().and_then(|it| it.to_str()).unwrap_or_default();
    path.parent() == Some(Path::new("/etc")) && (name.starts_with("shadow") || name.starts_with("gshadow"))
}

/// Finds the files below this folder that are not world-readable.
fn look_for_closed(folder: &Path) -> Vec<PathBuf> {
    let mut closed = Vec::new();
    let mut folders = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            // Most of what is there is a symlink, of which the folder itself says so.
            if entry.file_type().is_ok_and(|it| it.is_symlink()) {
                continue;
            }
            let Ok(about) = entry.metadata() else { continue };
            let mode = about.permissions().mode();
            if about.is_file() && mode & 0o004 == 0 || about.is_dir() && mode & 0o005 != 0o005 {
                closed.push(entry.path());
            } else if about.is_dir() && depth < 2 {
                folders.push((entry.path(), depth + 1));
            }
        }
    }
    closed
}

//! Known places of a machine and of a home folder: what commands see of toolchains, and where credentials are.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use kit::deliberate_faults::is_broken;
use parking_lot::Mutex;

pub use crate::home::home;

/// How long what was found in `/etc` is taken to be there.
const FRESH: Duration = Duration::from_secs(30);

/// What a program may ask of the machine's build.
pub(super) const HARDWARE: &[&str] = &["/sys/devices/system/cpu", "/sys/devices/system/node"];

pub(super) const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];

pub(super) const DEVICE_LINKS: &[(&str, &str)] = &[
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// Where a person's programs keep what lets one act as that person, with a source for each line.
const CREDENTIALS: &str = include_str!("credentials.txt");

/// A variable that names a toolchain's folder too, but that its programs need not be told.
pub(super) const ALSO_A_FOLDER: &str = "GHCUP_INSTALL_BASE_PREFIX";

/// Folders below home that are a toolchain as a whole: its programs find their own by where they lie. What is a credential
/// in them is hidden all the same.
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

/// What lies beside a `bin` and belongs to it.
const BESIDE: &[&str] =
    &["lib", "lib64", "libexec", "share", "include", "pyvenv.cfg", "gems", "specifications", "extensions"];

/// What installers put below `.local` beside `.local/bin`.
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

/// How many links of one folder are followed.
const LINKS: usize = 2_000;

/// The well-known places of a person's credentials, there or not.
pub fn credentials(variables: &[(String, String)]) -> Vec<PathBuf> {
    secrets(variables, home(variables).as_deref())
}

/// The same, with this home.
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
    // Nobody keeps credentials in a whole home folder, or in one around it.
    found.retain(|path| !home.is_some_and(|home| home.starts_with(path)) && path.components().count() > 2);
    found
}

/// Which files and folders have to be shown so that what lies in `folder` can run: a toolchain as a whole; of anything else
/// in a home folder the folder itself, and what its links need.
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

/// What the links in a folder of programs lead to in a home: the folder of each, with what belongs to that; of one that lies
/// directly in a hidden folder, the file alone.
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
        // A package of node's finds what it needs beside itself.
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

/// A folder of programs, and what belongs to it.
fn with_its_own(folder: &Path) -> Vec<PathBuf> {
    // Programs of PHP packages read what lies around their folder.
    if folder.ends_with("vendor/bin") {
        return folder.parent().map(Path::to_owned).into_iter().collect();
    }
    let mut shown = vec![folder.to_owned()];
    if folder.file_name().is_some_and(|it| it == "bin") {
        shown.extend(folder.parent().into_iter().flat_map(|it| BESIDE.iter().map(|name| it.join(name))));
    }
    shown
}

/// The folder itself, or what it is the `bin` of.
pub(super) fn folder_of(folder: &Path, on_path: bool) -> Vec<PathBuf> {
    let whole = folder.parent().filter(|parent| {
        on_path
            && folder.file_name().is_some_and(|name| name == "bin")
            && ["lib", "libexec", "pyvenv.cfg"].iter().any(|beside| parent.join(beside).exists())
            && parent.components().count() > 2
    });
    vec![whole.unwrap_or(folder).to_owned()]
}

/// What not everybody may read, in `/etc` and the folders in it. It is looked for again after a while only: many sandboxes
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

/// Is this a file of the system's with passwords, or a backup of one?
pub(super) fn holds_passwords(path: &Path) -> bool {
    let name = path.file_name().and_then(|it| it.to_str()).unwrap_or_default();
    path.parent() == Some(Path::new("/etc")) && (name.starts_with("shadow") || name.starts_with("gshadow"))
}

/// What not everybody may read, in this folder and the folders in it.
fn look_for_closed(folder: &Path) -> Vec<PathBuf> {
    let mut closed = Vec::new();
    let mut folders = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
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

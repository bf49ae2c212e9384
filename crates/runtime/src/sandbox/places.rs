//! Which places of a machine and of a home are known, and what for?

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// How long what was found in `/etc` is taken to be there.
const FRESH: Duration = Duration::from_secs(30);

/// What is the same for everybody, as far as it is there.
pub(super) const SYSTEM: &[&str] = &[
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/gnu", "/snap",
];

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

/// Where a person's programs keep what lets one act as that person. Below home.
const SECRETS: &[&str] = &[
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".oci",
    ".password-store",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".pgpass",
    ".my.cnf",
    ".vault-token",
    ".boto",
    ".s3cfg",
    ".databrickscfg",
    ".yarnrc.yml",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".bundle/config",
    ".m2/settings.xml",
    ".m2/settings-security.xml",
    ".gradle/gradle.properties",
    ".composer/auth.json",
    ".nuget/NuGet/NuGet.Config",
    ".terraform.d",
    ".terraformrc",
    ".huggingface",
    ".cache/huggingface/token",
    ".config/gh",
    ".config/hub",
    ".config/gcloud",
    ".config/git/credentials",
    ".config/op",
    ".config/rclone",
    ".config/sops",
    ".config/pip",
    ".config/composer/auth.json",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    ".mozilla",
    ".thunderbird",
    ".local/share/keyrings",
    ".local/share/password-store",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".node_repl_history",
    ".psql_history",
    ".mysql_history",
    ".sqlite_history",
    ".lesshst",
    ".claude",
    ".claude.json",
    ".codex",
    ".gemini",
    ".config/claude",
    ".config/opencode",
    ".local/share/opencode",
];

/// A variable that names a toolchain's folder too, but that its programs need not be told.
pub(super) const ALSO_A_FOLDER: &str = "GHCUP_INSTALL_BASE_PREFIX";

/// Visible folders below home that are a toolchain as a whole.
const KNOWN: &[&str] =
    &["go", "sdk", "miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba", "perl5", "flutter"];

/// Hidden folders below home of which no more is shown than what is named.
const MIXED: &[&str] = &[".local", ".config", ".cache", ".var"];

/// What installers put below `.local` beside `.local/bin`.
const LOCAL: &[&str] = &[
    ".local/lib",
    ".local/share/uv",
    ".local/share/pipx",
    ".local/share/mise",
    ".local/share/pnpm",
    ".local/share/fnm",
];

/// The home folder of who runs haft, without links.
pub fn home(variables: &[(String, String)]) -> Option<PathBuf> {
    let home = variables.iter().find(|(name, _)| name == "HOME").map(|(_, value)| PathBuf::from(value))?;
    let home = home.canonicalize().ok()?;
    // A service's "home" may be `/`, and a private `/` would be no machine at all.
    (home.is_dir() && home.components().count() > 1 && !SYSTEM.iter().any(|it| Path::new(it) == home))
        .then_some(home)
}

/// The well-known places of a person's credentials, there or not.
pub fn credentials(variables: &[(String, String)]) -> Vec<PathBuf> {
    secrets(variables, home(variables).as_deref())
}

/// The same, with this home.
pub(super) fn secrets(variables: &[(String, String)], home: Option<&Path>) -> Vec<PathBuf> {
    let of_home = home.into_iter().flat_map(|home| SECRETS.iter().map(|it| home.join(it)));
    let cargo = variables.iter().filter(|(name, value)| name == "CARGO_HOME" && !value.is_empty());
    let of_cargo =
        cargo.flat_map(|(_, cargo)| ["credentials", "credentials.toml"].map(|it| Path::new(cargo).join(it)));
    of_home.chain(of_cargo).collect()
}

/// Which folders have to be shown so that what lies in `folder` can run.
pub(super) fn below(home: &Path, folder: &Path, on_path: bool) -> Vec<PathBuf> {
    let Ok(rest) = folder.strip_prefix(home) else { return folder_of(folder, on_path) };
    let Some(first) = rest.components().next().and_then(|it| it.as_os_str().to_str()) else {
        return Vec::new();
    };
    if SECRETS.contains(&first) {
        return Vec::new();
    }
    if MIXED.contains(&first) {
        let mut shown = folder_of(folder, on_path);
        if first == ".local" {
            shown.retain(|it| it != &home.join(".local"));
            shown.push(folder.to_owned());
            shown.extend(LOCAL.iter().map(|it| home.join(it)));
        }
        return shown;
    }
    if !first.starts_with('.') && !KNOWN.contains(&first) {
        return folder_of(folder, on_path);
    }
    let mut shown = vec![home.join(first)];
    if first == ".cargo" {
        shown.push(home.join(".rustup"));
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

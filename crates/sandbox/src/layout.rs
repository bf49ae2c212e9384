//! Sandbox layout: the part of the machine that a command sees, and the part that it may write.
//!
//! The result is data: a list of mounts, planned outside where every path can still be examined, and carried
//! out inside by `enter.rs`. A path that is not in the list does not exist there.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use kit::{Fault, Kind};

use super::{
    code::code_in,
    control_mounts,
    environment::FOLDERS,
    places::{
        ALSO_A_FOLDER, DEVICE_LINKS, DEVICES, HARDWARE, below, closed_files, folder_of, holds_passwords,
        home, secrets,
    },
};
use crate::{
    SandboxMode,
    control_files::{configured::Configured, index::Index},
    home::SYSTEM,
};

pub use crate::mount::{Access, Mount, What};

/// The input of a layout.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// The mode; read-only makes every root read-only.
    pub sandbox: SandboxMode,
    /// The roots, without symlinks, and whether each is read-only.
    pub roots: Vec<(PathBuf, bool)>,
    /// haft's environment.
    pub variables: Vec<(String, String)>,
    /// haft's own folders: its state, its configuration.
    pub hidden: Vec<PathBuf>,
    /// The folder of the session's long outputs, which may be read.
    pub spill: Option<PathBuf>,
    /// The folder of the tool whose sandbox it is, and the files in it that are code whatever they look like.
    pub tools: Option<(PathBuf, Vec<PathBuf>)>,
    /// Paths as a person named them, which stay usable if they are symlinks.
    pub names: Vec<PathBuf>,
    /// The index of control files, and those that git's configuration names.
    pub index: Index,
    pub configured: Configured,
}

const MIB: u64 = 1 << 20;

/// The visible paths of a command.
#[derive(Debug, Default)]
pub struct Layout {
    /// All mounts, parents before their contents.
    pub mounts: Vec<Mount>,
    /// Git folders in which only files that run no program can be changed.
    pub guarded: BTreeSet<PathBuf>,
    /// The folder of tools in which a tool may write, and the entries of it that a tool can make.
    pub tools: Option<(PathBuf, Entries)>,
}

/// Plans the mounts.
///
/// # Errors
/// When a root is a place to which commands can't be confined.
pub fn layout(wanted: &Wanted) -> Result<Layout, Fault> {
    let mut plan = Plan::default();
    for (root, _) in &wanted.roots {
        if root == Path::new("/") || ["/proc", "/sys", "/dev"].iter().any(|it| root.starts_with(it)) {
            return Err(Fault::new(
                Kind::Unavailable,
                format!("commands can't be confined to the root `{}`", root.display()),
            )
            .next("Start haft in a folder of its own, or with `--sandbox full`.".to_owned()));
        }
    }
    let home = home(&wanted.variables);
    let given = |path: &Path| wanted.roots.iter().any(|(root, _)| path.starts_with(root));
    plan.system();
    plan.devices();
    let scratch = scratch_bytes();
    for (at, mode) in [("/tmp", 0o1777), ("/var/tmp", 0o1777), ("/run", 0o755), ("/dev/shm", 0o1777)] {
        if !given(Path::new(at)) {
            plan.put(at, What::Private { bytes: scratch, mode, sealed: false, shared: true });
        }
    }
    if let Some(home) = home.as_ref().filter(|it| !given(it)) {
        plan.put(home, What::Private { bytes: scratch, mode: 0o700, sealed: false, shared: true });
        if let Some(identity) = git_identity(home) {
            plan.put(home.join(".gitconfig"), What::Text(identity));
        }
    }
    plan.toolchains(&wanted.variables, home.as_deref(), &given);
    let tools = tools_folder(wanted, home.as_deref());
    let guards = plan.roots(wanted, tools.as_ref());
    plan.secrets(wanted, tools.as_ref(), home.as_deref());
    wanted.names.iter().for_each(|path| plan.links_to(path));
    if let Some(spill) = &wanted.spill {
        plan.bind(spill, Access::Read);
    }
    let tools = tools.and_then(|it| match &it.data {
        Some(data) => {
            let open: BTreeSet<PathBuf> = data.iter().filter(|it| plan.is_open(it)).cloned().collect();
            (!open.is_empty()).then_some((it.folder, Entries::Only(open)))
        }
        None => plan.is_open(&it.folder).then_some((it.folder, Entries::AllBut(it.code))),
    });
    Ok(Layout { mounts: plan.finish(), guarded: guards.folders, tools })
}

/// Returns the writable places of these mounts: those that the second layer, Landlock, lets through.
pub fn writable(mounts: &[Mount]) -> Vec<PathBuf> {
    let is_writable = |mount: &&Mount| match mount.what {
        What::Bind { access, .. } => access != Access::Read,
        What::Private { sealed, .. } => !sealed,
        What::Terminals | What::Overlay { .. } | What::Pinned => true,
        What::Hidden { .. } | What::Link(_) | What::Text(_) | What::Processes => false,
    };
    mounts.iter().filter(is_writable).map(|mount| mount.at.clone()).collect()
}

#[derive(Default)]
struct Plan {
    mounts: BTreeMap<PathBuf, What>,
}

impl Plan {
    /// Adds a mount; a later one at the same place replaces an earlier one.
    fn put(&mut self, at: impl Into<PathBuf>, what: What) {
        self.mounts.insert(at.into(), what);
    }

    fn bind(&mut self, path: impl Into<PathBuf>, access: Access) {
        let path = path.into();
        self.put(path.clone(), What::Bind { from: path, access });
    }

    fn system(&mut self) {
        for path in SYSTEM.iter().map(Path::new) {
            match fs::symlink_metadata(path) {
                Ok(it) if it.is_dir() => self.bind(path, Access::Read),
                Ok(it) if it.is_symlink() => {
                    if let Ok(to) = fs::read_link(path) {
                        self.put(path, What::Link(to));
                    }
                }
                _ => {}
            }
        }
        for path in HARDWARE.iter().map(Path::new).filter(|it| it.is_dir()) {
            self.bind(path, Access::Read);
        }
        self.put("/proc", What::Processes);
        // Files that are not world-readable are hidden, whichever user runs haft.
        for path in closed_files() {
            let (folder, shut) = (path.is_dir(), holds_passwords(&path));
            self.put(path, What::Hidden { folder, shut });
        }
    }

    fn devices(&mut self) {
        self.put("/dev", What::Private { bytes: MIB, mode: 0o755, sealed: true, shared: false });
        for name in DEVICES {
            let path = Path::new("/dev").join(name);
            if path.exists() {
                self.bind(path, Access::Device);
            }
        }
        for (name, to) in DEVICE_LINKS {
            self.put(Path::new("/dev").join(name), What::Link(PathBuf::from(to)));
        }
        self.put("/dev/pts", What::Terminals);
    }

    fn toolchains(
        &mut self,
        variables: &[(String, String)],
        home: Option<&Path>,
        given: &dyn Fn(&Path) -> bool,
    ) {
        let value = |name: &str| variables.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str());
        let entries = value("PATH").unwrap_or_default().split(':').map(|it| (PathBuf::from(it), true));
        let folders = FOLDERS
            .iter()
            .chain([&ALSO_A_FOLDER])
            .filter_map(|name| value(name))
            .map(|it| (PathBuf::from(it), false));
        let secrets = secrets(variables, home);
        let is_secret = |path: &Path| secrets.iter().any(|it| path.starts_with(it));
        for (path, on_path) in entries.chain(folders) {
            if !path.is_absolute() || !path.is_dir() {
                continue;
            }
            let Ok(real) = path.canonicalize() else { continue };
            for folder in [path, real] {
                for shown in
                    home.map_or_else(|| folder_of(&folder, on_path), |home| below(home, &folder, on_path))
                {
                    if shown.exists()
                        && !is_secret(&shown)
                        && !given(&shown)
                        && !self.is_there(&shown)
                        && Some(shown.as_path()) != home
                    {
                        self.show(&shown);
                    }
                }
            }
        }
    }

    /// Makes a folder visible or, on the way to it, a symlink whose target is visible already.
    fn show(&mut self, path: &Path) {
        let mut so_far = PathBuf::new();
        for part in path.components() {
            so_far.push(part);
            if let Ok(to) = fs::read_link(&so_far) {
                self.put(so_far, What::Link(to));
                return;
            }
        }
        self.bind(path, Access::Read);
    }

    fn roots(&mut self, wanted: &Wanted, tools: Option<&Tools>) -> control_mounts::Guards {
        let roots: Vec<(PathBuf, bool)> = wanted
            .roots
            .iter()
            .map(|(root, read_only)| (root.clone(), !read_only && wanted.sandbox != SandboxMode::ReadOnly))
            .chain(tools.iter().filter(|it| !it.wide).map(|it| (it.folder.clone(), it.is_open())))
            .collect();
        for (root, writable) in &roots {
            self.bind(root, if *writable { Access::Write } else { Access::Read });
        }
        for (root, _) in roots.iter().filter(|it| !it.1) {
            let inside = |common: &PathBuf| roots.iter().any(|(root, _)| common.starts_with(root));
            if let Some(common) = control_mounts::common_folder(root).filter(|it| !inside(it)) {
                self.bind(common, Access::Read);
            }
        }
        let guards = control_mounts::guards(&roots, &wanted.index, &wanted.configured);
        for (path, access) in &guards.mounts {
            self.bind(path, *access);
        }
        if let Some(tools) = tools {
            self.tools(tools, &roots);
        }
        guards
    }

    /// Closes the code in a folder of tools, and pins the folder.
    fn tools(&mut self, tools: &Tools, roots: &[(PathBuf, bool)]) {
        let around = |it: &&Path| roots.iter().any(|(root, _)| it.starts_with(root) && it != root);
        let between: Vec<&Path> = tools.folder.ancestors().skip(1).take_while(around).collect();
        for folder in between.into_iter().rev() {
            if self.is_open(folder) && !self.mounts.contains_key(folder) {
                self.bind(folder, Access::Write);
            }
        }
        // A mount further down would reopen it.
        let is_closed = |at: &Path, path: &Path| {
            !roots.iter().any(|(root, _)| at.starts_with(root) && root.starts_with(path))
        };
        match &tools.data {
            None => {
                self.mounts.retain(|at, _| {
                    let code = at.ancestors().find(|it| tools.code.contains(*it));
                    code.is_none_or(|path| !is_closed(at, path))
                });
                tools.code.iter().for_each(|path| self.bind(path, Access::Read));
            }
            // One mount for all code: a mount for each file would make each start grow with the folder.
            Some(data) => {
                self.mounts.retain(|at, _| {
                    !at.starts_with(&tools.folder) || *at == tools.folder || !is_closed(at, &tools.folder)
                });
                self.bind(&tools.folder, Access::Read);
                if tools.writable {
                    data.iter().for_each(|path| self.bind(path, Access::Write));
                }
            }
        }
        // Python runs compiled files in this folder instead of the source, in every tool that imports it.
        let made = tools.folder.join("__pycache__");
        // A folder that is closed as a whole has it read-only.
        if self.is_open(&tools.folder) && !tools.wide {
            let folder = !fs::symlink_metadata(&made).is_ok_and(|it| !it.is_dir());
            self.put(made, What::Hidden { folder, shut: false });
        }
    }

    /// Adds the symlinks through which a real path is named, unless they are visible.
    fn links_to(&mut self, path: &Path) {
        let (mut path, mut left) = (path.to_owned(), 20);
        loop {
            let Some(link) =
                path.ancestors().collect::<Vec<_>>().into_iter().rev().find(|it| it.is_symlink())
            else {
                return;
            };
            let (Ok(real), Ok(rest)) = (link.canonicalize(), path.strip_prefix(link)) else { return };
            left -= 1;
            if left == 0 {
                return;
            }
            if !self.is_there(link) && !self.mounts.contains_key(link) {
                self.put(link, What::Link(real.clone()));
            }
            path = real.join(rest);
        }
    }

    /// Hides secrets that would be visible.
    fn secrets(&mut self, wanted: &Wanted, tools: Option<&Tools>, home: Option<&Path>) {
        // A path that a person named stays visible, wherever it lies.
        let mut named: Vec<&Path> = wanted.roots.iter().map(|(root, _)| root.as_path()).collect();
        // Most of them don't exist, which one system call tells.
        let of_home = secrets(&wanted.variables, home).into_iter().filter(|it| it.symlink_metadata().is_ok());
        let of_home = of_home.filter_map(|it| it.canonicalize().ok());
        let mut hidden: Vec<PathBuf> = of_home.filter(|it| !named.contains(&it.as_path())).collect();
        hidden.extend(wanted.hidden.iter().filter_map(|it| it.canonicalize().ok()));
        named.extend(tools.iter().map(|it| it.folder.as_path()));
        for path in hidden {
            if self.is_there(&path) {
                let folder = path.is_dir();
                let is_named = |at: &Path| named.iter().any(|it| it.starts_with(&path) && at.starts_with(it));
                self.mounts.retain(|at, _| !at.starts_with(&path) || is_named(at));
                self.put(path, What::Hidden { folder, shut: false });
            }
        }
    }

    /// Returns whether this path of the machine is visible so far.
    fn is_there(&self, path: &Path) -> bool {
        let nearest = path.ancestors().find_map(|it| self.mounts.get(it));
        matches!(nearest, Some(What::Bind { .. }))
    }

    /// Returns whether this path is writable so far.
    fn is_open(&self, path: &Path) -> bool {
        let nearest = path.ancestors().find_map(|it| self.mounts.get(it));
        matches!(nearest, Some(What::Bind { access: Access::Write, .. }))
    }

    /// Returns the mounts, parents first: the order of the map's keys.
    fn finish(self) -> Vec<Mount> {
        self.mounts.into_iter().map(|(at, what)| Mount { at, what }).collect()
    }
}

/// A folder of tools, as seen by a tool in it.
#[derive(Debug)]
struct Tools {
    folder: PathBuf,
    writable: bool,
    /// Whether it contains more than tools: then it is shown as without them.
    wide: bool,
    code: BTreeSet<PathBuf>,
    /// The files and folders that stay writable, if the folder as a whole does not.
    data: Option<BTreeSet<PathBuf>>,
}

impl Tools {
    /// Returns whether tools can make files directly in the folder.
    fn is_open(&self) -> bool {
        self.writable && self.data.is_none()
    }
}

/// The entries of a folder of tools that a tool can make or change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entries {
    /// All, also new ones, but for these.
    AllBut(BTreeSet<PathBuf>),
    /// These.
    Only(BTreeSet<PathBuf>),
}

impl Entries {
    /// Returns whether a tool can make or change this entry.
    pub fn include(&self, entry: &Path) -> bool {
        match self {
            Self::AllBut(closed) => !closed.contains(entry),
            Self::Only(open) => open.contains(entry),
        }
    }

    /// Returns entries that include all of both.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::AllBut(one), Self::AllBut(other)) => Self::AllBut(one & other),
            (Self::Only(one), Self::Only(other)) => Self::Only(one | other),
            (Self::AllBut(closed), Self::Only(open)) | (Self::Only(open), Self::AllBut(closed)) => {
                Self::AllBut(closed - open)
            }
        }
    }
}

/// Limit of code files and folders that are closed one by one. A folder of tools with more of them is closed as a
/// whole, except for the data that lies in it, so that the sandbox of a tool costs the same in any folder.
pub const CLOSED_ONE_BY_ONE: usize = 100;

/// Limit of data files and folders that stay writable in such a folder.
const DATA: usize = 100;

/// Returns the view of a tool on its own folder; `None` if a symlink inside a root leads to it, which any
/// program may have made.
fn tools_folder(wanted: &Wanted, home: Option<&Path>) -> Option<Tools> {
    let (path, named) = wanted.tools.as_ref()?;
    let folder = path.canonicalize().ok().filter(|it| it.is_dir())?;
    if wanted.roots.iter().any(|(root, _)| path.starts_with(root)) && folder != *path {
        return None;
    }
    let named: Vec<PathBuf> = named
        .iter()
        .map(|it| it.strip_prefix(path).map_or_else(|_| it.clone(), |it| folder.join(it)))
        .collect();
    let code = code_in(&folder, &named);
    let around = wanted.roots.iter().filter(|(root, _)| folder.starts_with(root));
    let read_only = around.max_by_key(|(root, _)| root.components().count()).is_some_and(|it| it.1);
    let own = wanted.hidden.iter().filter_map(|it| it.canonicalize().ok());
    let wide = wanted
        .roots
        .iter()
        .map(|it| it.0.clone())
        .chain(own)
        .chain(home.map(Path::to_owned))
        .any(|it| it.starts_with(&folder));
    let writable = !read_only && !code.linked && wanted.sandbox != SandboxMode::ReadOnly;
    // A folder with more than tools in it is shown as without them.
    let data = (code.fixed.len() > CLOSED_ONE_BY_ONE && !wide)
        .then(|| code.data.into_iter().take(DATA).collect::<BTreeSet<_>>());
    Some(Tools { folder, writable, wide, code: code.fixed, data })
}

/// Returns the committer's name and address from the person's git configuration, and no more: it may contain tokens.
fn git_identity(home: &Path) -> Option<String> {
    let files = [home.join(".config/git/config"), home.join(".gitconfig")];
    let texts = files.iter().filter_map(|file| fs::read_to_string(file).ok());
    let wanted = [("user", "name"), ("user", "email"), ("init", "defaultbranch"), ("core", "autocrlf")];
    let mut kept: BTreeMap<(&str, &str), String> = BTreeMap::new();
    for text in texts {
        let mut section = String::new();
        for line in text.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
                section = name.trim().to_ascii_lowercase();
            } else if let Some((key, value)) = line.split_once('=') {
                let key = key.trim().to_ascii_lowercase();
                if let Some(one) = wanted.iter().find(|(in_section, it)| *in_section == section && *it == key)
                {
                    kept.insert(*one, value.trim().to_owned());
                }
            }
        }
    }
    let lines = kept.iter().map(|((section, key), value)| format!("[{section}]\n\t{key} = {value}\n"));
    (!kept.is_empty()).then(|| lines.collect())
}

/// Returns the size limit of all private folders together, in bytes: they lie in memory.
fn scratch_bytes() -> u64 {
    (super::limits::memory_of_machine() / 8).clamp(64 * MIB, 1024 * MIB)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    struct Home {
        dir: tempfile::TempDir,
    }

    impl Home {
        fn new(files: &[&str]) -> Self {
            let dir = tempfile::tempdir().unwrap();
            for file in files {
                let path = dir.path().join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, "x").unwrap();
            }
            Self { dir }
        }

        fn path(&self) -> PathBuf {
            self.dir.path().canonicalize().unwrap()
        }

        fn wanted(&self, root: &str, path: &str) -> Wanted {
            let home = self.path();
            fs::create_dir_all(home.join(root)).unwrap();
            let path = path.replace('~', home.to_str().unwrap());
            let variables =
                vec![("HOME".to_owned(), home.to_str().unwrap().to_owned()), ("PATH".to_owned(), path)];
            Wanted { roots: vec![(home.join(root), false)], variables, ..Wanted::default() }
        }

        /// Returns the mounts at and below home: each path, and what it is.
        fn seen(&self, wanted: &Wanted) -> Vec<String> {
            let home = self.path();
            let name = |what: &What| match what {
                What::Bind { access: Access::Write, .. } => "rw",
                What::Bind { .. } => "ro",
                What::Private { .. } => "private",
                What::Hidden { .. } => "hidden",
                What::Link(_) => "link",
                What::Text(_) => "text",
                What::Processes | What::Terminals | What::Overlay { .. } | What::Pinned => "special",
            };
            let mounts = layout(wanted).unwrap().mounts;
            let below =
                mounts.iter().filter_map(|it| Some((it.at.strip_prefix(&home).ok()?, name(&it.what))));
            below.map(|(path, name)| format!("{name} {}", path.display())).collect()
        }
    }

    #[test]
    fn home_is_private_but_for_the_roots_and_the_toolchains() {
        let home = Home::new(&[
            ".ssh/id_ed25519",
            ".cargo/bin/cargo",
            ".cargo/credentials.toml",
            ".rustup/settings.toml",
            "docs/letter",
            ".local/bin/tool",
            ".local/share/uv/python/x",
            ".local/share/keyrings/login",
            "venv/bin/python",
            "venv/pyvenv.cfg",
        ]);
        let wanted = home.wanted("code/ws", "~/.cargo/bin:~/.local/bin:~/venv/bin:relative:/usr/bin");
        assert_eq!(
            home.seen(&wanted),
            [
                "private ",
                "ro .cargo",
                "hidden .cargo/credentials.toml",
                "ro .local/bin",
                "ro .local/share/uv/python",
                "ro .rustup",
                "rw code/ws",
                "ro venv",
            ]
        );
    }

    #[test]
    fn a_root_that_is_home_shows_no_secrets_and_no_state() {
        let home = Home::new(&[".ssh/id", ".netrc", ".bashrc", "a", ".local/state/haft/db"]);
        let mut wanted = home.wanted("", "/usr/bin");
        wanted.hidden = vec![home.path().join(".local/state/haft")];
        wanted.spill = Some(home.path().join(".local/state/haft/spill"));
        assert_eq!(
            home.seen(&wanted),
            [
                "rw ",
                "ro .bashrc",
                "hidden .local/state/haft",
                "ro .local/state/haft/spill",
                "hidden .netrc",
                "hidden .ssh"
            ]
        );
    }

    #[test]
    fn only_what_is_named_of_the_person_s_git_configuration_is_taken_over() {
        let home = Home::new(&[]);
        let text = "[user]\n\tname = A B\n\temail=a@b\n[url \"https://token@host/\"]\n\tinsteadOf = x\n[credential]\nhelper = store";
        fs::write(home.path().join(".gitconfig"), text).unwrap();
        assert_eq!(git_identity(&home.path()).unwrap(), "[user]\n\temail = a@b\n[user]\n\tname = A B\n");
    }

    #[test]
    fn the_whole_machine_is_refused_as_a_root() {
        let wanted = Wanted { roots: vec![("/".into(), false)], ..Wanted::default() };
        assert_eq!(layout(&wanted).unwrap_err().kind, Kind::Unavailable);
    }
}

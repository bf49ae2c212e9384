//! Workspace check: keeps haft out of `/`, the home folder and its parents until a person names or confirms the folder,
//! and shows once per folder what tools may do there.
//!
//! The rule is the same for `run`, `chat`, `call` and `mcp`. A folder that `--dir` names is accepted. Confirmed and
//! shown folders are in a file of the state folder, one per line.

use std::{
    collections::HashSet,
    fs, io,
    io::Write as _,
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    path::{Path, PathBuf},
};

use kit::{Fault, Kind, deliberate_faults::is_broken, escape::visible};
use sandbox::SandboxMode;

use crate::{Options, Place, ask, print, state_folder};

#[cfg(feature = "web")]
pub(crate) mod known;

/// The file in the state folder with the known folders.
const KNOWN: &str = "folders";
/// Folders that version control keeps its history in.
const REPOSITORIES: [&str; 4] = [".git", ".hg", ".jj", ".svn"];
/// The marks of a line in that file.
const CONFIRMED: &str = "confirmed";
const SHOWN: &str = "shown";

/// Whether a question can be asked at the terminal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asking {
    Possible,
    /// Standard input belongs to a protocol.
    No,
}

/// Checks the workspace of these options before anything runs there. Notes for the person go to standard error.
///
/// # Errors
/// [`Kind::Denied`] when it is too wide a folder, and nobody named or confirmed it.
pub(crate) fn check(options: &Options, place: &Place, asking: Asking) -> Result<(), Fault> {
    if options.dir.is_some() {
        return Ok(());
    }
    let folder = options.workspace()?;
    let mut known = KnownFolders::of(place);
    let wide = WideFolders::of(place);
    if let Some(what) = wide.what(&folder) {
        if known.has(CONFIRMED, &folder) {
            return Ok(());
        }
        let question = format!(
            "{} is {what}. Tools may read, change and delete every file in it without asking.\n\
             Work here anyway? haft remembers a yes. [y/N] ",
            shown(&folder)
        );
        return match (asking == Asking::Possible).then(|| ask::confirm(&question)).flatten() {
            Some(true) => known.add(CONFIRMED, &folder),
            _ => Err(too_wide(&folder, what)),
        };
    }
    if !known.has(SHOWN, &folder) {
        let sandbox = sandbox(options, place);
        first_look(&folder, sandbox).iter().for_each(|line| print::err(&format!("haft: {line}")));
        // If this fails, the notes are shown again next time.
        let _ = known.add(SHOWN, &folder);
    }
    Ok(())
}

/// Returns the sandbox of the workspace; the default if the configuration can't be read, which is reported elsewhere.
fn sandbox(options: &Options, place: &Place) -> SandboxMode {
    let configured = || options.config(place).ok().and_then(|it| it.sandbox);
    options.sandbox.map(SandboxMode::from).or_else(configured).unwrap_or_default()
}

/// Returns the notes about a folder that haft has not worked in before.
fn first_look(folder: &Path, sandbox: SandboxMode) -> Vec<String> {
    let may = match sandbox {
        SandboxMode::ReadOnly => "tools may read every file in it, and change none".to_owned(),
        SandboxMode::Workspace => {
            "tools and sandboxed commands may change every file in it without asking; haft asks about many \
             deletions at once and about what it can't undo, and `haft undo` takes back the rest"
                .to_owned()
        }
        SandboxMode::Full => {
            "tools may change every file in it without asking; commands run outside the sandbox, each \
             after approval"
                .to_owned()
        }
    };
    let mut lines = vec![format!("first use in {}: {may}", shown(folder))];
    if sandbox != SandboxMode::ReadOnly && !is_in_repository(folder) {
        // What runs outside the sandbox is not recorded.
        let what = if sandbox == SandboxMode::Full { "nothing" } else { "only `haft undo`" };
        lines.push(format!(
            "warning: {} is not in a git repository, so {what} brings back what a command deletes there",
            shown(folder)
        ));
    }
    lines
}

fn is_in_repository(folder: &Path) -> bool {
    folder.ancestors().any(|it| REPOSITORIES.iter().any(|name| it.join(name).exists()))
}

fn too_wide(folder: &Path, what: &str) -> Fault {
    Fault::new(
        Kind::Denied,
        format!("the workspace would be {}, {what}: commands could delete everything in it", shown(folder)),
    )
    .next(
        "Start it in a project folder, or name one with `--dir FOLDER`. To work here all the same, use `--dir .`, or \
         answer yes once at a terminal: `haft chat`.",
    )
}

/// Returns a folder's path, escaped for a person.
pub(crate) fn shown(folder: &Path) -> String {
    visible(&folder.display().to_string()).0.into_owned()
}

/// Folders that hold more than a project: `/`, the home folder, and the folders above it.
#[derive(Debug, Clone, Default)]
pub(crate) struct WideFolders {
    homes: Vec<PathBuf>,
    /// The device and inode of each home folder and its parents: a bind mount has another path.
    same: Vec<(u64, u64)>,
    /// The file with the folders that the person confirmed.
    known: Option<PathBuf>,
}

impl WideFolders {
    pub(crate) fn of(place: &Place) -> Self {
        let known = Some(place.state.join(KNOWN));
        Self { known, ..Self::around(place.homes()) }
    }

    pub(crate) fn around(homes: Vec<PathBuf>) -> Self {
        let homes: Vec<PathBuf> = homes.into_iter().map(|home| home.canonicalize().unwrap_or(home)).collect();
        let above = homes.iter().flat_map(|home| home.ancestors());
        let same = above.filter_map(identity).collect();
        Self { homes, same, known: None }
    }

    /// Returns the kind of a wide folder, in words that follow "is"; `None` for any other folder.
    pub(crate) fn what(&self, folder: &Path) -> Option<&'static str> {
        if is_broken("home") {
            return None;
        }
        if folder.parent().is_none() {
            return Some("the root of the file system");
        }
        if self.homes.iter().any(|home| home == folder) {
            return Some("your home folder");
        }
        let is_above = self.homes.iter().any(|home| home.starts_with(folder));
        let is_same = identity(folder).is_some_and(|it| self.same.contains(&it));
        (is_above || is_same).then_some("a folder with your home folder in it")
    }

    /// Returns the kind of a wide folder, unless a person confirmed it.
    pub(crate) fn refused(&self, folder: &Path) -> Option<&'static str> {
        let what = self.what(folder)?;
        let confirmed =
            self.known.clone().is_some_and(|file| KnownFolders::read(file).has(CONFIRMED, folder));
        (!confirmed).then_some(what)
    }
}

fn identity(folder: &Path) -> Option<(u64, u64)> {
    let about = fs::metadata(folder).ok()?;
    Some((about.dev(), about.ino()))
}

/// The folders that a person confirmed, and those that haft has shown notes about: the lines of the file, read once.
struct KnownFolders {
    file: PathBuf,
    lines: HashSet<String>,
}

impl KnownFolders {
    fn of(place: &Place) -> Self {
        Self::read(place.state.join(KNOWN))
    }

    fn read(file: PathBuf) -> Self {
        let text = fs::read_to_string(&file).unwrap_or_default();
        Self { file, lines: text.lines().map(str::to_owned).collect() }
    }

    fn has(&self, mark: &str, folder: &Path) -> bool {
        self.lines.contains(&line(mark, folder))
    }

    fn add(&mut self, mark: &str, folder: &Path) -> Result<(), Fault> {
        let write = || -> io::Result<()> {
            if let Some(state) = self.file.parent() {
                state_folder::make(state)?;
            }
            // One line in one write: two concurrent appends both stay whole.
            let mut file = fs::OpenOptions::new().append(true).create(true).open(&self.file)?;
            file.write_all(format!("{}\n", line(mark, folder)).as_bytes())
        };
        write().map_err(|error| {
            Fault::new(Kind::Unavailable, format!("can't write `{}`: {error}", self.file.display()))
        })?;
        self.lines.insert(line(mark, folder));
        Ok(())
    }
}

/// Returns a line for a folder: no two folders have the same.
fn line(mark: &str, folder: &Path) -> String {
    format!("{mark} {}", folder.as_os_str().as_bytes().escape_ascii())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn root_home_and_parents_of_home_are_wide_under_every_name() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("homes/me/project")).unwrap();
        fs::create_dir_all(base.join("other")).unwrap();
        std::os::unix::fs::symlink(base.join("homes/me"), base.join("link")).unwrap();
        let wide = WideFolders::around(vec![base.join("link"), PathBuf::from("/no/such/home")]);
        for folder in ["/", "/no", "/no/such/home"] {
            assert!(wide.what(Path::new(folder)).is_some(), "{folder}");
        }
        assert_eq!(wide.what(&base.join("homes/me")), Some("your home folder"));
        for folder in [base.clone(), base.join("homes"), base.join("link")] {
            assert!(wide.what(&folder).is_some(), "{}", folder.display());
        }
        for folder in [base.join("homes/me/project"), base.join("other")] {
            assert_eq!(wide.what(&folder), None);
        }
    }

    #[test]
    fn folder_is_known_by_its_exact_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("state/folders");
        let mut known = KnownFolders::read(file.clone());
        known.add(SHOWN, Path::new("/a\nconfirmed /b")).unwrap();
        assert!(known.has(SHOWN, Path::new("/a\nconfirmed /b")));
        assert!(!known.has(CONFIRMED, Path::new("/b")) && !known.has(SHOWN, Path::new("/a")));
        known.add(CONFIRMED, Path::new("/b")).unwrap();
        assert!(known.has(CONFIRMED, Path::new("/b")));
        let again = KnownFolders::read(file);
        assert!(again.has(CONFIRMED, Path::new("/b")) && again.lines == known.lines);
    }
}

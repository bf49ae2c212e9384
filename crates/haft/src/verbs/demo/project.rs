//! Files of the demo: its project in a temporary folder, and the folder of its log.

use std::{
    ffi::OsString,
    fs::{self, DirBuilder},
    io,
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::DirBuilderExt,
    },
    path::{Path, PathBuf},
};

use kit::{Fault, Kind, quote::quote};

use crate::Place;

/// The files of the project.
const FILES: [(&str, &str); 2] =
    [("price.sh", include_str!("price.sh")), ("test.sh", include_str!("test.sh"))];

/// The file that names the project, next to the saved state of a demo's project.
const MARK: &str = "demo";

/// The project of a demo.
pub(super) struct Project {
    pub(super) folder: PathBuf,
    /// The environment without the person's configuration: the demo runs the same everywhere.
    pub(super) place: Place,
    /// The state folder, if the demo created one of its own.
    own_state: Option<PathBuf>,
}

impl Project {
    /// Creates the project in the folder for temporary files.
    ///
    /// # Errors
    /// When no file can be made there.
    pub(super) fn make(place: &Place) -> Result<Self, Fault> {
        let temporary = place.variable("TMPDIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
        let failed = |error: io::Error| {
            Fault::new(
                Kind::Unavailable,
                format!("no project can be made in {}: {error}", temporary.display()),
            )
            .next("Set TMPDIR to a folder that you may write to.")
        };
        let temporary_folder = temporary.canonicalize().map_err(failed)?;
        let folder = fresh(&temporary_folder, "haft-demo-").map_err(failed)?;
        for (name, text) in FILES {
            fs::write(folder.join(name), text).map_err(failed)?;
        }
        let own_state = match is_writable(&place.state) {
            true => None,
            false => Some(fresh(&temporary_folder, "haft-demo-state-").map_err(failed)?),
        };
        let state = own_state.clone().unwrap_or_else(|| place.state.clone());
        forget_removed(&state);
        remember(&state, &folder).map_err(failed)?;
        let config = state.join("no-configuration");
        Ok(Self { folder, place: Place { state, config, variables: place.variables.clone() }, own_state })
    }

    /// Returns a haft command on the project, as a person types it.
    pub(super) fn command(&self, haft: &str, verb: &str) -> String {
        let state = self.own_state.as_ref();
        let state =
            state.map_or(String::new(), |it| format!("HAFT_STATE_DIR={} ", quote(&it.to_string_lossy())));
        format!("{state}{haft} {verb} --dir {}", self.shown())
    }

    /// Returns the folder, as a person types it.
    pub(super) fn shown(&self) -> String {
        quote(&self.folder.to_string_lossy())
    }

    /// Returns the command that removes the project.
    pub(super) fn removal(&self) -> String {
        let state =
            self.own_state.as_ref().map_or(String::new(), |it| format!(" {}", quote(&it.to_string_lossy())));
        format!("rm -r {}{state}", self.shown())
    }

    /// Removes the project and its saved state.
    pub(super) fn remove(&self) {
        // A failed removal is harmless: the system empties the folder for temporary files.
        let _ = fs::remove_dir_all(store::folder_of(&self.place.state, &self.folder));
        let _ = fs::remove_dir_all(&self.folder);
        if let Some(state) = &self.own_state {
            let _ = fs::remove_dir_all(state);
        }
    }
}

/// Marks the saved state of this project as a demo's.
fn remember(state: &Path, folder: &Path) -> io::Result<()> {
    let kept = store::folder_of(state, folder);
    DirBuilder::new().recursive(true).mode(0o700).create(&kept)?;
    fs::write(kept.join(MARK), folder.as_os_str().as_bytes())
}

/// Removes the saved state of earlier demos whose project no longer exists.
fn forget_removed(state: &Path) {
    let Ok(entries) = fs::read_dir(state.join("workspaces")) else { return };
    for kept in entries.flatten().map(|it| it.path()) {
        let Ok(project) = fs::read(kept.join(MARK)) else { continue };
        let project = PathBuf::from(OsString::from_vec(project));
        // The next demo retries a failed removal.
        if !project.exists() && store::folder_of(state, &project) == kept {
            let _ = fs::remove_dir_all(&kept);
        }
    }
}

/// Creates a folder with an unused name, for this user only.
fn fresh(within: &Path, name: &str) -> io::Result<PathBuf> {
    loop {
        let random = getrandom::u32().map_err(|error| io::Error::other(error.to_string()))?;
        let folder = within.join(format!("{name}{random:08x}"));
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// Returns whether a file can be created in this folder; creates the folder if it is missing.
fn is_writable(folder: &Path) -> bool {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    let probe = made.and_then(|()| fresh(folder, ".demo-"));
    probe.is_ok_and(|probe| fs::remove_dir(probe).is_ok())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn place(dir: &Path, state: PathBuf) -> Place {
        let variables = vec![("TMPDIR".to_owned(), dir.display().to_string())];
        Place { state, config: dir.join("config"), variables }
    }

    #[test]
    fn a_project_is_made_and_removed_with_its_state() {
        let dir = tempfile::tempdir().unwrap();
        let project = Project::make(&place(dir.path(), dir.path().join("state"))).unwrap();
        assert!(project.folder.join("test.sh").is_file());
        assert!(!project.command("haft", "undo").contains("HAFT_STATE_DIR"));
        let kept = store::folder_of(&project.place.state, &project.folder);
        assert!(kept.is_dir());
        project.remove();
        assert!(!project.folder.exists() && !kept.exists());
    }

    #[test]
    fn what_is_kept_of_a_demo_goes_once_its_project_is_gone_and_nothing_else_does() {
        let dir = tempfile::tempdir().unwrap();
        let place = place(dir.path(), dir.path().join("state"));
        let kept = |it: &Project| store::folder_of(&it.place.state, &it.folder);
        let (gone, stays) = (Project::make(&place).unwrap(), Project::make(&place).unwrap());
        let other = place.state.join("workspaces/0123456789abcdef");
        fs::create_dir_all(&other).unwrap();
        // A mark that names a folder other than its own project removes nothing.
        fs::write(other.join(MARK), "/nowhere").unwrap();
        fs::remove_dir_all(&gone.folder).unwrap();
        Project::make(&place).unwrap();
        assert!(!kept(&gone).exists() && kept(&stays).exists() && other.exists());
    }

    #[test]
    fn without_a_state_folder_that_can_be_written_the_demo_has_its_own() {
        let dir = tempfile::tempdir().unwrap();
        // No user can create a folder below a file, not even root.
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let project = Project::make(&place(dir.path(), file.join("state"))).unwrap();
        let state = project.place.state.clone();
        assert!(state.is_dir() && project.command("haft", "undo").starts_with("HAFT_STATE_DIR="));
        project.remove();
        assert!(!project.folder.exists() && !state.exists());
    }
}

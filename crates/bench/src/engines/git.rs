//! git's objects: a scratch index, added and written as a tree before and after each command.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use super::{Engine, between_snapshots};
use crate::batch::{Outcome, bare};

/// Snapshots in an object store beside the folder.
#[derive(Debug)]
pub struct Git {
    folder: PathBuf,
    store: PathBuf,
}

impl Git {
    /// Makes the object store beside the folder.
    ///
    /// # Errors
    /// If git fails.
    pub fn new(folder: PathBuf) -> Outcome<Self> {
        let store = folder.with_extension("objects");
        bare(
            Path::new("/"),
            &format!("git init -q --bare '{0}' && git -C '{0}' config core.compression 0", store.display()),
        )?;
        Ok(Self { folder, store })
    }

    fn snapshot(&self) -> Outcome<()> {
        for arguments in [["add", "-A"].as_slice(), &["write-tree"]] {
            let ran = Command::new("git")
                .args(arguments)
                .current_dir(&self.folder)
                .env("GIT_DIR", &self.store)
                .env("GIT_WORK_TREE", &self.folder)
                .env("GIT_CONFIG_GLOBAL", "/dev/null")
                .stdin(Stdio::null())
                .output()?;
            if !ran.status.success() {
                return Err(String::from_utf8_lossy(&ran.stderr).into_owned().into());
            }
        }
        Ok(())
    }
}

impl Engine for Git {
    fn name(&self) -> &'static str {
        "git: add -A and write-tree, before and after"
    }

    fn lacks(&self) -> &'static str {
        "ignored files, .git itself, modes but the executable bit, mtimes, empty folders; who changed a file while two commands run"
    }

    fn prepare(&mut self) -> Outcome<()> {
        self.snapshot()
    }

    fn run(&mut self, command: &str) -> Outcome<Duration> {
        between_snapshots(self, |it| it.snapshot(), command)
    }

    fn folder(&self) -> &Path {
        &self.folder
    }
}

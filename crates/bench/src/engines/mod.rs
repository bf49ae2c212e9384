//! Ways to keep what a command changes, each small but complete enough to be measured: what it must do beside a
//! command so that all the command changed can be listed and put back.

pub mod git;
pub mod overlay;
pub mod snapshot;

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::batch::{Haft, Outcome, Tracking, bare};

/// A way to keep what commands change in one folder.
pub trait Engine {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Its limits.
    fn lacks(&self) -> &'static str;

    /// Does what is needed once, before the first command.
    ///
    /// # Errors
    /// Those of the system.
    fn prepare(&mut self) -> Outcome<()> {
        Ok(())
    }

    /// Runs a command, and returns the time with all that is done for it.
    ///
    /// # Errors
    /// If the command or the engine fails.
    fn run(&mut self, command: &str) -> Outcome<Duration>;

    /// The folder in which commands run.
    fn folder(&self) -> &Path;
}

/// Runs a command between two snapshots, and returns the time of all three.
fn between_snapshots<E: Engine>(
    engine: &mut E,
    snapshot: impl Fn(&mut E) -> Outcome<()>,
    command: &str,
) -> Outcome<Duration> {
    let began = Instant::now();
    snapshot(engine)?;
    bare(engine.folder(), command)?;
    snapshot(engine)?;
    Ok(began.elapsed())
}

/// Nothing is kept: the bare command.
#[derive(Debug)]
pub struct Bare(pub PathBuf);

impl Engine for Bare {
    fn name(&self) -> &'static str {
        "nothing kept"
    }

    fn lacks(&self) -> &'static str {
        "undo"
    }

    fn run(&mut self, command: &str) -> Outcome<Duration> {
        bare(&self.0, command)
    }

    fn folder(&self) -> &Path {
        &self.0
    }
}

/// haft's sandbox, with its change tracker or without.
#[derive(Debug)]
pub struct Sandboxed {
    folder: PathBuf,
    haft: Haft,
    tracking: Tracking,
}

impl Sandboxed {
    /// Starts haft beside the folder.
    ///
    /// # Errors
    /// Those of [`Haft::start`].
    pub fn start(haft: &Path, folder: PathBuf, tracking: Tracking) -> Outcome<Self> {
        let haft = Haft::start(haft, &folder, &folder.with_extension("state"), tracking)?;
        Ok(Self { folder, haft, tracking })
    }
}

impl Engine for Sandboxed {
    fn name(&self) -> &'static str {
        match self.tracking {
            Tracking::Off => "haft's sandbox, nothing kept",
            Tracking::On => "haft: stop each change, link or copy",
        }
    }

    fn lacks(&self) -> &'static str {
        match self.tracking {
            Tracking::Off => "undo",
            Tracking::On => "files above its bounds; a second thread that swaps a path",
        }
    }

    fn run(&mut self, command: &str) -> Outcome<Duration> {
        self.haft.call(command)
    }

    fn folder(&self) -> &Path {
        &self.folder
    }
}

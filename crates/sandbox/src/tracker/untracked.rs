//! Systems on which changes are not tracked.

use std::{
    convert::Infallible,
    io,
    os::fd::OwnedFd,
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use kit::procs::Lendable;

use super::{Logs, Opener};

/// The tracker of one sandbox: there is none on this system.
#[derive(Clone)]
pub struct Tracker(Infallible);

/// The tracked processes of one command: there are none on this system.
#[derive(Clone)]
pub struct Tracked(Infallible);

/// A time in which a process works for a call.
pub struct During(Infallible);

impl Tracker {
    /// Whether changes can be tracked on this system.
    pub const IS_AVAILABLE: bool = false;

    /// Fails: there is no such filter on this system.
    ///
    /// # Errors
    /// Always.
    pub fn start(_: Logs, _: &[PathBuf], _: Arc<OnceLock<Opener>>) -> io::Result<Self> {
        let why = "changes of commands are tracked on Linux on x86_64 and aarch64 only";
        Err(io::Error::new(io::ErrorKind::Unsupported, why))
    }

    /// Is never called.
    ///
    /// # Errors
    /// Never.
    pub fn track(&self, _: OwnedFd, _: Option<&str>) -> io::Result<Tracked> {
        match self.0 {}
    }
}

impl Tracked {
    /// Is never called.
    pub fn during(&self, _: &str) -> During {
        match self.0 {}
    }

    /// Is never called.
    pub async fn settled(&self) {
        match self.0 {}
    }
}

impl Lendable for Tracked {
    fn file(&self) -> Option<OwnedFd> {
        match self.0 {}
    }

    fn release(&self) {
        match self.0 {}
    }

    fn resume(&self, _: OwnedFd) {
        match self.0 {}
    }

    fn lost(&self) {
        match self.0 {}
    }
}

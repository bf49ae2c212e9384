//! Sharing files with the person.

use std::{fs::File, path::PathBuf};

use crate::{Fault, Kind};

/// The files that a session shared: copies, each kept for a day.
pub trait Shares: Send + Sync {
    /// Copies a file for the person. `go_on` is called while it is copied; its error ends the work. Blocks.
    ///
    /// # Errors
    /// [`Kind::TooBig`] for a file that is too long, [`Kind::Unavailable`] when it can't be copied, and those
    /// of `go_on`.
    fn share(
        &self,
        file: &File,
        new: NewShare,
        go_on: &dyn Fn() -> Result<(), Fault>,
    ) -> Result<Shared, Fault>;

    /// Returns a shared file, by its id or its name; of several with one name, the newest. Blocks.
    ///
    /// # Errors
    /// [`Kind::NotFound`], with the existing names.
    fn find(&self, file: &str) -> Result<Shared, Fault>;

    /// Returns the shared files that still exist, oldest first. Blocks.
    ///
    /// # Errors
    /// When they can't be listed.
    fn list(&self) -> Result<Vec<Shared>, Fault>;

    /// Marks a shared file, by its id, as one to show to the person. Blocks.
    ///
    /// # Errors
    /// Those of [`find`](Self::find), and when that can't be written.
    fn publish(&self, id: &str) -> Result<Shared, Fault>;
}

/// The description of a file to share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewShare {
    /// Its name for the person.
    pub name: String,
    /// Its media type, by its content.
    pub mime: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Whether a front end may show it in a page of its own. Otherwise it is a download: it may contain
    /// active content.
    pub inline: bool,
}

/// A file that a session shared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shared {
    /// Its id: 128 random bits, unguessable.
    pub id: String,
    /// Its name for the person.
    pub name: String,
    /// Its media type, by its content.
    pub mime: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Whether a front end may show it in a page of its own; otherwise it is sent as an attachment.
    pub inline: bool,
    /// Whether it is to be shown.
    pub published: bool,
    /// The time when it is deleted, in milliseconds since 1970.
    pub until_ms: u64,
    /// The path of the copy.
    pub path: PathBuf,
    /// The link for the person: an address of the front end, or a file.
    pub link: String,
}

/// Sharing is not available.
pub struct NoShares;

impl Shares for NoShares {
    fn share(&self, _: &File, _: NewShare, _: &dyn Fn() -> Result<(), Fault>) -> Result<Shared, Fault> {
        Err(Fault::new(Kind::Unavailable, "no file can be shared here"))
    }

    fn find(&self, _: &str) -> Result<Shared, Fault> {
        Err(nowhere())
    }

    fn list(&self) -> Result<Vec<Shared>, Fault> {
        Ok(Vec::new())
    }

    fn publish(&self, _: &str) -> Result<Shared, Fault> {
        Err(nowhere())
    }
}

fn nowhere() -> Fault {
    Fault::new(Kind::NotFound, "no file was shared here")
}

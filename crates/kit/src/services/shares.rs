//! Giving a file to the person.

use std::{fs::File, path::PathBuf};

use crate::{Fault, Kind};

/// The files that a session gave away: copies, each for a day.
pub trait Shares: Send + Sync {
    /// Copies a file among them. `go_on` is asked while it is copied. Blocks.
    ///
    /// # Errors
    /// [`Kind::TooBig`] for a file that is too long, [`Kind::Unavailable`] when it can't be copied, and those of `go_on`.
    fn share(
        &self,
        file: &File,
        new: NewShare,
        go_on: &dyn Fn() -> Result<(), Fault>,
    ) -> Result<Shared, Fault>;

    /// One of them, by its id or its name; of those of one name, the newest. Blocks.
    ///
    /// # Errors
    /// [`Kind::NotFound`], with the names there are.
    fn find(&self, file: &str) -> Result<Shared, Fault>;

    /// Those that are still there, oldest first. Blocks.
    ///
    /// # Errors
    /// When they can't be listed.
    fn list(&self) -> Result<Vec<Shared>, Fault>;

    /// Marks one, by its id, as meant to be shown to the person, and not only to be given. Blocks.
    ///
    /// # Errors
    /// Those of [`find`](Self::find), and when that can't be written.
    fn publish(&self, id: &str) -> Result<Shared, Fault>;
}

/// What is said of a file that is to be shared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewShare {
    /// What the person calls it.
    pub name: String,
    /// Its media type, by its content.
    pub mime: String,
    /// How many bytes it has.
    pub bytes: u64,
    /// A door may show it within a page of its own. Otherwise it is given to be saved: it may hold what runs.
    pub inline: bool,
}

/// A file that a session gave away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shared {
    /// Its id: 128 random bits, which nobody guesses.
    pub id: String,
    /// What the person calls it.
    pub name: String,
    /// Its media type, by its content.
    pub mime: String,
    /// How many bytes it has.
    pub bytes: u64,
    /// A door may show it within a page of its own; otherwise it sends it as an attachment.
    pub inline: bool,
    /// It is meant to be shown.
    pub published: bool,
    /// When it goes, in milliseconds since 1970.
    pub until_ms: u64,
    /// Where the copy is.
    pub path: PathBuf,
    /// Where the person finds it: at the door through which they came, or as a file.
    pub link: String,
}

/// No files can be given away.
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

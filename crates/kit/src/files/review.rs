//! Review of changes before they land: a person sees exactly what would be written, and a yes holds for exactly that.
//!
//! [`Files::save`] and its like ask by themselves. A tool that changes several files in one call asks once, with
//! [`Files::propose`].

use std::path::PathBuf;

use super::{Before, Files, Loaded, save::still};
use crate::{
    Fault,
    services::{After, Proposed},
    text::{Content, Digest},
};

/// A change that a tool is about to make.
pub enum Proposal<'a> {
    /// New content for a file, as [`Files::save`] takes it.
    Save {
        /// The file.
        path: &'a str,
        /// What it must still hold.
        before: Before<'a>,
        /// What it is to hold.
        content: &'a Content,
    },
    /// A file that goes, as [`Files::remove`] takes it.
    Remove {
        /// The file.
        path: &'a str,
        /// What it must still hold.
        before: &'a Loaded,
    },
}

/// A change that a person allowed: of this file, from this content to that one.
#[derive(PartialEq, Eq)]
pub(super) struct Approved {
    path: PathBuf,
    before: Option<Digest>,
    after: Option<Digest>,
}

impl Files {
    /// Has a person review these changes together, before the first of them is made. Each is then made as it was
    /// proposed, without another question. Where nobody reviews changes this does nothing. Blocks.
    ///
    /// # Errors
    /// [`Kind::Denied`](crate::Kind::Denied) when the person refuses, or the call may not write there;
    /// [`Kind::Stale`](crate::Kind::Stale) when a file is no longer as it was.
    pub fn propose(&self, changes: &[Proposal<'_>]) -> Result<(), Fault> {
        if !self.is_reviewed() {
            return Ok(());
        }
        let mut wanted = Vec::new();
        for change in changes {
            let (path, before, after) = match change {
                Proposal::Save { path, before, content } => (*path, *before, Some(*content)),
                Proposal::Remove { path, before } => (*path, Before::Was(before), None),
            };
            let file = self.to_be_changed(path, before)?;
            wanted.push(Wanted {
                file,
                before: content_of(before),
                after: after.map_or(After::Gone, After::Holds),
                digest: after.map(Content::digest),
            });
        }
        let approved = self.ask(wanted)?;
        self.inner.approved.lock().extend(approved);
        Ok(())
    }

    /// Has a person review one change, unless they have allowed exactly this one.
    pub(super) fn review(
        &self,
        path: &str,
        before: Before<'_>,
        after: After<'_>,
        digest: Option<Digest>,
    ) -> Result<(), Fault> {
        let file = self.to_be_changed(path, before)?;
        self.ask(vec![Wanted { file, before: content_of(before), after, digest }]).map(drop)
    }

    /// Does a person review changes?
    pub(super) fn is_reviewed(&self) -> bool {
        self.inner.review.is_some()
    }

    /// The file that would be changed. Nobody is asked about what could not land anyway.
    fn to_be_changed(&self, path: &str, before: Before<'_>) -> Result<PathBuf, Fault> {
        let opened = self.resolve(path)?;
        self.may_write(path, &opened.location)?;
        still(path, &opened, before)?;
        Ok(opened.location.absolute())
    }

    /// Asks about those that nobody has allowed yet. Gives what was allowed now.
    fn ask(&self, wanted: Vec<Wanted<'_>>) -> Result<Vec<Approved>, Fault> {
        let Some(review) = &self.inner.review else { return Ok(Vec::new()) };
        let mut open = Vec::new();
        for it in wanted {
            let mut approved = self.inner.approved.lock();
            // A yes is used once.
            match approved.iter().position(|yes| *yes == it.approved()) {
                Some(at) => drop(approved.swap_remove(at)),
                // What changes nothing needs no yes.
                None if it.before.map(Content::digest) == it.digest => {}
                None => open.push(it),
            }
        }
        if !open.is_empty() {
            review.review(&open.iter().map(Wanted::proposed).collect::<Vec<_>>())?;
        }
        Ok(open.iter().map(Wanted::approved).collect())
    }
}

/// A change that is to be reviewed.
struct Wanted<'a> {
    file: PathBuf,
    before: Option<&'a Content>,
    after: After<'a>,
    /// Of what the file is to hold.
    digest: Option<Digest>,
}

impl Wanted<'_> {
    fn proposed(&self) -> Proposed<'_> {
        Proposed { path: &self.file, before: self.before, after: self.after }
    }

    fn approved(&self) -> Approved {
        Approved { path: self.file.clone(), before: self.before.map(Content::digest), after: self.digest }
    }
}

fn content_of(before: Before<'_>) -> Option<&Content> {
    match before {
        Before::Absent => None,
        Before::Was(loaded) => Some(&loaded.bytes),
    }
}

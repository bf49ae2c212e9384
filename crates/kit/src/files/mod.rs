//! Guarded file access: nothing outside the roots.
//!
//! [`Roots`] holds the allowed folders, each as an open handle. [`Files`] is one call's share of them: it
//! opens only what the call was granted, and reads or replaces exactly the file that it opened, whatever is
//! renamed meanwhile.

mod attributes;
mod beneath;
mod by_handle;
mod cancellation;
mod globs;
mod hidden;
mod incoming;
mod line_index;
mod links;
mod list;
mod nodes;
mod open;
mod pages;
mod review;
mod roots;
mod save;
mod sparse;
mod tree;
mod unnamed_file;
mod unsaved;
mod walk;

use std::{path::Path, sync::Arc};

pub use attributes::{attributes, set_attributes};
pub use by_handle::{open_folder, rename_to_free_name};
use cancellation::Gate;
pub use globs::check_glob;
pub use incoming::Incoming;
pub use list::{Entry, EntryKind};
pub use nodes::{Becomes, Named, Was};
pub use open::{Identity, Loaded, Open};
pub use pages::{Clipped, Limits, Page, Place, Start, Total};
pub use review::Proposal;
pub use roots::{Location, OtherNames, RootSpec, Roots};
pub use save::{Before, Saved};
pub use sparse::copy_with_holes;
pub use tree::Tree;
pub use unsaved::{Buffers, unsaved};
pub use walk::{Go, Ignored, Met, OuterRules, Walk, Walked};

use parking_lot::Mutex;
use review::Approved;

use crate::{
    Fault,
    services::{History, Review},
    text::Content,
};

/// The files that one call was granted. Cheap to clone.
#[derive(Clone)]
pub struct Files {
    inner: Arc<Inner>,
}

struct Inner {
    roots: Roots,
    grants: Vec<Grant>,
    history: Arc<dyn History>,
    gate: Gate,
    /// Reviews each change before it is written, if set.
    review: Option<Arc<dyn Review>>,
    /// Changes that were approved and are not written yet.
    approved: Mutex<Vec<Approved>>,
    /// Whether an editor's unsaved text counts as the content of a file.
    follows_editor: bool,
}

/// A permission of a call at a place.
#[derive(Debug, Clone)]
pub struct Grant {
    /// The place.
    pub location: Location,
    /// The permitted access.
    pub access: Access,
}

/// An access to a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read it and everything below it.
    Read,
    /// Read, create, change or remove exactly it.
    Write,
}

/// A history for read-only access, which records nothing.
struct NothingChanges;

impl History for NothingChanges {
    fn keep(&self, path: &Path, _: Option<&Content>, _: Option<&Content>) -> Result<(), Fault> {
        Err(Fault::bug(format!("{} is only read here, and was to be changed", path.display())))
    }
}

impl Files {
    /// Creates the files of a call with these grants.
    pub fn new(roots: Roots, grants: Vec<Grant>, history: Arc<dyn History>) -> Self {
        Self::reviewed(roots, grants, history, None)
    }

    /// Creates read-only access to this place, for the program itself.
    pub fn reading(roots: Roots, location: Location) -> Self {
        let grants = vec![Grant { location, access: Access::Read }];
        // The program's own files are what is on the disk.
        Self::of(roots, grants, Arc::new(NothingChanges), None, false)
    }

    /// Like [`new`](Self::new), with a review of each change before it is written.
    pub fn reviewed(
        roots: Roots,
        grants: Vec<Grant>,
        history: Arc<dyn History>,
        review: Option<Arc<dyn Review>>,
    ) -> Self {
        Self::of(roots, grants, history, review, true)
    }

    fn of(
        roots: Roots,
        grants: Vec<Grant>,
        history: Arc<dyn History>,
        review: Option<Arc<dyn Review>>,
        follows_editor: bool,
    ) -> Self {
        let (gate, approved) = (Gate::default(), Mutex::default());
        Self { inner: Arc::new(Inner { roots, grants, history, gate, review, approved, follows_editor }) }
    }

    /// Returns the roots.
    pub fn roots(&self) -> &Roots {
        &self.inner.roots
    }

    /// Resolves `path`, as a model wrote it. It need not exist.
    ///
    /// # Errors
    /// [`Kind::Denied`](crate::Kind::Denied) when it leads out of the roots.
    pub fn locate(&self, path: &str) -> Result<Location, Fault> {
        self.inner.roots.locate(path)
    }

    /// Forbids any further change; returns false if one is under way, which the caller then has to wait for.
    pub fn close_gate(&self) -> bool {
        self.inner.gate.close()
    }

    fn resolve(&self, path: &str) -> Result<roots::Opened, Fault> {
        self.inner.roots.resolve(path)
    }

    fn may_read(&self, path: &str, location: &Location) -> Result<(), Fault> {
        let granted = self.inner.grants.iter().any(|grant| match grant.access {
            Access::Read => location.is_within(&grant.location),
            Access::Write => location.is(&grant.location),
        });
        if granted { Ok(()) } else { Err(not_granted(path, location, "read")) }
    }

    fn may_write(&self, path: &str, location: &Location) -> Result<(), Fault> {
        if location.is_read_only() {
            return Err(Fault::denied(format!(
                "`{path}` lies in a root that is read-only (rule `read_only_root`)"
            )));
        }
        let granted = self
            .inner
            .grants
            .iter()
            .any(|grant| grant.access == Access::Write && location.is(&grant.location));
        if granted { Ok(()) } else { Err(not_granted(path, location, "change")) }
    }
}

/// Returns the fault for a path that the call had not declared, or whose symlink was changed after the decision.
fn not_granted(path: &str, location: &Location, verb: &str) -> Fault {
    Fault::denied(format!(
        "this call was not granted to {verb} `{location}`, where `{path}` leads now (rule `grants`)"
    ))
    .next("If a link was changed just now, make the call again.")
}

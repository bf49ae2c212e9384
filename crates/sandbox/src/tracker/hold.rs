//! Holds: changes that wait for a decision, because the content that they overwrite can't be kept.
//!
//! The process that is about to make such a change stays stopped; the tracker goes on to serve the others. Nothing is
//! recorded and nothing is changed until somebody has decided.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use kit::tracking::Reason;
use parking_lot::Mutex;

use super::{log::Identity, logs::Call};

/// Receives the changes of a call that wait. It must not block: the tracker serves no other process meanwhile.
pub type Asker = Arc<dyn Fn(Hold) + Send + Sync>;

/// Wakes a tracker, which then takes up again what waits.
pub(super) type Wake = Arc<dyn Fn() + Send + Sync>;

/// A change that waits for a decision. Dropping it undecided refuses the change.
pub struct Hold {
    call: Arc<Call>,
    what: What,
    /// The file's path.
    path: PathBuf,
    size: u64,
    why: Reason,
    program: String,
    removes: bool,
    waits: Box<dyn Fn() -> bool + Send + Sync>,
    is_decided: bool,
}

/// The content about which is decided.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum What {
    /// That of one file.
    File(Identity),
    /// The content of all further files of the call, as no copy fits any more.
    AllFurther,
}

/// The decision about a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// Nothing yet.
    Pending,
    /// It may be lost.
    Allowed,
    /// The change fails.
    Refused,
}

/// The decisions on one call.
#[derive(Default)]
pub(super) struct Holds {
    asker: Option<Asker>,
    decided: HashMap<What, Decision>,
    wakes: Vec<Wake>,
}

impl Hold {
    /// Returns the file that is about to lose its content.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns its size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns why its content can't be kept.
    pub fn why(&self) -> &Reason {
        &self.why
    }

    /// Returns the name of the program that is about to change it.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// Returns whether the file is removed or replaced, and not opened for writing.
    pub fn removes(&self) -> bool {
        self.removes
    }

    /// Returns whether the decision counts for all further files of the call, as no copy fits.
    pub fn is_of_all_further(&self) -> bool {
        self.what == What::AllFurther
    }

    /// Returns whether the process still waits: it may have been killed.
    pub fn waits(&self) -> bool {
        (self.waits)()
    }

    /// Lets the change be made, or makes it fail with `EPERM`.
    pub fn decide(mut self, allowed: bool) {
        self.end(Some(if allowed { Decision::Allowed } else { Decision::Refused }));
    }

    /// Takes the question back: the next process that is about to make this change asks again.
    pub fn withdraw(mut self) {
        self.end(None);
    }

    fn end(&mut self, decision: Option<Decision>) {
        self.is_decided = true;
        let mut holds = self.call.holds.lock();
        match decision {
            Some(decision) => holds.decided.insert(self.what.clone(), decision),
            None => holds.decided.remove(&self.what),
        };
        let wakes = std::mem::take(&mut holds.wakes);
        drop(holds);
        wakes.iter().for_each(|wake| wake());
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !self.is_decided {
            self.end(Some(Decision::Refused));
        }
    }
}

/// A content that is about to be lost.
pub(super) struct Losing<'a> {
    pub(super) identity: Identity,
    pub(super) path: PathBuf,
    pub(super) size: u64,
    pub(super) why: &'a Reason,
    /// Whether no further copy fits.
    pub(super) is_full: bool,
    pub(super) removes: bool,
}

/// The process that is about to make a change.
pub(super) struct Process {
    pub(super) program: String,
    pub(super) waits: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Call {
    /// Has changes wait for a decision if the content that they overwrite can't be kept. Without that, they are
    /// made. The first asker stays.
    pub fn asks(&self, asker: Asker) {
        self.holds.lock().asker.get_or_insert(asker);
    }

    /// Returns the decision on a file's content, if it was asked about.
    pub(super) fn decision(&self, identity: Identity) -> Option<Decision> {
        let holds = self.holds.lock();
        if holds.decided.is_empty() {
            return None;
        }
        holds.decided.get(&What::File(identity)).copied()
    }

    /// Returns the decision on a content, and asks for it at first. `wake` is called once there is one.
    pub(super) fn decide(
        self: &Arc<Self>,
        losing: Losing<'_>,
        process: impl FnOnce() -> Process,
        wake: impl FnOnce() -> Wake,
    ) -> Decision {
        let what = if losing.is_full { What::AllFurther } else { What::File(losing.identity) };
        let mut holds = self.holds.lock();
        let Some(asker) = holds.asker.clone() else { return Decision::Allowed };
        let asked = holds.decided.get(&what).copied();
        if let Some(decision @ (Decision::Allowed | Decision::Refused)) = asked {
            return decision;
        }
        holds.wakes.push(wake());
        if asked.is_none() {
            holds.decided.insert(what.clone(), Decision::Pending);
            drop(holds);
            let Losing { path, size, why, removes, .. } = losing;
            let Process { program, waits } = process();
            let (call, why) = (self.clone(), why.clone());
            asker(Hold { call, what, path, size, why, program, removes, waits, is_decided: false });
        }
        Decision::Pending
    }
}

/// The decisions of a call.
pub(super) type Decisions = Mutex<Holds>;

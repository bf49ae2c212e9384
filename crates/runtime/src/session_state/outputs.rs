//! Spilled outputs of a session: stores what is too long to show, and lets the session's tools read it.

use std::{
    sync::OnceLock,
    time::{Duration, Instant},
};

use kit::{Fault, files::Roots};
use parking_lot::Mutex;
use store::spill::Spills;

/// How often haft looks whether another process has stored an output of this session. A look costs as much as a tenth of a call.
const AGAIN: Duration = Duration::from_millis(100);

/// The outputs of one session that were too long to show.
pub(super) struct SpilledOutputs {
    spills: Spills,
    session: String,
    roots: Roots,
    /// The roots whose relative paths begin at the session's folder, if it has one.
    based: OnceLock<Roots>,
    /// The roots with this session's spilled outputs, once there are any.
    with_shelf: OnceLock<Roots>,
    /// The last look for them: when it was, and how many outputs this process had stored.
    looked: Mutex<Option<(Instant, u64)>>,
}

impl SpilledOutputs {
    /// Returns the outputs of the session of this name, which reaches these roots.
    pub(super) fn new(spills: Spills, session: &str, roots: Roots) -> Self {
        let session = session.to_owned();
        let (based, with_shelf, looked) = (OnceLock::new(), OnceLock::new(), Mutex::default());
        let outputs = Self { spills, session, roots, based, with_shelf, looked };
        outputs.open_shelf();
        outputs
    }

    /// Stores a text that is too long to show; returns the handle to read it.
    pub(super) fn keep(&self, bytes: &[u8]) -> Result<String, Fault> {
        let handle = self.spills.keep(&self.session, bytes)?;
        self.open_shelf();
        Ok(handle)
    }

    /// Returns the folders that the session's tools may reach: the roots, and its outputs.
    pub(super) fn roots(&self) -> Roots {
        // A command may have begun to spill meanwhile.
        self.open_shelf();
        let roots = self.with_shelf.get().unwrap_or(&self.roots);
        self.based.get().map_or_else(|| roots.clone(), |it| roots.with_base_of(it))
    }

    /// Has relative paths begin at a folder of the workspace. The first one stays.
    pub(super) fn work_in(&self, folder: &str) -> Result<(), Fault> {
        let based = self.roots.with_base(folder)?;
        let _ = self.based.set(based);
        Ok(())
    }

    /// Has relative paths begin where those of another session begin.
    pub(super) fn work_like(&self, other: &Self) {
        if let Some(based) = other.based.get() {
            let _ = self.based.set(based.clone());
        }
    }

    fn open_shelf(&self) {
        if self.with_shelf.get().is_none()
            && self.wants_a_look()
            && let Some(shelf) = self.spills.folder(&self.session)
            && let Ok(roots) = self.roots.with_shelf(&shelf)
        {
            // Another call may have set it first; its roots are equal.
            let _ = self.with_shelf.set(roots);
        }
    }

    fn wants_a_look(&self) -> bool {
        let (now, made) = (Instant::now(), self.spills.made());
        let mut looked = self.looked.lock();
        let is_known = looked.is_some_and(|(at, before)| before == made && now - at < AGAIN);
        if !is_known {
            *looked = Some((now, made));
        }
        !is_known
    }
}

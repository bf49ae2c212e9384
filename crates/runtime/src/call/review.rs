//! Review of file changes: the person of the session sees the exact content before it is written.
//!
//! `kit` calls this when a tool has the final content. With `--approve ask-edits` every change of a call is
//! reviewed; otherwise only the changes of calls whose question waits for the content.

use std::{path::PathBuf, sync::Arc};

use kit::{
    Fault,
    services::{After, Proposed, Review},
};
use parking_lot::Mutex;
use policy::{Decision, Want};
use store::{
    changes::{self, Version, Versions},
    journal::Begun,
};
use tokio::runtime::Handle;

use super::{
    JournalEntry,
    questions::{self, About, Answered, Asking},
};
use crate::{jobs::ThisCall, session_state::SessionState};

/// Limit of the arguments in a question, in bytes: the changes show the rest.
const ARGUMENTS: usize = 4096;

/// Shows the changes of one call to the person of its session.
pub(crate) struct Reviewing {
    session: Arc<SessionState>,
    /// The id of the client's call: this one, or the one for which it is made.
    whose: String,
    this: Arc<ThisCall>,
    arguments: String,
    /// The declared effects that need approval.
    effects: Vec<String>,
    /// The files that it may write as those of a tool of the workspace, with the tool.
    own: Vec<(PathBuf, String)>,
    /// The "begun" record, until the first decision is known.
    begun: Mutex<Option<Begun>>,
    /// The later decisions, one line each.
    decisions: Mutex<Vec<String>>,
}

impl Reviewing {
    pub(super) fn new(
        session: &Arc<SessionState>,
        whose: String,
        this: &Arc<ThisCall>,
        entry: &JournalEntry,
        own: Vec<(PathBuf, String)>,
    ) -> Arc<Self> {
        let arguments = entry.arguments.get(..entry.arguments.floor_char_boundary(ARGUMENTS));
        Arc::new(Self {
            session: session.clone(),
            whose,
            this: this.clone(),
            arguments: arguments.unwrap_or_default().to_owned(),
            effects: questions::effects(&entry.touches),
            own,
            begun: Mutex::new(None),
            decisions: Mutex::default(),
        })
    }

    /// Creates the review of changes that came from elsewhere; the call is in the journal already.
    pub(crate) fn of_landing(
        session: &Arc<SessionState>,
        call: String,
        this: &Arc<ThisCall>,
        about: &str,
        effects: Vec<String>,
    ) -> Arc<Self> {
        let about = about.get(..about.floor_char_boundary(ARGUMENTS));
        Arc::new(Self {
            session: session.clone(),
            whose: call,
            this: this.clone(),
            arguments: about.unwrap_or_default().to_owned(),
            effects,
            own: Vec::new(),
            begun: Mutex::new(None),
            decisions: Mutex::default(),
        })
    }

    /// Withdraws an open question.
    pub(crate) fn stop(&self) {
        self.this.stop.cancel();
    }

    /// Holds the "begun" record until the person's decision is known. No change is made before the record is
    /// on disk.
    pub(super) fn hold(&self, begun: Begun) {
        *self.begun.lock() = Some(begun);
    }

    /// Returns the record if it was not written, as there was no change.
    pub(super) fn unwritten(&self) -> Option<Begun> {
        self.begun.lock().take()
    }

    /// Returns the decisions, one line each, for the journal.
    pub(crate) fn take_decisions(&self) -> Vec<String> {
        std::mem::take(&mut *self.decisions.lock())
    }

    /// Decides on these changes by the rules.
    fn decide(&self, changes: &[Proposed<'_>]) -> Result<(Decision, String), Fault> {
        let mut wants = Vec::new();
        for change in changes {
            let Some(path) = change.path.to_str() else {
                let what = format!("`{}` has a name that is not UTF-8", change.path.display());
                return Err(Fault::denied(what));
            };
            // The last name is not followed: where it is a symlink, the change is about the symlink itself.
            let name = change.path.file_name();
            let location = match (change.path.parent().and_then(std::path::Path::to_str), name) {
                (Some(folder), Some(name)) => self.session.roots().locate(folder)?.join(name),
                _ => self.session.roots().locate(path)?,
            };
            let tool = self.own.iter().find(|(file, _)| file == change.path).map(|(_, tool)| tool.clone());
            wants.push(Want::Change { location, tool });
        }
        Ok(self.session.decide(&wants))
    }

    fn ask(&self, changes: &[Proposed<'_>]) -> Result<Answered, Fault> {
        let (decision, by) = self.decide(changes)?;
        let proposed = changes;
        let rule = match decision {
            Decision::Allow => return Ok(Answered { decision: by, allowed: Ok(()) }),
            Decision::Deny(rule) => {
                self.session.was_refused(&self.this.tool, &rule);
                let fault = questions::denied(&self.session, &rule, "nothing was changed");
                return Ok(Answered { decision: format!("denied: {}", rule.name), allowed: Err(fault) });
            }
            Decision::Ask(rule) => rule,
        };
        // Only a thread that may block can wait for a person.
        let handle = Handle::try_current().ok().filter(|_| kit::may_block()).ok_or_else(|| {
            Fault::bug(format!(
                "`{}` changes a file outside of `Cx::blocking`, so nobody could be asked",
                self.this.tool
            ))
        })?;
        let versions: Vec<Versions> = changes.iter().map(versions).collect();
        let changes = self.session.runtime().changes(&versions, changes::DiffLimits::REVIEW);
        let asking = Asking {
            session: &self.session,
            whose: &self.whose,
            tool: &self.this.tool,
            asked: &self.this.asked,
            cancel: &self.this.stop,
        };
        let effects = self.effects.clone();
        let about = About { rule: &rule, arguments: &self.arguments, effects, changes };
        let sandbox = self.session.policy().sandbox;
        let answered = handle.block_on(asking.ask(about))?;
        // The sandbox may have been narrowed while a person thought. Deciding once more would count as a use of the grant.
        if self.session.policy().sandbox < sandbox && matches!(self.decide(proposed)?.0, Decision::Deny(_)) {
            return Ok(Answered { allowed: Err(questions::narrowed()), ..answered });
        }
        Ok(answered)
    }

    /// Records a decision, before any change is made.
    fn note(&self, decision: &str) -> Result<(), Fault> {
        let begun = self.begun.lock().take();
        match begun {
            Some(begun) => {
                let begun = Begun { decision: decision.to_owned(), ..begun };
                self.session.store().journal().begin_blocking(begun)
            }
            None => {
                self.decisions.lock().push(decision.to_owned());
                Ok(())
            }
        }
    }
}

impl Review for Reviewing {
    fn review(&self, changes: &[Proposed<'_>]) -> Result<(), Fault> {
        let Answered { decision, allowed } = self.ask(changes)?;
        let noted = self.note(&decision);
        allowed?;
        noted.map_err(|fault| Fault { what: format!("nothing was changed: {}", fault.what), ..fault })
    }
}

fn versions(change: &Proposed<'_>) -> Versions {
    Versions {
        path: change.path.to_owned(),
        before: Version::of(change.before),
        after: match change.after {
            After::Gone => Version::Absent,
            After::Holds(content) => Version::Known(content.clone()),
            After::Long(bytes) => Version::Long(bytes),
        },
    }
}

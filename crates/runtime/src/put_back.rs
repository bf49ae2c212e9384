//! Files of an undo: haft restores a file only inside the roots, and only where the policy lets a call write.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use kit::{
    Fault, Files, Kind,
    files::{Access, Before, Grant, Loaded, Location, Roots},
    model_tools::{ENABLED, OWN, own_files},
    services::{After, History, Proposed, Review, Undo},
    text::{Content, Digest},
};
use policy::{Approve, Decision, Policy, Want};
use store::{
    Store,
    changes::Landed,
    history::CallHistory,
    undo::{PutBack, Restore, Scope},
};

use parking_lot::Mutex;

use crate::{file_locks, plugins::Plugins};

/// Limit of a file, in bytes; haft changes no larger one in one piece.
const MOST: u64 = 1 << 30;

/// The workspace of an undo. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Workspace {
    pub(crate) roots: Roots,
    pub(crate) store: Store,
    /// Reloads the workspace's own tools after an undo changed one.
    pub(crate) plugins: Arc<Plugins>,
}

/// Returns the service that undoes the changes of `scope`, on behalf of the call of `history`. That call has
/// locked the paths of `held` against other processes.
pub(crate) fn undo(
    workspace: Workspace,
    history: CallHistory,
    scope: Scope,
    held: Vec<PathBuf>,
    policy: Policy,
    review: Option<Arc<dyn Review>>,
) -> Arc<dyn Undo> {
    let landed = history.landed().clone();
    let store = workspace.store.clone();
    let files = UndoFiles { workspace, held, policy, landed, review, allowed: Mutex::default() };
    Arc::new(store.undo(scope, history, Arc::new(files)))
}

/// File access of an undo.
pub(crate) struct UndoFiles {
    workspace: Workspace,
    /// The paths that the call has locked against other processes.
    held: Vec<PathBuf>,
    /// The rules for changes.
    policy: Policy,
    /// Records the changes that were made.
    landed: Arc<Landed>,
    /// Asks the person, if a change needs one.
    review: Option<Arc<dyn Review>>,
    /// The changes that the person allowed: the file, its content before and after.
    allowed: Mutex<Vec<Allowed>>,
}

/// A change that needs no further question.
type Allowed = (PathBuf, Option<Digest>, Option<Digest>);

impl UndoFiles {
    /// Returns the files of this workspace, without questions and without a record of changes.
    pub(crate) fn of(workspace: Workspace, policy: Policy) -> Self {
        Self {
            workspace,
            held: Vec::new(),
            policy,
            landed: Arc::default(),
            review: None,
            allowed: Mutex::default(),
        }
    }

    /// Returns file access to this file only.
    fn files(&self, path: &str, access: Access, review: Option<Arc<dyn Review>>) -> Result<Files, Fault> {
        let location = self.workspace.roots.locate(path)?;
        Ok(Files::reviewed(
            self.workspace.roots.clone(),
            vec![Grant { location, access }],
            Arc::new(RecordedAlready(self.landed.clone())),
            review,
        ))
    }

    /// Returns the review that must approve the restoration of this file, if one must.
    fn review(&self, path: &str) -> Result<Option<Arc<dyn Review>>, Fault> {
        let location = self.workspace.roots.locate(path)?;
        let want = match self.own_tool(&location) {
            Some(name) => Want::Tool(name),
            _ => Want::Place(location.clone(), Access::Write),
        };
        match self.policy.decide(&[want]) {
            Decision::Allow if self.policy.approve == Approve::AskEdits => Ok(self.review.clone()),
            Decision::Allow => Ok(None),
            Decision::Ask(_) if self.review.is_some() => Ok(self.review.clone()),
            Decision::Ask(rule) | Decision::Deny(rule) => {
                let next = match rule.name {
                    "sandbox" | "read_only_root" => "Start haft so that this may be written.",
                    _ => "A person can put it back with `haft undo --approve auto`.",
                };
                Err(Fault::denied(rule.to_string()).next(next))
            }
        }
    }
}

impl UndoFiles {
    /// Returns the name of the workspace's own tool that this file belongs to: whoever may write that tool
    /// may restore the file.
    fn own_tool(&self, location: &Location) -> Option<String> {
        let absolute = location.absolute();
        let name = absolute.strip_prefix(self.workspace.roots.workspace().join(OWN)).ok()?.to_str()?;
        let tool = if name == ENABLED { "enabled" } else { name.strip_suffix(".py")? };
        own_files(tool).ok().map(|_| tool.to_owned())
    }
}

impl Restore for UndoFiles {
    fn read(&self, path: &Path) -> Result<Option<Vec<u8>>, Fault> {
        let path = plain(path)?;
        Ok(load(&self.files(path, Access::Read, None)?, path)?.map(|loaded| loaded.bytes.to_vec()))
    }

    fn propose(&self, changes: &[PutBack]) -> Result<(), Fault> {
        let mut asks = false;
        for it in changes {
            // A file that can't be restored is reported when its turn comes.
            asks |= plain(&it.path).and_then(|path| self.review(path)).is_ok_and(|it| it.is_some());
        }
        let Some(review) = self.review.as_ref().filter(|_| asks) else { return Ok(()) };
        let proposed = changes.iter().map(|it| Proposed {
            path: &it.path,
            before: it.now.as_ref(),
            after: it.before.as_ref().map_or(After::Gone, After::Holds),
        });
        review.review(&proposed.collect::<Vec<_>>())?;
        let digest = |it: &Option<Content>| it.as_ref().map(Content::digest);
        let allowed = changes.iter().map(|it| (it.path.clone(), digest(&it.now), digest(&it.before)));
        self.allowed.lock().extend(allowed);
        Ok(())
    }

    fn may_put_back(&self, path: &Path) -> Result<(), Fault> {
        // A link is replaced, never followed: it is judged by its folder, like a name that is not UTF-8.
        let is_link = path.symlink_metadata().is_ok_and(|it| it.file_type().is_symlink());
        let mut judged = path.ancestors().skip(usize::from(is_link));
        let known = judged.find_map(Path::to_str).unwrap_or("/");
        let location = self.workspace.roots.locate(known)?;
        match self.policy.decide(&[Want::Place(location, Access::Write)]) {
            // The command could write there, so its change may be taken back there, unless the limits are
            // narrower now.
            Decision::Deny(rule) if ["sandbox", "read_only_root"].contains(&rule.name) => {
                Err(Fault::denied(rule.to_string()).next("Start haft so that this may be written."))
            }
            Decision::Allow | Decision::Ask(_) | Decision::Deny(_) => Ok(()),
        }
    }

    fn write(&self, path: &Path, bytes: Option<&[u8]>, expect: Option<&[u8]>) -> Result<(), Fault> {
        let _beside = file_locks::lock_blocking(&self.workspace.store.locks(), path, &self.held)?;
        let digest = |it: Option<&[u8]>| it.map(|it| *blake3::hash(it).as_bytes());
        let change = (path.to_owned(), digest(expect), digest(bytes));
        let was_allowed = {
            let mut allowed = self.allowed.lock();
            allowed.iter().position(|it| *it == change).map(|at| allowed.swap_remove(at)).is_some()
        };
        let path = plain(path)?;
        let review = if was_allowed { None } else { self.review(path)? };
        let files = self.files(path, Access::Write, review)?;
        let now = load(&files, path)?;
        if now.as_ref().map(|loaded| &*loaded.bytes) != expect {
            return Err(Fault::new(
                Kind::Stale,
                format!("`{path}` was changed just now; it is left as it is"),
            ));
        }
        match (bytes, &now) {
            (Some(bytes), Some(now)) => files.save(path, Before::Was(now), bytes).map(drop),
            (Some(bytes), None) => files.save(path, Before::Absent, bytes).map(drop),
            (None, Some(now)) => files.remove(path, now),
            (None, None) => Ok(()),
        }?;
        if self.own_tool(&files.locate(path)?).is_some() {
            self.workspace.plugins.put_back();
        }
        Ok(())
    }
}

/// Returns the path as text. Tools name files by text, so files that haft changed have such names; a symlink
/// may lead to one that has not.
fn plain(path: &Path) -> Result<&str, Fault> {
    path.to_str().ok_or_else(|| {
        Fault::new(
            Kind::Unavailable,
            format!("`{}` has a name that is not UTF-8; it can't be put back", path.display()),
        )
    })
}

fn load(files: &Files, path: &str) -> Result<Option<Loaded>, Fault> {
    match files.load(path, MOST) {
        Ok(loaded) => Ok(Some(loaded)),
        Err(fault) if fault.kind == Kind::NotFound => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// A history that records no content: an undo records its own changes, with what it reverts.
struct RecordedAlready(Arc<Landed>);

impl History for RecordedAlready {
    fn keep(&self, _: &Path, _: Option<&Content>, _: Option<&Content>) -> Result<(), Fault> {
        Ok(())
    }

    fn landed(&self, path: &Path, before: Option<&Content>, after: After<'_>) {
        self.0.add(path, before, after);
    }
}

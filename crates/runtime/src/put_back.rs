//! With which hands is a change put back? The same as any other: inside the roots, and
//! only where the policy lets a call write.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use kit::{
    Fault, Files, Kind,
    files::{Access, Before, Grant, Loaded, Location},
    own_tools::{ENABLED, OWN, own_files},
    services::{After, History, Undo},
    text::Content,
};

use crate::{
    Runtime, beside,
    changes::Landed,
    history::CallHistory,
    policy::{Decision, Policy, Want},
    undo::{Restore, Scope},
};

/// Larger files are not changed in one piece either, so none was.
const MOST: u64 = 1 << 30;

/// What puts back the changes of `scope`, on behalf of the call of `history`, which keeps other processes
/// off the paths of `held`.
pub(crate) fn undo(
    runtime: &Runtime,
    history: CallHistory,
    scope: Scope,
    held: Vec<PathBuf>,
    policy: Policy,
) -> Arc<dyn Undo> {
    let landed = history.landed().clone();
    let hands = Hands { runtime: runtime.clone(), held, policy, landed };
    Arc::new(runtime.store().undo(scope, history, Arc::new(hands)))
}

/// Reads and writes on behalf of an undo.
pub(crate) struct Hands {
    pub(crate) runtime: Runtime,
    /// Paths that the call has locked against other processes.
    pub(crate) held: Vec<PathBuf>,
    /// What may be changed.
    pub(crate) policy: Policy,
    /// Where it is told what has landed.
    pub(crate) landed: Arc<Landed>,
}

impl Hands {
    /// The files that may be touched: this one.
    fn files(&self, path: &str, access: Access) -> Result<Files, Fault> {
        let location = self.runtime.roots().locate(path)?;
        let want = match self.own_tool(&location) {
            Some(name) if access == Access::Write => Want::Tool(name),
            _ => Want::Place(location.clone(), access),
        };
        match self.policy.decide(&[want]) {
            Decision::Allow => {}
            Decision::Ask(rule) | Decision::Deny(rule) => {
                let next = match rule.name {
                    "sandbox" | "read_only_root" => "Start haft so that this may be written.",
                    _ => "A person can put it back with `haft undo --approve auto`.",
                };
                return Err(Fault::denied(rule.to_string()).next(next));
            }
        }
        Ok(Files::new(
            self.runtime.roots().clone(),
            vec![Grant { location, access }],
            Arc::new(RecordedAlready(self.landed.clone())),
        ))
    }
}

impl Hands {
    /// The name under which whoever may write the workspace's own tools may put back this file.
    fn own_tool(&self, location: &Location) -> Option<String> {
        let absolute = location.absolute();
        let name = absolute.strip_prefix(self.runtime.roots().workspace().join(OWN)).ok()?.to_str()?;
        let tool = if name == ENABLED { "enabled" } else { name.strip_suffix(".py")? };
        own_files(tool).ok().map(|_| tool.to_owned())
    }
}

impl Restore for Hands {
    fn read(&self, path: &Path) -> Result<Option<Vec<u8>>, Fault> {
        let path = plain(path)?;
        Ok(load(&self.files(path, Access::Read)?, path)?.map(|loaded| loaded.bytes.to_vec()))
    }

    fn write(&self, path: &Path, bytes: Option<&[u8]>, expect: Option<&[u8]>) -> Result<(), Fault> {
        let _beside = beside::lock_blocking(&self.runtime.store().locks(), path, &self.held)?;
        let path = plain(path)?;
        let files = self.files(path, Access::Write)?;
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
            self.runtime.outside().put_back();
        }
        Ok(())
    }
}

/// Tools name files by text, so what haft changed has such a name; a link may lead to one that has not.
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

/// An undo records what it does itself, with what it reverts.
struct RecordedAlready(Arc<Landed>);

impl History for RecordedAlready {
    fn keep(&self, _: &Path, _: Option<&Content>, _: Option<&Content>) -> Result<(), Fault> {
        Ok(())
    }

    fn landed(&self, path: &Path, before: Option<&Content>, after: After<'_>) {
        self.0.add(path, before, after);
    }
}

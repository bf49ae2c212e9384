//! Landing: one call that makes changes which came from elsewhere, under the rules of its session.
//!
//! Each file is decided about by itself: one that may not be changed keeps no other one from being changed. The call is in the
//! journal before its first change, and its before-images are those of any other call, so that an undo takes all of it back.

use std::{
    collections::{BTreeMap, HashSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use kit::{
    Fault, Kind, Touch, Touches,
    files::{Access, Files, Grant, Location, Proposal},
    seen::Views,
    services::History as _,
};
use policy::{Approve, Decision, Want};
use store::{
    history::CallHistory,
    journal::{Begun, Durability, Ended},
};
use tokio_util::sync::CancellationToken;

use crate::{
    Session,
    approval_time::AskedTime,
    call::{Reviewing, denied},
    file_locks,
    jobs::ThisCall,
    schedule::{Hold, Key, Locks, Who},
    session_state::SessionState,
};

/// A call of a session that changes the files it was opened for.
pub struct Landing {
    session: Arc<SessionState>,
    call: String,
    began: Instant,
    history: CallHistory,
    places: BTreeMap<String, Result<Place, Fault>>,
    /// The access to the files that a person is asked about, together.
    reviewed: Option<Files>,
    review: Option<Arc<Reviewing>>,
    _locks: Locks,
}

/// A file that may be changed.
struct Place {
    location: Location,
    /// Whether a person is asked about its change.
    is_asked: bool,
}

/// The access to one file.
pub struct Target {
    /// Access to this file alone, or to all those that a person is asked about.
    pub files: Files,
    /// Its absolute path, by which `files` knows it.
    pub path: String,
}

/// The lock of a file against other processes, until this is dropped.
pub struct TargetLock {
    _files: file_locks::FileLocks,
}

impl Session {
    /// Begins a call that changes these files, given by their paths below the workspace. It waits for the calls that use them.
    /// `about` describes it for the journal, as JSON.
    ///
    /// # Errors
    /// [`Kind::Cancelled`] when it was cancelled before it had its locks, and when the journal can't be written.
    pub async fn begin_landing(
        &self,
        tool: &str,
        about: &str,
        paths: &[String],
        cancel: &CancellationToken,
    ) -> Result<Landing, Fault> {
        let session = self.state().clone();
        let call = session.store().call_id();
        let began = Instant::now();
        let changed: HashSet<&str> = paths.iter().map(String::as_str).collect();
        let places: BTreeMap<String, Result<Place, Fault>> =
            paths.iter().map(|path| (path.clone(), place(&session, path, &changed))).collect();
        let may: Vec<PathBuf> = places.values().flatten().map(|it| it.location.absolute()).collect();
        let who = Who {
            call: call.clone(),
            session: session.name().to_owned(),
            title: tool.to_owned(),
            ..Who::default()
        };
        let mut keys: Vec<(Key, Hold)> = may.iter().map(|it| (Key::Path(it.clone()), Hold::Alone)).collect();
        keys.push((Key::World, Hold::Shared));
        let locks = async {
            let mut locks = session.schedule().lock_for(who, keys).await;
            let tracks = session.runtime().tracks();
            locks.wait_for_commands(&may, |call, path| tracks.has_changed(call, path)).await;
            locks
        };
        let locks = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(cancelled()),
            locks = locks => locks,
        };
        let touches =
            may.iter().fold(Touches::none(), |all, it| all.and(Touch::Write(it.display().to_string())));
        let asks = places.values().flatten().any(|it| it.is_asked);
        let begun = Begun {
            call: call.clone(),
            session: session.name().to_owned(),
            tool: tool.to_owned(),
            arguments: about.to_owned(),
            touches,
            decision: if asks { "asks about some files" } else { "allowed" }.to_owned(),
        };
        session.store().journal().begin(begun, Durability::Wait).await?;
        let history = session.store().history(session.name(), &call);
        let mut landing =
            Landing { session, call, began, history, places, reviewed: None, review: None, _locks: locks };
        if asks {
            landing.prepare_review(tool, about, cancel);
        }
        Ok(landing)
    }
}

/// Returns the folders above a path below the workspace, the outermost first.
pub fn folders_above(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at])
}

/// Decides about one file. `changed` are the paths that the call changes.
fn place(session: &Arc<SessionState>, path: &str, changed: &HashSet<&str>) -> Result<Place, Fault> {
    let absolute = session.runtime().roots().workspace().join(path);
    let text = |it: &Path| it.to_str().map(str::to_owned);
    let (Some(folder), Some(name)) = (absolute.parent().and_then(text), absolute.file_name()) else {
        return Err(Fault::bad_args(format!("`{path}` does not name a file")));
    };
    // The last name is not followed: it may be a symlink that the change is about.
    let roots = session.runtime().roots();
    let found = roots.locate(&folder);
    let is_there = |it: &Location| it.absolute() == Path::new(&folder);
    let location = match found {
        Ok(found) if is_there(&found) => found.join(name),
        // The same call may remove the file or the symlink on the way; the change of this file checks that.
        found if folders_above(path).any(|it| changed.contains(it)) => {
            let there = |it: &Path| roots.locate(it.to_str()?).ok().filter(|found| found.absolute() == it);
            let near = Path::new(&folder).ancestors().skip(1).find_map(|it| Some((it, there(it)?)));
            match (near, found) {
                (Some((near, location)), _) => {
                    location.join(absolute.strip_prefix(near).unwrap_or(&absolute))
                }
                (None, found) => found?.join(name),
            }
        }
        found => found?.join(name),
    };
    if location.absolute() != absolute {
        return Err(Fault::denied(format!(
            "`{path}` leads through a symlink to `{location}`; a change from elsewhere follows none"
        )));
    }
    session.recall(&absolute);
    let is_asked = match session.decide(&[Want::Place(location.clone(), Access::Write)]).0 {
        Decision::Allow => session.policy().approve == Approve::AskEdits,
        Decision::Ask(_) => true,
        Decision::Deny(rule) => return Err(denied(session, &rule, "it was not changed")),
    };
    Ok(Place { location, is_asked })
}

impl Landing {
    fn prepare_review(&mut self, tool: &str, about: &str, cancel: &CancellationToken) {
        let session = &self.session;
        let asked = AskedTime::within(session.asked());
        let this = ThisCall::new(tool.to_owned(), String::new(), self.began, asked, session.jobs());
        let stop = this.stop.clone();
        let cancel = cancel.clone();
        // Ends with the call: the token of `this` is cancelled when the landing is dropped.
        tokio::spawn(async move {
            tokio::select! {
                () = cancel.cancelled() => stop.cancel(),
                () = stop.cancelled() => {}
            }
        });
        let asked = |it: &&Place| it.is_asked;
        let grants: Vec<Grant> = self
            .places
            .values()
            .flatten()
            .filter(asked)
            .map(|it| Grant { location: it.location.clone(), access: Access::Write })
            .collect();
        let effects = grants.iter().map(|it| format!("write {}", it.location)).collect();
        let review = Reviewing::of_landing(session, self.call.clone(), &this, about, effects);
        let roots = session.runtime().roots().clone();
        self.reviewed =
            Some(Files::reviewed(roots, grants, Arc::new(self.history.clone()), Some(review.clone())));
        self.review = Some(review);
    }

    /// Returns the id of the call.
    pub fn call(&self) -> &str {
        &self.call
    }

    /// Returns what the session has been shown of its files.
    pub fn views(&self) -> &Arc<Views> {
        self.session.views()
    }

    /// Stores bytes as long as the session's outputs are stored; returns the handle to read them.
    ///
    /// # Errors
    /// When they can't be written.
    pub fn keep_output(&self, bytes: &[u8]) -> Result<String, Fault> {
        self.session.spill(bytes)
    }

    /// Redacts the secrets that this process knows.
    pub fn masked(&self, text: &str) -> String {
        self.session.secrets().mask(text).into_owned()
    }

    /// Returns whether a person is asked about the change of this file.
    pub fn is_asked(&self, path: &str) -> bool {
        matches!(self.places.get(path), Some(Ok(place)) if place.is_asked)
    }

    /// Locks a file of this call against other processes. Hold one at a time. Blocks.
    ///
    /// # Errors
    /// The reason why it may not be changed; [`Kind::Timeout`] when another process keeps it locked.
    pub fn lock(&self, path: &str) -> Result<TargetLock, Fault> {
        let absolute = self.place(path)?.location.absolute();
        let files = file_locks::lock_blocking(&self.session.store().locks(), &absolute, &[])?;
        Ok(TargetLock { _files: files })
    }

    fn place(&self, path: &str) -> Result<&Place, Fault> {
        match self.places.get(path) {
            Some(Ok(place)) => Ok(place),
            Some(Err(fault)) => Err(fault.copied()),
            None => Err(Fault::bug(format!("the call was not opened for `{path}`"))),
        }
    }

    /// Returns the access to a file of this call.
    ///
    /// # Errors
    /// The reason why it may not be changed.
    pub fn target(&self, path: &str) -> Result<Target, Fault> {
        let place = self.place(path)?;
        let absolute = place.location.absolute();
        let files = match &self.reviewed {
            Some(reviewed) if place.is_asked => reviewed.clone(),
            _ => {
                let grants = vec![Grant { location: place.location.clone(), access: Access::Write }];
                let roots = self.session.runtime().roots().clone();
                Files::new(roots, grants, Arc::new(self.history.clone()))
            }
        };
        let path = absolute.to_str().map(str::to_owned);
        let path = path.ok_or_else(|| Fault::bad_args(format!("`{}` is not UTF-8", absolute.display())))?;
        Ok(Target { files, path })
    }

    /// Asks the person about these changes together. Blocks; call it within [`kit::may_block_here`].
    ///
    /// # Errors
    /// [`Kind::Denied`] when the person refuses.
    pub fn propose(&self, changes: &[Proposal<'_>]) -> Result<(), Fault> {
        match &self.reviewed {
            Some(files) if !changes.is_empty() => files.propose(changes),
            _ => Ok(()),
        }
    }

    /// Removes those of these folders that are empty, or are when the others were removed, as git does; `recorded` if an undo
    /// has to make them again, because it does not write the files in them as `write` does. Blocks.
    pub fn remove_folders(&self, folders: impl IntoIterator<Item = impl AsRef<str>>, recorded: bool) {
        let mut folders: Vec<_> = folders.into_iter().collect();
        folders.sort_unstable_by_key(|it| std::cmp::Reverse(it.as_ref().len()));
        for folder in folders.iter().map(AsRef::as_ref) {
            let absolute = self.session.runtime().roots().workspace().join(folder);
            let roots = self.session.runtime().roots().clone();
            let Some(path) = absolute.to_str() else { continue };
            let Ok(location) = roots.locate(path).map_err(drop) else { continue };
            let is_empty = std::fs::read_dir(&absolute).is_ok_and(|mut it| it.next().is_none());
            if !is_empty || location.absolute() != absolute {
                continue;
            }
            if !recorded || self.history.keep_node(&absolute).is_ok() {
                let grants = vec![Grant { location, access: Access::Write }];
                // One that is not empty stays.
                drop(Files::new(roots, grants, Arc::new(self.history.clone())).remove_folder(path));
            }
        }
    }

    /// Ends the call; the journal has this result and these notes.
    ///
    /// # Errors
    /// When the store can't be written. The changes are made all the same.
    pub async fn end(self, result: &Result<(), Fault>, mut notes: Vec<String>) -> Result<(), Fault> {
        let store = self.session.store().clone();
        let call = self.call.clone();
        let settled = tokio::task::spawn_blocking(move || store.tracked().settle(&call, false)).await;
        notes.extend(self.review.iter().flat_map(|it| it.take_decisions()));
        let ended = Ended::of(&self.call, self.session.name(), result, self.began.elapsed());
        self.session.store().journal().end(Ended { notes, ..ended }, Durability::Wait).await?;
        settled.map_err(|error| Fault::bug(format!("settling the call failed: {error}")))??;
        Ok(())
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        if let Some(review) = &self.review {
            review.stop();
        }
    }
}

fn cancelled() -> Fault {
    Fault::new(Kind::Cancelled, "landing was stopped before it changed anything")
}

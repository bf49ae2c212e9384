//! Sessions of all workspaces that editors worked in: lists, copies and deletes them.

use std::{
    fs,
    io::Write as _,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use kit::Fault;
use serve::acp::v1::{ListSessionsResponse, SessionId, SessionInfo};
use store::Store;

use super::{Backend, opening::SavedSettings};
use crate::{Place, state_folder, terminal::row::harmless};

/// The file in the state folder that names these workspaces, one per line.
const FILE: &str = "acp_workspaces";

/// At most so many sessions are in one answer.
const PAGE: usize = 50;

/// The workspaces that sessions were opened in.
pub(super) struct KnownWorkspaces {
    file: PathBuf,
}

impl KnownWorkspaces {
    pub(super) fn of(place: &Place) -> Self {
        Self { file: place.state.join(FILE) }
    }

    /// Records a workspace. Without the record, only the list of all sessions lacks its sessions.
    pub(super) fn add(&self, workspace: &Path) {
        let line = workspace.as_os_str().as_bytes().escape_ascii().to_string();
        let known = fs::read_to_string(&self.file).unwrap_or_default();
        if known.lines().any(|it| it == line) {
            return;
        }
        let write = || -> std::io::Result<()> {
            if let Some(state) = self.file.parent() {
                state_folder::make(state)?;
            }
            // One line in one write: two concurrent appends both stay whole.
            let mut file = fs::OpenOptions::new().append(true).create(true).open(&self.file)?;
            file.write_all(format!("{line}\n").as_bytes())
        };
        if let Err(error) = write() {
            tracing::warn!("`{}` can't be written: {error}", self.file.display());
        }
    }

    fn all(&self) -> Vec<PathBuf> {
        let known = fs::read_to_string(&self.file).unwrap_or_default();
        // A path with escaped bytes does not match a folder; its sessions are listed only when the client names the
        // folder.
        known.lines().map(PathBuf::from).filter(|it| it.is_dir()).collect()
    }
}

/// Returns whether the session has any messages. Blocks.
pub(super) fn has(store: &Store, session: &SessionId) -> Result<bool, Fault> {
    let known = store.sessions().list()?.iter().any(|it| *it.id == *session.0);
    Ok(known && !session.0.contains('/') && !store.conversations().is_deleted(&session.0)?)
}

/// A session in a list.
struct Found {
    used_ms: u64,
    info: SessionInfo,
}

impl Backend {
    /// Returns the sessions of a folder, or of all folders, the most recently used first. Blocks.
    pub(super) fn listed(
        &self,
        cwd: Option<&Path>,
        cursor: Option<&str>,
    ) -> Result<ListSessionsResponse, Fault> {
        let from = cursor.map(place).transpose()?;
        let folders = match cwd {
            Some(cwd) if !cwd.is_absolute() => {
                return Err(Fault::bad_args(format!(
                    "`cwd` must be an absolute path, and `{}` is none",
                    cwd.display()
                )));
            }
            Some(cwd) => match &self.hosted {
                Some(hosted) => {
                    vec![hosted.workspace(cwd)?.factory.opened.runtime.roots().workspace().to_owned()]
                }
                None => cwd.canonicalize().into_iter().collect(),
            },
            None => self.hosted.as_ref().map_or_else(|| self.known.all(), |it| it.folders()),
        };
        let mut found = Vec::new();
        for folder in folders {
            let here = self.of_folder(&folder)?;
            if cwd.is_some() && !here.is_empty() && self.hosted.is_none() {
                // A client that lists a session may delete it without naming its folder.
                self.known.add(&folder);
            }
            found.extend(here);
        }
        found.sort_by(|one, other| {
            (other.used_ms, &one.info.session_id.0).cmp(&(one.used_ms, &other.info.session_id.0))
        });
        if let Some((used_ms, id)) = from {
            found.retain(|it| (it.used_ms, id.as_str()) < (used_ms, &*it.info.session_id.0));
        }
        let more = found.len() > PAGE;
        found.truncate(PAGE);
        let next = found.last().filter(|_| more).map(|it| format!("{}:{}", it.used_ms, it.info.session_id.0));
        Ok(ListSessionsResponse::new(found.into_iter().map(|it| it.info).collect()).next_cursor(next))
    }

    fn of_folder(&self, folder: &Path) -> Result<Vec<Found>, Fault> {
        let store = self.store(folder);
        let mut found = Vec::new();
        for conversation in store.conversations().list(agent::Archived::Hidden, usize::MAX)? {
            let conversation = agent::Conversation::from(conversation);
            let id = SessionId::from(conversation.session);
            let kept = SavedSettings::of(&store, &id)?;
            let info = SessionInfo::new(id, folder)
                .title(harmless(&conversation.title))
                .updated_at(iso(conversation.used_ms))
                .additional_directories(kept.dirs);
            found.push(Found { used_ms: conversation.used_ms, info });
        }
        Ok(found)
    }

    /// Copies a session; returns the new one. Blocks.
    pub(super) fn copy(&self, workspace: &Path, session: &SessionId) -> Result<SessionId, Fault> {
        let open = self.open.lock().get(session).cloned();
        // Writes that this process has queued are copied only through its own store.
        let store = open.map_or_else(|| self.store(workspace), |it| it.store());
        let fork = agent::fork(&store, &session.0, None, None)?;
        store.sessions().used(&*fork.session, "acp")?;
        Ok(SessionId::from(fork.session))
    }

    /// Deletes a session, as `haft sessions delete` does. Blocks.
    ///
    /// # Errors
    /// When another process has it open, something of it can't be removed, or it is not clear which one of this name is meant.
    pub(super) fn forget(&self, session: &SessionId, cwd: Option<&Path>) -> Result<(), Fault> {
        let folders = cwd.map_or_else(|| self.known.all(), |it| vec![it.to_owned()]);
        let mut found = Vec::new();
        for folder in folders {
            let store = self.store(&folder);
            if has(&store, session)? {
                found.push((folder, store));
            }
        }
        match found.as_slice() {
            // Deleting a missing session succeeds.
            [] => Ok(()),
            [(_, store)] => store.conversations().delete(&session.0).map(drop),
            several => {
                let folders: Vec<_> = several.iter().map(|it| it.0.display().to_string()).collect();
                let what = format!("sessions called `{session}` are in {}", folders.join(" and in "));
                Err(Fault::bad_args(what).next(format!(
                    "Load the one that is meant before deleting it, or run `haft sessions delete {session}` in its folder."
                )))
            }
        }
    }
}

/// Formats a time in milliseconds as ISO 8601.
pub(super) fn iso(ms: u64) -> String {
    jiff::Timestamp::from_millisecond(ms.cast_signed()).map(|it| it.to_string()).unwrap_or_default()
}

/// Parses a cursor: the place where the last page ended.
fn place(cursor: &str) -> Result<(u64, String), Fault> {
    let place = cursor.split_once(':').and_then(|(used, id)| Some((used.parse().ok()?, id.to_owned())));
    place.ok_or_else(|| {
        Fault::bad_args(format!("`{cursor}` is no cursor of `session/list`"))
            .next("Begin without a cursor; `nextCursor` of an answer is the next one.")
    })
}

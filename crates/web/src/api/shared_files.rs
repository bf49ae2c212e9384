//! Files that a session gave to the person: copies, for a day, to whoever may watch the session.

use std::{fs::File, os::unix::fs::FileExt as _, sync::Arc};

use kit::{Fault, Kind, services::Shares as _};
use store::{shares::SessionFiles, spill::folder_of};

use super::files::{HEAD, Sent, encoded, send};
use crate::{
    call::{Call, Done},
    workspaces::{Workspace, blocking},
};

/// Returns the address of a session's files on a server, to which the id of each is added.
pub fn files_of(server: &str, session: &str) -> String {
    format!("{server}{}", links_of(session))
}

/// Returns the path of a session's files, as in their links.
pub(crate) fn links_of(session: &str) -> String {
    format!("/files/{}/", encoded(session))
}

pub(crate) async fn get(call: Call) -> Done {
    let workspace = call.workspace().await?;
    send_shared(&call, &workspace, call.name(0), call.name(1).to_owned()).await
}

/// Sends a file that a session gave, by its id alone.
pub(crate) async fn send_shared(call: &Call, workspace: &Workspace, session: &str, id: String) -> Done {
    let folder = folder_of(&workspace.runtime.store().files_folder(), session);
    let sent = blocking(move || {
        let missing = || Fault::not_found("there is no such file, or it has expired");
        let shared = SessionFiles::new(folder).find(&id).map_err(|_| missing())?;
        if shared.id != id {
            return Err(missing());
        }
        let broken = |error: std::io::Error| {
            Fault::new(Kind::Unavailable, format!("`{}` can't be read: {error}", shared.name))
        };
        let file = File::open(&shared.path).map_err(broken)?;
        let size = file.metadata().map_err(broken)?.len();
        let mut head = vec![0; usize::try_from(size).unwrap_or(HEAD).min(HEAD)];
        file.read_exact_at(&mut head, 0).map_err(broken)?;
        Ok(Sent { file: Arc::new(file), size, tag: format!("\"{id}\""), head, name: shared.name.clone() })
    });
    send(call, sent.await?)
}

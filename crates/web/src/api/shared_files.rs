//! Files that a session gave to the person: copies, for a day, to whoever may watch the session.

use std::{fs::File, io::Read as _, os::unix::fs::FileExt as _, sync::Arc};

use http::{StatusCode, header};
use kit::{Fault, Kind, services::Shares as _};
use store::{shares::SessionFiles, spill::folder_of};

use super::files::{HEAD, SANDBOX, Sent, TEXT, encoded, kind, send};
use crate::{
    answer::Answer,
    call::{Call, Done},
    workspaces::{Workspace, blocking},
};

/// The largest text that is masked, in bytes.
const MOST_MASKED: u64 = 16 << 20;

/// The bytes that are searched for secrets at once, and those of them that the next search has again.
const PIECE: usize = 1 << 20;
const OVERLAP: usize = 16 << 10;

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
    send(&call, opened(&workspace, call.name(0), call.name(1).to_owned()).await?)
}

/// Sends a file that a session gave, with the secrets in it masked if it is text.
pub(crate) async fn send_masked(call: &Call, workspace: &Workspace, session: &str, id: String) -> Done {
    let sent = opened(workspace, session, id.clone()).await?;
    if kind(&sent.name, &sent.head).0 != TEXT {
        let harmless = &call.server.harmless_files;
        if !harmless.lock().contains(&id) {
            let (runtime, file, size) = (workspace.runtime.clone(), sent.file.clone(), sent.size);
            if blocking(move || Ok(holds_secret(&file, size, |text| runtime.masked(text) != text))).await? {
                let what =
                    format!("`{}` holds a secret, and can't be masked as it is not UTF-8 text", sent.name);
                return Err(Fault::denied(what).next("Whoever may `view` the session has it.").into());
            }
            harmless.lock().insert(id);
        }
        return send(call, sent);
    }
    let (runtime, shown) =
        (workspace.runtime.clone(), format!("inline; filename*=UTF-8''{}", encoded(&sent.name)));
    let masked = blocking(move || {
        if sent.size > MOST_MASKED {
            let what = format!("`{}` has {} bytes; text is masked up to {MOST_MASKED}", sent.name, sent.size);
            return Err(Fault::new(Kind::TooBig, what).next("Whoever may `view` the session has all of it."));
        }
        let broken = |error: std::io::Error| {
            Fault::new(Kind::Unavailable, format!("`{}` can't be read: {error}", sent.name))
        };
        let mut bytes = Vec::new();
        (&*sent.file).read_to_end(&mut bytes).map_err(broken)?;
        Ok(runtime.masked(&String::from_utf8_lossy(&bytes)).into_owned())
    });
    let answer = Answer::bytes(StatusCode::OK, TEXT, masked.await?);
    Ok(answer.header(header::CONTENT_SECURITY_POLICY, SANDBOX).header(header::CONTENT_DISPOSITION, &shown))
}

/// Returns whether a file that is not text has a secret in it, also one in UTF-16. A file that can't be read may have one.
fn holds_secret(file: &File, size: u64, is_masked: impl Fn(&str) -> bool) -> bool {
    let mut piece = vec![0; PIECE + OVERLAP];
    let mut from = 0;
    while from < size {
        let wanted = usize::try_from(size - from).unwrap_or(piece.len()).min(piece.len());
        let Some(bytes) = piece.get_mut(..wanted) else { return true };
        if file.read_exact_at(bytes, from).is_err() {
            return true;
        }
        let without_nul: Vec<u8> = bytes.iter().copied().filter(|it| *it != 0).collect();
        if [&*bytes, &without_nul].iter().any(|it| is_masked(&String::from_utf8_lossy(it))) {
            return true;
        }
        from += PIECE as u64;
    }
    false
}

/// Opens a file that a session gave, by its id alone.
async fn opened(workspace: &Workspace, session: &str, id: String) -> Result<Sent, Fault> {
    let folder = folder_of(&workspace.runtime.store().files_folder(), session);
    blocking(move || {
        let missing = || {
            Fault::not_found("there is no such file, or it has expired")
                .next("The session's rows have the links that stand; ask the agent to share the file again.")
        };
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
    })
    .await
}

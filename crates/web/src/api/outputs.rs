//! Outputs that a session keeps, and files that a person uploads to it: both have handles such as `out_12`.

use std::{fs::File, sync::Arc};

use bytes::Bytes;
use http::{StatusCode, header};
use kit::{Fault, Kind};
use serde_json::{Value, json};

use super::{
    files::{Sent, kind, send},
    form,
};
use crate::{
    answer::Answer,
    call::{Call, Done},
    problem::Problem,
    workspaces::{Workspace, blocking},
};

/// The largest upload, in bytes.
const LARGEST: usize = 64 << 20;

/// Returns whether these are the bytes of a picture that a model may be shown.
pub(crate) fn is_picture(bytes: &[u8]) -> bool {
    kind("", bytes).0.starts_with("image/")
}

/// Returns the bytes of a handle.
pub(crate) async fn kept(workspace: &Workspace, session: &str, handle: &str) -> Result<Vec<u8>, Fault> {
    let (spills, session, handle) =
        (workspace.runtime.spills().clone(), session.to_owned(), handle.to_owned());
    blocking(move || spills.read(&session, &handle)).await
}

pub(crate) async fn get(call: Call) -> Done {
    let workspace = call.workspace().await?;
    send_handle(&call, &workspace, call.name(0).to_owned(), call.name(1).to_owned()).await
}

/// Sends the bytes of a handle.
pub(crate) async fn send_handle(call: &Call, workspace: &Workspace, session: String, handle: String) -> Done {
    let spills = workspace.runtime.spills().clone();
    let name = handle.clone();
    let (file, size, head) = blocking(move || {
        let path = spills.path(&session, &handle)?;
        let broken =
            |error: std::io::Error| Fault::new(Kind::Unavailable, format!("{handle} can't be read: {error}"));
        let file = File::open(path).map_err(broken)?;
        let size = file.metadata().map_err(broken)?.len();
        let mut head = vec![0; usize::try_from(size.min(4096)).unwrap_or(4096)];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut head, 0).map_err(broken)?;
        Ok((file, size, head))
    })
    .await?;
    let tag = format!("\"{name}-{size:x}\"");
    send(call, Sent { file: Arc::new(file), size, tag, head, name })
}

pub(crate) async fn upload(mut call: Call) -> Done {
    let (workspace, session) = (call.workspace().await?, call.name(0).to_owned());
    let boundary = form::boundary(call.header(header::CONTENT_TYPE).unwrap_or_default())?;
    let bytes = call.bytes(LARGEST).await?;
    let Some(boundary) = boundary else {
        let name = call.query.get("name").cloned().unwrap_or_default();
        let kept = keep(&workspace, &session, name, bytes).await?;
        return Ok(Answer::json(StatusCode::CREATED, &kept));
    };
    let files = blocking(move || Ok(form::files(&bytes, &boundary))).await??;
    let mut all = Vec::new();
    for (name, bytes) in files {
        all.push(keep(&workspace, &session, name, bytes).await?);
    }
    Ok(Answer::json(StatusCode::CREATED, &json!({"uploads": all})))
}

async fn keep(workspace: &Workspace, session: &str, name: String, bytes: Bytes) -> Result<Value, Problem> {
    let name = form::plain_name(&name);
    if bytes.is_empty() {
        return Err(
            Problem::bad(format!("the file `{name}` has no bytes")).next("Upload a file that has some.")
        );
    }
    let mime = kind(&name, bytes.get(..4096).unwrap_or(&bytes)).0;
    let (spills, session, size) = (workspace.runtime.spills().clone(), session.to_owned(), bytes.len());
    let handle = blocking(move || spills.keep(&session, &bytes)).await?;
    Ok(json!({"upload": handle, "name": name, "bytes": size, "mime": mime}))
}

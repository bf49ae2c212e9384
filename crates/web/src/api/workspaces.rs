//! Workspaces of a running server: the owner has further folders opened.

use std::path::PathBuf;

use http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::people::about_workspace;
use crate::{
    answer::Answer,
    call::{Call, Done},
    problem::Problem,
    workspaces::blocking,
};

/// A folder that is to be served.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Folder {
    /// Its absolute path. It is a folder that the owner trusts (`haft trust`) or has used haft in.
    path: PathBuf,
}

pub(crate) async fn folders(call: Call) -> Done {
    let folders = call.server.folders.clone();
    let known = blocking(move || Ok(folders.list())).await?;
    let served = call.server.workspaces.all();
    let closed = known.iter().filter(|it| !served.iter().any(|one| one.path == **it));
    let closed: Vec<Value> = closed.map(|it| it.display().to_string().into()).collect();
    Ok(Answer::ok(&json!({"folders": closed})))
}

pub(crate) async fn open(mut call: Call) -> Done {
    let Folder { path } = call.json().await?;
    if !path.is_absolute() {
        return Err(Problem::bad(format!("`{}` is not an absolute path", path.display())));
    }
    let shown = path.display().to_string();
    let real = blocking(move || Ok(path.canonicalize().ok().filter(|it| it.is_dir()))).await?;
    let path = real.ok_or_else(|| Problem::missing(format!("there is no folder `{shown}`")))?;
    let _opening = call.server.opening.lock().await;
    let known = call.server.workspaces.all().into_iter().find(|it| it.path == path);
    let (status, workspace) = match known {
        Some(workspace) => (StatusCode::OK, workspace),
        None => {
            let workspace = call.server.folders.open(&path).await?;
            let workspace = call.server.workspaces.add(workspace);
            workspace.take_up();
            (StatusCode::CREATED, workspace)
        }
    };
    let about = blocking(move || Ok(about_workspace(&workspace))).await?;
    Ok(Answer::json(status, &about))
}

//! Workspaces of a running server: listed; the owner has further folders opened, and closes them.

use std::path::PathBuf;

use http::StatusCode;
use kit::Kind;
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
    // JSON has no name that is not UTF-8, so no request can have such a folder opened.
    let closed: Vec<Value> = closed.filter_map(|it| it.to_str()).map(Value::from).collect();
    Ok(Answer::ok(&json!({"folders": closed})))
}

pub(crate) async fn list(call: Call) -> Done {
    let served = &call.server.workspaces;
    let mut all = Vec::new();
    for workspace in served.all() {
        all.push(json!({
            "id": workspace.id,
            "name": workspace.name(),
            "path": workspace.path.display().to_string(),
            "opened": served.was_opened(&workspace.id),
            "running": workspace.agents.working().await?,
        }));
    }
    Ok(Answer::ok(&json!({"workspaces": all})))
}

pub(crate) async fn close(call: Call) -> Done {
    let (id, served) = (call.name(0).to_owned(), &call.server.workspaces);
    let _opening = call.server.opening.lock().await;
    let workspace = served.of_id(Some(&id))?;
    if !served.was_opened(&id) {
        let what = format!("`{}` is served since the server began, and until it ends", workspace.name());
        return Err(Problem::new(StatusCode::CONFLICT, "denied", what).next(
            "Start the server again without this folder. Folders that were opened later can be closed.",
        ));
    }
    if let Err(fault) = call.server.folders.close(&workspace.path).await {
        let mut problem = Problem::from(&fault);
        if fault.kind == Kind::Unavailable {
            problem.status = StatusCode::CONFLICT;
        }
        return Err(problem);
    }
    served.remove(&id);
    workspace.closed.cancel();
    Ok(Answer::nothing())
}

pub(crate) async fn open(mut call: Call) -> Done {
    let Folder { path } = call.json().await?;
    if !path.is_absolute() {
        return Err(Problem::bad(format!("`{}` is not an absolute path", path.display()))
            .next("Name the folder from the root on: `/home/me/project`."));
    }
    let shown = path.display().to_string();
    let real = blocking(move || Ok(path.canonicalize().ok().filter(|it| it.is_dir()))).await?;
    let path = real.ok_or_else(|| {
        Problem::missing(format!("there is no folder `{shown}`"))
            .next("GET /api/v1/folders lists folders that can be opened.")
    })?;
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
    let is_opened = call.server.workspaces.was_opened(&workspace.id);
    let about = blocking(move || Ok(about_workspace(&workspace, is_opened))).await?;
    Ok(Answer::json(status, &about))
}

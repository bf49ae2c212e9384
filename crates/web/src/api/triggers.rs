//! Triggers: what begins turns without a person.

use serde_json::{Value, json};
use store::TriggerRow;
use triggers::{Service, Spec};

use crate::{
    answer::Answer,
    call::{Call, Done},
    problem::Problem,
    workspaces::{Workspace, blocking},
};

/// So many rows of a history are given, the newest.
const HISTORY: usize = 100;

fn shown(workspace: &Workspace, row: &TriggerRow) -> Value {
    let mut value = json!(row);
    if let Some(fields) = value.as_object_mut() {
        let what = Spec::of_body(&row.body).map_or_else(|fault| fault.what, |it| it.to_string());
        fields.insert("workspace".to_owned(), workspace.id.clone().into());
        fields.insert("what".to_owned(), what.into());
    }
    value
}

pub(crate) async fn list(call: Call) -> Done {
    let mut all = Vec::new();
    for workspace in call.server.workspaces.all() {
        let rows = Service::new(workspace.runtime.store().clone()).list(None).await?;
        all.extend(rows.iter().map(|it| shown(&workspace, it)));
    }
    Ok(Answer::ok(&json!({"triggers": all})))
}

pub(crate) async fn get(call: Call) -> Done {
    let workspace = call.workspace().await?;
    let row = Service::new(workspace.runtime.store().clone()).find(Some(call.name(0)), call.name(1)).await?;
    let mut value = shown(&workspace, &row);
    let store = workspace.runtime.store().clone();
    let history = blocking(move || store.triggers().history(&row.session, &row.id, HISTORY)).await?;
    if let Some(fields) = value.as_object_mut() {
        fields.insert("history".to_owned(), json!(history));
    }
    Ok(Answer::ok(&value))
}

pub(crate) async fn act(call: Call) -> Done {
    let workspace = call.workspace().await?;
    let service = Service::new(workspace.runtime.store().clone());
    let row = service.find(Some(call.name(0)), call.name(1)).await?;
    match call.name(2) {
        "pause" => service.pause(&row).await?,
        "resume" => drop(service.resume(&row, crate::access::now_ms()).await?),
        "fire" => {
            service.fire_now(&row, crate::access::now_ms()).await?;
            // Its turn needs somebody who runs the session.
            workspace.attach(&row.session, &call.who).await?;
        }
        other => {
            return Err(Problem::missing(format!("`{other}` is none of pause, resume, fire"))
                .next("End the address with one of those."));
        }
    }
    let row = service.find(Some(call.name(0)), call.name(1)).await?;
    Ok(Answer::ok(&shown(&workspace, &row)))
}

pub(crate) async fn remove(call: Call) -> Done {
    let workspace = call.workspace().await?;
    let service = Service::new(workspace.runtime.store().clone());
    if service.remove(call.name(0), call.name(1)).await? {
        return Ok(Answer::nothing());
    }
    Err(Problem::missing(format!("this session has no trigger `{}`", call.name(1)))
        .next("GET /api/v1/triggers lists them, each with its session."))
}

//! Changes of files by a session, and their undo.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use http::StatusCode;
use kit::{Fault, Kind};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use sessions::{Event, Handle, Operation};
use store::changes::{Change, DiffLimits, Version, Versions};

use crate::{
    answer::Answer,
    call::{Call, Done},
    diffs,
    problem::Problem,
    role::Role,
    workspaces::{Workspace, blocking},
};

/// Maximum number of calls that are read.
const CALLS: usize = 2000;

/// Maximum number of calls with changes in one answer.
const SHOWN: usize = 200;

/// The changes to put back: one of these; the newest changes, if none is given.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Undo {
    /// The changes of this call.
    call: Option<String>,
    /// The changes of the turn that began with the row of this number.
    turn: Option<u64>,
    /// The newest change of this file by the session.
    file: Option<String>,
}

/// The files to commit, and the message.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Commit {
    /// The message: a first line, and if there is more to say an empty line and the rest.
    message: String,
    /// The files, as `files` and `others` of the diff against `head` name them. Nothing else is committed.
    paths: Vec<String>,
}

pub(crate) async fn list(call: Call) -> Done {
    let (workspace, session) = (call.workspace().await?, call.name(0).to_owned());
    let calls = blocking(move || changed(&workspace, &session)).await?;
    Ok(Answer::ok(&json!({"calls": calls})))
}

/// Returns the calls that changed files, newest first.
fn changed(workspace: &Workspace, session: &str) -> Result<Vec<Value>, Fault> {
    let runtime = &workspace.runtime;
    let records = workspace.calls(session, CALLS)?;
    let undone: Vec<&String> =
        records.iter().flat_map(|it| &it.changes).filter_map(|it| it.undoes.as_ref()).collect();
    let mut calls = Vec::new();
    for record in records.iter().rev() {
        if calls.len() >= SHOWN {
            break;
        }
        let files = runtime.changes(&runtime.changed_by(record)?, DiffLimits::REVIEW);
        if files.is_empty() {
            continue;
        }
        let files: Vec<Value> = files.iter().map(diffs::change).collect();
        calls.push(json!({
            "call": record.call,
            "tool": record.tool,
            "at_ms": record.began_ms,
            "undone": undone.contains(&&record.call),
            "undoes": record.changes.iter().find_map(|it| it.undoes.as_ref()),
            "files": files,
        }));
    }
    Ok(calls)
}

pub(crate) async fn diff(call: Call) -> Done {
    let (workspace, session) = (call.workspace().await?, call.name(0).to_owned());
    match call.query.get("against").map(String::as_str) {
        None | Some("start") => {
            let files = blocking(move || whole(&workspace, &session)).await?;
            Ok(Answer::ok(&json!({"against": "start", "files": files})))
        }
        Some("head") => against_head(&call, &workspace, session).await,
        Some(other) => Err(Problem::bad(format!("`against={other}` is neither `start` nor `head`"))
            .next("Ask with `?against=start` or `?against=head`.")),
    }
}

/// Answers with the session's files that differ from the newest commit, and the names of the other files that do: whoever only
/// watches gets no names of files that the session has not changed.
async fn against_head(call: &Call, workspace: &Arc<Workspace>, session: String) -> Done {
    let of = workspace.clone();
    let own: BTreeSet<PathBuf> =
        blocking(move || Ok(versions_of(&of, &session)?.into_iter().map(|it| it.path).collect())).await?;
    let repository = workspace.runtime.repository().await?;
    let versions = workspace.runtime.against_head(&repository, &own).await?;
    let of = workspace.clone();
    let mut changes = blocking(move || Ok(of.runtime.changes(&versions, DiffLimits::REVIEW))).await?;
    let relative = |path: &Path| {
        let inside = path.strip_prefix(&workspace.path).unwrap_or(path);
        workspace.runtime.masked(&inside.to_string_lossy()).into_owned()
    };
    let mut others = Vec::new();
    for it in &repository.changed {
        let path = relative(&it.path);
        if !own.contains(&it.path) {
            others.push(json!({"path": path, "kind": it.kind}));
        } else if let Some(mode) = it.mode_change() {
            // A change of the mode alone has no lines.
            match changes.iter_mut().find(|it| it.path == path) {
                Some(change) => change.note = Some(mode),
                None => changes.push(Change { path, kind: it.kind, note: Some(mode), ..Change::default() }),
            }
        }
    }
    if call.who.role < Role::Say {
        others.clear();
    }
    Ok(Answer::ok(&json!({
        "against": "head",
        "commit": repository.commit,
        "branch": repository.branch,
        "files": changes.iter().map(diffs::change).collect::<Vec<_>>(),
        "others": others,
        "more": repository.has_more,
    })))
}

pub(crate) async fn commit(mut call: Call) -> Done {
    let Commit { message, paths } = call.json().await?;
    let (_, handle) = call.handle().await?;
    match handle.act(&call.key()?, Operation::Commit { message, paths }).await {
        Ok(done) => Ok(Answer::ok(&done)),
        // A hook, or git itself, refused.
        Err(Fault { kind: Kind::Failed, what, .. }) => {
            Err(Problem::new(StatusCode::CONFLICT, "failed", what)
                .next("Mend what git or the hook names, and commit again."))
        }
        Err(fault) => Err(fault.into()),
    }
}

/// Returns each file before its first change, against its content after the last.
fn whole(workspace: &Workspace, session: &str) -> Result<Vec<Value>, Fault> {
    let changes = workspace.runtime.changes(&versions_of(workspace, session)?, DiffLimits::REVIEW);
    Ok(changes.iter().map(diffs::change).collect())
}

/// Returns each file that the calls of a session changed, before the first change and after the last.
fn versions_of(workspace: &Workspace, session: &str) -> Result<Vec<Versions>, Fault> {
    let mut files: BTreeMap<PathBuf, (Version, Version)> = BTreeMap::new();
    for record in workspace.calls(session, CALLS)? {
        for Versions { path, before, after } in workspace.runtime.changed_by(&record)? {
            files.entry(path).and_modify(|it| it.1 = after.clone()).or_insert((before, after));
        }
    }
    let all = files.into_iter().map(|(path, (before, after))| Versions { path, before, after });
    Ok(all.collect())
}

pub(crate) async fn undo(mut call: Call) -> Done {
    let Undo { call: one, turn, file } = call.json().await?;
    if [one.is_some(), turn.is_some(), file.is_some()].into_iter().filter(|it| *it).count() > 1 {
        return Err(Problem::bad("the request has more than one of `call`, `turn` and `file`")
            .next("Send one of them; or none, which undoes the newest changes."));
    }
    let (workspace, handle) = call.handle().await?;
    let key = call.key()?;
    let Some(turn) = turn else {
        return Ok(Answer::ok(&handle.act(&key, Operation::Undo { call: one, path: file }).await?));
    };
    let text = undo_turn(&workspace, &handle, &key, turn).await?;
    Ok(Answer::ok(&json!({"text": text})))
}

/// Undoes the calls of a turn, the newest first.
async fn undo_turn(workspace: &Workspace, handle: &Handle, key: &str, turn: u64) -> Result<String, Problem> {
    let mut calls = Vec::new();
    let (mut after, mut begun) = (turn.saturating_sub(1), false);
    'rows: loop {
        let rows = workspace.sessions.rows(handle.session(), after).await?;
        if rows.is_empty() {
            break;
        }
        for row in rows {
            after = row.seq;
            match &row.event {
                Event::TurnBegan { .. } if row.seq == turn => begun = true,
                Event::TurnBegan { .. } | Event::TurnEnded(_) if begun => break 'rows,
                event => {
                    if let Some((_, agent::Event::Answered { call, .. })) = event.of_agent() {
                        calls.push(call.clone());
                    }
                }
            }
            if !begun {
                break 'rows;
            }
        }
    }
    if !begun {
        return Err(Problem::missing(format!("no turn begins with the row {turn}"))
            .next("Name the `seq` of a row `turn_began`; GET /api/v1/sessions/ID/rows has them."));
    }
    let mut texts = Vec::new();
    for (at, call) in calls.into_iter().rev().enumerate() {
        match handle.act(&format!("{key}.{at}"), Operation::Undo { call: Some(call), path: None }).await {
            Ok(done) => texts.extend(done.get("text").and_then(Value::as_str).map(str::to_owned)),
            // It changed nothing, or that is put back already.
            Err(fault) if fault.kind == Kind::NotFound => {}
            Err(fault) => return Err(fault.into()),
        }
    }
    if texts.is_empty() {
        return Err(Problem::new(
            StatusCode::NOT_FOUND,
            "not_found",
            format!("the turn {turn} changed no file that is not put back already"),
        )
        .next("GET /api/v1/sessions/ID/changes lists the changes, and which are undone."));
    }
    Ok(texts.join("\n"))
}

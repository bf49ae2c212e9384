//! Shares: parts of sessions that whoever has the address may read, until they expire or are revoked.

use http::StatusCode;
use kit::Fault;
use runtime::Runtime;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sessions::Event;

use super::{
    outputs::send_handle,
    shared_files::{links_of, send_masked},
};
use crate::{
    access::{Share, now_ms, secret},
    answer::Answer,
    call::{Call, Done},
    overview,
    problem::Problem,
    rows::Renderer,
    workspaces::{Workspace, blocking},
};

/// How long a share lasts, if nobody says otherwise, and at most.
const HOURS: u64 = 24;
const MOST_HOURS: u64 = 24 * 90;

/// The next step of whoever reads a share that there is not.
const NEW_SHARE: &str = "Ask whoever gave you the address for a new one.";

/// The next step of whoever wants more of a session than its share has.
const OF_ROWS: &str = "A share has the files and pictures that its rows show, by the names that are there.";

/// Rows that a share has at most.
const ROWS: usize = 50_000;

/// A new share.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewShare {
    /// The session.
    session: String,
    /// The first row; the first of the session, if there is none.
    from: Option<u64>,
    /// The last row; the last that there is now, if there is none.
    to: Option<u64>,
    /// In how many hours it expires: 24, if nobody says otherwise; at most 2160.
    hours: Option<u64>,
}

fn shown(share: &Share, address: &str) -> Value {
    json!({
        "id": share.id,
        "session": share.session,
        "workspace": share.workspace,
        "from": share.from,
        "to": share.to,
        "expires_ms": share.expires_ms,
        "by": share.by,
        "address": format!("{address}/s/{}", share.id),
    })
}

pub(crate) async fn list(call: Call) -> Done {
    let all: Vec<Value> = call.server.access.shares().iter().map(|it| shown(it, &call.address)).collect();
    Ok(Answer::ok(&json!({"shares": all})))
}

pub(crate) async fn create(mut call: Call) -> Done {
    let asked: NewShare = call.json().await?;
    let once = call.once(&asked)?.map(|it| (it.key, it.request));
    let NewShare { session, from, to, hours } = asked;
    let workspace = call.server.workspaces.of_session(&session, call.query.get("workspace")).await?;
    let hours = hours.unwrap_or(HOURS);
    if !(1..=MOST_HOURS).contains(&hours) {
        return Err(Problem::bad(format!("a share lasts 1 to {MOST_HOURS} hours, and not {hours}"))
            .next(format!("Send `hours` within that, or none for {HOURS} hours.")));
    }
    let (store, name) = (workspace.runtime.store().clone(), session.clone());
    let head = blocking(move || store.events().head(&name)).await?;
    let to = to.unwrap_or(head).min(head);
    let share = Share {
        id: secret()?.chars().take(32).collect(),
        workspace: workspace.id.clone(),
        session,
        from,
        to,
        expires_ms: now_ms() + hours * 3_600_000,
        by: call.who.name.clone(),
        once,
    };
    let share = call.server.access.add_share(share)?;
    Ok(Answer::json(StatusCode::CREATED, &shown(&share, &call.address)))
}

pub(crate) async fn delete(call: Call) -> Done {
    call.server.access.remove_share(call.name(0))?;
    Ok(Answer::nothing())
}

/// Returns the share that the path names.
fn find(call: &Call) -> Result<Share, Problem> {
    let share = call.server.access.share(call.name(0));
    let share =
        share.ok_or_else(|| Problem::missing("there is no such share, or it was revoked").next(NEW_SHARE))?;
    if share.expires_ms <= now_ms() {
        return Err(Problem::new(StatusCode::GONE, "not_found", "this share has expired").next(NEW_SHARE));
    }
    Ok(share)
}

pub(crate) async fn read(call: Call) -> Done {
    let share = find(&call)?;
    let workspace = call.server.workspaces.of_session(&share.session, Some(&share.workspace)).await?;
    let from = share.from.unwrap_or(1);
    let mut after = from.saturating_sub(1);
    // Not resumed: earlier pieces of a text in the middle of which the share begins are not shared.
    let mut renderer = Renderer::default();
    let mut rows = Vec::new();
    'pages: while rows.len() < ROWS {
        let page = workspace.sessions.rows(&share.session, after).await?;
        if page.is_empty() {
            break;
        }
        for row in page {
            // The pieces of a text became one row since: it counts by its first one.
            if row.first > share.to {
                break 'pages;
            }
            after = row.seq;
            if row.first < from {
                continue;
            }
            // The people and the machine are nobody's business who reads a share.
            if matches!(row.event, Event::Opened { .. } | Event::Closed { .. }) {
                continue;
            }
            rows.push(renderer.row(&row));
        }
    }
    renderer.finish(&mut rows);
    // Links to files that the session gave lead to the share's own address: the session's needs a role.
    let links = (links_of(&share.session), format!("/api/v1/shared/{}/files/", share.id));
    rows.iter_mut().for_each(|it| mask(it, &workspace.runtime, Some(&links)));
    let seen = overview::one(&workspace, &share.session).await?;
    let mut title = seen.session.get("title").cloned().unwrap_or_default();
    mask(&mut title, &workspace.runtime, Some(&links));
    Ok(Answer::ok(&json!({"title": title, "rows": rows, "expires_ms": share.expires_ms})))
}

/// Masks the secrets in all texts, and puts the second in the place of the first of `links`, if there are any.
pub(super) fn mask(value: &mut Value, runtime: &Runtime, links: Option<&(String, String)>) {
    match value {
        Value::String(text) => {
            if let Some((from, to)) = links
                && text.contains(from)
            {
                *text = text.replace(from, to);
            }
            if let std::borrow::Cow::Owned(masked) = runtime.masked(text) {
                *text = masked;
            }
        }
        Value::Array(all) => all.iter_mut().for_each(|it| mask(it, runtime, links)),
        Value::Object(fields) => {
            // The arguments of a call are of the model, names of fields too.
            for (name, mut field) in std::mem::take(fields) {
                mask(&mut field, runtime, links);
                fields.insert(runtime.masked(&name).into_owned(), field);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns whether one of the rows of a share shows it.
async fn shows(
    workspace: &Workspace,
    share: &Share,
    is_it: impl Fn(&agent::Event) -> bool + Send,
) -> Result<bool, Fault> {
    let mut after = share.from.unwrap_or(1).saturating_sub(1);
    loop {
        let page = workspace.sessions.rows(&share.session, after).await?;
        if page.is_empty() {
            return Ok(false);
        }
        for row in page {
            if row.seq > share.to {
                return Ok(false);
            }
            after = row.seq;
            if row.event.of_agent().is_some_and(|it| is_it(it.1)) {
                return Ok(true);
            }
        }
    }
}

pub(crate) async fn output(call: Call) -> Done {
    let share = find(&call)?;
    let workspace = call.server.workspaces.of_session(&share.session, Some(&share.workspace)).await?;
    let handle = call.name(1).to_owned();
    // Only the pictures of its own rows.
    let is_it = |event: &agent::Event| match event {
        agent::Event::Answered { pictures, .. } => pictures.iter().any(|it| it.handle == handle),
        agent::Event::Picture { picture, .. } => picture.handle == handle,
        _ => false,
    };
    if !shows(&workspace, &share, is_it).await? {
        return Err(Problem::missing(format!("this share shows no picture `{handle}`")).next(OF_ROWS));
    }
    send_handle(&call, &workspace, share.session, handle).await
}

pub(crate) async fn file(call: Call) -> Done {
    let share = find(&call)?;
    let workspace = call.server.workspaces.of_session(&share.session, Some(&share.workspace)).await?;
    let (file, links) = (call.name(1).to_owned(), links_of(&share.session));
    // Only the files of its own rows.
    let is_it = |event: &agent::Event| match event {
        agent::Event::Answered { links: all, .. } => {
            all.iter().any(|it| it.split_once(&links).is_some_and(|it| it.1 == file))
        }
        _ => false,
    };
    if !shows(&workspace, &share, is_it).await? {
        return Err(Problem::missing(format!("this share has no file `{file}`")).next(OF_ROWS));
    }
    send_masked(&call, &workspace, &share.session, file).await
}

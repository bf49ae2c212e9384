//! All sessions of all workspaces: how each stands, and what waits for somebody.

use std::sync::Arc;

use agent::{Archived, Conversation};
use kit::Fault;
use serde_json::{Value, json};
use sessions::State;

use crate::{
    protocols::McpApproval,
    rows,
    shared::Shared,
    workspaces::{Workspace, blocking},
};

/// So many sessions are listed, if nobody asks for another number.
const LIMIT: usize = 200;

/// The selection of sessions to list.
#[derive(Default, Clone)]
pub(crate) struct Look {
    /// Those whose messages have these words.
    pub(crate) query: Option<String>,
    /// Only those that are archived, or only those that are not.
    pub(crate) archived: bool,
    /// Only those of this workspace.
    pub(crate) workspace: Option<String>,
    pub(crate) limit: Option<usize>,
}

/// A session with its state.
pub(crate) struct Seen {
    /// As the API gives it.
    pub(crate) session: Value,
    pub(crate) state: Option<State>,
}

/// A session as the store knows it.
struct Found {
    about: Conversation,
    head: u64,
    /// A process claimed it and has not given it up.
    has_owner: bool,
}

/// Lists sessions, the one used last first; those of a search as the search ranks them.
pub(crate) async fn all(server: &Shared, look: &Look) -> Result<Vec<Seen>, Fault> {
    let mut seen = Vec::new();
    for workspace in server.workspaces.all() {
        if look.workspace.as_ref().is_some_and(|it| *it != workspace.id) {
            continue;
        }
        let (listed, look) = (workspace.clone(), look.clone());
        for found in blocking(move || listed_in(&listed, &look)).await? {
            seen.push(looked_at(&workspace, found).await?);
        }
    }
    if look.query.is_none() {
        let used = |it: &Seen| it.session.get("used_ms").and_then(Value::as_u64).unwrap_or_default();
        seen.sort_by_key(|it| std::cmp::Reverse(used(it)));
        seen.truncate(look.limit.unwrap_or(LIMIT));
    }
    Ok(seen)
}

/// One session.
pub(crate) async fn one(workspace: &Arc<Workspace>, session: &str) -> Result<Seen, Fault> {
    let (of, name) = (workspace.clone(), session.to_owned());
    let found = blocking(move || {
        let about = match of.runtime.store().conversations().about(&name)? {
            Some(about) => about.into(),
            None => silent(&of, &name, of.begun().get(&name))?,
        };
        known(&of, about)
    })
    .await?;
    looked_at(workspace, found).await
}

/// A session in which nobody has said anything yet.
fn silent(workspace: &Workspace, session: &str, begun_ms: Option<&u64>) -> Result<Conversation, Fault> {
    let begun_ms = begun_ms.copied().unwrap_or_default();
    let title = workspace.runtime.store().conversations().given_title(session)?.unwrap_or_default();
    Ok(Conversation {
        session: session.to_owned(),
        title,
        begun_ms,
        used_ms: begun_ms,
        turns: 0,
        found: None,
        archived: false,
        forked_from: None,
        forked_at: None,
    })
}

fn known(workspace: &Workspace, about: Conversation) -> Result<Found, Fault> {
    let store = workspace.runtime.store();
    let head = store.events().head(&about.session)?;
    let has_owner = store.owners().get(&about.session)?.is_some_and(|it| it.instance.is_some());
    Ok(Found { about, head, has_owner })
}

fn listed_in(workspace: &Workspace, look: &Look) -> Result<Vec<Found>, Fault> {
    let limit = look.limit.unwrap_or(LIMIT);
    let which = if look.archived { Archived::Shown } else { Archived::Hidden };
    let mut all = match &look.query {
        Some(words) => agent::find_conversations(&workspace.runtime, words, which, limit)?,
        None if look.archived => {
            let mut all = agent::conversations(&workspace.runtime, which, usize::MAX)?;
            all.retain(|it| it.archived);
            all.truncate(limit);
            all
        }
        None => agent::conversations(&workspace.runtime, which, limit)?,
    };
    if look.query.is_none() && !look.archived {
        let store = workspace.runtime.store().conversations();
        for (session, begun_ms) in workspace.begun() {
            // Once somebody said something it is listed as all are.
            if !all.iter().any(|it| it.session == session) && store.about(&session)?.is_none() {
                all.push(silent(workspace, &session, Some(&begun_ms))?);
            }
        }
    }
    all.into_iter().map(|about| known(workspace, about)).collect()
}

async fn looked_at(workspace: &Arc<Workspace>, found: Found) -> Result<Seen, Fault> {
    let Found { about, head, has_owner } = found;
    let state = if has_owner { workspace.sessions.state_of(&about.session).await? } else { None };
    let Conversation { session, title, begun_ms, used_ms, turns, found, archived, forked_from, .. } = about;
    let mut value = json!({
        "id": session,
        "workspace": workspace.id,
        "title": title,
        "turns": turns,
        "begun_ms": begun_ms,
        "used_ms": used_ms,
        "archived": archived,
        "state": "asleep",
        "head": state.as_ref().map_or(head, |it| it.head.max(head)),
        "approvals": 0,
        "questions": 0,
    });
    let Some(fields) = value.as_object_mut() else { return Err(Fault::bug("no object")) };
    for (name, text) in [("forked_from", forked_from), ("found", found)] {
        if let Some(text) = text {
            fields.insert(name.to_owned(), text.into());
        }
    }
    if let Some(state) = &state {
        let waits = !state.approvals.is_empty() || !state.questions.is_empty();
        let stands = if waits {
            "waiting"
        } else if state.turn.is_some() || state.waiting > 0 {
            "running"
        } else {
            "idle"
        };
        fields.insert("state".to_owned(), stands.into());
        fields.insert("model".to_owned(), json!(state.model));
        fields.insert("profile".to_owned(), json!(state.profile));
        if let Some(sandbox) = state.sandbox {
            fields.insert("sandbox".to_owned(), json!(sandbox));
        }
        fields.insert("by".to_owned(), json!(state.by));
        fields.insert("approvals".to_owned(), state.approvals.len().into());
        fields.insert("questions".to_owned(), state.questions.len().into());
        fields.insert("queued".to_owned(), state.waiting.into());
        fields.insert("turn".to_owned(), json!(state.turn));
    }
    Ok(Seen { session: value, state })
}

/// The open approvals and questions of these sessions, and the approvals of MCP clients.
pub(crate) fn waiting(server: &Shared, seen: &[Seen]) -> Value {
    json!({"approvals": approvals(server, seen), "questions": questions(seen)})
}

/// The open approvals of these sessions, and those of MCP clients.
pub(crate) fn approvals(server: &Shared, seen: &[Seen]) -> Vec<Value> {
    let all = seen.iter().filter_map(|it| Some((it, it.state.as_ref()?)));
    let of_sessions = all.flat_map(|(it, state)| {
        state.approvals.iter().map(move |approval| of(it, "approval", rows::approval(approval)))
    });
    of_sessions.chain(server.protocols.approvals().iter().map(|it| of_client(server, it))).collect()
}

fn of_client(server: &Shared, waiting: &McpApproval) -> Value {
    let McpApproval { workspace, session, client, principal, approval } = waiting;
    let client = client.as_deref().unwrap_or("an MCP client");
    let by = server.access.of_principal(principal).map(|it| it.name);
    json!({
        "session": session,
        "workspace": workspace,
        "title": format!("MCP: {client}"),
        "client": client,
        "by": by,
        "approval": rows::approval(approval),
    })
}

/// The open questions of these sessions.
pub(crate) fn questions(seen: &[Seen]) -> Vec<Value> {
    let all = seen.iter().filter_map(|it| Some((it, it.state.as_ref()?)));
    all.flat_map(|(it, state)| {
        state.questions.iter().map(move |question| of(it, "question", json!(question)))
    })
    .collect()
}

fn of(seen: &Seen, name: &str, what: Value) -> Value {
    let field = |name: &str| seen.session.get(name).cloned().unwrap_or_default();
    let mut value = json!({"session": field("id"), "workspace": field("workspace"), "title": field("title")});
    if let Some(fields) = value.as_object_mut() {
        fields.insert(name.to_owned(), what);
    }
    value
}

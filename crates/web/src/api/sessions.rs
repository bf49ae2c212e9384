//! Sessions: listed, begun, prompted, watched, changed.

use std::{sync::Arc, time::Duration};

use http::{HeaderName, StatusCode};
use kit::{Fault, base64};
use runtime::{SandboxMode, chosen_sandbox, too_wide};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use sessions::{Attachment, Handle, Operation, Prompt, Report};
use tokio::time::{Instant, sleep, timeout};

use super::{
    outputs::{is_picture, kept},
    shares::mask,
};
use crate::{
    answer::Answer,
    call::{Call, Done},
    overview::{self, Look},
    problem::Problem,
    role::Role,
    rows::{Renderer, approval},
    stream,
    workspaces::{Workspace, blocking, check_role, not_listed},
};

/// Rows that are given at once, if nobody asks for another number.
const ROWS: u64 = 2000;

/// The longest text of an upload that is put into the prompt, in bytes.
const LONGEST_TEXT: usize = 64 << 10;

/// An operation that has not failed in this time is under way.
const AT_ONCE: Duration = Duration::from_millis(150);

/// In this time an agent that was closed lets go of its session.
const LET_GO: Duration = Duration::from_secs(3);

/// A new session.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewSession {
    /// The id of its workspace; the first one, if there is none.
    workspace: Option<String>,
    /// Its first prompt.
    prompt: Option<Prompted>,
    /// Its title.
    title: Option<String>,
    /// Its model.
    model: Option<String>,
    /// Its profile.
    profile: Option<String>,
    /// Its sandbox, not wider than that of the workspace: `read-only`, `workspace` or `full`. It needs the role `own`.
    sandbox: Option<String>,
}

/// The person's words, and their attachments.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Prompted {
    /// The words. Without words and attachments the turn goes on where the conversation was left.
    #[serde(default)]
    text: String,
    /// The attachments.
    #[serde(default)]
    attachments: Vec<Attached>,
}

/// A text, a picture, or a file that was uploaded.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Attached {
    /// A text.
    Text { name: String, text: String },
    /// A picture, in base64.
    Picture { name: String, data: String },
    /// The handle of an upload: `out_12`.
    #[serde(untagged)]
    Upload {
        upload: String,
        /// Its name, for the model.
        name: Option<String>,
    },
}

/// Changes of a session's settings.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Patch {
    /// The title.
    title: Option<String>,
    /// Whether it is archived.
    archived: Option<bool>,
    /// The model that answers from now on.
    model: Option<String>,
    /// The profile from now on; null for none.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "Option<String>")]
    profile: Option<Option<String>>,
    /// The sandbox from now on, not wider than that of the workspace: `read-only`, `workspace` or `full`. It needs the role `own`.
    sandbox: Option<String>,
}

/// Tells a field that is null from one that is absent.
fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<String>>, D::Error> {
    Option::<String>::deserialize(from).map(Some)
}

/// The turn to stop.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cancel {
    /// The key of its prompt; without one, the turn that goes on.
    prompt: Option<String>,
}

/// The beginning of a fork.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fork {
    /// How many of the newest turns it does not have.
    #[serde(default)]
    without: usize,
}

/// How far to go back.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rewind {
    /// How many turns.
    turns: usize,
}

/// The subjects of a summary.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Compact {
    /// The subjects that it keeps.
    keep: Option<String>,
}

/// A command of the person.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Command {
    /// The command line.
    command: String,
}

pub(crate) async fn list(call: Call) -> Done {
    let look = Look {
        query: call.query.get("q").filter(|it| !it.trim().is_empty()).cloned(),
        archived: call.query.get("archived").is_some_and(|it| it == "true"),
        workspace: call.query.get("workspace").cloned(),
        limit: call.number("limit")?.map(|it| usize::try_from(it).unwrap_or(usize::MAX).min(10_000)),
    };
    let seen = overview::all(&call.server, &look).await?;
    let sessions: Vec<Value> = seen.into_iter().map(|it| it.session).collect();
    Ok(Answer::ok(&json!({"sessions": sessions})))
}

pub(crate) async fn create(mut call: Call) -> Done {
    let asked: NewSession = call.json().await?;
    let key = call.key()?;
    let workspace = call.server.workspaces.of_id(asked.workspace.as_ref())?;
    may_choose(&call, &workspace, asked.model.as_deref()).await?;
    let sandbox = sandbox(&call, &workspace, asked.sandbox.as_deref())?;
    let session = named_by(&key, &call.who.name, &workspace);
    if asked.model.is_some() || asked.profile.is_some() {
        let (of, name) = (workspace.clone(), session.clone());
        let (model, profile) = (asked.model.clone(), asked.profile.clone());
        blocking(move || of.agents.choose(&name, model.as_deref(), profile.as_deref())).await?;
    }
    let handle = workspace.attach(&session, &call.who).await?;
    workspace.has_begun(&session);
    // First: nothing runs in a wider one.
    if let Some(operation) = sandbox {
        handle.act(&format!("{key}.sandbox"), operation).await?;
    }
    if let Some(name) = asked.model {
        handle.act(&format!("{key}.model"), Operation::Model { name }).await?;
    }
    if let Some(name) = asked.profile {
        handle.act(&format!("{key}.profile"), Operation::Profile { name: Some(name) }).await?;
    }
    if let Some(prompt) = asked.prompt {
        let prompt = words(&workspace, &session, prompt).await?;
        post(&handle, &key, Operation::Prompt(prompt)).await?;
    }
    // Last: a request with the key of another one is refused before.
    if let Some(title) = &asked.title {
        workspace.sessions.rename(&session, title).await?;
    }
    let seen = overview::one(&workspace, &session).await?;
    Ok(Answer::json(StatusCode::CREATED, &seen.session))
}

/// Refuses a model that is not in the list, except to the owner: the name of a model may be any address, or a file.
async fn may_choose(call: &Call, workspace: &Arc<Workspace>, model: Option<&str>) -> Result<(), Problem> {
    let Some(name) = model.filter(|_| call.who.role < Role::Own) else { return Ok(()) };
    let of = workspace.clone();
    let listed = blocking(move || Ok(of.agents.models())).await?;
    if listed.iter().any(|it| it.0 == name) {
        return Ok(());
    }
    Err(not_listed(call.who.role, name).into())
}

/// Returns the switch of the sandbox that a request asks for, before anything else of it is done.
fn sandbox(call: &Call, workspace: &Workspace, name: Option<&str>) -> Result<Option<Operation>, Problem> {
    let Some(name) = name else { return Ok(None) };
    let mode = SandboxMode::named(name).ok_or_else(|| {
        let names = SandboxMode::ALL.map(SandboxMode::name).join("`, `");
        Problem::bad(format!("`{name}` is not a sandbox")).next(format!("Name one of these: `{names}`."))
    })?;
    let operation = Operation::Sandbox { mode };
    check_role(call.who.role, &operation)?;
    let widest = workspace.runtime.policy().sandbox;
    if mode > widest {
        return Err(too_wide(mode, widest).into());
    }
    Ok(Some(operation))
}

/// Returns the name of the session that this request of a person begins: repeated, it is the same session.
fn named_by(key: &str, person: &str, workspace: &Workspace) -> String {
    let hash = blake3::hash(format!("{}\n{person}\n{key}", workspace.id).as_bytes()).to_hex().to_string();
    format!("s_{}", hash.chars().take(16).collect::<String>())
}

pub(crate) async fn get(call: Call) -> Done {
    let workspace = call.workspace().await?;
    let overview::Seen { session: mut value, state } = overview::one(&workspace, call.name(0)).await?;
    if let Some(fields) = value.as_object_mut() {
        let state = state.as_ref();
        let open = state.map(|it| it.approvals.iter().map(approval).collect::<Vec<_>>());
        fields.insert("approvals_open".to_owned(), open.unwrap_or_default().into());
        fields.insert(
            "questions_open".to_owned(),
            json!(state.map(|it| it.questions.as_slice()).unwrap_or_default()),
        );
        if state.is_none() {
            let (of, name) = (workspace.clone(), call.name(0).to_owned());
            let sandbox = blocking(move || {
                let widest = of.runtime.policy().sandbox;
                Ok(chosen_sandbox(&of.runtime, &name)?.map_or(widest, |it| it.min(widest)))
            });
            fields.insert("sandbox".to_owned(), json!(sandbox.await?));
        }
        fields
            .insert("context".to_owned(), json!({"tokens": newest_request(&workspace, call.name(0)).await?}));
    }
    Ok(Answer::ok(&value))
}

/// Returns the tokens of the newest request to the session's model, and of its answer.
async fn newest_request(workspace: &Workspace, session: &str) -> Result<Option<u64>, Fault> {
    let (store, name) = (workspace.runtime.store().clone(), session.to_owned());
    let Some(seq) = blocking(move || store.events().newest(&name, "used")).await? else { return Ok(None) };
    let rows = workspace.sessions.rows(session, seq.saturating_sub(1)).await?;
    Ok(rows.first().and_then(|row| match row.event.of_agent()?.1 {
        agent::Event::Used { usage, .. } => Some(usage.request() + usage.output),
        _ => None,
    }))
}

pub(crate) async fn patch(mut call: Call) -> Done {
    let asked: Patch = call.json().await?;
    let (workspace, session) = (call.workspace().await?, call.name(0).to_owned());
    may_choose(&call, &workspace, asked.model.as_deref()).await?;
    let sandbox = sandbox(&call, &workspace, asked.sandbox.as_deref())?;
    if let Some(operation) = sandbox {
        let handle = workspace.attach(&session, &call.who).await?;
        handle.act(&format!("{}.sandbox", call.key()?), operation).await?;
    }
    if let Some(title) = &asked.title {
        workspace.sessions.rename(&session, title).await?;
    }
    if let Some(archived) = asked.archived {
        workspace.sessions.archive(&session, archived).await?;
    }
    if let Some(name) = asked.model {
        let handle = workspace.attach(&session, &call.who).await?;
        handle.act(&call.key()?, Operation::Model { name }).await?;
    }
    if let Some(name) = asked.profile {
        let handle = workspace.attach(&session, &call.who).await?;
        handle.act(&format!("{}.profile", call.key()?), Operation::Profile { name }).await?;
    }
    Ok(Answer::ok(&overview::one(&workspace, &session).await?.session))
}

pub(crate) async fn delete(call: Call) -> Done {
    let (workspace, session) = (call.workspace().await?, call.name(0).to_owned());
    let runs_here = workspace.agents.session(&session).is_some();
    if runs_here {
        let (handle, key) = (workspace.attach(&session, &call.who).await?, call.key()?);
        handle.act(&format!("{key}.cancel"), Operation::Cancel { prompt: None }).await?;
        handle.act(&format!("{key}.close"), Operation::Close).await?;
    }
    // The agent lets go of the session a moment after it answered that it closes.
    let until = Instant::now() + LET_GO;
    loop {
        match workspace.sessions.delete(&session).await {
            Ok(()) => break,
            Err(_) if runs_here && Instant::now() < until => sleep(Duration::from_millis(20)).await,
            Err(fault) => return Err(fault.into()),
        }
    }
    workspace.is_gone(&session);
    Ok(Answer::nothing())
}

pub(crate) async fn prompt(mut call: Call) -> Done {
    let asked: Prompted = call.json().await?;
    let (workspace, handle) = call.handle().await?;
    let prompt = words(&workspace, call.name(0), asked).await?;
    let key = call.key()?;
    post(&handle, &key, Operation::Prompt(prompt)).await?;
    Ok(Answer::json(StatusCode::ACCEPTED, &json!({"key": key})))
}

/// Has an operation done, which may take long. One that fails at once, as with a picture that the model can't look at, has no
/// row that says so: its error is the answer.
async fn post(handle: &Handle, key: &str, operation: Operation) -> Result<(), Fault> {
    if handle.post(key, operation.clone()).await?.is_some() {
        return Ok(());
    }
    timeout(AT_ONCE, handle.act(key, operation)).await.map_or(Ok(()), |it| it.map(drop))
}

/// Returns a prompt with what was uploaded for it.
async fn words(workspace: &Workspace, session: &str, asked: Prompted) -> Result<Prompt, Problem> {
    let mut prompt = Prompt::new(asked.text);
    for attached in asked.attachments {
        prompt.attachments.push(match attached {
            Attached::Text { name, text } => Attachment::Text { name, text },
            Attached::Picture { name, data } => Attachment::Picture { name, data },
            Attached::Upload { upload, name } => {
                let bytes = kept(workspace, session, &upload).await?;
                let name = name.unwrap_or_else(|| upload.clone());
                match String::from_utf8(bytes) {
                    Ok(text) if text.len() <= LONGEST_TEXT && !text.contains('\0') => {
                        Attachment::Text { name, text }
                    }
                    Ok(text) => by_handle(name, &upload, text.len()),
                    Err(error) if is_picture(error.as_bytes()) => {
                        Attachment::Picture { name, data: base64::encoded(error.as_bytes()) }
                    }
                    Err(error) => by_handle(name, &upload, error.as_bytes().len()),
                }
            }
        });
    }
    Ok(prompt)
}

/// A file that is too long or no text: the model gets its handle.
fn by_handle(name: String, upload: &str, bytes: usize) -> Attachment {
    let text = format!("{name} has {bytes} bytes and was uploaded; it can be read by its handle: {upload}\n");
    Attachment::Text { name, text }
}

pub(crate) async fn cancel(mut call: Call) -> Done {
    let Cancel { prompt } = call.json().await?;
    // One that nobody runs has nothing to stop, and is not run for that.
    let workspace = call.workspace().await?;
    if workspace.sessions.state_of(call.name(0)).await?.is_none() {
        return Ok(Answer::ok(&json!({"cancelled": false})));
    }
    act(&call, Operation::Cancel { prompt }).await
}

/// Does an operation, and answers with its result.
async fn act(call: &Call, operation: Operation) -> Done {
    let (_, handle) = call.handle().await?;
    Ok(Answer::ok(&handle.act(&call.key()?, operation).await?))
}

pub(crate) async fn fork(mut call: Call) -> Done {
    let Fork { without } = call.json().await?;
    let (workspace, handle) = call.handle().await?;
    let result = handle.act(&call.key()?, Operation::Fork { without }).await?;
    let into = result.get("session").and_then(Value::as_str).unwrap_or_default().to_owned();
    let seen = overview::one(&workspace, &into).await?;
    Ok(Answer::json(StatusCode::CREATED, &seen.session))
}

pub(crate) async fn rewind(mut call: Call) -> Done {
    let Rewind { turns } = call.json().await?;
    act(&call, Operation::Rewind { turns }).await
}

pub(crate) async fn compact(mut call: Call) -> Done {
    let Compact { keep } = call.json().await?;
    act(&call, Operation::Compact { keep }).await
}

pub(crate) async fn command(mut call: Call) -> Done {
    let Command { command } = call.json().await?;
    if command.trim().is_empty() {
        return Err(Problem::bad("`command` is empty")
            .next("Send the command line: `{\"command\": \"git status\"}`."));
    }
    let (_, handle) = call.handle().await?;
    let key = call.key()?;
    post(&handle, &key, Operation::Command { command }).await?;
    Ok(Answer::json(StatusCode::ACCEPTED, &json!({"key": key})))
}

pub(crate) async fn report(call: Call) -> Done {
    let report = match call.query.get("kind").map(String::as_str) {
        None | Some("context") => Report::Context,
        Some("tools") => Report::Tools { about: None },
        Some(other) => {
            return Err(Problem::bad(format!("`kind={other}` is neither `context` nor `tools`"))
                .next("Ask with `?kind=context` or `?kind=tools`."));
        }
    };
    let workspace = call.workspace().await?;
    if workspace.sessions.state_of(call.name(0)).await?.is_none() {
        return Err(Problem::new(StatusCode::CONFLICT, "unavailable", "nobody runs this session now")
            .next("It is run once somebody prompts it."));
    }
    act(&call, Operation::Report(report)).await
}

pub(crate) async fn events(call: Call) -> Done {
    let last = call.header(HeaderName::from_static("last-event-id")).map(str::to_owned);
    let after = match last.filter(|it| !it.is_empty()) {
        Some(last) => last.parse().map_err(|_| {
            Problem::bad(format!("`Last-Event-ID: {last}` is not a number"))
                .next("Send the `id` of the last event that came, or no such header.")
        })?,
        None => call.number("after")?.unwrap_or_default(),
    };
    let workspace = call.workspace().await?;
    let session = call.name(0).to_owned();
    Ok(stream::rows(call.access(), workspace, session, after))
}

pub(crate) async fn rows(call: Call) -> Done {
    let (mut after, limit) =
        (call.number("after")?.unwrap_or_default(), call.number("limit")?.unwrap_or(ROWS).min(20_000));
    let is_masked = match call.query.get("masked").map(String::as_str) {
        None | Some("false") => false,
        Some("true") => true,
        Some(other) => {
            return Err(Problem::bad(format!("`masked={other}` is neither `true` nor `false`"))
                .next("Ask with `?masked=true` for rows whose secrets are masked."));
        }
    };
    let workspace = call.workspace().await?;
    let session = call.name(0);
    let mut renderer = Renderer::resume(&workspace.sessions, session, after).await?;
    let mut rows = Vec::new();
    'pages: loop {
        let page = workspace.sessions.rows(session, after).await?;
        if page.is_empty() {
            break;
        }
        for row in page {
            if rows.len() as u64 >= limit {
                break 'pages;
            }
            after = row.seq;
            rows.push(renderer.row(&row));
        }
    }
    renderer.finish(&mut rows);
    let (store, name) = (workspace.runtime.store().clone(), session.to_owned());
    let head = blocking(move || store.events().head(&name)).await?;
    let mut answer = json!({"rows": rows, "head": head});
    if is_masked {
        mask(&mut answer, &workspace.runtime, None);
    }
    Ok(Answer::ok(&answer))
}

pub(crate) async fn all_events(call: Call) -> Done {
    Ok(stream::all(call.access()))
}

//! OpenAI's chat completions: a client of that API is a front end of haft. A model is a profile, a conversation a session.
//!
//! The API has no conversations, only messages that the client sends again each time. So the session is the one of the same
//! person whose newest messages are these, and gets the last one; any other conversation begins a session, with the earlier
//! messages attached.

use std::sync::Arc;

use kit::Fault;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use sessions::{Attachment, Operation, Prompt, TurnEnd};
use tokio::sync::mpsc;

use super::turn::{Piece, Turn, failure};
use crate::{
    access::{now_ms, secret},
    answer::Answer,
    call::{Call, Done},
    problem::Problem,
    shared::Conversation,
    workspaces::{Workspace, blocking},
};

/// The model without a profile.
const PLAIN: &str = "haft";

/// So many conversations are remembered.
const REMEMBERED: usize = 1000;

/// The request of a chat completion. Fields that are not here have no effect.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Chat {
    /// `haft`, or the name of a profile.
    model: String,
    /// The conversation. The last message is the person's.
    messages: Vec<Message>,
    /// Whether the answer comes in pieces.
    stream: Option<bool>,
    /// Options of the stream.
    stream_options: Option<StreamOptions>,
}

#[derive(Deserialize, JsonSchema, Default)]
struct StreamOptions {
    /// Whether the last piece says the tokens.
    include_usage: Option<bool>,
}

/// A message.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Message {
    pub(super) role: String,
    #[serde(default)]
    pub(super) content: Content,
}

/// A text, or parts.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Content {
    Text(String),
    Parts(Vec<Part>),
    None(()),
}

impl Default for Content {
    fn default() -> Self {
        Self::None(())
    }
}

/// A part of a message: a text or a picture.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Part {
    text: Option<String>,
    image_url: Option<Value>,
}

impl Content {
    pub(super) fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Parts(parts) => {
                parts.iter().filter_map(|it| it.text.as_deref()).collect::<Vec<_>>().join("\n")
            }
            Self::None(()) => String::new(),
        }
    }

    fn images(&self) -> impl Iterator<Item = &Value> {
        let parts = if let Self::Parts(parts) = self { parts.as_slice() } else { &[] };
        parts.iter().filter_map(|it| it.image_url.as_ref())
    }

    /// Returns the pictures, which are in the request itself: haft fetches none.
    pub(super) fn pictures(&self) -> Result<Vec<Attachment>, Problem> {
        self.images()
            .enumerate()
            .map(|(at, it)| {
                let url = it.as_str().or_else(|| it.get("url")?.as_str()).unwrap_or_default();
                let data = url.strip_prefix("data:image/").and_then(|it| it.split_once(";base64,"));
                let (kind, data) = data.ok_or_else(|| {
                    let shown: String = url.chars().take(60).collect();
                    Problem::bad(format!("the picture `{shown}` is not a `data:image/…;base64,…` address"))
                        .next("Put the bytes of the picture into the request: haft fetches none here.")
                })?;
                Ok(Attachment::Picture { name: format!("picture-{}.{kind}", at + 1), data: data.to_owned() })
            })
            .collect()
    }
}

/// A profile of a workspace, as a model.
struct Named {
    name: String,
    /// The same with the workspace's id, by which it is found too.
    by_id: String,
    workspace: Arc<Workspace>,
    profile: Option<String>,
}

/// Returns the models: `haft` and the profiles. Those of another workspace have its name before; where an earlier one has that name,
/// its id.
async fn names(call: &Call) -> Result<Vec<Named>, Problem> {
    let (mut all, mut places) = (Vec::new(), vec![String::new()]);
    for (at, workspace) in call.server.workspaces.all().into_iter().enumerate() {
        let of = workspace.clone();
        let profiles = blocking(move || Ok(of.agents.profiles())).await?;
        let by_id = format!("{}/", workspace.id);
        let place = if at == 0 { String::new() } else { format!("{}/", workspace.name()) };
        let place = if at > 0 && places.contains(&place) { by_id.clone() } else { place };
        for profile in std::iter::once(None).chain(profiles.into_iter().map(Some)) {
            let it = profile.as_deref().unwrap_or(PLAIN);
            let (name, by_id) = (format!("{place}{it}"), format!("{by_id}{it}"));
            all.push(Named { name, by_id, workspace: workspace.clone(), profile });
        }
        places.push(place);
    }
    Ok(all)
}

/// Returns the workspace and the profile of a model.
pub(super) async fn model(call: &Call, name: &str) -> Result<(Arc<Workspace>, Option<String>), Problem> {
    let all = names(call).await?;
    let found = all.iter().find(|it| it.name == name).or_else(|| all.iter().find(|it| it.by_id == name));
    let found = found.ok_or_else(|| {
        Problem::missing(format!("there is no model `{name}`")).next("GET /v1/models lists them.")
    })?;
    Ok((found.workspace.clone(), found.profile.clone()))
}

pub(crate) async fn models(call: Call) -> Done {
    let all = names(&call).await?.into_iter();
    let all: Vec<Value> =
        all.map(|it| json!({"id": it.name, "object": "model", "created": 0, "owned_by": "haft"})).collect();
    Ok(Answer::ok(&json!({"object": "list", "data": all})))
}

/// Begins a session with this profile.
pub(super) async fn new_session(
    call: &Call,
    workspace: &Arc<Workspace>,
    profile: Option<String>,
) -> Result<String, Problem> {
    let session = workspace.sessions.new_name();
    if let Some(name) = profile.clone() {
        let (of, session) = (workspace.clone(), session.clone());
        blocking(move || of.agents.choose(&session, None, Some(&name))).await?;
    }
    let handle = workspace.attach(&session, &call.who).await?;
    workspace.has_begun(&session);
    if profile.is_some() {
        handle.act(&secret()?, Operation::Profile { name: profile }).await?;
    }
    Ok(session)
}

/// A message, compared with those of later requests: its role, text and pictures.
type Compared = (String, String, Vec<Value>);

fn compared(message: &Message) -> Compared {
    (message.role.clone(), message.content.text(), message.content.images().cloned().collect())
}

/// Returns the hash of a person's conversation with a model.
fn hash(person: &str, model: &str, said: &[Compared]) -> String {
    blake3::hash(json!([person, model, said]).to_string().as_bytes()).to_hex().to_string()
}

/// Returns the number of the row with which the newest turn of a session began.
async fn newest_turn(workspace: &Arc<Workspace>, session: &str) -> Result<Option<u64>, Fault> {
    let (store, name) = (workspace.runtime.store().clone(), session.to_owned());
    blocking(move || store.events().newest(&name, "turn_began")).await
}

/// Returns the session of this conversation, if it has no newer turn.
async fn known(call: &Call, workspace: &Arc<Workspace>, hash: &str) -> Result<Option<String>, Fault> {
    let found = {
        let all = call.server.conversations.lock();
        all.iter().rev().find(|it| it.hash == *hash && it.workspace == workspace.id).cloned()
    };
    let Some(found) = found else { return Ok(None) };
    let is_newest = newest_turn(workspace, &found.session).await? == found.turn;
    Ok(is_newest.then_some(found.session))
}

pub(crate) async fn chat(mut call: Call) -> Done {
    let Chat { model: name, messages, stream, stream_options } = call.json().await?;
    let (workspace, profile) = model(&call, &name).await?;
    let Some((last, earlier)) = messages.split_last().filter(|it| it.0.role == "user") else {
        let role = messages.last().map_or("none", |it| it.role.as_str());
        return Err(Problem::bad(format!("the role of the last message must be `user`, and is `{role}`"))
            .next("Send the whole conversation, with the person's words last."));
    };
    let mut all: Vec<Compared> = earlier.iter().map(compared).collect();
    let with_usage = stream_options.and_then(|it| it.include_usage).unwrap_or_default();
    let streams = stream.unwrap_or_default();
    let mut next = Prompt::new(last.content.text());
    next.attachments = last.content.pictures()?;
    // For a session that has not heard the earlier messages.
    let mut first = next.clone();
    if !all.is_empty() {
        let text: Vec<String> = all.iter().map(|(role, text, _)| format!("{role}:\n{text}")).collect();
        let name = "the conversation so far".to_owned();
        first.attachments.push(Attachment::Text { name, text: text.join("\n\n") });
    }
    let server = call.server.clone();
    let beginning = if call.given_key()?.is_some() { Some(server.beginning.lock().await) } else { None };
    if let Some(turn) = Turn::earlier(&call, &workspace, &[next.clone(), first.clone()]).await? {
        drop(beginning);
        let session = turn.session().to_owned();
        let answering = Answering { call, workspace, session, model: name, said: all, turn };
        return if streams { Ok(answering.stream(with_usage)) } else { answering.whole().await };
    }
    let known = known(&call, &workspace, &hash(&call.who.name, &name, &all)).await?;
    let (session, prompt) = match known {
        Some(session) => (session, next),
        None => (new_session(&call, &workspace, profile).await?, first),
    };
    all.push(compared(last));
    let turn = Turn::begin(&call, &workspace, &session, prompt).await?;
    let answering = Answering { call, workspace, session, model: name, said: all, turn };
    drop(beginning);
    if streams { Ok(answering.stream(with_usage)) } else { answering.whole().await }
}

/// A turn whose text is the answer.
struct Answering {
    call: Call,
    workspace: Arc<Workspace>,
    session: String,
    model: String,
    said: Vec<Compared>,
    turn: Turn,
}

impl Answering {
    fn id(&self) -> String {
        format!("chatcmpl-{}.{}", self.session, self.turn.key)
    }

    /// Remembers that the session has said this.
    async fn remember(&mut self, text: String) {
        // Since an earlier request with this key the conversation may have gone on.
        if self.turn.is_again {
            return;
        }
        self.said.push(("assistant".to_owned(), text, Vec::new()));
        let turn = newest_turn(&self.workspace, &self.session).await.unwrap_or_default();
        let mut all = self.call.server.conversations.lock();
        all.push_back(Conversation {
            hash: hash(&self.call.who.name, &self.model, &self.said),
            workspace: self.workspace.id.clone(),
            session: self.session.clone(),
            turn,
        });
        while all.len() > REMEMBERED {
            all.pop_front();
        }
    }

    async fn whole(mut self) -> Done {
        let mut text = String::new();
        let end = loop {
            match self.turn.next().await? {
                Piece::Text(more) => text.push_str(&more),
                Piece::End(end) => break end,
            }
        };
        if let Some(fault) = failure(&end) {
            return Err(fault.into());
        }
        let answer = json!({
            "id": self.id(),
            "object": "chat.completion",
            "created": now_ms() / 1000,
            "model": self.model,
            "choices": [{
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "finish_reason": reason(&end),
            }],
            "usage": usage(&end),
        });
        self.remember(text).await;
        Ok(Answer::ok(&answer))
    }

    fn stream(mut self, with_usage: bool) -> Answer {
        let (sender, receiver) = mpsc::channel(16);
        tokio::spawn(async move {
            let ended = self.call.server.closing.clone();
            tokio::select! {
                () = self.write(&sender, with_usage) => {}
                () = sender.closed() => {}
                () = ended.cancelled() => {}
            }
        });
        Answer::written("text/event-stream", receiver)
    }

    async fn write(&mut self, sender: &mpsc::Sender<bytes::Bytes>, with_usage: bool) {
        let (id, model, created) = (self.id(), self.model.clone(), now_ms() / 1000);
        let chunk = |choices: Value, usage: Value| {
            let mut value = json!({"id": id, "object": "chat.completion.chunk", "created": created, "model": model, "choices": choices});
            if let (true, Some(fields)) = (with_usage, value.as_object_mut()) {
                fields.insert("usage".to_owned(), usage);
            }
            format!("data: {value}\n\n")
        };
        let delta = |delta: Value, why: Value| {
            chunk(json!([{"index": 0, "delta": delta, "finish_reason": why}]), Value::Null)
        };
        let mut next = delta(json!({"role": "assistant", "content": ""}), Value::Null);
        let mut text = String::new();
        loop {
            if sender.send(next.into()).await.is_err() {
                return;
            }
            next = match self.turn.next().await {
                Ok(Piece::Text(more)) => {
                    text.push_str(&more);
                    delta(json!({"content": more}), Value::Null)
                }
                Ok(Piece::End(end)) => {
                    let last = match failure(&end) {
                        Some(fault) => error(&fault),
                        None => {
                            let usage =
                                if with_usage { chunk(json!([]), usage(&end)) } else { String::new() };
                            format!("{}{usage}", delta(json!({}), reason(&end).into()))
                        }
                    };
                    self.remember(text).await;
                    let _ = sender.send(format!("{last}data: [DONE]\n\n").into()).await;
                    return;
                }
                Err(fault) => {
                    let _ = sender.send(format!("{}data: [DONE]\n\n", error(&fault)).into()).await;
                    return;
                }
            };
        }
    }
}

fn error(fault: &kit::Fault) -> String {
    let value = json!({"error": {"message": fault.as_text(), "type": "server_error", "code": fault.kind}});
    format!("data: {value}\n\n")
}

fn reason(end: &TurnEnd) -> &'static str {
    match end.ended.as_str() {
        "limit" => "length",
        "refused" => "content_filter",
        _ => "stop",
    }
}

fn usage(end: &TurnEnd) -> Value {
    let (input, output) = (end.usage.request(), end.usage.output);
    json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output})
}

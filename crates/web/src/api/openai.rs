//! OpenAI's chat completions: a client of that API is a front end of haft. A model is a profile, a conversation a session.
//!
//! The API has no conversations, only messages that the client sends again each time. So the session is the one of the same
//! person whose newest messages are these (`conversations.rs`), and gets the last one; any other conversation begins a session,
//! with the earlier messages in its first prompt (`messages.rs`).

use std::sync::Arc;

use bytes::Bytes;
use kit::Fault;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use sessions::{Event, Operation, Prompt, TurnEnd};
use tokio::{sync::mpsc, time::timeout};

use super::{
    completion::{Completion, DONE, LAST_EVENT, error},
    messages::{Conversation, Last, Message, compared},
    plain_text,
    turn::{Begins, Piece, Texts, Turn, failure, next, server_ends},
};
use crate::{
    access::secret,
    answer::Answer,
    call::{Call, Done},
    conversations::{self, Compared, History, hash},
    problem::Problem,
    workspaces::{Workspace, blocking},
};

/// The model without a profile.
const PLAIN: &str = "haft";

/// The model without tools and sessions.
const TEXT: &str = "haft-text";

/// The request of a chat completion. Fields that are not here have no effect.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Chat {
    /// `haft`, `haft-text`, or the name of a profile.
    model: String,
    /// The conversation. The last message is the person's, or an answer that is to be continued.
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

/// The way in which a model of the list answers.
#[derive(Clone)]
pub(super) enum Answers {
    /// A turn of the agent, with this profile.
    Agent(Option<String>),
    /// The configured model alone.
    Text,
}

/// A profile of a workspace, as a model.
struct Named {
    name: String,
    /// The same with the workspace's id, by which it is found too.
    by_id: String,
    workspace: Arc<Workspace>,
    answers: Answers,
}

/// Returns the models: `haft`, `haft-text` and the profiles. Those of another workspace have its name before; where an earlier one has
/// that name, its id.
async fn names(call: &Call) -> Result<Vec<Named>, Problem> {
    let (mut all, mut places) = (Vec::new(), vec![String::new()]);
    for (at, workspace) in call.server.workspaces.all().into_iter().enumerate() {
        let of = workspace.clone();
        let profiles = blocking(move || Ok(of.agents.profiles())).await?;
        let by_id = format!("{}/", workspace.id);
        let place = if at == 0 { String::new() } else { format!("{}/", workspace.name()) };
        let place = if at > 0 && places.contains(&place) { by_id.clone() } else { place };
        let own = [(PLAIN.to_owned(), Answers::Agent(None)), (TEXT.to_owned(), Answers::Text)];
        let profiles = profiles.into_iter().map(|it| (it.clone(), Answers::Agent(Some(it))));
        for (it, answers) in own.into_iter().chain(profiles) {
            let (name, by_id) = (format!("{place}{it}"), format!("{by_id}{it}"));
            all.push(Named { name, by_id, workspace: workspace.clone(), answers });
        }
        places.push(place);
    }
    Ok(all)
}

/// Returns the workspace of a model, and how it answers.
pub(super) async fn model(call: &Call, name: &str) -> Result<(Arc<Workspace>, Answers), Problem> {
    let all = names(call).await?;
    let found = all.iter().find(|it| it.name == name).or_else(|| all.iter().find(|it| it.by_id == name));
    let found = found.ok_or_else(|| {
        Problem::missing(format!("there is no model `{name}`")).next("GET /v1/models lists them.")
    })?;
    Ok((found.workspace.clone(), found.answers.clone()))
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

/// Begins the first turn of a session. The title is the person's last words, also where others come before them in the prompt.
pub(super) async fn begin_first(
    call: &Call,
    workspace: &Arc<Workspace>,
    session: &str,
    prompt: Prompt,
    words: &str,
) -> Result<Turn, Problem> {
    let is_more = prompt.text != words;
    let turn = Turn::begin(call, workspace, session, prompt).await?;
    if is_more {
        workspace.sessions.rename(session, words).await?;
    }
    Ok(turn)
}

/// Returns the number of the row with which the newest turn of a session began.
async fn newest_turn(workspace: &Arc<Workspace>, session: &str) -> Result<Option<u64>, Fault> {
    let (store, name) = (workspace.runtime.store().clone(), session.to_owned());
    blocking(move || store.events().newest(&name, "turn_began")).await
}

/// Takes the session with this history, if it has no newer turn.
async fn take(
    call: &Call,
    workspace: &Arc<Workspace>,
    history: &History,
) -> Result<Option<conversations::Conversation>, Fault> {
    let all = &call.server.conversations;
    for found in all.like(history).into_iter().filter(|it| it.workspace == workspace.id) {
        if newest_turn(workspace, &found.session).await? != Some(found.turn) {
            continue;
        }
        let is_it = found.has_same_user(history) || {
            let rows = workspace.sessions.rows(&found.session, found.turn.saturating_sub(1)).await?;
            let began = rows.first().map(|it| &it.event);
            matches!(began, Some(Event::TurnBegan { text, .. }) if history.is_wrapped_in(text))
        };
        if is_it && all.take(&found) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

pub(crate) async fn chat(mut call: Call) -> Done {
    let Chat { model: name, messages, stream, stream_options } = call.json().await?;
    let with_usage = stream_options.and_then(|it| it.include_usage).unwrap_or_default();
    let streams = stream.unwrap_or_default();
    let (workspace, answers) = model(&call, &name).await?;
    let conversation = Conversation::of(&messages)?;
    let profile = match answers {
        Answers::Agent(profile) => profile,
        Answers::Text => {
            let completion = Completion::new(format!("chatcmpl-{}", secret()?), &name, with_usage);
            return plain_text::answer(call, &workspace, &messages, completion, streams).await;
        }
    };
    let given = conversation.instructions();
    let prompts = [
        conversation.next_prompt("")?,
        conversation.next_prompt(&given)?,
        conversation.first_prompt(&given)?,
    ];
    let scope = json!([call.who.name, workspace.id, profile]).to_string();
    let before = History::of(&scope, &conversation.compared());
    let server = call.server.clone();
    let beginning = if call.given_key()?.is_some() { Some(server.beginning.lock().await) } else { None };
    let (turn, taken) = match Turn::earlier(&call, &workspace, &prompts).await? {
        Some(turn) => (turn, None),
        None => {
            let taken = match &before {
                Some(before) => take(&call, &workspace, before).await?,
                None => None,
            };
            let turn = begin(&call, &workspace, profile, &conversation, prompts, taken.as_ref()).await;
            if let (Err(_), Some(taken)) = (&turn, &taken) {
                call.server.conversations.remember(taken.clone());
            }
            (turn?, taken)
        }
    };
    drop(beginning);
    let completion = Completion::new(format!("chatcmpl-{}.{}", turn.session(), turn.key), &name, with_usage);
    let (mut all, mut partial) = (conversation.compared(), String::new());
    match conversation.last {
        Last::Words(last) => all.extend(compared(last)),
        Last::Answer(_) => partial = all.pop().map(|it| it.text).unwrap_or_default(),
    }
    let memory = Memory { scope, before, compared: all, partial, taken, instructions: hash(&given) };
    let texts = Texts::default();
    let answering = Answering { call, workspace, completion, memory, turn, texts, is_remembered: false };
    if streams { Ok(answering.stream()) } else { answering.whole().await }
}

/// Begins the turn, in the session that was taken or a new one.
async fn begin(
    call: &Call,
    workspace: &Arc<Workspace>,
    profile: Option<String>,
    conversation: &Conversation<'_>,
    [next, with_instructions, first]: [Prompt; 3],
    taken: Option<&conversations::Conversation>,
) -> Result<Turn, Problem> {
    let Some(taken) = taken else {
        let session = new_session(call, workspace, profile).await?;
        return begin_first(call, workspace, &session, first, &conversation.words()).await;
    };
    let is_same = taken.instructions == hash(&conversation.instructions());
    Turn::begin(call, workspace, &taken.session, if is_same { next } else { with_instructions }).await
}

/// The conversation of a request, for the requests that come after it.
struct Memory {
    scope: String,
    /// The conversation before this request.
    before: Option<History>,
    /// The conversation up to the answer.
    compared: Vec<Compared>,
    /// The beginning of the answer, which an earlier request had.
    partial: String,
    /// The session as it was taken.
    taken: Option<conversations::Conversation>,
    /// The hash of the instructions.
    instructions: String,
}

/// How far the answer came.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Came {
    Whole,
    /// The client left.
    Cut,
    /// It failed: the client may send the same request again.
    Failed,
}

/// A turn whose text is the answer.
struct Answering {
    call: Call,
    workspace: Arc<Workspace>,
    completion: Completion,
    memory: Memory,
    turn: Turn,
    texts: Texts,
    is_remembered: bool,
}

impl Drop for Answering {
    /// The client left before a whole answer, or the server ends: the same request may come again.
    fn drop(&mut self) {
        if !self.turn.goes_on() {
            self.remember(Came::Failed);
        }
    }
}

impl Answering {
    /// Remembers what the session has by now, once.
    fn remember(&mut self, came: Came) {
        // Since an earlier request with this key the conversation may have gone on.
        if self.turn.is_again || std::mem::replace(&mut self.is_remembered, true) {
            return;
        }
        let all = &self.call.server.conversations;
        let Some(turn) = self.turn.began() else {
            self.memory.taken.take().into_iter().for_each(|it| all.remember(it));
            return;
        };
        let text = format!("{}{}", self.memory.partial, self.texts.all());
        if !text.trim().is_empty() {
            self.memory.compared.push(Compared { is_answer: true, text, pictures: Vec::new() });
        }
        let now = History::of(&self.memory.scope, &self.memory.compared);
        let again = self.memory.before.take().filter(|_| came == Came::Failed);
        for (history, is_cut) in [(again, false), (now, came != Came::Whole)] {
            let Some(history) = history else { continue };
            let place = (self.workspace.id.as_str(), self.turn.session());
            let instructions = &self.memory.instructions;
            all.remember(conversations::Conversation::new(&history, is_cut, place, turn, instructions));
        }
    }

    async fn whole(mut self) -> Done {
        let closing = self.call.server.closing.clone();
        let end = tokio::select! {
            end = self.end() => end,
            () = closing.cancelled() => Err(server_ends()),
        };
        let end = end.and_then(|end| match failure(&end) {
            Some(fault) => Err(fault),
            None => Ok(end),
        });
        self.remember(if end.is_ok() { Came::Whole } else { Came::Failed });
        let end = end?;
        Ok(Answer::ok(&self.completion.whole(self.texts.all(), reason(&end), &end.usage)))
    }

    /// Reads the turn to its end.
    async fn end(&mut self) -> Result<TurnEnd, Fault> {
        loop {
            match self.turn.next().await? {
                Piece::Text(more, begins) => drop(self.texts.add(&more, begins)),
                Piece::Again => self.texts.discard(),
                Piece::Waits(_) => {}
                Piece::End(end) => return Ok(*end),
            }
        }
    }

    fn stream(mut self) -> Answer {
        let (sender, receiver) = mpsc::channel(16);
        tokio::spawn(async move {
            let closing = self.call.server.closing.clone();
            tokio::select! {
                () = self.write(&sender) => return,
                () = sender.closed() => {}
                () = closing.cancelled() => {
                    let _ = timeout(LAST_EVENT, sender.send(error(&server_ends()).into())).await;
                    return;
                }
            }
            // Sent again with its key, the request gets the whole answer.
            if self.turn.goes_on() {
                tokio::select! {
                    end = self.end() => {
                        let is_whole = end.is_ok_and(|it| failure(&it).is_none());
                        self.remember(if is_whole { Came::Whole } else { Came::Failed });
                    }
                    () = closing.cancelled() => {}
                }
            } else {
                self.remember(Came::Cut);
            }
        });
        Answer::written("text/event-stream", receiver)
    }

    async fn write(&mut self, sender: &mpsc::Sender<Bytes>) {
        let silence = self.call.server.silence / 4;
        let mut chunk = self.completion.first();
        loop {
            if sender.send(chunk.into()).await.is_err() {
                // The sender is closed, which `stream` notices.
                return std::future::pending().await;
            }
            let end = match next(&mut self.turn, sender, silence).await {
                Ok(Piece::Text(more, begins)) => {
                    chunk = self.completion.text(&self.texts.add(&more, begins));
                    continue;
                }
                Ok(Piece::Waits(line)) => {
                    let line = format!("> haft: {line}\n\n");
                    chunk = self.completion.text(&self.texts.add(&line, Begins::Text));
                    continue;
                }
                // The client has the text by now.
                Ok(Piece::Again) => {
                    chunk = ": the model begins this answer anew\n\n".to_owned();
                    continue;
                }
                Ok(Piece::End(end)) => match failure(&end) {
                    Some(fault) => Err(fault),
                    None => Ok(end),
                },
                Err(fault) => Err(fault),
            };
            self.remember(if end.is_ok() { Came::Whole } else { Came::Failed });
            let last = match end {
                Ok(end) => format!("{}{DONE}", self.completion.last(reason(&end), &end.usage)),
                Err(fault) => error(&fault),
            };
            let _ = sender.send(last.into()).await;
            return;
        }
    }
}

fn reason(end: &TurnEnd) -> &'static str {
    match end.ended.as_str() {
        "limit" => "length",
        "refused" => "content_filter",
        _ => "stop",
    }
}

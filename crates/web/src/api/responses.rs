//! OpenAI's responses: like chat completions, but the client names the answer that it goes on from, and so the session.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use kit::Fault;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use sessions::{Prompt, TurnEnd};
use tokio::{sync::mpsc, time::timeout};

use super::{
    completion::LAST_EVENT,
    messages::{Content, Conversation, Last, Message},
    openai::{Answers, begin_first, model, new_session},
    turn::{Begins, Piece, Texts, Turn, failure, next, server_ends},
};
use crate::{
    access::now_ms,
    answer::Answer,
    call::{Call, Done},
    problem::Problem,
    workspaces::Workspace,
};

/// The request of a response. Fields that are not here have no effect.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Asked {
    /// `haft`, or the name of a profile.
    model: String,
    /// The person's words, or messages of which the last is the person's.
    input: Input,
    /// Instructions, for a session that begins. They are the person's words.
    instructions: Option<String>,
    /// The id of the response that this goes on from.
    previous_response_id: Option<String>,
    /// Whether the answer comes in pieces.
    #[serde(default)]
    stream: bool,
}

/// A text, or messages.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum Input {
    Text(String),
    Messages(Vec<Message>),
}

pub(crate) async fn respond(mut call: Call) -> Done {
    let Asked { model: name, input, instructions, previous_response_id, stream } = call.json().await?;
    let (workspace, answers) = model(&call, &name).await?;
    let Answers::Agent(profile) = answers else {
        return Err(Problem::bad(format!("`{name}` answers chat completions alone"))
            .next("Send it to /v1/chat/completions, or use the model `haft`."));
    };
    let messages = input.messages();
    let conversation = Conversation::of(&messages)?;
    let Last::Words(last) = conversation.last else {
        return Err(Problem::bad("the last message of `input` must be one of the role `user`")
            .next("Send the person's words last, or `input` as a text."));
    };
    let mut given = conversation.instructions();
    let (workspace, previous) = match &previous_response_id {
        Some(id) => {
            let session = id.strip_prefix("resp_").and_then(|it| it.rsplit_once('.')).map(|it| it.0);
            let session = session.ok_or_else(|| {
                Problem::missing(format!("there is no response `{id}`")).next(
                    "`previous_response_id` is the `id` of an earlier response; leave it out to begin anew.",
                )
            })?;
            let workspace: Arc<Workspace> = call.server.workspaces.of_session(session, None).await?;
            (workspace, Some(session.to_owned()))
        }
        None => {
            given = [instructions.unwrap_or_default(), given].join("\n\n").trim().to_owned();
            (workspace, None)
        }
    };
    let prompt: Prompt = conversation.first_prompt(&given)?;
    let server = call.server.clone();
    let beginning = if call.given_key()?.is_some() { Some(server.beginning.lock().await) } else { None };
    if let Some(turn) = Turn::earlier(&call, &workspace, std::slice::from_ref(&prompt)).await? {
        drop(beginning);
        let id = format!("resp_{}.{}", turn.session(), turn.key);
        let response = Response { id, model: name, created: now_ms() / 1000, previous: previous_response_id };
        return if stream { Ok(streamed(call, response, turn)) } else { whole(&call, &response, turn).await };
    }
    let turn = match previous {
        Some(session) => Turn::begin(&call, &workspace, &session, prompt).await?,
        None => {
            let session = new_session(&call, &workspace, profile).await?;
            begin_first(&call, &workspace, &session, prompt, &last.content.text()).await?
        }
    };
    drop(beginning);
    let id = format!("resp_{}.{}", turn.session(), turn.key);
    let created = now_ms() / 1000;
    let response = Response { id, model: name, created, previous: previous_response_id };
    if stream { Ok(streamed(call, response, turn)) } else { whole(&call, &response, turn).await }
}

impl Input {
    fn messages(self) -> Vec<Message> {
        match self {
            Self::Text(text) => vec![Message { role: "user".to_owned(), content: Content::Text(text) }],
            Self::Messages(messages) => messages,
        }
    }
}

/// The parts of a response that are known from its beginning.
struct Response {
    id: String,
    model: String,
    created: u64,
    previous: Option<String>,
}

impl Response {
    fn json(&self, status: &str, output: &Value, end: Option<&TurnEnd>) -> Value {
        let usage = end.map(|end| {
            let (input, output) = (end.usage.request(), end.usage.output);
            json!({
                "input_tokens": input, "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": output, "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": input + output,
            })
        });
        let error = end.and_then(failure).map(|it| json!({"code": "server_error", "message": it.as_text()}));
        json!({
            "id": self.id, "object": "response", "created_at": self.created, "status": status, "model": self.model,
            "previous_response_id": self.previous, "output": output, "usage": usage, "error": error,
            "incomplete_details": null, "instructions": null, "metadata": {}, "parallel_tool_calls": true,
            "tool_choice": "auto", "tools": [], "temperature": null, "top_p": null,
        })
    }

    fn message(&self, status: &str, text: Option<&str>) -> Value {
        let content: Vec<Value> = text.map(part).into_iter().collect();
        json!({"id": self.item(), "type": "message", "role": "assistant", "status": status, "content": content})
    }

    fn item(&self) -> String {
        format!("msg_{}", self.id)
    }
}

fn part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": []})
}

async fn whole(call: &Call, response: &Response, mut turn: Turn) -> Done {
    let mut texts = Texts::default();
    let read = async {
        loop {
            match turn.next().await? {
                Piece::Text(more, begins) => drop(texts.add(&more, begins)),
                Piece::Again => texts.discard(),
                Piece::Waits(_) => {}
                Piece::End(end) => return Ok::<_, Fault>(end),
            }
        }
    };
    let end = tokio::select! {
        end = read => end?,
        () = call.server.closing.cancelled() => return Err(server_ends().into()),
    };
    if let Some(fault) = failure(&end) {
        return Err(fault.into());
    }
    let output = json!([response.message("completed", Some(texts.all()))]);
    Ok(Answer::ok(&response.json("completed", &output, Some(&end))))
}

fn streamed(call: Call, response: Response, mut turn: Turn) -> Answer {
    let (sender, receiver) = mpsc::channel(16);
    tokio::spawn(async move {
        let (closing, silence) = (call.server.closing.clone(), call.server.silence / 4);
        let mut out = Numbered { sender: &sender, next: 0, silence };
        tokio::select! {
            // A client that has gone needs no end.
            _ = events(&response, &mut turn, &mut out) => return,
            () = sender.closed() => return,
            () = closing.cancelled() => {}
        }
        let _ = timeout(LAST_EVENT, out.error(&server_ends())).await;
    });
    Answer::written("text/event-stream", receiver)
}

/// Events with their numbers.
struct Numbered<'a> {
    sender: &'a mpsc::Sender<Bytes>,
    next: u64,
    /// After so long without a piece a comment is sent.
    silence: Duration,
}

impl Numbered<'_> {
    /// Sends an event. Gives nothing, where the client has gone.
    async fn send(&mut self, kind: &str, mut event: Value) -> Option<()> {
        if let Some(fields) = event.as_object_mut() {
            fields.insert("type".to_owned(), kind.into());
            fields.insert("sequence_number".to_owned(), self.next.into());
        }
        self.next += 1;
        self.sender.send(format!("event: {kind}\ndata: {event}\n\n").into()).await.ok()
    }

    async fn error(&mut self, fault: &Fault) -> Option<()> {
        self.send("error", json!({"code": fault.kind, "message": fault.as_text(), "param": null})).await
    }
}

async fn events(response: &Response, turn: &mut Turn, out: &mut Numbered<'_>) -> Option<()> {
    let (item, at) = (response.item(), json!({"output_index": 0, "content_index": 0}));
    let with = |more: Value| {
        let mut value = at.clone();
        if let (Some(fields), Value::Object(more)) = (value.as_object_mut(), more) {
            fields.insert("item_id".to_owned(), item.clone().into());
            fields.extend(more);
        }
        value
    };
    let begun = response.json("in_progress", &json!([]), None);
    out.send("response.created", json!({"response": begun})).await?;
    out.send("response.in_progress", json!({"response": begun})).await?;
    let added = json!({"output_index": 0, "item": response.message("in_progress", None)});
    out.send("response.output_item.added", added).await?;
    out.send("response.content_part.added", with(json!({"part": part("")}))).await?;
    let mut texts = Texts::default();
    let end = loop {
        let more = match next(turn, out.sender, out.silence).await {
            Ok(Piece::Text(more, begins)) => texts.add(&more, begins),
            Ok(Piece::Waits(line)) => texts.add(&format!("> haft: {line}\n\n"), Begins::Text),
            // The client has the text by now.
            Ok(Piece::Again) => continue,
            Ok(Piece::End(end)) => break end,
            Err(fault) => return out.error(&fault).await,
        };
        out.send("response.output_text.delta", with(json!({"delta": more, "logprobs": []}))).await?;
    };
    let text = texts.all();
    out.send("response.output_text.done", with(json!({"text": text, "logprobs": []}))).await?;
    out.send("response.content_part.done", with(json!({"part": part(text)}))).await?;
    let message = response.message("completed", Some(text));
    out.send("response.output_item.done", json!({"output_index": 0, "item": message})).await?;
    let status = if failure(&end).is_some() { "failed" } else { "completed" };
    let whole = response.json(status, &json!([message]), Some(&end));
    out.send(&format!("response.{status}"), json!({"response": whole})).await
}

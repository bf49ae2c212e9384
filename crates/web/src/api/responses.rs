//! OpenAI's responses: like chat completions, but the client names the answer that it goes on from, and so the session.

use std::sync::Arc;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use sessions::{Attachment, Prompt, TurnEnd};
use tokio::sync::mpsc;

use super::{
    openai::{Message, model, new_session},
    turn::{Piece, Turn, failure},
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
    /// Instructions, for a session that begins.
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
    let (workspace, profile) = model(&call, &name).await?;
    let mut prompt = words(input)?;
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
            if let Some(text) = instructions {
                prompt.attachments.push(Attachment::Text { name: "instructions".to_owned(), text });
            }
            (workspace, None)
        }
    };
    let server = call.server.clone();
    let beginning = if call.given_key()?.is_some() { Some(server.beginning.lock().await) } else { None };
    if let Some(turn) = Turn::earlier(&call, &workspace, std::slice::from_ref(&prompt)).await? {
        drop(beginning);
        let id = format!("resp_{}.{}", turn.session(), turn.key);
        let response = Response { id, model: name, created: now_ms() / 1000, previous: previous_response_id };
        return if stream { Ok(streamed(call, response, turn)) } else { whole(&response, turn).await };
    }
    let session = match previous {
        Some(session) => session,
        None => new_session(&call, &workspace, profile).await?,
    };
    let turn = Turn::begin(&call, &workspace, &session, prompt).await?;
    drop(beginning);
    let id = format!("resp_{session}.{}", turn.key);
    let created = now_ms() / 1000;
    let response = Response { id, model: name, created, previous: previous_response_id };
    if stream { Ok(streamed(call, response, turn)) } else { whole(&response, turn).await }
}

/// Returns the prompt: the last message, and those before it as an attachment.
fn words(input: Input) -> Result<Prompt, Problem> {
    let messages = match input {
        Input::Text(text) => return Ok(Prompt::new(text)),
        Input::Messages(messages) => messages,
    };
    let Some((last, earlier)) = messages.split_last().filter(|it| it.0.role == "user") else {
        return Err(Problem::bad("the last message of `input` must be one of the role `user`")
            .next("Send the person's words last, or `input` as a text."));
    };
    let mut prompt = Prompt::new(last.content.text());
    prompt.attachments = last.content.pictures()?;
    if !earlier.is_empty() {
        let text: Vec<String> =
            earlier.iter().map(|it| format!("{}:\n{}", it.role, it.content.text())).collect();
        let name = "the conversation so far".to_owned();
        prompt.attachments.push(Attachment::Text { name, text: text.join("\n\n") });
    }
    Ok(prompt)
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

async fn whole(response: &Response, mut turn: Turn) -> Done {
    let mut text = String::new();
    let end = loop {
        match turn.next().await? {
            Piece::Text(more) => text.push_str(&more),
            Piece::End(end) => break end,
        }
    };
    if let Some(fault) = failure(&end) {
        return Err(fault.into());
    }
    let output = json!([response.message("completed", Some(&text))]);
    Ok(Answer::ok(&response.json("completed", &output, Some(&end))))
}

fn streamed(call: Call, response: Response, mut turn: Turn) -> Answer {
    let (sender, receiver) = mpsc::channel(16);
    tokio::spawn(async move {
        let ended = call.server.closing.clone();
        tokio::select! {
            () = write(&response, &mut turn, &sender) => {}
            () = sender.closed() => {}
            () = ended.cancelled() => {}
        }
    });
    Answer::written("text/event-stream", receiver)
}

/// Events with their numbers.
struct Numbered<'a> {
    sender: &'a mpsc::Sender<Bytes>,
    next: u64,
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
}

async fn write(response: &Response, turn: &mut Turn, sender: &mpsc::Sender<Bytes>) {
    let mut out = Numbered { sender, next: 0 };
    // A client that has gone needs no end.
    let _ = events(response, turn, &mut out).await;
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
    let mut text = String::new();
    let end = loop {
        match turn.next().await {
            Ok(Piece::Text(more)) => {
                out.send("response.output_text.delta", with(json!({"delta": more, "logprobs": []}))).await?;
                text.push_str(&more);
            }
            Ok(Piece::End(end)) => break end,
            Err(fault) => {
                return out
                    .send("error", json!({"code": fault.kind, "message": fault.as_text(), "param": null}))
                    .await;
            }
        }
    };
    out.send("response.output_text.done", with(json!({"text": text, "logprobs": []}))).await?;
    out.send("response.content_part.done", with(json!({"part": part(&text)}))).await?;
    let message = response.message("completed", Some(&text));
    out.send("response.output_item.done", json!({"output_index": 0, "item": message})).await?;
    let status = if failure(&end).is_some() { "failed" } else { "completed" };
    let whole = response.json(status, &json!([message]), Some(&end));
    out.send(&format!("response.{status}"), json!({"response": whole})).await
}

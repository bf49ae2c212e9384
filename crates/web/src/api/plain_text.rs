//! The model `haft-text`: the configured model answers the client's messages and nothing else. It has no tools, no approvals and no
//! session: it is for what programs ask beside a conversation, such as a title for it.

use std::sync::Arc;

use agent::model::{self, Events, Item, MessagePart, ModelError, Piece, Request, Usage, Why};
use bytes::Bytes;
use futures_util::StreamExt as _;
use kit::{Fault, Kind};
use tokio::{sync::mpsc, time::timeout};

use super::{
    completion::{Completion, DONE, LAST_EVENT, error},
    messages::Message,
    turn::{server_ends, without_help},
};
use crate::{
    answer::Answer,
    call::{Call, Done},
    problem::Problem,
    workspaces::{Workspace, blocking},
};

/// Answers with the text of the configured model.
pub(super) async fn answer(
    call: Call,
    workspace: &Arc<Workspace>,
    messages: &[Message],
    completion: Completion,
    streams: bool,
) -> Done {
    let (system, items) = items(workspace, messages)?;
    let of = workspace.clone();
    let model = blocking(move || of.agents.text_model()).await?;
    let step = items.iter().filter(|it| matches!(it, Item::Model { .. })).count();
    let request =
        Request { system: system.into(), items, tools: Arc::default(), step, longest: None, format: None };
    let events = model::ask(&*model, request);
    if streams {
        return Ok(stream(call, events, completion));
    }
    let closing = call.server.closing.clone();
    let read = async {
        let (mut reading, mut text) = (Reading { events, usage: Usage::default() }, String::new());
        loop {
            match reading.next().await? {
                Part::Text(more) => text.push_str(&more),
                Part::End(why) => return Ok::<_, Fault>((text, why, reading.usage)),
            }
        }
    };
    let (text, why, usage) = tokio::select! {
        read = read => read?,
        () = closing.cancelled() => return Err(server_ends().into()),
    };
    Ok(Answer::ok(&completion.whole(&text, reason(why), &usage)))
}

/// Returns the system prompt and the conversation, as the model gets them: neighbours of one role are one message.
fn items(workspace: &Workspace, messages: &[Message]) -> Result<(String, Vec<Item>), Problem> {
    let (mut system, mut items) = (Vec::new(), Vec::new());
    for message in messages {
        if message.content.has_pictures() {
            return Err(Problem::bad("`haft-text` takes texts alone, and there is a picture")
                .next("Leave the picture out, or use the model `haft`."));
        }
        let text = workspace.runtime.masked(&message.content.text()).into_owned();
        match (message.role.as_str(), items.last_mut()) {
            _ if text.trim().is_empty() => {}
            ("system" | "developer", _) => system.push(text),
            ("user", Some(Item::Person { pieces })) => pieces.push(Piece::text(text)),
            ("user", _) => items.push(Item::person(text)),
            ("assistant", Some(Item::Model { said })) => said.push(MessagePart::Text { text }),
            ("assistant", _) => items.push(Item::Model { said: vec![MessagePart::Text { text }] }),
            (role, _) => {
                return Err(Problem::bad(format!("`haft-text` takes no messages of the role `{role}`"))
                    .next("Send messages of `system`, `user` and `assistant`."));
            }
        }
    }
    if !matches!(items.last(), Some(Item::Person { .. })) {
        return Err(
            Problem::bad("`haft-text` continues no answers").next("Send a message of the role `user` last.")
        );
    }
    Ok((system.join("\n\n"), items))
}

/// An answer that is read.
struct Reading {
    events: Events,
    usage: Usage,
}

/// A part of it.
enum Part {
    Text(String),
    End(Why),
}

impl Reading {
    async fn next(&mut self) -> Result<Part, Fault> {
        while let Some(event) = self.events.next().await {
            match event.map_err(fault)? {
                model::Event::Text(more) => return Ok(Part::Text(more)),
                model::Event::Used(used) => self.usage += used,
                model::Event::End(why) => return Ok(Part::End(why)),
                _ => {}
            }
        }
        Err(Fault::new(Kind::Unavailable, "the answer of the model ended without its last part"))
    }
}

fn stream(call: Call, events: Events, completion: Completion) -> Answer {
    let (sender, receiver) = mpsc::channel::<Bytes>(16);
    tokio::spawn(async move {
        let closing = call.server.closing.clone();
        tokio::select! {
            () = write(events, &completion, &sender) => {}
            () = sender.closed() => {}
            () = closing.cancelled() => {
                let _ = timeout(LAST_EVENT, sender.send(error(&server_ends()).into())).await;
            }
        }
    });
    Answer::written("text/event-stream", receiver)
}

/// Sends the chunks of an answer. Where its client has gone, the caller ends it.
async fn write(events: Events, completion: &Completion, sender: &mpsc::Sender<Bytes>) {
    let mut reading = Reading { events, usage: Usage::default() };
    let mut chunk = completion.first();
    loop {
        let _ = sender.send(chunk.into()).await;
        let last = match reading.next().await {
            Ok(Part::Text(more)) => {
                chunk = completion.text(&more);
                continue;
            }
            Ok(Part::End(why)) => format!("{}{DONE}", completion.last(reason(why), &reading.usage)),
            Err(fault) => error(&fault),
        };
        let _ = sender.send(last.into()).await;
        return;
    }
}

fn fault(error: ModelError) -> Fault {
    let fault = Fault::new(Kind::Unavailable, error.what);
    match error.next.or_else(|| without_help(error.breach.name()).map(str::to_owned)) {
        Some(next) => fault.next(next),
        None => fault,
    }
}

fn reason(why: Why) -> &'static str {
    match why {
        Why::Length => "length",
        Why::Refused => "content_filter",
        _ => "stop",
    }
}

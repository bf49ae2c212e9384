//! One turn: what an editor sends as a prompt becomes an operation on the session, and its outcome a stop reason.

use std::{path::Path, pin::pin, time::Duration};

use agent::{Bounds, Ended, model::Breach};
use kit::{Fault, Kind, base64, text::Text};
use serde_json::Value;
use serve::acp::{
    error_of,
    v1::{
        ContentBlock, ContentChunk, EmbeddedResourceResource, Error, MessageId, SessionUpdate, StopReason,
        TextContent,
    },
};
use sessions::{Attachment, Operation, Prompt, TurnEnd};
use tokio::sync::MutexGuard;
use tokio_util::sync::CancellationToken;

use super::{
    auth,
    commands::{self, Asked},
    session::AcpSession,
};
use crate::{
    client_roots::decoded as percent_decoded,
    slash::All,
    verbs::chat::elsewhere::{self, Work},
};

/// The command that writes a file, which is where haft runs.
pub(super) const EXPORT: &str = "/export";

/// How often a turn is stopped again that has only just begun.
const AGAIN: Duration = Duration::from_millis(10);

impl AcpSession {
    /// Takes a turn: after those that wait already.
    pub(super) async fn take_turn(
        &self,
        blocks: Vec<ContentBlock>,
        stop: &CancellationToken,
    ) -> Result<StopReason, Error> {
        let mut arriving = Some(self.arriving.lock().await);
        let prompt = read(blocks, self.cwd()).map_err(|fault| error_of(&fault))?;
        let operations = match self.work(prompt).await.map_err(|fault| error_of(&fault))? {
            Work::Operations(operations) => operations,
            Work::Text(text) => {
                drop(arriving);
                self.answers(&text).await;
                return Ok(StopReason::EndTurn);
            }
        };
        let mut reason = StopReason::EndTurn;
        for operation in operations {
            reason = self.operate(operation, stop, arriving.take()).await?;
            if reason != StopReason::EndTurn {
                break;
            }
        }
        Ok(reason)
    }

    async fn operate(
        &self,
        operation: Operation,
        stop: &CancellationToken,
        arriving: Option<MutexGuard<'_, ()>>,
    ) -> Result<StopReason, Error> {
        let is_prompt = matches!(operation, Operation::Prompt(_));
        let key = self.new_key();
        self.own.lock().insert(key.clone());
        let done = self.until_done(&key, operation.clone(), stop, arriving).await;
        self.own.lock().remove(&key);
        let Some(done) = done else { return Ok(StopReason::Cancelled) };
        let value = done.map_err(|fault| error_of(&fault))?;
        if let Some(text) = elsewhere::reported(&operation, &value) {
            self.answers(&text).await;
        }
        if !is_prompt {
            // Its row has told what was done.
            return Ok(StopReason::EndTurn);
        }
        let end: TurnEnd = serde_json::from_value(value)
            .map_err(|error| error_of(&Fault::bug(format!("the end of a turn can't be read: {error}"))))?;
        reason_of(end, &self.factory().bounds())
    }

    /// Returns what a prompt asks for: a slash command of the chat becomes operations, and all else a turn.
    async fn work(&self, prompt: Prompt) -> Result<Work, Fault> {
        let is_here = self.here().is_some();
        if prompt.text.starts_with('/') {
            let all = All::read(&self.factory().opened);
            let is_hosted = self.is_hosted();
            match commands::asked(&all, &prompt.text)? {
                Asked::Chat(EXPORT, _) if is_hosted => {
                    let what = format!("`{EXPORT}` would write a file where the server is");
                    return Err(
                        Fault::denied(what).next("The page of `haft serve` saves a session as one page.")
                    );
                }
                Asked::File(..) if is_hosted => {
                    let name = prompt.text.split_whitespace().next().unwrap_or_default();
                    let what = format!("`{name}` is a command from a file, which this server does not run");
                    return Err(Fault::new(Kind::Unavailable, what).next("Write what is to be done."));
                }
                Asked::Chat(name, given) if !(is_here && commands::runs_in_turn(name)) => {
                    return elsewhere::work(&self.handle, self.runtime(), name, given).await;
                }
                Asked::File(..) if !is_here => {
                    let there = self.there.lock();
                    let name = prompt.text.split_whitespace().next().unwrap_or_default();
                    let what = format!(
                        "`{name}` works only in process {} ({}), which runs this session",
                        there.pid, there.by
                    );
                    return Err(Fault::new(Kind::Unavailable, what)
                        .next("Type it there, or write what is to be done."));
                }
                _ => {}
            }
        }
        Ok(Work::Operations(vec![Operation::Prompt(prompt)]))
    }

    /// Sends the answer of a command, which is in no row.
    async fn answers(&self, text: &str) {
        let text = ContentBlock::Text(TextContent::new(format!("```\n{text}\n```")));
        let chunk = ContentChunk::new(text).message_id(MessageId::from(self.new_key()));
        self.shared.editor.update(&self.id, SessionUpdate::AgentMessageChunk(chunk)).await;
    }

    /// Does an operation, unless it is cancelled before it begins. The next prompt may arrive once this one is on the disk.
    async fn until_done(
        &self,
        key: &str,
        operation: Operation,
        stop: &CancellationToken,
        arriving: Option<MutexGuard<'_, ()>>,
    ) -> Option<Result<Value, Fault>> {
        let mut doing = pin!(async {
            if let Some(result) = self.handle.post(key, operation.clone()).await? {
                return Ok(result);
            }
            drop(arriving);
            self.handle.act(key, operation).await
        });
        tokio::select! {
            biased;
            done = &mut doing => return Some(done),
            () = stop.cancelled() => {}
        }
        // A turn that has begun ends by itself, within 200 ms. One that waits for another never begins.
        let mut stopping = pin!(self.stop(key));
        tokio::select! {
            biased;
            done = &mut doing => return Some(done),
            is_waiting = &mut stopping => if is_waiting { return None },
        }
        Some(doing.await)
    }

    /// Stops the turn of this prompt; returns whether it has not begun, as it waits for another.
    async fn stop(&self, key: &str) -> bool {
        loop {
            let cancel = Operation::Cancel { prompt: Some(key.to_owned()) };
            let done = self.handle.act(&self.new_key(), cancel).await;
            // It is not there yet, or it is over.
            if !done.is_ok_and(|it| it.get("cancelled").and_then(Value::as_bool) == Some(true)) {
                tokio::time::sleep(AGAIN).await;
                continue;
            }
            let turn = self.handle.state().await.ok().and_then(|it| it.turn);
            return turn.is_some_and(|it| it.key.as_deref() != Some(key));
        }
    }
}

/// Maps the end of a turn to the protocol's stop reason. If the provider refuses the key, the client offers a way to give another.
fn reason_of(end: TurnEnd, bounds: &Bounds) -> Result<StopReason, Error> {
    if let Some(failure) = end.error {
        let is_key = failure.breach.as_deref() == Some(Breach::Auth.name());
        let fault = Fault::from(failure);
        return Err(if is_key { auth::required(&fault.what) } else { error_of(&fault) });
    }
    let tokens = end.usage.all();
    Ok(match end.ended.as_str() {
        ended if ended == Ended::Done.name() => StopReason::EndTurn,
        ended if ended == Ended::Refused.name() => StopReason::Refusal,
        ended if ended == Ended::Limit.name() => {
            if end.steps >= bounds.steps {
                StopReason::MaxTurnRequests
            } else if bounds.tokens.is_some_and(|most| tokens >= most) {
                StopReason::MaxTokens
            } else if bounds.time.is_some() {
                // The turn's time limit passed: no further request is made.
                StopReason::MaxTurnRequests
            } else {
                // Several answers in a row were cut off at the model's maximum length.
                StopReason::MaxTokens
            }
        }
        // Cancelled here or elsewhere, or its process died.
        _ => StopReason::Cancelled,
    })
}

/// Reads the words of a prompt and their attachments.
fn read(blocks: Vec<ContentBlock>, workspace: &Path) -> Result<Prompt, Fault> {
    let mut prompt = Prompt::default();
    for block in blocks {
        match block {
            ContentBlock::Text(text) => prompt.text.push_str(&text.text),
            // The model opens it with its own tools, under the rules for every path.
            ContentBlock::ResourceLink(link) => {
                let place = path_of(&link.uri, workspace).unwrap_or_else(|| link.uri.clone());
                prompt.text.push_str(&format!("`{}`", place.replace('`', "'")));
            }
            ContentBlock::Image(image) => {
                let name = image.uri.as_deref().and_then(|it| path_of(it, workspace));
                let name = name.unwrap_or_else(|| format!("image.{}", ending(&image.mime_type)));
                prompt.attachments.push(picture(name, image.data)?);
            }
            ContentBlock::Resource(resource) => match resource.resource {
                EmbeddedResourceResource::TextResourceContents(text) => {
                    let name = path_of(&text.uri, workspace).unwrap_or(text.uri);
                    prompt.attachments.push(Attachment::Text { name, text: text.text });
                }
                EmbeddedResourceResource::BlobResourceContents(blob) => {
                    let name = path_of(&blob.uri, workspace).unwrap_or(blob.uri);
                    let is_picture = blob.mime_type.as_deref().is_some_and(|it| it.starts_with("image/"));
                    prompt.attachments.push(if is_picture {
                        picture(name, blob.blob)?
                    } else {
                        let text = Text::parse(decoded(&blob.blob)?).map_err(|why| {
                            Fault::bad_args(format!("`{name}` is not text: {why}"))
                                .next("Put it into a file of the workspace and name the file.")
                        })?;
                        Attachment::Text { name, text: text.decoded().into_owned() }
                    });
                }
                _ => return Err(unknown_content()),
            },
            ContentBlock::Audio(_) => {
                return Err(Fault::bad_args("haft can't listen to audio").next("Send text or a picture."));
            }
            _ => return Err(unknown_content()),
        }
    }
    if prompt.text.trim().is_empty() && prompt.attachments.is_empty() {
        return Err(Fault::bad_args("the prompt is empty").next("Say what is to be done."));
    }
    Ok(prompt)
}

/// Returns a picture as an attachment; its data must be base64.
fn picture(name: String, data: String) -> Result<Attachment, Fault> {
    decoded(&data)?;
    Ok(Attachment::Picture { name, data })
}

fn unknown_content() -> Fault {
    Fault::bad_args("the prompt has a kind of content that haft doesn't know")
        .next("Send text, images, resources or links to resources.")
}

fn decoded(data: &str) -> Result<Vec<u8>, Fault> {
    base64::decoded(data).ok_or_else(|| Fault::bad_args("the content of the prompt is not base64"))
}

fn ending(mime: &str) -> &str {
    match mime.strip_prefix("image/") {
        Some("jpeg") => "jpg",
        Some(kind) => kind,
        None => "png",
    }
}

/// Returns the path of a `file:` address, relative to the workspace if it is inside.
fn path_of(uri: &str, workspace: &Path) -> Option<String> {
    let rest = uri.strip_prefix("file://")?;
    let rest = rest.strip_prefix("localhost").unwrap_or(rest);
    let (path, lines) = rest.split_once('#').map_or((rest, None), |(path, lines)| (path, Some(lines)));
    let path = String::from_utf8(percent_decoded(path)?).ok().filter(|it| it.starts_with('/'))?;
    let path = Path::new(&path);
    let path = path.strip_prefix(workspace).unwrap_or(path).display();
    Some(lines.map_or_else(|| path.to_string(), |lines| format!("{path}#{lines}")))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    fn said(blocks: Value) -> Result<Prompt, Fault> {
        read(serde_json::from_value(blocks).unwrap(), Path::new("/ws"))
    }

    #[test]
    fn links_become_paths_and_embedded_text_goes_beside_the_words() {
        let said = said(json!([
            {"type": "text", "text": "look at "},
            {"type": "resource_link", "name": "a.rs", "uri": "file:///ws/src/a%20b.rs#L3"},
            {"type": "resource", "resource": {"uri": "file:///other/c.txt", "text": "three"}},
            {"type": "resource", "resource": {"uri": "d", "blob": base64::encoded(b"\xff\xfef\0o\0u\0r\0")}},
        ]))
        .unwrap();
        assert_eq!(said.text, "look at `src/a b.rs#L3`");
        let text = |name: &str, text: &str| Attachment::Text { name: name.to_owned(), text: text.to_owned() };
        assert_eq!(said.attachments, [text("/other/c.txt", "three"), text("d", "four")]);
    }

    #[test]
    fn audio_nothing_and_broken_base64_are_refused() {
        for blocks in [
            json!([{"type": "audio", "data": "", "mimeType": "audio/wav"}]),
            json!([]),
            json!([{"type": "text", "text": " "}]),
            json!([{"type": "image", "data": "%%%", "mimeType": "image/png"}]),
        ] {
            assert!(said(blocks.clone()).is_err(), "{blocks}");
        }
    }

    #[test]
    fn a_limit_says_which_one_it_was() {
        let end = |ended: &str, steps: usize| -> TurnEnd {
            let usage = json!({"input": 0, "cached": 0, "kept": 0, "output": 10, "reasoning": 0});
            serde_json::from_value(json!({"ended": ended, "steps": steps, "usage": usage})).unwrap()
        };
        let bounds = Bounds { steps: 3, tokens: Some(10), time: None };
        assert_eq!(reason_of(end("limit", 3), &bounds).unwrap(), StopReason::MaxTurnRequests);
        assert_eq!(reason_of(end("limit", 1), &bounds).unwrap(), StopReason::MaxTokens);
        let bounds = Bounds { tokens: None, ..bounds };
        assert_eq!(reason_of(end("limit", 1), &bounds).unwrap(), StopReason::MaxTokens);
        assert_eq!(reason_of(end("done", 3), &bounds).unwrap(), StopReason::EndTurn);
        for ended in ["cancelled", "interrupted"] {
            assert_eq!(reason_of(end(ended, 3), &bounds).unwrap(), StopReason::Cancelled);
        }
        let mut failed = end("error", 1);
        let error = json!({"kind": "unavailable", "what": "no", "breach": "auth"});
        failed.error = Some(serde_json::from_value(error).unwrap());
        assert_eq!(i32::from(reason_of(failed, &bounds).unwrap_err().code), -32000);
    }
}

//! One turn: what an editor sends as a prompt becomes the input of the agent, and its outcome a stop reason.

use std::path::Path;

use agent::{AgentError, Bounds, Ended, Input, Outcome, Settled, model::Breach};
use kit::{Fault, base64};
use serve::acp::{
    error_of, unknown_session,
    v1::{ContentBlock, EmbeddedResourceResource, Error, StopReason},
};
use tokio_util::sync::CancellationToken;

use super::{
    auth,
    commands::{self, Asked},
    session::{AcpSession, Turning},
};
use crate::{client_roots::decoded as percent_decoded, slash::All, verbs::run::fault};

/// The content of a prompt.
#[derive(Default)]
struct PromptContent {
    words: String,
    attachments: Vec<Attachment>,
}

/// Content that is attached to the words.
enum Attachment {
    Text { name: String, bytes: Vec<u8> },
    Picture { name: String, bytes: Vec<u8> },
}

impl AcpSession {
    /// Waits for the turn before, then takes this one.
    pub(super) async fn take_turn(
        &self,
        blocks: Vec<ContentBlock>,
        stop: &CancellationToken,
    ) -> Result<StopReason, Error> {
        let content = read(blocks, self.cwd()).map_err(|fault| error_of(&fault))?;
        let mut turn = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(StopReason::Cancelled),
            turn = self.turn.lock() => turn,
        };
        let Some(Turning { agent, driver }) = &mut *turn else { return Err(unknown_session(&self.id)) };
        let all = All::read(&self.factory.opened);
        let mut input = Input::new(content.words.clone());
        let own = match commands::asked(&all, &content.words).map_err(|fault| error_of(&fault))? {
            Asked::Words => None,
            Asked::File(own, given) => Some((own, given)),
            Asked::Chat(name, given) => {
                let done = commands::run(agent, name, given, stop).await;
                return match done {
                    Ok(text) => {
                        self.say(&text).await;
                        Ok(StopReason::EndTurn)
                    }
                    Err(_) if stop.is_cancelled() => Ok(StopReason::Cancelled),
                    Err(fault) => Err(error_of(&fault)),
                };
            }
        };
        for attachment in content.attachments {
            let attached = match attachment {
                Attachment::Text { name, bytes } => input.attach_text(&self.session, "file", &name, &bytes),
                Attachment::Picture { .. } if !agent.model().abilities().images => {
                    let what = format!("`{}` can't look at pictures", agent.model().name());
                    Err(Fault::bad_args(what).next("Choose a model that can, or leave the picture out."))
                }
                Attachment::Picture { name, bytes } => {
                    input.attach_picture(&self.session, &name, bytes).await
                }
            };
            attached.map_err(|fault| error_of(&fault))?;
        }
        let begun = own.map(|(own, given)| own.begin(given, &mut input, &self.factory, agent));
        let for_one_turn = begun.transpose().map_err(|fault| error_of(&fault))?;
        self.name_it(&content.words).await;
        let settled = driver.settle(agent, Some(input), stop).await;
        let ended = for_one_turn.map_or(Ok(()), |it| it.end(agent));
        ended.and_then(|()| self.factory.keep(agent)).map_err(|fault| error_of(&fault))?;
        let Settled { outcome, late } = settled.map_err(failed)?;
        if !late.is_empty() {
            let names: Vec<&str> = late.iter().map(|it| it.name.as_str()).collect();
            self.watcher.note(format!("still running in the background: {}", names.join(", ")));
        }
        Ok(reason(&outcome, &self.factory.bounds()))
    }
}

/// Maps the end of a turn to the protocol's stop reason.
fn reason(outcome: &Outcome, bounds: &Bounds) -> StopReason {
    let tokens = outcome.usage.all();
    match outcome.ended {
        Ended::Done => StopReason::EndTurn,
        Ended::Cancelled => StopReason::Cancelled,
        Ended::Refused => StopReason::Refusal,
        Ended::Limit if outcome.steps >= bounds.steps => StopReason::MaxTurnRequests,
        Ended::Limit if bounds.tokens.is_some_and(|most| tokens >= most) => StopReason::MaxTokens,
        // The turn's time limit passed: no further request is made.
        Ended::Limit if bounds.time.is_some() => StopReason::MaxTurnRequests,
        // Several answers in a row were cut off at the model's maximum length.
        Ended::Limit => StopReason::MaxTokens,
    }
}

/// Returns the error of a failed turn. If the provider refuses the key, the client offers a way to give another.
fn failed(error: AgentError) -> Error {
    let is_key = matches!(&error, AgentError::Model(it) if it.breach == Breach::Auth);
    let fault = fault(error);
    if is_key { auth::required(&fault.what) } else { error_of(&fault) }
}

/// Reads the words of a prompt and their attachments.
fn read(blocks: Vec<ContentBlock>, workspace: &Path) -> Result<PromptContent, Fault> {
    let mut content = PromptContent::default();
    for block in blocks {
        match block {
            ContentBlock::Text(text) => content.words.push_str(&text.text),
            // The model opens it with its own tools, under the rules for every path.
            ContentBlock::ResourceLink(link) => {
                let place = path_of(&link.uri, workspace).unwrap_or_else(|| link.uri.clone());
                content.words.push_str(&format!("`{}`", place.replace('`', "'")));
            }
            ContentBlock::Image(image) => {
                let name = image.uri.as_deref().and_then(|it| path_of(it, workspace));
                let name = name.unwrap_or_else(|| format!("image.{}", ending(&image.mime_type)));
                content.attachments.push(Attachment::Picture { name, bytes: decoded(&image.data)? });
            }
            ContentBlock::Resource(resource) => match resource.resource {
                EmbeddedResourceResource::TextResourceContents(text) => {
                    let name = path_of(&text.uri, workspace).unwrap_or(text.uri);
                    content.attachments.push(Attachment::Text { name, bytes: text.text.into_bytes() });
                }
                EmbeddedResourceResource::BlobResourceContents(blob) => {
                    let name = path_of(&blob.uri, workspace).unwrap_or(blob.uri);
                    let bytes = decoded(&blob.blob)?;
                    let is_picture = blob.mime_type.as_deref().is_some_and(|it| it.starts_with("image/"));
                    content.attachments.push(if is_picture {
                        Attachment::Picture { name, bytes }
                    } else {
                        Attachment::Text { name, bytes }
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
    if content.words.trim().is_empty() && content.attachments.is_empty() {
        return Err(Fault::bad_args("the prompt is empty").next("Say what is to be done."));
    }
    Ok(content)
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

    fn content(blocks: serde_json::Value) -> Result<PromptContent, Fault> {
        read(serde_json::from_value(blocks).unwrap(), Path::new("/ws"))
    }

    #[test]
    fn links_become_paths_and_embedded_text_is_attached() {
        let content = content(json!([
            {"type": "text", "text": "look at "},
            {"type": "resource_link", "name": "a.rs", "uri": "file:///ws/src/a%20b.rs#L3"},
            {"type": "resource", "resource": {"uri": "file:///other/c.txt", "text": "three"}},
        ]))
        .unwrap();
        assert_eq!(content.words, "look at `src/a b.rs#L3`");
        assert!(matches!(content.attachments.as_slice(),
            [Attachment::Text { name, bytes }] if name == "/other/c.txt" && bytes == b"three"));
    }

    #[test]
    fn audio_nothing_and_broken_base64_are_refused() {
        for blocks in [
            json!([{"type": "audio", "data": "", "mimeType": "audio/wav"}]),
            json!([]),
            json!([{"type": "text", "text": " "}]),
            json!([{"type": "image", "data": "%%%", "mimeType": "image/png"}]),
        ] {
            assert!(content(blocks.clone()).is_err(), "{blocks}");
        }
    }

    #[test]
    fn a_limit_says_which_one_it_was() {
        let outcome = |ended, steps| Outcome {
            ended,
            text: String::new(),
            steps,
            usage: agent::model::Usage { output: 10, ..Default::default() },
            cost: None,
        };
        let bounds = Bounds { steps: 3, tokens: Some(10), time: None };
        assert_eq!(reason(&outcome(Ended::Limit, 3), &bounds), StopReason::MaxTurnRequests);
        assert_eq!(reason(&outcome(Ended::Limit, 1), &bounds), StopReason::MaxTokens);
        let bounds = Bounds { tokens: None, ..bounds };
        assert_eq!(reason(&outcome(Ended::Limit, 1), &bounds), StopReason::MaxTokens);
        assert_eq!(reason(&outcome(Ended::Done, 3), &bounds), StopReason::EndTurn);
        assert_eq!(reason(&outcome(Ended::Cancelled, 3), &bounds), StopReason::Cancelled);
    }
}

//! Anthropic's Messages API: sends requests, and streams answers.

mod answer;
mod request;
#[cfg(test)]
mod tests;

use std::{pin::pin, sync::Arc, time::Duration};

use async_stream::stream;
use futures_util::StreamExt;
use reqwest::header::HeaderValue;

use super::{
    Abilities, Breach, Event, Events, Model, ModelError, Request,
    endpoint::Served,
    http::{self, Received},
};
use answer::Answer;
use request::Thinking;

/// The name of this wire format in [`MessagePart::Opaque`](super::MessagePart::Opaque).
const WIRE: &str = "anthropic";

/// The version of the API.
const VERSION: &str = "2023-06-01";

/// A model that uses this wire format.
pub(super) struct Anthropic {
    served: Arc<Served>,
}

impl Anthropic {
    /// Creates the model.
    pub(super) fn new(served: Served) -> Self {
        Self { served: Arc::new(served) }
    }
}

impl Model for Anthropic {
    fn name(&self) -> &str {
        &self.served.name
    }

    fn abilities(&self) -> &Abilities {
        &self.served.abilities
    }

    fn idle_limit(&self) -> Option<Duration> {
        Some(self.served.endpoint.retry_policy.idle)
    }

    fn stream(&self, request: Request) -> Events {
        let served = self.served.clone();
        let secrets = served.endpoint.secrets();
        secrets.guard(stream! {
            let mut thinking = Thinking::Kept;
            'asked: loop {
                let body = request::body(&served, &request, thinking);
                let without = request::body(&served, &request, Thinking::Left);
                let may_leave = thinking == Thinking::Kept && body != without;
                let mut post = match served.endpoint.post("messages", body) {
                    Ok(post) => post,
                    Err(error) => {
                        yield Err(error);
                        return;
                    }
                };
                post.headers.entry("anthropic-version").or_insert(HeaderValue::from_static(VERSION));
                let mut heard = pin!(http::post(post));
                let mut answer = Answer::new(&served.model);
                while let Some(heard) = heard.next().await {
                    let events = match heard {
                        Ok(Received::Waiting { why, seconds }) => Ok(vec![Event::Waiting { why, seconds }]),
                        Ok(Received::Sent { data, .. }) => answer.receive(&data),
                        Err(error) if may_leave && is_about_thinking(&error) => {
                            thinking = Thinking::Left;
                            continue 'asked;
                        }
                        Err(error) => Err(error),
                    };
                    match events {
                        Ok(events) => {
                            for event in events {
                                yield Ok(event);
                            }
                        }
                        Err(error) => {
                            yield Err(error);
                            return;
                        }
                    }
                    if answer.is_over() {
                        return;
                    }
                }
                match answer.end() {
                    Some(events) => {
                        for event in events {
                            yield Ok(event);
                        }
                    }
                    None => {
                        let what = "the answer broke off before its end was said";
                        yield Err(ModelError::new(Breach::Broken, what));
                    }
                }
                return;
            }
        })
    }
}

/// Returns whether the provider refuses the thinking that it is sent back. Thinking is bound to its model,
/// its place and, with the newest models, its conversation, also where that was summarized; a conversation
/// with refused thinking would be refused every time.
fn is_about_thinking(error: &ModelError) -> bool {
    let said = error.what.to_ascii_lowercase();
    error.breach == Breach::Refused && (said.contains("thinking") || said.contains("signature"))
}

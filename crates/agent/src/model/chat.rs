//! OpenAI's Chat Completions API, which most servers support.
//!
//! Differences between servers are in [`calls`] (how they write calls) and [`answer`] (everything else).

mod answer;
mod calls;
mod request;
#[cfg(test)]
mod tests;

use std::time::Duration;

use super::{Abilities, Events, Model, Request, endpoint::Served, openai};

/// The name of this wire format in [`MessagePart::Opaque`](super::MessagePart::Opaque).
const WIRE: &str = "chat";

/// A model that uses Chat Completions.
pub(super) struct Chat {
    served: Served,
}

impl Chat {
    /// Creates the model.
    pub(super) fn new(served: Served) -> Self {
        Self { served }
    }
}

impl Model for Chat {
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
        let body = request::body(&self.served, &request);
        let post = self.served.endpoint.post("chat/completions", body);
        openai::ask(post, answer::Chunks::new(&self.served.model, &request))
    }
}

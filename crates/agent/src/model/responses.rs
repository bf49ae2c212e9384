//! OpenAI's Responses API.
//!
//! Nothing is stored there (`store: false`): each request contains the whole conversation, and the server
//! does not know ids of earlier requests. So reasoning is sent back as its encrypted content, without its id.
//! The work of the provider's own tools is not sent back at all, since the documentation allows only its id.
//! The model gets a picture that it made like any other picture, and knows its searches by the text it wrote
//! about them.

mod answer;
mod request;
#[cfg(test)]
mod tests;

use std::time::Duration;

use super::{Abilities, Events, Model, Request, endpoint::Served, openai};

/// The name of this wire format in [`MessagePart::Opaque`](super::MessagePart::Opaque).
const WIRE: &str = "responses";

/// A model that uses Responses.
pub(super) struct Responses {
    served: Served,
}

impl Responses {
    /// Creates the model.
    pub(super) fn new(served: Served) -> Self {
        Self { served }
    }
}

impl Model for Responses {
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
        openai::ask(self.served.endpoint.post("responses", body), answer::Parts::new(&self.served.model))
    }
}

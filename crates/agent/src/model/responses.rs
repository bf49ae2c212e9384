//! OpenAI's Responses.
//!
//! Nothing is stored there (`store: false`): the conversation is sent whole each time, and an id means nothing to the
//! server in the next request. So reasoning goes back as its encrypted content, without its id; what the provider's own
//! tools did does not go back at all, as the documentation lets that be named by id alone. The model is shown a picture
//! that it made as any other picture, and its searches by what it wrote of them.

mod answer;
mod request;
#[cfg(test)]
mod tests;

use std::time::Duration;

use super::{Abilities, Events, Model, Request, endpoint::Served, openai};

/// The wire format's name, which marks what only it understands.
const WIRE: &str = "responses";

/// A model that is spoken to in Responses.
pub(super) struct Responses {
    served: Served,
}

impl Responses {
    /// The model that is served there.
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
        Some(self.served.endpoint.patience.idle)
    }

    fn stream(&self, request: Request) -> Events {
        let body = request::body(&self.served, &request);
        openai::ask(self.served.endpoint.post("responses", body), answer::Parts::new(&self.served.model))
    }
}

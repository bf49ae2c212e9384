//! One turn: the model answers and calls, until it has nothing more to call.
//!
//! A tool starts the moment its call closes in the stream, while the model still writes. Calls of one answer run
//! together as far as their locks allow; their results go back in the model's order.

mod step;

use std::{sync::Arc, time::Duration};

use kit::{Fault, Spec};
use runtime::Session;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::{
    event::{Event, Host},
    model::{Item, Model, ModelError, Piece, Request, Usage, Why},
    transcript::{Message, Transcript},
};
use step::{Broke, Step};

/// How often an answer that broke off is asked for again.
const AGAIN: u32 = 3;

/// An agent: a model, the tools of a session, and what was said.
pub struct Agent {
    session: Session,
    model: Arc<dyn Model>,
    system: Arc<str>,
    transcript: Transcript,
    bounds: Bounds,
    host: Arc<dyn Host>,
}

/// How far one turn may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// At most so many answers of the model.
    pub steps: usize,
    /// At most so many tokens, of requests and answers together.
    pub tokens: Option<u64>,
    /// At most so long.
    pub time: Option<Duration>,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { steps: 50, tokens: None, time: None }
    }
}

/// What came of a turn.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// How it ended.
    pub ended: Ended,
    /// What the model said last.
    pub text: String,
    /// How many answers it took.
    pub steps: usize,
    /// What they used.
    pub usage: Usage,
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The model has said what it had to say.
    Done,
    /// Somebody stopped it.
    Cancelled,
    /// It took as many answers, tokens or as much time as it may.
    Limit,
    /// The provider did not let the model go on.
    Refused,
}

/// Why a turn could not go on.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The model does not answer.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// What was said can't be kept, or read.
    #[error(transparent)]
    Kept(#[from] Fault),
}

impl Agent {
    /// An agent that goes on where its session was left.
    ///
    /// # Errors
    /// When what was said can't be read.
    pub fn open(
        session: Session,
        model: Arc<dyn Model>,
        system: Arc<str>,
        bounds: Bounds,
        host: Arc<dyn Host>,
    ) -> Result<Self, Fault> {
        let transcript = Transcript::open(&session)?;
        Ok(Self { session, model, system, transcript, bounds, host })
    }

    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The model.
    pub fn model(&self) -> &Arc<dyn Model> {
        &self.model
    }

    /// What was said.
    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// Goes on until the model has nothing more to call; with what the person says, if they say something.
    /// `cancel` stops it within 200 ms, and leaves a conversation that can go on.
    ///
    /// # Errors
    /// When the model does not answer, or what is said can't be kept.
    pub async fn turn(
        &mut self,
        input: Option<String>,
        cancel: &CancellationToken,
    ) -> Result<Outcome, AgentError> {
        let mut pieces: Vec<Piece> = self.session.news().into_iter().map(Piece::text).collect();
        if let Some(text) = input {
            self.transcript.tell(&Message::Person { text: text.clone() });
            pieces.push(Piece::text(text));
        }
        if !pieces.is_empty() {
            self.transcript.add(Item::Person { pieces });
        }
        let tools: Arc<[Spec]> = self.session.catalog().specs().cloned().collect();
        let mut outcome =
            Outcome { ended: Ended::Done, text: String::new(), steps: 0, usage: Usage::default() };
        loop {
            if outcome.steps >= self.bounds.steps {
                outcome.ended = Ended::Limit;
                break;
            }
            let Some(step) = self.answer(&tools, cancel).await? else {
                outcome.ended = Ended::Cancelled;
                break;
            };
            outcome.steps += 1;
            outcome.usage += step.usage;
            outcome.text.clone_from(&step.text());
            let cost = self.model.abilities().price.map(|it| step.usage.cost(&it));
            self.host.hear(Event::Used { usage: step.usage, cost });
            let (why, called) = (step.why, step.has_calls());
            self.keep(step);
            if cancel.is_cancelled() {
                outcome.ended = Ended::Cancelled;
                break;
            }
            match why {
                Why::Refused => {
                    outcome.ended = Ended::Refused;
                    break;
                }
                Why::Length if !called => self
                    .transcript
                    .add(Item::person("Your answer was cut off at its longest. Go on, in smaller parts.")),
                Why::Paused => {}
                _ if !called => break,
                _ => {}
            }
        }
        self.transcript.written().await?;
        Ok(outcome)
    }

    /// One answer of the model with the results of its calls; nothing, if it was stopped before it said anything.
    async fn answer(
        &mut self,
        tools: &Arc<[Spec]>,
        cancel: &CancellationToken,
    ) -> Result<Option<Step>, AgentError> {
        let mut again = 0;
        loop {
            self.transcript.written().await?;
            self.host.hear(Event::Asked { step: self.transcript.steps() + 1 });
            let request = Request {
                system: self.system.clone(),
                items: self.transcript.items().to_vec(),
                tools: tools.clone(),
                step: self.transcript.steps(),
                longest: None,
            };
            let stream = self.model.stream(request);
            match Step::run(&self.session, &self.host, &mut self.transcript, stream, cancel).await {
                Ok(step) => return Ok(Some(step)),
                Err(Broke::Stopped) => return Ok(None),
                Err(Broke::Error(error)) if error.may_pass() && again < AGAIN => {
                    again += 1;
                    let seconds = 0.5 * f32::from(1u8 << again);
                    self.host.hear(Event::Again { why: error.to_string(), seconds });
                    tokio::select! {
                        () = tokio::time::sleep(Duration::from_secs_f32(seconds)) => {}
                        () = cancel.cancelled() => return Ok(None),
                    }
                }
                Err(Broke::Error(error)) => return Err(error.into()),
            }
        }
    }

    fn keep(&mut self, step: Step) {
        let text = step.text();
        if !text.is_empty() {
            self.transcript.tell(&Message::Model { text });
        }
        for message in &step.messages {
            self.transcript.tell(message);
        }
        let (said, results) = step.into_items();
        if said.is_empty() {
            return;
        }
        self.transcript.add(Item::Model { said });
        if !results.is_empty() {
            self.transcript.add(Item::Results { results });
        }
    }
}

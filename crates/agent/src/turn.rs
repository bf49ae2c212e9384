//! Turns: the model answers and calls tools, until it has nothing more to call.
//!
//! A tool starts the moment its call closes in the stream, while the model still writes. Calls of one answer
//! run in parallel as far as their locks allow; their results are sent in the model's order.

mod between_turns;
mod hooks;
mod messages;
mod outcome;
mod request;
mod steering;
mod step;
#[cfg(test)]
mod tests;

use std::{any::Any, sync::Arc, time::Duration};

use kit::{Fault, Spec, spans};
use runtime::{Limits, Session, config::ToolVisibility};
use serde_json::Value;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tracing::Instrument as _;

use crate::{
    arrivals::InboxBounds,
    compaction::{Rate, size::Context},
    event::{Event, Observer},
    images::Attached,
    input::Input,
    loop_detection::{LoopDetector, changing},
    model::{Item, MessagePart, Model, Usage, Why},
    prompt::System,
    provider_tools,
    subagent::{Crew, Setup},
    transcript::Transcript,
    unattended::Unattended,
};
pub use between_turns::{ChangedBy, Compacted, Rewound};
use messages::offer_messages;
use outcome::sum;
pub use outcome::{AgentError, Bounds, Ended, Outcome};
pub use steering::Steering;
use step::Step;
pub(crate) use step::{Lines, next_part};

/// Maximum number of consecutive answers that reach the length limit without a call.
const CUT_SHORT: usize = 3;

/// Time that the end of a cancelled turn waits for the disk; queued rows are written even after that.
const LAST_WRITE: Duration = Duration::from_millis(100);

/// An agent: a model, the tools of a session, and the conversation.
pub struct Agent {
    session: Session,
    steering: Steering,
    crew: Option<Crew>,
    transcript: Transcript,
    bounds: Bounds,
    inbox: InboxBounds,
    visible: ToolVisibility,
    host: Arc<dyn Observer>,
    shown: Shown,
    loops: LoopDetector,
    attached: Attached,
    rate: Rate,
    /// The provider's token count of the last request and its answer.
    counted: Option<u64>,
    /// The JSON Schema for the last answer of a turn.
    format: Option<Arc<Value>>,
    /// The fires that began the turn, and what it may do.
    unattended: Unattended,
    /// Values that live as long as the agent.
    kept: Vec<Box<dyn Any + Send + Sync>>,
    /// Whether the `session_start` hooks have run.
    hooks_began: bool,
}

/// The parts of an agent.
pub struct Settings {
    /// The session, whose tools it has and whose conversation it continues.
    pub session: Session,
    /// The model that answers.
    pub model: Arc<dyn Model>,
    /// The system prompt.
    pub system: System,
    /// The limits of one turn.
    pub bounds: Bounds,
    /// The time at which the model gets new tools.
    pub visible: ToolVisibility,
    /// The observer of its events.
    pub host: Arc<dyn Observer>,
}

/// The tools that the model gets.
#[derive(Default)]
struct Shown {
    tools: Arc<[Spec]>,
    /// The limits of the session at that time.
    limits: Arc<Limits>,
}

impl Agent {
    /// Opens an agent that continues its session's conversation. Blocks.
    ///
    /// # Errors
    /// When another process has the session open, or the conversation can't be read.
    pub fn open(settings: Settings) -> Result<Self, Fault> {
        let Settings { session, model, system, bounds, visible, host } = settings;
        session.tell_agent_of_jobs();
        let transcript = Transcript::open(&session)?;
        provider_tools::offer(&session, model.abilities());
        if session.agent().is_none() {
            // They ended with the process that ran them.
            session.runtime().store().channels().forget_agents_of(session.name())?;
        }
        offer_messages(&session, false)?;
        let changing = changing(session.catalog().specs());
        let loops = LoopDetector::of(transcript.items(), |tool| changing.contains(tool));
        let steering = Steering::of(model, system);
        let agent = Self {
            session,
            steering,
            crew: None,
            transcript,
            bounds,
            inbox: InboxBounds::default(),
            visible,
            host,
            shown: Shown::default(),
            loops,
            attached: Attached::default(),
            rate: Rate::default(),
            counted: None,
            format: None,
            unattended: Unattended::default(),
            kept: Vec::new(),
            hooks_began: false,
        };
        agent.estimate_size();
        Ok(agent)
    }

    /// Keeps a value as long as the agent: work on its session that ends when the value is dropped.
    pub fn keep_with(&mut self, value: Box<dyn Any + Send + Sync>) {
        self.kept.push(value);
    }

    /// Returns the session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Returns the model.
    pub fn model(&self) -> Arc<dyn Model> {
        self.steering.model()
    }

    /// Returns the transcript.
    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    pub(crate) fn host(&self) -> &Arc<dyn Observer> {
        &self.host
    }

    /// Lets the agent's tools switch its profile, start other agents and ask the person.
    pub fn set_crew(&mut self, setup: Setup) {
        let base = runtime::Limits::clone(&self.session.limits());
        if let Err(fault) = offer_messages(&self.session, true) {
            tracing::warn!(%fault, "the agent has no tools to send messages");
        }
        let (host, setup) = (self.host.clone(), Arc::new(setup));
        self.crew = Some(Crew::new(&self.session, host, self.steering(), setup, (base, 0)));
    }

    /// Returns the crew, by which the person switches profiles, where the agent has one.
    pub fn crew(&self) -> Option<&Crew> {
        self.crew.as_ref()
    }

    /// Returns the settings that can change at any time, also during a turn.
    pub fn steering(&self) -> Steering {
        self.steering.clone()
    }

    /// Sets the limits of later turns.
    pub fn set_bounds(&mut self, bounds: Bounds) {
        self.bounds = bounds;
    }

    /// Sets how much of the inbox one request shows in full.
    pub fn set_inbox_bounds(&mut self, bounds: InboxBounds) {
        self.inbox = bounds;
    }

    /// Sets a JSON Schema that providers with structured output enforce on the text of answers. Others ignore
    /// it: the caller repeats it in words, and checks the answer.
    pub fn set_format(&mut self, schema: Option<Arc<Value>>) {
        self.format = schema;
    }

    /// Returns the size of the next request, and how much of the model's context window is left.
    pub fn context(&self) -> Context {
        let now = self.steering.inner.lock();
        let catalog = self.session.catalog();
        let (items, abilities) = (self.transcript.items(), now.model.abilities());
        let context = Context::measure(&now.system, catalog.listed(), items, abilities, self.rate);
        Context { counted: self.counted, ..context }
    }

    /// Replaces the size of the conversation with an estimate, since no provider has counted it.
    fn estimate_size(&self) {
        let tokens = self.context().tokens;
        self.steering.set_size(tokens, true);
    }

    /// Like [`turn_with`](Self::turn_with), with words alone. Without words, it continues the conversation
    /// where it stopped, and does nothing if there is nothing to answer.
    ///
    /// # Errors
    /// Those of [`turn_with`](Self::turn_with).
    pub async fn turn(
        &mut self,
        words: Option<String>,
        cancel: &CancellationToken,
    ) -> Result<Outcome, AgentError> {
        self.take_turn(words.map(Input::new), cancel).await
    }

    /// Runs a turn with this input, until the model has nothing more to call.
    ///
    /// `cancel` stops it within 200 ms, and leaves a conversation that can continue. So does dropping the
    /// future.
    ///
    /// # Errors
    /// When the model fails, or the conversation can't be written.
    pub async fn turn_with(
        &mut self,
        input: Input,
        cancel: &CancellationToken,
    ) -> Result<Outcome, AgentError> {
        self.take_turn(Some(input), cancel).await
    }

    async fn take_turn(
        &mut self,
        input: Option<Input>,
        cancel: &CancellationToken,
    ) -> Result<Outcome, AgentError> {
        let turn = spans::Turn::begin(self.session.name(), self.session.agent());
        let outcome = self.turn_in_span(input, cancel).instrument(turn.span()).await;
        match &outcome {
            Ok(it) => turn.ended(it.steps, (it.usage.request(), it.usage.output), it.ended.name()),
            Err(error) => turn.failed(error.name()),
        }
        outcome
    }

    async fn turn_in_span(
        &mut self,
        mut input: Option<Input>,
        cancel: &CancellationToken,
    ) -> Result<Outcome, AgentError> {
        self.hooks_before(&mut input, cancel).await?;
        // Closes an answer of a turn that was dropped.
        self.transcript.mend(&self.session)?;
        let mut outcome = Outcome {
            ended: Ended::Done,
            text: String::new(),
            steps: 0,
            usage: Usage::default(),
            cost: None,
        };
        self.take(input)?;
        let Some(last) = self.transcript.items().last() else {
            return Err(Fault::bad_args("there is nothing to answer").next("Say what is to be done.").into());
        };
        if let Item::Model { said } = last {
            outcome.text = text_of(said);
            return Ok(outcome);
        }
        // Its own token, as the time limit stops the turn as well.
        let stop = cancel.child_token();
        let _timer = self.bounds.time.map(|time| {
            let stop = stop.clone();
            AbortOnDropHandle::new(tokio::spawn(async move {
                tokio::time::sleep(time).await;
                stop.cancel();
            }))
        });
        self.show_tools(true);
        let mut below = (Usage::default(), None);
        let went = self.go_on(&mut outcome, &mut below, &stop).await;
        if stop.is_cancelled() && !cancel.is_cancelled() && outcome.ended == Ended::Cancelled {
            outcome.ended = Ended::Limit;
        }
        let (usage, cost) = self.steering.take_below();
        below.0 += usage;
        below.1 = sum(below.1, cost);
        let price = self.steering.model().abilities().price;
        outcome.cost = sum(price.map(|it| outcome.usage.cost(&it)), below.1);
        outcome.usage += below.0;
        let said = went.as_ref().map_or_else(ToString::to_string, |()| outcome.text.clone());
        self.unattended.end(&self.session, &said).await?;
        went?;
        match outcome.ended {
            Ended::Cancelled => self.transcript.note("The person stopped you here, before you were done."),
            Ended::Limit => {
                let note =
                    "You were stopped here: you reached the limit of steps, tokens or time of this turn.";
                self.transcript.note(note);
            }
            Ended::Done | Ended::Refused => {}
        }
        if cancel.is_cancelled() {
            if let Ok(written) = tokio::time::timeout(LAST_WRITE, self.transcript.written()).await {
                written?;
            }
        } else {
            self.transcript.written().await?;
        }
        Ok(outcome)
    }

    fn show_tools(&mut self, turn: bool) {
        let limits = self.session.limits();
        // Another model may have other tools of its provider.
        let is_other = provider_tools::offer(&self.session, self.steering.model().abilities());
        let is_due = turn || self.visible == ToolVisibility::NextRequest;
        // Tools that the session may no longer use are removed at once, even where new tools wait for the
        // next message.
        if is_due || is_other || !Arc::ptr_eq(&limits, &self.shown.limits) {
            let tools: Arc<[Spec]> = self.session.catalog().listed().cloned().collect();
            if let Some(crew) = self.crew.as_ref().filter(|_| tools != self.shown.tools) {
                crew.update_system_prompt();
            }
            self.shown = Shown { tools, limits };
        }
    }

    async fn go_on(
        &mut self,
        outcome: &mut Outcome,
        below: &mut (Usage, Option<f64>),
        stop: &CancellationToken,
    ) -> Result<(), AgentError> {
        let (mut cut_short, mut hooks) = (0, hooks::TurnHooks::default());
        loop {
            let (usage, cost) = self.steering.take_below();
            below.0 += usage;
            below.1 = sum(below.1, cost);
            let mut all = outcome.usage;
            all += below.0;
            let used = all.all();
            if outcome.steps >= self.bounds.steps || self.bounds.tokens.is_some_and(|most| used >= most) {
                outcome.ended = Ended::Limit;
                return Ok(());
            }
            if outcome.steps > 0 {
                self.show_arrivals()?;
            }
            self.show_tools(false);
            let step = spans::Step::begin(self.transcript.steps() + 1);
            let answer = self.answer(&mut outcome.usage, stop).instrument(step.span()).await;
            drop(step);
            let Some(step) = answer? else {
                outcome.ended = Ended::Cancelled;
                return Ok(());
            };
            outcome.steps += 1;
            outcome.usage += step.usage;
            outcome.text = step.text();
            let cost = self.steering.model().abilities().price.map(|it| step.usage.cost(&it));
            self.host.observe(Event::Used { usage: step.usage, cost });
            let (why, called, whole) = (step.why, step.has_calls(), step.whole);
            let unwritten = self.keep(step);
            if self.hear_hooks().is_some() && called {
                outcome.ended = Ended::Limit;
                return Ok(());
            }
            // A cancellation after the last word stops nothing.
            if stop.is_cancelled() && (called || !whole || why != Why::Done) {
                outcome.ended = Ended::Cancelled;
                return Ok(());
            }
            match why {
                Why::Refused => {
                    outcome.ended = Ended::Refused;
                    return Ok(());
                }
                Why::Length => {
                    cut_short = if called { 0 } else { cut_short + 1 };
                    if cut_short == CUT_SHORT {
                        outcome.ended = Ended::Limit;
                        return Ok(());
                    }
                    self.transcript.add(Item::person(cut_off(&unwritten)));
                }
                Why::Paused => {}
                _ if !called && self.hooks_at_stop(&mut hooks, stop).await => {}
                _ if !called => return Ok(()),
                _ => cut_short = 0,
            }
        }
    }

    /// Adds an answer to the conversation. Returns the tools of the calls that the model did not finish
    /// writing.
    fn keep(&mut self, mut step: Step) -> Vec<String> {
        let (unwritten, pictures) = (std::mem::take(&mut step.unwritten), std::mem::take(&mut step.pictures));
        let (why, not_run) = (step.why, step.not_run.take());
        let (said, results) = step.into_items();
        if !said.is_empty() {
            self.transcript.add(Item::Model { said });
        }
        let goes_on = !results.is_empty() || why == Why::Length;
        if !results.is_empty() {
            self.transcript.add(Item::Results { results });
            if let Some(text) = not_run {
                self.transcript.add(Item::person(text));
            }
        }
        // A picture alone is not a reason for a request: the model gets it with the next one.
        match pictures.is_empty() {
            true => {}
            false if goes_on => self.transcript.add(Item::Person { pieces: pictures }),
            false => self.transcript.show(pictures),
        }
        unwritten
    }
}

/// Returns the message to the model after an answer that reached the length limit.
fn cut_off(unwritten: &[String]) -> String {
    let lost = match unwritten {
        [] => "Go on".to_owned(),
        tools => format!(
            "The call of {} that you were writing was not complete and was not made. Go on",
            tools.join(", ")
        ),
    };
    format!("Your answer was cut off at its longest. {lost}, in smaller parts.")
}

fn text_of(said: &[MessagePart]) -> String {
    let texts = said
        .iter()
        .filter_map(|it| if let MessagePart::Text { text } = it { Some(text.as_str()) } else { None });
    texts.collect::<Vec<_>>().join("\n\n")
}

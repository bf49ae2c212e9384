//! Turns: the model answers and calls tools, until it has nothing more to call.
//!
//! A tool starts the moment its call closes in the stream, while the model still writes. Calls of one answer
//! run in parallel as far as their locks allow; their results are sent in the model's order.

mod between_turns;
mod hooks;
mod request;
mod step;
#[cfg(test)]
mod tests;

use std::{any::Any, sync::Arc, time::Duration};

use kit::{Fault, Spec, services::PRIVILEGED_TOOLS, spans};
use parking_lot::Mutex;
use runtime::{
    Limits, Session,
    config::{STEPS, ToolVisibility},
};
use serde::Serialize;
use serde_json::Value;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tracing::Instrument as _;

use crate::{
    arrivals::{Arrivals, InboxBounds},
    compaction::{
        Rate,
        size::{Context, ContextUsed},
    },
    event::{Event, Observer},
    images::Attached,
    input::Input,
    loop_detection::{LoopDetector, changing},
    model::{Item, MessagePart, Model, ModelError, Piece, Usage, Why},
    prompt::System,
    provider_tools,
    subagent::{Crew, Setup},
    transcript::Transcript,
    unattended::Unattended,
};
pub use between_turns::{ChangedBy, Compacted, Rewound};
use step::Step;
pub(crate) use step::next_part;

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

/// The settings of an agent that can change at any time, also during a turn. A change applies from the next
/// request on.
#[derive(Clone)]
pub struct Steering {
    inner: Arc<Mutex<Now>>,
    below: Arc<Mutex<(Usage, Option<f64>)>>,
}

struct Now {
    model: Arc<dyn Model>,
    system: System,
    /// The tokens of the newest request with its answer, and whether that is an estimate.
    size: (u64, bool),
}

impl Steering {
    /// Creates the settings of an agent whose own answers come from elsewhere: for the agents that it starts.
    pub(crate) fn alone(model: Arc<dyn Model>) -> Self {
        Self::of(model, "".into())
    }

    fn of(model: Arc<dyn Model>, system: System) -> Self {
        let now = Now { model, system, size: (0, true) };
        Self { inner: Arc::new(Mutex::new(now)), below: Arc::default() }
    }

    /// Returns the model.
    pub fn model(&self) -> Arc<dyn Model> {
        self.inner.lock().model.clone()
    }

    /// Returns the system prompt.
    pub fn system(&self) -> Arc<str> {
        self.inner.lock().system.text().clone()
    }

    /// Returns how much of the model's context window is in use. Cheap, also during a turn.
    pub fn context_used(&self) -> ContextUsed {
        let now = self.inner.lock();
        let (tokens, estimated) = now.size;
        ContextUsed { tokens, window: now.model.abilities().window, estimated }
    }

    fn set_size(&self, tokens: u64, estimated: bool) {
        self.inner.lock().size = (tokens, estimated);
    }

    /// Adds tokens and cost that other agents used for this one: the report of its turn includes them.
    pub fn add_below(&self, usage: Usage, cost: Option<f64>) {
        let mut below = self.below.lock();
        below.0 += usage;
        below.1 = sum(below.1, cost);
    }

    fn take_below(&self) -> (Usage, Option<f64>) {
        std::mem::take(&mut *self.below.lock())
    }

    /// Sets the model.
    pub fn set_model(&self, model: Arc<dyn Model>) {
        self.inner.lock().model = model;
    }

    /// Sets the system prompt.
    pub fn set_system(&self, system: System) {
        self.inner.lock().system = system;
    }
}

/// The tools that the model gets.
#[derive(Default)]
struct Shown {
    tools: Arc<[Spec]>,
    /// The limits of the session at that time.
    limits: Arc<Limits>,
}

/// The limits of one turn. haft sends no request beyond them: the conversation so far stays, and the next
/// turn begins with a line that says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum model responses.
    pub steps: usize,
    /// Limit of tokens, of requests and answers together; above it, haft sends no further request.
    pub tokens: Option<u64>,
    /// Time limit. It stops an unfinished answer with its calls.
    pub time: Option<Duration>,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { steps: STEPS, tokens: None, time: None }
    }
}

/// The outcome of a turn.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// How the turn ended.
    pub ended: Ended,
    /// The model's last text.
    pub text: String,
    /// The number of answers.
    pub steps: usize,
    /// The tokens used, including those of summaries.
    pub usage: Usage,
    /// The cost in dollars, where it is known.
    pub cost: Option<f64>,
}

/// The way a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The model completed its answer.
    Done,
    /// The turn was cancelled.
    Cancelled,
    /// The turn reached its limit of answers, tokens or time.
    Limit,
    /// The provider stopped the model.
    Refused,
}

/// The reason why a turn failed. The conversation so far is kept, and the next turn continues it.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The model failed.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The conversation can't be written or read.
    #[error(transparent)]
    Transcript(#[from] Fault),
}

impl Ended {
    /// Returns the name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Cancelled => "cancelled",
            Self::Limit => "limit",
            Self::Refused => "refused",
        }
    }
}

impl AgentError {
    /// Returns the kind of the error, in a word.
    fn name(&self) -> &'static str {
        match self {
            Self::Model(error) => error.breach.name(),
            Self::Transcript(fault) => fault.kind.name(),
        }
    }
}

impl Agent {
    /// Opens an agent that continues its session's conversation. Blocks.
    ///
    /// # Errors
    /// When another process has the session open, or the conversation can't be read.
    pub fn open(settings: Settings) -> Result<Self, Fault> {
        let Settings { session, model, system, bounds, visible, host } = settings;
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

    /// Adds the input, the messages of the inbox and the events since the last turn to the conversation.
    fn take(&mut self, input: Option<Input>) -> Result<(), Fault> {
        let arrivals = self.arrivals()?;
        let notifications: Vec<Piece> = self.session.notifications().into_iter().map(Piece::text).collect();
        let is_said = matches!(self.transcript.items().last(), Some(Item::Model { .. }) | None);
        let mut pieces = self.transcript.notes();
        // Notes alone are not a reason to send a request.
        if input.is_none() && notifications.is_empty() && arrivals.is_none() && (is_said || pieces.is_empty())
        {
            return Ok(());
        }
        let begun_by = arrivals.as_ref().map_or(&[][..], |it| &it.all);
        self.unattended.begin(&self.session, begun_by, input.is_none());
        pieces.extend(notifications);
        let shown = arrivals.as_ref().map(|it| it.ids.clone()).unwrap_or_default();
        pieces.extend(arrivals.iter().flat_map(|it| it.pieces.iter().cloned()));
        match input {
            Some(input) => {
                let is_persons = input.is_persons();
                if is_persons {
                    self.session.add_person_words(input.words());
                }
                let (message, given) = input.into_parts();
                let count = pieces.len();
                pieces.extend(given);
                if is_persons {
                    self.transcript.begin_turn(&message, count, pieces, shown);
                } else {
                    self.transcript.tell(&message);
                    self.transcript.add_shown(Item::Person { pieces }, shown);
                }
            }
            None => self.transcript.add_shown(Item::Person { pieces }, shown),
        }
        arrivals.into_iter().for_each(|it| self.tell_of(it));
        Ok(())
    }

    /// Returns the messages that wait in the inbox, if there are any.
    fn arrivals(&self) -> Result<Option<Arrivals>, Fault> {
        Arrivals::waiting(&self.session, self.transcript.shown(), self.inbox)
    }

    /// Adds the messages of the inbox to the conversation between two steps of a turn.
    fn show_arrivals(&mut self) -> Result<(), Fault> {
        // An answer that was paused has to be continued as it is.
        if matches!(self.transcript.items().last(), Some(Item::Model { .. })) {
            return Ok(());
        }
        let Some(arrivals) = self.arrivals()? else { return Ok(()) };
        let mut pieces = self.transcript.notes();
        pieces.extend(arrivals.pieces.iter().cloned());
        self.transcript.add_shown(Item::Person { pieces }, arrivals.ids.clone());
        self.unattended.shows(&arrivals.all);
        self.tell_of(arrivals);
        Ok(())
    }

    /// Tells the person and the observer of messages that the model is shown.
    fn tell_of(&mut self, arrivals: Arrivals) {
        arrivals.of_person.iter().for_each(|it| self.session.add_person_words(it));
        arrivals.lines.iter().for_each(|it| self.transcript.tell(it));
        arrivals.events.into_iter().for_each(|it| self.host.observe(it));
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

/// Gives the session the tools by which its agent reaches others: all of them in a group, and the direct one to an agent that
/// another one started or that `leads` others. Blocks.
fn offer_messages(session: &Session, leads: bool) -> Result<(), Fault> {
    let member = session.runtime().store().channels().member(session.name())?;
    if let Some(member) = member.filter(|it| !it.environment.is_empty()) {
        let mut tools = vec!["group_send", "send_channel", "send_message"];
        if member.privileged {
            tools.extend(PRIVILEGED_TOOLS);
        }
        session.sends_by(&tools);
    } else if leads || session.agent().is_some() {
        session.sends_by(&["group_send"]);
    }
    Ok(())
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

fn sum(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one + other),
        (one, other) => one.or(other),
    }
}

fn text_of(said: &[MessagePart]) -> String {
    let texts = said
        .iter()
        .filter_map(|it| if let MessagePart::Text { text } = it { Some(text.as_str()) } else { None });
    texts.collect::<Vec<_>>().join("\n\n")
}

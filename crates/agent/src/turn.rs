//! One turn: the model answers and calls, until it has nothing more to call.
//!
//! A tool starts the moment its call closes in the stream, while the model still writes. Calls of one answer run
//! together as far as their locks allow; their results go back in the model's order.

mod between_turns;
mod request;
mod step;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use kit::{Fault, Spec, spans};
use parking_lot::Mutex;
use runtime::{
    Limits, Session,
    config::{STEPS, Visible},
};
use serde::Serialize;
use serde_json::Value;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tracing::Instrument as _;

use crate::{
    compaction::{
        Rate,
        size::{Context, ContextUsed},
    },
    event::{Event, Observer},
    images::Attached,
    input::Input,
    loop_detection::{Loops, changing},
    model::{Item, Model, ModelError, Piece, Said, Usage, Why},
    prompt::System,
    provider_tools,
    subagent::{Crew, Setup},
    transcript::Transcript,
};
pub use between_turns::{ChangedBy, Compacted, Rewound};
use step::Step;
pub(crate) use step::next_part;

/// How often in a row an answer may come to its longest without having called anything.
const CUT_SHORT: usize = 3;

/// How long the end of a turn that was stopped waits for the disk; what is queued gets there all the same.
const LAST_WRITE: Duration = Duration::from_millis(100);

/// An agent: a model, the tools of a session, and what was said.
pub struct Agent {
    session: Session,
    steering: Steering,
    crew: Option<Crew>,
    transcript: Transcript,
    bounds: Bounds,
    visible: Visible,
    host: Arc<dyn Observer>,
    shown: Shown,
    loops: Loops,
    attached: Attached,
    rate: Rate,
    /// What the provider counted for the last request and its answer.
    counted: Option<u64>,
    /// The JSON Schema that its last answer in a turn is to fit.
    format: Option<Arc<Value>>,
}

/// What an agent is made of.
pub struct Settings {
    /// The session whose tools it has, and which it goes on with.
    pub session: Session,
    /// Who answers.
    pub model: Arc<dyn Model>,
    /// What the model is told before everything else.
    pub system: System,
    /// How far one turn may go.
    pub bounds: Bounds,
    /// When the model is told of a tool that is new.
    pub visible: Visible,
    /// Who hears what it does.
    pub host: Arc<dyn Observer>,
}

/// What may be changed of an agent at any time, also in the middle of a turn: it counts from the next request on.
#[derive(Clone)]
pub struct Steering {
    inner: Arc<Mutex<Now>>,
    below: Arc<Mutex<(Usage, Option<f64>)>>,
}

struct Now {
    model: Arc<dyn Model>,
    system: System,
    /// How many tokens the newest request had, with its answer; and whether that is an estimate.
    size: (u64, bool),
}

impl Steering {
    /// Of an agent whose own answers come from elsewhere: for those that it starts.
    pub(crate) fn alone(model: Arc<dyn Model>) -> Self {
        Self::of(model, "".into())
    }

    fn of(model: Arc<dyn Model>, system: System) -> Self {
        let now = Now { model, system, size: (0, true) };
        Self { inner: Arc::new(Mutex::new(now)), below: Arc::default() }
    }

    /// Who answers.
    pub fn model(&self) -> Arc<dyn Model> {
        self.inner.lock().model.clone()
    }

    /// What the model is told before everything else.
    pub fn system(&self) -> Arc<str> {
        self.inner.lock().system.text().clone()
    }

    /// How much of the model's window is in use. Cheap, also while a turn goes on.
    pub fn context_used(&self) -> ContextUsed {
        let now = self.inner.lock();
        let (tokens, estimated) = now.size;
        ContextUsed { tokens, window: now.model.abilities().window, estimated }
    }

    fn set_size(&self, tokens: u64, estimated: bool) {
        self.inner.lock().size = (tokens, estimated);
    }

    /// Others used this on the agent's behalf, at this cost: what its turn reports includes it.
    pub fn add_below(&self, usage: Usage, cost: Option<f64>) {
        let mut below = self.below.lock();
        below.0 += usage;
        below.1 = sum(below.1, cost);
    }

    fn take_below(&self) -> (Usage, Option<f64>) {
        std::mem::take(&mut *self.below.lock())
    }

    /// Another model answers.
    pub fn set_model(&self, model: Arc<dyn Model>) {
        self.inner.lock().model = model;
    }

    /// The model is told something else before everything else.
    pub fn set_system(&self, system: System) {
        self.inner.lock().system = system;
    }
}

/// The tools that the model is shown.
#[derive(Default)]
struct Shown {
    tools: Arc<[Spec]>,
    /// What the session was limited to then.
    limits: Arc<Limits>,
}

/// How far one turn may go. Nothing is asked of the model beyond it: what was said until then stays, and the next turn
/// begins with a line that says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// At most so many answers of the model.
    pub steps: usize,
    /// After so many tokens, of requests and answers together, no further answer is asked for.
    pub tokens: Option<u64>,
    /// At most so long. An answer that is being given is stopped then, with its calls.
    pub time: Option<Duration>,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { steps: STEPS, tokens: None, time: None }
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
    /// What they used, with what it took to sum up the conversation.
    pub usage: Usage,
    /// What that costs, in dollars, where it is known.
    pub cost: Option<f64>,
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

/// Why a turn could not go on. What was said until then is kept, and the next turn goes on from there.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The model does not answer.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// What was said can't be kept, or read.
    #[error(transparent)]
    Kept(#[from] Fault),
}

impl Ended {
    /// Its name on the wire.
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
    /// What kind of error it is, in a word.
    fn name(&self) -> &'static str {
        match self {
            Self::Model(error) => error.breach.name(),
            Self::Kept(fault) => fault.kind.name(),
        }
    }
}

impl Agent {
    /// An agent that goes on where its session was left. Blocks.
    ///
    /// # Errors
    /// When another process goes on with the session, or what was said can't be read.
    pub fn open(settings: Settings) -> Result<Self, Fault> {
        let Settings { session, model, system, bounds, visible, host } = settings;
        let transcript = Transcript::open(&session)?;
        provider_tools::offer(&session, model.abilities());
        let changing = changing(session.catalog().specs());
        let loops = Loops::of(transcript.items(), |tool| changing.contains(tool));
        let steering = Steering::of(model, system);
        let agent = Self {
            session,
            steering,
            crew: None,
            transcript,
            bounds,
            visible,
            host,
            shown: Shown::default(),
            loops,
            attached: Attached::default(),
            rate: Rate::default(),
            counted: None,
            format: None,
        };
        agent.estimate_size();
        Ok(agent)
    }

    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The model.
    pub fn model(&self) -> Arc<dyn Model> {
        self.steering.model()
    }

    /// What was said.
    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    pub(crate) fn host(&self) -> &Arc<dyn Observer> {
        &self.host
    }

    /// Lets its tools switch its profile, start other agents and ask the person.
    pub fn set_crew(&mut self, setup: Setup) {
        let base = runtime::Limits::clone(&self.session.limits());
        let (host, setup) = (self.host.clone(), Arc::new(setup));
        self.crew = Some(Crew::new(&self.session, host, self.steering(), setup, (base, 0)));
    }

    /// By which its person switches its profile, where that can be done.
    pub fn crew(&self) -> Option<&Crew> {
        self.crew.as_ref()
    }

    /// By which its model and its system prompt are changed, also while a turn goes on.
    pub fn steering(&self) -> Steering {
        self.steering.clone()
    }

    /// How far a turn may go from now on.
    pub fn set_bounds(&mut self, bounds: Bounds) {
        self.bounds = bounds;
    }

    /// Has providers with structured output hold the text of answers to this JSON Schema. Others don't: whoever sets it says
    /// so in their words too, and checks the answer.
    pub fn set_format(&mut self, schema: Option<Arc<Value>>) {
        self.format = schema;
    }

    /// What the next request would hold, and how much of the model's window is left.
    pub fn context(&self) -> Context {
        let now = self.steering.inner.lock();
        let catalog = self.session.catalog();
        let (items, abilities) = (self.transcript.items(), now.model.abilities());
        let context = Context::measure(&now.system, catalog.listed(), items, abilities, self.rate);
        Context { counted: self.counted, ..context }
    }

    /// What there is now was not counted by a provider.
    fn estimate_size(&self) {
        let tokens = self.context().tokens;
        self.steering.set_size(tokens, true);
    }

    /// [`turn_with`](Self::turn_with) words alone; without any, it goes on where it was left, and does nothing where
    /// nothing is left to answer.
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

    /// Goes on with what the person says, until the model has nothing more to call.
    ///
    /// `cancel` stops it within 200 ms, and leaves a conversation that can go on. So does dropping the future.
    ///
    /// # Errors
    /// When the model does not answer, or what is said can't be kept.
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
        input: Option<Input>,
        cancel: &CancellationToken,
    ) -> Result<Outcome, AgentError> {
        // Of a turn that was dropped.
        self.transcript.mend(&self.session)?;
        let mut outcome = Outcome {
            ended: Ended::Done,
            text: String::new(),
            steps: 0,
            usage: Usage::default(),
            cost: None,
        };
        self.take(input);
        let Some(last) = self.transcript.items().last() else {
            return Err(Fault::bad_args("there is nothing to answer").next("Say what is to be done.").into());
        };
        if let Item::Model { said } = last {
            outcome.text = text_of(said);
            return Ok(outcome);
        }
        // Its own, as time stops it as well.
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

    /// Takes up what the person says and what happened meanwhile.
    fn take(&mut self, input: Option<Input>) {
        let news: Vec<Piece> = self.session.news().into_iter().map(Piece::text).collect();
        let is_said = matches!(self.transcript.items().last(), Some(Item::Model { .. }) | None);
        let mut pieces = self.transcript.notes();
        // What is only to be told along with something is not a reason to ask the model.
        if input.is_none() && news.is_empty() && (is_said || pieces.is_empty()) {
            return;
        }
        pieces.extend(news);
        match input {
            Some(input) => {
                let is_persons = input.is_persons();
                if is_persons {
                    self.session.said_by_person(input.words());
                }
                let (message, given) = input.into_parts();
                let news = pieces.len();
                pieces.extend(given);
                if is_persons {
                    self.transcript.begin_turn(&message, news, pieces);
                } else {
                    self.transcript.tell(&message);
                    self.transcript.add(Item::Person { pieces });
                }
            }
            None => self.transcript.add(Item::Person { pieces }),
        }
    }

    fn show_tools(&mut self, turn: bool) {
        let limits = self.session.limits();
        // Another model may have other tools of its provider's.
        let is_other = provider_tools::offer(&self.session, self.steering.model().abilities());
        let is_due = turn || self.visible == Visible::NextRequest;
        // What the session may no longer do is not shown, however patient the person is with what is new.
        if is_due || is_other || !Arc::ptr_eq(&limits, &self.shown.limits) {
            let tools: Arc<[Spec]> = self.session.catalog().listed().cloned().collect();
            if let Some(crew) = self.crew.as_ref().filter(|_| tools != self.shown.tools) {
                crew.tell_of_tools();
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
        let mut cut_short = 0;
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
            self.host.hear(Event::Used { usage: step.usage, cost });
            let (why, called, whole) = (step.why, step.has_calls(), step.whole);
            let unwritten = self.keep(step);
            // Who stops it when all is said already stops nothing.
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
                _ if !called => return Ok(()),
                _ => cut_short = 0,
            }
        }
    }

    /// Takes an answer into the conversation. Gives the tools of the calls that were not written to their end.
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
        // A picture alone is not a reason to ask the model again: it sees it when it is asked next.
        match pictures.is_empty() {
            true => {}
            false if goes_on => self.transcript.add(Item::Person { pieces: pictures }),
            false => self.transcript.show(pictures),
        }
        unwritten
    }
}

/// What the model is told of an answer that came to its longest.
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

fn text_of(said: &[Said]) -> String {
    let texts =
        said.iter().filter_map(|it| if let Said::Text { text } = it { Some(text.as_str()) } else { None });
    texts.collect::<Vec<_>>().join("\n\n")
}

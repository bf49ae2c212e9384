//! One answer of the model: reads its stream, and runs its calls while it streams.

mod parts;

use std::{
    any::Any,
    collections::{HashMap, HashSet},
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use futures_util::{Future, FutureExt, StreamExt, stream::FuturesUnordered};
use kit::{Fault, Kind, counted, services::Progress};
use runtime::{Answer, Arguments, Call, Session};
use store::credentials::{hide as hide_credentials, shown as without_credentials};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    answer::{AnsweredCall, answered_call},
    event::{Event, Observer, Shown},
    loop_detection::LoopDetector,
    model::{self, Events, MessagePart, ModelError, Piece, ResultOf, Usage, Why},
    summary_line,
    transcript::{Message, Transcript},
};
use parts::{Part, Parts};

/// Maximum length of a call's title in the person's transcript, in characters.
const TITLE: usize = 120;

/// Time that stopped calls have before haft answers for them. The runtime's own grace period is shorter.
const GRACE: Duration = Duration::from_millis(190);

/// Maximum length of an answer, in bytes of text, reasoning and arguments together. It is more than any model
/// writes; a longer answer is cut.
const LONGEST: usize = 8 << 20;

/// The longest tool name that every provider accepts.
const NAME: usize = 64;

/// The context of an answer.
pub(super) struct Around<'a> {
    pub(super) session: &'a Session,
    pub(super) host: &'a Arc<dyn Observer>,
    pub(super) transcript: &'a mut Transcript,
    pub(super) loops: &'a mut LoopDetector,
    /// The tools that may change something.
    pub(super) changing: &'a HashSet<String>,
    pub(super) cancel: &'a CancellationToken,
}

/// A complete answer, with the results of its calls.
pub(super) struct Step {
    parts: Parts,
    pub(super) usage: Usage,
    pub(super) why: Why,
    /// Whether the stream ended normally.
    pub(super) whole: bool,
    /// The tools of the calls that the model did not finish writing: they were not made.
    pub(super) unwritten: Vec<String>,
    /// The message to the model on calls that are not made because there were too many.
    pub(super) not_run: Option<String>,
    /// The pictures that the provider's own tools made, each with a line.
    pub(super) pictures: Vec<Piece>,
}

/// The reason why there is no answer.
pub(super) enum Broke {
    /// It was stopped before any text.
    Stopped,
    /// The model failed before any call began.
    Error(ModelError),
}

type Ending<'a> = Pin<Box<dyn Future<Output = (usize, AnsweredCall)> + Send + 'a>>;
type Running<'a> = FuturesUnordered<Ending<'a>>;

/// An answer while it streams.
struct Answering<'a> {
    around: Around<'a>,
    parts: Parts,
    /// The journal ids of the running calls, by their place in the answer.
    under_way: HashMap<usize, String>,
    usage: Usage,
    why: Option<Why>,
    /// The bytes of text and reasoning, of arguments as they are written, and of the arguments of complete
    /// calls.
    bytes: [usize; 3],
    /// Whether the stream ended normally.
    whole: bool,
    not_run: Option<String>,
    /// The pictures that the provider's own tools made, each with a line.
    pictures: Vec<Piece>,
}

impl Step {
    /// Reads the answer, runs its calls, and waits for them.
    pub(super) async fn run(around: Around<'_>, stream: Events) -> Result<Self, Broke> {
        let cancel = around.cancel;
        let mut answering = Answering {
            around,
            parts: Parts::default(),
            under_way: HashMap::new(),
            usage: Usage::default(),
            why: None,
            bytes: [0; 3],
            whole: false,
            not_run: None,
            pictures: Vec::new(),
        };
        let mut running = Running::new();
        let mut stream = Some(stream);
        let mut until = None;
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled(), if until.is_none() && (stream.is_some() || !running.is_empty()) => {
                    stream = None;
                    until = Some(Instant::now() + GRACE);
                }
                Some((at, heard)) = running.next(), if !running.is_empty() => answering.ended(at, heard),
                () = at(until), if until.is_some() && !running.is_empty() => {
                    drop(std::mem::take(&mut running));
                    answering.give_up();
                }
                event = next(&mut stream), if stream.is_some() => match event {
                    Some(Ok(event)) => {
                        if let Some(call) = answering.observe(event) {
                            running.push(call);
                        }
                        if answering.why.is_some() {
                            stream = None;
                        }
                    }
                    broke => {
                        stream = None;
                        let error = broke.and_then(Result::err).unwrap_or_else(|| {
                            ModelError::new(model::Breach::Broken, "the answer ended without its last part")
                        });
                        // A call that began can't be reverted: the answer consists of the parts so far.
                        if !answering.parts.has_calls() {
                            return Err(Broke::Error(error));
                        }
                        let text = format!("{error}; going on with the calls that were complete");
                        answering.around.host.observe(Event::Note { text });
                        answering.why = Some(Why::Calls);
                    }
                },
                else => break,
            }
        }
        answering.done()
    }

    pub(super) fn has_calls(&self) -> bool {
        self.parts.has_calls()
    }

    /// Returns the text of the answer.
    pub(super) fn text(&self) -> String {
        self.parts.text()
    }

    /// Returns the model's parts, and the results of its calls in its order.
    pub(super) fn into_items(self) -> (Vec<MessagePart>, Vec<ResultOf>) {
        self.parts.into_items()
    }
}

async fn next(stream: &mut Option<Events>) -> Option<Result<model::Event, ModelError>> {
    next_part(stream.as_mut()?).await
}

/// Returns the next part of an answer. A panic of the model counts as an answer that broke off.
pub(crate) async fn next_part(stream: &mut Events) -> Option<Result<model::Event, ModelError>> {
    AssertUnwindSafe(stream.next()).catch_unwind().await.unwrap_or_else(|panic| {
        let what = format!("the model panicked: {}", words(&*panic));
        Some(Err(ModelError::new(model::Breach::Malformed, what)))
    })
}

async fn at(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until).await,
        None => std::future::pending().await,
    }
}

impl<'a> Answering<'a> {
    /// Returns whether this part makes the answer too long. Such an answer ends like one that was cut off.
    fn is_too_long(&mut self, event: &model::Event) -> bool {
        let [said, written, called] = &mut self.bytes;
        match event {
            model::Event::Text(text) | model::Event::Reasoning(text) => {
                *said = said.saturating_add(text.len());
            }
            model::Event::CallGrew { bytes, .. } => *written = written.saturating_add(*bytes),
            model::Event::CallClosed { arguments, .. } => *called = called.saturating_add(arguments.len()),
            _ => {}
        }
        // Some wire formats report arguments only once they are complete.
        said.saturating_add(*written.max(called)) > LONGEST
    }

    /// Takes a part of the answer; returns the future of the call that it completes.
    fn observe(&mut self, event: model::Event) -> Option<Ending<'a>> {
        let host = self.around.host;
        if self.is_too_long(&event) {
            let text = format!("the answer has more than {LONGEST} bytes and was cut off there");
            host.observe(Event::Note { text });
            self.why = Some(Why::Length);
            return None;
        }
        match event {
            model::Event::Waiting { why, seconds } => host.observe(Event::Again { why, seconds }),
            model::Event::Text(text) => {
                self.parts.write(&text);
                host.observe(Event::Text { text });
            }
            model::Event::Reasoning(text) => host.observe(Event::Reasoning { text }),
            model::Event::CallBegan { index, tool } => {
                let call = self.parts.begin(index, &tool, || self.around.session.new_call_id());
                host.observe(Event::Writing { index, call, tool, bytes: 0 });
            }
            model::Event::CallGrew { index, bytes } => {
                if let Some((call, tool, bytes)) = self.parts.grow(index, bytes) {
                    host.observe(Event::Writing { index, call, tool, bytes });
                }
            }
            model::Event::CallClosed { index, id, tool, arguments } => {
                return Some(self.begin(index, id, tool, arguments));
            }
            model::Event::Opaque(said) => drop(self.parts.push(Part::Said(said))),
            model::Event::Picture { tool, mime, data } => self.picture(tool.name(), mime, &data),
            model::Event::NotRun { calls, most } => {
                let were = if calls == 1 { "was" } else { "were" };
                let text = format!(
                    "{} of the answer {were} not run: `max_calls` of `[agent]` in haft.toml is {most}",
                    counted(calls, "call")
                );
                host.observe(Event::Note { text });
                self.not_run = Some(not_run(calls, most));
            }
            model::Event::Used(usage) => self.usage = usage,
            model::Event::End(why) => {
                self.why = Some(why);
                self.whole = true;
            }
        }
        None
    }

    fn begin(&mut self, index: usize, id: String, tool: String, arguments: String) -> Ending<'a> {
        let session = self.around.session;
        let journal = self.parts.journal_of(index).unwrap_or_else(|| session.new_call_id());
        let id = self.own_id(id, &journal);
        let name = name(&tool);
        let call = MessagePart::Call { id: id.clone(), tool: name.clone(), arguments: arguments.clone() };
        let (place, before) = self.parts.close(index, call.clone());
        self.around.transcript.begin(before, place, call, &journal);
        self.under_way.insert(place, journal.clone());
        // Even if this process dies during the call, the person can read what led to it.
        let text = self.parts.untold(place);
        if !text.is_empty() {
            self.around.transcript.tell(&Message::model(text));
        }
        // Observers may show or store the event, so credentials are removed from it; the tool gets the
        // arguments unchanged.
        let shown = without_credentials(&arguments);
        self.around.host.observe(Event::Called {
            call: journal.clone(),
            tool: name.clone(),
            arguments: shown,
        });
        let progress = Arc::new(Lines { host: self.around.host.clone(), call: journal.clone() });
        let call = Call {
            tool,
            arguments: Arguments::Raw(arguments),
            cancel: self.around.cancel.child_token(),
            progress: Some(progress),
            id: Some(journal.clone()),
            by_person: false,
        };
        Box::pin(async move {
            // A panic of the tool before its call has begun would end the turn.
            let answer = AssertUnwindSafe(session.call(call)).catch_unwind().await.unwrap_or_else(|panic| {
                let fault = Fault::bug(format!("the tool panicked: {}", words(&*panic)));
                let (notes, changes) = (Vec::new(), Vec::new());
                Answer { id: journal, result: Err(fault), notes, changes, took: Duration::ZERO }
            });
            (place, answered_call(session, &id, &name, answer).await)
        })
    }

    /// Returns the id for a call's result: the model's own, if it is valid and unused.
    fn own_id(&self, id: String, journal: &str) -> String {
        if id.trim().is_empty() || self.around.transcript.has_id(&id) { journal.to_owned() } else { id }
    }

    fn ended(&mut self, at: usize, heard: AnsweredCall) {
        self.under_way.remove(&at);
        let Some((arguments, result)) = self.parts.open_call(at) else { return };
        let AnsweredCall { result: got, event, exit, pictures, ms } = heard;
        let line =
            got.pieces.first().map(|it| first_line(&summary_line(&it.line(), got.ok))).unwrap_or_default();
        let (tool, title) = (got.tool.clone(), first_line(&hide_credentials(arguments)));
        let message = Message::Tool { tool, title, ok: got.ok, exit, line, pictures, ms };
        let changes = self.around.changing.contains(&got.tool);
        let got = self.around.loops.look(got, arguments, changes);
        self.around.transcript.end(&got);
        *result = Some(got);
        let text = self.parts.untold(at);
        if !text.is_empty() {
            self.around.transcript.tell(&Message::model(text));
        }
        self.around.transcript.tell(&message);
        self.around.host.observe(event);
        if let Some(text) = self.around.loops.circling() {
            self.around.host.observe(Event::Note { text });
        }
    }

    /// Gives results to calls that did not stop in time.
    fn give_up(&mut self) {
        let mut left: Vec<(usize, String)> = self.under_way.drain().collect();
        left.sort_unstable();
        for (at, journal) in left {
            let Some((id, tool)) = self.parts.id_of(at) else { continue };
            let what =
                format!("`{tool}` was stopped and has not answered since: it may still end what it was at");
            let fault = Fault::new(Kind::Cancelled, what).next("Look before you repeat it.");
            let text = fault.as_text();
            let result = ResultOf {
                id,
                tool: tool.clone(),
                ok: false,
                pieces: vec![model::Piece::text(text.clone())],
            };
            let event = Event::Answered {
                call: journal,
                tool,
                ok: false,
                fault: Some(Kind::Cancelled),
                exit: None,
                ms: 0.0,
                text,
                pictures: Vec::new(),
                changes: Vec::new(),
                links: Vec::new(),
            };
            self.ended(at, AnsweredCall { result, event, exit: None, pictures: Vec::new(), ms: 0.0 });
        }
    }

    fn picture(&mut self, tool: &str, mime: String, data: &[u8]) {
        match self.around.session.keep_output(data) {
            Ok(handle) => {
                let text = format!("{tool}: [picture {handle}: {mime}]");
                self.around.transcript.tell(&Message::Note { text });
                let line = format!("`{tool}` made this picture, which is kept as {handle}:");
                let image = Piece::Image { mime: mime.clone(), handle: handle.clone(), data: None };
                self.pictures.extend([Piece::text(line), image]);
                let picture = Shown { handle, mime, bytes: data.len() };
                self.around.host.observe(Event::Picture { tool: tool.to_owned(), picture });
            }
            Err(fault) => {
                let text = format!("a picture can't be kept: {}", fault.what);
                self.pictures.push(Piece::text(format!("`{tool}` made a picture, and {text}")));
                self.around.host.observe(Event::Note { text });
            }
        }
    }

    fn done(self) -> Result<Step, Broke> {
        let Self { around, mut parts, usage, why, whole, not_run, pictures, .. } = self;
        let why = why.unwrap_or(Why::Done);
        let unwritten = parts.tidy(whole, !pictures.is_empty() || why == Why::Paused);
        if !whole && around.cancel.is_cancelled() && parts.is_empty() {
            return Err(Broke::Stopped);
        }
        let text = parts.untold(parts.len());
        if !text.is_empty() {
            around.transcript.tell(&Message::model(text));
        }
        Ok(Step { parts, usage, why, whole, unwritten, not_run, pictures })
    }
}

/// Returns the message to the model on calls beyond the limit of an answer.
fn not_run(calls: usize, most: usize) -> String {
    let all = calls.saturating_add(most);
    let made = match most {
        1 => "only the first was run: one call per answer".to_owned(),
        most => format!("only the first {most} were run, which is the most per answer"),
    };
    let left = match calls {
        1 => "The other one was not run: write it again if you still want it.".to_owned(),
        calls => format!("The other {calls} were not run: write them again if you still want them."),
    };
    format!("Your answer had {all} calls, and {made}. {left}")
}

/// Returns the tool's name in a form that every provider accepts; a model may invent any name.
fn name(tool: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
    let name: String = tool.chars().map(|it| if is_plain(it) { it } else { '_' }).take(NAME).collect();
    if name.is_empty() { "unnamed".to_owned() } else { name }
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(TITLE).collect()
}

/// Passes on the progress of a call.
pub(crate) struct Lines {
    pub(crate) host: Arc<dyn Observer>,
    pub(crate) call: String,
}

impl Progress for Lines {
    fn report(&self, done: f64, total: Option<f64>, message: &str) {
        let line = match (message, total) {
            ("", Some(total)) => format!("{done} of {total}"),
            ("", None) => format!("{done}"),
            (message, _) => message.to_owned(),
        };
        self.host.observe(Event::Progress { call: self.call.clone(), line });
    }
}

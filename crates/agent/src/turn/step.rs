//! One answer of the model, and the calls it makes while it is given.

use std::{pin::Pin, sync::Arc};

use futures_util::{Future, StreamExt, stream::FuturesUnordered};
use kit::services::Progress;
use runtime::{Answer, Arguments, Call, Session};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{
    answer::{Heard, heard},
    event::{Event, Host, Shown},
    model::{self, Events, ModelError, ResultOf, Said, Usage, Why},
    transcript::{Message, Transcript},
};

/// How much of a call a person's transcript has, in characters.
const TITLE: usize = 120;

/// An answer that is complete, with the results of its calls.
pub(super) struct Step {
    parts: Vec<Part>,
    pub(super) messages: Vec<Message>,
    pub(super) usage: Usage,
    pub(super) why: Why,
}

/// Why there is no answer.
pub(super) enum Broke {
    /// Somebody stopped it before it had said anything.
    Stopped,
    /// The model failed before anything was done.
    Error(ModelError),
}

/// A part of the answer.
enum Part {
    Said(Said),
    /// A call that is still being written.
    Writing {
        index: usize,
        tool: String,
        bytes: usize,
    },
    Called {
        call: Said,
        result: Option<ResultOf>,
    },
}

type Running<'a> = FuturesUnordered<Pin<Box<dyn Future<Output = (usize, Answer)> + Send + 'a>>>;

/// An answer while it is given.
struct Answering<'a> {
    session: &'a Session,
    host: &'a Arc<dyn Host>,
    transcript: &'a mut Transcript,
    parts: Vec<Part>,
    messages: Vec<Message>,
    usage: Usage,
    why: Option<Why>,
    cancel: &'a CancellationToken,
}

impl Step {
    /// Reads the answer, runs its calls, and waits for them.
    pub(super) async fn run(
        session: &Session,
        host: &Arc<dyn Host>,
        transcript: &mut Transcript,
        stream: Events,
        cancel: &CancellationToken,
    ) -> Result<Self, Broke> {
        let mut answering = Answering {
            session,
            host,
            transcript,
            parts: Vec::new(),
            messages: Vec::new(),
            usage: Usage::default(),
            why: None,
            cancel,
        };
        let mut running = Running::new();
        let mut stream = Some(stream);
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled(), if stream.is_some() => stream = None,
                Some((at, answer)) = running.next(), if !running.is_empty() => answering.ended(at, answer),
                event = next(&mut stream), if stream.is_some() => match event {
                    Some(Ok(event)) => {
                        if let Some(call) = answering.hear(event) {
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
                        // What was called can't be called back: the answer is what there is of it.
                        if !answering.has_calls() {
                            return Err(Broke::Error(error));
                        }
                        answering.host.hear(Event::Note { text: format!("{error}; going on with the calls that were complete") });
                        answering.why = Some(Why::Calls);
                    }
                },
                else => break,
            }
        }
        answering.done()
    }

    pub(super) fn has_calls(&self) -> bool {
        self.parts.iter().any(|it| matches!(it, Part::Called { .. }))
    }

    /// The text of the answer.
    pub(super) fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|it| {
            if let Part::Said(Said::Text { text }) = it { Some(text.as_str()) } else { None }
        });
        texts.collect::<Vec<_>>().join("\n\n")
    }

    /// What the model said, and the results of its calls in its order.
    pub(super) fn into_items(self) -> (Vec<Said>, Vec<ResultOf>) {
        let (mut said, mut results) = (Vec::new(), Vec::new());
        for part in self.parts {
            match part {
                Part::Said(it) => said.push(it),
                Part::Writing { .. } => {}
                Part::Called { call, result } => {
                    said.push(call);
                    results.extend(result);
                }
            }
        }
        (said, results)
    }
}

async fn next(stream: &mut Option<Events>) -> Option<Result<model::Event, ModelError>> {
    match stream {
        Some(stream) => stream.next().await,
        None => None,
    }
}

impl<'a> Answering<'a> {
    fn has_calls(&self) -> bool {
        self.parts.iter().any(|it| matches!(it, Part::Called { .. }))
    }

    /// Takes a part of the answer; gives the call that it completes, to be run.
    fn hear(
        &mut self,
        event: model::Event,
    ) -> Option<Pin<Box<dyn Future<Output = (usize, Answer)> + Send + 'a>>> {
        match event {
            model::Event::Waiting { why, seconds } => self.host.hear(Event::Again { why, seconds }),
            model::Event::Text(text) => {
                self.host.hear(Event::Text { text: text.clone() });
                match self.parts.last_mut() {
                    Some(Part::Said(Said::Text { text: before })) => before.push_str(&text),
                    _ => self.parts.push(Part::Said(Said::Text { text })),
                }
            }
            model::Event::Reasoning(text) => self.host.hear(Event::Reasoning { text }),
            model::Event::CallBegan { index, tool } => {
                self.host.hear(Event::Writing { index, tool: tool.clone(), bytes: 0 });
                self.parts.push(Part::Writing { index, tool, bytes: 0 });
            }
            model::Event::CallGrew { index, bytes } => {
                let writing = self.parts.iter_mut().find_map(|it| match it {
                    Part::Writing { index: this, tool, bytes } if *this == index => Some((tool, bytes)),
                    _ => None,
                });
                if let Some((tool, all)) = writing {
                    *all += bytes;
                    self.host.hear(Event::Writing { index, tool: tool.clone(), bytes: *all });
                }
            }
            model::Event::CallClosed { index, id, tool, arguments } => {
                return Some(self.begin(index, id, tool, arguments));
            }
            model::Event::Kept(said) => self.parts.push(Part::Said(said)),
            model::Event::Picture { tool, mime, data } => self.picture(tool.name(), mime, &data),
            model::Event::Used(usage) => self.usage = usage,
            model::Event::End(why) => self.why = Some(why),
        }
        None
    }

    fn begin(
        &mut self,
        index: usize,
        id: String,
        tool: String,
        arguments: String,
    ) -> Pin<Box<dyn Future<Output = (usize, Answer)> + Send + 'a>> {
        let journal = self.session.new_call_id();
        let id = self.own_id(id, &journal);
        let before: Vec<Said> = self.parts.iter().filter_map(Part::said).cloned().collect();
        let call = Said::Call { id, tool: tool.clone(), arguments: arguments.clone() };
        self.transcript.begin(&before, &call, &journal);
        let place = self
            .parts
            .iter()
            .position(|it| matches!(it, Part::Writing { index: this, .. } if *this == index));
        let called = Part::Called { call, result: None };
        let at = match place.and_then(|at| self.parts.get_mut(at).map(|part| (at, part))) {
            Some((at, part)) => {
                *part = called;
                at
            }
            None => {
                self.parts.push(called);
                self.parts.len() - 1
            }
        };
        let shown = serde_json::from_str(&arguments).unwrap_or_else(|_| Value::String(arguments.clone()));
        self.host.hear(Event::Called { call: journal.clone(), tool: tool.clone(), arguments: shown });
        let progress = Arc::new(Lines { host: self.host.clone(), call: journal.clone() });
        let call = Call {
            tool,
            arguments: Arguments::Raw(arguments),
            cancel: self.cancel.child_token(),
            progress: Some(progress),
            id: Some(journal),
        };
        let session = self.session;
        Box::pin(async move { (at, session.call(call).await) })
    }

    /// The id that a call's result goes back under: the model's own, where that is one.
    fn own_id(&self, id: String, journal: &str) -> String {
        let taken =
            |it: &Part| matches!(it, Part::Called { call: Said::Call { id: other, .. }, .. } if *other == id);
        if id.is_empty() || self.parts.iter().any(taken) { journal.to_owned() } else { id }
    }

    fn ended(&mut self, at: usize, answer: Answer) {
        let Some(Part::Called { call: Said::Call { id, tool, arguments }, result }) = self.parts.get_mut(at)
        else {
            return;
        };
        let Heard { result: got, event, ms } = heard(self.session, id, tool, answer);
        self.transcript.end(&got);
        let line = got.pieces.first().map(|it| first_line(&it.line())).unwrap_or_default();
        let title = first_line(arguments);
        self.messages.push(Message::Tool { tool: tool.clone(), title, ok: got.ok, line, ms });
        *result = Some(got);
        self.host.hear(event);
    }

    fn picture(&mut self, tool: &str, mime: String, data: &[u8]) {
        match self.session.keep_output(data) {
            Ok(handle) => {
                let picture = Shown { handle, mime, bytes: data.len() };
                self.host.hear(Event::Picture { tool: tool.to_owned(), picture });
            }
            Err(fault) => {
                self.host.hear(Event::Note { text: format!("a picture can't be kept: {}", fault.what) })
            }
        }
    }

    fn done(self) -> Result<Step, Broke> {
        let stopped = self.cancel.is_cancelled();
        let mut parts = self.parts;
        parts.retain(|it| !matches!(it, Part::Writing { .. }));
        if stopped && parts.is_empty() {
            return Err(Broke::Stopped);
        }
        let why = self.why.unwrap_or(Why::Done);
        Ok(Step { parts, messages: self.messages, usage: self.usage, why })
    }
}

impl Part {
    fn said(&self) -> Option<&Said> {
        match self {
            Self::Said(said) | Self::Called { call: said, .. } => Some(said),
            Self::Writing { .. } => None,
        }
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(TITLE).collect()
}

/// Passes on how far a call has come.
struct Lines {
    host: Arc<dyn Host>,
    call: String,
}

impl Progress for Lines {
    fn report(&self, done: f64, total: Option<f64>, message: &str) {
        let line = match (message, total) {
            ("", Some(total)) => format!("{done} of {total}"),
            ("", None) => format!("{done}"),
            (message, _) => message.to_owned(),
        };
        self.host.hear(Event::Progress { call: self.call.clone(), line });
    }
}

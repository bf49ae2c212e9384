//! Spans of a running haft: every name and field that a tracing subscriber sees, in one place.
//!
//! All have the target [`TARGET`] and the level `INFO`. Names and fields are stable: what reads traces may count on them.
//! No field holds what a model, a tool or a file said: only names, numbers and kinds. Times are in milliseconds, sizes in
//! bytes. A field whose value is not known, or does not apply, is absent. Without a subscriber that wants them, spans cost
//! next to nothing.
//!
//! | span | one for each | fields |
//! |---|---|---|
//! | `turn` | turn of an agent | `session`, `agent` (a sub-agent's name), `steps`, `input_tokens`, `output_tokens`, `ended`, `ms` |
//! | `step` | answer of the model with the calls it makes, in a `turn` | `number` (in the conversation), `ms` |
//! | `request` | request to a model, in a `step`; a retry is one of its own | `model`, `input_tokens`, `output_tokens`, `ended`, `ms` |
//! | `call` | call of a tool, whoever makes it | `session`, `call` (its id in the journal), `tool`, `kind`, `decision`, `lock_ms`, `approval_ms`, `sandbox_ms` (where it had to be built), `outcome` (`ok` or the fault's kind), `bytes` (of the output before truncation), `ms` (until the answer) |
//! | `job` | call that goes on in the background, in its `call` | `job`, `state`, `ms` (until its end) |
//! | `mcp_request` | request of the Model Context Protocol | `side` (`server`: haft answers; `client`: haft asks), `server` (its name in haft.toml), `method`, `target` (a tool, prompt or resource), `id`, `outcome` (`ok`, the error's code, or why there is none), `ms` |
//! | `plugin_process` | process that runs tool files, for as long as it lives | `file`, `interpreter`, `sandbox_ms`, `ms` |
//!
//! Log lines hang below the span that they belong to. A `plugin_process` outlives the call that starts it, so it is below no
//! span, and follows from the call.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use tracing::{Span, field::Empty, info_span};

use crate::{Kind, Kinds};

/// The target of all spans: `HAFT_LOG=spans=info` shows them and nothing else.
pub const TARGET: &str = "spans";

/// Defines a span that records `ms` when it is dropped, unless that was done before.
macro_rules! timed {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name {
            span: Span,
            began: Instant,
            is_recorded: AtomicBool,
        }

        impl $name {
            fn of(span: Span) -> Self {
                Self { span, began: Instant::now(), is_recorded: false.into() }
            }

            /// Returns the span, to be entered by the work that belongs to it.
            pub fn span(&self) -> Span {
                self.span.clone()
            }

            /// Records `ms`, the time until now; only the first call has an effect.
            fn took(&self) {
                if !self.is_recorded.swap(true, Ordering::Relaxed) {
                    self.span.record("ms", ms(self.began.elapsed()));
                }
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                self.took();
            }
        }
    };
}

timed! {
    /// A turn of an agent.
    Turn
}

timed! {
    /// An answer of the model with the calls that it makes.
    Step
}

timed! {
    /// A request to a model.
    Request
}

timed! {
    /// A call of a tool.
    Call
}

timed! {
    /// A call that goes on in the background.
    Job
}

timed! {
    /// A request of the Model Context Protocol.
    McpRequest
}

timed! {
    /// A process that runs tool files.
    PluginProcess
}

impl Turn {
    /// Begins a turn in this session; `agent` is the name of the sub-agent, if it is one.
    pub fn begin(session: &str, agent: Option<&str>) -> Self {
        Self::of(info_span!(
            target: TARGET, "turn", session, agent, steps = Empty, input_tokens = Empty, output_tokens = Empty,
            ended = Empty, ms = Empty,
        ))
    }

    /// Ends it: after `steps` model responses, with the tokens of all its requests and responses.
    pub fn ended(&self, steps: usize, (input, output): (u64, u64), ended: &str) {
        self.span.record("steps", steps);
        tokens(&self.span, (input, output));
        self.span.record("ended", ended);
    }

    /// Ends it with this kind of error.
    pub fn failed(&self, error: &str) {
        self.span.record("ended", error);
    }
}

impl Step {
    /// Begins the step of this number in the conversation.
    pub fn begin(number: usize) -> Self {
        Self::of(info_span!(target: TARGET, "step", number, ms = Empty))
    }
}

impl Request {
    /// Begins a request to this model.
    pub fn begin(model: &str) -> Self {
        Self::of(info_span!(
            target: TARGET, "request", model, input_tokens = Empty, output_tokens = Empty, ended = Empty, ms = Empty,
        ))
    }

    /// Records the tokens that the provider counted, for the request and the response.
    pub fn used(&self, input: u64, output: u64) {
        tokens(&self.span, (input, output));
    }

    /// Ends it, with the reason why the response ended, or the kind of error.
    pub fn ended(&self, why: &str) {
        self.span.record("ended", why);
    }
}

impl Call {
    /// Begins the call of this id.
    pub fn begin(session: &str, call: &str, tool: &str) -> Self {
        Self::of(info_span!(
            target: TARGET, "call", session, call, tool, kind = Empty, decision = Empty, lock_ms = Empty,
            approval_ms = Empty, sandbox_ms = Empty, outcome = Empty, bytes = Empty, ms = Empty,
        ))
    }

    /// Records the kinds that it touches.
    pub fn touches(&self, kinds: Kinds) {
        self.span.record("kind", tracing::field::display(kinds));
    }

    /// Records the decision, as in the journal.
    pub fn decided(&self, decision: &str) {
        self.span.record("decision", decision);
    }

    /// Records how long it waited for its locks, and for a person's approval.
    pub fn waited(&self, lock: Duration, approval: Duration) {
        self.span.record("lock_ms", ms(lock));
        self.span.record("approval_ms", ms(approval));
    }

    /// Records that it was answered. It may go on as a job.
    pub fn answered(&self) {
        self.took();
    }

    /// Ends it, with an output of `bytes` bytes, or a fault.
    pub fn ended(&self, fault: Option<Kind>, bytes: u64) {
        self.span.record("outcome", fault.map_or("ok", Kind::name));
        self.span.record("bytes", bytes);
    }
}

impl Job {
    /// Begins the job of this id, below the span that is entered.
    pub fn begin(job: &str) -> Self {
        Self::of(info_span!(target: TARGET, "job", job, state = Empty, ms = Empty))
    }

    /// Ends it.
    pub fn ended(&self, state: &str) {
        self.span.record("state", state);
    }
}

impl McpRequest {
    /// Begins a request that haft answers.
    pub fn served(method: &str, target: Option<&str>, id: &dyn std::fmt::Display) -> Self {
        let id = tracing::field::display(id);
        Self::of(info_span!(
            target: TARGET, "mcp_request", side = "server", method, target, id, outcome = Empty, ms = Empty,
        ))
    }

    /// Begins a request to the server of this name.
    pub fn sent(server: &str, method: &str, target: Option<&str>) -> Self {
        Self::of(info_span!(
            target: TARGET, "mcp_request", side = "client", server, method, target, outcome = Empty, ms = Empty,
        ))
    }

    /// Ends it, with a result, or an error of this code.
    pub fn ended(&self, error: Option<i32>) {
        match error {
            None => self.span.record("outcome", "ok"),
            Some(code) => self.span.record("outcome", code),
        };
    }

    /// Ends it without an answer, for this kind of reason.
    pub fn failed(&self, why: &str) {
        self.span.record("outcome", why);
    }
}

impl PluginProcess {
    /// Begins a process for this file, or for several.
    pub fn begin(file: Option<&Path>, interpreter: Option<&str>) -> Self {
        let file = file.and_then(Path::file_name).map(|it| tracing::field::debug(it.to_owned()));
        let span = info_span!(
            target: TARGET, parent: None, "plugin_process", file, interpreter, sandbox_ms = Empty, ms = Empty,
        );
        span.follows_from(Span::current());
        Self::of(span)
    }
}

/// Records the time that building a sandbox took for the call or plugin process whose span is entered.
pub fn sandbox_started(took: Duration) {
    Span::current().record("sandbox_ms", ms(took));
}

fn tokens(span: &Span, (input, output): (u64, u64)) {
    span.record("input_tokens", input);
    span.record("output_tokens", output);
}

/// In milliseconds, to the microsecond.
fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

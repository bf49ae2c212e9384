//! Scripted models: take their answers from a file, for demos and tests.
//!
//! A script has one JSON object on each line; empty lines and lines that begin with `#` are ignored. A line
//! with `say` or `calls` is one answer of the model; the number of answers in the conversation selects the
//! line, so a resumed conversation continues where it stopped. A line with `fault` belongs to the answer
//! below it, and makes one request for that answer fail.
//!
//! ```json
//! {"say": "I run the tests.", "calls": [{"tool": "shell", "arguments": {"command": "python3 -m unittest"}}]}
//! {"fault": "busy"}
//! {"expect": ["FAILED"], "say": "I mend it.", "calls": [{"tool": "edit", "arguments": {"path": "sum.py", "old": "-", "new": "+"}}]}
//! {"say": "Done."}
//! ```

use std::{collections::HashMap, fmt::Write as _, path::Path, sync::Arc, time::Duration};

use async_stream::stream;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;

use super::{Abilities, Breach, Event, Events, Item, Model, ModelError, Piece, Price, Request, Usage, Why};

/// Maximum size of a script, in bytes.
const LARGEST: u64 = 16 * 1024 * 1024;

/// A model with scripted answers.
pub struct Script {
    name: String,
    abilities: Abilities,
    answers: Arc<[Answer]>,
    /// The number of planned failures so far, for each answer.
    failed: Arc<Mutex<HashMap<usize, usize>>>,
}

/// One answer, and the faults before it.
#[derive(Debug, Clone)]
struct Answer {
    line: usize,
    written: Line,
    faults: Vec<Fault>,
}

/// One line of a script.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    /// The text of the answer.
    #[serde(default)]
    say: String,
    /// The reasoning, which comes first.
    #[serde(default)]
    think: String,
    /// The calls after the text.
    #[serde(default)]
    calls: Vec<Call>,
    /// Texts that the last input of the model must contain; otherwise the script ends with an error.
    #[serde(default)]
    expect: Vec<String>,
    /// The number of parts of the text and of each call's arguments.
    chunks: Option<usize>,
    /// The pause before each part, in milliseconds.
    #[serde(default)]
    chunk_ms: u64,
    /// The pause before the first part, in milliseconds.
    #[serde(default)]
    after_ms: u64,
    /// The pause between the last part and the end of the answer, in milliseconds.
    #[serde(default)]
    end_ms: u64,
    /// The end reason, if not the usual one.
    end: Option<Why>,
    /// The tokens used.
    usage: Option<Usage>,
    /// The failure of the request.
    fault: Option<Fault>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    tool: String,
    #[serde(default)]
    arguments: Value,
    /// The arguments as raw text, which need not be JSON.
    raw: Option<String>,
    id: Option<String>,
}

/// The kinds of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Fault {
    /// The provider is overloaded.
    Busy,
    /// The key is wrong.
    Auth,
    /// The conversation is too long.
    TooLong,
    /// The stream breaks in the middle of the answer.
    Cut,
    /// The stream breaks before the last call is closed, and after the others.
    CutLastCall,
    /// The stream is malformed.
    Malformed,
}

impl Script {
    /// Reads a script from a file.
    ///
    /// # Errors
    /// When it can't be read, or a line is not an answer; the error names the line.
    pub fn read(path: &Path) -> Result<Self, kit::Fault> {
        let shown = path.display();
        let unreadable = |why: String| {
            kit::Fault::not_found(format!("the script `{shown}` can't be read: {why}"))
                .next("Name a file of lines such as {\"say\": \"Hello.\"} with `--model script:FILE`.")
        };
        let about = std::fs::metadata(path).map_err(|error| unreadable(error.to_string()))?;
        if !about.is_file() || about.len() > LARGEST {
            return Err(unreadable(format!("it is not a regular file of at most {LARGEST} bytes")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
        Self::parse(&format!("script:{shown}"), &text)
    }

    /// Parses a script.
    ///
    /// # Errors
    /// When a line is not an answer.
    pub fn parse(name: &str, text: &str) -> Result<Self, kit::Fault> {
        let mut answers = Vec::new();
        let mut faults = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            if line.trim().is_empty() || line.trim_start().starts_with('#') {
                continue;
            }
            let mut written: Line = serde_json::from_str(line).map_err(|error| {
                kit::Fault::bad_args(format!("line {number} of {name} is not an answer of a model: {error}"))
                    .next(
                        "A line is {\"say\": \"…\", \"calls\": [{\"tool\": \"read\", \"arguments\": {…}}]}.",
                    )
            })?;
            match written.fault.take() {
                Some(fault) => faults.push(fault),
                None => answers.push(Answer { line: number, written, faults: std::mem::take(&mut faults) }),
            }
        }
        Ok(Self::of(name, answers))
    }

    fn of(name: &str, answers: Vec<Answer>) -> Self {
        let abilities = Abilities {
            calls: true,
            images: true,
            window: 200_000,
            longest: 32_000,
            own_tools: Vec::new(),
            price: Some(Price::default()),
        };
        let failed = Arc::default();
        Self { name: name.to_owned(), abilities, answers: answers.into(), failed }
    }

    /// Creates a script without answers.
    pub fn empty() -> Self {
        Self::of("script:", Vec::new())
    }

    /// Removes all pauses.
    #[must_use]
    pub fn without_pauses(mut self) -> Self {
        let at_once = |answer: Answer| Answer {
            written: Line { chunk_ms: 0, after_ms: 0, end_ms: 0, ..answer.written },
            ..answer
        };
        self.answers = self.answers.iter().cloned().map(at_once).collect();
        self
    }

    /// Sets the abilities.
    #[must_use]
    pub fn with(mut self, abilities: Abilities) -> Self {
        self.abilities = abilities;
        self
    }
}

impl Model for Script {
    fn name(&self) -> &str {
        &self.name
    }

    fn abilities(&self) -> &Abilities {
        &self.abilities
    }

    fn stream(&self, request: Request) -> Events {
        let (answers, failed, name) = (self.answers.clone(), self.failed.clone(), self.name.clone());
        Box::pin(stream! {
            let step = request.step;
            let Some(answer) = answers.get(step) else {
                let what = format!("{name} has {} answers, and this would be answer {}", answers.len(), step + 1);
                yield Err(ModelError::new(Breach::Refused, what));
                return;
            };
            let fault = answer.next_fault(step, &failed);
            pause(answer.written.after_ms).await;
            if let Some(error) = fault.and_then(Fault::at_once) {
                yield Err(error);
                return;
            }
            if let Some(missing) = answer.missing(&request.items) {
                let what = format!("{name}, line {}: `{missing}` is not in what the model was sent last:\n{}",
                    answer.line, last(&request.items));
                yield Err(ModelError::new(Breach::Refused, what));
                return;
            }
            let parts = answer.parts(step, &request);
            let until = match fault {
                Some(Fault::Cut) => parts.len() / 2,
                Some(Fault::CutLastCall) => {
                    parts.iter().rposition(|it| matches!(it, Event::CallClosed { .. })).unwrap_or_default()
                }
                _ => parts.len(),
            };
            for (index, part) in parts.into_iter().enumerate() {
                if index == until {
                    let what = "the stream of the answer broke off".to_owned();
                    yield Err(ModelError::new(Breach::Broken, what));
                    return;
                }
                match part {
                    Event::Used(_) => pause(answer.written.end_ms).await,
                    Event::CallBegan { .. } | Event::CallClosed { .. } | Event::End(_) => {}
                    _ => pause(answer.written.chunk_ms).await,
                }
                yield Ok(part);
            }
        })
    }
}

async fn pause(ms: u64) {
    if ms > 0 {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}

impl Fault {
    /// Returns the error of a request that fails before any answer.
    fn at_once(self) -> Option<ModelError> {
        let (breach, what) = match self {
            Self::Busy => (Breach::Busy, "the script says that the provider has no room"),
            Self::Auth => (Breach::Auth, "the script says that the key is wrong"),
            Self::TooLong => (Breach::TooLong, "the script says that the conversation is too long"),
            Self::Malformed => (Breach::Malformed, "the script says that the answer makes no sense"),
            Self::Cut | Self::CutLastCall => return None,
        };
        Some(ModelError::new(breach, what))
    }
}

impl Answer {
    /// Returns the planned failure of this request, if any.
    fn next_fault(&self, step: usize, failed: &Mutex<HashMap<usize, usize>>) -> Option<Fault> {
        let mut failed = failed.lock();
        let count = failed.entry(step).or_default();
        let fault = self.faults.get(*count).copied();
        *count += usize::from(fault.is_some());
        fault
    }

    /// Returns the first expected text that the last item does not contain.
    fn missing(&self, items: &[Item]) -> Option<&str> {
        let last = last(items);
        self.written.expect.iter().map(String::as_str).find(|it| !last.contains(it))
    }

    /// Returns the parts of the answer.
    fn parts(&self, step: usize, request: &Request) -> Vec<Event> {
        let written = &self.written;
        let chunks = written.chunks.unwrap_or(1);
        let mut parts: Vec<Event> =
            cut(&written.think, chunks).map(|it| Event::Reasoning(it.to_owned())).collect();
        parts.extend(cut(&written.say, chunks).map(|it| Event::Text(it.to_owned())));
        for (index, call) in written.calls.iter().enumerate() {
            let arguments = match (&call.raw, &call.arguments) {
                (Some(raw), _) => raw.clone(),
                (None, Value::Null) => "{}".to_owned(),
                (None, arguments) => arguments.to_string(),
            };
            parts.push(Event::CallBegan { index, tool: call.tool.clone() });
            parts.extend(cut(&arguments, chunks).map(|it| Event::CallGrew { index, bytes: it.len() }));
            let id = call.id.clone().unwrap_or_else(|| format!("call_{step}_{index}"));
            parts.push(Event::CallClosed { index, id, tool: call.tool.clone(), arguments });
        }
        let said = written.say.len()
            + written.think.len()
            + written.calls.iter().map(|it| it.arguments.to_string().len()).sum::<usize>();
        let tokens = |bytes: usize| (bytes as u64).div_ceil(4);
        let estimate = Usage { input: tokens(size(request)), output: tokens(said), ..Usage::default() };
        parts.push(Event::Used(written.usage.unwrap_or(estimate)));
        let plain = if written.calls.is_empty() { Why::Done } else { Why::Calls };
        parts.push(Event::End(written.end.unwrap_or(plain)));
        parts
    }
}

/// Splits `text` into about `chunks` pieces, between characters.
fn cut(text: &str, chunks: usize) -> impl Iterator<Item = &str> {
    let each = text.len().div_ceil(chunks.max(1)).max(1);
    let mut rest = text;
    std::iter::from_fn(move || {
        let at = rest.ceil_char_boundary(each.min(rest.len()));
        let (piece, after) = rest.split_at(at);
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

fn size(request: &Request) -> usize {
    let said: usize = request.items.iter().map(|it| serde_json::to_string(it).map_or(0, |it| it.len())).sum();
    request.system.len() + said
}

/// Returns the last input of the model, as text.
fn last(items: &[Item]) -> String {
    match items.last() {
        Some(Item::Person { pieces }) => Piece::lines(pieces),
        Some(Item::Results { results }) => results.iter().fold(String::new(), |mut text, it| {
            let _ = writeln!(text, "{}", Piece::lines(&it.pieces));
            text
        }),
        Some(Item::Model { .. }) | None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use futures_util::StreamExt;

    use super::*;

    fn request(step: usize, items: Vec<Item>) -> Request {
        Request { system: "".into(), items, tools: Arc::default(), step, longest: None, format: None }
    }

    async fn play(script: &Script, step: usize, items: Vec<Item>) -> Vec<Result<Event, ModelError>> {
        script.stream(request(step, items)).collect().await
    }

    #[tokio::test]
    async fn chunks_make_up_the_answer() {
        let script = Script::parse(
            "s",
            r#"{"say": "grüße", "chunks": 3, "calls": [{"tool": "read", "arguments": {"path": "a"}}]}"#,
        )
        .unwrap();
        let events: Vec<Event> = play(&script, 0, Vec::new()).await.into_iter().map(Result::unwrap).collect();
        let text: String = events
            .iter()
            .filter_map(|it| if let Event::Text(text) = it { Some(text.as_str()) } else { None })
            .collect();
        assert_eq!(text, "grüße");
        let closed = events.iter().find(|it| matches!(it, Event::CallClosed { .. })).unwrap();
        let Event::CallClosed { arguments, id, .. } = closed else { unreachable!() };
        assert_eq!((arguments.as_str(), id.as_str()), (r#"{"path":"a"}"#, "call_0_0"));
        assert_eq!(events.last(), Some(&Event::End(Why::Calls)));
    }

    #[tokio::test]
    async fn fault_fails_one_request_and_the_retry_gets_the_answer() {
        let script = Script::parse(
            "s",
            "# first\n{\"fault\": \"busy\"}\n{\"fault\": \"cut\"}\n{\"say\": \"abcd\", \"chunks\": 4}\n",
        )
        .unwrap();
        let first = play(&script, 0, Vec::new()).await;
        assert_eq!(first.len(), 1);
        assert_eq!(first.first().unwrap().as_ref().unwrap_err().breach, Breach::Busy);
        let second = play(&script, 0, Vec::new()).await;
        assert_eq!(second.last().unwrap().as_ref().unwrap_err().breach, Breach::Broken);
        assert!(second.len() > 1);
        assert!(play(&script, 0, Vec::new()).await.iter().all(Result::is_ok));
    }

    #[tokio::test]
    async fn missing_expected_text_ends_the_script_with_the_actual_text() {
        let script = Script::parse("s", r#"{"expect": ["FAILED"], "say": "x"}"#).unwrap();
        let error = play(&script, 0, vec![Item::person("all ok")]).await.remove(0).unwrap_err();
        assert!(error.what.contains("FAILED") && error.what.contains("all ok"), "{}", error.what);
        assert!(play(&script, 0, vec![Item::person("2 FAILED")]).await.iter().all(Result::is_ok));
    }

    #[tokio::test]
    async fn end_of_the_script_and_invalid_lines_are_errors() {
        let script = Script::parse("s", r#"{"say": "x"}"#).unwrap();
        let error = play(&script, 1, Vec::new()).await.remove(0).unwrap_err();
        assert!(error.what.contains("1 answers"), "{}", error.what);
        let Err(fault) = Script::parse("s", "{\"say\": \"x\"}\n{\"sya\": 1}") else { unreachable!() };
        assert!(fault.what.contains("line 2") && fault.what.contains("sya"), "{}", fault.what);
    }
}

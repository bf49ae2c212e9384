//! `haft run --output-schema`: a final answer in JSON that fits a schema, or an error.
//!
//! haft describes the schema to the model in the prompt, passes it to providers with structured output, and checks the
//! answer in any case. If an answer does not fit, haft requests another one and names the error.

use std::path::Path;

use agent::{
    Agent, AgentError, Driver, Ended, Input, Outcome, Settled,
    model::{Piece, Usage},
};
use kit::{Fault, Kind};
use runtime::AnswerSchema;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::print;

/// Maximum number of retries after an answer that does not fit.
const AGAIN: usize = 2;

/// Maximum size of a schema, in bytes: it is sent with the task.
const LARGEST: u64 = 256 << 10;

/// The result of a run.
pub(super) struct Done {
    pub(super) settled: Settled,
    /// The answer that fits, or the error of the last one; `None` if no schema was given or there is no answer.
    pub(super) output: Option<Result<Value, String>>,
}

impl Done {
    /// The result of a run without a turn.
    pub(super) fn nothing() -> Self {
        let outcome = Outcome {
            ended: Ended::Done,
            text: String::new(),
            steps: 0,
            usage: Usage::default(),
            cost: None,
        };
        Self { settled: Settled { outcome, late: Vec::new() }, output: None }
    }
}

/// Reads the schema in this file.
///
/// # Errors
/// When it can't be read, or is not a JSON Schema.
pub(super) fn read(path: &Path) -> Result<AnswerSchema, Fault> {
    let shown = path.display();
    let unreadable = |why: String| {
        Fault::bad_args(format!("the output schema `{shown}` can't be read: {why}"))
            .next("Name a file with a JSON Schema with `--output-schema FILE`.")
    };
    let about = std::fs::metadata(path).map_err(|error| unreadable(error.to_string()))?;
    if about.len() > LARGEST {
        return Err(unreadable(format!("it has {} bytes; at most {LARGEST} are read", about.len())));
    }
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
    let schema = AnswerSchema::parse(&text)
        .map_err(|fault| Fault { what: format!("{shown}: {}", fault.what), ..fault })?;
    for line in schema.unchecked() {
        print::err(&format!("haft: {shown}: {line}; that is not checked"));
    }
    Ok(schema)
}

/// Works on the task until all pending results are there and its answer fits, or the retries are used up.
///
/// # Errors
/// When the model does not answer, or the conversation can't be saved.
pub(super) async fn work(
    driver: &mut Driver,
    agent: &mut Agent,
    input: Option<Input>,
    schema: Option<&AnswerSchema>,
    cancel: &CancellationToken,
) -> Result<Done, AgentError> {
    let Some(schema) = schema else {
        return Ok(Done { settled: driver.settle(agent, input, cancel).await?, output: None });
    };
    agent.set_format(Some(schema.schema().clone()));
    let input = input.map(|mut input| {
        input.attach("output schema", vec![Piece::text(wanted(schema))]);
        input
    });
    let mut settled = driver.settle(agent, input, cancel).await?;
    for again in 0.. {
        if settled.outcome.ended != Ended::Done {
            break;
        }
        match schema.fit(&settled.outcome.text) {
            Ok(value) => return Ok(Done { settled, output: Some(Ok(value)) }),
            Err(why) if again == AGAIN => return Ok(Done { settled, output: Some(Err(why)) }),
            Err(why) => {
                let told = format!("Your last answer does not fit: {why}\n{}", wanted(schema));
                let more = driver.settle(agent, Some(Input::of_program(told)), cancel).await?;
                settled.outcome.add(more.outcome);
                settled.late = more.late;
            }
        }
    }
    Ok(Done { settled, output: None })
}

/// Returns the prompt that describes the form of the answer.
fn wanted(schema: &AnswerSchema) -> String {
    format!(
        "When the task is done, answer with one JSON value that fits this JSON Schema, and with nothing else: no text around \
         it and no code fence. Until then call tools as you need them.\n{}",
        schema.schema()
    )
}

/// Returns the fault for a run in which no answer fits.
pub(super) fn misfit(why: &str) -> Fault {
    let what = format!("no answer fits the output schema, after {} tries: {why}", AGAIN + 1);
    Fault::new(Kind::Failed, what)
        .next("Say in the task what each field is to hold, loosen the schema, or name another model with `--model`.")
}

//! Tools of the suite that become tasks.

use std::time::Duration;

use kit::{Fault, Kind, Output, Spec};
use serde_json::{Map, Value, json};
use serve::Client;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{
    asking::{field, form, greeting, one},
    spec, text,
};

/// The time limit for tools that become a task only after they have asked.
const SHORT: Duration = Duration::from_millis(20);

/// A time longer than that limit.
const LONG: Duration = Duration::from_millis(500);

pub(super) fn specs() -> Vec<Spec> {
    let of = |properties: Value| json!({"type": "object", "properties": properties});
    vec![
        spec("greet", "Greets somebody.", of(json!({"name": {"type": "string"}}))),
        spec(
            "slow_compute",
            "Takes so many seconds.",
            of(json!({"seconds": {"type": "number"}, "label": {"type": "string"}})),
        ),
        spec("failing_job", "Fails after a second.", of(json!({}))),
        spec("protocol_error_job", "Breaks down.", of(json!({}))),
        spec("confirm_delete", "Asks the person first.", of(json!({"filename": {"type": "string"}}))),
        spec("multi_input", "Asks the person two things at once.", of(json!({}))),
        spec("test_tool_with_task", "Asks for a name, and then takes its time.", of(json!({}))),
    ]
}

pub(super) fn has(name: &str) -> bool {
    specs().iter().any(|spec| spec.name == name)
}

/// Returns the time limit after which a call becomes a task; most are tasks from the start.
pub(super) fn task_delay(tool: &str) -> Duration {
    match tool {
        "greet" => Duration::MAX,
        "test_tool_with_task" => SHORT,
        _ if has(tool) => Duration::ZERO,
        _ => Duration::MAX,
    }
}

pub(super) async fn run(
    tool: &str,
    arguments: &Map<String, Value>,
    client: &Client,
    cancel: &CancellationToken,
) -> Result<Output, Fault> {
    let working = async {
        match tool {
            "greet" => Ok(format!("Hello, {}!", text(arguments, "name"))),
            "slow_compute" => {
                let seconds = arguments.get("seconds").and_then(Value::as_f64).unwrap_or_default();
                let seconds = Duration::try_from_secs_f64(seconds)
                    .map_err(|error| Fault::bad_args(format!("`seconds`: {error}")))?;
                if !seconds.is_zero() {
                    sleep(seconds).await;
                }
                Ok(format!("{} took {} s", text(arguments, "label"), seconds.as_secs_f64()))
            }
            "failing_job" => {
                sleep(Duration::from_secs(1)).await;
                Err(Fault::new(Kind::Failed, "it failed, as it always does"))
            }
            "protocol_error_job" => break_down(),
            "confirm_delete" => {
                let file = text(arguments, "filename");
                let question =
                    form(&format!("Delete {file}?"), json!({"confirm": {"type": "boolean"}}), &["confirm"]);
                let confirmed = field(&one(client, "confirm", question).await?, "confirm")?;
                Ok(format!("{file}: {confirmed}"))
            }
            "multi_input" => {
                let question = |message| form(message, json!({"name": {"type": "string"}}), &["name"]);
                let asked = vec![
                    ("first".to_owned(), question("The first name?")),
                    ("second".to_owned(), question("The second name?")),
                ];
                let names: Result<Vec<_>, _> =
                    client.ask(asked).await?.iter().map(|answer| field(answer, "name")).collect();
                Ok(names?.join(" and "))
            }
            "test_tool_with_task" => {
                let greeting = greeting(client, "user_name").await?;
                sleep(LONG).await;
                Ok(greeting)
            }
            other => Err(Fault::bug(format!("`{other}` is listed, and nothing runs it"))),
        }
    };
    tokio::select! {
        said = working => said.map(Output::text),
        () = cancel.cancelled() => Err(Fault::new(Kind::Cancelled, "it was stopped")),
    }
}

#[expect(clippy::panic, reason = "the suite wants to see what becomes of a tool that does")]
fn break_down() -> Result<String, Fault> {
    panic!("as asked")
}

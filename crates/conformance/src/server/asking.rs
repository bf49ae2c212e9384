//! Tools of the suite that ask the client.

use kit::{Fault, Kind, Output, Spec};
use serde_json::{Map, Value, json};
use serve::{Ask, Client};

use super::{spec, text};

const TOOLS: &[(&str, &str)] = &[
    ("test_sampling", "Asks the client's model."),
    ("test_elicitation", "Asks the person who they are."),
    ("test_elicitation_sep1034_defaults", "Asks by a form with defaults."),
    ("test_elicitation_sep1330_enums", "Asks by a form with choices of every kind."),
    ("test_missing_capability", "Needs the client's model."),
    ("test_streaming_elicitation", "Asks the person to go on."),
    ("test_input_required_result_elicitation", "Asks the person for a name."),
    ("test_input_required_result_sampling", "Asks the client's model for a capital."),
    ("test_input_required_result_list_roots", "Asks for the client's folders."),
    ("test_input_required_result_request_state", "Asks the person to confirm."),
    ("test_input_required_result_multiple_inputs", "Asks for three things at once."),
    ("test_input_required_result_multi_round", "Asks twice."),
    ("test_input_required_result_tampered_state", "Asks the person to confirm."),
    ("test_input_required_result_capabilities", "Asks whatever the client can be asked."),
];

pub(super) fn specs() -> impl Iterator<Item = Spec> {
    TOOLS.iter().map(|&(name, description)| spec(name, description, schema(name)))
}

pub(super) fn has(name: &str) -> bool {
    TOOLS.iter().any(|tool| tool.0 == name)
}

pub(super) async fn run(
    tool: &str,
    arguments: &Map<String, Value>,
    client: &Client,
) -> Result<Output, Fault> {
    let said = match tool {
        "test_sampling" => {
            let answer = one(client, "answer", model(text(arguments, "prompt"), 100)).await?;
            format!("LLM response: {}", words(&answer))
        }
        "test_missing_capability" => words(&one(client, "answer", model("Say hello.", 10)).await?),
        "test_elicitation" => {
            let fields = json!({
                "username": {"type": "string", "description": "User's response"},
                "email": {"type": "string", "description": "User's email address"},
            });
            let form = form(text(arguments, "message"), fields, &["username", "email"]);
            format!("User response: {}", filled(&one(client, "person", form).await?))
        }
        "test_elicitation_sep1034_defaults" => {
            let form = form("Please look through these.", defaults(), &[]);
            format!("Elicitation completed: {}", filled(&one(client, "defaults", form).await?))
        }
        "test_elicitation_sep1330_enums" => {
            let form = form("Please choose.", choices(), &[]);
            format!("Elicitation completed: {}", filled(&one(client, "choices", form).await?))
        }
        "test_input_required_result_elicitation" => greeting(client, "user_name").await?,
        "test_input_required_result_sampling" => {
            words(&one(client, "capital_question", model("What is the capital of France?", 100)).await?)
        }
        "test_input_required_result_list_roots" => {
            let answer = one(client, "client_roots", Ask::Roots).await?;
            format!("The roots are {answer}")
        }
        "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => {
            one(client, "confirm", confirm()).await?;
            "state-ok".to_owned()
        }
        "test_streaming_elicitation" => filled(&one(client, "confirm", confirm()).await?),
        "test_input_required_result_multiple_inputs" => together(three(), client).await?,
        "test_input_required_result_multi_round" => {
            let name = field(&one(client, "step1", name("Step 1: What is your name?")).await?, "name")?;
            let color = form(
                "Step 2: What is your favorite color?",
                json!({"color": {"type": "string"}}),
                &["color"],
            );
            let color = field(&one(client, "step2", color).await?, "color")?;
            format!("{name} likes {color}.")
        }
        "test_input_required_result_capabilities" => {
            let offers = client.offers();
            let can = |ask: &Ask| match ask {
                Ask::Form { .. } => offers.forms,
                Ask::Address { .. } => offers.addresses,
                Ask::Model(_) => offers.model,
                Ask::Roots => offers.roots,
            };
            together(three().into_iter().filter(|(_, ask)| can(ask)).collect(), client).await?
        }
        other => return Err(Fault::bug(format!("`{other}` is listed, and nothing runs it"))),
    };
    Ok(Output::text(said))
}

/// Asks the person for a name, and greets them by it.
pub(super) async fn greeting(client: &Client, key: &str) -> Result<String, Fault> {
    let answer = one(client, key, name("What is your name?")).await?;
    Ok(format!("Hello, {}!", field(&answer, "name")?))
}

/// Sends one request.
pub(super) async fn one(client: &Client, key: &str, ask: Ask) -> Result<Value, Fault> {
    let answers = client.ask(vec![(key.to_owned(), ask)]).await?;
    answers.into_iter().next().ok_or_else(|| Fault::bug("the answer is not there"))
}

pub(super) fn form(message: &str, properties: Value, required: &[&str]) -> Ask {
    let schema = [("type", json!("object")), ("properties", properties), ("required", json!(required))];
    let schema = schema.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    Ask::Form { message: message.to_owned(), schema: Value::Object(schema) }
}

/// Returns the person's value of a field.
pub(super) fn field(answer: &Value, name: &str) -> Result<String, Fault> {
    match answer.get("content").and_then(|content| content.get(name)) {
        Some(Value::String(value)) => Ok(value.clone()),
        Some(value) => Ok(value.to_string()),
        None => Err(Fault::new(Kind::Failed, format!("the person gave no `{name}`"))),
    }
}

async fn together(asked: Vec<(String, Ask)>, client: &Client) -> Result<String, Fault> {
    let answers = client.ask(asked).await?;
    Ok(answers.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

fn three() -> Vec<(String, Ask)> {
    vec![
        ("user_name".to_owned(), name("What is your name?")),
        ("greeting".to_owned(), model("Generate a greeting", 50)),
        ("client_roots".to_owned(), Ask::Roots),
    ]
}

fn name(message: &str) -> Ask {
    form(message, json!({"name": {"type": "string"}}), &["name"])
}

fn confirm() -> Ask {
    form("Please confirm", json!({"ok": {"type": "boolean"}}), &["ok"])
}

fn model(prompt: &str, max_tokens: u32) -> Ask {
    let content = json!({"type": "text", "text": prompt});
    Ask::Model(json!({"messages": [{"role": "user", "content": content}], "maxTokens": max_tokens}))
}

fn words(answer: &Value) -> String {
    let text = answer.pointer("/content/text").or_else(|| answer.pointer("/content/0/text"));
    text.and_then(Value::as_str).unwrap_or("no text").to_owned()
}

fn filled(answer: &Value) -> String {
    let action = answer.get("action").and_then(Value::as_str).unwrap_or("cancel");
    let content = answer.get("content").cloned().unwrap_or_else(|| json!({}));
    format!("action={action}, content={content}")
}

fn schema(tool: &str) -> Value {
    let of = |name: &str, what: &str| {
        let properties: Map<String, Value> =
            [(name.to_owned(), json!({"type": "string", "description": what}))].into_iter().collect();
        json!({"type": "object", "properties": properties, "required": [name]})
    };
    match tool {
        "test_sampling" => of("prompt", "What to ask the model"),
        "test_elicitation" => of("message", "What the person reads"),
        _ => json!({"type": "object", "properties": {}}),
    }
}

fn defaults() -> Value {
    json!({
        "name": {"type": "string", "description": "User name", "default": "John Doe"},
        "age": {"type": "integer", "description": "User age", "default": 30},
        "score": {"type": "number", "description": "User score", "default": 95.5},
        "status": {
            "type": "string",
            "description": "User status",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "description": "Verification status", "default": true},
    })
}

fn choices() -> Value {
    let titled = |word: &str| {
        json!([
            {"const": "value1", "title": format!("First {word}")},
            {"const": "value2", "title": format!("Second {word}")},
            {"const": "value3", "title": format!("Third {word}")},
        ])
    };
    json!({
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {"type": "string", "oneOf": titled("Option")},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}},
    })
}

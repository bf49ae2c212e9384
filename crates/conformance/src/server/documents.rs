//! Resources and prompts of the suite.

use kit::{Body, Fault, Part};
use serde_json::json;
use serve::{Blank, Client, Content, Document, Line, Pattern, Prompt, Speaker, Subject};

use super::{
    asking::{field, form, one},
    tools::{image, png, resource},
};

/// The document that changes.
pub(super) const WATCHED: &str = "test://watched-resource";

const TEXT: &str = "test://static-text";
const BINARY: &str = "test://static-binary";

pub(super) fn all() -> Vec<Document> {
    let document = |uri: &str, name: &str, mime: &str| Document {
        uri: uri.to_owned(),
        name: name.to_owned(),
        description: format!("The {name} of the suite."),
        mime: Some(mime.to_owned()),
        bytes: None,
    };
    vec![
        document(TEXT, "static text", "text/plain"),
        document(BINARY, "static image", "image/png"),
        document(WATCHED, "watched text", "text/plain"),
    ]
}

pub(super) fn patterns() -> Vec<Pattern> {
    vec![Pattern {
        uri: "test://template/{id}/data".to_owned(),
        name: "data".to_owned(),
        description: "The data of an id.".to_owned(),
        mime: Some("application/json".to_owned()),
    }]
}

pub(super) fn read(uri: &str) -> Result<Vec<Content>, Fault> {
    let content = |mime: &str, body| Content { uri: uri.to_owned(), mime: Some(mime.to_owned()), body };
    let plain = |text: &str| content("text/plain", Body::Text(text.to_owned()));
    let id = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
    Ok(vec![match (uri, id) {
        (TEXT, _) => plain("This is the content of the static text resource."),
        (BINARY, _) => content("image/png", Body::Bytes(png())),
        (WATCHED, _) => plain("This is the content of the watched resource."),
        (_, Some(id)) if !id.is_empty() && !id.contains('/') => {
            let data = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
            content("application/json", Body::Text(data.to_string()))
        }
        _ => return Err(Fault::not_found(format!("there is no `{uri}`"))),
    }])
}

/// Returns the prompts; one of them is added and removed.
pub(super) fn prompts(sometimes: bool) -> Vec<Prompt> {
    let prompt = |name: &str, description: &str, arguments: &[&str]| Prompt {
        name: name.to_owned(),
        description: description.to_owned(),
        arguments: arguments.iter().map(|&name| blank(name)).collect(),
    };
    let mut prompts = vec![
        prompt("test_simple_prompt", "Says one thing.", &[]),
        prompt("test_prompt_with_arguments", "Says what it was given.", &["arg1", "arg2"]),
        prompt("test_prompt_with_embedded_resource", "Shows a resource.", &["resourceUri"]),
        prompt("test_prompt_with_image", "Shows an image.", &[]),
        prompt("test_input_required_result_prompt", "Asks the person first.", &[]),
    ];
    if sometimes {
        prompts.push(prompt("test_sometimes", "Is there since the list of prompts changed.", &[]));
    }
    prompts
}

pub(super) async fn prompt(
    name: &str,
    arguments: &[(String, String)],
    client: &Client,
) -> Result<Vec<Line>, Fault> {
    let argument = |name: &str| {
        let found = arguments.iter().find(|argument| argument.0 == name).map(|argument| argument.1.as_str());
        found.ok_or_else(|| Fault::bad_args(format!("`{name}` is missing")))
    };
    Ok(match name {
        "test_simple_prompt" => vec![says("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => {
            let (first, second) = (argument("arg1")?, argument("arg2")?);
            vec![says(&format!("Prompt with arguments: arg1='{first}', arg2='{second}'"))]
        }
        "test_prompt_with_embedded_resource" => {
            let text = "Embedded resource content for testing.";
            let shown = resource(argument("resourceUri")?, "text/plain", text);
            vec![line(shown), says("Please process the embedded resource above.")]
        }
        "test_prompt_with_image" => vec![line(image()), says("Please analyze the image above.")],
        "test_input_required_result_prompt" => {
            let fields = json!({"context": {"type": "string"}});
            let question = form("What context should the prompt use?", fields, &["context"]);
            let answer = one(client, "user_context", question).await?;
            vec![says(&format!("The context is: {}", field(&answer, "context")?))]
        }
        "test_sometimes" => vec![says("This prompt comes and goes.")],
        _ => return Err(Fault::not_found(format!("there is no prompt `{name}`"))),
    })
}

pub(super) fn complete(of: &Subject, argument: &str, begun: &str) -> Vec<String> {
    let words: &[&str] = match (of, argument) {
        (Subject::Prompt(name), "arg1") if name == "test_prompt_with_arguments" => {
            &["paris", "park", "party", "testValue1"]
        }
        (Subject::Documents(_), "id") => &["123", "456"],
        _ => &[],
    };
    words.iter().filter(|word| word.starts_with(begun)).map(|&word| word.to_owned()).collect()
}

fn blank(name: &str) -> Blank {
    Blank { name: name.to_owned(), description: format!("The {name} of the prompt."), required: true }
}

fn says(text: &str) -> Line {
    line(Part::Text { text: text.to_owned() })
}

fn line(part: Part) -> Line {
    Line { by: Speaker::Person, part }
}

//! Playing a client scenario: connects, lists the tools, calls each, and signs in if required. It is the same
//! for all scenarios.

use std::{fs, sync::Arc};

use haft::{Options, Place, print};
use kit::{Fault, Kind, Origin, Spec};
use runtime::{Call, Session};
use serde_json::{Map, Value, json};

use crate::person::Agreeable;

/// The address of the client metadata document that the scenarios expect.
const DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";
const REDIRECT: &str = "http://localhost:3000/callback";
/// The words in a fault that mean that a person has to sign in.
const LOGIN: &str = "haft mcp login";
/// Maximum number of logins in one scenario.
const LOGINS: usize = 3;
const SECRET: &str = "CONFORMANCE_CLIENT_SECRET";

/// Plays the scenario that the environment names against the server at this address.
pub(crate) async fn play(url: &str) -> Result<(), Fault> {
    let context: Value = std::env::var("MCP_CONFORMANCE_CONTEXT")
        .ok()
        .and_then(|it| serde_json::from_str(&it).ok())
        .unwrap_or_default();
    let dir = tempfile::tempdir().map_err(|error| lost(&error))?;
    let (config, workspace) = (dir.path().join("config"), dir.path().join("workspace"));
    for folder in [&config, &workspace] {
        fs::create_dir(folder).map_err(|error| lost(&error))?;
    }
    let text = |key: &str| context.get(key).and_then(Value::as_str);
    let mut file = format!(
        "[mcp.s]\nurl = {}\nsampling = true\n[mcp.s.oauth]\nclient_metadata_url = {}\n",
        Value::from(url),
        Value::from(DOCUMENT)
    );
    let mut variables: Vec<(String, String)> = std::env::vars().collect();
    if let Some(id) = text("client_id") {
        file.push_str(&format!("client_id = {}\nclient_secret_env = \"{SECRET}\"\n", Value::from(id)));
        variables.push((SECRET.to_owned(), text("client_secret").unwrap_or_default().to_owned()));
    }
    fs::write(config.join("haft.toml"), file).map_err(|error| lost(&error))?;

    let place = Place { state: dir.path().join("state"), config, variables };
    let opened = Options { dir: Some(workspace), ..Options::default() }.open(&place)?;
    let session = opened.runtime.session(None, "conformance", Arc::new(Agreeable));
    session.belongs_to(Arc::new(Agreeable));
    let mut client = Client { session, place, logins: 0 };

    client.call("mcp_connect", &json!({ "server": "s" })).await?;
    let tools: Vec<Spec> = client.tools();
    let wanted = context.get("toolCalls").and_then(Value::as_array);
    match wanted {
        Some(calls) => {
            for call in calls {
                let name = call.get("name").and_then(Value::as_str).unwrap_or_default();
                let arguments = call.get("arguments").cloned().unwrap_or_else(|| json!({}));
                client.tried(&format!("s__{name}"), &arguments).await;
            }
        }
        None => {
            for spec in &tools {
                client.tried(&spec.name, &arguments(&spec.schema)).await;
            }
        }
    }
    client.session.call(Call::new("mcp_disconnect", json!({ "server": "s" }))).await;
    Ok(())
}

struct Client {
    session: Session,
    place: Place,
    logins: usize,
}

impl Client {
    /// Returns the tools of the server.
    fn tools(&self) -> Vec<Spec> {
        let catalog = self.session.catalog();
        catalog.specs().filter(|it| matches!(&it.origin, Origin::Server(_))).cloned().collect()
    }

    /// Calls a tool; if the fault says that a person has to sign in, signs in and calls it again.
    async fn call(&mut self, tool: &str, arguments: &Value) -> Result<String, Fault> {
        loop {
            let answer = self.session.call(Call::new(tool, arguments.clone())).await;
            let said = answer.as_text();
            let Err(fault) = answer.result else { return Ok(said) };
            if !said.contains(LOGIN) || self.logins == LOGINS {
                return Err(fault);
            }
            self.logins += 1;
            self.sign_in().await?;
        }
    }

    /// Calls a tool whose failure is an expected result, too.
    async fn tried(&mut self, tool: &str, arguments: &Value) {
        if let Err(fault) = self.call(tool, arguments).await {
            print::err(&format!("{tool}: {}", fault.what));
        }
    }

    /// Signs in as a person with a browser would, by the address that `haft mcp login` prints.
    async fn sign_in(&self) -> Result<(), Fault> {
        let servers = self.session.runtime().plugins().servers();
        let server = servers.named("s")?;
        let signing = servers.logins().begin(&server, &self.place.variables, REDIRECT).await?;
        let browser = kit::net::client().redirect(reqwest::redirect::Policy::none()).build();
        let sent = browser
            .map_err(|error| lost(&error))?
            .get(signing.address())
            .send()
            .await
            .map_err(|error| lost(&error))?;
        let back = sent.headers().get("location").and_then(|it| it.to_str().ok()).map(str::to_owned);
        let Some(back) = back else {
            return Err(Fault::new(
                Kind::Unavailable,
                format!("the browser was not sent back, but got {}", sent.status()),
            ));
        };
        signing.finish(&back).await
    }
}

/// Returns a value that fits the schema.
fn arguments(schema: &Value) -> Value {
    let required = schema.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let names = required.iter().filter_map(Value::as_str);
    let given: Map<String, Value> = names
        .map(|name| {
            let field = schema.get("properties").and_then(|it| it.get(name)).unwrap_or(&Value::Null);
            let choice = field.get("enum").and_then(Value::as_array).and_then(|it| it.first());
            let value = match (choice, field.get("type").and_then(Value::as_str)) {
                (Some(choice), _) => choice.clone(),
                (None, Some("number" | "integer")) => json!(5),
                (None, Some("boolean")) => json!(true),
                (None, Some("array")) => json!([]),
                (None, Some("object")) => arguments(field),
                _ => json!("test"),
            };
            (name.to_owned(), value)
        })
        .collect();
    Value::Object(given)
}

fn lost(error: &dyn std::error::Error) -> Fault {
    Fault::new(Kind::Unavailable, format!("conformance: {error}"))
}

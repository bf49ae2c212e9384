//! The fixture of the suite: tools, documents and prompts whose names, texts and schemas it prescribes.
//!
//! Their way to the client is the product under test.

mod asking;
mod documents;
mod tasks;
mod tools;

use std::{sync::Arc, time::Duration};

use kit::{Fault, Kinds, Mode, Origin, Spec};
use runtime::{Answer, Arguments, Call};
use serde_json::{Map, Value};
use serve::{Abilities, Backend, Changes, Client, Content, Document, Line, Pattern, Prompt, Subject};
use tokio::sync::watch;

/// The state that all clients share.
#[derive(Clone, Default)]
pub(crate) struct Fixture {
    changing: Arc<Changing>,
}

/// The counters of changes that tools of the suite trigger.
#[derive(Default)]
pub(crate) struct Changing {
    tools: watch::Sender<u64>,
    prompts: watch::Sender<u64>,
    watched: watch::Sender<u64>,
}

impl Backend for Fixture {
    fn specs(&self) -> Vec<Spec> {
        let sometimes = is_odd(&self.changing.tools).then(tools::sometimes);
        tools::specs().into_iter().chain(asking::specs()).chain(tasks::specs()).chain(sometimes).collect()
    }

    fn has(&self, name: &str) -> bool {
        self.specs().iter().any(|spec| spec.name == name)
    }

    fn changes(&self) -> Changes {
        let changing = &self.changing;
        Changes {
            tools: Some(changing.tools.subscribe()),
            documents: None,
            prompts: Some(changing.prompts.subscribe()),
        }
    }

    fn abilities(&self) -> Abilities {
        Abilities { watch: true, complete: true, log: true }
    }

    async fn call(&self, call: Call, client: Client) -> Answer {
        let Call { tool, arguments, cancel, progress, .. } = call;
        let arguments = match arguments {
            Arguments::Json(Value::Object(arguments)) => arguments,
            Arguments::Json(_) | Arguments::Raw(_) => Map::new(),
        };
        let result = if asking::has(&tool) {
            asking::run(&tool, &arguments, &client).await
        } else if tasks::has(&tool) {
            tasks::run(&tool, &arguments, &client, &cancel).await
        } else {
            tools::run(&tool, &arguments, &client, progress.as_deref(), &self.changing).await
        };
        Answer { id: String::new(), result, notes: Vec::new(), changes: Vec::new(), took: Duration::ZERO }
    }

    fn task_delay(&self, tool: &str) -> Duration {
        tasks::task_delay(tool)
    }

    fn documents(&self) -> Result<Vec<Document>, Fault> {
        Ok(documents::all())
    }

    fn patterns(&self) -> Vec<Pattern> {
        documents::patterns()
    }

    async fn read(&self, uri: &str, _client: Client) -> Result<Vec<Content>, Fault> {
        documents::read(uri)
    }

    fn watch(&self, uri: &str) -> Option<watch::Receiver<u64>> {
        (uri == documents::WATCHED).then(|| self.changing.watched.subscribe())
    }

    fn prompts(&self) -> Vec<Prompt> {
        documents::prompts(is_odd(&self.changing.prompts))
    }

    async fn prompt(
        &self,
        name: &str,
        arguments: Vec<(String, String)>,
        client: Client,
    ) -> Result<Vec<Line>, Fault> {
        documents::prompt(name, &arguments, &client).await
    }

    fn complete(&self, of: &Subject, argument: &str, begun: &str) -> Vec<String> {
        documents::complete(of, argument, begun)
    }
}

/// Returns a harmless tool.
fn spec(name: &str, description: &str, schema: Value) -> Spec {
    Spec {
        name: name.to_owned(),
        description: description.to_owned(),
        schema,
        mode: Mode::Direct,
        at_most: Kinds::READ,
        output: None,
        origin: Origin::Program,
    }
}

fn text<'a>(arguments: &'a Map<String, Value>, name: &str) -> &'a str {
    arguments.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn is_odd(count: &watch::Sender<u64>) -> bool {
    *count.borrow() % 2 == 1
}

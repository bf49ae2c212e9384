//! Provider-native tools, which the model's provider runs.
//!
//! They are registered like any tool, so that a list of allowed tools can name them, and `info` knows them. A
//! session shows those that the model in use has, and the wire format declares them in the provider's own
//! form. haft never runs them: a model that calls one as a function gets an error that says so.

use std::sync::Arc;

use kit::{AnyTool, Fault, Kind, Kinds, Mode, Origin, Prepared, Spec};
use runtime::Session;
use serde_json::{Value, json};

use crate::model::{Abilities, OwnTool};

/// Returns all of them, for a registry.
pub fn all() -> Vec<Arc<dyn AnyTool>> {
    [OwnTool::ImageGen, OwnTool::WebSearch].map(|it| Arc::new(Declared::of(it)) as Arc<dyn AnyTool>).to_vec()
}

/// Makes the session show the provider's tools of these abilities, and no others. Returns whether that
/// changed something.
pub fn offer(session: &Session, abilities: &Abilities) -> bool {
    session.provider_runs(abilities.own_tools.iter().map(|it| it.name()))
}

/// A tool that is declared, and never run by haft.
struct Declared {
    spec: Spec,
    instead: &'static str,
}

impl Declared {
    fn of(tool: OwnTool) -> Self {
        let (description, instead) = match tool {
            OwnTool::ImageGen => (
                "Draws a picture, or changes one you were shown. Run by the model's provider.",
                "Say what the picture is to show, and it is drawn while you answer; or draw with another tool, such as a program that writes an SVG file.",
            ),
            OwnTool::WebSearch => (
                "Searches the web. Run by the model's provider.",
                "Say what you want to find out, and it is searched for while you answer; or go on without it.",
            ),
        };
        let spec = Spec {
            name: tool.name().to_owned(),
            description: description.to_owned(),
            schema: json!({"type": "object", "properties": {}}),
            mode: Mode::Direct,
            at_most: Kinds::NONE,
            output: None,
            origin: Origin::Provider,
        };
        Self { spec, instead }
    }
}

impl AnyTool for Declared {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn prepare(&self, _: Value) -> Result<Box<dyn Prepared>, Fault> {
        let what =
            format!("`{}` is run by the model's provider, and can't be called as a function", self.spec.name);
        Err(Fault::new(Kind::Unavailable, what).next(self.instead))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use std::{collections::VecDeque, path::Path, time::Duration};

    use futures_util::stream;
    use kit::redact::Secrets;
    use parking_lot::Mutex;
    use policy::Policy;
    use runtime::{Call, Commands, Limits, Runtime, Unattended};
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{
        Agent, Message, Settings, Silent,
        model::{Event, Events, Item, MessagePart, Model, Piece, Request, Why},
    };

    /// A model with scripted answers that records its requests.
    struct ScriptedModel {
        abilities: Abilities,
        answers: Mutex<VecDeque<Vec<Event>>>,
        asked: Mutex<Vec<Request>>,
    }

    impl ScriptedModel {
        fn new(own_tools: Vec<OwnTool>, answers: impl IntoIterator<Item = Vec<Event>>) -> Arc<Self> {
            let (window, longest) = (100_000, 8_000);
            let abilities = Abilities { calls: true, images: true, window, longest, own_tools, price: None };
            let answers = Mutex::new(answers.into_iter().collect());
            Arc::new(Self { abilities, answers, asked: Mutex::default() })
        }

        /// Returns the names of the tools and the items of the last request.
        fn last(&self) -> (Vec<String>, Vec<Item>) {
            let request = self.asked.lock().last().unwrap().clone();
            (request.tools.iter().map(|it| it.name.clone()).collect(), request.items)
        }
    }

    impl Model for ScriptedModel {
        fn name(&self) -> &str {
            "written"
        }

        fn abilities(&self) -> &Abilities {
            &self.abilities
        }

        fn stream(&self, request: Request) -> Events {
            self.asked.lock().push(request);
            let answer = self.answers.lock().pop_front().unwrap();
            Box::pin(stream::iter(answer.into_iter().map(Ok)))
        }
    }

    fn session(dir: &Path, allowed: Option<Vec<String>>) -> Session {
        std::fs::create_dir_all(dir.join("ws")).unwrap();
        let settings = runtime::Settings {
            network: Default::default(),
            tool_files: Default::default(),
            workspace: dir.join("ws"),
            roots: Vec::new(),
            state: dir.join("state"),
            config: dir.join("config"),
            policy: Policy::default(),
            other_names: kit::files::OtherNames::Refuse,
            allowed,
            deadline: Duration::from_secs(60),
            secrets: Secrets::none(),
            commands: Commands::default(),
        };
        let runtime = Runtime::open(settings, [tools::all(), all()].concat()).unwrap();
        runtime.session(Some("s"), "test", Arc::new(Unattended))
    }

    fn agent(session: Session, model: Arc<ScriptedModel>) -> Agent {
        let (bounds, visible, host) = (Default::default(), Default::default(), Arc::new(Silent));
        Agent::open(Settings { session, model, system: "".into(), bounds, visible, host }).unwrap()
    }

    fn said(text: &str) -> Vec<Event> {
        vec![Event::Text(text.to_owned()), Event::End(Why::Done)]
    }

    fn called(tool: &str, arguments: &str) -> Event {
        let (tool, arguments) = (tool.to_owned(), arguments.to_owned());
        Event::CallClosed { index: 0, id: "1".to_owned(), tool, arguments }
    }

    fn drew() -> [Event; 2] {
        let data = Arc::from(b"a picture".as_slice());
        let value = json!({"item": {"type": "image_generation_call"}});
        [
            Event::Picture { tool: OwnTool::ImageGen, mime: "image/png".to_owned(), data },
            Event::Opaque(MessagePart::Opaque { wire: "responses".to_owned(), value }),
        ]
    }

    async fn turn(agent: &mut Agent, text: &str) {
        agent.turn(Some(text.to_owned()), &CancellationToken::new()).await.unwrap();
    }

    fn own(names: &[String]) -> Vec<&str> {
        names.iter().map(String::as_str).filter(|it| ["image_gen", "web_search"].contains(it)).collect()
    }

    #[tokio::test]
    async fn provider_tools_follow_the_model_in_use() {
        let dir = tempfile::tempdir().unwrap();
        let draws = ScriptedModel::new(vec![OwnTool::ImageGen], [said("one")]);
        let searches = ScriptedModel::new(vec![OwnTool::WebSearch], [said("two"), said("three")]);
        let mut agent = agent(session(dir.path(), None), draws.clone());
        turn(&mut agent, "go").await;
        // haft's own search is shown where the provider has none.
        assert_eq!(own(&draws.last().0), ["web_search", "image_gen"]);
        agent.steering().set_model(searches.clone());
        turn(&mut agent, "go on").await;
        assert_eq!(own(&searches.last().0), ["web_search"]);
        assert!(searches.last().0.iter().any(|it| it == "read"));
        let tools = Some(vec!["read".to_owned()]);
        agent.session().limit(Limits { tools, ..Limits::default() });
        turn(&mut agent, "and on").await;
        assert_eq!(searches.last().0, ["read"]);
    }

    #[tokio::test]
    async fn call_of_a_provider_tool_gets_an_error_that_names_the_provider() {
        let dir = tempfile::tempdir().unwrap();
        let allowed = vec!["read".to_owned(), "image_gen".to_owned()];
        let session = session(dir.path(), Some(allowed));
        let call = |tool: &str| session.call(Call::new(tool, json!({"prompt": "a cat"})));
        for shown in [false, true] {
            assert_eq!(session.catalog().has("image_gen"), shown);
            let fault = call("image_gen").await.result.unwrap_err();
            assert_eq!(
                fault.what,
                "`image_gen` is run by the model's provider, and can't be called as a function"
            );
            assert!(fault.next.is_some_and(|it| it.contains("SVG")));
            let model = ScriptedModel::new(vec![OwnTool::ImageGen, OwnTool::WebSearch], []);
            offer(&session, model.abilities());
        }
        assert!(session.catalog().failed().is_empty(), "a name that is allowed is known");
        let fault = call("web_search").await.result.unwrap_err();
        assert!(fault.what.contains("there is no tool"), "what is not allowed is nowhere: {}", fault.what);
    }

    #[tokio::test]
    async fn picture_is_a_line_for_the_person_and_a_picture_in_the_next_request() {
        let dir = tempfile::tempdir().unwrap();
        let answers = [
            [drew().as_slice(), &said("There.")].concat(),
            [drew().as_slice(), &[called("read", "{\"path\":\"x\"}"), Event::End(Why::Calls)]].concat(),
            said("done"),
        ];
        let model = ScriptedModel::new(vec![OwnTool::ImageGen], answers);
        let first = agent(session(dir.path(), None), model.clone());
        let mut agent = {
            let mut first = first;
            turn(&mut first, "Draw.").await;
            let again = first.turn(None, &CancellationToken::new()).await.unwrap();
            assert_eq!(again.steps, 0, "a picture is not a reason to ask again");
            drop(first);
            agent(session(dir.path(), None), model.clone())
        };
        turn(&mut agent, "Another.").await;
        let items = model.last().1;
        let shown: Vec<(usize, &str, &[u8])> = items
            .iter()
            .enumerate()
            .filter_map(|(at, it)| if let Item::Person { pieces } = it { Some((at, pieces)) } else { None })
            .flat_map(|(at, pieces)| pieces.iter().map(move |it| (at, it)))
            .filter_map(|(at, it)| match it {
                Piece::Image { handle, data: Some(data), .. } => Some((at, handle.as_str(), &**data)),
                _ => None,
            })
            .collect();
        let [(first, one, bytes), (last, two, _)] = shown.as_slice() else { unreachable!("{items:?}") };
        assert_eq!((*first, *last, *bytes), (2, items.len() - 1, b"a picture".as_slice()));
        assert_ne!(one, two);
        let Item::Person { pieces } = &items[2] else { unreachable!("{items:?}") };
        assert_eq!(pieces[0].line(), format!("`image_gen` made this picture, which is kept as {one}:"));
        assert_eq!(pieces[2].line(), "Another.");
        assert!(matches!(items[items.len() - 2], Item::Results { .. }));
        let messages = agent.transcript().messages().unwrap();
        let line = format!("image_gen: [picture {one}: image/png]");
        assert!(messages.contains(&Message::Note { text: line }), "{messages:?}");
    }
}

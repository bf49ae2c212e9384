//! Sessions with scripted models, for tests and measurements (feature `testing`).

use std::{path::Path, sync::Arc, time::Duration};

use agent::{
    Agent, Driver, Driving, Settings, Setup,
    model::{Abilities, Breach, Events, Item, Model, ModelError, Piece, Request, script::Script},
    profiles::Profiles,
};
use kit::{deliberate_faults::killed_at, erase, prelude::*, redact::Secrets};
use policy::{Approve, Policy};
use runtime::{Commands, Runtime};
use sandbox::SandboxMode;
use serde_json::{Value, json};

use crate::{Opened, Opener, Prepared, Records, Sessions};

/// Say a text.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Say {
    /// The text.
    text: String,
    /// After so many milliseconds.
    #[serde(default)]
    after_ms: u64,
}

impl Tool for Say {
    const NAME: &str = "say";
    const AT_MOST: Kinds = Kinds::NONE;

    fn touches(&self) -> Touches {
        Touches::none()
    }

    async fn run(self, _: &Cx) -> Result<Output, Fault> {
        tokio::time::sleep(Duration::from_millis(self.after_ms)).await;
        Ok(Output::text(self.text))
    }
}

/// Write a file.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Put {
    /// The file.
    path: String,
    /// The new content.
    text: String,
}

impl Tool for Put {
    const NAME: &str = "put";
    const AT_MOST: Kinds = Kinds::WRITE;

    fn touches(&self) -> Touches {
        Touches::write(&self.path)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.blocking(move |cx| {
            cx.files().save(&self.path, kit::files::Before::Absent, self.text.into_bytes())?;
            Ok(Output::text("written"))
        })
        .await
    }
}

/// Run a command: makes a file of its name.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shell {
    /// The file.
    command: String,
}

impl Tool for Shell {
    const NAME: &str = "shell";
    const AT_MOST: Kinds = Kinds::WRITE;

    fn touches(&self) -> Touches {
        Touches::write(&self.command)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.blocking(move |cx| {
            cx.files().save(&self.command, kit::files::Before::Absent, b"made".to_vec())?;
            killed_at("command-running");
            Ok(Output::text("made"))
        })
        .await
    }
}

/// Undo the changes of a call.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Undo {
    /// The call.
    #[serde(default)]
    call: Option<String>,
}

impl Tool for Undo {
    const NAME: &str = "undo";
    const AT_MOST: Kinds = Kinds::WRITE.with(Kinds::EXCLUSIVE);

    fn touches(&self) -> Touches {
        Touches::exclusive()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        use kit::services::Which;
        cx.blocking(move |cx| cx.undo().undo(self.call.map_or(Which::Last, Which::Call))).await
    }
}

/// Ask the person.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ask {
    /// The question.
    text: String,
}

impl Tool for Ask {
    const NAME: &str = "ask";
    const AT_MOST: Kinds = Kinds::NONE;

    fn touches(&self) -> Touches {
        Touches::none()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let question = kit::services::Question { text: self.text, ..Default::default() };
        let answer = cx.agents().ask(question, cx).await?;
        Ok(Output::text(answer))
    }
}

/// Have another agent do something.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Delegate {
    /// The task.
    prompt: String,
}

impl Tool for Delegate {
    const NAME: &str = "delegate";
    const AT_MOST: Kinds = Kinds::NONE;

    fn touches(&self) -> Touches {
        Touches::none()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let task = kit::services::Task { prompt: self.prompt, ..Default::default() };
        let report = cx.agents().delegate(task, cx).await?;
        Ok(Output::text(report.text))
    }
}

/// A scripted model: a prompt is a JSON array of answers, each a line of a script
/// ([`agent::model::script`]). It answers anything else with `ok`.
struct Obedient(Script);

impl Model for Obedient {
    fn name(&self) -> &'static str {
        "script"
    }

    fn abilities(&self) -> &Abilities {
        self.0.abilities()
    }

    fn stream(&self, mut request: Request) -> Events {
        let mut answers = Vec::new();
        request.step = 0;
        for item in &request.items {
            match item {
                Item::Person { pieces } => {
                    let text = pieces.iter().rev().find_map(|it| match it {
                        Piece::Text { text } => {
                            text.rfind("\n[").map_or(Some(&**text), |at| text.get(at + 1..))
                        }
                        _ => None,
                    });
                    let told = text.and_then(|it| serde_json::from_str::<Vec<Value>>(it).ok());
                    (answers, request.step) = (told.unwrap_or_default(), 0);
                }
                Item::Model { .. } => request.step += 1,
                Item::Results { .. } => {}
            }
        }
        if answers.is_empty() {
            (answers, request.step) = (vec![json!({"say": "ok"})], 0);
        }
        let lines: Vec<String> = answers.iter().map(ToString::to_string).collect();
        match Script::parse("script", &lines.join("\n")) {
            Ok(script) => script.stream(request),
            Err(fault) => {
                let error = ModelError::new(Breach::Refused, fault.what);
                Box::pin(futures_util::stream::once(std::future::ready(Err(error))))
            }
        }
    }
}

/// Opens agents whose model does what its prompts say: each is a JSON array of answers, lines of
/// [a script](agent::model::script).
#[derive(Clone)]
pub struct ScriptOpener {
    runtime: Runtime,
    model: Arc<dyn Model>,
}

impl ScriptOpener {
    /// Agents in this workspace, with state in that folder. Before a file is changed, the person is asked.
    ///
    /// # Errors
    /// When there is no runtime to be had.
    pub fn new(workspace: &Path, state: &Path, secrets: Secrets) -> Result<Self, Fault> {
        let settings = runtime::Settings {
            network: Default::default(),
            tool_files: Default::default(),
            workspace: workspace.to_owned(),
            roots: Vec::new(),
            state: state.to_owned(),
            config: state.join("config"),
            policy: Policy {
                sandbox: SandboxMode::Workspace,
                approve: Approve::AskEdits,
                ..Policy::default()
            },
            other_names: kit::files::OtherNames::Refuse,
            allowed: None,
            deadline: Duration::from_secs(60),
            secrets,
            commands: Commands { decodes_here: true, ..Commands::default() },
        };
        let tools = vec![
            erase::<Say>(),
            erase::<Put>(),
            erase::<Shell>(),
            erase::<Ask>(),
            erase::<Delegate>(),
            erase::<Undo>(),
        ];
        let runtime = Runtime::open(settings, tools)?;
        Ok(Self { runtime, model: Arc::new(Obedient(Script::empty())) })
    }

    /// The runtime.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The sessions of its workspace, run with its agents.
    pub fn sessions(&self) -> Sessions {
        Sessions::new(self.runtime.store().clone(), "test", Some(Arc::new(self.clone())))
    }

    /// The same, with forks.
    pub fn with_forks(&self) -> Sessions {
        let records: Arc<dyn Records> = Arc::new(Forks(self.runtime.clone()));
        let store = self.runtime.store().clone();
        Sessions::with_records(store, "test", Some(Arc::new(self.clone())), Some(records))
    }

    /// The sessions of its workspace for a process that runs none.
    pub fn watching(&self) -> Sessions {
        Sessions::new(self.runtime.store().clone(), "test", None)
    }
}

/// Forks in the store. Nothing else is kept.
struct Forks(Runtime);

impl Records for Forks {
    fn rename(&self, _: &str, _: &str) -> Result<(), Fault> {
        Err(Fault::new(Kind::Unavailable, "titles are not kept here"))
    }

    fn archive(&self, _: &str, _: bool) -> Result<(), Fault> {
        Err(Fault::new(Kind::Unavailable, "archives are not kept here"))
    }

    fn fork(&self, session: &str, _: usize, to: &str) -> Result<(), Fault> {
        agent::fork(self.0.store(), session, None, Some(to)).map(drop)
    }

    fn is_fork(&self, session: &str, to: &str) -> Result<bool, Fault> {
        let known = self.0.store().conversations().about(to)?;
        Ok(known.is_some_and(|it| it.forked_from.as_deref() == Some(session)))
    }

    fn delete(&self, session: &str) -> Result<(), Fault> {
        self.0.store().conversations().delete_held(session).map(drop)
    }
}

impl Opener for ScriptOpener {
    fn open(&self, prepared: &Prepared) -> Result<Opened, Fault> {
        let session = self.runtime.session(Some(prepared.session()), "test", prepared.approver());
        let mut agent = Agent::open(Settings {
            session,
            model: self.model.clone(),
            system: "you are a test".into(),
            bounds: Default::default(),
            visible: Default::default(),
            host: prepared.observer(),
        })?;
        let model = self.model.clone();
        agent.set_crew(Setup {
            profiles: Profiles::built_in(),
            skills: None,
            choose: Arc::new(move |_| Ok(model.clone())),
            compose: Arc::new(|_, _| "you are a test".into()),
            section: Default::default(),
            elsewhere: None,
            person: prepared.asker(),
        });
        let driver = Driver::new(Driving { wait: Duration::ZERO, wakes: 10 });
        Ok(Opened { agent, driver, notes: Vec::new() })
    }

    fn set_model(&self, agent: &Agent, name: &str) -> Result<(), Fault> {
        if name != "script" {
            return Err(Fault::not_found(format!("there is no model `{name}`")));
        }
        agent.steering().set_model(self.model.clone());
        Ok(())
    }
}

//! A workspace, a runtime with all tools, and an agent whose models were written beforehand.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use haft::{
    agent::{
        Agent, Asker, Bounds, Event, NobodyToAsk, Observer, Outcome, Settings as Made, Setup,
        model::{Abilities, Events, Model, Request, script::Script},
        profiles::Profiles,
    },
    kit::{Fault, redact::Secrets},
    policy::{Approve, Policy},
    runtime::{
        Answer, Approver, Call, Commands, Runtime, Session, Settings, Unattended,
        config::{SubagentSection, ToolVisibility},
        plugins::{Folder, OWN, ToolFiles, Whose},
    },
    sandbox::SandboxMode,
    tools,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// A timeout that only a call that hangs exceeds.
pub(crate) const HANG: Duration = Duration::from_secs(60);

/// A model that plays the script whose key is in the system prompt, or the one without a key.
pub(crate) struct Players {
    name: String,
    scripts: Vec<(String, Script)>,
    abilities: Abilities,
    /// Each request it was sent: the system prompt, and the names of the tools.
    pub(crate) asked: Mutex<Vec<(String, Vec<String>)>>,
    /// The models with this key wait at the barrier before their first answer.
    gate: Option<(String, Arc<tokio::sync::Barrier>)>,
}

impl Players {
    pub(crate) fn new(scripts: &[(&str, &str)]) -> Self {
        Self::named("players", scripts)
    }

    pub(crate) fn named(name: &str, scripts: &[(&str, &str)]) -> Self {
        let scripts: Vec<_> = scripts
            .iter()
            .map(|(key, text)| ((*key).to_owned(), Script::parse(name, text).unwrap()))
            .collect();
        let abilities = scripts[0].1.abilities().clone();
        Self { name: name.to_owned(), scripts, abilities, asked: Mutex::default(), gate: None }
    }

    /// Models with this key in their prompt wait for each other before their first answer.
    pub(crate) fn meeting(mut self, key: &str, count: usize) -> Self {
        self.gate = Some((key.to_owned(), Arc::new(tokio::sync::Barrier::new(count))));
        self
    }

    /// Returns the tools that were shown to those with this key.
    pub(crate) fn shown(&self, key: &str) -> Vec<Vec<String>> {
        self.asked.lock().unwrap().iter().filter(|it| it.0.contains(key)).map(|it| it.1.clone()).collect()
    }
}

impl Model for Players {
    fn name(&self) -> &str {
        &self.name
    }

    fn abilities(&self) -> &Abilities {
        &self.abilities
    }

    fn stream(&self, request: Request) -> Events {
        use futures_util::{FutureExt, StreamExt, future};
        let system = request.system.to_string();
        let tools = request.tools.iter().map(|it| it.name.clone()).collect();
        self.asked.lock().unwrap().push((system.clone(), tools));
        let script = self.scripts.iter().filter(|it| system.contains(&it.0)).max_by_key(|it| it.0.len());
        let stream = script.expect("a script").1.stream(request.clone());
        match &self.gate {
            Some((key, gate)) if request.step == 0 && system.contains(key) => {
                let gate = gate.clone();
                let wait = async move {
                    gate.wait().await;
                    stream
                };
                Box::pin(future::FutureExt::into_stream(wait.boxed()).flatten())
            }
            _ => stream,
        }
    }
}

/// Keeps what happens.
#[derive(Default)]
pub(crate) struct Recorded(pub(crate) Mutex<Vec<Event>>);

impl Observer for Recorded {
    fn observe(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }
}

/// A workspace with an agent in it.
pub(crate) struct Fixture {
    dir: tempfile::TempDir,
    pub(crate) runtime: Runtime,
    mark: String,
}

/// An agent with a workspace of its own.
pub(crate) struct Home {
    pub(crate) agent: Agent,
    pub(crate) events: Arc<Recorded>,
}

/// Options of a test.
pub(crate) struct Wish {
    pub(crate) section: SubagentSection,
    pub(crate) person: Arc<dyn Asker>,
    pub(crate) approver: Arc<dyn Approver>,
    pub(crate) bounds: Bounds,
    pub(crate) models: BTreeMap<String, Arc<dyn Model>>,
    pub(crate) trusted: bool,
}

impl Default for Wish {
    fn default() -> Self {
        Self {
            section: SubagentSection::default(),
            person: Arc::new(NobodyToAsk),
            approver: Arc::new(Unattended),
            bounds: Bounds::default(),
            models: BTreeMap::new(),
            trusted: true,
        }
    }
}

impl Fixture {
    /// Creates a workspace with these files, and loads the tools among them.
    pub(crate) async fn new(files: &[(&str, &str)]) -> Self {
        Self::with(files, Approve::Auto).await
    }

    pub(crate) async fn with(files: &[(&str, &str)], approve: Approve) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let workspace = base.join("ws");
        std::fs::create_dir_all(workspace.join(OWN)).unwrap();
        for (name, text) in files {
            let path = workspace.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        // The mark tells the processes of this fixture from all others.
        let mark = base.display().to_string();
        let mut variables: Vec<(String, String)> = std::env::vars().collect();
        variables.push(("HAFT_TEST_MARK".to_owned(), mark.clone()));
        let settings = Settings {
            network: Default::default(),
            tool_files: ToolFiles {
                folders: vec![Folder { path: workspace.join(OWN), whose: Whose::Workspace }],
                ..ToolFiles::default()
            },
            workspace,
            roots: Vec::new(),
            state: base.join("state"),
            config: base.join("config"),
            policy: Policy { sandbox: SandboxMode::Workspace, approve, ..Policy::default() },
            other_names: Default::default(),
            allowed: None,
            deadline: HANG,
            secrets: Secrets::none(),
            commands: Commands {
                keeper: Some(PathBuf::from(env!("CARGO_BIN_EXE_haft"))),
                variables,
                env: vec!["HAFT_TEST_MARK".to_owned()],
                ..Commands::default()
            },
        };
        let all = [tools::toolset(tools::HAFT).unwrap(), tools::of_agents(tools::HAFT)].concat();
        let runtime = Runtime::open(settings, all).unwrap();
        runtime.plugins().reload(false).await;
        Self { dir, runtime, mark }
    }

    pub(crate) fn workspace(&self) -> &Path {
        self.runtime.roots().workspace()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.workspace().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// Returns an agent with this model.
    pub(crate) fn agent(&self, model: Arc<dyn Model>, wish: Wish) -> Home {
        let events = Arc::<Recorded>::default();
        let session = self.runtime.session(None, "test", wish.approver);
        let settings = Made {
            session,
            model,
            system: "THE FIRST".into(),
            bounds: wish.bounds,
            visible: ToolVisibility::NextMessage,
            host: events.clone(),
        };
        let mut agent = Agent::open(settings).unwrap();
        let models = wish.models;
        agent.set_crew(Setup {
            profiles: Profiles::new(
                self.dir.path().join("config/agents"),
                self.runtime.roots().clone(),
                wish.trusted,
            ),
            skills: None,
            choose: Arc::new(move |name| {
                models.get(name).cloned().ok_or_else(|| Fault::bad_args(format!("`{name}` is not a model")))
            }),
            compose: Arc::new(|session, profile| match profile {
                Some(profile) => format!("BASE {}", profile.prompt).into(),
                None if session.agent().is_none() => "THE FIRST".into(),
                None => "BASE".into(),
            }),
            section: wish.section,
            elsewhere: None,
            person: wish.person,
        });
        Home { agent, events }
    }

    /// Returns the number of this fixture's processes, without this one.
    pub(crate) fn processes(&self) -> usize {
        let mark = format!("HAFT_TEST_MARK={}", self.mark).into_bytes();
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        all.filter(|it| {
            let environment = std::fs::read(it.path().join("environ")).unwrap_or_default();
            environment.split(|it| *it == 0).any(|it| it == mark)
        })
        .count()
    }
}

impl Home {
    pub(crate) fn session(&self) -> &Session {
        self.agent.session()
    }

    pub(crate) async fn turn(&mut self) -> Outcome {
        let cancel = CancellationToken::new();
        tokio::time::timeout(HANG, self.agent.turn(Some("begin".to_owned()), &cancel)).await.unwrap().unwrap()
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Answer {
        tokio::time::timeout(HANG, self.session().call(Call::new(tool, arguments))).await.unwrap()
    }

    pub(crate) async fn says(&self, tool: &str, arguments: Value) -> String {
        self.call(tool, arguments).await.as_text()
    }

    /// Returns the results of this tool's calls, as the model read them.
    pub(crate) fn answered(&self, tool: &str) -> Vec<String> {
        let events = self.events.0.lock().unwrap();
        let text = |it: &Event| match it {
            Event::Answered { tool: this, text, .. } if this == tool => Some(text.clone()),
            _ => None,
        };
        events.iter().filter_map(text).collect()
    }

    /// The same of the calls of those that it started.
    pub(crate) fn answered_below(&self, tool: &str) -> Vec<String> {
        let events = self.events.0.lock().unwrap();
        let text = |it: &Event| match it {
            Event::Under { inner, .. } => {
                let mut inner = &**inner;
                while let Event::Under { inner: deeper, .. } = inner {
                    inner = deeper;
                }
                match inner {
                    Event::Answered { tool: this, text, .. } if this == tool => Some(text.clone()),
                    _ => None,
                }
            }
            _ => None,
        };
        events.iter().filter_map(text).collect()
    }
}

/// Returns an answer with calls.
pub(crate) fn calls(calls: &[(&str, Value)]) -> String {
    let calls: Vec<_> =
        calls.iter().map(|(tool, arguments)| json!({"tool": tool, "arguments": arguments})).collect();
    json!({"calls": calls}).to_string() + "\n"
}

/// Returns the script line of an answer without calls.
pub(crate) fn says(text: &str) -> String {
    json!({"say": text}).to_string() + "\n"
}

/// Returns a tool in a Python file whose body is this.
pub(crate) fn python_tool(name: &str, body: &str) -> (String, String) {
    let body = body.replace('\n', "\n    ");
    let code = format!(
        "name = {name:?}\ndescription = 'For a test.'\n\
         parameters = {{'type': 'object', 'properties': {{}}}}\ntouches = []\n\
         async def execute(args):\n    {body}\n"
    );
    (format!("{OWN}/{name}.py"), code)
}

/// Waits for what no event tells of.
pub(crate) async fn until(holds: impl Fn() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(HANG, wait).await.unwrap();
}

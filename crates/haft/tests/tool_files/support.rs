//! A workspace with tools in it, and a session that calls them.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use haft::{
    kit::redact::Secrets,
    policy::{Approve, Policy},
    runtime::{
        Answer, Call, Commands, Runtime, Session, Settings, Unattended,
        plugins::{Folder, OWN, ToolFiles, Whose},
    },
    sandbox::SandboxMode,
};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

/// A timeout that only a call that hangs exceeds.
pub(crate) const HANG: Duration = Duration::from_secs(60);

/// A workspace, and a session in it.
pub(crate) struct Fixture {
    _dir: tempfile::TempDir,
    pub(crate) runtime: Runtime,
    pub(crate) session: Session,
    mark: String,
}

/// Options of a test.
pub(crate) struct Wish {
    pub(crate) sandbox: SandboxMode,
    pub(crate) deadline: Duration,
}

impl Default for Wish {
    fn default() -> Self {
        Self { sandbox: SandboxMode::Workspace, deadline: HANG }
    }
}

/// A file: its name without its ending, and what it holds.
pub(crate) type Code = (String, String);

/// Returns a module in navi's format, whose `execute` has this body.
pub(crate) fn navi(name: &str, body: &str) -> Code {
    after("", name, body)
}

/// The same with other lines before.
pub(crate) fn after(head: &str, name: &str, body: &str) -> Code {
    let body = body.replace('\n', "\n    ");
    let code = format!(
        "{head}\nname = {name:?}\ndescription = 'For a test.'\n\
         parameters = {{'type': 'object', 'properties': {{}}}}\ntouches = []\n\
         async def execute(args):\n    {body}\n"
    );
    (name.to_owned(), code)
}

impl Fixture {
    /// Creates a fixture with these files loaded.
    pub(crate) async fn new(files: &[Code]) -> Self {
        Self::with(files, &Wish::default()).await
    }

    pub(crate) async fn with(files: &[Code], wish: &Wish) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let tools = base.join("ws").join(OWN);
        std::fs::create_dir_all(&tools).unwrap();
        // The mark tells the processes of this fixture from all others.
        let mark = base.display().to_string();
        let mut variables: Vec<(String, String)> = std::env::vars().collect();
        variables.push(("HAFT_TEST_MARK".to_owned(), mark.clone()));
        variables.push(("HAFT_TEST_KEPT".to_owned(), "kept".to_owned()));
        let settings = Settings {
            network: Default::default(),
            tool_files: ToolFiles {
                folders: vec![Folder { path: tools.clone(), whose: Whose::Workspace }],
                ..ToolFiles::default()
            },
            workspace: base.join("ws"),
            roots: Vec::new(),
            state: base.join("state"),
            config: base.join("config"),
            policy: Policy { sandbox: wish.sandbox, approve: Approve::Auto, ..Policy::default() },
            other_names: Default::default(),
            allowed: None,
            deadline: wish.deadline,
            secrets: Secrets::none(),
            commands: Commands {
                keeper: Some(PathBuf::from(env!("CARGO_BIN_EXE_haft"))),
                variables,
                env: vec!["HAFT_TEST_MARK".to_owned()],
                ..Commands::default()
            },
        };
        for (name, code) in files {
            std::fs::write(tools.join(format!("{name}.py")), code).unwrap();
        }
        let runtime = Runtime::open(settings, Vec::new()).unwrap();
        runtime.plugins().reload(false).await;
        let session = runtime.session(None, "test", Arc::new(Unattended));
        Self { _dir: dir, runtime, session, mark }
    }

    /// Writes a file, which is not loaded by that.
    pub(crate) fn write(&self, (name, code): &Code) {
        std::fs::write(self.tools().join(format!("{name}.py")), code).unwrap();
    }

    /// Loads the files as they are now.
    pub(crate) async fn load(&self) {
        self.runtime.plugins().reload(false).await;
    }

    pub(crate) fn workspace(&self) -> &Path {
        self.runtime.roots().workspace()
    }

    pub(crate) fn tools(&self) -> PathBuf {
        self.workspace().join(OWN)
    }

    pub(crate) async fn call(&self, tool: &str) -> Answer {
        self.call_with(tool, json!({})).await
    }

    pub(crate) async fn call_with(&self, tool: &str, arguments: Value) -> Answer {
        timeout(HANG, self.session.call(Call::new(tool, arguments))).await.unwrap()
    }

    /// Returns the text that a model reads.
    pub(crate) async fn says(&self, tool: &str) -> String {
        self.call(tool).await.as_text()
    }

    /// Calls a tool that makes the file `begun`, and stops it then.
    pub(crate) async fn stopped_once_begun(&self, tool: &str) -> Answer {
        let call = Call::new(tool, json!({}));
        let cancel = call.cancel.clone();
        let stopping = async {
            self.until_begun().await;
            cancel.cancel();
        };
        let both = async { tokio::join!(self.session.call(call), stopping) };
        timeout(HANG, both).await.unwrap().0
    }

    /// Waits until a tool has made the file `begun`.
    pub(crate) async fn until_begun(&self) {
        let begun = self.workspace().join("begun");
        until(|| begun.exists()).await;
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

/// Waits for what no event tells of, and holds up everything else.
pub(crate) fn until_now(holds: impl Fn() -> bool) {
    let began = std::time::Instant::now();
    while !holds() {
        assert!(began.elapsed() < HANG, "it never came");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits for what no event tells of.
pub(crate) async fn until(holds: impl Fn() -> bool) {
    let wait = async {
        while !holds() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(HANG, wait).await.unwrap();
}

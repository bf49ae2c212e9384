//! A workspace with tools in it, and a session that calls them.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use haft::{
    kit::AnyTool,
    runtime::{
        Answer, Call, Commands, Runtime, Session, Settings, Unattended,
        mask::Secrets,
        outside,
        policy::{Approve, Policy, Sandbox},
    },
};
use serde_json::{Value, json};

/// Nothing here takes as long, unless it hangs.
pub(crate) const HANG: Duration = Duration::from_secs(60);

pub(crate) struct House {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) runtime: Runtime,
    pub(crate) session: Session,
}

/// What a test may want otherwise.
pub(crate) struct Wish {
    pub(crate) sandbox: Sandbox,
    pub(crate) deadline: Duration,
}

impl Default for Wish {
    fn default() -> Self {
        Self { sandbox: Sandbox::Workspace, deadline: HANG }
    }
}

/// A module in navi's format, whose `execute` has this body.
pub(crate) fn navi(name: &str, body: &str) -> (String, String) {
    let body = body.replace('\n', "\n    ");
    let code = format!(
        "name = {name:?}\ndescription = 'For a test.'\nparameters = {{'type': 'object', 'properties': {{}}}}\n\
         touches = []\nasync def execute(args):\n    {body}\n"
    );
    (name.to_owned(), code)
}

impl House {
    pub(crate) fn new(files: &[(String, String)]) -> Self {
        Self::with(files, &Wish::default())
    }

    pub(crate) fn with(files: &[(String, String)], wish: &Wish) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let folder = base.join("ws/.haft/tools");
        std::fs::create_dir_all(&folder).unwrap();
        for (name, code) in files {
            std::fs::write(folder.join(format!("{name}.py")), code).unwrap();
        }
        let settings = Settings {
            tool_files: outside::ToolFiles::default(),
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
                variables: std::env::vars().collect(),
                ..Commands::default()
            },
        };
        let runtime = Runtime::open(settings, Vec::new()).unwrap();
        let session = runtime.session(None, "test", Arc::new(Unattended));
        let house = Self { dir, runtime, session };
        house.load();
        house
    }

    /// Loads the files as they are now.
    pub(crate) fn load(&self) {
        let files = std::fs::read_dir(self.tools()).unwrap().flatten().map(|it| it.path());
        let tools: Vec<Arc<dyn AnyTool>> = files.map(|it| loaded(&it)).collect();
        self.runtime.registry().swap(tools, Vec::new());
    }

    pub(crate) fn tools(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join("ws/.haft/tools")
    }

    pub(crate) async fn call(&self, tool: &str) -> Answer {
        self.call_with(tool, json!({})).await
    }

    pub(crate) async fn call_with(&self, tool: &str, arguments: Value) -> Answer {
        tokio::time::timeout(HANG, self.session.call(Call::new(tool, arguments))).await.unwrap()
    }

    pub(crate) async fn says(&self, tool: &str) -> String {
        self.call(tool).await.as_text()
    }
}

fn loaded(path: &Path) -> Arc<dyn AnyTool> {
    let name = path.file_stem().unwrap().to_str().unwrap();
    let described = json!({"name": name, "description": "For a test.", "schema": {"type": "object", "properties": {}},
        "format": "navi", "entry": "", "touches": []});
    outside::scratch(path, described, outside::Section::default()).unwrap()
}

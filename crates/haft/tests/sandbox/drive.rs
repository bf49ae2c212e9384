//! A program that uses haft as a library, as whichever user it is started: it runs the commands that it reads.

use std::{
    io::{BufRead, Write},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use haft::{
    kit::{
        prelude::*,
        procs::{Program, Stdin, Streams},
    },
    runtime::{
        Call, Commands, DEADLINE, Runtime, Settings, Unattended,
        mask::Secrets,
        policy::{Approve, Policy, Sandbox},
        sandbox::limits::Limits,
    },
};
use serde_json::{Value, json};

/// What a driver is started with.
#[derive(Debug, Clone, serde::Serialize, Deserialize)]
pub(crate) struct Setup {
    pub(crate) base: PathBuf,
    pub(crate) sandbox: Sandbox,
    pub(crate) accept_weaker: Vec<String>,
    pub(crate) memory: u64,
    pub(crate) workspace: PathBuf,
    pub(crate) path: String,
}

/// Run a command.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Run {
    /// What.
    command: String,
    /// Outside the sandbox.
    #[serde(default)]
    unconfined: bool,
    /// Which hosts it may reach.
    #[serde(default)]
    net: Vec<String>,
}

impl Tool for Run {
    const NAME: &'static str = "run";

    fn touches(&self) -> Touches {
        let mut touches = Touches::run(&self.command);
        if self.unconfined {
            touches = touches.and(Touch::Unconfined);
        }
        self.net.iter().fold(touches, |touches, host| touches.and(Touch::Net(host.clone())))
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let cwd = cx.files().roots().workspace().to_owned();
        let argv = ["/bin/sh", "-c", &self.command].map(str::to_owned).to_vec();
        let program = Program {
            argv,
            cwd,
            env: Vec::new(),
            stdin: Stdin::Null,
            streams: Streams::Together,
            files: Vec::new(),
        };
        let begun = std::time::Instant::now();
        let process = cx.procs().start(program).await?;
        let exit = process.finished(Duration::from_secs(5)).await;
        let took = begun.elapsed();
        let text = process.output().since(0, 1 << 20).text;
        let denials = cx.procs().denials(exit, &text);
        let said = json!({"exit": exit.code(), "text": text, "denials": denials, "us": took.as_micros()});
        Ok(Output::text(said.to_string()))
    }
}

pub(crate) fn drive(setup: &str) {
    let setup: Setup = serde_json::from_str(setup).unwrap();
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let base = &setup.base;
    let mut variables = std::env::vars().filter(|(name, _)| name != "PATH").collect::<Vec<_>>();
    variables.push(("PATH".to_owned(), setup.path.clone()));
    let settings = Settings {
        tool_files: Default::default(),
        workspace: setup.workspace.clone(),
        roots: vec![haft::kit::files::RootSpec { path: base.join("shared"), read_only: true }],
        state: base.join("state"),
        config: base.join("config"),
        policy: Policy { sandbox: setup.sandbox, approve: Approve::Auto, ..Policy::default() },
        other_names: Default::default(),
        allowed: None,
        deadline: DEADLINE,
        secrets: Secrets::none(),
        commands: Commands {
            keeper: Some(base.join("bin/haft")),
            variables,
            accept_weaker: setup.accept_weaker,
            limits: Limits { memory: setup.memory, ..Limits::default() },
            ..Commands::default()
        },
    };
    tokio.block_on(async {
        let runtime = Runtime::open(settings, vec![haft::kit::erase::<Run>()]).unwrap();
        let session = runtime.session(None, "test", Arc::new(Unattended));
        for line in std::io::stdin().lock().lines() {
            let arguments: Value = serde_json::from_str(&line.unwrap()).unwrap();
            let answer = session.call(Call::new("run", arguments)).await;
            let said = match &answer.result {
                Ok(_) => answer.as_text(),
                Err(fault) => json!({"fault": fault.kind, "what": fault.as_text()}).to_string(),
            };
            let mut out = std::io::stdout().lock();
            writeln!(out, "{}", said.lines().next().unwrap_or_default()).unwrap();
            out.flush().unwrap();
        }
    });
}

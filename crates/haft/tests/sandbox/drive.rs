//! A program that uses haft as a library, as whichever user it is started: it runs the commands that it reads.

use std::{
    io::{BufRead, Write},
    path::PathBuf,
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use haft::{
    kit::{
        effect::Scope,
        prelude::*,
        procs::{Procs, Program, Stdin, Streams},
        redact::Secrets,
    },
    policy::{Approve, Policy},
    runtime::{
        Approver, Call, Commands, DEADLINE, Own, Request, Runtime, Session, Settings, Unattended, Verdict,
    },
    sandbox::{SandboxMode, limits::Limits},
};
use serde_json::{Value, json};

/// The parameters of a driver.
#[derive(Debug, Clone, serde::Serialize, Deserialize)]
pub(crate) struct Setup {
    pub(crate) base: PathBuf,
    pub(crate) sandbox: SandboxMode,
    pub(crate) accept_weaker: Vec<String>,
    pub(crate) memory: u64,
    pub(crate) workspace: PathBuf,
    pub(crate) path: String,
    pub(crate) approve: Approve,
    /// Hosts that are granted to everything.
    pub(crate) hosts: Vec<String>,
    /// A person is asked, and says yes to each call.
    pub(crate) agrees: bool,
}

/// Says yes to this one call, each time.
struct Agreeable;

impl Approver for Agreeable {
    fn approve(&self, _: Request) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>> {
        Box::pin(std::future::ready(Verdict::Yes(Scope::Once)))
    }
}

/// Run a command.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Run {
    /// A command line of `sh`.
    command: String,
    /// Whether it runs outside the sandbox.
    #[serde(default)]
    unconfined: bool,
    /// Hosts that it may reach.
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
        let program = sh(&self.command, cwd);
        Ok(Output::text(run(cx.procs(), program).await?))
    }
}

fn sh(command: &str, cwd: PathBuf) -> Program {
    Program {
        argv: ["/bin/sh", "-c", command].map(str::to_owned).to_vec(),
        cwd,
        env: Vec::new(),
        stdin: Stdin::Null,
        streams: Streams::Together,
        files: Vec::new(),
    }
}

/// Runs a program to its end, and says what came of it.
async fn run(procs: &Procs, program: Program) -> Result<String, Fault> {
    let begun = std::time::Instant::now();
    let process = procs.start(program).await?;
    let exit = process.finished(Duration::from_secs(5)).await;
    let took = begun.elapsed();
    let text = process.output().since(0, 1 << 20).text;
    let denials = procs.denials(exit, &text);
    Ok(json!({"exit": exit.code(), "text": text, "denials": denials, "us": took.as_micros()}).to_string())
}

/// A program of a tool that is a file.
#[derive(Debug, Clone, serde::Serialize, Deserialize)]
pub(crate) struct OfTool {
    /// The folder it lies in.
    pub(crate) folder: PathBuf,
    /// Further paths that it may read.
    pub(crate) read: Vec<PathBuf>,
    /// Further paths that it may change.
    pub(crate) write: Vec<PathBuf>,
}

impl OfTool {
    /// Returns processes in a sandbox of its own, which lasts as long as the result.
    fn procs(self, session: &Session, net: &[String]) -> Procs {
        let code = vec![self.folder.join("named.txt")];
        let own = Own { folder: self.folder, code, read: self.read, write: self.write, ..Own::default() };
        let touches = net.iter().fold(Touches::run("tool"), |it, host| it.and(Touch::Net(host.clone())));
        session.procs_of_tool(own, &touches)
    }
}

pub(crate) fn drive(setup: &str) {
    let setup: Setup = serde_json::from_str(setup).unwrap();
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let base = &setup.base;
    let mut variables = std::env::vars().filter(|(name, _)| name != "PATH").collect::<Vec<_>>();
    variables.push(("PATH".to_owned(), setup.path.clone()));
    let settings = Settings {
        network: Default::default(),
        tool_files: Default::default(),
        workspace: setup.workspace.clone(),
        roots: vec![haft::kit::files::RootSpec { path: base.join("shared"), read_only: true }],
        state: base.join("state"),
        config: base.join("config"),
        policy: Policy {
            sandbox: setup.sandbox,
            approve: setup.approve,
            hosts: setup.hosts.clone().into(),
            ..Policy::default()
        },
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
        let person: Arc<dyn Approver> = if setup.agrees { Arc::new(Agreeable) } else { Arc::new(Unattended) };
        let session = runtime.session(None, "test", person);
        for line in std::io::stdin().lock().lines() {
            let arguments: Value = serde_json::from_str(&line.unwrap()).unwrap();
            if let Some(tool) = arguments.get("tool").filter(|it| !it.is_null()) {
                let tool: OfTool = serde_json::from_value(tool.clone()).unwrap();
                let net: Vec<String> = arguments
                    .get("net")
                    .map_or_else(Vec::new, |it| serde_json::from_value(it.clone()).unwrap());
                let procs = tool.procs(&session, &net);
                let command = arguments["command"].as_str().unwrap();
                let ran = run(&procs, sh(command, setup.workspace.clone())).await;
                say(&ran.unwrap_or_else(|fault| {
                    json!({"fault": fault.kind, "what": fault.as_text()}).to_string()
                }));
                continue;
            }
            if let Some(source) = arguments["packages"].as_str() {
                let made = session.packages("x.py", source.as_bytes()).await;
                let said = made.map(|it| json!({"exit": 0, "text": it}).to_string());
                say(&said.unwrap_or_else(|fault| {
                    json!({"fault": fault.kind, "what": fault.as_text()}).to_string()
                }));
                continue;
            }
            let answer = session.call(Call::new("run", arguments)).await;
            let said = match &answer.result {
                Ok(_) => answer.as_text(),
                Err(fault) => json!({"fault": fault.kind, "what": fault.as_text()}).to_string(),
            };
            say(&said);
        }
    });
}

fn say(said: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", said.lines().next().unwrap_or_default()).unwrap();
    out.flush().unwrap();
}

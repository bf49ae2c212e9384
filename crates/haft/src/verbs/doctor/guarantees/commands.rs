//! Sandbox of commands: tested by a process inside it, and by the same process outside.

use std::{
    fs::{self, File},
    io,
    net::{TcpListener, UdpSocket},
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener},
    },
    path::Path,
    sync::Arc,
    time::Duration,
};

use kit::{
    Cx, Fault, Output, Tool, Touch, Touches,
    procs::{Ending, Program, Stdin, Streams},
};
use policy::{Approve, Policy};
use runtime::{Call, Commands, Runtime, Session, Settings, Unattended};
use sandbox::{
    limits::Limits,
    probe::{self, PROBE, Targets, Tried},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// Time limit of each program: only one that hangs takes as long.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Number of processes that exceeds the limit of the test session.
const PROCESSES: u64 = 40;

/// The results of the tests.
pub(super) struct Findings {
    inside: Result<Vec<Tried>, String>,
    outside: Result<Vec<Tried>, String>,
    leaves_nothing: Result<(), String>,
    is_limited: Result<(), String>,
    sets_aside: Result<(), String>,
}

impl Findings {
    /// Checks that no command broke this guarantee.
    pub(super) fn of(&self, guarantee: &str) -> Result<(), String> {
        let about = |it: &&Tried| it.guarantee == guarantee;
        let inside = self.inside.as_ref().map_err(Clone::clone)?;
        let reached: Vec<&str> =
            inside.iter().filter(about).filter(|it| it.reached).map(|it| it.what.as_str()).collect();
        if reached.is_empty() { Ok(()) } else { Err(format!("a command reached: {}", reached.join(", "))) }
    }

    /// Checks the positive control: every attempt succeeds outside the sandbox.
    pub(super) fn are_proof(&self) -> Result<(), String> {
        let outside = self.outside.as_ref().map_err(Clone::clone)?;
        let root = rustix::process::getuid().is_root();
        // An ordinary user may not change kernel settings, and no command ever has the variables with keys.
        let idle = outside.iter().filter(|it| !it.reached && (root || it.what != "a setting of the kernel"));
        // The positive control does not cover G7: other programs of the user may already use the inotify instances.
        let idle = idle.filter(|it| it.guarantee != "G7");
        let idle: Vec<&str> =
            idle.map(|it| it.what.as_str()).filter(|it| !it.starts_with("a key of")).collect();
        let proof = idle.is_empty();
        if proof {
            Ok(())
        } else {
            Err(format!("this does not work outside the sandbox either: {}", idle.join(", ")))
        }
    }

    /// Returns the result of the test that a control file made by a command is set aside.
    pub(super) fn sets_aside(&self) -> Result<(), String> {
        self.sets_aside.clone()
    }

    /// Returns the result of the test that a command with too many processes or too much memory is ended.
    pub(super) fn is_limited(&self) -> Result<(), String> {
        self.is_limited.clone()
    }

    /// Returns the result of the test that no process outlives its command.
    pub(super) fn leaves_nothing(&self) -> Result<(), String> {
        self.leaves_nothing.clone()
    }
}

/// Runs all tests, in a folder of the self-test.
pub(super) async fn findings(
    folder: &Path,
    variables: &[(String, String)],
    accept_weaker: &[String],
) -> Findings {
    match Trial::begin(folder, variables, accept_weaker) {
        Ok(trial) => Findings {
            outside: trial.probe(true).await,
            inside: trial.probe(false).await.map(|tried| without_counts(tried, accept_weaker)),
            leaves_nothing: trial.leave_behind().await,
            is_limited: trial.use_too_much().await,
            sets_aside: trial.make_control_file().await,
        },
        Err(why) => Findings {
            inside: Err(why.clone()),
            outside: Err(why.clone()),
            leaves_nothing: Err(why.clone()),
            is_limited: Err(why.clone()),
            sets_aside: Err(why),
        },
    }
}

/// Removes the attempts that only a user namespace can limit, if the person accepted a weaker sandbox.
fn without_counts(mut tried: Vec<Tried>, accept_weaker: &[String]) -> Vec<Tried> {
    tried.retain(|it| it.guarantee != "G7" || accept_weaker.is_empty());
    tried
}

struct Trial {
    session: Session,
    /// A session in the same workspace that denies every call that needs approval.
    unasked: Session,
    /// A session in the same workspace whose commands have low limits.
    limited: Session,
    targets: Targets,
}

impl Trial {
    fn begin(
        folder: &Path,
        variables: &[(String, String)],
        accept_weaker: &[String],
    ) -> Result<Self, String> {
        let targets = targets(folder).map_err(|error| error.to_string())?;
        let variables = of_home(variables, &targets.home);
        let settings = |approve, limits| Settings {
            network: Default::default(),
            tool_files: Default::default(),
            workspace: targets.workspace.clone(),
            roots: Vec::new(),
            state: targets.state.clone(),
            config: folder.join("config"),
            policy: Policy { approve, ..Policy::default() },
            other_names: kit::files::OtherNames::Refuse,
            allowed: None,
            deadline: runtime::DEADLINE,
            secrets: kit::redact::Secrets::none(),
            commands: Commands {
                variables: variables.clone(),
                accept_weaker: accept_weaker.to_vec(),
                limits,
                ..Commands::default()
            },
        };
        let session = |approve, limits| -> Result<Session, String> {
            let runtime = Runtime::open(settings(approve, limits), vec![kit::erase::<Start>()])
                .map_err(|fault: Fault| fault.as_text())?;
            Ok(runtime.session(None, "doctor", Arc::new(Unattended)))
        };
        let usual = Limits::default();
        let limited = Limits { memory: probe::TAKEN / 2 * (1 << 20), tree: PROCESSES / 2, ..usual };
        Ok(Self {
            session: session(Approve::Auto, usual)?,
            unasked: session(Approve::Never, usual)?,
            limited: session(Approve::Auto, limited)?,
            targets,
        })
    }

    async fn probe(&self, unconfined: bool) -> Result<Vec<Tried>, String> {
        let targets = serde_json::to_string(&self.targets).map_err(|error| error.to_string())?;
        // The path of haft does not exist inside the sandbox, but its open file descriptor does.
        let said = self
            .start(
                json!({"argv": [format!("/proc/self/fd/{OWN}"), PROBE, targets], "unconfined": unconfined}),
            )
            .await?;
        serde_json::from_str(&said).map_err(|error| format!("{error}: {said}"))
    }

    async fn leave_behind(&self) -> Result<(), String> {
        let mark = format!("haft-doctor-{}", std::process::id());
        // A fixed PATH: every Linux has these programs there.
        let script = "PATH=/usr/bin:/bin; setsid sleep 600 >/dev/null 2>&1 & echo up";
        self.start(json!({"argv": ["/bin/sh", "-c", script], "env": mark, "unconfined": false})).await?;
        if is_marked(&mark) { Err("a process that was left behind lives on".to_owned()) } else { Ok(()) }
    }

    async fn use_too_much(&self) -> Result<(), String> {
        let wait = probe::WAITS.as_secs();
        let forks = format!(
            "PATH=/usr/bin:/bin; i=0; while [ $i -lt {PROCESSES} ]; do sleep {wait} & i=$((i+1)); done; wait"
        );
        let memory = format!("/proc/self/fd/{OWN}");
        for (what, argv) in [
            ("too many processes", ["/bin/sh", "-c", &forks]),
            ("too much memory", [&memory, PROBE, probe::TAKES_MEMORY]),
        ] {
            let arguments = json!({"argv": argv, "unconfined": false});
            let answer = self.limited.call(Call::new(Start::NAME, arguments)).await;
            if answer.result.is_ok() {
                return Err(format!("a command with {what} was not ended"));
            }
        }
        Ok(())
    }

    async fn make_control_file(&self) -> Result<(), String> {
        let script = "PATH=/usr/bin:/bin; mkdir -p made && echo x > made/.envrc && echo x > made/other";
        let arguments = json!({"argv": ["/bin/sh", "-c", script], "unconfined": false});
        let answer = self.unasked.call(Call::new(Start::NAME, arguments)).await;
        answer.result.map_err(|fault| fault.as_text())?;
        let is_there = |name: &str| self.targets.workspace.join("made").join(name).exists();
        match (is_there(".envrc"), is_there("other")) {
            (false, true) => Ok(()),
            (true, _) => Err("a command made sub/.envrc, and it was not set aside".to_owned()),
            (false, false) => Err("a command could make no file at all".to_owned()),
        }
    }

    async fn start(&self, arguments: Value) -> Result<String, String> {
        let answer = self.session.call(Call::new(Start::NAME, arguments)).await;
        answer.result.map(|output| output.as_text()).map_err(|fault| fault.as_text())
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        for session in [&self.session, &self.unasked, &self.limited] {
            session.runtime().store().close(crate::verbs::LAST_WRITE);
        }
    }
}

/// The file descriptor of haft's own executable.
const OWN: i32 = 9;

/// Start a program and end what it leaves.
#[derive(Deserialize, JsonSchema)]
struct Start {
    /// It and its arguments.
    argv: Vec<String>,
    /// A mark in its environment.
    #[serde(default)]
    env: String,
    /// Outside the sandbox.
    unconfined: bool,
}

impl Tool for Start {
    const NAME: &'static str = "start";

    fn touches(&self) -> Touches {
        let touches = Touches::run(self.argv.join(" "));
        if self.unconfined { touches.and(Touch::Unconfined) } else { touches }
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let leaves = !self.env.is_empty();
        let own = File::open("/proc/self/exe").map_err(|error| Fault::bug(error.to_string()))?;
        let program = Program {
            argv: self.argv,
            cwd: cx.files().roots().workspace().to_owned(),
            env: vec![("HAFT_DOCTOR".to_owned(), self.env)],
            stdin: Stdin::Null,
            streams: Streams::Together,
            files: vec![(OWN, own.into())],
        };
        let process = cx.procs().start(program).await?;
        let ended = tokio::time::timeout(TIMEOUT, process.finished(TIMEOUT)).await;
        if leaves && process.left().await.processes.is_empty() {
            return Err(Fault::bug("it left nothing behind to look for"));
        }
        process.end(Ending::NOW).await;
        // `denials` also checks the files that the command changed.
        if let Ok(exit) = ended {
            cx.procs().denials(exit, "");
        }
        let text = process.output().since(0, 1 << 16).text;
        match ended {
            Ok(exit) if exit.is_success() => Ok(Output::text(text)),
            Ok(exit) => Err(Fault::bug(format!("it ended with {exit:?}: {text}"))),
            Err(_) => Err(Fault::bug(format!("it did not end: {text}"))),
        }
    }
}

/// The configuration of a repository that runs what lies in the workspace.
const CONFIGURATION: &str = "[core]\n\thooksPath = my-hooks\n[filter \"x\"]\n\tclean = sh tools/filter\n";

/// Returns the variables of a person with this home, and a folder of programs in it.
fn of_home(variables: &[(String, String)], home: &Path) -> Vec<(String, String)> {
    let path = variables.iter().find(|(name, _)| name == "PATH").map_or("/usr/bin:/bin", |it| it.1.as_str());
    let path = format!("{}:{path}", home.join(probe::BESIDE.0).display());
    let mut variables: Vec<_> =
        variables.iter().filter(|(name, _)| name != "PATH" && name != "HOME").cloned().collect();
    variables.extend([("PATH".to_owned(), path), ("HOME".to_owned(), home.display().to_string())]);
    variables
}

/// Creates the targets that must not be reached.
fn targets(folder: &Path) -> io::Result<Targets> {
    let folder = folder.join("commands");
    for name in ["ws/.git/hooks", "ws/.git/objects", "ws/.git/refs", "outside", "state", "config"] {
        fs::create_dir_all(folder.join(name))?;
    }
    for name in ["outside/secret", "state/secret", "ws/.git/HEAD"] {
        fs::write(folder.join(name), "")?;
    }
    fs::write(folder.join("ws/.git/config"), CONFIGURATION)?;
    let vendored = folder.join("ws").join(probe::VENDORED);
    fs::create_dir_all(&vendored)?;
    fs::write(vendored.with_file_name("config"), "")?;
    let in_workspace = probe::NESTED.iter().chain(probe::CONFIGURED).map(|it| folder.join("ws").join(it));
    for file in in_workspace.chain([folder.join("home").join(probe::BESIDE.1)]) {
        fs::create_dir_all(file.parent().unwrap_or(&folder))?;
        fs::write(file, "")?;
    }
    fs::create_dir_all(folder.join("home").join(probe::BESIDE.0))?;
    let folder = folder.canonicalize()?;
    let tcp = TcpListener::bind("127.0.0.1:0")?;
    let udp = UdpSocket::bind("127.0.0.1:0")?;
    let ports = (tcp.local_addr()?.port(), udp.local_addr()?.port());
    // A socket's path is short; the name of the self-test's folder may not be.
    let path = Path::new(&folder).join("ws/s");
    let name = format!("haft-doctor-{}", std::process::id());
    let with_path = UnixListener::bind(&path)?;
    let with_name = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
    std::thread::spawn(move || {
        // The listeners stay open while this thread runs.
        let _open = (tcp, with_path, with_name);
        while let Ok((_, from)) = udp.recv_from(&mut [0; 16]) {
            let _ = udp.send_to(b"x", from);
        }
    });
    Ok(Targets {
        outside: folder.join("outside"),
        state: folder.join("state"),
        workspace: folder.join("ws"),
        home: folder.join("home"),
        haft: rustix::process::getpid().as_raw_nonzero().get(),
        ports,
        sockets: (path, name),
    })
}

/// Returns whether a process has the mark in its environment.
fn is_marked(mark: &str) -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut environments = processes.filter_map(|it| fs::read(it.path().join("environ")).ok());
    environments.any(|it| it.windows(mark.len()).any(|part| part == mark.as_bytes()))
}

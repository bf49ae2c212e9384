//! A place with something to steal and somebody to hurt, and commands that run in it, as root or as an ordinary user.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, UdpSocket},
    os::{
        linux::net::SocketAddrExt,
        unix::{
            fs::{MetadataExt, PermissionsExt},
            net::{SocketAddr, UnixListener},
            process::CommandExt,
        },
    },
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use haft::{policy::Approve, sandbox::SandboxMode};
use serde_json::{Value, json};

use crate::drive::Setup;

/// The user who runs haft.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum User {
    Root,
    /// An unused user id: this program starts haft as this user.
    Ordinary,
    /// The ordinary user who runs this program.
    Myself,
}

/// An id that no user has.
pub(crate) const ORDINARY: u32 = 12345;

/// A secret in haft's environment.
pub(crate) const CANARY: &str = "canary-7f31c5";

pub(crate) struct World {
    pub(crate) base: PathBuf,
    pub(crate) user: User,
    tcp: u16,
    udp: u16,
    folder: tempfile::TempDir,
}

impl World {
    pub(crate) fn new(user: User) -> Self {
        let folder = tempfile::Builder::new().prefix("haft-sandbox-").tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        fs::set_permissions(&base, fs::Permissions::from_mode(0o755)).unwrap();
        for name in
            ["ws/sub", "ws/.vscode", "outside", "shared", "home/.ssh", "other_home", "state", "config", "bin"]
        {
            fs::create_dir_all(base.join(name)).unwrap();
        }
        for file in [
            "outside/secret",
            "shared/file",
            "shared/file2",
            "shared/file3",
            "home/.ssh/id",
            "other_home/x",
            "state/x",
        ] {
            fs::write(base.join(file), "secret\n").unwrap();
        }
        for file in ["ws/haft.toml", "ws/.vscode/tasks.json"] {
            fs::write(base.join(file), "").unwrap();
        }
        fs::write(base.join("home/.gitconfig"), "[user]\n\tname = A\n\temail = a@b.example\n").unwrap();
        fs::write(base.join("ws/attacks.py"), include_str!("attacks.py")).unwrap();
        for folder in ["ws/.haft/tools", "config/tools"] {
            let folder = base.join(folder);
            fs::create_dir_all(folder.join("data")).unwrap();
            fs::create_dir_all(folder.join("lib")).unwrap();
            for file in ["mine.py", "other.py", "enabled.json", "named.txt", "lib/more.py", "data.json"] {
                fs::write(folder.join(file), "as it was\n").unwrap();
            }
        }
        fs::write(base.join("config/haft.toml"), "secret\n").unwrap();
        fs::copy(env!("CARGO_BIN_EXE_haft"), base.join("bin/haft")).unwrap();
        fs::copy(std::env::current_exe().unwrap(), base.join("bin/driver")).unwrap();
        for repository in ["ws", "ws/sub"] {
            git(&base.join(repository), &["init", "--quiet", "--initial-branch=main"]);
        }
        make_repositories(&base.join("ws"));
        serve_unix(UnixListener::bind(base.join("ws/host.sock")).unwrap());
        let name = SocketAddr::from_abstract_name(abstract_name(&base)).unwrap();
        serve_unix(UnixListener::bind_addr(&name).unwrap());
        let (tcp, udp) = (serve_tcp(), serve_udp());
        let world = Self { base, user, tcp, udp, folder };
        if user == User::Ordinary {
            world.give(&world.base);
            let as_root = world.base.join("ws/as-root");
            fs::copy("/usr/bin/id", &as_root).unwrap();
            fs::set_permissions(&as_root, fs::Permissions::from_mode(0o4755)).unwrap();
        }
        world
    }

    /// Makes the ordinary user the owner of all this.
    pub(crate) fn give(&self, path: &Path) {
        if self.user != User::Ordinary {
            return;
        }
        std::os::unix::fs::lchown(path, Some(ORDINARY), Some(ORDINARY)).unwrap();
        if fs::symlink_metadata(path).unwrap().is_dir() {
            for entry in fs::read_dir(path).unwrap() {
                self.give(&entry.unwrap().path());
            }
        }
    }

    pub(crate) fn setup(&self) -> Setup {
        Setup {
            base: self.base.clone(),
            workspace: self.base.join("ws"),
            sandbox: SandboxMode::Workspace,
            accept_weaker: Vec::new(),
            memory: 4 << 30,
            path: std::env::var("PATH").unwrap(),
            approve: Approve::Auto,
            hosts: Vec::new(),
            agrees: false,
        }
    }

    pub(crate) fn start(&self, setup: &Setup) -> Driver {
        self.start_by(Command::new(self.base.join("bin/driver")), setup)
    }

    /// Starts haft by a command that takes more arguments: what it is to run.
    pub(crate) fn start_by(&self, mut command: Command, setup: &Setup) -> Driver {
        command.args(["drive", &serde_json::to_string(setup).unwrap()]);
        command.env_clear().env("HOME", self.base.join("home")).env("SECRET_KEY", CANARY);
        command.env("PATH", std::env::var_os("PATH").unwrap()).current_dir(self.base.join("outside"));
        for name in ["CARGO_HOME", "RUSTUP_HOME", "PYENV_ROOT"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        if self.user == User::Ordinary {
            command.uid(ORDINARY).gid(ORDINARY);
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Driver { child, stdin, stdout }
    }

    /// Returns the paths and ids that an attacker has to know.
    pub(crate) fn places(&self, haft: u32) -> String {
        let at = |name: &str| self.base.join(name).display().to_string();
        json!({
            "ws": at("ws"), "outside": at("outside"), "shared": at("shared"), "home": at("home"), "other_home": at("other_home"),
            "state": at("state"), "haft": haft, "canary": CANARY, "tcp": self.tcp, "udp": self.udp,
            "abstract": abstract_name(&self.base),
        })
        .to_string()
    }

    /// Returns the state of all files outside: content, mode, owner and time of each.
    pub(crate) fn outside(&self) -> BTreeMap<PathBuf, (Vec<u8>, u32, u32, i64)> {
        let mut seen = BTreeMap::new();
        let mut folders = ["outside", "shared", "home", "other_home"].map(|it| self.base.join(it)).to_vec();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let about = fs::symlink_metadata(&path).unwrap();
                if about.is_dir() {
                    folders.push(path.clone());
                }
                let content = fs::read(&path).unwrap_or_default();
                seen.insert(path, (content, about.mode(), about.uid(), about.mtime()));
            }
        }
        seen
    }

    pub(crate) fn keep_folder(self) -> tempfile::TempDir {
        self.folder
    }
}

/// haft, as one user, waiting for commands.
pub(crate) struct Driver {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) exit: i64,
    pub(crate) text: String,
    pub(crate) denials: Vec<String>,
    /// The time from the request until the end.
    pub(crate) microseconds: u64,
    /// The error if nothing ran.
    pub(crate) fault: Option<String>,
}

impl Driver {
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn sh(&mut self, command: &str) -> Ran {
        self.run(&json!({"command": command}))
    }

    /// Begins a command whose end is not waited for.
    pub(crate) fn begin(&mut self, command: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{}", json!({"command": command})).unwrap();
    }

    pub(crate) fn run(&mut self, arguments: &Value) -> Ran {
        writeln!(self.stdin.as_mut().unwrap(), "{arguments}").unwrap();
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let denials = said["denials"].as_array().into_iter().flatten();
        Ran {
            exit: said["exit"].as_i64().unwrap_or(-2),
            text: said["text"].as_str().unwrap_or_default().to_owned(),
            denials: denials.map(|it| it.as_str().unwrap().to_owned()).collect(),
            microseconds: said["us"].as_u64().unwrap_or_default(),
            fault: said["what"].as_str().map(str::to_owned),
        }
    }

    /// Returns which attacks succeeded, with the output of each.
    pub(crate) fn attack(&mut self, world: &World, unconfined: bool) -> BTreeMap<String, (bool, String)> {
        self.attack_from(world, &json!({"unconfined": unconfined}))
    }

    /// The same, from where these arguments have the command run.
    pub(crate) fn attack_from(&mut self, world: &World, place: &Value) -> BTreeMap<String, (bool, String)> {
        let command =
            format!("/usr/bin/python3 {}/ws/attacks.py '{}'", world.base.display(), world.places(self.id()));
        let mut arguments = place.clone();
        arguments["command"] = command.into();
        let ran = self.run(&arguments);
        assert_eq!(ran.exit, 0, "{ran:?}");
        let lines = ran.text.lines().filter_map(|line| {
            let (name, rest) = line.split_once(' ')?;
            Some((name.to_owned(), (rest.starts_with("reached"), rest.to_owned())))
        });
        lines.collect()
    }
}

impl Driver {
    /// Closes haft's input, and waits until it has ended.
    pub(crate) fn close(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }

    /// Kills haft, which can do nothing about it.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

pub(crate) fn git(folder: &Path, arguments: &[&str]) {
    let ran = Command::new("git")
        .args(["-c", "user.name=A", "-c", "user.email=a@b.example", "-c", "safe.directory=*"])
        .args(["-c", "protocol.file.allow=always"])
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(ran.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
}

/// Repositories in every place that git knows.
fn make_repositories(ws: &Path) {
    for folder in ["deep/b/c/d/e", "apart-tree", "link", "n/m", "per", "bare.git", ".git/modules/n"] {
        fs::create_dir_all(ws.join(folder)).unwrap();
    }
    for (repository, arguments) in [
        ("deep/b/c/d/e", &[][..]),
        ("apart-tree", &["--separate-git-dir=../apart"]),
        ("link", &[]),
        ("n/m", &["--separate-git-dir=../../.git/modules/n/m"]),
        ("per", &[]),
        ("bare.git", &["--bare"]),
    ] {
        git(&ws.join(repository), &[&["init", "--quiet"], arguments].concat());
    }
    git(&ws.join("per"), &["config", "extensions.worktreeConfig", "true"]);
    fs::rename(ws.join("link/.git"), ws.join("link/real")).unwrap();
    std::os::unix::fs::symlink("real", ws.join("link/.git")).unwrap();
}

fn abstract_name(base: &Path) -> String {
    format!("haft{}", base.display())
}

fn serve_tcp() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nhi");
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read(&mut [0; 1024]);
        }
    });
    port
}

fn serve_udp() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    std::thread::spawn(move || {
        while let Ok((_, from)) = socket.recv_from(&mut [0; 16]) {
            let _ = socket.send_to(b"hi", from);
        }
    });
    port
}

fn serve_unix(listener: UnixListener) {
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.write_all(b"hi");
        }
    });
}

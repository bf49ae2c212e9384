//! A nats-server of one's own: found, started on loopback with generated nkeys, and stopped.
//!
//! Everything of it is in `STATE/engine/nats`: the configuration, the seeds of the nkeys (mode 0600), JetStream's files, the
//! log and the process id. The server runs on when haft ends. Workers and senders have the least rights (`rights.rs`).

mod find;
mod rights;

use std::{
    fs,
    io::{self, Write as _},
    net::{Ipv4Addr, TcpListener},
    os::unix::{fs::OpenOptionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use nkeys::KeyPair;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    net::TcpStream,
    time::{Instant, sleep, timeout},
};

use crate::{
    Error, Options, Result,
    files::{blocking, folder_of, of_file},
};
#[cfg(test)]
pub(crate) use find::find_in;
pub use find::{Found, find};

/// Returns the prefix of the inboxes of the user with this public nkey: no other user reads the answers to it.
pub(super) fn inbox(nkey: &str) -> String {
    format!("_INBOX.{nkey}")
}

/// How long the server may take to start and to stop.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running server.
#[derive(Clone, Debug)]
pub struct Server {
    /// The value of the configuration key `engine`.
    pub url: String,
    /// The file with the seed of the workers' nkey.
    pub worker_nkey: PathBuf,
    /// The file with the seed of the senders' nkey.
    pub sender_nkey: PathBuf,
    /// The file with the seed of the operator's nkey, which may do everything; it stays on this machine.
    pub operator_nkey: PathBuf,
    pub version: String,
    pub pid: u32,
    pub log: PathBuf,
    /// It ran before.
    pub already: bool,
}

/// The files of a server.
struct Home {
    folder: PathBuf,
}

impl Home {
    fn of(state: &Path) -> Self {
        Self { folder: state.join("engine").join("nats") }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn config(&self) -> PathBuf {
        self.file("server.conf")
    }

    /// Returns the id of the running server: one whose command line names this configuration.
    fn pid(&self) -> Option<Pid> {
        let id = fs::read_to_string(self.file("server.pid")).ok()?.trim().parse().ok()?;
        let pid = Pid::from_raw(id)?;
        test_kill_process(pid).ok()?;
        let command = fs::read(format!("/proc/{id}/cmdline")).ok();
        let config = self.config();
        let ours =
            |it: &Vec<u8>| it.split(|it| *it == 0).any(|it| it == config.as_os_str().as_encoded_bytes());
        command.is_none_or(|it| ours(&it)).then_some(pid)
    }

    fn port(&self) -> Result<u16> {
        let path = self.file("port");
        match fs::read_to_string(&path) {
            Ok(text) => text.trim().parse().map_err(|_| {
                Error::Damaged(format!("{}: {text:?} is not a port; remove this file", path.display()))
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // A free one, which stays the server's, so that clients find it again after a restart.
                let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|it| it.local_addr());
                let port = free.map_err(|it| of_file(&path, &it))?.port();
                secret(&path, &port.to_string())?;
                Ok(port)
            }
            Err(error) => Err(of_file(&path, &error)),
        }
    }

    /// Returns the public nkey of a role, and the file with its seed, which is generated once.
    fn nkey(&self, role: &str) -> Result<(String, PathBuf)> {
        let path = self.file(&format!("{role}.nk"));
        let damaged =
            |it: nkeys::error::Error| Error::Damaged(format!("{}: {it}; remove this file", path.display()));
        let pair = match fs::read_to_string(&path) {
            Ok(seed) => KeyPair::from_seed(seed.trim()).map_err(damaged)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let pair = KeyPair::new_user();
                secret(&path, &pair.seed().map_err(damaged)?)?;
                pair
            }
            Err(error) => return Err(of_file(&path, &error)),
        };
        Ok((pair.public_key(), path))
    }
}

/// Writes a file that only this user can read.
fn secret(path: &Path, text: &str) -> Result<()> {
    let write = || {
        let fresh = path.with_extension("new");
        let _ = fs::remove_file(&fresh);
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, path)?;
        fs::File::open(folder_of(path))?.sync_all()
    };
    write().map_err(|it| of_file(path, &it))
}

/// Starts the server of this state folder, or returns the one that runs.
pub async fn start(state: &Path) -> Result<Server> {
    start_found(state, None).await
}

/// Starts this nats-server, or one that is found.
pub(crate) async fn start_found(state: &Path, found: Option<Found>) -> Result<Server> {
    let home = Home::of(state);
    fs::create_dir_all(&home.folder).map_err(|it| of_file(&home.folder, &it))?;
    let (port, worker, sender) = (home.port()?, home.nkey("worker")?, home.nkey("sender")?);
    let operator = home.nkey("operator")?;
    let log = home.file("server.log");
    let server = |version, pid: Pid, already| Server {
        url: format!("nats://127.0.0.1:{port}"),
        worker_nkey: worker.1.clone(),
        sender_nkey: sender.1.clone(),
        operator_nkey: operator.1.clone(),
        version,
        pid: u32::try_from(pid.as_raw_nonzero().get()).unwrap_or_default(),
        log: log.clone(),
        already,
    };
    if let Some(pid) = home.pid() {
        return Ok(server(answering(port, pid, &log).await?, pid, true));
    }
    let found = match found {
        Some(found) => found,
        None => find(&home.folder).await?,
    };
    let jetstream = home.file("jetstream");
    secret(&home.config(), &configuration(port, &jetstream, [&operator.0, &worker.0, &sender.0])?)?;
    let pid = blocking({
        let (program, config, log, pid_file) =
            (found.program, home.config(), log.clone(), home.file("server.pid"));
        move || spawn(&program, &config, &log, &pid_file)
    })
    .await?;
    let server = server(answering(port, pid, &log).await?, pid, false);
    // Neither workers nor senders may create what they use.
    let options = Options { nkey: Some(server.operator_nkey.clone()), ..Options::default() };
    super::Nats::open(&server.url, &options).await?;
    Ok(server)
}

fn configuration(port: u16, jetstream: &Path, nkeys: [&str; 3]) -> Result<String> {
    let folder = jetstream.to_str().filter(|it| !it.contains(['"', '\\', '\n'])).ok_or_else(|| {
        Error::Refused(format!(
            "{jetstream:?} cannot stand in a configuration of nats-server: use another state folder"
        ))
    })?;
    let [operator, worker, sender] = nkeys;
    let (as_worker, as_sender) = (rights::of_worker(worker), rights::of_sender(sender));
    Ok(format!(
        "# Written by haft at each start.
server_name: haft
listen: \"127.0.0.1:{port}\"
jetstream {{
  store_dir: \"{folder}\"
  # A result that was accepted survives a loss of power.
  sync_interval: always
}}
accounts {{
  HAFT {{
    jetstream: enabled
    users: [
      {{ nkey: {operator} }}
      {{ nkey: {worker}, permissions: {as_worker} }}
      {{ nkey: {sender}, permissions: {as_sender} }}
    ]
  }}
}}
"
    ))
}

/// Starts the program so that it outlives this process and its terminal.
fn spawn(program: &Path, config: &Path, log: &Path, pid_file: &Path) -> Result<Pid> {
    let write = fs::OpenOptions::new().create(true).append(true).mode(0o600).open(log);
    let write = write.map_err(|it| of_file(log, &it))?;
    let errors = write.try_clone().map_err(|it| of_file(log, &it))?;
    let mut command = Command::new(program);
    command.arg("--config").arg(config).stdin(Stdio::null()).stdout(write).stderr(errors).process_group(0);
    let child = command.spawn().map_err(|it| of_file(program, &it))?;
    secret(pid_file, &child.id().to_string())?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    // Reaped if it ends while this process lives.
    std::thread::spawn(move || {
        let mut child = child;
        let _ = child.wait();
    });
    pid.ok_or_else(|| Error::Refused("the server has no process id".to_owned()))
}

/// Waits until the server answers, and returns its version.
async fn answering(port: u16, pid: Pid, log: &Path) -> Result<String> {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Ok(Some(version)) = timeout(Duration::from_secs(1), greeting(port)).await {
            return Ok(version);
        }
        if test_kill_process(pid).is_err() || Instant::now() >= end {
            let text = fs::read_to_string(log).unwrap_or_default();
            let last: Vec<_> = text.lines().rev().take(3).collect();
            let last: Vec<_> = last.into_iter().rev().collect();
            return Err(Error::Refused(format!(
                "nats-server did not start on port {port}: {}; the whole log is {}",
                last.join(" | "),
                log.display()
            )));
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// Returns the version in the greeting of a server.
async fn greeting(port: u16) -> Option<String> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.ok()?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).await.ok()?;
    let info: serde_json::Value = serde_json::from_str(line.strip_prefix("INFO ")?).ok()?;
    info.get("version")?.as_str().map(str::to_owned)
}

/// Stops the server of this state folder, and returns whether one ran. What is stored stays.
pub async fn stop(state: &Path) -> Result<bool> {
    let home = Home::of(state);
    let Some(pid) = home.pid() else { return Ok(false) };
    let refused =
        |it: rustix::io::Errno| Error::Refused(format!("the server {pid:?} could not be stopped: {it}"));
    kill_process(pid, Signal::TERM).map_err(refused)?;
    let end = Instant::now() + PATIENCE;
    while home.pid().is_some() && !is_zombie(pid) {
        if Instant::now() >= end {
            kill_process(pid, Signal::KILL).map_err(refused)?;
        }
        sleep(Duration::from_millis(20)).await;
    }
    let _ = fs::remove_file(home.file("server.pid"));
    Ok(true)
}

/// Kills the server, as a crash would.
#[cfg(test)]
pub(crate) fn kill(state: &Path) {
    let home = Home::of(state);
    let Some(pid) = home.pid() else { return };
    let _ = kill_process(pid, Signal::KILL);
    while home.pid().is_some() && !is_zombie(pid) {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns whether the process has ended and its parent has not noticed.
fn is_zombie(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    stat.is_ok_and(|it| it.rsplit(')').next().is_some_and(|it| it.trim_start().starts_with('Z')))
}

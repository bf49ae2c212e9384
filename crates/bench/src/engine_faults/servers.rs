//! The servers of a run: none, one, or a cluster of three.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use engine::nats::server::{self, Server};
use rustix::process::{Pid, Signal, kill_process};
use tokio::runtime::Runtime;

use super::{Place, Trouble};

/// How long a server may take to answer after its start.
const START: Duration = Duration::from_secs(30);

/// The servers of a run.
pub(super) enum Servers {
    None,
    One(Server),
    Three(Cluster),
}

pub(super) struct Cluster {
    program: PathBuf,
    folder: PathBuf,
    ports: [u16; 3],
    nodes: [Child; 3],
}

impl Servers {
    pub(super) fn start(folder: &Path, place: Place, runtime: &Runtime) -> Result<Self, Trouble> {
        Ok(match place {
            Place::Sqlite => Self::None,
            Place::Nats => Self::One(runtime.block_on(server::start(folder))?),
            Place::Cluster => Self::Three(Cluster::start(folder, runtime)?),
        })
    }

    /// Returns the engine's address, and the nkeys of a worker and a sender.
    pub(super) fn address(&self) -> (String, PathBuf, PathBuf) {
        match self {
            Self::None => ("sqlite".to_owned(), PathBuf::new(), PathBuf::new()),
            Self::One(it) => (it.url.clone(), it.worker_nkey.clone(), it.sender_nkey.clone()),
            Self::Three(it) => (it.url(), PathBuf::new(), PathBuf::new()),
        }
    }

    pub(super) fn count(&self) -> u64 {
        match self {
            Self::None => 0,
            Self::One(_) => 1,
            Self::Three(_) => 3,
        }
    }

    /// Returns the port of the only server.
    pub(super) fn port(&self) -> Option<u16> {
        match self {
            Self::One(it) => it.url.rsplit(':').next()?.parse().ok(),
            Self::None | Self::Three(_) => None,
        }
    }

    pub(super) fn pid(&self, at: usize) -> Option<u32> {
        match self {
            Self::None => None,
            Self::One(it) => Some(it.pid),
            Self::Three(it) => it.nodes.get(at).map(Child::id),
        }
    }

    pub(super) fn signal(&self, at: usize, signal: Signal) -> Result<(), Trouble> {
        let id = self.pid(at).ok_or("there is no server")?;
        Ok(kill_process(Pid::from_raw(i32::try_from(id)?).ok_or("no process id")?, signal)?)
    }

    /// Kills a server and starts it again.
    pub(super) fn restart(&mut self, at: usize, folder: &Path, runtime: &Runtime) -> Result<(), Trouble> {
        self.signal(at, Signal::KILL)?;
        match self {
            Self::None => {}
            Self::One(it) => *it = runtime.block_on(restarted(folder))?,
            Self::Three(it) => it.restart(at)?,
        }
        Ok(())
    }

    pub(super) fn end(&mut self, folder: &Path, runtime: &Runtime) {
        match self {
            Self::None => {}
            Self::One(_) => drop(runtime.block_on(server::stop(folder))),
            Self::Three(it) => {
                for node in &mut it.nodes {
                    let _ = node.kill();
                    let _ = node.wait();
                }
            }
        }
    }
}

impl Cluster {
    fn start(folder: &Path, runtime: &Runtime) -> Result<Self, Trouble> {
        let home = folder.join("engine");
        fs::create_dir_all(&home)?;
        let program = runtime.block_on(server::find(&home))?.program;
        let ports = |count| -> std::io::Result<Vec<u16>> {
            let held: Vec<_> =
                (0..count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<Result<_, _>>()?;
            held.iter().map(|it| Ok(it.local_addr()?.port())).collect()
        };
        let all = ports(6)?;
        let routes: Vec<String> = all.iter().skip(3).map(|it| format!("nats://127.0.0.1:{it}")).collect();
        for (at, (client, route)) in all.iter().zip(all.iter().skip(3)).enumerate() {
            let store = home.join(format!("node{at}"));
            let config = format!(
                "server_name: node{at}\nlisten: \"127.0.0.1:{client}\"\njetstream {{ store_dir: {store:?}, sync_interval: always }}\n\
                 cluster {{ name: haft, listen: \"127.0.0.1:{route}\", routes: [{}] }}\n",
                routes.join(", ")
            );
            fs::write(home.join(format!("node{at}.conf")), config)?;
        }
        let node = |at| spawn(&program, &home, at);
        let nodes = [node(0)?, node(1)?, node(2)?];
        let ports: [u16; 3] = all.get(..3).ok_or("no ports")?.try_into()?;
        Ok(Self { program, folder: home, ports, nodes })
    }

    fn url(&self) -> String {
        self.ports.map(|it| format!("nats://127.0.0.1:{it}")).join(",")
    }

    fn restart(&mut self, at: usize) -> Result<(), Trouble> {
        let port = *self.ports.get(at).ok_or("no such node")?;
        let node = self.nodes.get_mut(at).ok_or("no such node")?;
        node.wait()?;
        *node = spawn(&self.program, &self.folder, at)?;
        let until = Instant::now() + START;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if Instant::now() >= until {
                return Err(format!("node {at} does not answer").into());
            }
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

fn spawn(program: &Path, home: &Path, at: usize) -> std::io::Result<Child> {
    let log = fs::File::options().create(true).append(true).open(home.join(format!("node{at}.log")))?;
    let mut command = Command::new(program);
    command.arg("--config").arg(home.join(format!("node{at}.conf")));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn()
}

/// Starts a killed server again: the first attempts may find its port still in use.
async fn restarted(folder: &Path) -> Result<Server, Trouble> {
    let mut attempts = 0;
    loop {
        match server::start(folder).await {
            Ok(server) if !server.already => return Ok(server),
            Ok(_) | Err(_) if attempts < 50 => attempts += 1,
            Ok(_) => return Err("the killed server still runs".into()),
            Err(error) => return Err(error.into()),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

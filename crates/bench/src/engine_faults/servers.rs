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

use super::{Place, Trouble, surroundings::Surroundings};

/// How long a server may take to answer after its start.
const START: Duration = Duration::from_secs(30);

/// The nodes of a cluster.
pub(super) const NODES: usize = 3;

/// The ports of a node with a namespace of its own.
const OWN_PORTS: (u16, u16) = (4222, 6222);

/// The servers of a run.
pub(super) enum Servers {
    None,
    One(Server),
    Three(Cluster),
}

pub(super) struct Cluster {
    program: PathBuf,
    folder: PathBuf,
    places: [NodePlace; NODES],
    nodes: Vec<Child>,
}

/// The place of a node: its namespace, its address, and its ports for clients and for the other nodes.
struct NodePlace {
    namespace: Option<String>,
    address: Ipv4Addr,
    client: u16,
    route: u16,
}

impl Servers {
    pub(super) fn start(
        folder: &Path,
        place: Place,
        here: &Surroundings,
        runtime: &Runtime,
    ) -> Result<Self, Trouble> {
        Ok(match place {
            Place::Sqlite => Self::None,
            Place::Nats => Self::One(runtime.block_on(server::start(folder))?),
            Place::Cluster => Self::Three(Cluster::start(folder, here, runtime)?),
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
        if self.count() > 0 {
            self.signal(at, Signal::KILL)?;
        }
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
    fn start(folder: &Path, here: &Surroundings, runtime: &Runtime) -> Result<Self, Trouble> {
        let home = folder.join("engine");
        fs::create_dir_all(&home)?;
        let program = runtime.block_on(server::find(&home))?.program;
        let mut ports = free_ports(2 * NODES)?.into_iter();
        let mut place = |at| -> Result<NodePlace, Trouble> {
            if let Some((namespace, address)) = here.node(at) {
                let namespace = Some(namespace.to_owned());
                return Ok(NodePlace { namespace, address, client: OWN_PORTS.0, route: OWN_PORTS.1 });
            }
            let mut port = || ports.next().ok_or("no ports");
            let (client, route) = (port()?, port()?);
            Ok(NodePlace { namespace: None, address: Ipv4Addr::LOCALHOST, client, route })
        };
        let places = [place(0)?, place(1)?, place(2)?];
        let routes: Vec<String> =
            places.iter().map(|it| format!("nats://{}:{}", it.address, it.route)).collect();
        let mut these = Self { program, folder: home, places, nodes: Vec::new() };
        for (at, place) in these.places.iter().enumerate() {
            let store = these.folder.join(format!("node{at}"));
            fs::create_dir_all(&store)?;
            let NodePlace { address, client, route, .. } = place;
            let config = format!(
                "server_name: node{at}\nlisten: \"{address}:{client}\"\njetstream {{ store_dir: {store:?}, sync_interval: always }}\n\
                 cluster {{ name: haft, listen: \"{address}:{route}\", routes: [{}] }}\n",
                routes.join(", ")
            );
            fs::write(these.folder.join(format!("node{at}.conf")), config)?;
        }
        for at in 0..NODES {
            let node = these.spawn(at)?;
            these.nodes.push(node);
        }
        Ok(these)
    }

    fn url(&self) -> String {
        let urls: Vec<String> =
            self.places.iter().map(|it| format!("nats://{}:{}", it.address, it.client)).collect();
        urls.join(",")
    }

    fn restart(&mut self, at: usize) -> Result<(), Trouble> {
        self.nodes.get_mut(at).ok_or("no such node")?.wait()?;
        let fresh = self.spawn(at)?;
        *self.nodes.get_mut(at).ok_or("no such node")? = fresh;
        let place = self.places.get(at).ok_or("no such node")?;
        let until = Instant::now() + START;
        while TcpStream::connect((place.address, place.client)).is_err() {
            if Instant::now() >= until {
                return Err(format!("node {at} does not answer").into());
            }
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn spawn(&self, at: usize) -> Result<Child, Trouble> {
        let place = self.places.get(at).ok_or("no such node")?;
        let log = self.folder.join(format!("node{at}.log"));
        let log = fs::File::options().create(true).append(true).open(log)?;
        let mut command = match &place.namespace {
            Some(namespace) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", namespace]).arg(&self.program);
                command
            }
            None => Command::new(&self.program),
        };
        command.arg("--config").arg(self.folder.join(format!("node{at}.conf")));
        Ok(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn()?)
    }
}

fn free_ports(count: usize) -> std::io::Result<Vec<u16>> {
    let held: Vec<_> =
        (0..count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<Result<_, _>>()?;
    held.iter().map(|it| Ok(it.local_addr()?.port())).collect()
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

//! One run: processes, faults, and the end.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Child, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::runtime::Runtime;

use super::{
    Counts, Files, Trouble,
    check::check,
    servers::{NODES, Servers},
    surroundings::Surroundings,
};

const WORKERS: usize = 4;
const SENDERS: usize = 2;

/// How long all that was offered may take to be answered after the last fault.
const DRAIN: Duration = Duration::from_secs(120);

/// How long a fault lasts that is not a kill: longer than the lease.
const LASTS: Duration = Duration::from_millis(1500);

/// How far wall clocks are moved, in seconds at most.
const JUMP: u64 = 2 * 24 * 60 * 60;

/// The engine of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// SQLite.
    Sqlite,
    /// NATS, with a server of the run's own.
    Nats,
    /// NATS, with a cluster of three servers that keep each record three times.
    Cluster,
}

/// The size of a run.
#[derive(Clone, Debug)]
pub struct Load {
    /// How many faults there are.
    pub faults: u64,
    /// The start of the random numbers that choose kinds and times.
    pub seed: u64,
    /// The kinds of faults, of those that the engine and the machine allow; all of them if this is empty.
    pub only: Vec<Fault>,
}

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// `kill -9` of a worker.
    KillWorker,
    /// `kill -9` of a sender.
    KillSender,
    /// SIGSTOP of a worker for longer than its lease.
    StopWorker,
    /// SIGSTOP of a sender.
    StopSender,
    /// `kill -9` of a server, which is started again.
    KillServer,
    /// SIGSTOP of a server.
    StopServer,
    /// The link of a worker is cut.
    Partition,
    /// The link of a node of a cluster is cut.
    PartitionServer,
    /// The wall clock of a worker or a sender jumps.
    Clock,
    /// The disk below the engine has no space left.
    FullDisk,
    /// Each fsync of the engine takes longer.
    SlowFsync,
}

impl Fault {
    /// Every kind, with its name on the command line.
    pub const ALL: [(&'static str, Self); 11] = [
        ("kill-worker", Self::KillWorker),
        ("kill-sender", Self::KillSender),
        ("stop-worker", Self::StopWorker),
        ("stop-sender", Self::StopSender),
        ("kill-server", Self::KillServer),
        ("stop-server", Self::StopServer),
        ("partition", Self::Partition),
        ("partition-server", Self::PartitionServer),
        ("clock", Self::Clock),
        ("full-disk", Self::FullDisk),
        ("slow-fsync", Self::SlowFsync),
    ];

    fn name(self) -> &'static str {
        match self {
            Self::KillWorker => "kill -9 of a worker",
            Self::KillSender => "kill -9 of a sender",
            Self::StopWorker => "stop of a worker",
            Self::StopSender => "stop of a sender",
            Self::KillServer => "kill -9 of a server",
            Self::StopServer => "stop of a server",
            Self::Partition => "partition of a worker",
            Self::PartitionServer => "partition of a server",
            Self::Clock => "wall clock of a process moved",
            Self::FullDisk => "full disk below the engine",
            Self::SlowFsync => "slow fsync",
        }
    }
}

/// A process that is started again when it is gone.
struct Process {
    child: Child,
    role: &'static str,
    number: usize,
}

/// A fault that lasts.
struct Lasting {
    until: Instant,
    what: What,
}

enum What {
    Process(usize),
    Server(usize),
    Link(usize),
    LinkOfServer(usize),
    Disk(usize),
    /// strace.
    Tracer(Child),
}

struct Run<'a> {
    folder: &'a Path,
    place: Place,
    surroundings: Surroundings,
    servers: Servers,
    processes: Vec<Process>,
    lasting: Vec<Lasting>,
    random: u64,
    runtime: &'a Runtime,
}

/// Does a run in an empty folder, and compares its files.
///
/// # Errors
/// When a process cannot be started, the files cannot be read, or none of the wanted kinds of faults is possible.
pub fn run(folder: &Path, place: Place, load: &Load) -> Result<Counts, Trouble> {
    let runtime = Runtime::new()?;
    let (workers, nodes) = match place {
        Place::Sqlite => (0, 0),
        Place::Nats => (WORKERS, 0),
        Place::Cluster => (WORKERS, NODES),
    };
    let surroundings = Surroundings::new(folder, workers, nodes)?;
    let servers = Servers::start(folder, place, &surroundings, &runtime)?;
    if let Some(port) = servers.port() {
        surroundings.forward(port)?;
    }
    let (processes, lasting) = (Vec::new(), Vec::new());
    let random = load.seed | 1;
    let mut run = Run { folder, place, surroundings, servers, processes, lasting, random, runtime: &runtime };
    for (role, most) in [("worker", WORKERS), ("sender", SENDERS)] {
        for number in 0..most {
            let child = run.start(role, number)?;
            run.processes.push(Process { child, role, number });
        }
    }
    let mut kinds = run.kinds();
    kinds.retain(|it| load.only.is_empty() || load.only.contains(it));
    if kinds.is_empty() {
        let missing = run.surroundings.missing(place != Place::Sqlite).join(", ");
        run.end();
        return Err(format!(
            "{place:?} has none of the wanted kinds of faults; not possible here: {missing}"
        )
        .into());
    }
    let mut faults: BTreeMap<Fault, u64> = BTreeMap::new();
    let mut made = 0;
    while made < load.faults {
        sleep(Duration::from_millis(40 + run.below(160)));
        run.tend(false)?;
        let kind = kinds.get(usize::try_from(run.below(kinds.len() as u64))?).copied();
        let kind = kind.unwrap_or(Fault::KillWorker);
        if run.fault(kind)? {
            *faults.entry(kind).or_default() += 1;
            made += 1;
        }
    }
    let answered = run.drain();
    run.end();
    let missing = run.surroundings.missing(place != Place::Sqlite);
    answered?;
    let faults = faults.into_iter().map(|(kind, count)| (kind.name(), count)).collect();
    check(&Files::of(folder), faults).map(|it| Counts { missing, ..it })
}

impl Run<'_> {
    /// A random number: a run with the same seed has the same faults.
    fn below(&mut self, most: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % most
    }

    /// Returns the kinds of faults of this run, each as often as it is chosen of all. Those of servers are chosen more often than
    /// they happen: only one server fails at a time.
    fn kinds(&self) -> Vec<Fault> {
        let (here, servers) = (&self.surroundings, self.servers.count() > 0);
        let all = [
            (Fault::KillWorker, 4, true),
            (Fault::KillSender, 3, true),
            (Fault::StopWorker, 4, true),
            (Fault::StopSender, 2, true),
            (Fault::KillServer, 4, servers),
            (Fault::StopServer, 4, servers),
            (Fault::Partition, 4, here.has_networks()),
            (Fault::PartitionServer, 4, here.has_networks() && self.place == Place::Cluster),
            (Fault::Clock, 2, here.has_clocks()),
            (Fault::FullDisk, 3, here.has_disk()),
            (Fault::SlowFsync, 3, here.has_strace()),
        ];
        let possible = all.into_iter().filter(|it| it.2);
        possible.flat_map(|(kind, weight, _)| std::iter::repeat_n(kind, weight)).collect()
    }

    fn start(&self, role: &'static str, number: usize) -> Result<Child, Trouble> {
        let (url, worker, sender) = self.servers.address();
        let name = format!("{role}{number}");
        let network = (role == "worker").then_some(number);
        let (mut command, url) = self.surroundings.command(network, &name, &url)?;
        let nkey = if role == "worker" { worker } else { sender };
        let replicas = if self.place == Place::Cluster { "3" } else { "1" };
        command.arg(role).arg(self.folder).arg(url).arg(nkey).arg(name).env("HAFT_FAULTS_REPLICAS", replicas);
        Ok(command.stdin(Stdio::null()).spawn()?)
    }

    /// Makes one fault. Returns whether it was possible now.
    fn fault(&mut self, kind: Fault) -> Result<bool, Trouble> {
        let worker = usize::try_from(self.below(WORKERS as u64))?;
        let sender = WORKERS + usize::try_from(self.below(SENDERS as u64))?;
        let server = usize::try_from(self.below(self.servers.count().max(1)))?;
        match kind {
            Fault::KillWorker => self.kill(worker)?,
            Fault::KillSender => self.kill(sender)?,
            Fault::StopWorker => return self.stop(worker),
            Fault::StopSender => return self.stop(sender),
            Fault::Clock => {
                let at = if self.below(3) == 0 { sender } else { worker };
                let process = self.processes.get(at).ok_or("no such process")?;
                let name = format!("{}{}", process.role, process.number);
                let seconds = i64::try_from(self.below(2 * JUMP))? - i64::try_from(JUMP)?;
                self.surroundings.move_clock(&name, seconds)?;
            }
            Fault::KillServer | Fault::StopServer if self.server_fails() => return Ok(false),
            Fault::KillServer => self.servers.restart(server, self.folder, self.runtime)?,
            Fault::StopServer => {
                self.servers.signal(server, Signal::STOP)?;
                self.lasts(What::Server(server));
            }
            Fault::Partition => {
                if self.lasting.iter().any(|it| matches!(it.what, What::Link(at) if at == worker)) {
                    return Ok(false);
                }
                self.surroundings.link_of_worker(worker, false);
                self.lasts(What::Link(worker));
            }
            Fault::PartitionServer => {
                if self.server_fails() {
                    return Ok(false);
                }
                self.surroundings.link_of_node(server, false);
                self.lasts(What::LinkOfServer(server));
            }
            Fault::FullDisk => {
                if self.server_fails() {
                    return Ok(false);
                }
                self.surroundings.fill(server, true)?;
                self.lasts(What::Disk(server));
            }
            Fault::SlowFsync => {
                if self.server_fails() || self.lasting.iter().any(|it| matches!(it.what, What::Tracer(_))) {
                    return Ok(false);
                }
                let pid = match self.servers.pid(server) {
                    Some(pid) => pid,
                    None => self.processes.get(worker).ok_or("no such process")?.child.id(),
                };
                let tracer = Surroundings::slow_fsync(pid)?;
                self.lasts(What::Tracer(tracer));
            }
        }
        Ok(true)
    }

    /// Returns whether a server fails already: a cluster of three bears one, and a fault of one server hides another.
    fn server_fails(&self) -> bool {
        self.lasting.iter().any(|it| match it.what {
            What::Server(_) | What::LinkOfServer(_) | What::Disk(_) => true,
            What::Tracer(_) => self.servers.count() > 0,
            What::Process(_) | What::Link(_) => false,
        })
    }

    fn lasts(&mut self, what: What) {
        self.lasting.push(Lasting { until: Instant::now() + LASTS, what });
    }

    fn kill(&mut self, at: usize) -> Result<(), Trouble> {
        let process = self.processes.get_mut(at).ok_or("no such process")?;
        process.child.kill()?;
        process.child.wait()?;
        let (role, number) = (process.role, process.number);
        self.lasting.retain(|it| !matches!(it.what, What::Process(other) if other == at));
        let child = self.start(role, number)?;
        if let Some(process) = self.processes.get_mut(at) {
            process.child = child;
        }
        Ok(())
    }

    /// Stops a process for longer than its lease: a zombie, when it goes on.
    fn stop(&mut self, at: usize) -> Result<bool, Trouble> {
        if self.lasting.iter().any(|it| matches!(it.what, What::Process(other) if other == at)) {
            return Ok(false);
        }
        let process = self.processes.get(at).ok_or("no such process")?;
        kill_process(Pid::from_child(&process.child), Signal::STOP)?;
        self.lasts(What::Process(at));
        Ok(true)
    }

    /// Ends the faults that have lasted long enough, or all; starts again what has ended by itself.
    fn tend(&mut self, all: bool) -> Result<(), Trouble> {
        let now = Instant::now();
        let (over, lasting) =
            std::mem::take(&mut self.lasting).into_iter().partition(|it| all || it.until <= now);
        self.lasting = lasting;
        let over: Vec<Lasting> = over;
        for it in over {
            match it.what {
                What::Process(at) => {
                    let process = self.processes.get(at).ok_or("no such process")?;
                    kill_process(Pid::from_child(&process.child), Signal::CONT)?;
                }
                What::Server(at) => self.servers.signal(at, Signal::CONT)?,
                What::Link(at) => self.surroundings.link_of_worker(at, true),
                What::LinkOfServer(at) => self.surroundings.link_of_node(at, true),
                What::Disk(at) => {
                    self.surroundings.fill(at, false)?;
                    // A nats-server gives up JetStream on a full disk, and its operator starts it again.
                    self.servers.restart(at, self.folder, self.runtime)?;
                }
                What::Tracer(mut tracer) => {
                    // It detaches; a kill would leave what it traces stopped.
                    kill_process(Pid::from_child(&tracer), Signal::TERM)?;
                    tracer.wait()?;
                }
            }
        }
        Ok(())
    }

    /// Waits until all that was offered is answered.
    fn drain(&mut self) -> Result<(), Trouble> {
        self.tend(true)?;
        fs::write(Files::of(self.folder).end(), "")?;
        let end = Instant::now() + DRAIN;
        while Instant::now() < end {
            sleep(Duration::from_millis(50));
            let mut open = false;
            for process in self.processes.iter_mut().filter(|it| it.role == "sender") {
                open |= process.child.try_wait()?.is_none();
            }
            if !open {
                return Ok(());
            }
        }
        // What has no answer now counts as unanswered.
        Ok(())
    }

    fn end(&mut self) {
        for process in &mut self.processes {
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
        self.servers.end(self.folder, self.runtime);
    }
}

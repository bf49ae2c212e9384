//! One run: processes, faults, and the end.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use engine::nats::server::{self, Server};
use rustix::process::{Pid, Signal, kill_process};

use super::{Counts, Files, LEASE, Trouble, check::check};

const WORKERS: usize = 4;
const SENDERS: usize = 2;

/// How long all that was offered may take to be answered after the last fault.
const DRAIN: Duration = Duration::from_secs(120);

/// The engine of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// SQLite.
    Sqlite,
    /// NATS, with a server of the run's own.
    Nats,
}

/// The size of a run.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// How many faults there are.
    pub faults: u64,
    /// The start of the random numbers that choose kinds and times.
    pub seed: u64,
}

/// A process that is started again when it is gone.
struct Process {
    child: Child,
    role: &'static str,
    number: usize,
    /// When it goes on, if it is stopped.
    stopped: Option<Instant>,
}

struct Run<'a> {
    folder: &'a Path,
    server: Option<Server>,
    server_stopped: Option<Instant>,
    processes: Vec<Process>,
    random: u64,
}

/// Does a run in an empty folder, and compares its files.
///
/// # Errors
/// When a process cannot be started, or the files cannot be read.
pub fn run(folder: &Path, place: Place, load: Load) -> Result<Counts, Trouble> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let server = match place {
        Place::Sqlite => None,
        Place::Nats => Some(runtime.block_on(server::start(folder))?),
    };
    let mut run = Run { folder, server, server_stopped: None, processes: Vec::new(), random: load.seed | 1 };
    for (role, most) in [("worker", WORKERS), ("sender", SENDERS)] {
        for number in 0..most {
            let child = run.start(role, number)?;
            run.processes.push(Process { child, role, number, stopped: None });
        }
    }
    let mut faults = BTreeMap::new();
    for _ in 0..load.faults {
        sleep(Duration::from_millis(40 + run.below(160)));
        run.tend(&runtime)?;
        *faults.entry(run.fault(&runtime)?).or_default() += 1;
    }
    let answered = run.drain(&runtime);
    run.end(&runtime);
    answered?;
    check(&Files::of(folder), faults)
}

impl Run<'_> {
    /// A random number: a run with the same seed has the same faults.
    fn below(&mut self, most: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % most
    }

    fn start(&self, role: &str, number: usize) -> Result<Child, Trouble> {
        let (url, nkey) = match &self.server {
            None => ("sqlite", Path::new("")),
            Some(it) if role == "worker" => (it.url.as_str(), it.worker_nkey.as_path()),
            Some(it) => (it.url.as_str(), it.sender_nkey.as_path()),
        };
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(role).arg(self.folder).arg(url).arg(nkey).arg(format!("{role}{number}"));
        Ok(command.stdin(Stdio::null()).spawn()?)
    }

    /// Makes one fault, and returns its kind.
    fn fault(&mut self, runtime: &tokio::runtime::Runtime) -> Result<&'static str, Trouble> {
        let kind = self.below(20);
        let worker = usize::try_from(self.below(WORKERS as u64))?;
        let sender = WORKERS + usize::try_from(self.below(SENDERS as u64))?;
        match kind {
            0..=8 => self.kill(worker).map(|()| "kill -9 of a worker"),
            9..=12 => self.kill(sender).map(|()| "kill -9 of a sender"),
            13..=15 => self.stop(worker).map(|()| "stop of a worker"),
            16 => self.stop(sender).map(|()| "stop of a sender"),
            17..=18 if self.server.is_some() && self.server_stopped.is_none() => {
                self.signal_server(Signal::KILL)?;
                self.server = Some(runtime.block_on(restarted(self.folder))?);
                Ok("kill -9 of the server")
            }
            19 if self.server.is_some() && self.server_stopped.is_none() => {
                self.signal_server(Signal::STOP)?;
                self.server_stopped = Some(Instant::now() + LEASE * 3 / 2);
                Ok("stop of the server")
            }
            _ => self.kill(worker).map(|()| "kill -9 of a worker"),
        }
    }

    fn signal_server(&self, signal: Signal) -> Result<(), Trouble> {
        let id = self.server.as_ref().ok_or("there is no server")?.pid;
        Ok(kill_process(Pid::from_raw(i32::try_from(id)?).ok_or("no process id")?, signal)?)
    }

    fn kill(&mut self, at: usize) -> Result<(), Trouble> {
        let process = self.processes.get_mut(at).ok_or("no such process")?;
        process.child.kill()?;
        process.child.wait()?;
        let (role, number) = (process.role, process.number);
        let child = self.start(role, number)?;
        if let Some(process) = self.processes.get_mut(at) {
            (process.child, process.stopped) = (child, None);
        }
        Ok(())
    }

    /// Stops a process for longer than its lease: a zombie, when it goes on.
    fn stop(&mut self, at: usize) -> Result<(), Trouble> {
        let process = self.processes.get_mut(at).ok_or("no such process")?;
        if process.stopped.is_none() {
            kill_process(Pid::from_child(&process.child), Signal::STOP)?;
            process.stopped = Some(Instant::now() + LEASE * 3 / 2);
        }
        Ok(())
    }

    /// Lets stopped processes go on, and starts again what has ended.
    fn tend(&mut self, _: &tokio::runtime::Runtime) -> Result<(), Trouble> {
        let due = |it: Option<Instant>| it.is_some_and(|it| it <= Instant::now());
        if due(self.server_stopped) {
            self.signal_server(Signal::CONT)?;
            self.server_stopped = None;
        }
        for process in self.processes.iter_mut().filter(|it| due(it.stopped)) {
            kill_process(Pid::from_child(&process.child), Signal::CONT)?;
            process.stopped = None;
        }
        Ok(())
    }

    /// Waits until all that was offered is answered.
    fn drain(&mut self, runtime: &tokio::runtime::Runtime) -> Result<(), Trouble> {
        fs::write(Files::of(self.folder).end(), "")?;
        let end = Instant::now() + DRAIN;
        while Instant::now() < end {
            sleep(Duration::from_millis(50));
            self.tend(runtime)?;
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

    fn end(&mut self, runtime: &tokio::runtime::Runtime) {
        for process in &mut self.processes {
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
        if self.server.is_some() {
            let _ = runtime.block_on(server::stop(self.folder));
        }
    }
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

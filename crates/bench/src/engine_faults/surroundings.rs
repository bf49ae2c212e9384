//! The surroundings of a run's processes, as far as this machine allows them: a network namespace for each worker
//! and each node of a cluster, small disks below the engine, wall clocks that jump, and a slow fsync. Each needs root and a tool;
//! what is missing is left out.

use std::{
    fs, io,
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
};

use super::networks::{Networks, did};

/// The size of a disk below the engine.
const DISK: &str = "size=256m";

/// The library that moves wall clocks: Debian's package faketime.
const FAKETIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";

/// How long each fsync takes longer.
const SLOWER_MICROSECONDS: u32 = 60_000;

/// The surroundings of a run: each part is there if this machine allows it.
pub(super) struct Surroundings {
    folder: PathBuf,
    /// One for each worker, then one for each node of a cluster.
    networks: Option<Networks>,
    workers: usize,
    /// The disk of the engine, or one for each node of a cluster.
    disks: Vec<PathBuf>,
    clocks: bool,
    strace: bool,
}

impl Surroundings {
    /// Prepares what is possible, for so many workers and nodes of a cluster in namespaces.
    pub(super) fn new(folder: &Path, workers: usize, nodes: usize) -> io::Result<Self> {
        let engine = folder.join("engine");
        let mut places: Vec<PathBuf> = (0..nodes).map(|at| engine.join(format!("node{at}"))).collect();
        if places.is_empty() {
            places.push(engine);
        }
        let mut these = Self {
            folder: folder.to_owned(),
            networks: Networks::new(workers + nodes),
            workers,
            disks: Vec::new(),
            clocks: Path::new(FAKETIME).is_file(),
            strace: did(Command::new("strace").arg("-V")),
        };
        for place in places {
            fs::create_dir_all(&place)?;
            if did(Command::new("mount").args(["-t", "tmpfs", "-o", DISK, "haft-faults"]).arg(&place)) {
                these.disks.push(place);
            }
        }
        Ok(these)
    }

    /// Names the kinds of faults that this machine does not allow.
    pub(super) fn missing(&self, is_nats: bool) -> Vec<&'static str> {
        let all = [
            (self.networks.is_none() && is_nats, "partitions (ip netns)"),
            (self.disks.is_empty(), "a full disk (mount)"),
            (!self.clocks, "wall clocks (faketime)"),
            (!self.strace, "slow fsync (strace)"),
        ];
        all.into_iter().filter(|it| it.0).map(|it| it.1).collect()
    }

    pub(super) fn has_networks(&self) -> bool {
        self.networks.is_some()
    }

    pub(super) fn has_disk(&self) -> bool {
        !self.disks.is_empty()
    }

    /// Returns the namespace and the address of a node of the cluster.
    pub(super) fn node(&self, at: usize) -> Option<(&str, Ipv4Addr)> {
        self.networks.as_ref()?.get(self.workers + at)
    }

    pub(super) fn has_clocks(&self) -> bool {
        self.clocks
    }

    pub(super) fn has_strace(&self) -> bool {
        self.strace
    }

    /// Forwards connections from the namespaces to the only server's port on loopback.
    pub(super) fn forward(&self, port: u16) -> io::Result<()> {
        let Some(networks) = &self.networks else { return Ok(()) };
        let listener = TcpListener::bind((networks.here(), port))?;
        thread::spawn(move || {
            for from in listener.incoming().map_while(Result::ok) {
                if let Ok(to) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
                    let _ = copied(&from, &to).and_then(|()| copied(&to, &from));
                }
            }
        });
        Ok(())
    }

    /// Returns the command of a process of the run, and the address at which it finds the server.
    pub(super) fn command(
        &self,
        worker: Option<usize>,
        name: &str,
        url: &str,
    ) -> io::Result<(Command, String)> {
        let program = std::env::current_exe()?;
        let networks = self.networks.as_ref();
        let (mut command, url) = match worker.and_then(|it| Some((networks?.get(it)?.0, networks?.here()))) {
            Some((namespace, here)) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", namespace]).arg(program);
                (command, url.replace("127.0.0.1", &here.to_string()))
            }
            None => (Command::new(program), url.to_owned()),
        };
        if self.clocks {
            let clock = self.clock(name);
            if !clock.exists() {
                fs::write(&clock, "+0")?;
            }
            command.env("LD_PRELOAD", FAKETIME).env("FAKETIME_TIMESTAMP_FILE", clock);
            command.env("FAKETIME_NO_CACHE", "1").env("DONT_FAKE_MONOTONIC", "1");
        }
        Ok((command, url))
    }

    fn clock(&self, name: &str) -> PathBuf {
        self.folder.join(format!("clock-{name}"))
    }

    /// Moves the wall clock of a process by so many seconds from the true time.
    pub(super) fn move_clock(&self, name: &str, seconds: i64) -> io::Result<()> {
        let fresh = self.folder.join("clock.new");
        fs::write(&fresh, format!("{seconds:+}"))?;
        fs::rename(fresh, self.clock(name))
    }

    /// Cuts the link of a worker, or joins it again.
    pub(super) fn link_of_worker(&self, worker: usize, up: bool) {
        self.networks.iter().for_each(|it| it.link(worker, up));
    }

    /// Cuts the link of a node of the cluster, or joins it again.
    pub(super) fn link_of_node(&self, node: usize, up: bool) {
        self.networks.iter().for_each(|it| it.link(self.workers + node, up));
    }

    /// Fills a disk, or frees it.
    pub(super) fn fill(&self, at: usize, full: bool) -> io::Result<()> {
        let Some(disk) = self.disks.get(at) else { return Ok(()) };
        let path = disk.join("ballast");
        if !full {
            return fs::remove_file(path);
        }
        let mut file = fs::File::create(path)?;
        match io::copy(&mut io::repeat(0), &mut file) {
            Err(error) if error.kind() == io::ErrorKind::StorageFull => Ok(()),
            other => other.map(drop),
        }
    }

    /// Makes each fsync of a process slow until the returned process is killed.
    pub(super) fn slow_fsync(pid: u32) -> io::Result<Child> {
        let inject = format!("inject=fsync,fdatasync:delay_enter={SLOWER_MICROSECONDS}");
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e", &inject]);
        command.arg("-p").arg(pid.to_string()).stderr(Stdio::null()).spawn()
    }
}

impl Drop for Surroundings {
    fn drop(&mut self) {
        for disk in &self.disks {
            did(Command::new("umount").arg("-l").arg(disk));
        }
    }
}

/// Copies one direction of a connection in a thread of its own.
fn copied(from: &TcpStream, to: &TcpStream) -> io::Result<()> {
    let (mut from, mut to) = (from.try_clone()?, to.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(std::net::Shutdown::Both);
        let _ = from.shutdown(std::net::Shutdown::Both);
    });
    Ok(())
}

//! The surroundings of a run's processes, as far as this machine allows them: a network namespace for each worker, a small disk
//! below the engine, wall clocks that jump, and a slow fsync. Each needs root and a tool; what is missing is left out.

use std::{
    fs, io,
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
};

/// The size of the disk below the engine.
const DISK: &str = "size=256m";

/// The library that moves wall clocks: Debian's package faketime.
const FAKETIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";

/// How long each fsync takes longer.
const SLOWER_MICROSECONDS: u32 = 60_000;

/// The surroundings of a run: each part is there if this machine allows it.
pub(super) struct Surroundings {
    folder: PathBuf,
    networks: Vec<Network>,
    disk: Option<PathBuf>,
    clocks: bool,
    strace: bool,
}

/// A network namespace with one link to the engine's server.
struct Network {
    name: String,
    inside: Ipv4Addr,
    outside: Ipv4Addr,
    /// The end of the link on this side.
    link: String,
}

impl Surroundings {
    /// Prepares what is possible. `networks` is the number of workers, or 0 without a server.
    pub(super) fn new(folder: &Path, networks: usize) -> io::Result<Self> {
        let disk = folder.join("engine");
        fs::create_dir_all(&disk)?;
        let mounted = did(Command::new("mount").args(["-t", "tmpfs", "-o", DISK, "haft-faults"]).arg(&disk));
        let mut these = Self {
            folder: folder.to_owned(),
            networks: Vec::new(),
            disk: mounted.then_some(disk),
            clocks: Path::new(FAKETIME).is_file(),
            strace: did(Command::new("strace").arg("-V")),
        };
        for number in 0..networks {
            match Network::new(number) {
                Some(network) => these.networks.push(network),
                None => {
                    these.networks.clear();
                    break;
                }
            }
        }
        Ok(these)
    }

    /// Names the kinds of faults that this machine does not allow.
    pub(super) fn missing(&self, is_nats: bool) -> Vec<&'static str> {
        let all = [
            (self.networks.is_empty() && is_nats, "partitions (ip netns)"),
            (self.disk.is_none(), "a full disk (mount)"),
            (!self.clocks, "wall clocks (faketime)"),
            (!self.strace, "slow fsync (strace)"),
        ];
        all.into_iter().filter(|it| it.0).map(|it| it.1).collect()
    }

    pub(super) fn has_networks(&self) -> bool {
        !self.networks.is_empty()
    }

    pub(super) fn has_disk(&self) -> bool {
        self.disk.is_some()
    }

    pub(super) fn has_clocks(&self) -> bool {
        self.clocks
    }

    pub(super) fn has_strace(&self) -> bool {
        self.strace
    }

    /// Forwards connections from the namespaces to the server's port on loopback.
    pub(super) fn forward(&self, port: u16) -> io::Result<()> {
        for network in &self.networks {
            let listener = TcpListener::bind((network.outside, port))?;
            thread::spawn(move || {
                for from in listener.incoming().map_while(Result::ok) {
                    if let Ok(to) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
                        let _ = copied(&from, &to).and_then(|()| copied(&to, &from));
                    }
                }
            });
        }
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
        let network = worker.and_then(|it| self.networks.get(it));
        let (mut command, url) = match network {
            Some(network) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", &network.name]).arg(program);
                (command, url.replace("127.0.0.1", &network.outside.to_string()))
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
    pub(super) fn link(&self, worker: usize, up: bool) {
        if let Some(network) = self.networks.get(worker) {
            did(Command::new("ip").args(["link", "set", &network.link, if up { "up" } else { "down" }]));
        }
    }

    /// Fills the disk, or frees it.
    pub(super) fn fill(&self, full: bool) -> io::Result<()> {
        let Some(disk) = &self.disk else { return Ok(()) };
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
        for network in &self.networks {
            did(Command::new("ip").args(["netns", "del", &network.name]));
        }
        if let Some(disk) = &self.disk {
            did(Command::new("umount").arg("-l").arg(disk));
        }
    }
}

impl Network {
    fn new(number: usize) -> Option<Self> {
        let block = u8::try_from(number).ok()?;
        let process = std::process::id();
        let name = format!("haft-{process}-{number}");
        // A name of a link has 15 letters at most.
        let (link, end) = (format!("hf{process}a{number}"), format!("hf{process}b{number}"));
        let net = u8::try_from(process % 200).ok()?;
        let (outside, inside) =
            (Ipv4Addr::new(10, 200, net, 4 * block + 1), Ipv4Addr::new(10, 200, net, 4 * block + 2));
        let network = Self { name, inside, outside, link };
        did(Command::new("ip").args(["netns", "add", &network.name])).then_some(())?;
        let inside = format!("{}/30", network.inside);
        let steps: [Vec<&str>; 5] = [
            vec!["link", "add", &network.link, "type", "veth", "peer", "name", &end, "netns", &network.name],
            vec!["-n", &network.name, "addr", "add", &inside, "dev", &end],
            vec!["-n", &network.name, "link", "set", &end, "up"],
            vec!["link", "set", &network.link, "up"],
            vec!["-n", &network.name, "link", "set", "lo", "up"],
        ];
        let outside = format!("{}/30", network.outside);
        let [join, rest @ ..] = &steps;
        let ready = did(Command::new("ip").args(join))
            && did(Command::new("ip").args(["addr", "add", &outside, "dev", &network.link]))
            && rest.iter().all(|it| did(Command::new("ip").args(it)));
        ready.then_some(network)
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

fn did(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|it| it.success())
}

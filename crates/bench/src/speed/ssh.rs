//! Remote commands over a warm connection.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::json;

use super::{
    Row, Scratch, Trouble, in_turn,
    process::{Place, call},
    timed,
};
use crate::client::Client;

const RUNS: usize = 100;

/// A command that writes 20 kB.
const LONG: &str = "head -c 20000 /dev/zero | tr '\\0' x";

/// Measures `ssh_exec` with its own connection, compared with `ssh` through a master's connection.
pub(super) fn rows(scratch: &Scratch) -> Result<Vec<Row>, Trouble> {
    let folder = scratch.folder("ssh")?;
    let sshd = Sshd::start(&folder)?;
    let place = Place::new(scratch)?;
    let config = scratch.folder("ssh/config-of-haft")?;
    fs::write(config.join("haft.toml"), format!("[net]\nallow = [\"127.0.0.1:{}\"]\n", sshd.port))?;
    let mut command = place.command(&["mcp"]);
    command.env("HOME", &folder).env("HAFT_CONFIG_DIR", &config);
    let mut server = Client::start(command)?;
    server.greet()?;
    let ours =
        |what: &str| call("ssh_exec", &json!({"host": format!("127.0.0.1:{}", sshd.port), "command": what}));
    let (nothing, much) = (ours("true"), ours(LONG));
    let master = sshd.master()?;
    let [short, theirs] = in_turn(
        RUNS,
        [&mut || timed(|| server.exchange(&nothing)), &mut || timed(|| run(sshd.client("true")))],
    )?;
    let [long, theirs_long] =
        in_turn(RUNS, [&mut || timed(|| server.exchange(&much)), &mut || timed(|| run(sshd.client(LONG)))])?;
    drop(master);
    Ok(vec![
        short.row("`ssh_exec` of `true`, through pipes", theirs.comparison("ssh with ControlMaster"), None),
        long.row(
            "`ssh_exec` of 20 kB, through pipes",
            theirs_long.comparison("ssh with ControlMaster"),
            None,
        ),
    ])
}

fn run(mut command: Command) -> Result<(), Trouble> {
    let ended = command.stdin(Stdio::null()).stdout(Stdio::null()).status()?;
    if ended.success() { Ok(()) } else { Err("ssh did not work".into()) }
}

/// OpenSSH's server with a key of its own, killed when this is dropped.
struct Sshd {
    child: Child,
    port: u16,
    home: PathBuf,
}

impl Sshd {
    fn start(home: &Path) -> Result<Self, Trouble> {
        let ssh = home.join(".ssh");
        fs::create_dir_all(&ssh)?;
        for key in ["id_ed25519", "host"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(ssh.join(key))
                .status()?;
            if !made.success() {
                return Err("ssh-keygen did not work".into());
            }
        }
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let host = fs::read_to_string(ssh.join("host.pub"))?;
        fs::write(ssh.join("known_hosts"), format!("[127.0.0.1]:{port} {host}"))?;
        let shown = ssh.display();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {shown}/host\nAuthorizedKeysFile {shown}/id_ed25519.pub\n\
             StrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin yes\n"
        );
        fs::write(ssh.join("sshd_config"), config)?;
        // As root it needs this folder, whatever its configuration says.
        let _ = fs::create_dir("/run/sshd");
        let mut child = Command::new("/usr/sbin/sshd")
            .args(["-D", "-e", "-f"])
            .arg(ssh.join("sshd_config"))
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut lines = BufReader::new(child.stderr.take().ok_or("no errors of sshd")?).lines();
        while !lines.next().ok_or("sshd did not start")??.contains("Server listening") {}
        std::thread::spawn(move || lines.for_each(drop));
        Ok(Self { child, port, home: home.to_owned() })
    }

    /// Returns a client command that uses the master's connection.
    fn client(&self, what: &str) -> Command {
        let ssh = self.home.join(".ssh");
        let mut command = Command::new("ssh");
        command
            .args(["-F", "none", "-T", "-o", "BatchMode=yes", "-p", &self.port.to_string(), "-i"])
            .arg(ssh.join("id_ed25519"))
            .arg("-o")
            .arg(format!("UserKnownHostsFile={}", ssh.join("known_hosts").display()))
            .arg("-S")
            .arg(ssh.join("master"))
            .args(["127.0.0.1", what]);
        command
    }

    /// Starts the master, which keeps the connection for the clients.
    fn master(&self) -> Result<Master, Trouble> {
        let ssh = self.home.join(".ssh");
        let child = Command::new("ssh")
            .args(["-F", "none", "-N", "-M", "-o", "BatchMode=yes", "-p", &self.port.to_string(), "-i"])
            .arg(ssh.join("id_ed25519"))
            .arg("-o")
            .arg(format!("UserKnownHostsFile={}", ssh.join("known_hosts").display()))
            .arg("-S")
            .arg(ssh.join("master"))
            .arg("127.0.0.1")
            .stdin(Stdio::null())
            .spawn()?;
        let master = Master(child);
        for _ in 0..1000 {
            if ssh.join("master").exists() {
                return Ok(master);
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        Err("the master of ssh did not connect".into())
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The process that keeps the connection.
struct Master(Child);

impl Drop for Master {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

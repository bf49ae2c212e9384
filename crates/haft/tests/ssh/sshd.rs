//! OpenSSH's server on loopback, and a person's `~/.ssh`.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use crate::support::{TIMEOUT, TestWorkspace};

/// The path of the server, which must be started by its absolute path.
const SSHD: &str = "/usr/sbin/sshd";

/// An OpenSSH server of the test's own, which ends with it.
pub(crate) struct Sshd {
    child: Child,
    pub(crate) port: u16,
    log: Arc<Mutex<String>>,
    folder: PathBuf,
}

impl Sshd {
    /// Starts a server on loopback that accepts the workspace's key `~/.ssh/id_ed25519`, is in known_hosts, and may be
    /// reached.
    pub(crate) fn start(test_ws: &TestWorkspace) -> Self {
        let sshd = Self::unknown(test_ws);
        sshd.is_known(test_ws);
        sshd
    }

    /// Does the same, without an entry in known_hosts.
    pub(crate) fn unknown(test_ws: &TestWorkspace) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let folder = test_ws.base().join(format!("sshd-{port}"));
        fs::create_dir(&folder).unwrap();
        keygen(&folder.join("host"), "");
        if !ssh(test_ws).join("id_ed25519").exists() {
            fs::create_dir_all(ssh(test_ws)).unwrap();
            keygen(&ssh(test_ws).join("id_ed25519"), "");
        }
        fs::copy(ssh(test_ws).join("id_ed25519.pub"), folder.join("keys")).unwrap();
        // As root it wants this folder, whatever its configuration says.
        let _ = fs::create_dir("/run/sshd");
        let folder_shown = folder.display();
        // Of the home folder only its path: what a shell reads at its start there is the person's, and may print something.
        fs::create_dir(folder.join("home")).unwrap();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {folder_shown}/host\nAuthorizedKeysFile {folder_shown}/keys\n\
             StrictModes no\nUsePAM no\nPidFile none\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
             PermitRootLogin yes\nSubsystem sftp internal-sftp\nLogLevel VERBOSE\nMaxSessions 10\n\
             SetEnv HOME={folder_shown}/home\n"
        );
        fs::write(folder.join("config"), config).unwrap();
        let (child, log) = start(&folder);
        allow(test_ws, &[port]);
        Self { child, port, log, folder }
    }

    /// Adds its key to the workspace's known_hosts.
    pub(crate) fn is_known(&self, test_ws: &TestWorkspace) {
        let line = format!("[127.0.0.1]:{} {}", self.port, self.host_key());
        append(&ssh(test_ws).join("known_hosts"), &line);
    }

    /// Its key as known_hosts has it.
    pub(crate) fn host_key(&self) -> String {
        fs::read_to_string(self.folder.join("host.pub")).unwrap()
    }

    pub(crate) fn fingerprint(&self) -> String {
        let said = Command::new("ssh-keygen").arg("-lf").arg(self.folder.join("host.pub")).output().unwrap();
        String::from_utf8(said.stdout).unwrap().split(' ').nth(1).unwrap().to_owned()
    }

    /// Accepts one more key.
    pub(crate) fn lets_in(&self, public: &Path) {
        append(&self.folder.join("keys"), &fs::read_to_string(public).unwrap());
    }

    /// Restricts keys that are accepted later to this command.
    pub(crate) fn lets_in_only_for(&self, command: &str) {
        let file = self.folder.join("keys");
        let keys = fs::read_to_string(&file).unwrap();
        let command = command.replace('"', "\\\"");
        let keys: String = keys.lines().map(|key| format!("command=\"{command}\" {key}\n")).collect();
        fs::write(file, keys).unwrap();
    }

    pub(crate) fn place(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Returns the number of connections.
    pub(crate) fn connections(&self) -> usize {
        self.log.lock().unwrap().matches("Connection from").count()
    }

    /// Ends with all its connections, which their clients have noticed, and starts again at the same port.
    pub(crate) fn restart(&mut self) {
        self.end();
        let until = Instant::now() + TIMEOUT;
        while self.has_clients() {
            assert!(Instant::now() < until, "a client keeps a connection that has ended");
            std::thread::sleep(Duration::from_millis(10));
        }
        (self.child, self.log) = start(&self.folder);
    }

    /// Whether somebody has a connection to this port open, or has not closed one that the other side closed.
    fn has_clients(&self) -> bool {
        const ESTABLISHED: &str = "01";
        const CLOSE_WAIT: &str = "08";
        let port = format!(":{:04X}", self.port);
        fs::read_to_string("/proc/net/tcp").unwrap().lines().any(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            fields[2].ends_with(&port) && [ESTABLISHED, CLOSE_WAIT].contains(&fields[3])
        })
    }

    fn end(&mut self) {
        // Each connection is served by a child of its own. Where its user is not root that child has one too, which would
        // keep the connection open.
        let pid = self.child.id().to_string();
        let children =
            Command::new("pgrep").args(["-P", &pid]).output().map(|it| it.stdout).unwrap_or_default();
        for child in String::from_utf8(children).unwrap().lines() {
            let _ = Command::new("pkill").args(["-KILL", "-P", child, "sshd"]).status();
        }
        let _ = Command::new("pkill").args(["-KILL", "-P", &pid]).status();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.end();
    }
}

fn start(folder: &Path) -> (Child, Arc<Mutex<String>>) {
    let mut child = Command::new(SSHD)
        .args(["-D", "-e", "-f"])
        .arg(folder.join("config"))
        .stderr(Stdio::piped())
        .stdin(Stdio::null())
        .spawn()
        .expect("openssh-server is installed");
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let log = Arc::new(Mutex::new(String::new()));
    while !log.lock().unwrap().contains("Server listening") {
        let read = lines.read_line(&mut log.lock().unwrap()).unwrap();
        assert!(read > 0, "sshd did not start: {}", log.lock().unwrap());
    }
    let kept = log.clone();
    std::thread::spawn(move || {
        for line in lines.lines().map_while(Result::ok) {
            kept.lock().unwrap().push_str(&(line + "\n"));
        }
    });
    (child, log)
}

/// Returns the workspace's `~/.ssh`.
pub(crate) fn ssh(test_ws: &TestWorkspace) -> PathBuf {
    test_ws.base().join("home/.ssh")
}

/// Creates a new key.
pub(crate) fn keygen(path: &Path, passphrase: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let made =
        Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", passphrase, "-f"]).arg(path).status();
    assert!(made.unwrap().success());
}

/// Lets haft reach these ports of loopback without a question.
pub(crate) fn allow(test_ws: &TestWorkspace, ports: &[u16]) {
    let hosts: Vec<String> = ports.iter().map(|port| format!("\"127.0.0.1:{port}\"")).collect();
    fs::create_dir_all(test_ws.config()).unwrap();
    fs::write(test_ws.config().join("haft.toml"), format!("[net]\nallow = [{}]\n", hosts.join(", ")))
        .unwrap();
}

/// More of the person's own configuration.
pub(crate) fn configure(test_ws: &TestWorkspace, more: &str) {
    append(&test_ws.config().join("haft.toml"), more);
}

pub(crate) fn append(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let before = fs::read_to_string(path).unwrap_or_default();
    fs::write(path, format!("{before}{}\n", text.trim_end())).unwrap();
}

/// Returns the user who runs this test.
pub(crate) fn me() -> String {
    let said = Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(said.stdout).unwrap().trim().to_owned()
}

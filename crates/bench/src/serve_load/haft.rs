//! A running `haft serve`, and requests to it.

use std::{
    fs::{self, OpenOptions},
    io::{BufRead as _, BufReader, Seek as _, Write as _},
    net::SocketAddr,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::channel,
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    Outcome, TIMEOUT,
    events::{Row, Seen, Stream},
    http::{self, Incoming},
};

const TOKEN: &str = "token-of-the-load-0123456789";

/// Time until a server listens.
const START: Duration = Duration::from_secs(60);

/// A workspace, state and a token that nobody else has.
pub(super) struct Stage {
    folder: tempfile::TempDir,
    haft: PathBuf,
    model: String,
}

/// A server that runs; killed when this is dropped.
pub(super) struct Served {
    child: Child,
    pub(super) address: SocketAddr,
}

impl Stage {
    /// A stage whose model is this one.
    pub(super) fn new(haft: &Path, model: &str) -> Outcome<Self> {
        let folder = tempfile::Builder::new().prefix("serve-load-").tempdir()?;
        for name in ["ws", "home", "state"] {
            fs::create_dir(folder.path().join(name))?;
        }
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(folder.path().join("tokens"))?;
        writeln!(file, "load own {TOKEN}")?;
        Ok(Self { folder, haft: haft.to_owned(), model: model.to_owned() })
    }

    /// A stage whose model reads its answers from a script.
    pub(super) fn scripted(haft: &Path, script: &[Value]) -> Outcome<Self> {
        let mut stage = Self::new(haft, "")?;
        let file = stage.path("script");
        fs::write(&file, script.iter().map(|it| format!("{it}\n")).collect::<String>())?;
        stage.model = format!("script:{}", file.display());
        Ok(stage)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts a server.
    pub(super) fn serve(&self) -> Outcome<Served> {
        self.serve_by(Command::new(&self.haft))
    }

    /// Starts a server whose state is on a file system of its own with so many bytes, at [`path`](Self::path) `state`.
    pub(super) fn serve_on_small_disk(&self, bytes: u64) -> Outcome<Served> {
        let mut command = Command::new("unshare");
        let state = self.path("state");
        let script = format!("mount -t tmpfs -o size={bytes} tmpfs \"$1\" && shift && exec \"$@\"");
        command
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script, "sh"])
            .arg(state)
            .arg(&self.haft);
        self.serve_by(command)
    }

    fn serve_by(&self, mut command: Command) -> Outcome<Served> {
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path("home"))
            .env("HAFT_STATE_DIR", self.path("state"))
            .env("HAFT_CONFIG_DIR", self.path("config"))
            .arg("--dir")
            .arg(self.path("ws"))
            .args(["--sandbox", "full", "serve", "--addr", "127.0.0.1:0", "--model", &self.model, "--tokens"])
            .arg(self.path("tokens"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (to, lines) = channel();
        let outputs: [Option<Box<dyn std::io::Read + Send>>; 2] = [
            child.stdout.take().map(|it| Box::new(it) as _),
            child.stderr.take().map(|it| Box::new(it) as _),
        ];
        for output in outputs.into_iter().flatten() {
            let to = to.clone();
            thread::spawn(move || {
                // The pipes are read to their end, or the server would wait.
                BufReader::new(output).lines().map_while(Result::ok).for_each(|it| drop(to.send(it)));
            });
        }
        drop(to);
        let mut said = Vec::new();
        while let Ok(line) = lines.recv_timeout(START) {
            let address = line.strip_prefix("http://").and_then(|it| it.split_once("/#code="));
            if let Some((address, _)) = address {
                return Ok(Served { child, address: address.parse()? });
            }
            said.push(line);
        }
        let _ = child.kill();
        child.wait()?;
        Err(format!("haft serve did not listen: {}", said.join("\n")).into())
    }
}

impl Served {
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the server and starts the next one.
    pub(super) fn restart(&mut self, stage: &Stage) -> Outcome<()> {
        self.child.kill()?;
        self.child.wait()?;
        *self = stage.serve()?;
        Ok(())
    }

    /// Sends a request, and returns status and answer.
    pub(super) async fn ask(&self, line: &str, key: &str, body: &Value) -> Outcome<(u16, Value)> {
        let key = if key.is_empty() { String::new() } else { format!("Idempotency-Key: {key}\r\n") };
        let headers = format!("Authorization: Bearer {TOKEN}\r\n{key}");
        timeout(TIMEOUT, http::json(self.address, line, &headers, body))
            .await
            .map_err(|_| format!("no answer to {line}"))?
    }

    /// Sends a request that has to succeed.
    pub(super) async fn does(&self, line: &str, body: &Value) -> Outcome<Value> {
        let (status, answer) = self.ask(line, "", body).await?;
        if (200..300).contains(&status) {
            Ok(answer)
        } else {
            Err(format!("{line}: {status} {answer}").into())
        }
    }

    /// Makes a session without a prompt; returns its id.
    pub(super) async fn session(&self) -> Outcome<String> {
        let made = self.does("POST /api/v1/sessions", &json!({})).await?;
        Ok(made.get("id").and_then(Value::as_str).ok_or("a session without an id")?.to_owned())
    }

    pub(super) async fn prompt(&self, session: &str, text: &str) -> Outcome<()> {
        self.does(&format!("POST /api/v1/sessions/{session}/prompt"), &json!({"text": text})).await?;
        Ok(())
    }

    /// Requests the events of a session after this number.
    pub(super) async fn events(&self, session: &str, after: u64) -> Outcome<Incoming> {
        let head = format!(
            "GET /api/v1/sessions/{session}/events HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nLast-Event-ID: {after}\r\n"
        );
        let incoming = timeout(TIMEOUT, Incoming::of(self.address, &head, b"")).await??;
        if incoming.status == 200 { Ok(incoming) } else { Err(format!("events: {}", incoming.head).into()) }
    }

    /// Watches a session after this number.
    pub(super) async fn watch(&self, session: &str, after: u64) -> Outcome<Stream> {
        Ok(Stream::new(self.events(session, after).await?))
    }

    /// Returns the session as one who reads all of its rows at once has it.
    pub(super) async fn transcript(&self, session: &str) -> Outcome<Seen> {
        let mut seen = Seen::default();
        for row in self.rows(session).await? {
            seen.add(&row);
        }
        Ok(seen)
    }

    /// Returns all rows of a session.
    pub(super) async fn rows(&self, session: &str) -> Outcome<Vec<Row>> {
        let answer =
            self.does(&format!("GET /api/v1/sessions/{session}/rows?limit=20000"), &Value::Null).await?;
        let rows = answer.get("rows").and_then(Value::as_array).cloned().unwrap_or_default();
        rows.into_iter().map(Row::of).collect()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the bytes that the server sends for its page, and how many they are if each file is compressed by gzip.
pub(super) async fn page_weight(served: &Served) -> Outcome<(usize, usize)> {
    let page = get(served, "/").await?;
    let text = String::from_utf8(page.clone())?;
    let mut names: Vec<&str> =
        text.split(['"', ' ', '=', '>']).filter(|it| it.starts_with("/assets/")).collect();
    names.sort_unstable();
    names.dedup();
    let mut files = vec![page];
    for name in names {
        files.push(get(served, name).await?);
    }
    let mut packed = 0;
    for file in &files {
        packed += gzipped(file)?;
    }
    Ok((packed, files.iter().map(Vec::len).sum()))
}

async fn get(served: &Served, path: &str) -> Outcome<Vec<u8>> {
    let mut incoming = Incoming::of(served.address, &format!("GET {path} HTTP/1.1\r\n"), b"").await?;
    if incoming.status == 200 {
        incoming.all().await
    } else {
        Err(format!("{path}: {}", incoming.head).into())
    }
}

fn gzipped(bytes: &[u8]) -> Outcome<usize> {
    let mut file = tempfile::tempfile()?;
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(Command::new("gzip").args(["-9", "-c"]).stdin(file).output()?.stdout.len())
}

/// Returns a path of a server that has a file system of its own. `unshare` replaces itself with the server, so the id is right.
pub(super) fn inside(served: &Served, path: &Path) -> Outcome<PathBuf> {
    Ok(Path::new("/proc").join(served.id().to_string()).join("root").join(path.strip_prefix("/")?))
}

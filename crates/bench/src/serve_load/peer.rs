//! KohakuTerrarium's server: started, driven over its API, and watched over its WebSockets.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
};

use super::{
    Outcome,
    http::{self, Incoming},
};

/// Time until its server answers.
const START: Duration = Duration::from_secs(90);

/// Prints its version, the bytes of its page's scripts, of all its page's files, and of these each compressed by gzip.
const WEIGH: &str = "
import gzip, pathlib, kohakuterrarium
from importlib.metadata import version
root = pathlib.Path(kohakuterrarium.__file__).parent / 'web_dist'
files = [it for it in root.rglob('*') if it.is_file()]
size = lambda all: sum(it.stat().st_size for it in all)
scripts = [it for it in files if it.suffix == '.js']
print(version('kohakuterrarium'), size(scripts), size(files), sum(len(gzip.compress(it.read_bytes(), 9)) for it in scripts))
";

/// Its server; killed when this is dropped.
pub(super) struct Terrarium {
    child: Child,
    address: SocketAddr,
    folder: tempfile::TempDir,
    pub(super) version: String,
    /// Bytes of the scripts of its page, of all files of its page, and of its scripts after gzip.
    pub(super) weight: [usize; 3],
}

/// A session with one agent.
pub(super) struct Place {
    session: String,
    creature: String,
}

impl Terrarium {
    /// Starts the server of the package that this interpreter has, with an agent whose model is at this address.
    pub(super) async fn start(python: &Path, model: SocketAddr) -> Outcome<Self> {
        let folder = tempfile::Builder::new().prefix("serve-load-").tempdir()?;
        for name in ["home", "load", "ws"] {
            fs::create_dir(folder.path().join(name))?;
        }
        let weighed = Command::new(python)
            .args(["-c", WEIGH])
            .env("HOME", folder.path().join("home"))
            .output()
            .map_err(|error| format!("{}: {error}", python.display()))?;
        let text = String::from_utf8(weighed.stdout)?;
        let words: Vec<&str> = text.split_whitespace().collect();
        let [version, scripts, files, packed] = words.as_slice() else {
            return Err(format!("{} has no kohakuterrarium", python.display()).into());
        };
        let weight = [scripts.parse()?, files.parse()?, packed.parse()?];
        let agent = json!({"name": "load", "system_prompt": "You talk.", "tools": [], "subagents": [],
            "controller": {"model": "load", "base_url": format!("http://{model}/v1"), "api_key_env": "LOAD_KEY",
                "auth_mode": "api_key"}});
        // JSON is YAML.
        fs::write(folder.path().join("load/config.yaml"), agent.to_string())?;
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let child = Command::new(python)
            .args(["-m", "kohakuterrarium", "web", "--log-level", "ERROR", "--port", &port.to_string()])
            .current_dir(folder.path().join("ws"))
            .env("HOME", folder.path().join("home"))
            .env("LOAD_KEY", "key")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut it = Self { child, address, folder, version: (*version).to_owned(), weight };
        it.until_ready().await?;
        Ok(it)
    }

    async fn until_ready(&mut self) -> Outcome<()> {
        let began = Instant::now();
        while began.elapsed() < START {
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("KohakuTerrarium's server ended: {status}").into());
            }
            if let Ok((200, _)) = http::json(self.address, "GET /api/sessions/active", "", &Value::Null).await
            {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Err("KohakuTerrarium's server does not answer".into())
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Makes a session.
    pub(super) async fn session(&self) -> Outcome<Place> {
        let path = |name: &str| self.folder.path().join(name);
        let body = json!({"config_path": path("load"), "pwd": path("ws")});
        let (status, made) =
            http::json(self.address, "POST /api/sessions/active/creature", "", &body).await?;
        let text = |pointer: &str| made.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        match (text("/session_id"), text("/creatures/0/creature_id")) {
            (Some(session), Some(creature)) => Ok(Place { session, creature }),
            _ => Err(format!("KohakuTerrarium made no session: {status} {made}").into()),
        }
    }

    /// Opens a WebSocket that watches a session, and can prompt it.
    pub(super) async fn watch(&self, place: &Place) -> Outcome<WebSocket> {
        let Place { session, creature } = place;
        let head = format!(
            "GET /ws/sessions/{session}/creatures/{creature}/chat HTTP/1.1\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: bG9hZCBsb2FkIGxvYWQgbA==\r\nConnection: Upgrade\r\n"
        );
        WebSocket::open(self.address, &head).await
    }
}

impl Drop for Terrarium {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The client's end of a WebSocket.
pub(super) struct WebSocket {
    socket: BufReader<TcpStream>,
}

const TEXT: u8 = 1;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

impl WebSocket {
    async fn open(address: SocketAddr, head: &str) -> Outcome<Self> {
        let answer = Incoming::upgrade(address, head).await?;
        if answer.status == 101 {
            Ok(Self { socket: answer.into_socket() })
        } else {
            Err(format!("no WebSocket: {}", answer.head).into())
        }
    }

    pub(super) async fn say(&mut self, text: &str) -> Outcome<()> {
        let frame = json!({"type": "input", "content": text}).to_string();
        self.send(TEXT, frame.as_bytes()).await
    }

    /// Sends a short frame. Its mask is zero, which leaves the bytes as they are.
    async fn send(&mut self, kind: u8, bytes: &[u8]) -> Outcome<()> {
        let length = u8::try_from(bytes.len()).ok().filter(|it| *it < 126).ok_or("the frame is too long")?;
        let head = [0x80 | kind, 0x80 | length, 0, 0, 0, 0];
        Ok(self.socket.get_mut().write_all(&[&head, bytes].concat()).await?)
    }

    /// Returns the next message; none where the server closes.
    pub(super) async fn next(&mut self) -> Outcome<Option<Value>> {
        loop {
            let mut head = [0; 2];
            self.socket.read_exact(&mut head).await?;
            let [first, second] = head;
            let length = match second & 0x7f {
                126 => u64::from(self.socket.read_u16().await?),
                127 => self.socket.read_u64().await?,
                it => u64::from(it),
            };
            let mut bytes = vec![0; usize::try_from(length)?];
            self.socket.read_exact(&mut bytes).await?;
            match first & 0x0f {
                TEXT => return Ok(Some(serde_json::from_slice(&bytes)?)),
                CLOSE => return Ok(None),
                PING => self.send(PONG, &bytes).await?,
                _ => {}
            }
        }
    }
}

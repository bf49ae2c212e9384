//! A server on loopback that answers as a test defines.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::sync::Arc;

use kit::procs::{Exit, Procs, Program, Spawner, Starting};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_util::task::AbortOnDropHandle;

use super::{Server, ServerSection, connect::Wanted, handler::Handler, oauth::Logins};
use crate::provenance::Whose;

/// One request.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) method: String,
    pub(super) target: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
}

impl Asked {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// Returns the protocol method.
    pub(super) fn calls(&self) -> String {
        self.json()["method"].as_str().unwrap_or_default().to_owned()
    }

    /// Returns a field of the form in the body.
    pub(super) fn field(&self, name: &str) -> Option<String> {
        let url = reqwest::Url::parse(&format!("http://x/?{}", self.body)).unwrap();
        url.query_pairs().find(|(it, _)| it == name).map(|(_, value)| value.into_owned())
    }
}

/// One answer.
pub(super) struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Answer {
    pub(super) fn new(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new() }
    }

    pub(super) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    pub(super) fn status(status: u16, kind: &str, body: &str) -> Self {
        Self { status, ..Self::text(kind, body) }
    }

    pub(super) fn json(value: &Value) -> Self {
        Self::text("application/json", value.to_string())
    }

    pub(super) fn text(kind: &str, body: impl Into<Vec<u8>>) -> Self {
        let answer = Self::new(200).with("content-type", kind);
        Self { body: body.into(), ..answer }
    }
}

/// The server, and the requests that it got.
pub(super) struct Stage {
    pub(super) origin: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    _task: AbortOnDropHandle<()>,
}

impl Stage {
    /// Starts a server that answers with this function; its first argument is the server's origin.
    pub(super) async fn new(answer: impl Fn(&str, &Asked) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (answer, seen, at) = (Arc::new(answer), asked.clone(), origin.clone());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (answer, seen, at) = (answer.clone(), seen.clone(), at.clone());
                tokio::spawn(async move { serve(stream, &*answer, &seen, &at).await });
            }
        });
        Self { origin, asked, _task: AbortOnDropHandle::new(task) }
    }

    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().clone()
    }

    /// Returns the requests for this path.
    pub(super) fn asked_for(&self, path: &str) -> Vec<Asked> {
        self.asked().into_iter().filter(|it| it.target.split('?').next() == Some(path)).collect()
    }
}

async fn serve(
    mut stream: TcpStream,
    answer: &(impl Fn(&str, &Asked) -> Answer + ?Sized),
    seen: &Mutex<Vec<Asked>>,
    origin: &str,
) -> Option<()> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(at) = bytes.windows(4).position(|it| it == b"\r\n\r\n") {
            break at;
        }
        (stream.read_buf(&mut bytes).await.ok()? > 0).then_some(())?;
    };
    let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let mut lines = text.lines();
    let mut words = lines.next()?.split(' ').map(str::to_owned);
    let (method, target) = (words.next()?, words.next()?);
    let headers: Vec<(String, String)> = lines
        .filter_map(|it| it.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length =
        headers.iter().find(|(name, _)| name == "content-length").and_then(|(_, it)| it.parse().ok());
    let mut body = bytes.split_off(head + 4);
    while body.len() < length.unwrap_or(0) {
        (stream.read_buf(&mut body).await.ok()? > 0).then_some(())?;
    }
    let asked = Asked { method, target, headers, body: String::from_utf8_lossy(&body).into_owned() };
    let answer = answer(origin, &asked);
    seen.lock().push(asked);
    let mut head = format!(
        "HTTP/1.1 {} X\r\nconnection: close\r\ncontent-length: {}\r\n",
        answer.status,
        answer.body.len()
    );
    answer.headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
    stream.write_all(format!("{head}\r\n").as_bytes()).await.ok()?;
    stream.write_all(&answer.body).await.ok()?;
    stream.shutdown().await.ok()
}

/// Answers as a server of 2026-07-28 with one tool.
pub(super) fn modern(asked: &Asked) -> Answer {
    let request = asked.json();
    let result = match asked.calls().as_str() {
        "server/discover" => json!({
            "resultType": "complete", "ttlMs": 0, "cacheScope": "private", "supportedVersions": ["2026-07-28"],
            "capabilities": { "tools": {} }, "serverInfo": { "name": "stage", "version": "1" },
        }),
        "tools/list" => json!({
            "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            "tools": [{ "name": "add", "inputSchema": { "type": "object" } }],
        }),
        _ => return Answer::new(405),
    };
    Answer::json(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }))
}

/// Answers as a server of 2025-11-25 with this session id.
pub(super) fn legacy(session: &str, asked: &Asked) -> Answer {
    let request = asked.json();
    let (id, method) = (request["id"].clone(), asked.calls());
    match (asked.method.as_str(), method.as_str()) {
        ("POST", "initialize") => Answer::json(&json!({ "jsonrpc": "2.0", "id": id, "result": {
            "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
            "serverInfo": { "name": "stage", "version": "1" },
        }}))
        .with("mcp-session-id", session),
        ("POST", _) if method.starts_with("notifications/") => Answer::new(202),
        ("POST", "tools/list") if asked.header("mcp-session-id") != Some(session) => Answer::new(404),
        ("POST", "tools/list") => Answer::json(&json!({ "jsonrpc": "2.0", "id": id, "result": {
            "tools": [{ "name": "add", "inputSchema": { "type": "object" } }],
        }})),
        ("POST", _) => {
            let error = json!({ "code": -32601, "message": "what is that?" });
            let body = json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string();
            Answer { status: 400, ..Answer::text("application/json", body) }
        }
        _ => Answer::new(405),
    }
}

/// Returns a server at this address, configured by a person.
pub(super) fn configured(url: &str, change: impl FnOnce(&mut ServerSection)) -> Server {
    let mut section =
        ServerSection { url: Some(url.to_owned()), start_seconds: Some(20), ..ServerSection::default() };
    change(&mut section);
    Server { name: "s".to_owned(), section, whose: Whose::Person, file: "haft.toml".to_owned() }
}

struct NothingStarts;

impl Spawner for NothingStarts {
    fn start(&self, _: Program) -> Starting<'_> {
        Box::pin(async { Err(kit::Fault::bug("nothing is started here")) })
    }

    fn denials(&self, _: Exit, _: &str) -> Vec<String> {
        Vec::new()
    }
}

/// Connects to the server with these variables and credentials.
pub(super) async fn connected(
    server: &Server,
    variables: &[(String, String)],
    logins: Option<&Logins>,
) -> Result<rmcp::service::RunningService<rmcp::RoleClient, Handler>, kit::Fault> {
    let procs = Procs::new(Arc::new(NothingStarts));
    let handler = Handler::new(server, Arc::default(), None);
    let workspace = std::path::Path::new("/");
    let wanted = Wanted { server, lifecycle: None, procs: &procs, workspace, variables, logins, handler };
    super::http::connect(&wanted, server.section.url.as_deref().unwrap()).await
}

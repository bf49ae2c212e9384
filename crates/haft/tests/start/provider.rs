//! A provider of models on loopback: lists its models and answers chats, for clients with its key.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::Command,
    sync::{Arc, Mutex},
};

use serde_json::json;

/// The key that it accepts.
pub(super) const KEY: &str = "sk-the-right-key-1";

pub(super) struct Provider {
    /// Up to and with the version.
    pub(super) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

/// A request.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) line: String,
    /// The request's `Authorization` header.
    pub(super) key: Option<String>,
}

impl Provider {
    pub(super) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let seen = seen.clone();
                std::thread::spawn(move || answer(stream, &seen));
            }
        });
        Self { url, asked }
    }

    /// Returns all requests until now.
    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// Returns the keys of the requests for answers, in their order.
    pub(super) fn keys(&self) -> Vec<Option<String>> {
        self.asked().into_iter().filter(|it| it.line.starts_with("POST")).map(|it| it.key).collect()
    }
}

/// Returns an address where nothing listens.
pub(super) fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}/v1", listener.local_addr().unwrap())
}

/// Returns the program without the models that this machine may serve.
pub(super) fn alone(command: &mut Command) -> &mut Command {
    command.env("OLLAMA_HOST", nobody())
}

fn answer(mut stream: TcpStream, seen: &Mutex<Vec<Asked>>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let (mut key, mut length) = (None, 0);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok().filter(|it| *it > 0)?;
        let Some((name, value)) = header.trim().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "authorization" => key = value.strip_prefix("Bearer ").map(str::to_owned),
            "content-length" => length = value.parse().ok()?,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let is_right = key.as_deref() == Some(KEY);
    let is_list = line.starts_with("GET /v1/models ");
    seen.lock().unwrap().push(Asked { line: line.trim().to_owned(), key: key.clone() });
    let (status, mime, body) = if !is_right {
        let said = format!("Incorrect API key provided: {}", key.unwrap_or_default());
        (401, "application/json", json!({ "error": { "message": said } }).to_string())
    } else if is_list {
        let list = json!({ "object": "list", "data": [
            { "id": "gpt-5.6-terra", "object": "model" },
            { "id": "house-model", "object": "model", "context_length": 64_000 },
        ] });
        (200, "application/json", list.to_string())
    } else {
        let part =
            json!({ "choices": [{ "index": 0, "delta": { "content": "Hello." }, "finish_reason": null }] });
        let end = json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] });
        (200, "text/event-stream", format!("data: {part}\n\ndata: {end}\n\ndata: [DONE]\n\n"))
    };
    let head = format!(
        "HTTP/1.1 {status} Status\r\ncontent-type: {mime}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).ok()
}

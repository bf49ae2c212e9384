//! An MCP client on pipes, byte by byte.
#![expect(clippy::expect_used, clippy::unwrap_used, reason = "tests")]

use std::{
    io::{BufRead as _, BufReader, PipeReader, PipeWriter, Write as _, pipe},
    sync::mpsc::{Receiver, channel, sync_channel},
    thread::{self, JoinHandle},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use super::fake::FakeBackend;

/// Long enough for the slowest machine; a test that waits this long has failed.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A client's end of a connection to a server of fake tools.
pub(crate) struct Client {
    input: Option<PipeWriter>,
    lines: Option<Receiver<Value>>,
    unread: Option<PipeReader>,
    ended: Receiver<()>,
    reading: Option<JoinHandle<()>>,
    sending: Option<JoinHandle<PipeWriter>>,
}

impl Client {
    /// Starts a server, without a handshake.
    pub(crate) fn start() -> Self {
        let mut client = Self::without_reading(Builder::new_current_thread().enable_time().build().unwrap());
        client.start_reading();
        client
    }

    /// Starts a server, with a handshake.
    pub(crate) fn ready() -> Self {
        let mut client = Self::start();
        client.initialize("2025-11-25");
        client
    }

    /// Like [`ready`](Self::ready), on several threads.
    pub(crate) fn ready_on_threads(threads: usize) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(threads).enable_time().build().unwrap();
        let mut client = Self::without_reading(runtime);
        client.start_reading();
        client.initialize("2025-11-25");
        client
    }

    /// Starts a server, with a handshake, whose client does not read.
    pub(crate) fn ready_without_reading() -> Self {
        let mut client = Self::without_reading(Builder::new_current_thread().enable_time().build().unwrap());
        client.send(&initialize(0, "2025-11-25"));
        let mut first = String::new();
        let mut output = BufReader::with_capacity(1, client.unread.take().unwrap());
        output.read_line(&mut first).unwrap();
        client.unread = Some(output.into_inner());
        client
    }

    fn without_reading(runtime: Runtime) -> Self {
        let (server_input, input) = pipe().unwrap();
        let (output, server_output) = pipe().unwrap();
        let (has_ended, ended) = channel();
        thread::spawn(move || {
            let about = serve::About::new("How to use it.");
            let served =
                runtime.block_on(serve::mcp(FakeBackend::default(), about, server_input, server_output));
            served.expect("the server works");
            runtime.shutdown_background();
            has_ended.send(()).unwrap_or_default();
        });
        Self { input: Some(input), lines: None, unread: Some(output), ended, reading: None, sending: None }
    }

    /// Reads from now on. Every line must be one message.
    pub(crate) fn start_reading(&mut self) {
        let output = self.unread.take().unwrap();
        let (line, lines) = channel();
        self.reading = Some(thread::spawn(move || {
            for text in BufReader::new(output).split(b'\n') {
                let message: Value = serde_json::from_slice(&text.unwrap()).expect("a line is a message");
                let of_batch = |all: &Vec<Value>| all.iter().all(|one| one["jsonrpc"] == "2.0");
                let is_message = message.as_array().map_or(message["jsonrpc"] == "2.0", of_batch);
                assert!(is_message, "{message}");
                if line.send(message).is_err() {
                    return;
                }
            }
        }));
        self.lines = Some(lines);
    }

    pub(crate) fn initialize(&mut self, version: &str) -> Value {
        let answer = self.ask(&initialize(0, version));
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        answer
    }

    /// Starts a server whose client declares these capabilities.
    pub(crate) fn offering(version: &str, capabilities: &Value) -> Self {
        let mut client = Self::start();
        let mut request = initialize(0, version);
        request["params"]["capabilities"] = capabilities.clone();
        assert_eq!(client.ask(&request)["result"]["protocolVersion"], version);
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.send_bytes(format!("{message}\n").as_bytes());
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.input.as_mut().unwrap().write_all(bytes).unwrap();
    }

    /// Sends all of them from another thread, since both pipes may fill.
    pub(crate) fn send_together(&mut self, messages: &[Value]) {
        let text: String = messages.iter().map(|message| format!("{message}\n")).collect();
        let mut input = self.input.as_ref().unwrap().try_clone().unwrap();
        thread::spawn(move || input.write_all(text.as_bytes()).unwrap());
    }

    /// Sends line after line, and returns how many the server had read when it read no more for this long.
    /// The rest is still being sent.
    pub(crate) fn send_until_blocked(
        &mut self,
        quiet: Duration,
        mut next: impl FnMut() -> Option<String>,
    ) -> usize {
        let lines: Vec<String> = std::iter::from_fn(&mut next).collect();
        let mut input = self.input.take().unwrap();
        let (sent, taken) = sync_channel(0);
        self.sending = Some(thread::spawn(move || {
            for line in lines {
                input.write_all(format!("{line}\n").as_bytes()).unwrap();
                // The receiver is gone.
                let _ = sent.send(());
            }
            input
        }));
        let mut count = 0;
        while taken.recv_timeout(quiet).is_ok() {
            count += 1;
        }
        count
    }

    /// Finishes sending, after `send_until_blocked`.
    pub(crate) fn finish_sending(&mut self) {
        let sending = self.sending.take().unwrap();
        let (input, back) = channel();
        thread::spawn(move || input.send(sending.join().unwrap()));
        // The sender may be blocked until the client reads.
        self.input = back.recv_timeout(TIMEOUT).ok();
    }

    /// Returns the server's next message.
    pub(crate) fn next(&mut self) -> Value {
        self.lines.as_ref().unwrap().recv_timeout(TIMEOUT).expect("the server says something")
    }

    /// Returns the answer to this request; messages before it are skipped.
    pub(crate) fn ask(&mut self, request: &Value) -> Value {
        self.send(request);
        loop {
            let message = self.next();
            if message["id"] == request["id"] {
                return message;
            }
        }
    }

    /// Returns the code of the error that answers this request.
    pub(crate) fn code(&mut self, request: &Value) -> i64 {
        let answer = self.ask(request);
        answer["error"]["code"].as_i64().unwrap_or_else(|| unreachable!("no error: {answer}"))
    }

    /// Returns the code of the error that answers this message, with a null id.
    pub(crate) fn code_of_none(&mut self, message: &Value) -> i64 {
        self.send(message);
        let answer = self.next();
        assert_eq!(answer["id"], Value::Null, "{answer}");
        answer["error"]["code"].as_i64().unwrap()
    }

    pub(crate) fn close_input(&mut self) {
        self.input = None;
    }

    /// Closes the client's end: the next line of the server is the last one that is read.
    pub(crate) fn close_output(&mut self) {
        self.lines = None;
    }

    /// Waits until reading has ended, after `close_output`, once there was a next line.
    pub(crate) fn wait_until_nobody_reads(&mut self) {
        self.reading.take().unwrap().join().unwrap();
    }

    /// Waits until the server has ended by itself.
    pub(crate) fn has_ended(&self) {
        assert_eq!(self.ended.recv_timeout(TIMEOUT), Ok(()));
    }

    /// Closes the connection, and checks that no other message arrived.
    pub(crate) fn end(mut self) {
        self.close_input();
        if let Some(lines) = self.lines.take() {
            let rest: Vec<Value> = lines.iter().filter(|message| message["id"] != Value::Null).collect();
            let stopped = |message: &Value| message["result"]["isError"] == true;
            assert!(rest.iter().all(stopped), "unasked: {rest:?}");
        }
        self.has_ended();
    }
}

pub(crate) fn initialize(id: i64, version: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": {
        "protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}})
}

pub(crate) fn call(id: impl Into<Value>, tool: &str, arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": "tools/call",
        "params": {"name": tool, "arguments": arguments}})
}

/// Returns a request of the lifecycle without `initialize`.
pub(crate) fn modern(id: i64, method: &str, mut params: Value) -> Value {
    if let Some(params) = params.as_object_mut() {
        params.insert(
            "_meta".to_owned(),
            json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {}}),
        );
    }
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// Like [`modern`], with these client capabilities.
pub(crate) fn modern_offering(id: i64, method: &str, params: Value, capabilities: &Value) -> Value {
    let mut request = modern(id, method, params);
    request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities.clone();
    request
}

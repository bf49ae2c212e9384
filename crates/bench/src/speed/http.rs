//! MCP over HTTP with many clients, beside a server that only answers.

use std::{
    convert::Infallible,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    process::{Child, Command, Stdio},
    sync::mpsc::channel,
    thread,
    time::{Duration, Instant},
};

use http_body_util::{BodyExt as _, Full};
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};

use super::{
    Aim, Amount, Comparison, Row, Scratch, Times, Trouble,
    process::{Place, call},
};
use crate::{
    client::greetings,
    processes::{memory, resident, tree},
};

/// Number of clients that call at once.
pub(super) const CLIENTS: usize = 64;
const CALLS: usize = 10_000;

/// Number of calls before memory is measured for the first time.
const WARM: usize = 1_000;

/// Time limit against a hang.
const AT_MOST: Duration = Duration::from_secs(60);

pub(super) fn rows(scratch: &Scratch) -> Result<Vec<Row>, Trouble> {
    let place = Place::named(scratch, "http")?;
    let server = Server::start(place.command(&["mcp", "--http", "127.0.0.1:0", "--no-token"]))?;
    let request = call("read", &json!({"path": "small.rs"}));
    let fresh = server.resident()?;
    let mut clients = (0..CLIENTS).map(|_| Client::greet(server.address)).collect::<Result<Vec<_>, _>>()?;
    let warm = load(&mut clients, &request, WARM)?;
    let after_warm = server.resident()?;
    let ours = load(&mut clients, &request, CALLS - WARM)?;
    let after = server.resident()?;

    let floor = echo()?;
    let mut callers = (0..CLIENTS).map(|_| Client::new(floor)).collect::<Result<Vec<_>, _>>()?;
    load(&mut callers, &request, WARM)?;
    let least = load(&mut callers, &request, CALLS - WARM)?;

    let errors = warm.errors + ours.errors;
    let name = "hyper, which echoes the request";
    let per_call = |loaded: &Loaded| {
        Amount::Time(loaded.took / u32::try_from(loaded.times.0.len().max(1)).unwrap_or(u32::MAX))
    };
    let row = |what: String, ours: Amount, p95, comparison, aim| Row { what, ours, p95, comparison, aim };
    Ok(vec![
        ours.times.row(format!("`read` over HTTP, {CLIENTS} at once"), least.times.comparison(name), None),
        row(
            "the same, p99".to_owned(),
            ours.times.at(99),
            None,
            Comparison::Measured(name.to_owned(), least.times.at(99)),
            None,
        ),
        row(
            format!("the same: {}/s, {errors} errors in {CALLS}", ours.each_second()),
            per_call(&ours),
            None,
            Comparison::Measured(format!("{name}: {}/s", least.each_second()), per_call(&least)),
            None,
        ),
        row(
            "memory after 1,000 calls of 64 sessions".to_owned(),
            after_warm,
            None,
            Comparison::Measured("the same at the start".to_owned(), fresh),
            None,
        ),
        row(
            "memory after 10,000 calls".to_owned(),
            after,
            None,
            Comparison::Measured("the same after 1,000".to_owned(), after_warm),
            Some(Aim::Times(1.2)),
        ),
    ])
}

/// The results of many calls.
pub(super) struct Loaded {
    pub(super) times: Times,
    took: Duration,
    pub(super) errors: usize,
}

impl Loaded {
    /// Returns the number of calls without an error in a second.
    pub(super) fn each_second(&self) -> u64 {
        (self.times.0.len() as f64 / self.took.as_secs_f64()) as u64
    }
}

/// Lets all clients call at once, `calls` times in all.
pub(super) fn load(clients: &mut [Client], request: &Value, calls: usize) -> Result<Loaded, Trouble> {
    let each = calls.div_ceil(clients.len().max(1));
    let body = request.to_string();
    let began = Instant::now();
    let done = thread::scope(|scope| {
        let body = &body;
        let running: Vec<_> =
            clients.iter_mut().map(|client| scope.spawn(move || client.calls(body, each))).collect();
        running
            .into_iter()
            .map(|it| it.join().map_err(|_| "a client panicked"))
            .collect::<Result<Vec<_>, _>>()
    })?;
    let took = began.elapsed();
    let errors = done.iter().map(|(_, errors)| errors).sum();
    Ok(Loaded { times: Times::new(done.into_iter().flat_map(|(times, _)| times).collect()), took, errors })
}

/// A client on a connection of its own.
pub(super) struct Client {
    socket: BufReader<TcpStream>,
    head: String,
}

impl Client {
    /// Opens a connection.
    pub(super) fn new(address: SocketAddr) -> Result<Self, Trouble> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(AT_MOST))?;
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n"
        );
        Ok(Self { socket: BufReader::new(socket), head })
    }

    /// Opens a connection with a session.
    pub(super) fn greet(address: SocketAddr) -> Result<Self, Trouble> {
        let mut client = Self::new(address)?;
        let [(method, params), _] = greetings();
        let answer = client
            .ask(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string())?;
        let id = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
        let id = id.ok_or_else(|| format!("no session: {answer}"))?;
        client.head.push_str(&format!("Mcp-Session-Id: {id}\r\n"));
        client.ask(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string())?;
        Ok(client)
    }

    fn calls(&mut self, body: &str, many: usize) -> (Vec<Duration>, usize) {
        let (mut times, mut errors) = (Vec::with_capacity(many), 0);
        for _ in 0..many {
            let began = Instant::now();
            match self.ask(body) {
                Ok(answer) if answer.starts_with("HTTP/1.1 200") && !answer.contains("\"isError\":true") => {
                    times.push(began.elapsed());
                }
                Ok(_) | Err(_) => errors += 1,
            }
        }
        (times, errors)
    }

    /// Sends a body, and reads the whole answer.
    fn ask(&mut self, body: &str) -> Result<String, Trouble> {
        let request = format!("{}Content-Length: {}\r\n\r\n{body}", self.head, body.len());
        self.socket.get_mut().write_all(request.as_bytes())?;
        let (mut answer, mut length) = (String::new(), None);
        loop {
            let mut line = String::new();
            if self.socket.read_line(&mut line)? == 0 {
                return Err("the connection ended".into());
            }
            if let Some(bytes) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                length = Some(bytes.trim().parse::<usize>()?);
            }
            answer.push_str(&line);
            if line == "\r\n" {
                break;
            }
        }
        if let Some(length) = length {
            return self.take(length).map(|body| answer + &body);
        }
        loop {
            let mut size = String::new();
            self.socket.read_line(&mut size)?;
            let size = usize::from_str_radix(size.trim(), 16)?;
            answer.push_str(&self.take(size)?);
            self.take(2)?;
            if size == 0 {
                return Ok(answer);
            }
        }
    }

    fn take(&mut self, bytes: usize) -> Result<String, Trouble> {
        let mut taken = vec![0; bytes];
        self.socket.read_exact(&mut taken)?;
        Ok(String::from_utf8(taken)?)
    }
}

/// A server of MCP over HTTP, killed when this is dropped.
pub(super) struct Server {
    child: Child,
    pub(super) address: SocketAddr,
}

impl Server {
    /// Starts a server that writes its URL, which ends with `/mcp`, to standard error.
    pub(super) fn start(mut command: Command) -> Result<Self, Trouble> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let stderr = BufReader::new(child.stderr.take().ok_or("no standard error")?);
        let (to, lines) = channel();
        thread::spawn(move || stderr.lines().map_while(Result::ok).for_each(|line| drop(to.send(line))));
        loop {
            let line =
                lines.recv_timeout(AT_MOST).map_err(|_| format!("{command:?} has not written its URL"))?;
            let url = line.split_once("MCP at http://").and_then(|(_, url)| url.strip_suffix("/mcp"));
            if let Some(address) = url {
                return Ok(Self { address: address.parse()?, child });
            }
        }
    }

    /// Returns its resident memory.
    fn resident(&self) -> Result<Amount, Trouble> {
        resident(self.child.id()).map(Amount::Bytes)
    }

    /// Returns the memory (PSS) of the server and of all processes below it.
    pub(super) fn memory(&self) -> Amount {
        Amount::Bytes(memory(&tree(self.child.id())) * 1024)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts the minimal server: it echoes its input.
pub(super) fn echo() -> Result<SocketAddr, Trouble> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    thread::spawn(move || {
        runtime.block_on(async move {
            let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
            while let Ok((socket, _)) = listener.accept().await {
                let serving =
                    http1::Builder::new().serve_connection(TokioIo::new(socket), service_fn(answer));
                tokio::spawn(serving);
            }
        });
    });
    Ok(address)
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let body =
        request.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    Ok(Response::new(Full::new(body)))
}

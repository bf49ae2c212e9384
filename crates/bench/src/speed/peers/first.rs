//! The first command, the first Python and the first web call of a session.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    process::Command,
    thread::{self, sleep},
    time::Duration,
};

use serde_json::json;

use super::{
    super::{Row, Scratch, Trouble, process::run, timed},
    Aims, Site, beside, call, in_turn,
    install::Peer,
    tasks::{Task, Who},
};

const RUNS: usize = 20;
/// The time in which a client lets its model think before the first call.
const THINKING: Duration = Duration::from_millis(300);
const PAGE: &str = "<html><head><title>A page</title></head><body><p>Some words.</p></body></html>";

pub(super) fn rows(scratch: &Scratch) -> Result<Vec<Row>, Trouble> {
    let site = Site::new(scratch, "first")?;
    let address = page()?;
    std::fs::write(site.home.join("config/haft.toml"), format!("[net]\nallow = [\"{address}\"]\n"))?;
    let able = site.contestants();
    let of = |peers: &[Peer]| -> Vec<Who> {
        let is_able = |who: &&Who| match who {
            Who::Peer(peer) => peers.contains(peer),
            _ => true,
        };
        able.iter().filter(is_able).copied().collect()
    };
    let url = format!("http://{address}/");
    let mut rows = Vec::new();
    for (what, task, floor, peers) in [
        (
            "first command of a session",
            Some(Task::Shell),
            "fork, exec and wait of `true`",
            [Peer::FastMcp, Peer::Commander].as_slice(),
        ),
        ("first Python of a session", Some(Task::Python), "a process of `python3 -c 1+1`", &[Peer::FastMcp]),
        ("first web call of a session", None, "one GET on a socket", &[]),
    ] {
        let mut ended = Vec::new();
        let times = in_turn(RUNS, &of(peers), |who, turn| {
            ended.clear();
            if who == Who::Floor {
                return match task {
                    Some(Task::Shell) => run(Command::new("true")),
                    Some(_) => {
                        // The one that haft finds, too: how long it takes to start depends on its packages.
                        let mut python = Command::new("python3");
                        python.args(["-c", "1+1"]);
                        run(python)
                    }
                    None => timed(|| get(address)),
                };
            }
            let mut server = site.server(who)?;
            sleep(THINKING);
            let params = match task {
                Some(task) => who.call(task, &site.workspace, turn).ok_or("it has no such tool")?,
                None => call("web_fetch", &json!({"url": url})),
            };
            let took = timed(|| server.ask("tools/call", &params).map(drop));
            ended.push(server);
            took
        })?;
        rows.extend(beside(what, &times, floor, Aims::default()));
    }
    Ok(rows)
}

/// Serves a page on an address of loopback, as long as the program runs.
fn page() -> Result<SocketAddr, Trouble> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for mut socket in listener.incoming().map_while(Result::ok) {
            // A client that leaves has its reasons.
            let _ = socket.read(&mut [0; 4096]);
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length:";
            let _ = socket.write_all(format!("{head} {}\r\n\r\n{PAGE}", PAGE.len()).as_bytes());
        }
    });
    Ok(address)
}

fn get(address: SocketAddr) -> Result<(), Trouble> {
    let mut socket = TcpStream::connect(address)?;
    // In one piece: the page does not wait for more.
    socket.write_all(format!("GET / HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer)?;
    if answer.contains("Some words") { Ok(()) } else { Err("the page did not come".into()) }
}

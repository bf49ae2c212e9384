//! Slow and idle connections.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

use serde_json::json;

use super::support::{ANN, TestWorkspace, good, rest};

/// Writes one byte at a time until the server has had enough.
fn drip(mut socket: TcpStream, byte: &[u8]) -> Duration {
    let began = Instant::now();
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut buffer = [0; 1024];
    loop {
        if socket.write_all(byte).is_err() {
            return began.elapsed();
        }
        match socket.read(&mut buffer) {
            Ok(0) => return began.elapsed(),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return began.elapsed(),
            _ => {}
        }
        assert!(began.elapsed() < Duration::from_secs(100), "it waits for ever");
    }
}

#[test]
fn half_open_connections_do_not_block_others() {
    let http_server = TestWorkspace::new().open();
    let mut crowd = Vec::new();
    for number in 0..500 {
        let mut socket = http_server.connect();
        // Some say nothing at all, some begin.
        if number % 2 == 0 {
            let _ = socket.write_all(b"POST /mcp HTTP/1.1\r\nHost: ");
        }
        crowd.push(socket);
        if number % 100 == 0 {
            http_server.is_alive();
        }
    }
    http_server.is_alive();
}

#[test]
fn slow_headers_and_bodies_are_cut_off() {
    let http_server = TestWorkspace::new().open();
    let mut silent = http_server.connect();
    let mut head = http_server.connect();
    head.write_all(b"POST /mcp HTTP/1.1\r\nX: ").unwrap();
    let mut body = http_server.connect();
    let start = format!(
        "POST /mcp HTTP/1.1\r\nHost: {}\r\n{}Content-Length: 1000000\r\n\r\n",
        http_server.address,
        good(ANN)
    );
    body.write_all(start.as_bytes()).unwrap();
    let mut second = http_server.connect();
    let first = format!("GET /none HTTP/1.1\r\nHost: {}\r\n\r\nGET /", http_server.address);
    second.write_all(first.as_bytes()).unwrap();
    let drips: Vec<_> =
        [head, body, second].into_iter().map(|socket| thread::spawn(move || drip(socket, b"x"))).collect();
    assert_eq!(rest(&mut silent).status, 0);
    for drip in drips {
        drip.join().unwrap();
    }
    http_server.is_alive();
}

#[test]
fn client_that_does_not_read_is_dropped_and_its_session_stays() {
    let test_ws = TestWorkspace::new();
    std::fs::write(test_ws.path("ws/big"), format!("{}\n", "x".repeat(100)).repeat(5000)).unwrap();
    let http_server = test_ws.open();
    let session = http_server.begin(ANN);
    let mut socket = http_server.connect();
    // Many answers, none of them read, on one connection.
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {}\r\n{}Mcp-Session-Id: {session}\r\nContent-Length: {}\r\n\r\n{body}",
        http_server.address,
        good(ANN),
        body.len()
    );
    socket.set_write_timeout(Some(Duration::from_secs(100))).unwrap();
    let began = Instant::now();
    // Until the server is gone from the other end: a client that only writes fills every buffer on the way.
    while socket.write_all(head.as_bytes()).is_ok() {
        assert!(began.elapsed() < Duration::from_secs(100), "nobody cut it off");
    }
    assert_eq!(http_server.call(ANN, &session, "shell", json!({"command": "echo on"})), "on");
    http_server.is_alive();
}

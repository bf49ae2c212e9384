//! Malformed and malicious HTTP requests.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    thread,
};

use serde_json::json;

use super::support::{ANN, HttpServer, TestWorkspace, good, initialize, rest};

const MIB: usize = 1024 * 1024;

fn head(http_server: &HttpServer, more: &str) -> String {
    format!("POST /mcp HTTP/1.1\r\nHost: {}\r\n{}{more}\r\n", http_server.address, good(ANN))
}

#[test]
fn body_of_100_mib_is_refused_unread() {
    let http_server = TestWorkspace::new().open();
    let announced =
        http_server.raw(head(&http_server, &format!("Content-Length: {}\r\n", 100 * MIB)).as_bytes());
    assert_eq!(announced.status, 413, "{announced:?}");
    assert_eq!(announced.header("connection").as_deref(), Some("close"));
    let chunk = [format!("{MIB:x}\r\n").into_bytes(), vec![b' '; MIB], b"\r\n".to_vec()].concat();
    let send = |mut socket: TcpStream, head: String, piece: Vec<u8>| {
        // Whether all of it is taken is the server's to say.
        let _ = socket.write_all(head.as_bytes());
        (0..100).all(|_| socket.write_all(&piece).is_ok())
    };
    for (more, piece) in [
        ("Transfer-Encoding: chunked\r\n".to_owned(), chunk),
        (format!("Content-Length: {}\r\n", 100 * MIB), vec![b' '; MIB]),
    ] {
        let mut socket = http_server.connect();
        let (writer, head) = (socket.try_clone().unwrap(), head(&http_server, &more));
        let sending = thread::spawn(move || send(writer, head, piece));
        assert_eq!(rest(&mut socket).status, 413);
        drop(socket);
        assert!(!sending.join().unwrap(), "100 MiB were taken");
    }
    http_server.is_alive();
}

#[test]
fn deep_wide_and_broken_json_gets_json_rpc_errors() {
    let http_server = TestWorkspace::new().open();
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    let deep_call = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{}1{}}}"#,
        r#"{"a":"#.repeat(5000),
        "}".repeat(5000)
    );
    let wide = format!("[{}1]", "1,".repeat(1_500_000));
    for (body, code) in [
        (deep.as_str(), -32700),
        (&deep_call, -32700),
        (&wide, -32600),
        ("{", -32700),
        ("", -32700),
        ("[]", -32600),
        ("3", -32600),
        ("{}", -32600),
        ("\u{0}", -32700),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600),
    ] {
        let reply = http_server.ask("POST /mcp", &good(ANN), body);
        assert_eq!(reply.status, 400, "{}", &body[..body.len().min(40)]);
        assert_eq!(reply.message()["error"]["code"], code, "{}", &body[..body.len().min(40)]);
    }
    http_server.is_alive();
}

#[test]
fn only_content_types_that_need_a_cors_preflight_are_accepted() {
    let http_server = TestWorkspace::new().open();
    let body = initialize().to_string();
    let bearer = format!("Authorization: Bearer {ANN}\r\nAccept: application/json, text/event-stream\r\n");
    for mime in [
        "",
        "Content-Type: text/plain\r\n",
        "Content-Type: application/x-www-form-urlencoded\r\n",
        "Content-Type: multipart/form-data; boundary=x\r\n",
        "Content-Type: text/plain; application/json\r\n",
        "Content-Type: application/json\r\nContent-Type: text/plain\r\n",
        "Content-Type: application/json\r\nContent-Encoding: gzip\r\n",
        "Content-Type: application/json; charset=utf-16\r\n",
        "Content-Type: application/json; charset=\"latin1\"\r\n",
    ] {
        assert_eq!(http_server.ask("POST /mcp", &format!("{bearer}{mime}"), &body).status, 415, "{mime}");
    }
    let json = format!("Authorization: Bearer {ANN}\r\nContent-Type: application/json; charset=utf-8\r\n");
    for accept in [
        "",
        "Accept: text/html\r\n",
        "Accept: application/json\r\n",
        "Accept: application/json, text/event-stream;q=0\r\n",
    ] {
        assert_eq!(http_server.ask("POST /mcp", &format!("{json}{accept}"), &body).status, 406, "{accept}");
    }
    for method in ["PUT", "PATCH", "HEAD", "TRACE", "CONNECT", "BREW"] {
        let reply = http_server.ask(&format!("{method} /mcp"), &good(ANN), "");
        assert!([400, 404, 405].contains(&reply.status), "{method}: {reply:?}");
    }
    for path in ["/", "/mcp/", "/mcp/x", "/../mcp", "//mcp", "/MCP", "/.well-known/other"] {
        assert_eq!(http_server.ask(&format!("POST {path}"), &good(ANN), &body).status, 404, "{path}");
    }
    http_server.is_alive();
}

#[test]
fn request_smuggling_is_refused() {
    let http_server = TestWorkspace::new().open();
    let hidden = format!("DELETE /hidden HTTP/1.1\r\nHost: {}\r\n\r\n", http_server.address);
    let shapes = [
        // The hidden text is the body for one server and a request for another.
        format!(
            "Content-Length: {}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}",
            hidden.len() + 5
        ),
        format!("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n{hidden}"),
        format!("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n{hidden}"),
        format!("Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{hidden}"),
        format!("Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n{hidden}"),
        format!("Content-Length: 0\r\nContent-Length: {}\r\n\r\n{hidden}", hidden.len()),
        format!("Content-Length: +0\r\n\r\n{hidden}"),
        format!("Content-Length: 0x0\r\n\r\n{hidden}"),
        format!("Content-Length: -1\r\n\r\n{hidden}"),
        format!("X: a\nContent-Length: 0\r\n\r\n{hidden}"),
    ];
    for shape in shapes {
        let mut socket = http_server.connect();
        let head = format!("POST /mcp HTTP/1.1\r\nHost: {}\r\n{}{shape}", http_server.address, good(ANN));
        socket.write_all(head.as_bytes()).unwrap();
        let _ = socket.shutdown(std::net::Shutdown::Write);
        let mut all = String::new();
        let _ = socket.read_to_string(&mut all);
        assert!(!all.contains("404"), "the hidden request was answered: {shape:?}: {all}");
        assert!(!all.contains("200 OK"), "{shape:?}: {all}");
    }
    http_server.is_alive();
}

#[test]
fn malformed_chunks_and_endless_headers_are_refused() {
    let http_server = TestWorkspace::new().open();
    for chunks in [
        "zz\r\n",
        "-1\r\n",
        "ffffffffffffffffff\r\n",
        "5;\n{}",
        "2\r\n{}xx",
        &format!("1;{}\r\n", "x".repeat(MIB)),
    ] {
        let mut socket = http_server.connect();
        let _ = socket.write_all(
            format!("{}{chunks}", head(&http_server, "Transfer-Encoding: chunked\r\n")).as_bytes(),
        );
        let _ = socket.shutdown(std::net::Shutdown::Write);
        let reply = rest(&mut socket);
        assert!([0, 400, 413].contains(&reply.status), "{:?}: {reply:?}", &chunks[..chunks.len().min(20)]);
    }
    let many: String = (0..1000).map(|number| format!("X-{number}: x\r\n")).collect();
    for more in
        [many, format!("X: {}\r\n", "x".repeat(MIB)), format!("Last-Event-ID: {}\r\n", "9".repeat(MIB))]
    {
        let reply = http_server.raw(head(&http_server, &more).as_bytes());
        assert!([0, 400, 431].contains(&reply.status), "{reply:?}");
    }
    let long = http_server.raw(format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "x".repeat(MIB)).as_bytes());
    assert!([0, 400, 414, 431].contains(&long.status), "{long:?}");
    for noise in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\0\0\0\0\r\n\r\n",
    ] {
        let mut socket = http_server.connect();
        let _ = socket.write_all(noise);
        let _ = socket.shutdown(std::net::Shutdown::Write);
        assert!([0, 400, 505].contains(&rest(&mut socket).status));
    }
    http_server.is_alive();
}

#[test]
fn stream_of_an_unknown_event_id_ends_at_once() {
    let http_server = TestWorkspace::new().open();
    let session = http_server.begin(ANN);
    for id in ["1.999999", "99999999999999999999999.1", "-1.-1", "nonsense", "1/1", &"9".repeat(20_000)] {
        let headers = format!("{}Mcp-Session-Id: {session}\r\nLast-Event-ID: {id}\r\n", good(ANN));
        let reply = http_server.ask("GET /mcp", &headers, "");
        assert_eq!((reply.status, reply.body.as_str()), (200, ""), "{id}");
    }
    http_server.is_alive();
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let http_server = TestWorkspace::new().open();
    let session = http_server.begin(ANN);
    let mut all = String::new();
    for id in 1..=20 {
        let body = json!({"jsonrpc": "2.0", "id": id, "method": "ping"}).to_string();
        let last = if id == 20 { "Connection: close\r\n" } else { "" };
        let more = format!("Mcp-Session-Id: {session}\r\n{last}Content-Length: {}\r\n", body.len());
        all.push_str(&head(&http_server, &more));
        all.push_str(&body);
    }
    let mut socket = http_server.connect();
    socket.write_all(all.as_bytes()).unwrap();
    let mut answers = String::new();
    socket.read_to_string(&mut answers).unwrap();
    let ids: Vec<usize> = (1..=20).filter_map(|id| answers.find(&format!("\"id\":{id},"))).collect();
    assert_eq!(ids.len(), 20, "{answers}");
    assert!(ids.is_sorted());
    http_server.is_alive();
}

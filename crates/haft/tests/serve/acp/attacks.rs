//! Handshakes that are refused, and messages that break the protocol.

use std::io::Write as _;

use serde_json::json;
use tokio_tungstenite::tungstenite::{Message, protocol::frame::coding::CloseCode};

use super::support::{Editor, UPGRADE, handshake};
use crate::serve::support::{Stage, token, wait_for};

#[test]
fn handshakes_of_other_pages_names_and_roles_are_refused() {
    let served = Stage::new(&[]).serve();
    let (host, cookie) = (served.address.to_string(), served.sign_in());
    let status = |host: &str, headers: &str| handshake(&served, host, "/acp", headers).0;
    let bearer = |role: &str| format!("Authorization: Bearer {}\r\n{UPGRADE}", token(role));
    let own_page = format!("{cookie}Origin: http://{host}\r\n{UPGRADE}");
    let (accepted, head) = handshake(&served, &host, "/acp", &own_page);
    assert_eq!(accepted, 101);
    assert!(
        head.to_ascii_lowercase().contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="),
        "{head}"
    );
    for (headers, expected) in [
        (bearer("say"), 101),
        (bearer("view"), 403),
        (UPGRADE.to_owned(), 401),
        (format!("Authorization: Bearer token-of-nobody-0123456789\r\n{UPGRADE}"), 401),
        // A page of another origin has the browser send the cookie, and always its own origin.
        (format!("{cookie}Origin: https://evil.example\r\n{UPGRADE}"), 403),
        (format!("{cookie}Origin: http://127.0.0.1:1\r\n{UPGRADE}"), 403),
        (format!("{cookie}Origin: null\r\n{UPGRADE}"), 403),
        (format!("{cookie}{UPGRADE}"), 403),
        (format!("{cookie}Origin: http://{host}\r\nOrigin: https://evil.example\r\n{UPGRADE}"), 403),
        (format!("{cookie}Origin: http://{host}\r\nSec-Fetch-Site: same-site\r\n{UPGRADE}"), 403),
        (format!("Origin: https://evil.example\r\n{}", bearer("own")), 403),
        // No WebSocket, or another version.
        (bearer("own").replace("Upgrade: websocket\r\n", ""), 426),
        (bearer("own").replace("Connection: Upgrade", "Connection: close"), 426),
        (bearer("own").replace("Version: 13", "Version: 8"), 426),
        (bearer("own").replace("dGhlIHNhbXBsZSBub25jZQ==", "short"), 400),
        (bearer("own").replace("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", ""), 400),
    ] {
        assert_eq!(status(&host, &headers), expected, "{headers}");
    }
    for other in ["evil.example", "127.0.0.1:1", "localhost.evil.example"] {
        assert_eq!(status(other, &bearer("own")), 403, "{other}");
    }
    let path = format!("/acp?token={}", token("own"));
    assert_eq!(handshake(&served, &host, &path, UPGRADE).0, 400);
}

#[test]
fn broken_messages_are_answered_and_the_connection_goes_on() {
    let stage = Stage::new(&[]);
    let served = stage.serve();
    let mut editor = Editor::open(&served, "say");
    for (text, code) in
        [("{", -32700), ("[]", -32600), ("5", -32600), ("{\"jsonrpc\": \"2.0\", \"id\": []}", -32600)]
    {
        editor.socket.send(Message::text(text)).unwrap();
        let answer = editor.until(|it| it["error"]["code"] == code);
        assert_eq!(answer["id"], serde_json::Value::Null, "{text}");
    }
    // A message may have several lines, and a line break in a string is escaped.
    editor
        .socket
        .send(Message::text("{\n\"jsonrpc\": \"2.0\",\n\"id\": \"x\",\n\"method\": \"no\\nthing\"}"))
        .unwrap();
    assert_eq!(editor.until(|it| it["id"] == "x")["error"]["code"], -32601);
    editor.socket.send(Message::Ping(b"here".as_slice().into())).unwrap();
    loop {
        match editor.socket.read().unwrap() {
            Message::Pong(payload) => break assert_eq!(&payload[..], b"here"),
            other => assert!(other.is_text(), "{other}"),
        }
    }
    editor.session(&stage);
}

#[test]
fn what_is_no_message_closes_the_connection_with_its_reason() {
    let served = Stage::new(&[]).serve();
    let close = |send: &dyn Fn(&mut Editor)| {
        let mut editor = Editor::open(&served, "say");
        send(&mut editor);
        editor.closed().map(|it| it.code)
    };
    let binary = |it: &mut Editor| it.socket.send(Message::binary(vec![1, 2])).unwrap();
    assert_eq!(close(&binary), Some(CloseCode::Unsupported));
    // Announced only: nobody has to read it.
    let huge = |it: &mut Editor| {
        let head = [&[0x81, 0xff][..], &(17u64 << 20).to_be_bytes(), &[0; 4]].concat();
        it.socket.get_mut().write_all(&head).unwrap();
    };
    assert_eq!(close(&huge), Some(CloseCode::Size));
    // In pieces, each of which is small enough.
    let pieces = |it: &mut Editor| {
        let mut piece = [&[0x01, 0xff][..], &(6u64 << 20).to_be_bytes(), &[0; 4]].concat();
        piece.extend(std::iter::repeat_n(b'x', 6 << 20));
        for _ in 0..3 {
            // It may be closed before all was sent.
            let _ = it.socket.get_mut().write_all(&piece);
            piece[0] = 0x00;
        }
    };
    assert_eq!(close(&pieces), Some(CloseCode::Size));
    let unmasked = |it: &mut Editor| it.socket.get_mut().write_all(&[0x81, 0x02, b'{', b'}']).unwrap();
    assert_eq!(close(&unmasked), Some(CloseCode::Protocol));
    let not_utf8 =
        |it: &mut Editor| it.socket.get_mut().write_all(&[0x81, 0x82, 0, 0, 0, 0, 0xff, 0xfe]).unwrap();
    assert_eq!(close(&not_utf8), Some(CloseCode::Invalid));
    let reserved = |it: &mut Editor| it.socket.get_mut().write_all(&[0xf1, 0x80, 0, 0, 0, 0]).unwrap();
    assert_eq!(close(&reserved), Some(CloseCode::Protocol));
    // The server goes on.
    Editor::open(&served, "say");
}

#[test]
fn sockets_of_one_person_are_limited_and_those_of_others_are_not() {
    let served = Stage::new(&[]).serve();
    let host = served.address.to_string();
    let mut open: Vec<Editor> = (0..8).map(|_| Editor::open(&served, "say")).collect();
    let bearer = |role: &str| format!("Authorization: Bearer {}\r\n{UPGRADE}", token(role));
    assert_eq!(handshake(&served, &host, "/acp", &bearer("say")).0, 429);
    assert_eq!(handshake(&served, &host, "/acp", &bearer("own")).0, 101);
    // Half-closed: the other end sends nothing more, and keeps its socket open.
    open.pop().unwrap().socket.get_ref().shutdown(std::net::Shutdown::Write).unwrap();
    let is_free = || (handshake(&served, &host, "/acp", &bearer("say")).0 == 101).then_some(());
    wait_for("a free place", is_free);
    for mut editor in open {
        editor.ask("initialize", json!({"protocolVersion": 1}));
    }
}

#[test]
fn flood_of_pings_closes_the_connection() {
    let served = Stage::new(&[]).serve();
    let mut editor = Editor::open(&served, "say");
    for _ in 0..300 {
        // It may be closed before all were sent.
        let _ = editor.socket.send(Message::Ping(vec![0; 125].into()));
    }
    assert_eq!(editor.closed().map(|it| it.code), Some(CloseCode::Policy));
}

#[test]
fn unfinished_messages_of_one_person_take_a_part_of_the_memory_permits_and_leave_the_rest_to_others() {
    let stage = Stage::new(&[]);
    let served = stage.serve();
    // 16 MiB are announced, and all but a little of that comes: a person can hold six such messages.
    let mut part = vec![0x81, 0x80 | 127];
    part.extend((16_u64 << 20).to_be_bytes());
    part.extend([0; 4]);
    part.resize((16 << 20) - 4096, b' ');
    let begun = |role: &str| {
        let mut editors: Vec<Editor> = (0..6).map(|_| Editor::open(&served, role)).collect();
        for editor in &mut editors {
            editor.socket.get_mut().write_all(&part).unwrap();
        }
        editors
    };
    let (mut of_one, of_other) = (begun("say"), begun("approve"));
    // A body needs a permit, too.
    let post = |role: &str| served.ask(role, "POST /api/v1/sessions", &json!({})).status;
    for role in ["say", "approve"] {
        wait_for("the last byte", || (post(role) == 503).then_some(()));
        let mut last = Editor::open(&served, role);
        let _ = last.socket.get_mut().write_all(&part);
        assert_eq!(last.closed().map(|it| it.code), Some(CloseCode::Again), "{role}");
    }
    // Both together leave permits to a third person, for a large message, too.
    assert_eq!(post("own"), 201);
    let mut third = Editor::open(&served, "own");
    let params = json!({"cwd": stage.path("ws"), "padding": " ".repeat(15 << 20)});
    third.result("session/list", params);
    // A short message needs none.
    let mut short = Editor::open(&served, "say");
    short.result("session/list", json!({"cwd": stage.path("ws")}));
    of_one.pop();
    wait_for("a permit", || (post("say") == 201).then_some(()));
    drop(of_other);
}

//! Requests as the model wrote them, and answers as it reads them.

use serde_json::{Value, json};

use super::{ask, does, granting, hostile::Hostile};

#[test]
fn each_kind_of_body_is_sent_as_given() {
    let server = Hostile::start();
    let test_ws = granting(&[&server]);
    test_ws.put("data.bin", b"\0\x01\xff binary");
    let url = server.url("/echo?a=1");
    let requested = |arguments: Value| {
        does(&test_ws, &arguments);
        server.last()
    };
    let it = requested(
        json!({"url": url, "query": {"q": "two words & more", "n": 3, "tag": ["x", "y"]}, "headers": {"X-Own": "yes"}}),
    );
    assert_eq!(
        (it.method.as_str(), it.target.as_str()),
        ("GET", "/echo?a=1&n=3&q=two+words+%26+more&tag=x&tag=y")
    );
    assert_eq!(it.header("x-own"), Some("yes"));
    assert!(it.header("user-agent").is_some_and(|it| it.starts_with("haft/")), "{it:?}");
    let it = requested(json!({"url": url, "json": {"b": 1, "a": ["ü"]}}));
    assert_eq!((it.method.as_str(), it.text().as_str()), ("POST", r#"{"b":1,"a":["ü"]}"#));
    assert_eq!(it.header("content-type"), Some("application/json"));
    let it = requested(json!({"url": url, "method": "put", "form": {"a b": "c&d", "n": 1}}));
    assert_eq!((it.method.as_str(), it.text().as_str()), ("PUT", "a+b=c%26d&n=1"));
    let it = requested(
        json!({"url": url, "method": "PATCH", "body": "<a/>", "headers": {"content-type": "text/xml"}}),
    );
    assert_eq!((it.header("content-type"), it.text().as_str()), (Some("text/xml"), "<a/>"));
    let it = requested(json!({"url": url, "upload": "data.bin"}));
    assert_eq!((it.body.as_slice(), it.header("content-length")), (&b"\0\x01\xff binary"[..], Some("10")));
    let it = requested(json!({"url": url, "multipart": [
        {"name": "note", "value": "hi"},
        {"name": "f\"\r\nile", "path": "data.bin", "content_type": "image/png"},
    ]}));
    let text = it.text();
    let boundary = it.header("content-type").unwrap().strip_prefix("multipart/form-data; boundary=").unwrap();
    assert!(
        text.starts_with(&format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\nhi\r\n"
        )),
        "{text}"
    );
    assert!(
        text.contains("name=\"f%22%0D%0Aile\"; filename=\"data.bin\"\r\nContent-Type: image/png\r\n\r\n\0"),
        "{text}"
    );
    assert!(text.ends_with(&format!("\r\n--{boundary}--\r\n")), "{text}");
    assert_eq!(it.header("content-length").map(str::to_owned), Some(it.body.len().to_string()));
    assert_eq!(requested(json!({"url": url, "method": "HEAD"})).method, "HEAD");
    assert_eq!(requested(json!({"url": url, "method": "PROPFIND"})).method, "PROPFIND");
}

#[test]
fn invalid_request_is_refused_before_anything_is_sent() {
    let server = Hostile::start();
    let test_ws = granting(&[&server]);
    let url = server.url("/echo");
    for (arguments, said) in [
        (json!({"url": url, "headers": {"X": "a\r\nHost: evil"}}), "line break"),
        (json!({"url": url, "headers": {"X\r\nY": "a"}}), "not the name of a header"),
        (json!({"url": url, "headers": {"Host": "other.example"}}), "`host` follows from"),
        (json!({"url": url, "body": "x", "headers": {"Content-Length": "0"}}), "`content-length` follows"),
        (
            json!({"url": url, "body": "x", "headers": {"Transfer-Encoding": "chunked"}}),
            "`transfer-encoding` follows",
        ),
        (json!({"url": url, "headers": {"Proxy-Authorization": "x"}}), "`proxy-authorization` follows"),
        (json!({"url": url, "method": "GET / HTTP/1.1\r\nX: y"}), "is not a method"),
        (json!({"url": url, "method": "CONNECT"}), "`CONNECT`"),
        (json!({"url": url, "body": "x", "json": 1}), "`body` and `json`"),
        (json!({"url": url, "query": {"a": {"b": 1}}}), "neither a text nor a list"),
        (json!({"url": url, "multipart": [{"name": "x"}]}), "needs `value` or `path`"),
        (json!({"url": url, "redirects": "many"}), "`redirects`"),
    ] {
        let (kind, text) = ask(&test_ws, &arguments);
        assert_eq!(kind, "bad_args", "{arguments}: {text}");
        assert!(text.contains(said), "{arguments}: {text}");
    }
    assert_eq!(ask(&test_ws, &json!({"url": url, "upload": "../outside/x"})).0, "denied");
    assert_eq!(ask(&test_ws, &json!({"url": url, "save_to": "../outside/x"})).0, "denied");
    assert!(server.requests().is_empty(), "{:?}", server.requests());
}

#[test]
fn answer_is_shown_by_its_content_type() {
    let server = Hostile::start();
    let test_ws = granting(&[&server]);
    let get = |path: &str| does(&test_ws, &json!({"url": server.url(path)}));
    let json = get("/json");
    assert!(json.starts_with("HTTP 200 OK, 42 bytes, first byte "), "{json}");
    assert!(json.contains("content-type: application/json\netag: \"7\"\n\n{"), "{json}");
    assert!(json.contains("\n\n{\"name\": \"haft\", ") && !json.contains("x-other"), "{json}");
    assert!(
        does(&test_ws, &json!({"url": server.url("/json"), "all_headers": true})).contains("x-other: yes")
    );
    assert!(get("/latin1").ends_with("café crème\n"));
    assert!(get("/binary").ends_with("[image/png, not shown; `save_to` puts it into a file]"));
    assert!(get("/lying-png").ends_with("just some text\n"));
    assert!(get("/lying-text").ends_with("[binary, not shown; `save_to` puts it into a file]"));
    assert!(get("/lying-json").ends_with("not json {"));
    let controls = get("/controls");
    assert!(controls.contains("a\\u{1b}[2Jb\\u{202e}c"), "{controls}");
    let missing = get("/status/503");
    assert!(
        missing.starts_with("HTTP 503 Service Unavailable") && missing.contains("retry-after: 7"),
        "{missing}"
    );
    assert!(missing.contains("\"error\": \"because\""), "{missing}");
    let short = does(&test_ws, &json!({"url": server.url("/text"), "max_bytes": 3}));
    assert!(short.contains("\n\nhel\n[the first 3 bytes of a body of 6 bytes; "), "{short}");
}

#[test]
fn redirects_are_reported_limited_and_can_be_disabled() {
    let server = Hostile::start();
    let test_ws = granting(&[&server]);
    let chain = does(&test_ws, &json!({"url": server.url("/chain/2")}));
    assert!(
        chain.contains(&format!(
            "redirected: 302 {}\nredirected: 302 {}",
            server.url("/chain/2"),
            server.url("/chain/1")
        )),
        "{chain}"
    );
    assert!(
        chain.contains(&format!("url: {}", server.url("/text"))) && chain.ends_with("hello\n"),
        "{chain}"
    );
    for none in [json!(0), json!(false)] {
        let alone = does(&test_ws, &json!({"url": server.url("/chain/2"), "redirects": none}));
        assert!(alone.starts_with("HTTP 302") && alone.contains("location: /chain/1"), "{alone}");
    }
    let (kind, said) = ask(&test_ws, &json!({"url": server.url("/chain/11")}));
    assert!(kind == "failed" && said.contains("more than 10 times"), "{said}");
    let (kind, said) = ask(&test_ws, &json!({"url": server.url("/loop")}));
    assert!(kind == "failed" && said.contains("in a circle"), "{said}");
    // A redirect of what was sent asks for what stands there; 307 sends it again.
    does(&test_ws, &json!({"url": server.url("/302?/echo"), "json": {"a": 1}}));
    assert_eq!((server.last().method.as_str(), server.last().body.len()), ("GET", 0));
    test_ws.put("up", "from a file");
    does(&test_ws, &json!({"url": server.url("/307?/echo"), "upload": "up"}));
    assert_eq!((server.last().method, server.last().text()), ("POST".to_owned(), "from a file".to_owned()));
}

#[test]
fn credentials_are_not_sent_to_another_origin_on_redirect() {
    let (from, to) = (Hostile::start(), Hostile::start());
    let test_ws = granting(&[&from, &to]);
    let url = from.url(&format!("/302?{}", to.url("/echo")));
    let headers =
        json!({"Authorization": "Bearer abc", "Cookie": "a=b", "X-Api-Key": "k", "Accept": "text/plain"});
    does(&test_ws, &json!({"url": url, "headers": headers}));
    assert_eq!(from.last().header("authorization"), Some("Bearer abc"));
    let requested = to.last();
    for name in ["authorization", "cookie", "x-api-key", "referer"] {
        assert_eq!(requested.header(name), None, "{requested:?}");
    }
    assert_eq!(requested.header("accept"), Some("text/plain"));
    // The positive control: in the same place they are sent on.
    does(&test_ws, &json!({"url": from.url("/302?/echo"), "headers": headers}));
    assert_eq!(from.last().header("x-api-key"), Some("k"));
}

#[test]
fn redirected_body_is_not_sent_to_a_host_without_a_grant() {
    let (open, closed) = (Hostile::start(), Hostile::start());
    let test_ws = granting(&[&open]);
    for how in ["307", "308"] {
        let url = open.url(&format!("/{how}?{}", closed.url("/echo")));
        assert_eq!(ask(&test_ws, &json!({"url": url, "body": "private"})).0, "denied");
        // A public host, too, is only read without a question.
        let url = open.url(&format!("/{how}?http://93.184.216.34:1/"));
        let (kind, said) = ask(&test_ws, &json!({"url": url, "body": "private"}));
        assert!(kind == "denied" && said.contains("93.184.216.34:1 was not granted"), "{said}");
    }
    assert_eq!(closed.connections(), 0);
}

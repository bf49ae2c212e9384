//! Signing in, and whoever may ask at all.

use serde_json::{Value, json};

use super::support::{Stage, token};

const JSON: &str = "Content-Type: application/json\r\n";
const OWN: &str = "X-Haft: 1\r\n";

#[test]
fn a_code_is_traded_once_for_a_cookie_that_outlives_the_server() {
    let stage = Stage::new(&[]);
    let served = stage.serve();
    let body = json!({"code": served.code}).to_string();
    let reply = served.raw("POST /api/v1/sign-in", &format!("{JSON}{OWN}"), body.as_bytes());
    assert_eq!(reply.status, 200, "{reply:?}");
    let cookie = reply.header("set-cookie").unwrap();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    let again = served.raw("POST /api/v1/sign-in", &format!("{JSON}{OWN}"), body.as_bytes());
    assert_eq!(again.status, 401, "{again:?}");
    let cookie = format!("Cookie: {}\r\n", cookie.split(';').next().unwrap());
    let info = |cookie: &str| served.raw("GET /api/v1/info", cookie, b"");
    assert_eq!(info(&cookie).status, 200);
    assert_eq!(info("").status, 401);
    assert_eq!(info("Cookie: a=b\r\n").status, 401);
    // A cookie alone is what a form of another page has sent.
    let create = |headers: &str| served.raw("POST /api/v1/sessions", headers, b"{}").status;
    assert_eq!(create(&format!("{cookie}{JSON}")), 403);
    assert_eq!(create(&format!("{cookie}{OWN}Content-Type: text/plain\r\n")), 415);
    assert_eq!(create(&format!("{cookie}{OWN}{JSON}")), 201);
    // The same address, and another process.
    let address = served.address.to_string();
    served.kill();
    let tokens = stage.path("tokens");
    let served = super::support::Served::start(&mut stage.haft(&[
        "--addr",
        &address,
        "--tokens",
        tokens.to_str().unwrap(),
    ]));
    let info = |cookie: &str| served.raw("GET /api/v1/info", cookie, b"").status;
    assert_eq!(info(&cookie), 200);
    let out = served.raw("POST /api/v1/sign-out", &format!("{cookie}{OWN}{JSON}"), b"");
    assert_eq!(out.status, 204, "{out:?}");
    assert_eq!(info(&cookie), 401);
}

#[test]
fn pages_and_names_that_are_not_the_servers_are_refused() {
    let served = Stage::new(&[]).serve();
    let bearer = format!("Authorization: Bearer {}\r\n", token("own"));
    let with = |headers: &str| served.raw("GET /api/v1/info", &format!("{bearer}{headers}"), b"").status;
    assert_eq!(with(""), 200);
    assert_eq!(with(&format!("Origin: http://{}\r\n", served.address)), 200);
    assert_eq!(with("Sec-Fetch-Site: same-origin\r\n"), 200);
    for headers in [
        "Origin: https://evil.example\r\n",
        "Origin: null\r\n",
        // Another port of this machine is the same site, so a browser sends it the cookie.
        "Origin: http://127.0.0.1:1\r\n",
        "Sec-Fetch-Site: same-site\r\n",
        "Sec-Fetch-Site: cross-site\r\n",
    ] {
        assert_eq!(with(headers), 403, "{headers}");
    }
    for host in ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example"] {
        let mut socket = served.connect();
        let head = format!("GET /api/v1/info HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{bearer}\r\n");
        std::io::Write::write_all(&mut socket, head.as_bytes()).unwrap();
        assert_eq!(crate::http::support::rest(&mut socket).status, 403, "{host}");
    }
}

#[test]
fn a_token_in_an_address_is_refused_also_where_it_is_valid() {
    let served = Stage::new(&[]).serve();
    for name in ["token", "access_token", "code", "key"] {
        let line = format!("GET /api/v1/info?{name}={}", token("own"));
        let reply = served.raw(&line, &format!("Authorization: Bearer {}\r\n", token("own")), b"");
        assert_eq!(reply.status, 400, "{reply:?}");
    }
}

#[test]
fn tokens_are_made_for_a_role_and_revoked_with_the_sign_ins_by_them() {
    let served = Stage::new(&[]).serve();
    let made = served.does(201, "POST /api/v1/tokens", &json!({"name": "ci", "role": "view"}));
    let bearer = format!("Authorization: Bearer {}\r\n", made["token"].as_str().unwrap());
    let info = served.raw("GET /api/v1/info", &bearer, b"");
    assert!(info.status == 200 && info.body.contains(r#""role":"view""#), "{info:?}");
    let body = json!({"token": made["token"]}).to_string();
    let reply = served.raw("POST /api/v1/sign-in", &format!("{JSON}{OWN}"), body.as_bytes());
    let cookie = reply.header("set-cookie").unwrap();
    let cookie = format!("Cookie: {}\r\n", cookie.split(';').next().unwrap());
    assert_eq!(served.raw("GET /api/v1/info", &cookie, b"").status, 200);
    let mut streams =
        [&bearer, &cookie].map(|it| served.stream("/api/v1/events", &format!("{it}Connection: close\r\n")));
    let listed = served.get("tokens");
    assert!(!listed.to_string().contains(made["token"].as_str().unwrap()), "{listed}");
    served.does(204, "DELETE /api/v1/tokens/ci", &Value::Null);
    for headers in [&bearer, &cookie] {
        assert_eq!(served.raw("GET /api/v1/info", headers, b"").status, 401);
    }
    // Streams that were open then end.
    for stream in &mut streams {
        while stream.next().is_some() {}
    }
    let code = served.does(200, "POST /api/v1/codes", &json!({"role": "approve", "name": "phone"}));
    let body = json!({"code": code["code"]}).to_string();
    let reply = served.raw("POST /api/v1/sign-in", &format!("{JSON}{OWN}"), body.as_bytes());
    assert!(reply.body.contains(r#""name":"phone","role":"approve""#), "{reply:?}");
}

#[test]
fn other_machines_are_refused_without_a_name_and_tokens() {
    let stage = Stage::new(&[]);
    let ran = stage.haft(&["--addr", "0.0.0.0:0"]).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(!ran.status.success() && said.contains("`--public` and `--tokens` are missing"), "{said}");
    std::fs::write(stage.path("open"), "a own aaaaaaaaaaaaaaaaaaaa\n").unwrap();
    for (file, why) in [("open", "other users of this machine can read it"), ("none", "No such file")] {
        let file = stage.path(file);
        let ran =
            stage.haft(&["--addr", "127.0.0.1:0", "--tokens", file.to_str().unwrap()]).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(!ran.status.success() && said.contains(why), "{said}");
    }
    std::fs::rename(stage.path("tokens"), stage.path("ws/tokens")).unwrap();
    let ran = stage
        .haft(&["--addr", "127.0.0.1:0", "--tokens", stage.path("ws/tokens").to_str().unwrap()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(!ran.status.success() && said.contains("is in the workspace"), "{said}");
    for (line, why) in [
        ("a king aaaaaaaaaaaaaaaaaaaa", "`king` is no role"),
        ("a own short", "must have 16"),
        ("a own", "2 words"),
    ] {
        stage.private("bad", line);
        let file = stage.path("bad");
        let ran =
            stage.haft(&["--addr", "127.0.0.1:0", "--tokens", file.to_str().unwrap()]).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(!ran.status.success() && said.contains(why), "{said}");
    }
}

#[test]
fn the_page_may_load_only_its_own_files_and_run_no_text() {
    let served = Stage::new(&[]).serve();
    for path in ["/", "/s/anything"] {
        let page = served.raw(&format!("GET {path}"), "", b"");
        assert_eq!(page.status, 200, "{page:?}");
        let policy = page.header("content-security-policy").unwrap();
        for part in [
            "default-src 'none'",
            "script-src 'self';",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
        ] {
            assert!(policy.contains(part), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(page.header("x-content-type-options").as_deref(), Some("nosniff"));
        let tag = page.header("etag").unwrap();
        assert_eq!(served.raw(&format!("GET {path}"), &format!("If-None-Match: {tag}\r\n"), b"").status, 304);
    }
    for path in ["/assets/../index.html", "/assets/%2e%2e/Cargo.toml", "/assets/nothing.js", "/assets/", "/x"]
    {
        assert_eq!(served.raw(&format!("GET {path}"), "", b"").status, 404, "{path}");
    }
    let info = served.ask("own", "GET /api/v1/info", &Value::Null);
    assert_eq!(info.header("cache-control").as_deref(), Some("no-store"));
}

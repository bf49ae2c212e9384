//! Signing in, and whoever may ask at all.

use serde_json::{Value, json};

use super::support::{Served, Stage, token};

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
fn owner_lists_sign_ins_and_ends_one() {
    let served = Stage::new(&[]).serve();
    let code = served.does(200, "POST /api/v1/codes", &json!({"role": "say", "name": "phone"}));
    let phone = served.sign_in_with(&json!({"code": code["code"]}));
    let own = served.sign_in();
    served.sign_in_with(&json!({"token": token("view")}));
    let info = |cookie: &str| served.raw("GET /api/v1/info", cookie, b"").status;
    let reply = served.raw("GET /api/v1/sign-ins", &own, b"");
    let listed: Value = serde_json::from_str(&reply.body).unwrap();
    let all = listed["sign_ins"].as_array().unwrap();
    let of = |name: &str| all.iter().find(|it| it["name"] == name).unwrap_or_else(|| panic!("{listed}"));
    assert_eq!(
        (&of("phone")["role"], &of("phone")["by"], &of("phone")["is_own"]),
        (&json!("say"), &json!("code"), &json!(false))
    );
    assert_eq!((&of("owner")["is_own"], &of("viewer")["by"]), (&json!(true), &json!("token")));
    // Nothing listed lets anybody in.
    let secret = phone.trim().rsplit('=').next().unwrap();
    assert!(!listed.to_string().contains(secret), "{listed}");
    for (role, status) in [("view", 403), ("say", 403), ("approve", 403)] {
        assert_eq!(served.ask(role, "GET /api/v1/sign-ins", &Value::Null).status, status, "{role}");
    }
    let mut stream = served.stream("/api/v1/events", &format!("{phone}Connection: close\r\n"));
    let id = of("phone")["id"].as_str().unwrap();
    served.does(204, &format!("DELETE /api/v1/sign-ins/{id}"), &Value::Null);
    assert_eq!((info(&phone), info(&own)), (401, 200));
    while stream.next().is_some() {}
    served.does(404, &format!("DELETE /api/v1/sign-ins/{id}"), &Value::Null);
}

#[test]
fn request_that_is_repeated_with_its_key_makes_one_code_one_token_and_one_share() {
    let stage = Stage::new(&[json!({"say": "Done."})]);
    let served = stage.serve();
    let session = served.begin("go");
    served.watch(&session, 0).until(|row| row.kind() == "turn_ended");
    let post = |served: &super::support::Served, path: &str, key: &str, body: &Value| {
        let bearer = format!("Authorization: Bearer {}\r\n", token("own"));
        let headers = format!("{bearer}{JSON}Idempotency-Key: {key}\r\n");
        let reply = served.raw(&format!("POST /api/v1/{path}"), &headers, body.to_string().as_bytes());
        (reply.status, serde_json::from_str::<Value>(&reply.body).unwrap())
    };
    let bodies = [
        ("tokens", json!({"name": "ci", "role": "view"}), json!({"name": "ci", "role": "own"})),
        ("codes", json!({"role": "view"}), json!({"role": "own"})),
        ("shares", json!({"session": session}), json!({"session": session, "hours": 1})),
    ];
    let mut shared = Value::Null;
    for (path, body, other) in &bodies {
        let (status, first) = post(&served, path, "once", body);
        assert!([200, 201].contains(&status), "{path}: {first}");
        assert_eq!(post(&served, path, "once", body), (status, first.clone()), "{path}");
        let (status, refused) = post(&served, path, "once", other);
        assert!(status == 400 && refused.to_string().contains("another request"), "{path}: {refused}");
        if *path != "tokens" {
            assert_ne!(post(&served, path, "twice", body).1, first, "{path}");
        }
        shared = first;
    }
    assert_eq!(
        served.get("tokens")["tokens"].as_array().unwrap().iter().filter(|it| it["name"] == "ci").count(),
        1
    );
    // That of a share outlives the server.
    let address = served.address.to_string();
    served.kill();
    let tokens = stage.path("tokens");
    let arguments = ["--addr", &address, "--tokens", tokens.to_str().unwrap()];
    let served = super::support::Served::start(&mut stage.haft(&arguments));
    let (status, again) = post(&served, "shares", "once", &json!({"session": session}));
    assert_eq!((status, again), (201, shared));
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
fn readiness_and_metrics_need_a_token_where_others_reach_the_server() {
    let stage = Stage::new(&[]);
    let status =
        |served: &Served, path: &str, headers: &str| served.raw(&format!("GET {path}"), headers, b"").status;
    let served = stage.serve();
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(status(&served, path, ""), 200, "{path} on loopback");
    }
    served.kill();
    let served = stage.serve_with(&["--public", "https://haft.example.org"]);
    let bearer = format!("Authorization: Bearer {}\r\n", token("view"));
    for path in ["/readyz", "/metrics"] {
        assert_eq!(status(&served, path, ""), 401, "{path}");
        assert_eq!(
            status(&served, path, "Authorization: Bearer token-of-nobody-0123456789\r\n"),
            401,
            "{path}"
        );
        assert_eq!(status(&served, path, &bearer), 200, "{path} with a token");
    }
    assert_eq!(status(&served, "/healthz", ""), 200);
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

#[test]
fn token_that_was_revoked_is_not_given_again_for_its_key() {
    let served = Stage::new(&[]).serve();
    let make = |key: &str| {
        let headers = format!("Authorization: Bearer {}\r\n{JSON}Idempotency-Key: {key}\r\n", token("own"));
        served.raw("POST /api/v1/tokens", &headers, br#"{"name": "ci", "role": "say"}"#)
    };
    let made = make("one");
    assert_eq!((made.status, &make("one").body), (201, &made.body));
    served.does(204, "DELETE /api/v1/tokens/ci", &Value::Null);
    let again = make("one");
    assert!(again.status == 410 && again.body.contains("revoked"), "{again:?}");
    assert!(!again.body.contains("\"token\""), "{again:?}");
    let other = make("two");
    assert!(other.status == 201 && other.body != made.body, "{other:?}");
    assert_eq!(make("one").status, 410, "another token of the name is not the one that was made");
}

#[test]
fn title_that_is_given_at_creation_is_listed_before_the_first_prompt() {
    let stage = Stage::new(&[]);
    let served = stage.serve();
    let made = served.does(201, "POST /api/v1/sessions", &json!({"title": "The parser"}));
    assert_eq!(made["title"], "The parser");
    let id = made["id"].as_str().unwrap();
    assert_eq!(served.get(&format!("sessions/{id}"))["title"], "The parser");
    assert_eq!(served.get("sessions")["sessions"][0]["title"], "The parser");
    let patched = served.does(200, &format!("PATCH /api/v1/sessions/{id}"), &json!({"title": "The lexer"}));
    assert_eq!(patched["title"], "The lexer");
}

#[test]
fn the_page_is_sent_compressed_to_whoever_takes_that() {
    let served = Stage::new(&[]).serve();
    let page = served.raw("GET /", "", b"");
    // Modules import each other without a hash, so their addresses in the page have none either.
    assert!(
        page.body.contains("href=\"/assets/style.css?v=") && page.body.contains("src=/assets/app.js>"),
        "{}",
        page.body
    );
    for path in ["/", "/assets/app.js", "/assets/style.css"] {
        let get = |headers: &str| served.raw(&format!("GET {path}"), headers, b"");
        let length =
            |it: &crate::http::support::Reply| it.header("content-length").unwrap().parse::<usize>().unwrap();
        let (plain, gzip) = (get(""), get("Accept-Encoding: br, gzip\r\n"));
        assert_eq!((plain.status, gzip.status), (200, 200), "{path}");
        assert_eq!(plain.header("content-encoding"), None);
        assert_eq!(gzip.header("content-encoding").as_deref(), Some("gzip"));
        assert!(length(&gzip) < length(&plain), "{path}: {} of {}", length(&gzip), length(&plain));
        for reply in [&plain, &gzip] {
            assert_eq!(reply.header("vary").as_deref(), Some("Accept-Encoding"));
        }
        // Other bytes have another tag, and each is known by its own.
        let tags = [&plain, &gzip].map(|it| it.header("etag").unwrap());
        assert_ne!(tags[0], tags[1]);
        let status = |tag: &str, more: &str| get(&format!("If-None-Match: {tag}\r\n{more}")).status;
        assert_eq!(status(&tags[0], ""), 304);
        assert_eq!(status(&tags[1], "Accept-Encoding: gzip\r\n"), 304);
        assert_eq!(status(&tags[1], ""), 200);
        assert_eq!(status(&tags[0], "Accept-Encoding: gzip;q=0\r\n"), 304);
    }
}

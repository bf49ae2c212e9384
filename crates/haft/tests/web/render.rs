//! Pages in a real browser: their scripts run and reach nothing that was not granted.

use std::{net::TcpListener, time::Duration};

use serde_json::{Value, json};

use super::{
    Site,
    site::{Asked, ok, status},
    test_ws,
};
use crate::support::{Called, TestWorkspace};

/// Returns the width and height of a shown picture, decoded.
fn size_of_png(called: &Value) -> (u32, u32) {
    let part = called["content"].as_array().unwrap().iter().find(|it| it["type"] == "image").unwrap();
    assert_eq!(part["mimeType"].as_str().or(part["mime"].as_str()), Some("image/png"), "{part}");
    let data = kit::base64::decoded(part["data"].as_str().unwrap()).unwrap();
    assert_eq!(&data[..8], b"\x89PNG\r\n\x1a\n");
    let number = |at: usize| u32::from_be_bytes(data[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

fn render(test_ws: &TestWorkspace, url: &str) -> Called {
    test_ws.call("web_fetch", &json!({"url": url, "render": true}))
}

#[test]
fn content_written_and_fetched_by_scripts_is_read() {
    kit::needs!(Chromium);
    let site = Site::new(|asked: &Asked| match asked.path.as_str() {
        "/data.json" => ok("application/json", r#"{"says": "fetched later"}"#),
        "/moved" => status(302, "text/html", "").with("Location", "/"),
        "/gone" => status(404, "text/html", "<p>Nothing <script>document.write('here')</script>"),
        "/file.json" => ok("application/json", "{\"a\": 1}"),
        "/js-moved" => ok("text/html", "<script>location.href = '/'</script>"),
        _ => ok(
            "text/html; charset=utf-8",
            "<title>App</title><style>.no{display:none}</style><main id=m><p>before</p></main><noscript>turn it on</noscript>\
             <script>\
             m.innerHTML = '<h1>Made by a script: é</h1><p class=no>INJECTED</p><details><summary>More</summary><p>folded</p></details>'\
                 + '<table><tr><th>a<th>b<tr><td>1<td>2</table><div id=host></div>';\
             host.attachShadow({mode: 'open'}).innerHTML = '<p>in the shadow</p>';\
             alert('are you there?');\
             fetch('/data.json').then(it => it.json()).then(it => m.insertAdjacentHTML('beforeend', `<p>${it.says}</p>`));\
             </script>",
        ),
    });
    let test_ws = test_ws(&[&site], "");
    for path in ["/", "/moved", "/js-moved"] {
        let text = render(&test_ws, &site.url(path)).must("ok").text();
        for it in [
            "# App\n",
            "# Made by a script: é",
            "folded",
            "fetched later",
            "in the shadow",
            "| a | b |\n| --- | --- |\n| 1 | 2 |",
        ] {
            assert!(text.contains(it), "{path} lacks {it}: {text}");
        }
        assert!(
            !text.contains("INJECTED") && !text.contains("before") && !text.contains("turn it on"),
            "{path}: {text}"
        );
        assert!(text.contains(&format!("{}\n", site.url("/"))), "{path}: {text}");
    }
    let gone = render(&test_ws, &site.url("/gone")).must("not_found").text();
    assert!(gone.contains("404 Not Found: Nothing here"), "{gone}");
    let file = render(&test_ws, &site.url("/file.json")).must("ok").text();
    assert!(
        file.contains("it is application/json and no page, so nothing was rendered")
            && file.contains("\"a\": 1"),
        "{file}"
    );
}

#[test]
fn screenshot_is_returned_on_request() {
    kit::needs!(Chromium);
    let site = Site::of("text/html", "<title>T</title><body style='background:#0a0'><h1>Green</h1>");
    let test_ws = test_ws(&[&site], "");
    let arguments = json!({"url": site.url("/"), "screenshot": true}).to_string();
    let ran = test_ws.run(&["call", "--json", "web_fetch", &arguments]);
    let called: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(called["ok"], true, "{ran:?}");
    assert!(called["content"][0]["text"].as_str().unwrap().contains("Green"), "{ran:?}");
    assert_eq!(size_of_png(&called), (1280, 1024));
}

#[test]
fn page_scripts_reach_no_private_address_without_a_grant() {
    kit::needs!(Chromium);
    let other = Site::of("text/html", "<p>of the person alone");
    let quiet = TcpListener::bind("127.0.0.1:0").unwrap();
    quiet.set_nonblocking(true).unwrap();
    let (port, quiet_port) =
        (other.host().split(':').nth(1).unwrap().to_owned(), quiet.local_addr().unwrap().port());
    let site = Site::new(move |asked: &Asked| match asked.path.as_str() {
        "/hop" => status(302, "text/html", "").with("Location", &format!("http://127.0.0.1:{port}/hop")),
        "/away" => ok(
            "text/html",
            format!("<script>location.href = 'http://localhost:{port}/away'</script><p>stays"),
        ),
        "/to" => status(302, "text/html", "").with("Location", &format!("http://127.0.0.1:{port}/to")),
        _ => ok(
            "text/html",
            format!(
                "<p id=p>none</p><img src='http://127.0.0.1:{port}/img'><iframe src='http://localhost:{port}/frame'></iframe>\
                 <script src='http://[::1]:{port}/script'></script><link rel=stylesheet href='/hop'>\
                 <script>\
                 const all = ['http://127.0.0.1:{port}/fetch', 'http://localhost:{quiet_port}/', 'http://169.254.169.254/latest/meta-data/',\
                     'http://10.0.0.1/', 'http://192.168.0.1/', 'http://0.0.0.0:{port}/', 'http://2130706433:{port}/', '/hop', 'file:///etc/passwd'];\
                 let left = all.length, got = 0;\
                 for (const it of all) fetch(it, {{mode: 'no-cors'}}).then(r => r.text()).then(t => {{ if (t.includes('person') || t.includes('root:')) got++ }})\
                     .catch(() => 0).finally(() => {{ if (!--left) p.textContent = `asked all, got ${{got}}` }});\
                 new WebSocket('ws://127.0.0.1:{quiet_port}/');\
                 try {{ new RTCPeerConnection({{iceServers: [{{urls: 'stun:127.0.0.1:{quiet_port}'}}]}}).createDataChannel('x') }} catch (_) {{}}\
                 navigator.sendBeacon('http://127.0.0.1:{port}/beacon', 'x');\
                 </script>"
            ),
        ),
    });
    let test_ws = test_ws(&[&site], "");
    let text = render(&test_ws, &site.url("/")).must("ok").text();
    assert!(text.contains("asked all, got 0"), "{text}");
    for path in ["/away", "/to"] {
        let called = render(&test_ws, &site.url(path));
        assert!(!called.text().contains("of the person alone"), "{path}: {}", called.text());
        assert!(called.kind() != "ok" || !called.text().contains("stays"), "{path}: {}", called.text());
    }
    assert!(other.asked().is_empty(), "{:?}", other.asked());
    assert!(quiet.accept().is_err(), "somebody came");
    // The person's grant for haft does not apply to the scripts of another page.
    let both = super::test_ws(&[&site, &other], "");
    let text = render(&both, &site.url("/")).must("ok").text();
    assert!(text.contains("asked all, got 0"), "{text}");
    assert!(other.asked().is_empty(), "{:?}", other.asked());
    // The positive control: something answers there, and a page that is asked for itself is shown.
    assert!(render(&both, &other.url("/")).must("ok").text().contains("of the person alone"));
}

#[test]
fn browser_leaves_no_process_and_no_files() {
    kit::needs!(Chromium);
    let site = Site::of("text/html", "<title>T</title><p>x");
    let test_ws = test_ws(&[&site], "");
    render(&test_ws, &site.url("/")).must("ok");
    let seen = test_ws.call("shell", &json!({"command": "ps aux | grep -c [h]aft-browser"})).text();
    assert!(seen.starts_with('0'), "{seen}");
    assert!(!test_ws.at("haft-browser").exists());
}

#[test]
fn page_with_an_endless_script_times_out() {
    kit::needs!(Chromium);
    let site =
        Site::of("text/html", "<p>x</p><script>onload = () => setTimeout(() => { for (;;); }, 0)</script>");
    let test_ws = test_ws(&[&site], "");
    let began = std::time::Instant::now();
    let fault = render(&test_ws, &site.url("/")).must("timeout").text();
    assert!(fault.contains("keep the browser busy") || fault.contains("sent nothing"), "{fault}");
    assert!(began.elapsed() < Duration::from_secs(90));
}

#[test]
fn missing_browser_says_what_to_install() {
    kit::needs!(Chromium);
    let site = Site::of("text/html", "<p>x");
    let missing = test_ws(&[&site], "[programs]\nchromium = \"/nowhere/chromium\"\n");
    let fault = render(&missing, &site.url("/")).must("unavailable").text();
    for it in
        ["there is no Chromium at `/nowhere/chromium`", "apt install chromium", "`chromium` in `[programs]`"]
    {
        assert!(fault.contains(it), "{fault}");
    }
    let broken = test_ws(&[&site], "[programs]\nchromium = \"/bin/false\"\n");
    let fault = render(&broken, &site.url("/")).must("failed").text();
    assert!(fault.contains("the browser ended before the page was there"), "{fault}");
    assert!(site.asked().is_empty());
}

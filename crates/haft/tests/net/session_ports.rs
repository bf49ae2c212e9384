//! Servers that commands of a session start: its web tools and its commands reach them without a grant, and the machine's
//! own loopback stays closed, on the very same port.

use std::{fs, net::TcpListener};

use serde_json::{Value, json};

use super::{
    hostile::Hostile,
    namespace::{PUBLIC, far_away, inside},
};
use crate::{
    support::{Server, TestWorkspace},
    web::site::{Asked, Site, ok},
};

/// The output of a command that found no server.
const NOBODY: &str = "nobody there";

/// A workspace with a haft that serves, and a background job that listens at a port at which the machine listens too.
struct Session {
    test_ws: TestWorkspace,
    haft: Server,
    machine: Hostile,
}

impl Session {
    /// Starts a job that listens at this address of its own loopback.
    fn listening_at(host: &str, options: &[&str], config: &str) -> Self {
        let session = Self::without_server(options, config);
        session.serve_at(host);
        session
    }

    fn without_server(options: &[&str], config: &str) -> Self {
        let (test_ws, haft) = Self::test_ws(options, config);
        Self { test_ws, haft, machine: Hostile::start() }
    }

    fn test_ws(options: &[&str], config: &str) -> (TestWorkspace, Server) {
        let test_ws = TestWorkspace::new();
        fs::create_dir_all(test_ws.config()).unwrap();
        fs::write(test_ws.config().join("haft.toml"), config).unwrap();
        test_ws.put("serve.py", include_str!("session_ports/serve.py"));
        let haft = test_ws.serve_with(options);
        (test_ws, haft)
    }

    fn serve_at(&self, host: &str) {
        serve(&self.test_ws, &self.haft, host, self.machine.port());
    }

    fn stop_serving(&self) {
        let stop = json!({"command": "pkill -f [s]erve.py; while pgrep -f [s]erve.py; do sleep 0.05; done"});
        self.haft.call("shell", &stop);
    }

    /// Returns an address at the port that both listen at.
    fn url(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}{path}", self.machine.port())
    }

    fn request(&self, arguments: &Value) -> String {
        self.haft.does("http_request", arguments)
    }

    /// Returns the error of a request that is denied.
    #[track_caller]
    fn denied(&self, tool: &str, url: &str) -> String {
        let said = self.haft.call(tool, &json!({"url": url}));
        assert!(said.is_error, "{tool} {url}: {}", said.text);
        said.text
    }

    fn asked(&self) -> String {
        fs::read_to_string(self.test_ws.at("asked")).unwrap_or_default()
    }
}

/// Starts a job that listens, and waits until it does.
fn serve(test_ws: &TestWorkspace, haft: &Server, host: &str, port: u16) {
    let command = format!("/usr/bin/python3 serve.py {host} {port}");
    haft.does("shell", &json!({"command": command, "run_in_background": true}));
    let waited = haft.does("shell", &json!({"command": "while [ ! -e ready ]; do sleep 0.05; done"}));
    assert!(test_ws.at("ready").exists(), "{waited}");
}

#[test]
fn server_of_a_background_job_is_reached_by_web_tools_and_commands_without_a_grant() {
    kit::needs!(SystemPython, Curl);
    for (listens, hosts) in [
        ("127.0.0.1", &["127.0.0.1", "localhost"][..]),
        ("::1", &["[::1]", "localhost"][..]),
        ("0.0.0.0", &["127.0.0.1", "localhost", "0.0.0.0"][..]),
        ("::", &["127.0.0.1", "[::1]", "localhost"][..]),
    ] {
        let options = if listens == "::1" { &["--approve", "auto"][..] } else { &[] };
        let session = Session::listening_at(listens, options, "");
        for host in hosts {
            let url = session.url(host, "/");
            let got = session.request(&json!({"url": url}));
            assert!(got.contains("200 OK") && got.contains("of the session"), "{listens} {host}: {got}");
            let sent = session.request(&json!({"url": url, "json": {"a": 1}}));
            assert!(sent.contains("got {\"a\":1}"), "{listens} {host}: {sent}");
            let page = session.haft.does("web_fetch", &json!({"url": url}));
            assert!(page.contains("# Dev") && page.contains("of the session"), "{listens} {host}: {page}");
            let moved = session.request(&json!({"url": session.url(host, "/302?/data")}));
            assert!(moved.contains("data of the session"), "{listens} {host}: {moved}");
            // Another command, directly and by the proxy.
            for proxy in ["", "--noproxy '' "] {
                let command = format!("curl -sS {proxy}'{url}'");
                let said = session.haft.does("shell", &json!({"command": command}));
                assert!(said.contains("of the session"), "{listens} {host}: {command}: {said}");
            }
            let said = session.haft.does("bash", &json!({"command": format!("curl -sS '{url}'")}));
            assert!(said.contains("of the session"), "{listens} {host}: {said}");
        }
        assert!(session.asked().contains(&format!("GET / {}:{}", hosts[0], session.machine.port())));
        assert_eq!(session.machine.connections(), 0, "{listens}: the machine's own port was connected to");
    }
}

#[test]
fn page_of_the_session_is_rendered_with_what_its_scripts_fetch() {
    kit::needs!(SystemPython, Chromium);
    let session = Session::listening_at("127.0.0.1", &[], "");
    for host in ["127.0.0.1", "localhost"] {
        let arguments = json!({"url": session.url(host, "/"), "render": true});
        let page = session.haft.does("web_fetch", &arguments);
        assert!(page.contains("of the session"), "{page}");
        assert!(page.contains("script got data of the session"), "{page}");
    }
    assert_eq!(session.machine.connections(), 0);
}

#[test]
fn port_of_the_machine_stays_closed_where_no_process_of_the_session_listens() {
    kit::needs!(SystemPython, Curl, Procps);
    for options in [&[][..], &["--approve", "auto"]] {
        let session = Session::without_server(options, "");
        let url = session.url("127.0.0.1", "/text");
        // Other processes in the sandbox, and other ports, make no difference.
        session.haft.does("shell", &json!({"command": "true"}));
        for tool in ["http_request", "web_fetch"] {
            let said = session.denied(tool, &url);
            assert!(said.contains("private_net"), "{said}");
            assert!(said.contains("No process of this session listens there now"), "{said}");
        }
        session.serve_at("127.0.0.1");
        assert!(session.request(&json!({"url": url})).contains("of the session"));
        // Only the address at which it listens is reached, and only while it does.
        session.denied("http_request", &session.url("[::1]", "/"));
        session.denied("http_request", &session.url("127.0.0.2", "/"));
        session.stop_serving();
        session.denied("http_request", &url);
        session.denied("web_fetch", &url);
        let said =
            session.haft.does("shell", &json!({"command": format!("curl -sS '{url}' || echo {NOBODY}")}));
        assert!(said.contains(NOBODY), "{said}");
        assert_eq!(session.machine.connections(), 0, "{options:?}");
        // The positive control: it does listen.
        std::net::TcpStream::connect(session.machine.host()).unwrap();
    }
}

#[test]
fn redirect_from_elsewhere_to_a_port_of_the_session_is_not_followed() {
    kit::needs!(SystemPython);
    let elsewhere = Hostile::start();
    let config = format!("[net]\nallow = [\"{}\"]\n", elsewhere.host());
    let session = Session::listening_at("127.0.0.1", &["--approve", "auto"], &config);
    let own = session.url("127.0.0.1", "/data");
    for tool in ["http_request", "web_fetch"] {
        let said = session.denied(tool, &elsewhere.url(&format!("/302?{own}")));
        assert!(said.contains("redirects to"), "{said}");
        // Nor does the session's own server lead there and back, or to a port of the machine.
        let back = session.url("127.0.0.1", &format!("/302?{}", elsewhere.url(&format!("/302?{own}"))));
        session.denied(tool, &back);
        let closed = Hostile::start();
        session.denied(tool, &session.url("127.0.0.1", &format!("/302?{}", closed.url("/text"))));
        assert_eq!(closed.connections(), 0);
    }
    assert!(!session.asked().contains("GET /data"), "{}", session.asked());
    // The positive control.
    assert!(session.request(&json!({"url": own})).contains("data of the session"));
    assert_eq!(session.machine.connections(), 0);
}

#[test]
fn page_from_elsewhere_reaches_no_port_of_the_session() {
    kit::needs!(SystemPython, Chromium);
    let site = Site::new(|asked: &Asked| {
        let port = asked.path.trim_start_matches('/');
        ok(
            "text/html",
            format!(
                "<p id=p>none</p><iframe src='http://localhost:{port}/data'></iframe><script>\
                 fetch('http://127.0.0.1:{port}/data', {{mode: 'no-cors'}}).catch(() => 0).finally(() => p.textContent = 'asked it')\
                 </script>"
            ),
        )
    });
    let config = format!("[net]\nallow = [\"{}\"]\n", site.host());
    let session = Session::listening_at("127.0.0.1", &[], &config);
    let url = site.url(&format!("/{}", session.machine.port()));
    let page = session.haft.does("web_fetch", &json!({"url": url, "render": true}));
    assert!(page.contains("asked it"), "{page}");
    assert_eq!(session.asked(), "");
    assert_eq!(session.machine.connections(), 0);
}

#[test]
fn secret_of_the_machine_s_server_is_not_sent_to_a_process_of_the_session() {
    kit::needs!(SystemPython, Procps);
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let place = format!("127.0.0.1:{port}");
    let config =
        format!("[net]\nallow = [\"{place}\"]\n[secret.key]\nenv = \"HOME\"\nhosts = [\"{place}\"]\n");
    let (test_ws, haft) = Session::test_ws(&[], &config);
    // The machine's own server begins later, or its port would be taken in the sandbox.
    serve(&test_ws, &haft, "127.0.0.1", port);
    let session = Session { test_ws, haft, machine: Hostile::listen(&place) };
    let url = session.url("127.0.0.1", "/text");
    let with_secret = json!({"url": url, "headers": {"X-Key": "{{secret:key}}"}});
    let said = session.haft.call("http_request", &with_secret);
    assert!(said.is_error && said.text.contains("has a secret in it; nothing was sent"), "{}", said.text);
    assert_eq!((session.asked().as_str(), session.machine.connections()), ("", 0));
    // The positive control: the machine's own server is sent it, once no process of the session listens there.
    session.stop_serving();
    assert!(session.request(&with_secret).contains("200"));
    assert_eq!(session.machine.connections(), 1);
}

#[test]
fn server_of_the_session_leads_no_request_to_an_address_that_the_model_composed() {
    kit::needs!(Ip, SystemPython);
    inside(
        "net::session_ports::server_of_the_session_leads_no_request_to_an_address_that_the_model_composed",
        || {
            let far = Hostile::on(far_away(8080));
            let composed = format!("http://{PUBLIC}:8080/text?what-it-read");
            for web in ["known", "public"] {
                let session = Session::listening_at("127.0.0.1", &[], &format!("[net]\nweb = \"{web}\"\n"));
                let redirect = json!({"url": session.url("127.0.0.1", &format!("/302?{composed}"))});
                let links = json!({"url": session.url("127.0.0.1", &format!("/links?{composed}"))});
                assert!(session.haft.does("web_fetch", &links).contains("what-it-read"));
                let ends = [
                    session.haft.call("http_request", &redirect),
                    session.haft.call("web_fetch", &redirect),
                    // A page that the model wrote itself names no address.
                    session.haft.call("web_fetch", &json!({"url": composed})),
                ];
                for end in ends {
                    assert_eq!(end.is_error, web == "known", "{web}: {}", end.text);
                }
                // The positive control: where all that is public is open, it is reached.
                assert_eq!(far.connections() > 0, web == "public");
            }
        },
    );
}

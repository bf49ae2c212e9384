//! Hosts that a call may contact: by configuration, grant and approval.

use std::{
    future::Future,
    io::{Read as _, Write as _},
    net::TcpListener,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use kit::{
    Fault,
    effect::Scope,
    erase,
    net::{Request as Asked, Url},
    prelude::*,
    redact::Secrets,
};
use policy::{Approve, Policy, Web};
use runtime::{Approver, Call, Request, Runtime, Session, Settings, Unattended, Verdict};
use sandbox::SandboxMode;
use serde_json::json;

/// A tool that requests an address with the declared touches.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Ask {
    /// The declared touches: `web HOST`, `net HOST`, several with commas between.
    claims: String,
    /// The requested address.
    url: String,
    /// The file that it declares to write.
    #[serde(default)]
    path: Option<String>,
}

impl Tool for Ask {
    const NAME: &str = "ask";

    fn touches(&self) -> Touches {
        let claims = self.claims.split(',').filter_map(|it| it.trim().split_once(' '));
        let touches = claims.fold(Touches::none(), |touches, (kind, host)| {
            let host = host.to_owned();
            touches.and(if kind == "web" { Touch::Web(host) } else { Touch::Net(host) })
        });
        self.path.iter().fold(touches, |it, path| it.and(Touch::Write(path.clone())))
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let mut answer = cx.net().send(Asked::get(Url::parse(&self.url).unwrap())).await?;
        Ok(Output::text(String::from_utf8_lossy(&answer.bytes(1000).await?)))
    }
}

/// A person who always gives this verdict, and counts the questions.
struct Says(Verdict, Arc<AtomicUsize>);

impl Approver for Says {
    fn approve(&self, _: Request) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>> {
        self.1.fetch_add(1, Ordering::AcqRel);
        let verdict = self.0.clone();
        Box::pin(async move { verdict })
    }
}

/// Starts a server on loopback that counts connections.
fn listen() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, count) = (listener.local_addr().unwrap().port(), Arc::<AtomicUsize>::default());
    let of_thread = count.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            of_thread.fetch_add(1, Ordering::AcqRel);
            // The connection is counted, even if the client closes it.
            let _ = stream.read(&mut [0; 4096]);
            let _ =
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello");
        }
    });
    (port, count)
}

struct Fixture {
    _dir: tempfile::TempDir,
    session: Session,
}

fn fixture(policy: Policy, approver: Arc<dyn Approver>) -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("ws")).unwrap();
    let settings = Settings {
        network: Default::default(),
        tool_files: Default::default(),
        workspace: dir.path().join("ws"),
        roots: Vec::new(),
        state: dir.path().join("state"),
        config: dir.path().join("config"),
        policy: Policy { workspace: dir.path().join("ws").into(), ..policy },
        other_names: kit::files::OtherNames::Refuse,
        allowed: None,
        deadline: Duration::from_secs(60),
        secrets: Secrets::none(),
        commands: runtime::Commands::default(),
    };
    let session = Runtime::open(settings, vec![erase::<Ask>()]).unwrap().session(None, "test", approver);
    Fixture { _dir: dir, session }
}

impl Fixture {
    /// Returns `ok`, or the kind and text of the fault.
    async fn ask(&self, claims: &str, url: &str) -> String {
        self.ask_and_write(claims, url, None).await
    }

    async fn ask_and_write(&self, claims: &str, url: &str, path: Option<&str>) -> String {
        let call = Call::new("ask", json!({"claims": claims, "url": url, "path": path}));
        match self.session.call(call).await.result {
            Ok(_) => "ok".to_owned(),
            Err(fault) => format!("{}: {}", fault.kind, fault.as_text()),
        }
    }
}

#[tokio::test]
async fn loopback_is_reached_only_with_a_persons_approval() {
    let (port, connections) = listen();
    let (claim, url) = (format!("web 127.0.0.1:{port}"), format!("http://127.0.0.1:{port}/"));
    let hosts = |hosts: &[String]| Policy { hosts: hosts.to_vec().into(), ..Policy::default() };
    let without_port = ["127.0.0.1".to_owned(), "*".to_owned(), "127.0.0.1:1".to_owned()];
    for policy in [
        Policy::default(),
        Policy { approve: Approve::Auto, ..Policy::default() },
        Policy { approve: Approve::Auto, sandbox: SandboxMode::Full, ..Policy::default() },
        Policy { web: Some(Web::Ask), approve: Approve::Auto, ..Policy::default() },
        hosts(&without_port),
        Policy { approve: Approve::Auto, ..hosts(&without_port) },
    ] {
        let fixture = fixture(policy.clone(), Arc::new(Unattended));
        for claim in [&claim, &format!("net 127.0.0.1:{port}"), "web example.org", "net *"] {
            let said = fixture.ask(claim, &url).await;
            assert!(said.starts_with("denied"), "{policy:?} {claim}: {said}");
            assert!(said.contains('\n'), "it names no next step: {said}");
        }
    }
    assert_eq!(connections.load(Ordering::Acquire), 0);
    let asked = Arc::<AtomicUsize>::default();
    let yes = |scope| Arc::new(Says(Verdict::Yes(scope), asked.clone()));
    let once = fixture(Policy::default(), yes(Scope::Once));
    assert_eq!(once.ask(&claim, &url).await, "ok");
    assert_eq!(once.ask(&claim, &url).await, "ok");
    assert_eq!(asked.load(Ordering::Acquire), 2, "once is once");
    let session = fixture(Policy::default(), yes(Scope::Session));
    assert_eq!(session.ask(&claim, &url).await, "ok");
    assert_eq!(session.ask(&claim, &url).await, "ok");
    assert_eq!(asked.load(Ordering::Acquire), 3, "a session's grant is kept");
    let configured = fixture(hosts(&[format!("127.0.0.1:{port}")]), Arc::new(Unattended));
    assert_eq!(configured.ask(&claim, &url).await, "ok");
}

#[tokio::test]
async fn approval_of_one_thing_does_not_cover_another() {
    let (port, connections) = listen();
    let asked = Arc::<AtomicUsize>::default();
    let fixture = fixture(Policy::default(), Arc::new(Says(Verdict::Yes(Scope::Once), asked.clone())));
    // The person approved the file, and was not informed that the name leads to this machine.
    let url = format!("http://127.0.0.1:{port}/");
    let said = fixture.ask_and_write(&format!("web example.org:{port}"), &url, Some(".envrc")).await;
    assert!(said.starts_with("denied"), "{said}");
    assert_eq!((asked.load(Ordering::Acquire), connections.load(Ordering::Acquire)), (1, 0));
}

#[tokio::test]
async fn public_web_is_readable_unless_configured_otherwise() {
    let url = "http://93.184.216.34:1/";
    let policy = |web| Policy { web: Some(web), ..Policy::default() };
    for (web, says) in [(Web::None, "rule `web`"), (Web::Ask, "rule `net`")] {
        let fixture = fixture(policy(web), Arc::new(Unattended));
        let said = fixture.ask("web 93.184.216.34:1", url).await;
        assert!(said.starts_with("denied") && said.contains(says), "{web:?}: {said}");
    }
    let auto = fixture(Policy { approve: Approve::Auto, ..policy(Web::None) }, Arc::new(Unattended));
    assert!(auto.ask("web 93.184.216.34:1", url).await.contains("rule `web`"));
    // Sending to a host needs approval, however open the web is.
    let open = fixture(Policy::default(), Arc::new(Unattended));
    assert!(open.ask("net 93.184.216.34:1", url).await.contains("rule `net`"));
    // A call that declares one host can't contact another, and one that declares none can't contact any.
    let auto = fixture(Policy { approve: Approve::Auto, ..Policy::default() }, Arc::new(Unattended));
    assert!(auto.ask("net example.org", url).await.contains("was not granted to this call"));
    assert!(auto.ask("", url).await.contains("was not granted to this call"));
    assert!(open.ask("web not a host", url).await.starts_with("bad_args"));
}

#[tokio::test]
async fn standing_web_grant_does_not_imply_net() {
    let (port, _) = listen();
    let asked = Arc::<AtomicUsize>::default();
    let says = Says(Verdict::Yes(kit::effect::Scope::Session), asked.clone());
    let fixture = fixture(Policy::default(), Arc::new(says));
    let (host, url) = (format!("127.0.0.1:{port}"), format!("http://127.0.0.1:{port}/"));
    for (claim, times) in [("web", 1), ("web", 1), ("net", 2), ("net", 2), ("web", 2)] {
        assert_eq!(fixture.ask(&format!("{claim} {host}"), &url).await, "ok");
        assert_eq!(asked.load(Ordering::Acquire), times, "{claim}");
    }
}

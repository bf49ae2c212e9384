//! Tests: haft connects to the address that it checked, each time.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::{
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::{
    Allowed, Body, Connector, Form, Lookup, Method, Net, Reach, Request, Url,
    connector::{Unreached, Way},
    only_looks,
    request::for_others,
};
use crate::{Kind, services::Soon};

/// A lookup without a name server.
struct Offline;

impl Lookup for Offline {
    fn lookup<'a>(&'a self, _: &'a str, _: u16) -> Soon<'a, io::Result<Vec<SocketAddr>>> {
        let says = "failed to lookup address information: Temporary failure in name resolution";
        Box::pin(std::future::ready(Err(io::Error::other(says))))
    }
}

#[tokio::test]
async fn faults_distinguish_no_network_unknown_names_and_servers_without_tls() {
    let offline = Net::new(Arc::new(Connector::new(Arc::new(Offline), None)), Allowed::default().and_web());
    let fault = offline.send(get("https://a.test/")).await.err().unwrap();
    assert!(format!("{fault:?}").contains("There may be no network here"), "{fault}");
    let unknown = Net::new(Arc::new(Connector::new(Script::new(&[&[]]), None)), Allowed::default().and_web());
    let fault = unknown.send(get("https://a.test/")).await.err().unwrap();
    assert_eq!(fault.what, "unknown host name: a.test");
    assert!(!format!("{fault:?}").contains("no network"), "{fault}");
    let (port, _) = listen("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let connector = Arc::new(Connector::new(Script::new(&[&[OWN]]), None));
    let net = Net::new(connector, Allowed::default().and(&format!("127.0.0.1:{port}")));
    let fault = net.send(get(&format!("https://127.0.0.1:{port}/"))).await.err().unwrap();
    assert!(format!("{fault:?}").contains(&format!("Try http://127.0.0.1:{port}")), "{fault}");
}

const PUBLIC: Ipv4Addr = Ipv4Addr::new(93, 184, 216, 34);
const OWN: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// Answers in turn; the last answer repeats.
struct Script(Mutex<Vec<Vec<Ipv4Addr>>>, AtomicUsize);

impl Script {
    fn new(answers: &[&[Ipv4Addr]]) -> Arc<Self> {
        Arc::new(Self(Mutex::new(answers.iter().rev().map(|it| it.to_vec()).collect()), AtomicUsize::new(0)))
    }
}

impl Lookup for Script {
    fn lookup<'a>(&'a self, _: &'a str, port: u16) -> Soon<'a, io::Result<Vec<SocketAddr>>> {
        self.1.fetch_add(1, Ordering::AcqRel);
        let mut answers = self.0.lock();
        let answer = if answers.len() > 1 { answers.pop() } else { answers.last().cloned() };
        let found =
            answer.unwrap_or_default().into_iter().map(|it| SocketAddr::new(it.into(), port)).collect();
        Box::pin(std::future::ready(Ok(found)))
    }
}

/// Answers each connection with `answer`, and counts them.
fn listen(answer: &'static str) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, count) = (listener.local_addr().unwrap().port(), Arc::<AtomicUsize>::default());
    let of_thread = count.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            of_thread.fetch_add(1, Ordering::AcqRel);
            // A client that hangs up has been counted.
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    (port, count)
}

const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";

fn get(url: &str) -> Request {
    Request { within: Duration::from_secs(20), ..Request::get(Url::parse(url).unwrap()) }
}

#[tokio::test]
async fn names_resolve_to_public_addresses_only() {
    let find = async |answers: &[&[Ipv4Addr]], reach| {
        let connector = Connector::new(Script::new(answers), None);
        connector
            .find("a.test", 80, reach)
            .await
            .map(|found| found.iter().map(SocketAddr::ip).collect::<Vec<_>>())
    };
    assert_eq!(find(&[&[OWN, PUBLIC]], Reach::Public).await.unwrap(), [PUBLIC]);
    assert_eq!(find(&[&[OWN, PUBLIC]], Reach::Anywhere).await.unwrap().len(), 2);
    assert!(matches!(find(&[&[OWN]], Reach::Public).await, Err(Unreached::Private(_))));
    assert!(matches!(find(&[&[]], Reach::Anywhere).await, Err(Unreached::NotFound(_))));
}

#[tokio::test]
async fn each_connection_resolves_its_name_and_skips_private_addresses() {
    let (port, connections) = listen(HELLO);
    let script = Script::new(&[&[PUBLIC], &[OWN]]);
    let connector = Arc::new(Connector::new(script.clone(), None));
    // The first lookup of another call finds a public address.
    assert_eq!(connector.find("rebind.test", port, Reach::Public).await.unwrap()[0].ip(), PUBLIC);
    let net = Net::new(connector.clone(), Allowed::default().and_web());
    let fault = net.send(get(&format!("http://rebind.test:{port}/"))).await.err().unwrap();
    assert_eq!((fault.kind, script.1.load(Ordering::Acquire)), (Kind::Denied, 2), "{fault}");
    assert!(fault.what.contains("rebind.test is at 127.0.0.1"), "{fault}");
    let spoken = Net::new(connector.clone(), Allowed::default().and("rebind.test"));
    assert_eq!(spoken.connect("rebind.test", port).await.err().unwrap().kind, Kind::Denied);
    assert_eq!(connections.load(Ordering::Acquire), 0);
    // The positive control: if a person granted it with its port, it is reached, by a connection of its own.
    let granted = Net::new(connector, Allowed::default().and(&format!("rebind.test:{port}")));
    let mut answer = granted.send(get(&format!("http://rebind.test:{port}/"))).await.unwrap();
    assert_eq!(answer.bytes(10).await.unwrap(), b"hello");
    assert!(granted.connect("rebind.test", port).await.is_ok());
    assert_eq!(net.send(get(&format!("http://rebind.test:{port}/"))).await.err().unwrap().kind, Kind::Denied);
}

#[tokio::test]
async fn with_a_proxy_private_addresses_are_refused_and_granted_ones_are_direct() {
    let proxy = Url::parse("http://127.0.0.1:1").unwrap();
    let way = async |answer: &[Ipv4Addr], host: &str, reach| {
        Connector::new(Script::new(&[answer]), Some(proxy.clone())).way(host, 80, reach).await
    };
    assert!(matches!(way(&[PUBLIC], "a.test", Reach::Public).await, Ok(Way::Proxy)));
    assert!(matches!(way(&[], "known.to.the.proxy", Reach::Public).await, Ok(Way::Proxy)));
    assert!(matches!(way(&[PUBLIC, OWN], "a.test", Reach::Public).await, Err(Unreached::Private(_))));
    assert!(matches!(way(&[], "10.0.0.1", Reach::Public).await, Err(Unreached::Private(_))));
    assert!(matches!(way(&[], "::1", Reach::Public).await, Err(Unreached::Private(_))));
    assert!(matches!(way(&[OWN], "a.test", Reach::Anywhere).await, Ok(Way::Direct)));
}

#[test]
fn reading_is_open_to_all_hosts_and_sending_to_granted_ones() {
    let allowed =
        Allowed::default().and_web().and("api.test").and("own.test:8080").and_public("asked.test:1");
    assert_eq!(allowed.reach("any.test", 443, true), Some(Reach::Public));
    assert_eq!(allowed.reach("any.test", 443, false), None);
    assert_eq!(allowed.reach("api.test", 443, false), Some(Reach::Public));
    assert_eq!(allowed.reach("OWN.test.", 8080, false), Some(Reach::Anywhere));
    assert_eq!(allowed.reach("own.test", 8081, false), None);
    assert_eq!(allowed.reach("asked.test", 1, false), Some(Reach::Public));
    assert_eq!(Allowed::default().reach("any.test", 443, true), None);
    assert_eq!(Allowed::default().and("*").reach("::1", 80, false), Some(Reach::Public));
    assert!(only_looks(&Method::HEAD, ["Accept"]));
    assert!(!only_looks(&Method::GET, ["x-http-method-OVERRIDE"]));
    assert!(!only_looks(&Method::TRACE, []));
}

#[test]
fn another_origin_gets_harmless_headers_only() {
    let mut headers = HeaderMap::new();
    for name in ["authorization", "cookie", "x-api-key", "accept", "content-type", "range", "if-none-match"] {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static("v"));
    }
    let mut secret = HeaderValue::from_static("v");
    secret.set_sensitive(true);
    headers.insert("accept-language", secret);
    let mut kept: Vec<String> = for_others(&headers).keys().map(ToString::to_string).collect();
    kept.sort();
    assert_eq!(kept, ["accept", "content-type", "if-none-match", "range"]);
}

#[test]
fn a_form_of_several_parts_knows_its_length_and_breaks_no_line() {
    let (media_type, body) = Form::default()
        .part("a\"\r\nb", None, None, "1".to_owned())
        .part("f", Some("x.bin"), Some("text/plain\r\nX: y"), Body::from(vec![0; 1000]))
        .finish();
    let boundary = media_type.strip_prefix("multipart/form-data; boundary=").unwrap();
    assert!(boundary.len() > 32);
    let heads = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"a%22%0D%0Ab\"\r\n\r\n1\r\n\
         --{boundary}\r\nContent-Disposition: form-data; name=\"f\"; filename=\"x.bin\"\r\n\
         Content-Type: text/plain  X: y\r\n\r\n\r\n--{boundary}--\r\n"
    );
    assert_eq!(body.length(), heads.len() as u64 + 1000);
}

#[tokio::test]
async fn a_sensitive_body_is_not_sent_to_another_origin() {
    let (other, connections) = listen(HELLO);
    for status in ["307 T", "308 P", "302 F"] {
        let to = format!(
            "HTTP/1.1 {status}\r\nLocation: http://127.0.0.1:{other}/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        let (port, _) = listen(to.leak());
        let connector = Arc::new(Connector::new(Script::new(&[&[OWN]]), None));
        let net = Net::new(
            connector,
            Allowed::default().and(&format!("127.0.0.1:{port}")).and(&format!("127.0.0.1:{other}")),
        );
        let post = |body: Body| Request {
            method: Method::POST,
            body: Some(body),
            ..get(&format!("http://127.0.0.1:{port}/"))
        };
        let before = connections.load(Ordering::Acquire);
        let secret = Body::from("a=".to_owned()).and(Body::from("secret".to_owned()).sensitive(true));
        let sent = net.send(post(secret)).await;
        if status.starts_with("302") {
            // The redirect is followed without the body.
            assert!(sent.is_ok());
            continue;
        }
        let fault = sent.err().unwrap();
        assert_eq!((fault.kind, connections.load(Ordering::Acquire)), (Kind::Denied, before), "{fault}");
        assert!(fault.what.contains("has a secret in it"), "{fault}");
        // The positive control.
        assert!(net.send(post("plain".to_owned().into())).await.is_ok());
    }
}

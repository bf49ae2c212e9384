//! DNS rebinding: a name that resolves to another address later is not followed.
//!
//! In a network namespace of its own a public address is an address of loopback, and a name server answers as it is
//! told: so the shipped program meets just what an attacker would show it.

use std::{
    fs,
    net::{Ipv4Addr, UdpSocket},
    path::Path,
    process::Command,
    sync::{Arc, Mutex},
    thread,
};

use serde_json::json;

use super::{ask, configured, does, hostile::Hostile};
use crate::support::Room;

const PUBLIC: Ipv4Addr = Ipv4Addr::new(93, 184, 216, 34);

#[test]
fn name_that_resolves_elsewhere_later_is_not_followed() {
    kit::needs!(Ip);
    inside("net::rebinding::name_that_resolves_elsewhere_later_is_not_followed", || {
        let names = Names::answer(|name, asked| match (name, asked) {
            ("rebind.test", 0) | ("public.test", _) => vec![PUBLIC],
            ("both.test", _) => vec![Ipv4Addr::LOCALHOST, PUBLIC],
            ("rebind.test" | "inner.test", _) => vec![Ipv4Addr::LOCALHOST],
            _ => Vec::new(),
        });
        let server = Hostile::listen("0.0.0.0:8080");
        let room = Room::new();
        let url = |host: &str, path: &str| json!({"url": format!("http://{host}:8080{path}")});
        // The positive control: what is public is reached without a word from anybody.
        assert!(does(&room, &url("public.test", "/text")).ends_with("hello\n"));
        assert_eq!(server.last().at.ip(), PUBLIC);
        // The second connection looks again, and is not made.
        let (kind, said) = ask(&room, &url("rebind.test", "/302?/text"));
        assert_eq!(kind, "denied", "{said}");
        assert!(said.contains("rebind.test is at 127.0.0.1, which is not a public address"), "{said}");
        assert_eq!((server.connections(), server.last().at.ip()), (2, PUBLIC.into()));
        assert_eq!(names.asked("rebind.test"), 2);
        // Of several addresses those that are public are tried, and no others.
        assert!(does(&room, &url("both.test", "/text")).ends_with("hello\n"));
        assert_eq!((server.connections(), server.last().at.ip()), (3, PUBLIC.into()));
        for path in ["/text", "/302?http://inner.test:8080/text"] {
            let host = if path == "/text" { "inner.test" } else { "public.test" };
            let (kind, said) = ask(&room, &url(host, path));
            assert!(kind == "denied" && said.contains("inner.test is at 127.0.0.1"), "{said}");
        }
        assert!(server.heard().iter().all(|it| it.at.ip() == PUBLIC), "{:?}", server.heard());
        let (kind, said) = ask(&room, &url("nobody.test", "/text"));
        assert!(kind == "unavailable" && said.contains("nobody knows where nobody.test is"), "{said}");
        // The positive control: a person who names it is obeyed.
        let granted = configured("[net]\nallow = [\"inner.test:8080\"]\n");
        assert!(does(&granted, &url("inner.test", "/text")).ends_with("hello\n"));
        assert!(server.last().at.ip().is_loopback());
    });
}

#[test]
fn name_is_checked_before_a_proxy_is_used() {
    kit::needs!(Ip);
    inside("net::rebinding::name_is_checked_before_a_proxy_is_used", || {
        let _names = Names::answer(|name, _| match name {
            "public.test" => vec![PUBLIC],
            "inner.test" | "proxy.test" => vec![Ipv4Addr::LOCALHOST],
            _ => Vec::new(),
        });
        let proxy = Hostile::listen("127.0.0.1:3128");
        let room = configured("[net]\nproxy = \"http://proxy.test:3128\"\n");
        assert!(does(&room, &json!({"url": "http://public.test/text"})).starts_with("HTTP "));
        assert_eq!(proxy.last().target, "http://public.test/text");
        let (kind, said) = ask(&room, &json!({"url": "http://inner.test/text"}));
        assert!(kind == "denied" && said.contains("inner.test is at 127.0.0.1"), "{said}");
        assert_eq!(proxy.connections(), 1);
    });
}

/// Runs the work of this test in a network that has nothing but itself.
fn inside(test: &str, work: impl FnOnce()) {
    const INSIDE: &str = "HAFT_TEST_INSIDE";
    if std::env::var_os(INSIDE).is_none() {
        let ran = Command::new("unshare")
            .args(["--map-root-user", "--mount", "--net", "--"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(INSIDE, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(
            ran.status.success() && said.contains("1 passed"),
            "{said}\n{}",
            String::from_utf8_lossy(&ran.stderr)
        );
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    put_over(folder.path(), "resolv.conf", "nameserver 127.0.0.1\noptions timeout:5 attempts:2\n");
    put_over(folder.path(), "nsswitch.conf", "hosts: files dns\n");
    must("ip", &["link", "set", "lo", "up"]);
    must("ip", &["address", "add", &format!("{PUBLIC}/32"), "dev", "lo"]);
    work();
}

/// Puts a file over the machine's own, for this namespace alone.
fn put_over(folder: &Path, name: &str, text: &str) {
    let file = folder.join(name);
    fs::write(&file, text).unwrap();
    must("mount", &["--bind", file.to_str().unwrap(), &format!("/etc/{name}")]);
}

fn must(program: &str, arguments: &[&str]) {
    let ran = Command::new(program).args(arguments).output().unwrap();
    assert!(ran.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
}

/// A name server on loopback.
struct Names {
    asked: Arc<Mutex<Vec<String>>>,
}

impl Names {
    /// What is answered depends on the name, and on how often it was asked for before.
    fn answer(addresses: impl Fn(&str, usize) -> Vec<Ipv4Addr> + Send + 'static) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:53").unwrap();
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let of_thread = asked.clone();
        thread::spawn(move || {
            let mut query = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut query) {
                if let Some(answer) = respond(&query[..length], &of_thread, &addresses) {
                    let _ = socket.send_to(&answer, from);
                }
            }
        });
        Self { asked }
    }

    /// How often the addresses of this name were asked for.
    fn asked(&self, name: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|it| *it == name).count()
    }
}

fn respond(
    query: &[u8],
    asked: &Mutex<Vec<String>>,
    addresses: &impl Fn(&str, usize) -> Vec<Ipv4Addr>,
) -> Option<Vec<u8>> {
    let (mut at, mut labels) = (12, Vec::new());
    loop {
        let length = usize::from(*query.get(at)?);
        if length == 0 {
            break;
        }
        labels.push(String::from_utf8_lossy(query.get(at + 1..=at + length)?).into_owned());
        at += length + 1;
    }
    let (name, question) = (labels.join("."), query.get(12..at + 5)?);
    // Only the first kind of address is known of any name.
    let found = if query.get(at + 1..at + 3)? == [0, 1] {
        let mut asked = asked.lock().unwrap();
        let before = asked.iter().filter(|it| **it == name).count();
        asked.push(name.clone());
        addresses(&name, before)
    } else {
        Vec::new()
    };
    let known = name.ends_with(".test") && name != "nobody.test";
    let mut answer = query.get(..2)?.to_vec();
    answer.extend([
        0x81,
        if known { 0x80 } else { 0x83 },
        0,
        1,
        0,
        u8::try_from(found.len()).ok()?,
        0,
        0,
        0,
        0,
    ]);
    answer.extend(question);
    for address in found {
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
        answer.extend(address.octets());
    }
    Some(answer)
}

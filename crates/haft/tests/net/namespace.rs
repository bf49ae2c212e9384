//! A network namespace for a test, with a DNS server under the test's control and a remote machine with a public
//! address: the built program meets just what an attacker would show it.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, TcpListener, UdpSocket},
    path::Path,
    process::Command,
    sync::{Arc, Mutex},
    thread,
};

use rustix::thread::UnshareFlags;

/// The address of the machine far away.
pub(super) const PUBLIC: Ipv4Addr = Ipv4Addr::new(93, 184, 216, 34);

/// Makes the machine far away, which is another network namespace behind a cable, and gives a socket that listens there at
/// this port. The machine is there for as long as the socket.
#[expect(
    unsafe_code,
    reason = "only this thread, which opens nothing but the socket, moves to the new namespace"
)]
pub(super) fn far_away(port: u16) -> TcpListener {
    let there = thread::spawn(move || {
        // SAFETY: no file descriptor table is taken apart.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }.unwrap();
        must("ip", &["link", "add", "there", "type", "veth", "peer", "name", "here"]);
        must("ip", &["link", "set", "here", "netns", &std::process::id().to_string()]);
        must("ip", &["address", "add", "10.77.0.2/24", "dev", "there"]);
        must("ip", &["address", "add", &format!("{PUBLIC}/32"), "dev", "there"]);
        must("ip", &["link", "set", "there", "up"]);
        TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).unwrap()
    });
    let listener = there.join().unwrap();
    must("ip", &["address", "add", "10.77.0.1/24", "dev", "here"]);
    must("ip", &["link", "set", "here", "up"]);
    must("ip", &["route", "add", "default", "via", "10.77.0.2"]);
    listener
}

/// Gives this machine one more address.
pub(super) fn own(address: IpAddr) {
    let length = if address.is_ipv4() { 32 } else { 128 };
    let address = format!("{address}/{length}");
    // Without `nodad` an IPv6 address is of no use for a second.
    let last: &[&str] = if length == 32 { &[] } else { &["nodad"] };
    must("ip", &[&["address", "add", &address, "dev", "lo"], last].concat());
}

/// Runs the work of this test in a network that has nothing but itself.
pub(super) fn inside(test: &str, work: impl FnOnce()) {
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
pub(super) struct Names {
    asked: Arc<Mutex<Vec<String>>>,
}

impl Names {
    /// Starts a DNS server; its answer depends on the name, and on the number of earlier requests for it.
    pub(super) fn answer(addresses: impl Fn(&str, usize) -> Vec<Ipv4Addr> + Send + 'static) -> Self {
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

    /// Returns the number of DNS requests for the addresses of this name.
    pub(super) fn asked(&self, name: &str) -> usize {
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

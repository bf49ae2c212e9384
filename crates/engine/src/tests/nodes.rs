//! Servers with a configuration of their own: TLS, and a cluster of three.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener},
    path::Path,
    process::{Child, Command, Stdio},
};

use super::*;
use crate::{Error, Options, tests::places::of_nats::program};

/// A nats-server, killed at its end.
struct Node(Child);

impl Node {
    fn start(folder: &Path, name: &str, config: &str) -> Self {
        let path = folder.join(format!("{name}.conf"));
        let jetstream = folder.join(name);
        let about = format!("server_name: {name}\njetstream {{ store_dir: {jetstream:?} }}\n");
        fs::write(&path, about + config).unwrap();
        let log = fs::File::options().create(true).append(true).open(folder.join(format!("{name}.log")));
        let child = Command::new(program().program).arg("--config").arg(&path).stderr(log.unwrap()).spawn();
        Self(child.unwrap())
    }

    fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns free ports; another process may take one before it is used.
fn ports<const N: usize>() -> [u16; N] {
    let held = [(); N].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    held.map(|it| it.local_addr().unwrap().port())
}

async fn opened(url: &str, folder: &Path, options: &Options) -> std::sync::Arc<dyn Engine> {
    let start = Instant::now();
    loop {
        match crate::open(url, folder, options.clone()).await {
            Ok(engine) => return engine,
            // Three servers that start beside a compiler need more than a minute to agree.
            Err(Error::Unreachable(_)) if since(start) < Duration::from_secs(180) => {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Repeats a request until the engine answers.
async fn until_answered<T>(mut request: impl AsyncFnMut() -> Result<T>) -> T {
    let start = Instant::now();
    loop {
        match request().await {
            Err(Error::Unreachable(_)) if since(start) < Duration::from_secs(60) => {}
            done => return done.unwrap(),
        }
    }
}

/// Makes a certificate authority and a certificate of 127.0.0.1.
fn certificates(folder: &Path) {
    let openssl = |arguments: &str| {
        let mut command = Command::new("openssl");
        command.args(arguments.split(' ')).current_dir(folder).stderr(Stdio::null());
        assert!(command.status().expect("this test needs openssl").success(), "openssl {arguments}");
    };
    fs::write(folder.join("names"), "subjectAltName=IP:127.0.0.1").unwrap();
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(&format!("req -x509 {key} -days 2 -subj /CN=ca -keyout ca.key -out ca.pem"));
    openssl(&format!("req {key} -subj /CN=server -keyout server.key -out server.csr"));
    openssl(
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out server.pem",
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_connects_with_the_certificate_authority_and_not_without() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    certificates(folder);
    let [port] = ports();
    let (certificate, key) = (folder.join("server.pem"), folder.join("server.key"));
    let config = format!(
        "listen: \"127.0.0.1:{port}\"\ntls {{ cert_file: {certificate:?}, key_file: {key:?}, handshake_first: auto }}\n"
    );
    let _node = Node::start(folder, "n1", &config);
    let trusting = Options { lease: LEASE, ca: Some(folder.join("ca.pem")), ..Options::default() };
    for scheme in ["tls", "nats"] {
        let url = format!("{scheme}://127.0.0.1:{port}");
        let engine = opened(&url, folder, &trusting).await;
        engine.offer(work(1)).await.unwrap();
        let stranger = crate::open(&url, folder, Options { lease: LEASE, ..Options::default() }).await;
        let error = stranger.err().expect("an unknown certificate is refused").to_string();
        assert!(error.contains(&url), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_of_three_goes_on_without_any_one_server() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (clients, routes): ([u16; 3], [u16; 3]) = (ports(), ports());
    let all: Vec<String> = routes.iter().map(|it| format!("nats://127.0.0.1:{it}")).collect();
    let config = |at: usize| {
        format!(
            "listen: \"127.0.0.1:{}\"\ncluster {{ name: haft, listen: \"127.0.0.1:{}\", routes: [{}] }}\n",
            clients[at],
            routes[at],
            all.join(", ")
        )
    };
    let start = |at: usize| Node::start(folder, &format!("n{at}"), &config(at));
    let mut nodes = [start(0), start(1), start(2)];
    let url = clients.map(|it| format!("nats://127.0.0.1:{it}")).join(",");
    let options = Options { lease: LEASE * 5, replicas: 3, ..Options::default() };
    let (sender, runner) = (opened(&url, folder, &options).await, opened(&url, folder, &options).await);
    let blob = until_answered(async || sender.put(crate::Source::Bytes(b"content".to_vec())).await).await;
    for step in 0..3_u64 {
        let at = step as usize;
        until_answered(async || sender.offer(work(step)).await).await;
        let (claimed, mut lease) = until_answered(async || runner.claim(&worker("w1")).await).await.unwrap();
        until_answered(async || runner.begin(&mut lease).await).await;
        nodes[at].kill();
        until_answered(async || runner.append(&mut lease, json!(step)).await).await;
        until_answered(async || runner.finish(&mut lease, done("ok")).await).await;
        let watch = until_answered(async || sender.watch(&claimed.key, 0).await).await;
        let (events, states) = rest(watch).await;
        assert_eq!(events.iter().map(|it| it.value.clone()).collect::<Vec<_>>(), [json!(step)]);
        assert_eq!(states.last().unwrap().state, State::Ended(done("ok")));
        assert_eq!(until_answered(async || runner.get(&blob).await).await, b"content");
        nodes[at] = start(at);
        // The next one falls only when this one has what it missed.
        caught_up(&url, folder, &options).await;
    }
}

/// Waits until all three servers have every stream.
async fn caught_up(url: &str, folder: &Path, options: &Options) {
    let client = async_nats::connect(
        url.split(',').map(|it| it.parse().unwrap()).collect::<Vec<async_nats::ServerAddr>>(),
    );
    let context = async_nats::jetstream::new(client.await.unwrap());
    let _engine = opened(url, folder, options).await;
    let start = Instant::now();
    for name in ["KV_haft", "OBJ_haft_blobs", "haft_queue", "haft_workers"] {
        loop {
            let info = match context.get_stream(name).await {
                Ok(stream) => stream.cached_info().cluster.clone().map(|it| it.replicas),
                Err(_) => None,
            };
            if info.is_some_and(|all| all.len() == 2 && all.iter().all(|it| it.current && !it.offline)) {
                break;
            }
            assert!(since(start) < Duration::from_secs(60), "{name} did not catch up");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

//! The socket of an owner: what comes there harms nobody else.

use std::{
    io::{Read as _, Write as _},
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use sessions::{Operation, Prompt};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::UnixStream,
};

use crate::support::{TestWorkspace, is_end, until};

fn socket(process: &sessions::testing::ScriptOpener) -> PathBuf {
    let owner = process.runtime().store().owners().get("s").unwrap().unwrap();
    process.runtime().store().folder().join("sockets").join(owner.socket.unwrap())
}

async fn ask(socket: &PathBuf, line: &[u8]) -> Option<Value> {
    let mut stream = BufReader::new(UnixStream::connect(socket).await.unwrap());
    // It may be refused before all of it is sent.
    let _ = stream.write_all(line).await;
    let mut answer = String::new();
    stream.read_line(&mut answer).await.ok()?;
    serde_json::from_str(&answer).ok()
}

#[tokio::test]
async fn a_malformed_line_ends_its_connection_alone() {
    let test_ws = TestWorkspace::new();
    let process = test_ws.process();
    let handle = process.sessions().open(Some("s"), "one").await.unwrap();
    let socket = socket(&process);
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let state = json!({"version": 1, "session": "s", "ask": "state"});
    let mut good = BufReader::new(UnixStream::connect(&socket).await.unwrap());
    for line in
        [&b"{"[..], b"\xff\xfe", b"[]", b"{\"version\":1,\"session\":\"s\",\"ask\":\"dance\"}", b"null"]
    {
        let answer = ask(&socket, &[line, b"\n"].concat()).await.unwrap();
        assert_eq!(answer["fault"]["kind"], "bad_args", "{answer}");
        good.write_all(format!("{state}\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        good.read_line(&mut answer).await.unwrap();
        assert!(answer.contains("\"session\":\"s\""), "{answer}");
    }
    let other = json!({"version": 2, "session": "s", "ask": "state"});
    let answer = ask(&socket, format!("{other}\n").as_bytes()).await.unwrap();
    assert_eq!(answer["fault"]["kind"], "unavailable");
    let nobody = json!({"version": 1, "session": "t", "ask": "state"});
    assert_eq!(ask(&socket, format!("{nobody}\n").as_bytes()).await.unwrap(), json!("not_here"));
    let mut long = vec![b' '; 33 << 20];
    long.push(b'\n');
    let answer = ask(&socket, &long).await;
    assert!(answer.is_none_or(|it| it["fault"]["kind"] == "too_big"));
    handle.act("k", Operation::Prompt(Prompt::new("hi"))).await.unwrap();
}

#[tokio::test]
async fn a_thousand_cut_connections_lose_nothing_and_leave_nothing() {
    let test_ws = TestWorkspace::new();
    let (process, there) = (test_ws.process(), test_ws.process());
    let handle = process.sessions().open(Some("s"), "one").await.unwrap();
    let other = there.watching();
    let mut watcher = other.watch("s", 0);
    let socket = socket(&process);
    for at in 0..1000 {
        let mut stream = UnixStream::connect(&socket).await.unwrap();
        let act = json!({"version": 1, "session": "s", "ask": {"act": {"key": format!("k{at}"), "by": "me",
            "operation": {"operation": "cancel"}}}});
        let follow = json!({"version": 1, "session": "s", "ask": {"follow": {"attends": true}}});
        let line = format!("{}\n", if at % 2 == 0 { act } else { follow });
        let sent = line.len() * (at % 10 + 1) / 10;
        stream.write_all(&line.as_bytes()[..sent]).await.unwrap();
        if at % 7 == 0 {
            let mut byte = [0];
            let _ = tokio::time::timeout(std::time::Duration::from_millis(2), stream.read(&mut byte)).await;
        }
        if at % 100 == 0 {
            let key = format!("p{at}");
            assert_eq!(handle.act(&key, Operation::Prompt(Prompt::new("hi"))).await.unwrap()["text"], "ok");
            until(&mut watcher, is_end).await;
        }
    }
    // Whatever of the acts came through is done once, and asked for again it has its result.
    for at in (0..1000).step_by(2) {
        let result = handle.act(&format!("k{at}"), Operation::Cancel { prompt: None }).await.unwrap();
        assert_eq!(result, json!({"cancelled": false}));
    }
    assert_eq!(handle.state().await.unwrap().waiting, 0);
}

#[tokio::test]
async fn an_owner_without_a_socket_is_asked_by_rows() {
    let test_ws = TestWorkspace::new();
    let (process, there) = (test_ws.process(), test_ws.process());
    let _running = process.sessions().open(Some("s"), "one").await.unwrap();
    std::fs::remove_file(socket(&process)).unwrap();
    let other = there.sessions();
    let handle = other.attach("s", "other").await.unwrap();
    let mut watcher = handle.watch(0);
    let end = handle.act("k", Operation::Prompt(Prompt::new("hi"))).await.unwrap();
    assert_eq!((&end["ended"], &end["text"]), (&json!("done"), &json!("ok")));
    until(&mut watcher, is_end).await;
    assert_eq!(process.runtime().store().owners().get("s").unwrap().unwrap().epoch, 1, "nobody took it over");
}

const SOCKET: &str = "HAFT_TEST_SESSIONS_SOCKET";

/// Asks an owner how its session stands, and prints what comes of it: `refused`, `cut off`, or the answer.
#[test]
#[ignore = "a process of another user, which a test begins"]
fn other_user() {
    let said = match std::os::unix::net::UnixStream::connect(std::env::var_os(SOCKET).unwrap()) {
        Err(error) => format!("refused: {:?}", error.kind()),
        Ok(mut stream) => {
            let mut answer = String::new();
            // Both may fail once the owner has ended the connection.
            let _ = stream.write_all(b"{\"version\":1,\"session\":\"s\",\"ask\":\"state\"}\n");
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read_to_string(&mut answer);
            if answer.is_empty() { "cut off".to_owned() } else { format!("answered: {answer}") }
        }
    };
    std::io::stdout().write_all(format!("<<{said}>>").as_bytes()).unwrap();
}

fn as_user(uid: u32, program: &Path, socket: &Path) -> String {
    let mut child = Command::new(program)
        .args(["--exact", "socket::other_user", "--ignored", "--nocapture"])
        .current_dir("/")
        .env(SOCKET, socket)
        .uid(uid)
        .gid(uid)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut out = child.stdout.take().unwrap();
    let mut byte = [0];
    while !said.ends_with(">>") && out.read(&mut byte).unwrap() == 1 {
        said.push(char::from(byte[0]));
    }
    child.wait().unwrap();
    said.split_once("<<").unwrap().1.trim_end_matches(">>").to_owned()
}

fn open_to_all(path: &Path) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn another_user_is_refused_by_the_folder_and_by_the_owner() {
    if kit::testing::needs::skips_without_root(
        "socket::another_user_is_refused_by_the_folder_and_by_the_owner",
    ) {
        return;
    }
    const OTHER: u32 = 65_534;
    let test_ws = TestWorkspace::new();
    let process = test_ws.process();
    let handle = process.sessions().open(Some("s"), "one").await.unwrap();
    let socket = socket(&process);
    // The target folder may be closed to the other user.
    open_to_all(test_ws.path());
    let program = test_ws.path().join("tests");
    let built = std::env::current_exe().unwrap();
    if std::fs::hard_link(&built, &program).is_err() {
        std::fs::copy(&built, &program).unwrap();
    }
    let asks = |uid: u32| {
        let (program, socket) = (program.clone(), socket.clone());
        tokio::task::spawn_blocking(move || as_user(uid, &program, &socket))
    };
    assert_eq!(asks(OTHER).await.unwrap(), "refused: PermissionDenied", "the state folder is private");
    // Even with all folders and the socket open, the owner looks at who is there.
    let state = test_ws.path().join("state");
    let mut at = Some(socket.as_path());
    while let Some(path) = at.filter(|it| it.starts_with(&state)) {
        open_to_all(path);
        at = path.parent();
    }
    assert_eq!(asks(OTHER).await.unwrap(), "cut off");
    let said = asks(0).await.unwrap();
    assert!(said.starts_with("answered: {\"state\":"), "{said}");
    assert_eq!(handle.act("k", Operation::Prompt(Prompt::new("hi"))).await.unwrap()["text"], "ok");
}

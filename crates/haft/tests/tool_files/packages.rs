//! Python packages of tools: fetched from granted hosts alone.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use serde_json::json;

use super::{
    folders::{put, put_file},
    support::after,
};
use crate::support::{
    Ran, Terminal, TestWorkspace, run,
    uv::{wheel, with_uv, without_uv},
};

/// An index of packages on this machine, which has `gadget`.
struct Index {
    address: String,
    asked: Arc<AtomicUsize>,
    _folder: tempfile::TempDir,
}

impl Index {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let wheel = wheel(folder.path(), "1.5");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                count.fetch_add(1, Ordering::Relaxed);
                // The client may disconnect before the answer.
                let _ = answer(stream, &wheel);
            }
        });
        Self { address, asked, _folder: folder }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

fn answer(mut stream: TcpStream, wheel: &Path) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.extend(byte);
    }
    let head = String::from_utf8_lossy(&head);
    let path = head.split(' ').nth(1).unwrap();
    let name = wheel.file_name().unwrap().to_string_lossy();
    let (status, kind, body) = if path == "/simple/gadget/" {
        ("200 OK", "text/html", format!("<a href=\"/files/{name}\">{name}</a>").into_bytes())
    } else if path == format!("/files/{name}") {
        ("200 OK", "application/octet-stream", fs::read(wheel)?)
    } else {
        ("404 Not Found", "text/plain", Vec::new())
    };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    )?;
    if !head.starts_with("HEAD") {
        stream.write_all(&body)?;
    }
    Ok(())
}

/// Returns a tool that answers with its version of `gadget`; these lines are in its block.
fn gadget(name: &str, block: &[&str]) -> String {
    let block: String = block.iter().map(|line| format!("# {line}\n")).collect();
    let head = format!("# /// script\n{block}# ///\nimport gadget\n");
    after(&head, name, "return gadget.VERSION").1
}

const GADGET: &[&str] = &["dependencies = [\"gadget\"]"];

/// A run of haft that finds `uv`, or not, and asks this index.
struct Haft<'a> {
    test_ws: &'a TestWorkspace,
    path: String,
    index: Option<&'a Index>,
}

impl Haft<'_> {
    fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = self.test_ws.haft(&[&["--trust"], arguments].concat());
        command.env("PATH", &self.path);
        if let Some(index) = self.index {
            command.env("UV_DEFAULT_INDEX", format!("http://{}/simple", index.address));
        }
        command
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        run(&mut self.command(arguments), "")
    }

    #[track_caller]
    fn says(&self, arguments: &[&str], what: &[&str]) -> String {
        let ran = self.run(arguments);
        for what in what {
            assert!(ran.out.contains(what), "`{what}` is not in {}\n{}", ran.out, ran.err);
        }
        ran.out
    }
}

fn environments(test_ws: &TestWorkspace) -> Vec<PathBuf> {
    let entries = fs::read_dir(test_ws.state().join("tools/environments")).into_iter().flatten().flatten();
    entries.map(|it| it.path()).filter(|it| it.is_dir()).collect()
}

#[test]
fn without_uv_the_file_fails_clearly_and_the_others_work() {
    kit::needs!(Uv);
    let test_ws = TestWorkspace::new();
    let tools = test_ws.at(".haft/tools");
    put_file(&tools, "needs.py", &gadget("needs", GADGET));
    put(&tools, "plain", "return 'fine'");
    let mut haft = Haft { test_ws: &test_ws, path: without_uv(), index: None };
    let fault = [
        "`uv` is needed for the packages of needs.py (gadget) and is not installed",
        "`pip install uv`",
        "https://docs.astral.sh/uv/",
    ];
    haft.says(
        &["reload-tools"],
        &[&["loaded: plain\n", "failed: .haft/tools/needs.py\n"], &fault[..]].concat(),
    );
    haft.says(&["call", "needs"], &fault);
    haft.says(&["call", "plain"], &["fine"]);
    // It is looked for again as soon as it may be there.
    haft.path = with_uv();
    haft.says(&["call", "needs"], &["come from pypi.org and files.pythonhosted.org, which nobody granted"]);
}

#[test]
fn hosts_are_named_with_the_command_that_grants_them_and_then_packages_are_fetched_once() {
    kit::needs!(Uv);
    let (test_ws, index) = (TestWorkspace::new(), Index::new());
    let tools = test_ws.at(".haft/tools");
    put_file(&tools, "one.py", &gadget("one", GADGET));
    put(&tools, "plain", "return 'fine'");
    let mut haft = Haft { test_ws: &test_ws, path: with_uv(), index: Some(&index) };
    let grant = format!("grants add 'net {}'", index.address);
    let command = format!("`haft --dir {} {grant}`", test_ws.at("").canonicalize().unwrap().display());
    let lacks = format!("the packages of one.py (gadget) come from {}, which nobody granted", index.address);
    haft.says(
        &["reload-tools"],
        &["loaded: plain\n", "failed: .haft/tools/one.py\n", &lacks, &command, "`[net] allow = "],
    );
    haft.says(&["call", "one"], &[&lacks, &command]);
    haft.says(&["call", "plain"], &["fine"]);
    let code = json!({"name": "written", "code": gadget("written", GADGET)}).to_string();
    haft.says(&["call", "write_tool", &code], &["the packages of written.py (gadget) come from", &command]);
    assert!(!tools.join("written.py").exists());
    assert_eq!((index.asked(), environments(&test_ws).len()), (0, 0), "nothing was reached");

    assert_eq!(haft.run(&["grants", "add", &format!("net {}", index.address)]).code, 0);
    haft.says(&["call", "one"], &["1.5"]);
    let asked = index.asked();
    assert!(asked > 0);
    // Another one, and one that a model writes, have the same.
    put_file(&tools, "two.py", &gadget("two", GADGET));
    haft.says(&["call", "two"], &["1.5"]);
    haft.says(&["call", "write_tool", &code], &["Created .haft/tools/written.py"]);
    // From now on there is no need of `uv`, nor of the grant.
    haft.path = without_uv();
    assert_eq!(haft.run(&["grants", "revoke", "1"]).code, 0);
    for tool in ["one", "two", "written"] {
        assert_eq!(haft.run(&["call", tool]).out.trim(), "1.5");
    }
    haft.says(&["reload-tools"], &["loaded: one, plain, two, written\n"]);
    assert_eq!((index.asked(), environments(&test_ws).len()), (asked, 1));
}

#[test]
fn what_becomes_of_hosts_is_what_the_person_said_of_all_hosts() {
    kit::needs!(Uv);
    let index = Index::new();
    let lacks = "which nobody granted";
    for (options, config, says) in [
        (&["--approve", "auto"][..], String::new(), "1.5"),
        (&["--approve", "never"], String::new(), lacks),
        (&["--approve", "never"], format!("[net]\nallow = [{:?}]\n", index.address), "1.5"),
    ] {
        let test_ws = TestWorkspace::new();
        put_file(&test_ws.at(".haft/tools"), "one.py", &gadget("one", GADGET));
        put_file(&test_ws.config(), "haft.toml", &config);
        let haft = Haft { test_ws: &test_ws, path: with_uv(), index: Some(&index) };
        haft.says(&[options, &["call", "one"]].concat(), &[says]);
    }
}

#[test]
fn who_sits_at_a_terminal_is_asked() {
    kit::needs!(Uv);
    let (test_ws, index) = (TestWorkspace::new(), Index::new());
    let tools = test_ws.at(".haft/tools");
    put_file(&tools, "one.py", &gadget("one", GADGET));
    put_file(&tools, "two.py", &gadget("two", GADGET));
    let haft = Haft { test_ws: &test_ws, path: with_uv(), index: Some(&index) };
    let ask = |answer: &str| {
        let mut terminal = Terminal::start(&haft.command(&["reload-tools", "--strict"]));
        terminal.shows("[n]o: ", 1).types(answer);
        let (code, seen) = terminal.ends();
        assert!(
            seen.contains("fetch the packages it needs: gadget") && seen.contains(&index.address),
            "{seen}"
        );
        assert_eq!(seen.matches("[n]o: ").count(), 1, "one question for both: {seen}");
        code
    };
    assert_eq!(ask("n\n"), Some(1));
    assert_eq!(index.asked(), 0);
    assert_eq!(ask("p\n"), Some(0));
    assert!(haft.run(&["grants"]).out.contains(&format!("project  net {}", index.address)));
    haft.says(&["call", "two"], &["1.5"]);
}

#[test]
fn a_package_in_a_file_takes_no_host_and_a_tool_sees_what_lies_beside_it() {
    kit::needs!(Uv);
    let test_ws = TestWorkspace::new();
    let tools = test_ws.config().join("tools");
    let wheel = wheel(&test_ws.at(""), "2.0");
    let block = format!("dependencies = [\"gadget @ file://{}\"]", wheel.display());
    let code = gadget("mine", &[&block]).replace("import gadget\n", "import gadget\nimport _shared\n");
    put_file(&tools, "mine.py", &code.replace("gadget.VERSION", "gadget.VERSION + _shared.MORE"));
    put_file(&tools, "_shared.py", "MORE = ' and more'\n");
    let haft = Haft { test_ws: &test_ws, path: with_uv(), index: None };
    haft.says(&["call", "mine"], &["2.0 and more"]);
    // It is the person's, who also names a package that nobody has: the last good version goes on.
    put_file(
        &tools,
        "mine.py",
        &code.replace(&block, "dependencies = [\"gadget @ file:///nowhere/gadget-9.9-py3-none-any.whl\"]"),
    );
    haft.says(
        &["reload-tools"],
        &["loaded: mine\n", "its last good version stays in use", "the packages of mine.py"],
    );
    haft.says(&["call", "mine"], &["2.0 and more"]);
    // An environment that is gone is made again, when it is needed.
    fs::remove_dir_all(test_ws.state().join("tools/environments")).unwrap();
    haft.says(&["call", "mine"], &["2.0 and more"]);
}

#[test]
fn what_can_not_be_met_and_what_can_not_be_read_is_said() {
    kit::needs!(Uv);
    let test_ws = TestWorkspace::new();
    let tools = test_ws.at(".haft/tools");
    let none = "dependencies = []";
    put_file(&tools, "newer.py", &gadget("newer", &["requires-python = \">=3.99\"", none]));
    put_file(&tools, "broken.py", &gadget("broken", &["dependencies = ["]));
    put_file(&tools, "twice.py", &format!("{}\n{}", gadget("twice", GADGET), gadget("twice", GADGET)));
    put_file(&tools, "option.py", &gadget("option", &["dependencies = [\"-r list.txt\"]"]));
    put(&tools, "plain", "return 'fine'");
    let haft = Haft { test_ws: &test_ws, path: with_uv(), index: None };
    let said = haft.says(
        &["reload-tools"],
        &[
            "loaded: plain\n",
            "newer.py needs Python >=3.99 (`requires-python`), which is unavailable",
            "broken.py: the `# /// script` block can't be read: TOML parse error",
            "twice.py: the file has 2 `# /// script` blocks; PEP 723 allows one",
            "option.py: `-r list.txt` in the `# /// script` block is not a package",
        ],
    );
    assert_eq!(said.matches("failed: ").count(), 4, "{said}");
}

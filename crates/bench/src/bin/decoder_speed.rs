//! The cost of isolated decoders, beside the same decoders in haft's own process, in turns.
//!
//! `cargo build --release -p haft && cargo run --release -p bench --bin decoder_speed`

use std::{
    error::Error,
    fs,
    io::{self, Cursor, Read as _, Write as _},
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use bench::client::Client;
use image::{ImageFormat, Rgb, RgbImage};
use kit::redact::Secrets;
use policy::{Approve, Policy};
use runtime::{Call, Commands, DEADLINE, Runtime, Session, Settings, Unattended, plugins::ToolFiles};
use serde_json::{Value, json};

/// Number of runs of each, in turn; the first argument overrides it.
const TIMES: usize = 60;

/// The page that is fetched, in bytes.
const PAGE: usize = 1_000_000;

type Trouble = Box<dyn Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Trouble> {
    let times = std::env::args().nth(1).map_or(Ok(TIMES), |it| it.parse())?;
    let haft = std::env::current_exe()?.with_file_name("haft");
    let folder = tempfile::tempdir()?;
    let workspace = folder.path().join("ws");
    fs::create_dir(&workspace)?;
    fs::write(workspace.join("a.png"), picture()?)?;
    fs::write(workspace.join("a.pdf"), document())?;
    fs::write(
        workspace.join("a.svg"),
        "<svg xmlns='http://www.w3.org/2000/svg' width='600' height='400'><circle cx='200' cy='200' r='150'/></svg>",
    )?;
    let host = serve_page()?;
    let open =
        |name: &str, decodes_here| session(folder.path(), &workspace, name, &haft, &host, decodes_here);
    let (apart, here) = (open("apart", false)?, open("here", true)?);
    let calls = [
        ("image_view of a PNG", "image_view", json!({"path": "a.png"})),
        ("image_view of an SVG", "image_view", json!({"path": "a.svg"})),
        ("image_view of a PDF page", "image_view", json!({"path": "a.pdf"})),
        ("read of a PDF", "read", json!({"path": "a.pdf"})),
        ("web_fetch of a page of 1 MB", "web_fetch", json!({"url": format!("http://{host}/")})),
        ("shell true", "shell", json!({"command": "true"})),
    ];
    let mut out = io::stdout().lock();
    writeln!(out, "| call | isolated, first | isolated, warm | in process | difference |")?;
    writeln!(out, "|---|---|---|---|---|")?;
    for (name, tool, arguments) in calls {
        // A decoder starts with its session's first file; a new session shows what that costs.
        let first = timed(&open("first", false)?, tool, &arguments).await?;
        timed(&apart, tool, &arguments).await?;
        timed(&here, tool, &arguments).await?;
        let (mut isolated, mut floor) = (Vec::new(), Vec::new());
        for _ in 0..times {
            isolated.push(timed(&apart, tool, &arguments).await?);
            floor.push(timed(&here, tool, &arguments).await?);
        }
        let (isolated, floor) = (median(isolated), median(floor));
        let ms = |it: Duration| it.as_secs_f64() * 1e3;
        let more = ms(isolated) - ms(floor);
        writeln!(
            out,
            "| {name} | {:.2} ms | {:.2} ms | {:.2} ms | {more:+.2} ms |",
            ms(first),
            ms(isolated),
            ms(floor)
        )?;
    }
    drop(out);
    memory(&haft, folder.path(), &workspace)
}

fn session(
    folder: &Path,
    workspace: &Path,
    name: &str,
    haft: &Path,
    host: &str,
    decodes_here: bool,
) -> Result<Session, Trouble> {
    let settings = Settings {
        network: Default::default(),
        tool_files: ToolFiles::default(),
        workspace: workspace.to_owned(),
        roots: Vec::new(),
        state: folder.join(name).join("state"),
        config: folder.join(name).join("config"),
        policy: Policy { approve: Approve::Auto, hosts: Arc::from([host.to_owned()]), ..Policy::default() },
        other_names: kit::files::OtherNames::Refuse,
        allowed: None,
        deadline: DEADLINE,
        secrets: Secrets::collect([("API_TOKEN", "correct-horse-battery-staple")], []),
        commands: Commands {
            keeper: Some(haft.to_owned()),
            decodes_here,
            variables: std::env::vars().collect(),
            ..Commands::default()
        },
    };
    Ok(Runtime::open(settings, tools::all())?.session(None, "bench", Arc::new(Unattended)))
}

/// Returns the duration of a call; a fault is an error.
async fn timed(session: &Session, tool: &str, arguments: &Value) -> Result<Duration, Trouble> {
    let call = Call::new(tool, arguments.clone());
    let begun = Instant::now();
    let answer = session.call(call).await;
    let took = begun.elapsed();
    if answer.result.is_err() { Err(answer.as_text().into()) } else { Ok(took) }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// A PNG of 800 x 600 pixels.
fn picture() -> Result<Vec<u8>, Trouble> {
    let picture = RgbImage::from_fn(800, 600, |x, y| {
        let part = |it: u32| u8::try_from(it % 256).unwrap_or(0);
        Rgb([part(x / 50 * 50), 90, part(y / 3)])
    });
    let mut bytes = Vec::new();
    picture.write_to(&mut Cursor::new(&mut bytes), ImageFormat::Png)?;
    Ok(bytes)
}

/// A page of text.
fn document() -> Vec<u8> {
    let lines: String =
        (0..50).map(|it| format!("({it}: a line of a document as people write them) Tj 0 -14 Td ")).collect();
    let content = format!("BT /F 11 Tf 50 800 Td {lines} ET");
    format!(
        "%PDF-1.4\n1 0 obj <</Type/Catalog/Pages 2 0 R>> endobj\n2 0 obj <</Type/Pages/Kids[4 0 R]/Count 1>> endobj\n\
         3 0 obj <</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>> endobj\n\
         4 0 obj <</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents 5 0 R/Resources<</Font<</F 3 0 R>>>>>> endobj\n\
         5 0 obj <</Length {}>> stream\n{content}\nendstream endobj\ntrailer <</Root 1 0 R>>\n%%EOF\n",
        content.len()
    )
    .into_bytes()
}

/// Serves a page to every client; returns its host and port.
fn serve_page() -> Result<String, Trouble> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let host = listener.local_addr()?.to_string();
    let mut page =
        "<!doctype html><html><head><title>A long page</title></head><body><article><h1>All of it</h1>"
            .to_owned();
    let mut number = 0;
    while page.len() < PAGE {
        number += 1;
        page.push_str(&format!(
            "<h2>Part {number}</h2><p>Some <b>text</b> with <a href='/{number}'>a link</a> and <code>code</code>, \
             long enough to be a paragraph that somebody reads.</p><ul><li>one<li>two</ul>"
        ));
    }
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{page}",
        page.len()
    );
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 4096];
            // A client that hangs up early is not waited for.
            let _ = stream.read(&mut request).and_then(|_| stream.write_all(answer.as_bytes()));
        }
    });
    Ok(host)
}

/// Prints the memory of an idle session of the program: before its first picture, and after it.
fn memory(haft: &Path, folder: &Path, workspace: &Path) -> Result<(), Trouble> {
    let mut command = Command::new(haft);
    command
        .env("HAFT_STATE_DIR", folder.join("idle/state"))
        .env("HAFT_CONFIG_DIR", folder.join("idle/config"))
        .arg("--dir")
        .arg(workspace)
        .arg("mcp");
    let mut server = Client::start(command)?;
    server.greet()?;
    server.ask("tools/call", &json!({"name": "read", "arguments": {"path": "."}}))?;
    let before = used(server.id());
    server.ask("tools/call", &json!({"name": "image_view", "arguments": {"path": "a.png"}}))?;
    let after = used(server.id());
    server.close()?;
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "\nidle session, memory of its own: {before} KB before its first picture, {after} KB with a warm decoder"
    )?;
    Ok(())
}

/// The anonymous memory of a process and its children, in KB.
fn used(pid: u32) -> u64 {
    let own = |pid: &str| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|it| it.strip_prefix("RssAnon:").map(str::to_owned));
        line.and_then(|it| it.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or(0)
    };
    let tasks = PathBuf::from(format!("/proc/{pid}/task"));
    let children = fs::read_dir(tasks).into_iter().flatten().flatten();
    let children = children.map(|it| fs::read_to_string(it.path().join("children")).unwrap_or_default());
    let children: u64 = children.map(|it| it.split_whitespace().map(own).sum::<u64>()).sum();
    own(&pid.to_string()) + children
}

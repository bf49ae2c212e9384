//! Many sessions that stream at once, each with some watchers: the time from the model's byte to the watcher, memory, processor
//! time, pieces that were lost or came twice. The same for haft and for KohakuTerrarium.

use std::{collections::HashMap, path::Path, time::Duration};

use serde_json::Value;
use tokio::{sync::oneshot, task::JoinSet, time::timeout};

use super::{
    Outcome, TIMEOUT,
    events::{Parser, Row, Sent},
    haft::{Served, Stage, page_weight},
    http::Incoming,
    model::{Model, PACE, Stamps, now},
    peer::{Terrarium, WebSocket},
};
use crate::processes::{cpu, memory, tree};

/// The amounts of a load.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) sessions: usize,
    pub(super) watchers: usize,
    /// Pieces of each session's answer.
    pub(super) pieces: usize,
}

/// The result of a load.
pub(super) struct Loaded {
    pub(super) name: String,
    latencies: Vec<u64>,
    /// From the prompt to the first piece, at each watcher.
    first: Vec<u64>,
    /// Pieces that a watcher did not see, and those that it saw again.
    pub(super) lost: usize,
    pub(super) repeated: usize,
    /// Failed requests and broken streams.
    pub(super) errors: Vec<String>,
    /// Memory in KB: with idle sessions that are watched, the most in the load.
    idle: u64,
    most: u64,
    /// Processor seconds of the load.
    cpu: f64,
    /// Weight of the page: a sentence.
    page: String,
}

impl Loaded {
    /// Returns the cells of this column.
    pub(super) fn cells(mut self) -> Vec<String> {
        self.latencies.sort_unstable();
        self.first.sort_unstable();
        vec![
            self.name.clone(),
            format!("{}, {}", at(&self.latencies, 50), at(&self.latencies, 99)),
            at(&self.latencies, 100),
            format!("{}, {}", at(&self.first, 50), at(&self.first, 99)),
            format!("{} of {}, {}", self.lost, self.latencies.len() + self.lost, self.repeated),
            self.errors.len().to_string(),
            format!("{:.0} MB, {:.0} MB", self.idle as f64 / 1e3, self.most as f64 / 1e3),
            format!("{:.1} s", self.cpu),
            self.page.clone(),
        ]
    }
}

/// The heads of the rows.
pub(super) fn heads(load: Load) -> Vec<String> {
    let Load { sessions, watchers, pieces } = load;
    let each = PACE.as_millis();
    let mut all = vec![format!(
        "{sessions} sessions with {watchers} watchers each, {pieces} pieces, one every {each} ms"
    )];
    all.extend(
        [
            "model's byte to a watcher: p50, p99",
            "the same, the longest",
            "prompt to the first piece at a watcher: p50, p99",
            "pieces lost, repeated",
            "errors",
            "memory of the server and its processes: idle, most",
            "processor time",
            "page",
        ]
        .map(str::to_owned),
    );
    all
}

/// Returns the quantile in milliseconds.
fn at(sorted: &[u64], part: usize) -> String {
    let index = (sorted.len() * part / 100).min(sorted.len().saturating_sub(1));
    sorted.get(index).map_or_else(|| "-".to_owned(), |it| format!("{:.2} ms", *it as f64 / 1e6))
}

/// A stream of one watcher.
enum Watcher {
    /// The stream, and how much of each text came.
    Haft(Incoming, Parser, HashMap<u64, usize>),
    Terrarium(WebSocket),
}

impl Watcher {
    /// Returns more text of the model, and whether the turn is over.
    async fn next(&mut self) -> Outcome<(String, u64, bool)> {
        match self {
            Self::Haft(incoming, parser, known) => {
                let piece = incoming.next().await?.ok_or("the stream ended")?;
                let came = now();
                let (mut text, mut is_over) = (String::new(), false);
                for sent in parser.take(&piece)? {
                    let Sent::Row(row) = sent else { continue };
                    match row.kind() {
                        "text" => text.push_str(new_text(&row, known)),
                        "turn_ended" => is_over = true,
                        _ => {}
                    }
                }
                Ok((text, came, is_over))
            }
            Self::Terrarium(socket) => {
                let message = socket.next().await?.ok_or("the server closed")?;
                let came = now();
                let field = |name: &str| message.get(name).and_then(Value::as_str).unwrap_or_default();
                let text = if field("type") == "text" { field("content").to_owned() } else { String::new() };
                Ok((text, came, field("type") == "processing_end"))
            }
        }
    }
}

/// Returns what a row adds to its text: one that stands for earlier ones has all of it again.
fn new_text<'a>(row: &'a Row, known: &mut HashMap<u64, usize>) -> &'a str {
    let item = row.whole.get("item").and_then(Value::as_u64).unwrap_or(row.seq);
    let (text, known) = (row.text("text"), known.entry(item).or_default());
    let is_whole = row.whole.get("whole") == Some(&Value::Bool(true));
    let new = if is_whole { text.get(*known..).unwrap_or_default() } else { text };
    *known += new.len();
    new
}

/// The pieces that one watcher saw.
#[derive(Default)]
struct Watched {
    latencies: Vec<u64>,
    first: Option<u64>,
    lost: usize,
    repeated: usize,
    error: Option<String>,
}

/// Watches until the turn is over.
async fn watch(mut watcher: Watcher, pieces: usize, began: oneshot::Receiver<u64>) -> Watched {
    let (mut seen, mut stamps, mut arrived) = (Watched::default(), Stamps::default(), None);
    loop {
        let (text, came, is_over) = match timeout(TIMEOUT, watcher.next()).await {
            Ok(Ok(it)) => it,
            Ok(Err(error)) => {
                seen.error = Some(error.to_string());
                break;
            }
            Err(_) => {
                seen.error = Some("nothing came any more".to_owned());
                break;
            }
        };
        let new = stamps.take(&text);
        let from = stamps.sent.len() - new;
        seen.latencies.extend(stamps.sent.iter().skip(from).map(|sent| came.saturating_sub(*sent)));
        if new > 0 {
            arrived.get_or_insert(came);
        }
        if is_over {
            break;
        }
    }
    let total = stamps.sent.len();
    stamps.sent.sort_unstable();
    stamps.sent.dedup();
    seen.repeated = total - stamps.sent.len();
    seen.lost = pieces.saturating_sub(stamps.sent.len());
    seen.first = arrived.zip(began.await.ok()).map(|(came, began)| came.saturating_sub(began));
    seen
}

/// Samples the memory of a server until the load is over.
async fn most_memory(id: u32, mut over: oneshot::Receiver<()>) -> u64 {
    let mut most = 0;
    loop {
        most = most.max(memory(&tree(id)));
        tokio::select! {
            _ = &mut over => return most,
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
        }
    }
}

/// Loads `haft serve`.
pub(super) async fn haft(program: &Path, load: Load) -> Outcome<Loaded> {
    let model = Model::start(load.pieces)?;
    let stage = Stage::new(program, &format!("http://{}/v1#load", model.address))?;
    let served = stage.serve()?;
    let (packed, whole) = page_weight(&served).await?;
    let page = format!("{:.0} KB, {:.0} KB gzipped", whole as f64 / 1e3, packed as f64 / 1e3);
    let (mut sessions, mut watchers) = (Vec::new(), Vec::new());
    for _ in 0..load.sessions {
        let session = served.session().await?;
        for _ in 0..load.watchers {
            let incoming = served.events(&session, 0).await?;
            watchers.push(Watcher::Haft(incoming, Parser::default(), HashMap::new()));
        }
        sessions.push(session);
    }
    let prompts = Prompts::Haft(&served, sessions);
    run("haft".to_owned(), served.id(), load, watchers, prompts, page).await
}

/// Loads KohakuTerrarium's server.
pub(super) async fn terrarium(python: &Path, load: Load) -> Outcome<Loaded> {
    let model = Model::start(load.pieces)?;
    let server = Terrarium::start(python, model.address).await?;
    let [scripts, files, packed] = server.weight.map(|it| it as f64 / 1e6);
    let page = format!("{files:.1} MB, of which scripts {scripts:.1} MB, {packed:.1} MB gzipped");
    let (mut speakers, mut watchers) = (Vec::new(), Vec::new());
    for _ in 0..load.sessions {
        let place = server.session().await?;
        // One that only speaks: the others are watched from their first frame on.
        speakers.push(server.watch(&place).await?);
        for _ in 0..load.watchers {
            watchers.push(Watcher::Terrarium(server.watch(&place).await?));
        }
    }
    let name = format!("KohakuTerrarium {}", server.version);
    run(name, server.id(), load, watchers, Prompts::Terrarium(speakers), page).await
}

/// How each session is prompted.
enum Prompts<'a> {
    Haft(&'a Served, Vec<String>),
    Terrarium(Vec<WebSocket>),
}

/// Prompts all sessions, and waits until all watchers have seen the end.
async fn run(
    name: String,
    id: u32,
    load: Load,
    watchers: Vec<Watcher>,
    mut prompts: Prompts<'_>,
    page: String,
) -> Outcome<Loaded> {
    // The server may still settle.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let idle = memory(&tree(id));
    let (over, is_over) = oneshot::channel();
    let most = tokio::spawn(most_memory(id, is_over));
    let (mut tasks, mut begins) = (JoinSet::new(), Vec::new());
    for watcher in watchers {
        let (began, is_begun) = oneshot::channel();
        begins.push(began);
        tasks.spawn(watch(watcher, load.pieces, is_begun));
    }
    let (before, mut errors) = (cpu(&tree(id)), Vec::new());
    let mut begins = begins.into_iter();
    for at in 0..load.sessions {
        let began = now();
        let sent = match &mut prompts {
            Prompts::Haft(served, sessions) => match sessions.get(at) {
                Some(session) => served.prompt(session, "go").await,
                None => Ok(()),
            },
            Prompts::Terrarium(speakers) => match speakers.get_mut(at) {
                Some(speaker) => speaker.say("go").await,
                None => Ok(()),
            },
        };
        errors.extend(sent.err().map(|it| it.to_string()));
        // A watcher that has ended needs no time any more.
        for watcher in begins.by_ref().take(load.watchers) {
            let _ = watcher.send(began);
        }
    }
    // Whoever only speaks takes what comes, or its server would wait.
    if let Prompts::Terrarium(speakers) = prompts {
        for mut speaker in speakers {
            tokio::spawn(async move { while let Ok(Some(_)) = speaker.next().await {} });
        }
    }
    let mut loaded = Loaded {
        name,
        page,
        idle,
        errors,
        latencies: Vec::new(),
        first: Vec::new(),
        lost: 0,
        repeated: 0,
        most: 0,
        cpu: 0.0,
    };
    while let Some(watched) = tasks.join_next().await {
        let watched = watched?;
        loaded.latencies.extend(watched.latencies);
        loaded.first.extend(watched.first);
        loaded.lost += watched.lost;
        loaded.repeated += watched.repeated;
        loaded.errors.extend(watched.error);
    }
    loaded.cpu = cpu(&tree(id)) - before;
    let _ = over.send(());
    loaded.most = most.await?;
    Ok(loaded)
}

//! `haft serve` under load and under faults: what watchers see, how late, and what is left after cuts, kills and a full disk.

mod events;
mod faults;
mod haft;
mod http;
mod load;
mod model;
mod peer;

use std::{
    error::Error,
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{sync::Semaphore, task::JoinSet};

use self::load::{Load, Loaded};

/// The result of a step, or why there is none.
pub type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Time limit against a hang.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Servers that are killed at the same time: most of a life is waiting.
const LANES: usize = 8;

/// The amounts of a run.
pub struct Amounts {
    /// Sessions that stream at once.
    pub sessions: usize,
    /// Watchers of each.
    pub watchers: usize,
    /// Pieces of each answer.
    pub pieces: usize,
    /// Connections that are cut.
    pub cuts: usize,
    /// Watchers of one session.
    pub crowd: usize,
    /// Calls of the session that slow readers read.
    pub calls: usize,
    /// Of where the connections are cut.
    pub seed: u64,
}

/// The amounts of a whole run.
pub const WHOLE: Amounts =
    Amounts { sessions: 64, watchers: 4, pieces: 300, cuts: 1000, crowd: 100, calls: 200, seed: 20_261_128 };

/// The amounts of a run below two minutes.
pub const SAMPLE: Amounts = Amounts { sessions: 8, pieces: 40, cuts: 200, crowd: 20, calls: 50, ..WHOLE };

/// Prints the load of haft, and of KohakuTerrarium where this interpreter has it.
///
/// # Errors
/// When it can't be measured, or haft loses or repeats a piece.
pub async fn load(
    haft: &Path,
    python: Option<&Path>,
    amounts: &Amounts,
    out: &mut impl Write,
) -> Outcome<()> {
    let Amounts { sessions, watchers, pieces, .. } = *amounts;
    let load = Load { sessions, watchers, pieces };
    let ours = load::haft(haft, load).await?;
    let peer = match python {
        Some(python) => Some(load::terrarium(python, load).await?),
        None => None,
    };
    let bad = complaint(&ours);
    for loaded in [Some(&ours), peer.as_ref()].into_iter().flatten() {
        for error in loaded.errors.iter().take(5) {
            writeln!(out, "{}: {error}\n", loaded.name)?;
        }
    }
    let columns: Vec<Vec<String>> = [Some(ours), peer].into_iter().flatten().map(Loaded::cells).collect();
    for (at, head) in load::heads(load).into_iter().enumerate() {
        let cells: Vec<&str> = columns.iter().filter_map(|it| it.get(at).map(String::as_str)).collect();
        writeln!(out, "| {head} | {} |", cells.join(" | "))?;
        if at == 0 {
            writeln!(out, "|---|{}", "---|".repeat(cells.len()))?;
        }
    }
    out.flush()?;
    bad.map_or(Ok(()), |it| Err(it.into()))
}

fn complaint(loaded: &Loaded) -> Option<String> {
    let is_bad = loaded.lost + loaded.repeated + loaded.errors.len() > 0;
    is_bad.then(|| {
        format!("haft lost {} pieces, repeated {}: {:?}", loaded.lost, loaded.repeated, loaded.errors)
    })
}

/// Prints what faults left.
///
/// # Errors
/// When a fault can't be made, or a watcher has something else than the transcript.
pub async fn faults(haft: &Path, amounts: &Amounts, out: &mut impl Write) -> Outcome<()> {
    writeln!(out, "| fault | what is left |\n|---|---|")?;
    let mut bad = faults::cuts::run(haft, amounts.cuts, amounts.seed).await?;
    row(out, &format!("connections cut at any byte: {}", amounts.cuts), &bad)?;
    let killed = kills(haft).await?;
    row(out, &format!("kill -9 at a row of each of {} kinds", faults::kills::KINDS.len()), &killed)?;
    let crowd = faults::crowd::run(haft, amounts.crowd, amounts.calls).await?;
    let [before, with] = crowd.memory.map(|it| it as f64 / 1e3);
    let what = format!(
        "{} watchers of one session, 20 readers beside them that take nothing of its {:.1} MB; memory {before:.0} MB, then {with:.0} MB",
        amounts.crowd,
        crowd.bytes as f64 / 1e6
    );
    row(out, &what, &crowd.bad)?;
    let (full, said) = faults::disk::run(haft).await?;
    row(out, &format!("disk full in mid-stream; a prompt gets `{said}`"), &full)?;
    bad.extend(killed.into_iter().chain(crowd.bad).chain(full));
    if bad.is_empty() { Ok(()) } else { Err(format!("something was lost or repeated: {bad:#?}").into()) }
}

fn row(out: &mut impl Write, what: &str, bad: &[String]) -> Outcome<()> {
    let left = if bad.is_empty() {
        "the transcript, each row once".to_owned()
    } else {
        format!("{} differences", bad.len())
    };
    writeln!(out, "| {what} | {left} |")?;
    Ok(out.flush()?)
}

/// Kills a server at each kind of row, some at the same time.
async fn kills(haft: &Path) -> Outcome<Vec<String>> {
    let (lanes, mut tasks) = (Arc::new(Semaphore::new(LANES)), JoinSet::new());
    for kind in faults::kills::KINDS {
        let (haft, lanes): (PathBuf, _) = (haft.to_owned(), lanes.clone());
        tasks.spawn(async move {
            let _lane = lanes.acquire().await?;
            faults::kills::run(&haft, kind).await
        });
    }
    let mut bad = Vec::new();
    while let Some(done) = tasks.join_next().await {
        match done? {
            Ok(it) => bad.extend(it),
            Err(error) => bad.push(error.to_string()),
        }
    }
    Ok(bad)
}

//! The sender of a run: it offers work, waits for each answer, and after its death offers again what has no answer.

use std::{collections::BTreeSet, path::Path, sync::Arc, time::Duration};

use engine::{Engine, Key, Outcome, State, Update};
use futures_util::StreamExt as _;
use tokio::{task::JoinSet, time::sleep};

use super::{Files, Trouble, append, is_idempotent, lines, opened};
use crate::engine_works;

/// How many pieces of work wait for an answer at once.
const OPEN: usize = 8;

/// Runs until it is killed, or until the run ends and all it offered has an answer.
///
/// # Errors
/// When the files of the run cannot be read or written.
pub async fn run_sender(folder: &Path, url: &str, nkey: &str, name: &str) -> Result<(), Trouble> {
    let files = Files::of(folder);
    let engine = opened(url, folder, nkey).await;
    let key = |step| engine_works::key(name, step);
    let mine = |it: &(String, String)| it.0.starts_with(&format!("{name}-"));
    let answered: BTreeSet<String> =
        lines(&files.answers())?.into_iter().filter(mine).map(|it| it.0).collect();
    let offered = lines(&files.offers())?.into_iter().filter(mine).count();
    let mut next = u64::try_from(offered)?;
    let mut again: Vec<u64> = (0..next).filter(|it| !answered.contains(&key(*it).text())).collect();
    let mut open = JoinSet::new();
    loop {
        while open.len() < OPEN {
            let step = match again.pop() {
                Some(step) => step,
                None if files.end().exists() => break,
                None => {
                    append(&files.offers(), &key(next).text())?;
                    next += 1;
                    next - 1
                }
            };
            open.spawn(one(Arc::clone(&engine), files.clone(), key(step)));
        }
        match open.join_next().await {
            Some(ended) => ended??,
            None => return Ok(()),
        }
    }
}

async fn one(engine: Arc<dyn Engine>, files: Files, key: Key) -> std::io::Result<()> {
    loop {
        if let Some(outcome) = answer(&*engine, &key).await {
            let text = match outcome {
                Outcome::Done { result, .. } => format!("done {}", result.as_str().unwrap_or_default()),
                Outcome::Failed { error } => format!("failed {error}"),
                Outcome::Interrupted => "interrupted".to_owned(),
                Outcome::Cancelled => "cancelled".to_owned(),
            };
            return append(&files.answers(), &format!("{} {text}", key.text()));
        }
        sleep(Duration::from_millis(50)).await;
    }
}

async fn answer(engine: &dyn Engine, key: &Key) -> Option<Outcome> {
    let work = engine_works::work(key.clone(), serde_json::Value::Null, is_idempotent(key.step));
    engine.offer(work).await.ok()?;
    let mut watch = engine.watch(key, 0).await.ok()?;
    while let Some(update) = watch.next().await {
        if let Update::State(status) = update.ok()?
            && let State::Ended(outcome) = status.state
        {
            return Some(outcome);
        }
    }
    None
}

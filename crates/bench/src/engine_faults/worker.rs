//! The worker of a run: it does what a worker of haft does, with a line in a file as the work.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use engine::{Engine, Error, Lease, Outcome};
use tokio::time::{Instant, sleep};

use super::{Files, LEASE, Trouble, append, opened};
use crate::engine_works::worker;

/// How many pieces of work it runs at once.
const SLOTS: u32 = 2;

/// Runs until it is killed.
///
/// # Errors
/// When the files of the run cannot be written.
pub async fn run_worker(folder: &Path, url: &str, nkey: &str, name: &str) -> Result<(), Trouble> {
    let engine = opened(url, folder, nkey).await;
    let count = Arc::new(AtomicU64::new(0));
    let mut slots = tokio::task::JoinSet::new();
    for _ in 0..SLOTS {
        let (engine, files, count) = (Arc::clone(&engine), Files::of(folder), Arc::clone(&count));
        let this = worker(format!("{name}-{}", std::process::id()), SLOTS);
        slots.spawn(async move {
            loop {
                match engine.claim(&this).await {
                    Ok(Some((work, lease))) => {
                        let result = format!("{}-{}", this.id, count.fetch_add(1, Ordering::Relaxed));
                        do_work(&*engine, &files, lease, &work.key.text(), &result).await?;
                    }
                    Ok(None) => return Ok::<(), std::io::Error>(()),
                    Err(_) => sleep(Duration::from_millis(50)).await,
                }
            }
        });
    }
    while let Some(ended) = slots.join_next().await {
        ended??;
    }
    Ok(())
}

async fn do_work(
    engine: &dyn Engine,
    files: &Files,
    mut lease: Lease,
    key: &str,
    result: &str,
) -> std::io::Result<()> {
    if engine.begin(&mut lease).await.is_err() {
        return Ok(());
    }
    append(&files.effects(), &format!("{key} {result}"))?;
    // One of eight takes longer than a lease.
    let long = result.bytes().map(u32::from).sum::<u32>().is_multiple_of(8);
    if !works_for(engine, &mut lease, if long { LEASE * 3 / 2 } else { Duration::from_millis(20) }).await {
        return Ok(());
    }
    let outcome = Outcome::Done { result: result.into(), patch: None };
    loop {
        match engine.finish(&mut lease, outcome.clone()).await {
            Ok(()) => return append(&files.accepted(), &format!("{key} {result}")),
            Err(Error::Unreachable(_)) => sleep(Duration::from_millis(50)).await,
            Err(_) => return Ok(()),
        }
    }
}

/// Renews the lease while the work takes its time, and returns whether it still holds.
async fn works_for(engine: &dyn Engine, lease: &mut Lease, time: Duration) -> bool {
    let end = Instant::now() + time;
    let mut renewed = Instant::now();
    while Instant::now() < end {
        sleep((LEASE / 3).min(end - Instant::now())).await;
        match engine.renew(lease).await {
            Ok(()) => renewed = Instant::now(),
            Err(Error::Unreachable(_)) if renewed.elapsed() < LEASE => {}
            // A result may still be accepted if nobody took the work over: it happened.
            Err(Error::Unreachable(_)) => return true,
            Err(_) => return false,
        }
    }
    true
}

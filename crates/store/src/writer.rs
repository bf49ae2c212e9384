//! The writer thread: commits queued work in batches, writes the log back into the database, and prunes when idle.

use std::time::{Duration, Instant};

use super::{
    Upkeep,
    connection::Open,
    error::Trouble,
    paths::Place,
    prune,
    queue::{Job, Queue, Waited, gone, probe},
    shared_connection::SharedConnection,
};

/// Time after a failed opening before the writer tries again, when there is work.
const RETRY: Duration = Duration::from_secs(1);
/// Idle time after a failed batch before the writer tries whether it can write again.
const PROBE: Duration = Duration::from_millis(500);
/// Idle time after which the writer prunes.
const QUIET: Duration = Duration::from_secs(60);
/// Limit of pruning when idle: a call that arrives meanwhile may wait this long.
const TIDY_AT_REST: Duration = Duration::from_secs(1);
/// Limit of pruning at exit.
const TIDY_AT_EXIT: Duration = Duration::from_millis(100);

/// Does the work of the queue until it is closed.
pub(super) fn run(
    place: &Place,
    queue: &Queue,
    connection: &SharedConnection,
    instance: &str,
    upkeep: &[Upkeep],
) {
    let _finish = Finish(queue);
    let (mut is_open, mut failed) = (false, None);
    let mut tidy = Some(QUIET);
    loop {
        // While the last batch is known to have failed, callers that wait for no result are refused: whether the cause is
        // gone is tried, so that it does not take another call.
        let is_failing = queue.trouble().is_some();
        let idle_after = if is_failing { Some(PROBE) } else { tidy.filter(|_| is_open) };
        let waited = queue.wait(idle_after);
        if matches!(waited, Waited::Idle) && !is_failing {
            prune::prune_daily(place, TIDY_AT_REST, upkeep);
            tidy = None;
            continue;
        }
        // Before the work is taken: a caller that finds the queue empty must not overtake it.
        let mut shared = connection.lock();
        let batch = match waited {
            Waited::Over => queue.take(),
            Waited::Idle => vec![probe()],
            Waited::Closed => break,
        };
        if !batch.is_empty() {
            transact(&mut shared.open, batch, place, instance, &mut failed, queue);
        }
        if let Some(open) = &shared.open {
            is_open = true;
            open.write_back(&place.database());
        }
        tidy = Some(QUIET);
    }
    let open = connection.lock().open.take();
    if let Some(open) = open {
        open.close(instance);
        prune::prune_daily(place, TIDY_AT_EXIT, upkeep);
    }
}

/// Marks the queue as finished when dropped, also after a panic.
struct Finish<'a>(&'a Queue);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        self.0.finish();
    }
}

/// Runs a batch in one transaction, and then answers. Opens the database for the first one, and again some time after that
/// has `failed`.
fn transact(
    open: &mut Option<Open>,
    mut batch: Vec<Box<dyn Job>>,
    place: &Place,
    instance: &str,
    failed: &mut Option<(Instant, Trouble)>,
    queue: &Queue,
) {
    let path = place.database();
    if open.is_none() && failed.as_ref().is_none_or(|(at, _)| at.elapsed() >= RETRY) {
        *failed = None;
        match Open::new(place, instance) {
            Ok(it) => *open = Some(it),
            Err(trouble) => *failed = Some((Instant::now(), trouble)),
        }
    }
    let committed = match (open, failed) {
        (Some(open), _) => open.begin(&path).and_then(|()| {
            for job in &mut batch {
                job.run(open.database());
            }
            open.commit(&path)
        }),
        (None, Some((_, trouble))) => Err(trouble.clone()),
        (None, None) => Err(gone()),
    };
    // The state before the answers: a caller that has its answer sees the state of the same batch.
    queue.note(committed.as_ref().copied());
    for job in batch {
        job.finish(&path, committed.as_ref().copied());
    }
}

//! Approval time: the time that a person takes to answer, which counts neither for deadlines nor as a call's
//! duration.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

/// The time that a person was asked: for one call, or for all calls of a session.
pub(crate) struct AskedTime {
    now: watch::Sender<Now>,
    /// The session or call whose time includes this one.
    within: Option<Arc<Self>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Now {
    /// The number of open questions.
    standing: usize,
    /// The start of the present period with an open question.
    since: Option<Instant>,
    /// The sum of the earlier periods.
    total: Duration,
}

impl Default for AskedTime {
    fn default() -> Self {
        Self { now: watch::Sender::new(Now::default()), within: None }
    }
}

impl AskedTime {
    /// Creates the time of a call, which also counts for the session or the call that it belongs to.
    pub(crate) fn within(above: &Arc<Self>) -> Arc<Self> {
        Arc::new(Self { within: Some(above.clone()), ..Self::default() })
    }

    /// Begins a question, which is open until the result is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> OpenQuestion {
        let mut all = vec![self.clone()];
        while let Some(above) = all.last().and_then(|it| it.within.clone()) {
            all.push(above);
        }
        for it in &all {
            it.now.send_modify(|now| {
                now.standing += 1;
                now.since.get_or_insert_with(Instant::now);
            });
        }
        OpenQuestion(all)
    }

    /// Returns the time so far during which at least one question was open.
    pub(crate) fn total(&self) -> Duration {
        self.now.borrow().total()
    }

    /// Resolves at the deadline, extended by the time that a person was asked since the total was `from`.
    pub(crate) async fn passed(&self, deadline: Instant, from: Duration) {
        let mut changes = self.now.subscribe();
        loop {
            let now = *changes.borrow_and_update();
            let until = deadline + now.total.saturating_sub(from);
            tokio::select! {
                () = sleep_until(until), if now.standing == 0 => return,
                // `self` holds the sender, so there can be another change.
                _ = changes.changed() => {}
            }
        }
    }
}

impl Now {
    fn total(&self) -> Duration {
        self.total + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

/// An open question.
pub(crate) struct OpenQuestion(Vec<Arc<AskedTime>>);

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        for it in &self.0 {
            it.now.send_modify(|now| {
                now.standing = now.standing.saturating_sub(1);
                if now.standing == 0 {
                    now.total = now.total();
                    now.since = None;
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn deadline_is_extended_by_the_time_of_a_question() {
        let session = Arc::<AskedTime>::default();
        let call = AskedTime::within(&session);
        let began = Instant::now();
        let asking = async {
            tokio::time::sleep(SECOND).await;
            let standing = call.begin();
            tokio::time::sleep(50 * SECOND).await;
            drop(standing);
        };
        let ((), ()) = tokio::join!(asking, session.passed(began + 10 * SECOND, session.total()));
        assert_eq!(began.elapsed(), 60 * SECOND);
        assert_eq!((call.total(), session.total()), (50 * SECOND, 50 * SECOND));
        // Earlier questions don't count.
        let later = Instant::now();
        session.passed(later + SECOND, session.total()).await;
        assert_eq!(later.elapsed(), SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn overlapping_questions_count_once() {
        let session = Arc::<AskedTime>::default();
        let (one, other) = (AskedTime::within(&session), AskedTime::within(&session));
        let first = one.begin();
        tokio::time::sleep(SECOND).await;
        let second = other.begin();
        tokio::time::sleep(SECOND).await;
        drop(first);
        tokio::time::sleep(SECOND).await;
        assert_eq!((one.total(), other.total(), session.total()), (2 * SECOND, 2 * SECOND, 3 * SECOND));
        drop(second);
    }
}

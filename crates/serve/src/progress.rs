//! Progress notifications: increasing, rate-limited, with a heartbeat.

use std::time::Duration;

use kit::services::Progress;
use rmcp::{
    RoleServer,
    model::{ProgressNotificationParam, ProgressToken},
    service::Peer,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

/// Minimum interval between two notifications.
const PACE: Duration = Duration::from_millis(100);

/// Time without a report after which a call's first heartbeat is sent; short calls need none.
const FIRST: Duration = Duration::from_secs(2);

/// Interval of further heartbeats. Some clients give up a call after a minute of silence.
const BEAT: Duration = Duration::from_secs(5);

/// The sender of a call's progress. Only the last report is kept.
pub(crate) struct Steps(watch::Sender<Option<Step>>);

#[derive(Clone)]
pub(crate) struct Step {
    done: f64,
    total: Option<f64>,
    message: String,
}

impl Steps {
    pub(crate) fn new() -> (Self, watch::Receiver<Option<Step>>) {
        let (sender, receiver) = watch::channel(None);
        (Self(sender), receiver)
    }
}

impl Progress for Steps {
    fn report(&self, done: f64, total: Option<f64>, message: &str) {
        self.0.send_replace(Some(Step { done, total, message: message.to_owned() }));
    }
}

/// Notifies the client of each report that increases, rate-limited, until the call is `over`; without a
/// report for a while, of a heartbeat. When this returns, no notification is pending.
pub(crate) async fn notify(
    mut steps: watch::Receiver<Option<Step>>,
    peer: &Peer<RoleServer>,
    token: ProgressToken,
    over: &CancellationToken,
) {
    let began = Instant::now();
    let mut course = Course::default();
    let mut beat = began + FIRST;
    let mut reports = true;
    loop {
        let told = tokio::select! {
            biased;
            more = steps.changed(), if reports => {
                reports = more.is_ok();
                let step = steps.borrow_and_update().clone().filter(|_| reports);
                step.and_then(|step| course.step(step))
            }
            () = over.cancelled() => return,
            () = sleep_until(beat) => Some(course.beat(began.elapsed())),
        };
        let Some(told) = told else { continue };
        beat = Instant::now() + BEAT;
        if peer.notify_progress(param(token.clone(), told)).await.is_err() {
            return;
        }
        tokio::select! {
            () = sleep(PACE) => {}
            () = over.cancelled() => {}
        }
    }
}

/// The progress that a client was notified of: it only increases.
#[derive(Default)]
struct Course {
    told: Option<f64>,
    /// The progress of heartbeats before the first report; reports count from there.
    base: f64,
    last: Option<Step>,
}

impl Course {
    /// Returns the notification for a report; `None`, if it does not increase.
    fn step(&mut self, step: Step) -> Option<Step> {
        // JSON has no infinity and no NaN.
        if !step.done.is_finite() {
            return None;
        }
        if self.last.is_none() {
            self.base = self.told.unwrap_or(0.0);
        }
        let done = self.base + step.done;
        let further = self.told.is_none_or(|told| done > told);
        self.last = Some(step.clone());
        if !further {
            return None;
        }
        self.told = Some(done);
        Some(Step { done, total: step.total.map(|total| self.base + total), ..step })
    }

    /// Returns a heartbeat: the last report again, or else the time taken.
    fn beat(&mut self, passed: Duration) -> Step {
        let seconds = passed.as_secs_f64().round();
        let (done, total, message) = match (&self.last, self.told) {
            (Some(last), told) => (
                told.unwrap_or(self.base).next_up(),
                last.total.map(|total| self.base + total),
                last.message.clone(),
            ),
            (None, Some(told)) => (seconds.max(told.next_up()), None, format!("{seconds} s so far")),
            (None, None) => (seconds, None, format!("{seconds} s so far")),
        };
        self.told = Some(done);
        Step { done, total, message }
    }
}

fn param(token: ProgressToken, step: Step) -> ProgressNotificationParam {
    let mut param = ProgressNotificationParam::new(token, step.done);
    param.total = step.total.filter(|total| total.is_finite());
    param.message = Some(step.message).filter(|message| !message.is_empty());
    param
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(done: f64) -> Step {
        Step { done, total: Some(4.0), message: "a part".to_owned() }
    }

    #[test]
    fn a_silent_call_says_how_long_it_has_taken_and_its_steps_go_on_from_there() {
        let mut course = Course::default();
        let beat = course.beat(Duration::from_secs(2));
        assert_eq!((beat.done, beat.total, beat.message.as_str()), (2.0, None, "2 s so far"));
        assert_eq!(course.beat(Duration::from_secs(7)).done, 7.0);
        let told = course.step(step(1.0)).map(|it| (it.done, it.total, it.message));
        assert_eq!(told, Some((8.0, Some(11.0), "a part".to_owned())));
        assert!(course.step(step(1.0)).is_none(), "it is not further");
        let again = course.beat(Duration::from_secs(12));
        assert!(again.done > 8.0 && again.done < 8.01 && again.message == "a part");
        assert_eq!(course.step(step(2.0)).map(|it| it.done), Some(9.0));
    }

    #[test]
    fn progress_uses_the_steps_that_a_call_reports() {
        let mut course = Course::default();
        assert_eq!(course.step(step(0.0)).map(|it| (it.done, it.total)), Some((0.0, Some(4.0))));
        assert!(course.step(step(f64::NAN)).is_none());
        assert_eq!(course.step(step(4.0)).map(|it| it.done), Some(4.0));
    }
}

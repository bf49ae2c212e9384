//! Owners that are suspended, by Ctrl-Z or a signal: they hold their sessions, and answer nothing until they are continued.

use std::time::Duration;

use kit::{Fault, Kind, procs::is_suspended};
use store::OwnerRecord;
use tokio::time::sleep;

use super::Sessions;

/// How often an owner is checked while it works on a request.
const LOOK: Duration = Duration::from_millis(500);

impl Sessions {
    /// Returns the error of asking this owner, if it is suspended.
    pub(super) async fn suspended(&self, session: &str, owner: &OwnerRecord) -> Option<Fault> {
        // The id may be another process's by now: only one that lives holds its session.
        if !is_suspended(owner.pid) || !self.is_alive(owner).await.unwrap_or(false) {
            return None;
        }
        let what = format!(
            "process {} runs the session `{session}` and is suspended (Ctrl-Z), so it answers nothing",
            owner.pid
        );
        let next = format!("Continue it with `fg` in its terminal, or with `kill -CONT {}`.", owner.pid);
        Some(Fault::new(Kind::Unavailable, what).next(next))
    }

    /// Waits until the owner of a session is suspended, and stays so for a moment. Returns the error of a request that it has.
    pub(super) async fn until_suspended(&self, session: &str) -> Fault {
        let mut before = None;
        loop {
            sleep(LOOK).await;
            let owner = self.owner_of(session).await.ok().flatten();
            let now = match &owner {
                Some(owner) => self.suspended(session, owner).await.map(|fault| (owner.epoch, fault)),
                None => None,
            };
            match (before, now) {
                (Some(earlier), Some((epoch, fault))) if earlier == epoch => {
                    let next = fault.next.unwrap_or_default();
                    let next =
                        format!("{next} What it was asked for before is done then: don't send it again.");
                    return Fault { next: Some(next), ..fault };
                }
                (_, now) => before = now.map(|it| it.0),
            }
        }
    }
}

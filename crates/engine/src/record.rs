//! The state machine of one piece of work: pure transitions of its record. Engines store a transition by compare-and-set of
//! the revision that it was computed from.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Grain, Key, Outcome, State, Status, work::Route};

/// How often work is offered again before the engine gives up on it.
pub(crate) const MOST_RETRIES: u32 = 20;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) key: Key,
    pub(crate) grain: Grain,
    pub(crate) route: Route,
    pub(crate) idempotent: bool,
    pub(crate) holding: Holding,
    pub(crate) cancel_requested: bool,
    pub(crate) retries: u32,
}

/// [`State`] with what the fence needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Holding {
    Offered,
    Leased {
        worker: String,
        claim: String,
        begun: bool,
        lease_ms: u64,
    },
    /// `claim` is the one that ended it, if one did. The outcome's result is packed.
    Ended {
        outcome: Outcome,
        claim: Option<String>,
    },
}

impl Record {
    pub(crate) fn status(&self, revision: u64) -> Status {
        let state = match &self.holding {
            Holding::Offered => State::Offered,
            Holding::Leased { worker, begun, .. } => State::Leased { worker: worker.clone(), begun: *begun },
            Holding::Ended { outcome, .. } => State::Ended(outcome.clone()),
        };
        Status { state, cancel_requested: self.cancel_requested, revision, retries: self.retries }
    }

    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.holding, Holding::Ended { .. })
    }

    /// Returns the length of its lease, if it is leased.
    pub(crate) fn lease(&self) -> Option<Duration> {
        match self.holding {
            Holding::Leased { lease_ms, .. } => Some(Duration::from_millis(lease_ms)),
            _ => None,
        }
    }

    /// Returns the record as this claim takes it, or `None` if it is not to be had.
    pub(crate) fn claimed(&self, worker: &str, claim: &str, lease: Duration) -> Option<Self> {
        if self.holding != Holding::Offered || self.cancel_requested {
            return None;
        }
        let leased = Holding::Leased {
            worker: worker.to_owned(),
            claim: claim.to_owned(),
            begun: false,
            lease_ms: u64::try_from(lease.as_millis()).unwrap_or(u64::MAX),
        };
        Some(Self { holding: leased, ..self.clone() })
    }

    /// The fence: returns why `claim` does not hold this record, or `Ok` if it does.
    pub(crate) fn held_by(&self, claim: &str) -> Result<(), String> {
        match &self.holding {
            Holding::Leased { claim: holder, .. } if holder == claim => Ok(()),
            Holding::Leased { worker, .. } => Err(format!("{worker} took it over")),
            Holding::Offered => Err("it was offered again".to_owned()),
            Holding::Ended { outcome: Outcome::Interrupted, .. } => Err("it ended as interrupted".to_owned()),
            Holding::Ended { .. } => Err("it has ended".to_owned()),
        }
    }

    pub(crate) fn ended_by(&self, claim: &str) -> bool {
        matches!(&self.holding, Holding::Ended { claim: Some(by), .. } if by == claim)
    }

    pub(crate) fn begun(&self) -> Self {
        let mut next = self.clone();
        if let Holding::Leased { begun, .. } = &mut next.holding {
            *begun = true;
        }
        next
    }

    pub(crate) fn ended(&self, outcome: Outcome, claim: Option<&str>) -> Self {
        let ended = Holding::Ended { outcome, claim: claim.map(str::to_owned) };
        Self { holding: ended, ..self.clone() }
    }

    /// Returns the record with a request to cancel it, or `None` if that changes nothing. Work of nobody ends.
    pub(crate) fn cancelled(&self) -> Option<Self> {
        match self.holding {
            Holding::Offered => Some(Self { cancel_requested: true, ..self.ended(Outcome::Cancelled, None) }),
            Holding::Leased { .. } if !self.cancel_requested => {
                Some(Self { cancel_requested: true, ..self.clone() })
            }
            _ => None,
        }
    }

    /// Returns the record after its holder was lost, or `None` if nobody holds it. Begun work is offered again only if it is
    /// idempotent.
    pub(crate) fn taken_over(&self) -> Option<Self> {
        let Holding::Leased { begun, .. } = self.holding else { return None };
        Some(match begun {
            true if !self.idempotent || self.cancel_requested || self.retries >= MOST_RETRIES => {
                self.ended(Outcome::Interrupted, None)
            }
            false if self.cancel_requested => self.ended(Outcome::Cancelled, None),
            false if self.retries >= MOST_RETRIES => {
                let error = format!("{} workers in a row were lost before they began it", self.retries + 1);
                self.ended(Outcome::Failed { error }, None)
            }
            _ => Self { holding: Holding::Offered, retries: self.retries + 1, ..self.clone() },
        })
    }
}

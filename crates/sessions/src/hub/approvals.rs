//! Approvals of a session, which wait for whoever attends. The log shows who decided.

use std::{future::Future, pin::Pin};

use kit::Fault;
use runtime::{Approver, Request, Verdict};

use crate::{
    event::{Approval, Decision},
    hub::Hub,
};

impl Hub {
    /// The approvals that wait for a decision.
    pub fn open_approvals(&self) -> Vec<Approval> {
        self.approvals.waiting()
    }

    /// How an approval was settled, and by whom, as long as that is remembered.
    pub fn how_approved(&self, id: &str) -> Option<String> {
        self.approvals.how_settled(id)
    }

    /// Decides an approval, which was shown with this hash. The first one who does wins.
    ///
    /// # Errors
    /// As [`ApprovalTable::decide`](crate::ApprovalTable::decide).
    pub fn decide(
        &self,
        id: &str,
        hash: &str,
        decision: Decision,
        words: Option<String>,
        by: &str,
    ) -> Result<(), Fault> {
        self.approvals.decide(id, hash, decision, words, by)
    }
}

impl Approver for Hub {
    fn approve(&self, request: Request) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>> {
        Box::pin(async move {
            if !Self::is_attended(self) {
                return Verdict::NobodyThere;
            }
            let (mut opened, answer) = self.approvals.open(self.new_id("a"), request);
            match self.answer(answer).await {
                Some(verdict) => verdict,
                None => {
                    opened.nobody_attended();
                    Verdict::NobodyThere
                }
            }
        })
    }

    fn asks_together(&self) -> bool {
        true
    }

    fn is_attended(&self, _: &str) -> bool {
        Self::is_attended(self)
    }
}

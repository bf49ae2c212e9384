//! Approval questions, from a call to the chat.

use std::{future::Future, pin::Pin};

use kit::services::Question;
use runtime::{Approver, Request, Verdict};
use tokio::sync::{mpsc, oneshot};

use crate::ask::AboutCall;

/// A question that waits for its answer. The asker withdraws it by closing the channel.
pub(crate) enum Asked {
    /// Asks whether this call may run.
    May(AboutCall, oneshot::Sender<Verdict>),
    /// Asks the person this question. The answer is `None` if they decline.
    Wants(Question, oneshot::Sender<Option<String>>),
}

impl Asked {
    /// Returns the call that the question is about, if there is one.
    pub(crate) fn call(&self) -> Option<&str> {
        match self {
            Self::May(request, _) => request.call.as_deref(),
            Self::Wants(..) => None,
        }
    }

    /// Answers that the person refuses, or does not want to answer.
    pub(crate) fn refuse(self) {
        // The asker may be gone.
        match self {
            Self::May(_, reply) => drop(reply.send(Verdict::No)),
            Self::Wants(_, reply) => drop(reply.send(None)),
        }
    }

    /// Returns whether the question was withdrawn.
    pub(crate) fn is_taken_back(&self) -> bool {
        match self {
            Self::May(_, reply) => reply.is_closed(),
            Self::Wants(_, reply) => reply.is_closed(),
        }
    }
}

/// Sends questions about plugins to the chat. Those of a session come with its events.
#[derive(Clone)]
pub(crate) struct InChat {
    to: mpsc::UnboundedSender<Asked>,
}

impl InChat {
    /// Returns the sender of questions, and the channel that receives them.
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Asked>) {
        let (to, from) = mpsc::unbounded_channel();
        (Self { to }, from)
    }
}

impl Approver for InChat {
    fn approve(&self, request: Request) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>> {
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            match self.to.send(Asked::May(request.into(), reply)) {
                Ok(()) => answer.await.unwrap_or(Verdict::No),
                Err(_) => Verdict::NobodyThere,
            }
        })
    }
}

//! Approval questions, from a call to the chat.

use std::{future::Future, pin::Pin};

use agent::{Asker, nobody};
use kit::{
    Fault,
    services::{Question, Soon},
};
use runtime::{Approver, Request, Verdict};
use tokio::sync::{mpsc, oneshot};

use crate::ask::{self, AboutCall};

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

    /// Returns whether the question was withdrawn.
    pub(crate) fn is_taken_back(&self) -> bool {
        match self {
            Self::May(_, reply) => reply.is_closed(),
            Self::Wants(_, reply) => reply.is_closed(),
        }
    }
}

/// A message from a call to the person in the chat.
pub(crate) enum ToPerson {
    Asks(Box<Asked>),
    /// A text that needs no answer, and the channel that reports that it was shown.
    Shows(String, oneshot::Sender<()>),
}

/// Sends questions to the chat.
#[derive(Clone)]
pub(crate) struct InChat {
    to: mpsc::UnboundedSender<ToPerson>,
}

impl InChat {
    /// Returns the sender of questions, and the channel that receives them.
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<ToPerson>) {
        let (to, from) = mpsc::unbounded_channel();
        (Self { to }, from)
    }
}

impl Approver for InChat {
    fn approve(&self, request: Request) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>> {
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            match self.to.send(ToPerson::Asks(Box::new(Asked::May(request.into(), reply)))) {
                Ok(()) => answer.await.unwrap_or(Verdict::No),
                Err(_) => Verdict::NobodyThere,
            }
        })
    }
}

impl Asker for InChat {
    fn ask(&self, question: Question) -> Soon<'_, Result<String, Fault>> {
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            self.to.send(ToPerson::Asks(Box::new(Asked::Wants(question, reply)))).map_err(|_| nobody())?;
            answer.await.ok().flatten().ok_or_else(ask::unanswered)
        })
    }

    fn show(&self, text: String) -> Soon<'_, Result<(), Fault>> {
        Box::pin(async move {
            let (reply, shown) = oneshot::channel();
            self.to.send(ToPerson::Shows(text, reply)).map_err(|_| nobody())?;
            shown.await.map_err(|_| nobody())
        })
    }
}

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

/// A question that waits for its answer. Who asked may take it back: then the channel is closed.
pub(crate) enum Asked {
    /// May this call run?
    May(AboutCall, oneshot::Sender<Verdict>),
    /// What does the person say to this? Nothing, if they don't want to answer.
    Wants(Question, oneshot::Sender<Option<String>>),
}

impl Asked {
    /// The call that asks, where it is one.
    pub(crate) fn call(&self) -> Option<&str> {
        match self {
            Self::May(request, _) => request.call.as_deref(),
            Self::Wants(..) => None,
        }
    }

    /// Does nobody wait for the answer any more?
    pub(crate) fn is_taken_back(&self) -> bool {
        match self {
            Self::May(_, reply) => reply.is_closed(),
            Self::Wants(_, reply) => reply.is_closed(),
        }
    }
}

/// What a call has for the person in the chat.
pub(crate) enum ToPerson {
    Asks(Box<Asked>),
    /// A text that needs no answer, and who waits until it is shown.
    Shows(String, oneshot::Sender<()>),
}

/// Asks in the chat.
#[derive(Clone)]
pub(crate) struct InChat {
    to: mpsc::UnboundedSender<ToPerson>,
}

impl InChat {
    /// Who asks, and where the questions come out.
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

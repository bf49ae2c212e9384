//! The protocol between the process of a group and that of a member with one of its own: lines of JSON on a socket.
//!
//! Rows and messages are in the store, which both have; only what lives in the group's process goes over the socket.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering},
};

use kit::services::GroupAct;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use sessions::Failure;
use tokio::{
    io::AsyncWriteExt as _,
    net::unix::OwnedWriteHalf,
    sync::{mpsc, oneshot},
};

use crate::recipe::MemberSpec;

/// A line to the process of a member.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToMember {
    /// The first line: the member.
    Hello(Box<Hello>),
    /// Whether its messages begin turns.
    Gate(bool),
    /// The block about the group in its system prompt.
    Block(Option<String>),
    /// There is a message in its inbox.
    Arrived,
    /// Asks whether results of jobs were promised to its model. All lines before it are done when the answer comes.
    OwesJobs { id: u64 },
    /// The answer to a question.
    Answer { id: u64, answer: Value },
    /// Its session is closed: the process ends.
    End,
}

/// A line to the process of the group.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToGroup {
    /// The session is open.
    Ready,
    /// The session can't be opened.
    Failed(Failure),
    /// Something to do in the group; the answer is `Result<Value, Failure>`.
    Act { id: u64, act: GroupAct },
    /// Asks for a step of the budget; the answer is `Result<(), String>`, with the limit that forbids it.
    Step { id: u64 },
    /// Use of the budget by the response to a request.
    Used { tokens: u64, dollars: f64 },
    /// A message for this session is in the store.
    Arrived { recipient: String },
    /// The answer to a question.
    Answer { id: u64, answer: Value },
}

/// A member that is to be opened.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) session: String,
    pub(crate) name: String,
    pub(crate) is_privileged: bool,
    pub(crate) is_attended: bool,
    pub(crate) spec: MemberSpec,
    pub(crate) block: Option<String>,
    pub(crate) gate: bool,
    /// The configuration that the group has, for the program that makes its agents.
    pub(crate) configuration: Value,
}

/// The sending half of one end, with the questions that wait for an answer.
pub(crate) struct Link<T> {
    out: mpsc::UnboundedSender<T>,
    /// None once the connection has ended.
    waiting: Mutex<Option<HashMap<u64, oneshot::Sender<Value>>>>,
    next: AtomicU64,
}

impl<T: Serialize + Send + 'static> Link<T> {
    /// Sends lines until it is dropped. Must be called within a tokio runtime.
    pub(crate) fn new(mut to: OwnedWriteHalf) -> Self {
        let (out, mut lines) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(line) = lines.recv().await {
                let mut text = json!(line).to_string();
                text.push('\n');
                // The end of the connection is noticed by its reader.
                if to.write_all(text.as_bytes()).await.is_err() {
                    return;
                }
            }
        });
        Self { out, waiting: Mutex::new(Some(HashMap::new())), next: AtomicU64::new(1) }
    }

    pub(crate) fn send(&self, line: T) {
        // After the end of the connection nobody reads it.
        drop(self.out.send(line));
    }

    /// Asks a question, and returns the answer; none, if the connection ends before it.
    pub(crate) async fn ask<A: DeserializeOwned>(&self, question: impl FnOnce(u64) -> T) -> Option<A> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        self.waiting.lock().as_mut()?.insert(id, sender);
        self.send(question(id));
        serde_json::from_value(answer.await.ok()?).ok()
    }

    /// Gives an answer to whoever asked.
    pub(crate) fn answered(&self, id: u64, answer: Value) {
        if let Some(sender) = self.waiting.lock().as_mut().and_then(|it| it.remove(&id)) {
            drop(sender.send(answer));
        }
    }

    /// Ends all questions without an answer: the connection ended.
    pub(crate) fn hang_up(&self) {
        *self.waiting.lock() = None;
    }
}

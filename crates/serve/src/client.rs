//! Requests to a client, and to the person behind it.

use std::sync::Arc;

use kit::{Fault, Kind, OrFault as _, services::Soon};
use serde_json::Value;

/// The client that a request came from, for as long as the request is under way.
#[derive(Clone)]
pub struct Client {
    way: Arc<dyn Way>,
}

/// How a client is reached.
pub(crate) trait Way: Send + Sync {
    /// What it said that it can be asked.
    fn offers(&self) -> Offers;

    /// What it calls itself.
    fn name(&self) -> Option<String>;

    /// Asks all of this, each under its key, and waits for all the answers, which are as MCP words them.
    fn ask(&self, asked: Vec<(String, Ask)>) -> Soon<'_, Result<Vec<Value>, Fault>>;

    /// Tells it something that is of no use to the model.
    fn log(&self, level: Level, logger: &str, data: Value);

    /// Does somebody still pass on what it is asked?
    fn is_there(&self) -> bool;

    /// Can it be asked outside of its request, too?
    fn outlives(&self) -> bool {
        false
    }
}

/// What a client can be asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Offers {
    /// To have a form filled in by the person.
    pub forms: bool,
    /// To have the person open an address.
    pub addresses: bool,
    /// An answer of its model.
    pub model: bool,
    /// An answer of its model that may call tools.
    pub model_with_tools: bool,
    /// The folders that it works in.
    pub roots: bool,
}

/// Something that a client is asked.
#[derive(Debug, Clone, PartialEq)]
pub enum Ask {
    /// To have a form filled in.
    Form {
        /// What the person reads.
        message: String,
        /// The fields: a JSON schema, an object of plain values.
        schema: Value,
    },
    /// To have an address opened.
    Address {
        /// What the person reads.
        message: String,
        /// The address.
        url: String,
        /// By which its end is told.
        id: String,
    },
    /// An answer of its model: the params of `sampling/createMessage`.
    Model(Value),
    /// The folders that it works in.
    Roots,
}

/// What became of a form.
#[derive(Debug, Clone, PartialEq)]
pub enum Filled {
    /// The person filled it in.
    Accepted(Value),
    /// The person said no.
    Declined,
    /// The person did not answer.
    Cancelled,
}

/// How much something matters, as syslog has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the words of RFC 5424")]
pub enum Level {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl Client {
    pub(crate) fn new(way: Arc<dyn Way>) -> Self {
        Self { way }
    }

    /// A client that can be asked nothing.
    pub fn mute() -> Self {
        Self::new(Arc::new(Mute))
    }

    /// What it can be asked.
    pub fn offers(&self) -> Offers {
        self.way.offers()
    }

    /// What it calls itself.
    pub fn name(&self) -> Option<String> {
        self.way.name()
    }

    /// Can it still be asked? Not once its request was answered, unless it follows what became of it.
    pub fn is_there(&self) -> bool {
        self.way.is_there()
    }

    /// Can it be asked once its request was answered, too? Those of the revisions until 2025-11-25 can, while they are
    /// connected.
    pub fn outlives(&self) -> bool {
        self.way.outlives()
    }

    /// Asks all of this, each under its key, and waits for all the answers, which are as MCP words them. A client may
    /// give the answer to a key that it knows together with its request: then it is not asked. A future that is dropped
    /// takes its questions back.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] when the client can't be asked that, or goes away; [`Kind::Failed`] when it refuses.
    pub async fn ask(&self, asked: Vec<(String, Ask)>) -> Result<Vec<Value>, Fault> {
        self.way.ask(asked).await
    }

    /// Has the person fill in a form, under a key that nobody knows beforehand.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub async fn form(&self, message: impl Into<String>, schema: Value) -> Result<Filled, Fault> {
        let answer = self.one("form", Ask::Form { message: message.into(), schema }).await?;
        let content = answer.get("content").cloned().unwrap_or_default();
        Ok(match answer.get("action").and_then(Value::as_str) {
            Some("accept") => Filled::Accepted(content),
            Some("decline") => Filled::Declined,
            _ => Filled::Cancelled,
        })
    }

    /// An answer of its model: params and result of `sampling/createMessage`.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub async fn model(&self, params: Value) -> Result<Value, Fault> {
        self.one("model", Ask::Model(params)).await
    }

    /// The addresses of the folders that it works in.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub async fn roots(&self) -> Result<Vec<String>, Fault> {
        let answer = self.one("roots", Ask::Roots).await?;
        let roots = answer.get("roots").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let uri = |root: &Value| root.get("uri").and_then(Value::as_str).map(str::to_owned);
        Ok(roots.iter().filter_map(uri).collect())
    }

    /// Tells it something that is of no use to the model.
    pub fn log(&self, level: Level, logger: &str, data: Value) {
        self.way.log(level, logger, data);
    }

    async fn one(&self, what: &str, ask: Ask) -> Result<Value, Fault> {
        // What a person allows must be an answer to this question, which they have read.
        let random = getrandom::u64().or_fault(Kind::Unavailable, "there are no random numbers to be had")?;
        let answers = self.ask(vec![(format!("{what}_{random:016x}"), ask)]).await?;
        answers.into_iter().next().ok_or_else(|| Fault::bug("the client's answer is not there"))
    }
}

struct Mute;

impl Way for Mute {
    fn offers(&self) -> Offers {
        Offers::default()
    }

    fn name(&self) -> Option<String> {
        None
    }

    fn ask(&self, _: Vec<(String, Ask)>) -> Soon<'_, Result<Vec<Value>, Fault>> {
        Box::pin(async { Err(Fault::new(Kind::Unavailable, "this client can't be asked anything")) })
    }

    fn log(&self, _: Level, _: &str, _: Value) {}

    fn is_there(&self) -> bool {
        false
    }
}

//! Requests to a client, and to the person behind it.

use std::sync::Arc;

use kit::{Fault, Kind, OrFault as _, services::Soon};
use serde_json::Value;

/// The client that a request came from, for as long as the request is in flight.
#[derive(Clone)]
pub struct Client {
    way: Arc<dyn Way>,
}

/// The transport of requests to a client.
pub(crate) trait Way: Send + Sync {
    /// Returns the requests that it supports.
    fn offers(&self) -> Offers;

    /// Returns the client's name.
    fn name(&self) -> Option<String>;

    /// Sends all these requests, each under its key, and waits for all the answers, which are in MCP's format.
    fn ask(&self, asked: Vec<(String, Ask)>) -> Soon<'_, Result<Vec<Value>, Fault>>;

    /// Sends it a log record, which the model does not see.
    fn log(&self, level: Level, logger: &str, data: Value);

    /// Returns whether requests still reach it.
    fn is_there(&self) -> bool;

    /// Returns whether it can be asked after its own request was answered.
    fn outlives(&self) -> bool {
        false
    }
}

/// The requests that a client supports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Offers {
    /// Elicitation: a form for the person.
    pub forms: bool,
    /// Elicitation: an address for the person to open.
    pub addresses: bool,
    /// Sampling: a response of its model.
    pub model: bool,
    /// Sampling with tools.
    pub model_with_tools: bool,
    /// Roots: the folders that it works in.
    pub roots: bool,
}

/// A request to a client.
#[derive(Debug, Clone, PartialEq)]
pub enum Ask {
    /// Show the person a form.
    Form {
        /// The text for the person.
        message: String,
        /// The fields: a JSON schema, an object of plain values.
        schema: Value,
    },
    /// Ask the person to open an address.
    Address {
        /// The text for the person.
        message: String,
        /// The address.
        url: String,
        /// The id of the notification of its end.
        id: String,
    },
    /// Sampling: the params of `sampling/createMessage`.
    Model(Value),
    /// List the folders that it works in.
    Roots,
}

/// The outcome of a form.
#[derive(Debug, Clone, PartialEq)]
pub enum Filled {
    /// The person filled it in.
    Accepted(Value),
    /// The person refused.
    Declined,
    /// The person did not answer.
    Cancelled,
}

/// The severity of a log record, as in syslog.
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

    /// Returns a client that supports no requests.
    pub fn mute() -> Self {
        Self::new(Arc::new(Mute))
    }

    /// Returns the requests that it supports.
    pub fn offers(&self) -> Offers {
        self.way.offers()
    }

    /// Returns the client's name.
    pub fn name(&self) -> Option<String> {
        self.way.name()
    }

    /// Returns whether it can still be asked. Not after its request was answered, unless it follows the task.
    pub fn is_there(&self) -> bool {
        self.way.is_there()
    }

    /// Returns whether it can be asked after its request was answered. Clients of the revisions until
    /// 2025-11-25 can, while they are connected.
    pub fn outlives(&self) -> bool {
        self.way.outlives()
    }

    /// Sends all these requests, each under its key, and waits for all the answers, which are in MCP's
    /// format. A client may have sent the answer to a known key along with its own request: then it is not
    /// asked. Dropping the future cancels the requests.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] when the client does not support that, or disconnects; [`Kind::Failed`] when it refuses.
    pub async fn ask(&self, asked: Vec<(String, Ask)>) -> Result<Vec<Value>, Fault> {
        self.way.ask(asked).await
    }

    /// Shows the person a form, under an unpredictable key.
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

    /// Requests a response of its model: params and result of `sampling/createMessage`.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub async fn model(&self, params: Value) -> Result<Value, Fault> {
        self.one("model", Ask::Model(params)).await
    }

    /// Returns the addresses of the folders that it works in.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub async fn roots(&self) -> Result<Vec<String>, Fault> {
        let answer = self.one("roots", Ask::Roots).await?;
        let roots = answer.get("roots").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let uri = |root: &Value| root.get("uri").and_then(Value::as_str).map(str::to_owned);
        Ok(roots.iter().filter_map(uri).collect())
    }

    /// Sends it a log record, which the model does not see.
    pub fn log(&self, level: Level, logger: &str, data: Value) {
        self.way.log(level, logger, data);
    }

    async fn one(&self, what: &str, ask: Ask) -> Result<Value, Fault> {
        // An approval must be an answer to this very form, which the person has read.
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

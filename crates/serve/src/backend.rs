//! The backend of a transport: the interface through which transports use a session.

use std::{future::Future, sync::Arc, time::Duration};

use kit::{Fault, Spec, services::Jobs};
use runtime::{Answer, Call, Session};
use tokio::sync::{broadcast, watch};

use crate::{
    client::Client,
    documents::{Content, Document, Line, Notice, Pattern, Prompt, Subject, View},
};

/// Time after which a call becomes a task, where the client supports tasks. Nearly every call that is not a
/// build, a test run or an agent ends sooner.
const TASK_DELAY: Duration = Duration::from_secs(5);

/// The backend of a transport: the tools and documents of one session, and the runner of its calls.
pub trait Backend: Send + Sync + 'static {
    /// Called when a client reports its folders, with their addresses. They resolve within a second, and the
    /// client's later requests may wait for that.
    fn met(&self, _folders: impl Future<Output = Vec<String>> + Send) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// Returns the listed tools, in a stable order.
    fn specs(&self) -> Vec<Spec>;

    /// Returns whether a tool of this name can be called, also one that is not listed.
    fn has(&self, name: &str) -> bool;

    /// Like [`has`](Self::has), and also searches the tools that are still loading.
    fn find(&self, name: &str) -> impl Future<Output = bool> + Send {
        async { self.has(name) }
    }

    /// Returns a line that explains why no tool of this name exists or which one was meant, if the backend
    /// knows.
    fn why_missing(&self, _name: &str) -> Option<String> {
        None
    }

    /// Waits until all tools are loaded.
    fn settled(&self) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// Returns the change counters that clients can watch.
    fn changes(&self) -> Changes {
        Changes::default()
    }

    /// Returns the optional MCP features that the backend supports.
    fn abilities(&self) -> Abilities {
        Abilities::default()
    }

    /// Returns whether the tool of this name declares an output schema.
    fn declares(&self, name: &str) -> bool {
        self.specs().iter().any(|spec| spec.name == name && spec.output.is_some())
    }

    /// Returns a receiver of the notices that belong to no request.
    fn notices(&self) -> Option<broadcast::Receiver<Notice>> {
        None
    }

    /// Returns an id for a new call.
    fn new_call_id(&self) -> Option<String> {
        None
    }

    /// Runs one call from start to finish; the call can send requests to `client`. Calls take their locks in
    /// the order in which their futures were first polled.
    fn call(&self, call: Call, client: Client) -> impl Future<Output = Answer> + Send;

    /// Returns the jobs, where calls can become jobs.
    fn jobs(&self) -> Option<Arc<dyn Jobs>> {
        None
    }

    /// Makes a job of the running call of this id, and returns the job's id.
    ///
    /// # Errors
    /// When calls can't become jobs here, or the call has ended or not started.
    fn promote(&self, call: &str) -> Result<String, Fault> {
        Err(Fault::not_found(format!("no call `{call}` runs that could go to the background")))
    }

    /// Returns the id of the job that the call of this id has become, if it has.
    fn job_of(&self, _call: &str) -> Option<String> {
        None
    }

    /// Returns the time that a client with support for tasks waits for this tool's answer before it gets a
    /// task instead; with zero it gets one at once.
    fn task_delay(&self, _tool: &str) -> Duration {
        TASK_DELAY
    }

    /// Returns the documents that can be read now, in a stable order. May block.
    ///
    /// # Errors
    /// When they can't be listed.
    fn documents(&self) -> Result<Vec<Document>, Fault> {
        Ok(Vec::new())
    }

    /// Returns the URI templates of further documents. Without templates, documents and
    /// [`Changes::documents`], haft declares no resources to clients.
    fn patterns(&self) -> Vec<Pattern> {
        Vec::new()
    }

    /// Returns the contents of the document at a URI.
    ///
    /// # Errors
    /// [`Kind::NotFound`](kit::Kind::NotFound) when there is no such document.
    fn read(&self, uri: &str, _client: Client) -> impl Future<Output = Result<Vec<Content>, Fault>> + Send {
        let fault = Fault::not_found(format!("there is no `{uri}`"));
        async { Err(fault) }
    }

    /// Returns a counter that changes with the document at this URI, if the backend can watch it.
    fn watch(&self, _uri: &str) -> Option<watch::Receiver<u64>> {
        None
    }

    /// Returns the views for hosts that show them (MCP Apps).
    fn views(&self) -> Vec<View> {
        Vec::new()
    }

    /// Returns the data for the view of a tool that answered so. The model does not see it.
    fn view_data(
        &self,
        _tool: &str,
        _answer: &Answer,
    ) -> impl Future<Output = Option<serde_json::Value>> + Send {
        async { None }
    }

    /// Returns the prompts with which a person can begin a message, in a stable order. May block.
    fn prompts(&self) -> Vec<Prompt> {
        Vec::new()
    }

    /// Returns a prompt with its arguments filled in.
    ///
    /// # Errors
    /// [`Kind::NotFound`](kit::Kind::NotFound) when there is none, [`Kind::BadArgs`](kit::Kind::BadArgs) when an
    /// argument is missing.
    fn prompt(
        &self,
        name: &str,
        _arguments: Vec<(String, String)>,
        _client: Client,
    ) -> impl Future<Output = Result<Vec<Line>, Fault>> + Send {
        let fault = Fault::not_found(format!("there is no prompt `{name}`"));
        async { Err(fault) }
    }

    /// Returns completions of an argument's value, the likeliest first. May block.
    fn complete(&self, _of: &Subject, _argument: &str, _begun: &str) -> Vec<String> {
        Vec::new()
    }

    /// Returns whether work of the session still runs in the background.
    fn is_working(&self) -> bool {
        false
    }

    /// Ends the session: stops the work that still runs in the background. No calls follow.
    fn end(&self) -> impl Future<Output = ()> + Send {
        async {}
    }
}

/// The optional MCP features, beyond tools, documents and prompts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Abilities {
    /// Subscriptions to documents: [`Backend::watch`].
    pub watch: bool,
    /// Completion of argument values: [`Backend::complete`].
    pub complete: bool,
    /// Log messages, which the model does not see: [`Backend::notices`], [`Client::log`].
    pub log: bool,
}

/// Change counters of lists that a client can read; `None` for a list that never changes.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// The list of tools.
    pub tools: Option<watch::Receiver<u64>>,
    /// The list of documents.
    pub documents: Option<watch::Receiver<u64>>,
    /// The list of prompts.
    pub prompts: Option<watch::Receiver<u64>>,
}

impl Backend for Session {
    fn specs(&self) -> Vec<Spec> {
        self.catalog().listed().cloned().collect()
    }

    fn has(&self, name: &str) -> bool {
        self.catalog().has(name)
    }

    fn find(&self, name: &str) -> impl Future<Output = bool> + Send {
        Self::find(self, name)
    }

    fn why_missing(&self, name: &str) -> Option<String> {
        Self::why_missing(self, name)
    }

    async fn settled(&self) {
        self.runtime().load_tools().await;
    }

    fn changes(&self) -> Changes {
        Changes { tools: Some(self.runtime().plugins().changes()), ..Changes::default() }
    }

    fn new_call_id(&self) -> Option<String> {
        Some(Self::new_call_id(self))
    }

    fn call(&self, call: Call, _client: Client) -> impl Future<Output = Answer> + Send {
        Self::call(self, call)
    }

    fn promote(&self, call: &str) -> Result<String, Fault> {
        Self::promote(self, call)
    }

    fn job_of(&self, call: &str) -> Option<String> {
        Self::job_of(self, call)
    }

    fn is_working(&self) -> bool {
        self.has_running_jobs()
    }

    fn end(&self) -> impl Future<Output = ()> + Send {
        Self::end(self)
    }
}

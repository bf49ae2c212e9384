//! The backend of a transport: what it calls of haft.

use std::{future::Future, sync::Arc, time::Duration};

use kit::{Fault, Spec, services::Jobs};
use runtime::{Answer, Call, Session};
use tokio::sync::{broadcast, watch};

use crate::{
    client::Client,
    documents::{Content, Document, Line, Notice, Pattern, Prompt, Subject},
};

/// A call that takes longer becomes a task, where the client follows tasks: by then a person has begun to wonder, and
/// nearly every call that is not a build, a test run or an agent is over.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a door reaches for: the tools and documents of one session, and somebody to run the calls.
pub trait Backend: Send + Sync + 'static {
    /// A client was met that tells where it works: the addresses of its folders, within a second. What it asks for
    /// later may wait for that.
    fn met(&self, _folders: impl Future<Output = Vec<String>> + Send) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// The tools that are listed, in a stable order.
    fn specs(&self) -> Vec<Spec>;

    /// May a tool of this name be called? It need not be among those that are shown.
    fn has(&self, name: &str) -> bool;

    /// May a tool of this name be called, once it was looked for among what is being loaded?
    fn find(&self, name: &str) -> impl Future<Output = bool> + Send {
        async { self.has(name) }
    }

    /// Why there is no tool of this name, or which was meant, in one line; none, if nobody knows.
    fn why_missing(&self, _name: &str) -> Option<String> {
        None
    }

    /// Waits until the tools are known that are still being loaded.
    fn settled(&self) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// What may change while a client looks.
    fn changes(&self) -> Changes {
        Changes::default()
    }

    /// What else of a client's wishes there is something behind.
    fn abilities(&self) -> Abilities {
        Abilities::default()
    }

    /// Does the tool of this name say what its structured output looks like?
    fn declares(&self, name: &str) -> bool {
        self.specs().iter().any(|spec| spec.name == name && spec.output.is_some())
    }

    /// What a client may want to hear of from now on that belongs to no request.
    fn notices(&self) -> Option<broadcast::Receiver<Notice>> {
        None
    }

    /// An id for a call that is about to be made.
    fn new_call_id(&self) -> Option<String> {
        None
    }

    /// Runs one call, start to finish; while it does, `client` can be asked. Calls take their locks in the order in
    /// which this was first polled.
    fn call(&self, call: Call, client: Client) -> impl Future<Output = Answer> + Send;

    /// The jobs, where calls can become some.
    fn jobs(&self) -> Option<Arc<dyn Jobs>> {
        None
    }

    /// Makes a job of the running call that was begun with this id, and gives its id as one.
    ///
    /// # Errors
    /// When calls become no jobs here, or this one runs no more, or not yet.
    fn promote(&self, call: &str) -> Result<String, Fault> {
        Err(Fault::not_found(format!("no call `{call}` runs that could go to the background")))
    }

    /// The id of the job that the call which was begun with this id has become, if it has.
    fn job_of(&self, _call: &str) -> Option<String> {
        None
    }

    /// A client that follows tasks waits so long for an answer of this tool before it is given a task instead; not at all,
    /// if this is zero.
    fn patience(&self, _tool: &str) -> Duration {
        PATIENCE
    }

    /// The documents that can be read now, in a stable order. May block.
    ///
    /// # Errors
    /// When they can't be listed.
    fn documents(&self) -> Result<Vec<Document>, Fault> {
        Ok(Vec::new())
    }

    /// What further documents are called. Without any, and without documents, a client is told that there are none.
    fn patterns(&self) -> Vec<Pattern> {
        Vec::new()
    }

    /// What stands at an address.
    ///
    /// # Errors
    /// [`Kind::NotFound`](kit::Kind::NotFound) when nothing does.
    fn read(&self, uri: &str, _client: Client) -> impl Future<Output = Result<Vec<Content>, Fault>> + Send {
        let fault = Fault::not_found(format!("there is no `{uri}`"));
        async { Err(fault) }
    }

    /// A number that changes when what stands at this address does; none, if that can't be told.
    fn watch(&self, _uri: &str) -> Option<watch::Receiver<u64>> {
        None
    }

    /// What a person can begin a message with, in a stable order. May block.
    fn prompts(&self) -> Vec<Prompt> {
        Vec::new()
    }

    /// A prompt, with its arguments in place.
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

    /// How the value of an argument may go on, the likeliest first. May block.
    fn complete(&self, _of: &Subject, _argument: &str, _begun: &str) -> Vec<String> {
        Vec::new()
    }

    /// Nobody will call any more: what still runs in the background is stopped.
    fn end(&self) -> impl Future<Output = ()> + Send {
        async {}
    }
}

/// What a client can wish for beyond tools, documents and prompts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Abilities {
    /// To be told when what stands at an address changes: [`Backend::watch`].
    pub watch: bool,
    /// To have values of arguments completed: [`Backend::complete`].
    pub complete: bool,
    /// To be told what is of no use to the model: [`Backend::notices`], [`Client::log`].
    pub log: bool,
}

/// Numbers that change with what a client may look at; none for what never does.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// The tools.
    pub tools: Option<watch::Receiver<u64>>,
    /// Which documents there are.
    pub documents: Option<watch::Receiver<u64>>,
    /// Which prompts there are.
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

    fn end(&self) -> impl Future<Output = ()> + Send {
        Self::end(self)
    }
}

//! An erased backend: the protocol is compiled once, here, for whatever backend a program has.
//!
//! Code that is generic over the backend would be compiled in the crate of that backend, with its level of optimization
//! and once for each.

use std::{future::Future, sync::Arc, time::Duration};

use kit::{
    Fault, Spec,
    services::{Jobs, Soon},
};
use runtime::{Answer, Call};
use tokio::sync::{broadcast, watch};

use crate::{
    backend::{Abilities, Backend, Changes},
    client::Client,
    documents::{Content, Document, Line, Notice, Pattern, Prompt, Subject, View},
};

/// Any backend.
pub(crate) struct Erased(Box<dyn AnyBackend>);

impl Erased {
    pub(crate) fn new(backend: impl Backend) -> Self {
        Self(Box::new(backend))
    }
}

/// [`Backend`], with boxed futures.
trait AnyBackend: Send + Sync {
    fn met<'a>(&'a self, folders: Soon<'a, Vec<String>>) -> Soon<'a, ()>;
    fn specs(&self) -> Vec<Spec>;
    fn has(&self, name: &str) -> bool;
    fn find<'a>(&'a self, name: &'a str) -> Soon<'a, bool>;
    fn why_missing(&self, name: &str) -> Option<String>;
    fn settled(&self) -> Soon<'_, ()>;
    fn changes(&self) -> Changes;
    fn abilities(&self) -> Abilities;
    fn declares(&self, name: &str) -> bool;
    fn notices(&self) -> Option<broadcast::Receiver<Notice>>;
    fn new_call_id(&self) -> Option<String>;
    fn call(&self, call: Call, client: Client) -> Soon<'_, Answer>;
    fn jobs(&self) -> Option<Arc<dyn Jobs>>;
    fn promote(&self, call: &str) -> Result<String, Fault>;
    fn job_of(&self, call: &str) -> Option<String>;
    fn task_delay(&self, tool: &str) -> Duration;
    fn documents(&self) -> Result<Vec<Document>, Fault>;
    fn patterns(&self) -> Vec<Pattern>;
    fn read<'a>(&'a self, uri: &'a str, client: Client) -> Soon<'a, Result<Vec<Content>, Fault>>;
    fn watch(&self, uri: &str) -> Option<watch::Receiver<u64>>;
    fn views(&self) -> Vec<View>;
    fn view_data<'a>(&'a self, tool: &'a str, answer: &'a Answer) -> Soon<'a, Option<serde_json::Value>>;
    fn prompts(&self) -> Vec<Prompt>;
    fn prompt<'a>(
        &'a self,
        name: &'a str,
        arguments: Vec<(String, String)>,
        client: Client,
    ) -> Soon<'a, Result<Vec<Line>, Fault>>;
    fn complete(&self, of: &Subject, argument: &str, begun: &str) -> Vec<String>;
    fn is_working(&self) -> bool;
    fn end(&self) -> Soon<'_, ()>;
}

impl<B: Backend> AnyBackend for B {
    fn met<'a>(&'a self, folders: Soon<'a, Vec<String>>) -> Soon<'a, ()> {
        Box::pin(Backend::met(self, folders))
    }

    fn specs(&self) -> Vec<Spec> {
        Backend::specs(self)
    }

    fn has(&self, name: &str) -> bool {
        Backend::has(self, name)
    }

    fn find<'a>(&'a self, name: &'a str) -> Soon<'a, bool> {
        Box::pin(Backend::find(self, name))
    }

    fn why_missing(&self, name: &str) -> Option<String> {
        Backend::why_missing(self, name)
    }

    fn settled(&self) -> Soon<'_, ()> {
        Box::pin(Backend::settled(self))
    }

    fn changes(&self) -> Changes {
        Backend::changes(self)
    }

    fn abilities(&self) -> Abilities {
        Backend::abilities(self)
    }

    fn declares(&self, name: &str) -> bool {
        Backend::declares(self, name)
    }

    fn notices(&self) -> Option<broadcast::Receiver<Notice>> {
        Backend::notices(self)
    }

    fn new_call_id(&self) -> Option<String> {
        Backend::new_call_id(self)
    }

    fn call(&self, call: Call, client: Client) -> Soon<'_, Answer> {
        Box::pin(Backend::call(self, call, client))
    }

    fn jobs(&self) -> Option<Arc<dyn Jobs>> {
        Backend::jobs(self)
    }

    fn promote(&self, call: &str) -> Result<String, Fault> {
        Backend::promote(self, call)
    }

    fn job_of(&self, call: &str) -> Option<String> {
        Backend::job_of(self, call)
    }

    fn task_delay(&self, tool: &str) -> Duration {
        Backend::task_delay(self, tool)
    }

    fn documents(&self) -> Result<Vec<Document>, Fault> {
        Backend::documents(self)
    }

    fn patterns(&self) -> Vec<Pattern> {
        Backend::patterns(self)
    }

    fn read<'a>(&'a self, uri: &'a str, client: Client) -> Soon<'a, Result<Vec<Content>, Fault>> {
        Box::pin(Backend::read(self, uri, client))
    }

    fn watch(&self, uri: &str) -> Option<watch::Receiver<u64>> {
        Backend::watch(self, uri)
    }

    fn views(&self) -> Vec<View> {
        Backend::views(self)
    }

    fn view_data<'a>(&'a self, tool: &'a str, answer: &'a Answer) -> Soon<'a, Option<serde_json::Value>> {
        Box::pin(Backend::view_data(self, tool, answer))
    }

    fn prompts(&self) -> Vec<Prompt> {
        Backend::prompts(self)
    }

    fn prompt<'a>(
        &'a self,
        name: &'a str,
        arguments: Vec<(String, String)>,
        client: Client,
    ) -> Soon<'a, Result<Vec<Line>, Fault>> {
        Box::pin(Backend::prompt(self, name, arguments, client))
    }

    fn complete(&self, of: &Subject, argument: &str, begun: &str) -> Vec<String> {
        Backend::complete(self, of, argument, begun)
    }

    fn is_working(&self) -> bool {
        Backend::is_working(self)
    }

    fn end(&self) -> Soon<'_, ()> {
        Box::pin(Backend::end(self))
    }
}

impl Backend for Erased {
    async fn met(&self, folders: impl Future<Output = Vec<String>> + Send) {
        self.0.met(Box::pin(folders)).await;
    }

    fn specs(&self) -> Vec<Spec> {
        self.0.specs()
    }

    fn has(&self, name: &str) -> bool {
        self.0.has(name)
    }

    async fn find(&self, name: &str) -> bool {
        self.0.find(name).await
    }

    fn why_missing(&self, name: &str) -> Option<String> {
        self.0.why_missing(name)
    }

    fn settled(&self) -> impl Future<Output = ()> + Send {
        self.0.settled()
    }

    fn changes(&self) -> Changes {
        self.0.changes()
    }

    fn abilities(&self) -> Abilities {
        self.0.abilities()
    }

    fn declares(&self, name: &str) -> bool {
        self.0.declares(name)
    }

    fn notices(&self) -> Option<broadcast::Receiver<Notice>> {
        self.0.notices()
    }

    fn new_call_id(&self) -> Option<String> {
        self.0.new_call_id()
    }

    fn call(&self, call: Call, client: Client) -> impl Future<Output = Answer> + Send {
        self.0.call(call, client)
    }

    fn jobs(&self) -> Option<Arc<dyn Jobs>> {
        self.0.jobs()
    }

    fn promote(&self, call: &str) -> Result<String, Fault> {
        self.0.promote(call)
    }

    fn job_of(&self, call: &str) -> Option<String> {
        self.0.job_of(call)
    }

    fn task_delay(&self, tool: &str) -> Duration {
        self.0.task_delay(tool)
    }

    fn documents(&self) -> Result<Vec<Document>, Fault> {
        self.0.documents()
    }

    fn patterns(&self) -> Vec<Pattern> {
        self.0.patterns()
    }

    async fn read(&self, uri: &str, client: Client) -> Result<Vec<Content>, Fault> {
        self.0.read(uri, client).await
    }

    fn watch(&self, uri: &str) -> Option<watch::Receiver<u64>> {
        self.0.watch(uri)
    }

    fn views(&self) -> Vec<View> {
        self.0.views()
    }

    async fn view_data(&self, tool: &str, answer: &Answer) -> Option<serde_json::Value> {
        self.0.view_data(tool, answer).await
    }

    fn prompts(&self) -> Vec<Prompt> {
        self.0.prompts()
    }

    async fn prompt(
        &self,
        name: &str,
        arguments: Vec<(String, String)>,
        client: Client,
    ) -> Result<Vec<Line>, Fault> {
        self.0.prompt(name, arguments, client).await
    }

    fn complete(&self, of: &Subject, argument: &str, begun: &str) -> Vec<String> {
        self.0.complete(of, argument, begun)
    }

    fn is_working(&self) -> bool {
        self.0.is_working()
    }

    fn end(&self) -> impl Future<Output = ()> + Send {
        self.0.end()
    }
}

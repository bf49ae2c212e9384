//! The MCP server on top of rmcp: lifecycle, capabilities, and dispatch to the backend.

mod apps;
mod calls;
mod client_requests;
mod completion;
mod exchange;
mod list_changes;
mod logging;
mod multi_round;
mod pages;
mod prompts;
mod resources;
mod roots;
mod tasks;
mod traced;

use std::{
    io::{self, Read, Write},
    sync::Arc,
    time::Duration,
};

use kit::{Fault, Kind, services::Soon};
use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt as _,
    model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestMethod,
        CompleteRequestParams, CompleteResult, GetPromptRequestParams, GetPromptResponse, GetTaskParams,
        GetTaskResult, Implementation, InitializeRequestParams, InitializeResult, ListPromptsResult,
        ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
        PromptsCapability, ReadResourceRequestParams, ReadResourceResponse, ResourcesCapability,
        ServerCapabilities, ServerConfig, SetLevelRequestMethod, SubscribeRequestMethod,
        SubscribeRequestParams, SubscriptionFilter, Tool, ToolsCapability, UnsubscribeRequestParams,
        UpdateTaskParams,
    },
    service::{NotificationContext, RequestContext, ServerInitializeError, SubscriptionContext},
};
use serde_json::{Map, json};
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    answer, backend::Backend, direct::Direct, erased::Erased, input::Input, message::LISTENING, stdio,
};
use logging::LogSettings;
use multi_round::PendingRounds;
use pages::page;
use tasks::Tasks;
use traced::traced;

/// Time for calls to finish by themselves after the end of input: a script that pipes its requests in has no
/// other way to get the answers.
const FINISH: Duration = Duration::from_millis(500);

/// Time for them to end after they were cancelled.
const STOP: Duration = Duration::from_millis(300);

/// Time that a tool list waits for tools that are still being loaded; later ones are announced by a notification.
const LOADING: Duration = Duration::from_secs(2);

/// The description of the server for clients.
#[derive(Debug, Clone)]
pub struct About {
    /// Its version.
    pub version: String,
    /// Two or three lines on how to use its tools well, which the client may show the model.
    pub instructions: String,
}

impl About {
    /// Returns this version of haft, with these instructions.
    pub fn new(instructions: impl Into<String>) -> Self {
        Self { version: env!("CARGO_PKG_VERSION").to_owned(), instructions: instructions.into() }
    }
}

/// Serves MCP on this process's standard input and output, until the input ends or the output is closed.
///
/// From then on file descriptor 1 is standard error and file descriptor 0 is empty, so that nothing else in
/// the process can use the protocol's streams. Needs a tokio runtime with I/O and time.
///
/// # Errors
/// When the process has no standard input or output, or no threads are left.
pub async fn mcp_stdio(backend: impl Backend, about: About) -> io::Result<()> {
    on_standard_streams(Erased::new(backend), about).await
}

/// A trait object, so that the protocol is compiled in this crate.
fn on_standard_streams(backend: Erased, about: About) -> Soon<'static, io::Result<()>> {
    Box::pin(async move {
        let (input, output) = stdio::private()?;
        let direct = Direct::of(output.file());
        on_streams(backend, about, Input::of(input)?, output, direct).await
    })
}

/// Serves MCP on any pair of byte streams, until the input ends or the output breaks. Calls in flight are
/// cancelled within a second.
///
/// # Errors
/// When no threads are left for the two streams.
pub async fn mcp(
    backend: impl Backend,
    about: About,
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
) -> io::Result<()> {
    on_streams(Erased::new(backend), about, Input::threaded(input)?, output, None).await
}

async fn on_streams(
    backend: Erased,
    about: About,
    input: Input,
    output: impl Write + Send + 'static,
    direct: Option<Direct>,
) -> io::Result<()> {
    let stop = CancellationToken::new();
    let backend = Arc::new(backend);
    let server = McpServer::new(Arc::clone(&backend), about, stop.clone(), &Lasting::default());
    let (wire, ends) = stdio::open(input, output, direct)?;
    let serving = async {
        match server.serve(wire).await {
            Ok(running) => running.waiting().await.map(drop).map_err(io::Error::other),
            Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(io::Error::other(error)),
        }
    };
    let ending = async {
        tokio::select! {
            () = ends.broken.cancelled() => {}
            () = async { ends.input.cancelled().await; sleep(FINISH).await } => {}
        }
        stop.cancel();
        sleep(STOP).await;
        tracing::warn!("calls did not stop in time; leaving them");
        Ok(())
    };
    let served = tokio::select! {
        served = serving => served,
        left = ending => left,
    };
    stop.cancel();
    backend.end().await;
    ends.written().await.and(served)
}

/// State that outlives a request: the calls that wait for their clients, and the tasks.
#[derive(Default)]
pub(crate) struct Lasting {
    rounds: Arc<PendingRounds>,
    tasks: Arc<Tasks>,
}

/// The handler for rmcp: one for each client.
pub(crate) struct McpServer<H> {
    backend: Arc<H>,
    about: About,
    stop: CancellationToken,
    rounds: Arc<PendingRounds>,
    tasks: Arc<Tasks>,
    log_settings: Arc<LogSettings>,
    /// Cancelled when the client is gone, or is to be disconnected.
    gone: CancellationToken,
    _gone_when_dropped: DropGuard,
}

impl<H: Backend> McpServer<H> {
    /// Creates the handler for one client. `stop` cancels its calls. If each request has a handler of its
    /// own, all handlers of the same client share `lasting`.
    pub(crate) fn new(backend: Arc<H>, about: About, stop: CancellationToken, lasting: &Lasting) -> Self {
        let gone = stop.child_token();
        let dropped = gone.clone().drop_guard();
        Self {
            backend,
            about,
            stop,
            rounds: Arc::clone(&lasting.rounds),
            tasks: Arc::clone(&lasting.tasks),
            log_settings: Arc::default(),
            gone,
            _gone_when_dropped: dropped,
        }
    }

    /// Returns only the capabilities that the backend has.
    fn capabilities(&self) -> ServerCapabilities {
        let (backend, changes, abilities) = (&self.backend, self.backend.changes(), self.backend.abilities());
        let mut capabilities = ServerCapabilities::default();
        let mut tools = ToolsCapability::default();
        tools.list_changed = changes.tools.map(|_| true);
        capabilities.tools = Some(tools);
        // Declared even if it is empty now, so that changes can be announced.
        let has_documents = changes.documents.is_some()
            || !backend.patterns().is_empty()
            || backend.documents().is_ok_and(|it| !it.is_empty());
        if has_documents {
            let mut resources = ResourcesCapability::default();
            resources.list_changed = changes.documents.map(|_| true);
            resources.subscribe = abilities.watch.then_some(true);
            capabilities.resources = Some(resources);
        }
        if changes.prompts.is_some() || !backend.prompts().is_empty() {
            let mut prompts = PromptsCapability::default();
            prompts.list_changed = changes.prompts.map(|_| true);
            capabilities.prompts = Some(prompts);
        }
        capabilities.completions = abilities.complete.then(Map::new);
        capabilities.logging = abilities.log.then(Map::new);
        capabilities.extensions = ServerCapabilities::builder().enable_tasks().build().extensions;
        capabilities
    }
}

impl<H: Backend> ServerHandler for McpServer<H> {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(self.capabilities())
            .with_server_info(Implementation::new("haft", self.about.version.clone()))
            .with_instructions(self.about.instructions.clone())
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        traced("initialize", None, &context.id.clone(), async move {
            context.peer.set_peer_info(request.clone());
            let agreed = self.negotiate_initialize(&request)?;
            self.announce(&context.peer);
            Ok(agreed)
        })
        .await
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.meet(&context.peer).await;
    }

    async fn on_roots_list_changed(&self, _context: NotificationContext<RoleServer>) {
        tracing::info!("the client works elsewhere now; the workspace stays what it is");
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        traced("tools/list", None, &context.id.clone(), async move {
            let _ = timeout(LOADING, self.backend.settled()).await;
            let mut all: Vec<Tool> = self.backend.specs().iter().map(answer::tool).collect();
            self.link_views(&mut all, &context);
            let (tools, next) = page("tools", all, |tool| &tool.name, cursor(request).as_deref())?;
            let mut result = ListToolsResult::with_all_items(tools);
            result.next_cursor = next;
            Ok(result)
        })
        .await
    }

    /// Returns a listed tool; over HTTP rmcp compares arguments with headers as its schema requires.
    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.backend.specs().iter().find(|spec| spec.name == name).map(answer::tool)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        traced("tools/call", Some(&request.name.clone()), &context.id.clone(), async move {
            let (name, revision) = (request.name.clone(), revision(&context));
            Ok(match self.answer_call(request, context).await? {
                CallToolResponse::Complete(mut result) => {
                    answer::fit(&mut result, &revision, || self.backend.declares(&name));
                    result.into()
                }
                other => other,
            })
        })
        .await
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        traced("resources/list", None, &context.id.clone(), async move {
            self.page_of_documents(cursor(request).as_deref(), &context).await
        })
        .await
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        traced("resources/templates/list", None, &context.id.clone(), async move {
            self.page_of_patterns(cursor(request).as_deref())
        })
        .await
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        traced("resources/read", Some(&request.uri.clone()), &context.id.clone(), async move {
            match self.read_view(&request.uri, &context) {
                Some(view) => Ok(view.into()),
                None => self.read_document(request, &context).await,
            }
        })
        .await
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        traced("resources/subscribe", Some(&request.uri.clone()), &context.id.clone(), async move {
            if !self.backend.abilities().watch {
                return Err(ErrorData::method_not_found::<SubscribeRequestMethod>());
            }
            self.watch_document(request.uri, &context).await
        })
        .await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        traced("resources/unsubscribe", Some(&request.uri.clone()), &context.id.clone(), async move {
            self.unwatch_document(&request.uri);
            Ok(())
        })
        .await
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(self.audible(requested))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.notify_listener(context).await;
        Ok(())
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        traced("prompts/list", None, &context.id.clone(), async move {
            self.page_of_prompts(cursor(request).as_deref()).await
        })
        .await
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        traced("prompts/get", Some(&request.name.clone()), &context.id.clone(), async move {
            self.fill_prompt(request, &context).await
        })
        .await
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        traced("completion/complete", None, &context.id.clone(), async move {
            if !self.backend.abilities().complete {
                return Err(ErrorData::method_not_found::<CompleteRequestMethod>());
            }
            self.completed(request).await
        })
        .await
    }

    #[expect(deprecated, reason = "clients of revisions until 2025-11-25 say so what they want to hear")]
    async fn set_level(
        &self,
        request: rmcp::model::SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        traced("logging/setLevel", None, &context.id.clone(), async move {
            // From 2026-07-28 on, each request has a level of its own.
            if !self.backend.abilities().log || *revision(&context) >= *LISTENING {
                return Err(ErrorData::method_not_found::<SetLevelRequestMethod>());
            }
            self.log_settings.set(request.level);
            Ok(())
        })
        .await
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        traced("tasks/get", None, &context.id.clone(), async move { self.task(&request, &context) }).await
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        traced("tasks/update", None, &context.id.clone(), async move { self.update(request, &context) }).await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        traced("tasks/cancel", None, &context.id.clone(), async move { self.cancel(&request, &context) })
            .await
    }
}

/// Returns the MCP revision of a request.
fn revision(context: &RequestContext<RoleServer>) -> String {
    context.protocol_version().map(|it| it.as_str().to_owned()).unwrap_or_default()
}

fn cursor(request: Option<PaginatedRequestParams>) -> Option<String> {
    request.and_then(|it| it.cursor)
}

/// Runs blocking work on a thread of its own.
async fn aside<T: Send + 'static>(look: impl FnOnce() -> T + Send + 'static) -> Result<T, ErrorData> {
    tokio::task::spawn_blocking(look)
        .await
        .map_err(|_| ErrorData::internal_error("haft failed at this; this is a defect of haft", None))
}

/// Converts a fault to a JSON-RPC error. A tool's own faults are results, and don't come here.
fn refused(fault: &Fault) -> ErrorData {
    let (what, data) = (fault.as_text(), Some(json!({"kind": fault.kind.name()})));
    match fault.kind {
        Kind::BadArgs | Kind::NotFound | Kind::Ambiguous => ErrorData::invalid_params(what, data),
        Kind::Denied | Kind::Stale => ErrorData::invalid_request(what, data),
        Kind::Timeout | Kind::Cancelled | Kind::TooBig | Kind::Unavailable | Kind::Failed | Kind::Bug => {
            ErrorData::internal_error(what, data)
        }
    }
}

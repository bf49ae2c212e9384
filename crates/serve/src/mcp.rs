//! What does an MCP client get of haft?

mod asking;
mod calls;
mod rounds;
mod talk;
mod tasks;

use std::{
    convert::Infallible,
    fs::File,
    future::pending,
    io::{self, Read, Write},
    sync::Arc,
    time::Duration,
};

use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt as _,
    model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, ClientConfig, GetTaskParams,
        GetTaskResult, Implementation, ListToolsResult, PaginatedRequestParams, ServerCapabilities,
        ServerConfig, SubscriptionFilter, UpdateTaskParams,
    },
    service::{Peer, RequestContext, ServerInitializeError, SubscriptionContext},
};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use self::{rounds::Rounds, tasks::Tasks};
use crate::{answer, hands::Hands, message::echo, stdio};

/// After the end of input, calls may finish by themselves for this long: a script
/// that pipes its requests in has no other way to hear the answers.
const FINISH: Duration = Duration::from_millis(500);

/// After they were told to stop, they may take this long to do so.
const STOP: Duration = Duration::from_millis(300);

/// And then their answers may take this long to be taken by the client.
const FLUSH: Duration = Duration::from_millis(200);

/// A list of tools waits this long for what is still being loaded; what comes later is told of.
const LOADING: Duration = Duration::from_secs(2);

/// From this revision on, a client hears of changes only where it asked to listen.
const LISTENING: &str = "2026-07-28";

/// What a client is told of the server.
#[derive(Debug, Clone)]
pub struct About {
    /// Its version.
    pub version: String,
    /// Two or three lines on how to use its tools well, which the client may show the model.
    pub instructions: String,
}

impl About {
    /// This version of haft, with these instructions.
    pub fn new(instructions: impl Into<String>) -> Self {
        Self { version: env!("CARGO_PKG_VERSION").to_owned(), instructions: instructions.into() }
    }
}

/// Serves MCP on this process's standard input and output, until the input ends
/// or nobody reads the output any more.
///
/// From then on file descriptor 1 is standard error and file descriptor 0 is empty,
/// so that nothing else in the process can speak or listen in between. Needs a tokio
/// runtime with time.
///
/// # Errors
/// When the process has no standard input or output, or no threads are left.
pub async fn mcp_stdio(hands: impl Hands, about: About) -> io::Result<()> {
    let (input, output): (File, File) = stdio::private()?;
    mcp(hands, about, input, output).await
}

/// Serves MCP on any pair of byte streams, until the input ends or the output
/// breaks. Calls still under way are stopped within a second.
///
/// # Errors
/// When no threads are left for the two streams.
pub async fn mcp(
    hands: impl Hands,
    about: About,
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
) -> io::Result<()> {
    let stop = CancellationToken::new();
    let hands = Arc::new(hands);
    let door = Door {
        hands: Arc::clone(&hands),
        about,
        stop: stop.clone(),
        rounds: Arc::default(),
        tasks: Arc::default(),
    };
    let (wire, ends) = stdio::open(input, output)?;
    let serving = async {
        match door.serve(wire).await {
            Ok(running) => {
                let (peer, changes) = (running.peer().clone(), hands.changes().tools);
                tokio::select! {
                    served = running.waiting() => served.map(drop).map_err(io::Error::other),
                    never = announce(peer, changes) => match never {},
                }
            }
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
    hands.end().await;
    // An error here is a client that has stopped reading: nobody is left to tell.
    let _ = timeout(FLUSH, ends.output).await;
    served
}

/// The server that rmcp asks.
struct Door<H> {
    hands: Arc<H>,
    about: About,
    stop: CancellationToken,
    rounds: Arc<Rounds>,
    tasks: Arc<Tasks>,
}

impl<H: Hands> ServerHandler for Door<H> {
    fn get_info(&self) -> ServerConfig {
        let capabilities =
            ServerCapabilities::builder().enable_tools().enable_tool_list_changed().enable_tasks();
        ServerConfig::new(capabilities.build())
            .with_server_info(Implementation::new("haft", self.about.version.clone()))
            .with_instructions(self.about.instructions.clone())
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        if let Some(cursor) = request.and_then(|request| request.cursor) {
            let what = format!("there is no page `{}`: the list of tools is one page", echo(&cursor));
            return Err(ErrorData::invalid_params(what, None));
        }
        let _ = timeout(LOADING, self.hands.settled()).await;
        Ok(ListToolsResult::with_all_items(self.hands.specs().iter().map(answer::tool).collect()))
    }

    fn accepted_subscription_filter(&self, _requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(SubscriptionFilter::builder().tools_list_changed().build())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let telling = async {
            let Some(mut changes) = self.hands.changes().tools else { return };
            while changes.changed().await.is_ok() {
                if context.accepted().tools_list_changed == Some(true)
                    && context.sink().notify_tool_list_changed().await.is_err()
                {
                    return;
                }
            }
        };
        tokio::select! {
            () = context.cancelled() => {}
            () = self.stop.cancelled() => {}
            () = async { telling.await; pending().await } => {}
        }
        Ok(())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.answer_call(request, context).await
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.task(&request, &context)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.update(request, &context)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.cancel(&request, &context)
    }
}

/// Tells a client of each change of the tools, if it is one that hears of them unasked.
async fn announce(peer: Peer<RoleServer>, changes: Option<watch::Receiver<u64>>) -> Infallible {
    let Some(mut changes) = changes else { return pending().await };
    while changes.changed().await.is_ok() {
        let hears = |info: &ClientConfig| info.protocol_version.as_str() < LISTENING;
        if peer.peer_info().is_some_and(|info| hears(&info)) && peer.notify_tool_list_changed().await.is_err()
        {
            break;
        }
    }
    pending().await
}

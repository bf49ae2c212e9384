//! Log notifications.
//!
//! Until 2025-11-25 a client sets one level for all of them. From 2026-07-28 on, it gets only those of a
//! request, and only if that request names a level.
#![expect(deprecated, reason = "MCP will drop its logging one day; clients of today have it")]

use std::{
    collections::HashMap,
    future::Future,
    panic::AssertUnwindSafe,
    sync::{Mutex, PoisonError, atomic::AtomicBool},
};

use futures_util::FutureExt as _;
use kit::{Fault, Kind, services::Soon};
use rmcp::{
    ErrorData, RoleServer,
    model::{LoggingLevel, LoggingMessageNotificationParam},
    service::{Peer, RequestContext},
};
use serde_json::Value;
use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::CancellationToken;

use super::{LISTENING, McpServer, refused};
use crate::{
    backend::Backend,
    client::{Ask, Client, Level, Offers, Way},
    documents::Notice,
};

/// The default level.
const LEAST: Level = Level::Warning;

/// Maximum number of records of one request that wait to be sent; further ones are dropped.
const WAITING: usize = 64;

/// The levels and subscriptions of a client.
pub(super) struct LogSettings {
    least: Mutex<Level>,
    pub(super) announced: AtomicBool,
    pub(super) subscriptions: Mutex<HashMap<String, CancellationToken>>,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self { least: Mutex::new(LEAST), announced: AtomicBool::default(), subscriptions: Mutex::default() }
    }
}

impl LogSettings {
    /// Sets the client's level.
    pub(super) fn set(&self, level: LoggingLevel) {
        *self.least.lock().unwrap_or_else(PoisonError::into_inner) = understood(level);
    }

    /// Returns the level for log records of this request; `None`: the client wants none.
    pub(super) fn least(&self, context: &RequestContext<RoleServer>) -> Option<Level> {
        if context.protocol_version().is_some_and(|it| it.as_str() >= LISTENING) {
            return context.meta.log_level().map(understood);
        }
        Some(self.now())
    }

    /// Sends log records that belong to no request.
    pub(super) async fn send_notices(
        &self,
        notices: Option<broadcast::Receiver<Notice>>,
        peer: &Peer<RoleServer>,
    ) {
        let Some(mut notices) = notices else { return };
        loop {
            match notices.recv().await {
                Ok(notice) if notice.level < self.now() => {}
                Ok(Notice { level, logger, data }) => {
                    if peer.notify_logging_message(worded(level, &logger, data)).await.is_err() {
                        return;
                    }
                }
                Err(broadcast::error::RecvError::Lagged(missed)) => {
                    tracing::debug!(missed, "more notices than the client takes");
                }
                Err(broadcast::error::RecvError::Closed) => return,
            }
        }
    }

    fn now(&self) -> Level {
        *self.least.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<H: Backend> McpServer<H> {
    /// Runs the work of a request, until the client cancels it. Its log records are sent before this returns.
    pub(super) async fn work<T, F: Future<Output = Result<T, Fault>>>(
        &self,
        context: &RequestContext<RoleServer>,
        work: impl FnOnce(Client) -> F,
    ) -> Result<T, ErrorData> {
        let (sender, lines) = mpsc::channel(WAITING);
        let client = Client::new(std::sync::Arc::new(Teller {
            least: self.log_settings.least(context),
            name: context.client_info().map(|it| it.name),
            lines: sender,
        }));
        let over = CancellationToken::new();
        let working = async {
            // A panic would leave the client without an answer.
            let done = AssertUnwindSafe(work(client)).catch_unwind().await;
            over.cancel();
            done
        };
        let both = async { tokio::join!(working, deliver(lines, &context.peer, &over)).0 };
        tokio::select! {
            biased;
            done = both => match done {
                Ok(done) => done.map_err(|fault| refused(&fault)),
                Err(_) => Err(ErrorData::internal_error("haft failed at this; this is a defect of haft", None)),
            },
            () = context.ct.cancelled() => Err(ErrorData::internal_error("it was cancelled", None)),
            () = self.gone.cancelled() => Err(ErrorData::internal_error("haft is about to end", None)),
        }
    }
}

/// Sends the log records of a request. This client can't be asked.
struct Teller {
    least: Option<Level>,
    name: Option<String>,
    lines: mpsc::Sender<LoggingMessageNotificationParam>,
}

impl Way for Teller {
    fn offers(&self) -> Offers {
        Offers::default()
    }

    fn name(&self) -> Option<String> {
        self.name.clone()
    }

    fn ask(&self, _: Vec<(String, Ask)>) -> Soon<'_, Result<Vec<Value>, Fault>> {
        Box::pin(async { Err(Fault::new(Kind::Unavailable, "nobody can be asked in the midst of this")) })
    }

    fn is_there(&self) -> bool {
        !self.lines.is_closed()
    }

    fn log(&self, level: Level, logger: &str, data: Value) {
        if self.least.is_some_and(|least| level >= least)
            && self.lines.try_send(worded(level, logger, data)).is_err()
        {
            tracing::debug!(logger, "more messages than the client takes");
        }
    }
}

/// Sends records until the request is `over`, and those that still wait then.
pub(super) async fn deliver(
    mut lines: mpsc::Receiver<LoggingMessageNotificationParam>,
    peer: &Peer<RoleServer>,
    over: &CancellationToken,
) {
    loop {
        let line = tokio::select! {
            biased;
            line = lines.recv() => line,
            () = over.cancelled() => lines.try_recv().ok(),
        };
        let Some(line) = line else { return };
        if peer.notify_logging_message(line).await.is_err() {
            return;
        }
    }
}

pub(super) fn worded(level: Level, logger: &str, data: Value) -> LoggingMessageNotificationParam {
    let level = match level {
        Level::Debug => LoggingLevel::Debug,
        Level::Info => LoggingLevel::Info,
        Level::Notice => LoggingLevel::Notice,
        Level::Warning => LoggingLevel::Warning,
        Level::Error => LoggingLevel::Error,
        Level::Critical => LoggingLevel::Critical,
        Level::Alert => LoggingLevel::Alert,
        Level::Emergency => LoggingLevel::Emergency,
    };
    LoggingMessageNotificationParam::new(level, data).with_logger(logger)
}

fn understood(level: LoggingLevel) -> Level {
    match level {
        LoggingLevel::Debug => Level::Debug,
        LoggingLevel::Info => Level::Info,
        LoggingLevel::Notice => Level::Notice,
        LoggingLevel::Warning => Level::Warning,
        LoggingLevel::Error => Level::Error,
        LoggingLevel::Critical => Level::Critical,
        LoggingLevel::Alert => Level::Alert,
        LoggingLevel::Emergency => Level::Emergency,
    }
}

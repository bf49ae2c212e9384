//! The tools of a session, as its calls use them.

use std::{sync::Arc, time::Duration};

use kit::{
    Fault, Origin, Spec,
    services::{Called, Listed, Progress, Reloaded, Soon, Tools},
};
use serde_json::Value;
use store::changes::Landed;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{Answer, Call, Within};
use crate::{plugins::Hosts, registry::Failure, session_state::SessionState};

/// Time that a call about tools waits for tools that are loading.
const LOADING: Duration = Duration::from_secs(10);

/// The tools of one session, for one of its calls.
pub(crate) struct ToolsOf {
    session: Arc<SessionState>,
    /// The call that makes others, and the client's call.
    within: Within,
    /// Stops this call, and those that it makes.
    stop: CancellationToken,
    /// Receives the progress of all of them.
    progress: Option<Arc<dyn Progress>>,
    /// Records the changes of those calls.
    landed: Arc<Landed>,
}

impl ToolsOf {
    /// Creates the tools of this session, for a call that `stop` stops.
    pub(crate) fn new(
        session: &Arc<SessionState>,
        within: Within,
        stop: CancellationToken,
        progress: Option<Arc<dyn Progress>>,
        landed: Arc<Landed>,
    ) -> Self {
        Self { session: session.clone(), within, stop, progress, landed }
    }

    /// Returns what the newest call of a tool printed, if it is a Python file and printed something.
    fn printed(&self, name: &str) -> Option<String> {
        let catalog = self.session.catalog();
        let Origin::File(path) = &catalog.get(name)?.spec().origin else { return None };
        self.session.shelf().find::<Hosts>()?.printed(path)
    }
}

impl Tools for ToolsOf {
    fn list(&self) -> Listed {
        let catalog = self.session.catalog();
        let failed = catalog.failed().iter().map(Failure::not_loaded);
        let aside = self.session.runtime().plugins().aside();
        Listed { tools: catalog.specs().cloned().collect(), failed: failed.collect(), aside }
    }

    fn settled(&self) -> Soon<'_, ()> {
        Box::pin(async move {
            // Tools that load for longer are missing from this answer; the next one has them.
            drop(timeout(LOADING, self.session.runtime().plugins().settled()).await);
        })
    }

    fn manual(&self, name: &str) -> Option<String> {
        self.session.runtime().plugins().manual(name)
    }

    fn named(&self, text: &str) -> String {
        self.session.tools().named(text).into_owned()
    }

    fn explained(&self, name: &str) {
        self.session.explained(name);
    }

    fn reload(&self) -> Soon<'_, Reloaded> {
        Box::pin(async move {
            let report = self.session.runtime().plugins().reload(true).await;
            // The imports of a file may have changed, even if the file has not.
            if let Some(hosts) = self.session.shelf().find::<Hosts>() {
                hosts.renew();
            }
            // The changes may be loaded already, and still be new to the model.
            self.session.since_last_report(report)
        })
    }

    fn check<'a>(&'a self, name: &'a str, code: &'a str) -> Soon<'a, Result<Spec, Fault>> {
        Box::pin(self.session.runtime().plugins().check(name, code))
    }

    fn rewritten<'a>(&'a self, name: &'a str) -> Soon<'a, Result<(), Fault>> {
        Box::pin(async move {
            let outside = self.session.runtime().plugins();
            let rewritten = outside.rewritten(name).await;
            // The answer reports the change, so no later one has to.
            self.session.knows_tools(outside.loaded());
            rewritten
        })
    }

    // The inner call stops with the outer one and is waited for in the same way; dropping it stops it at
    // once.
    fn call<'a>(&'a self, name: &'a str, arguments: Value) -> Soon<'a, Called> {
        Box::pin(async move {
            let (cancel, progress) = (self.stop.child_token(), self.progress.clone());
            let call = Call { cancel, progress, ..Call::new(name, arguments) };
            let answer = super::run(&self.session, call, Some(&self.within)).await;
            let Answer { result, notes, changes, took, .. } = answer;
            self.landed.extend(changes);
            // A failure contains it already.
            let printed = if result.is_ok() { self.printed(name) } else { None };
            Called { result, notes, printed, took }
        })
    }
}

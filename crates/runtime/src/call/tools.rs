//! Tool files as tools see them.

use std::{sync::Arc, time::Duration};

use kit::{
    Fault, Origin, Spec,
    services::{Called, Listed, NotLoaded, Progress, Reloaded, Soon, Tools},
};
use serde_json::Value;
use store::changes::Landed;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{Answer, Call, Within};
use crate::{plugins::Hosts, session_state::SessionState};

/// How long a call that deals in tools waits for those that are being loaded.
const LOADING: Duration = Duration::from_secs(10);

/// The tools of one session, as one of its calls sees them.
pub(crate) struct ToolsOf {
    session: Arc<SessionState>,
    /// The call that makes theirs, and the one at the door that it is made for.
    within: Within,
    /// Stops this call, and with it those that it makes.
    stop: CancellationToken,
    /// Who hears how far it and they have come.
    progress: Option<Arc<dyn Progress>>,
    /// Where it is told what those calls changed.
    landed: Arc<Landed>,
}

impl ToolsOf {
    /// Those of this session, for a call that `stop` stops.
    pub(crate) fn new(
        session: &Arc<SessionState>,
        within: Within,
        stop: CancellationToken,
        progress: Option<Arc<dyn Progress>>,
        landed: Arc<Landed>,
    ) -> Self {
        Self { session: session.clone(), within, stop, progress, landed }
    }

    /// What the newest call of a tool printed, where it is a Python file and printed something.
    fn printed(&self, name: &str) -> Option<String> {
        let catalog = self.session.catalog();
        let Origin::File(path) = &catalog.get(name)?.spec().origin else { return None };
        self.session.shelf().find::<Hosts>()?.printed(path)
    }
}

impl Tools for ToolsOf {
    fn list(&self) -> Listed {
        let catalog = self.session.catalog();
        let failed = catalog.failed().iter().map(|it| NotLoaded {
            file: it.tool.clone(),
            why: it.why.clone(),
            older_serves: it.older_serves,
        });
        let aside = self.session.runtime().plugins().aside();
        Listed { tools: catalog.specs().cloned().collect(), failed: failed.collect(), aside }
    }

    fn settled(&self) -> Soon<'_, ()> {
        Box::pin(async move {
            // What takes longer is missing from this answer, and the next one has it.
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
            // What a file imports may have changed, where the file has not.
            if let Some(hosts) = self.session.shelf().find::<Hosts>() {
                hosts.renew();
            }
            // Somebody may have loaded before what is new to the model.
            self.session.tools_told(report)
        })
    }

    fn check<'a>(&'a self, name: &'a str, code: &'a str) -> Soon<'a, Result<Spec, Fault>> {
        Box::pin(self.session.runtime().plugins().check(name, code))
    }

    fn rewritten<'a>(&'a self, name: &'a str) -> Soon<'a, Result<(), Fault>> {
        Box::pin(async move {
            let outside = self.session.runtime().plugins();
            let rewritten = outside.rewritten(name).await;
            // The answer says it; no later one need say it again.
            self.session.knows_tools(outside.loaded());
            rewritten
        })
    }

    // It stops with the call that makes it, and is waited for as that is; and at once when it is dropped.
    fn call<'a>(&'a self, name: &'a str, arguments: Value) -> Soon<'a, Called> {
        Box::pin(async move {
            let (cancel, progress) = (self.stop.child_token(), self.progress.clone());
            let call = Call { cancel, progress, ..Call::new(name, arguments) };
            let answer = super::run(&self.session, call, Some(&self.within)).await;
            let Answer { result, notes, changes, took, .. } = answer;
            self.landed.extend(changes);
            // A failure has it already.
            let printed = if result.is_ok() { self.printed(name) } else { None };
            Called { result, notes, printed, took }
        })
    }
}

//! What do the tools that deal in tools see of them?

use kit::{
    Fault, Kind, Spec,
    services::{Called, Listed, NotLoaded, Reloaded, Soon, Tools},
};
use serde_json::Value;

use crate::{Call, Session};

/// The tools of one session.
pub(crate) struct ToolsOf {
    session: Session,
}

impl ToolsOf {
    /// Those of this session, which it does not keep from ending.
    pub(crate) fn new(session: &Session) -> Self {
        Self { session: session.unheld() }
    }
}

impl Tools for ToolsOf {
    fn list(&self) -> Listed {
        let catalog = self.session.catalog();
        let failed = catalog.failed().iter().map(|it| NotLoaded {
            file: it.tool.clone(),
            why: it.why.clone(),
            older_serves: false,
        });
        Listed { tools: catalog.specs().cloned().collect(), failed: failed.collect() }
    }

    fn manual(&self, _name: &str) -> Option<String> {
        None
    }

    fn reload(&self) -> Soon<'_, Reloaded> {
        Box::pin(std::future::ready(Reloaded::default()))
    }

    fn check<'a>(&'a self, name: &'a str, _code: &'a str) -> Soon<'a, Result<Spec, Fault>> {
        let fault = Fault::new(Kind::Unavailable, format!("`{name}` can't be checked yet"));
        Box::pin(std::future::ready(Err(fault)))
    }

    fn rewritten<'a>(&'a self, _name: &'a str) -> Soon<'a, Result<(), Fault>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn call<'a>(&'a self, name: &'a str, arguments: Value) -> Soon<'a, Called> {
        Box::pin(async move {
            let answer = self.session.call(Call::new(name, arguments)).await;
            Called { result: answer.result, notes: answer.notes, took: answer.took }
        })
    }
}

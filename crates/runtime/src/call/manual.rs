//! Manual first: tools that are called only once their manual was read.

use kit::{Fault, Kind, Origin, Spec};

use crate::{Catalog, Session};

/// The tools that show a manual, the one to name first.
const READERS: [&str; 2] = ["info", "tool_manual"];

/// Under which key it is kept that a session was shown the manual of a tool.
fn key(tool: &str) -> String {
    format!("manual {tool}")
}

/// Refuses a tool whose manual is to be read first, as long as this session was not shown it. Where no tool shows
/// manuals nobody could, and nothing is refused.
pub(super) fn check(session: &Session, catalog: &Catalog, spec: &Spec) -> Result<(), Fault> {
    if !session.wants_manual(&spec.name) {
        return Ok(());
    }
    let shows = |it: &&&str| catalog.get(it).is_some_and(|tool| tool.spec().origin == Origin::Program);
    let Some(reader) = READERS.iter().find(shows).filter(|it| **it != spec.name) else { return Ok(()) };
    Err(Fault::new(
        Kind::Stale,
        format!("the manual of `{0}` is to be read before `{0}` is called", spec.name),
    )
    .next(format!("Call `{reader}` with {{\"name\": \"{}\"}}, then make this call again.", spec.name)))
}

impl Session {
    /// Is this tool called only after its manual, and was the session not shown it yet?
    fn wants_manual(&self, tool: &str) -> bool {
        let named = self.policy().manual_first.iter().any(|it| it == tool);
        (named || self.runtime().plugins().manual_first(tool)) && !self.has_read_manual(tool)
    }

    fn has_read_manual(&self, tool: &str) -> bool {
        if self.manuals().lock().contains(tool) {
            return true;
        }
        if !self.is_named() {
            return false;
        }
        let kept = self.store().sessions().get(self.name(), &key(tool));
        let read = matches!(kept, Ok(Some(_)));
        if read {
            self.manuals().lock().insert(tool.to_owned());
        }
        read
    }

    /// The session was shown the manual of this tool.
    pub(crate) fn explained(&self, tool: &str) {
        let is_new = self.manuals().lock().insert(tool.to_owned());
        if is_new
            && self.is_named()
            && let Err(fault) = self.store().sessions().put(self.name(), key(tool), Vec::new())
        {
            tracing::warn!("that the manual of {tool} was read is not kept: {fault}");
        }
    }
}

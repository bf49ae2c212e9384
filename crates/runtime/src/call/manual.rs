//! Manual first: tools that are called only once their manual was read.

use kit::{Fault, Kind, Origin, Spec};

use crate::{Catalog, session_state::SessionState};

/// The tools that show a manual, the one to name first.
const READERS: [&str; 2] = ["info", "tool_manual"];

/// Refuses a tool whose manual is to be read first, as long as this session was not shown it. Where no tool shows
/// manuals nobody could, and nothing is refused.
pub(super) fn check(session: &SessionState, catalog: &Catalog, spec: &Spec) -> Result<(), Fault> {
    if !wants_manual(session, &spec.name) {
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

/// Is this tool called only after its manual, and was the session not shown it yet?
fn wants_manual(session: &SessionState, tool: &str) -> bool {
    let named = session.policy().manual_first.iter().any(|it| it == tool);
    (named || session.runtime().plugins().manual_first(tool)) && !session.has_read_manual(tool)
}

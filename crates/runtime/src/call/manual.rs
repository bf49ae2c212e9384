//! Manual first: tools that require reading their manual before the first call.

use kit::{Fault, Kind, Origin, Spec};

use crate::{Catalog, session_state::SessionState};

/// The tools that show manuals, in order of preference.
const READERS: [&str; 2] = ["info", "tool_manual"];

/// Refuses a tool that requires its manual, until this session was shown it. If no tool can show manuals, it
/// refuses nothing.
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

/// Returns whether this tool requires its manual and the session was not shown it.
fn wants_manual(session: &SessionState, tool: &str) -> bool {
    let named = session.policy().manual_first.iter().any(|it| it == tool);
    (named || session.runtime().plugins().manual_first(tool)) && !session.has_read_manual(tool)
}

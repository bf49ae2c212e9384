//! Missing tools: explains why there is no tool of a name, and suggests similar ones.

use kit::{Fault, Kind, Kinds};

use crate::{plugins::gist, session_state::SessionState};

/// Limit of listed names if the model can request them.
const MANY: usize = 30;

/// Characters shown of a name.
const SHOWN: usize = 100;

/// The tool that lists all tools.
const ASKED: &str = "list_tools";

/// The tool that finds tools that are not listed.
const FOUND: &str = "search_tools";

/// Returns the fault for a call of a missing tool.
pub(super) fn fault(session: &SessionState, name: &str) -> Fault {
    let shown: String = name.chars().take(SHOWN).collect();
    let cut = if shown.len() < name.len() { "…" } else { "" };
    let what = format!("there is no tool `{shown}{cut}` in this session");
    if let Some(why) = of_file(session, name, str::trim_end) {
        return Fault::not_found(format!("{what}: {why}"));
    }
    if let Some(fault) = session.tools().run_elsewhere(name) {
        return fault;
    }
    let catalog = session.catalog();
    if let Some(fault) = withheld(session, name) {
        return fault;
    }
    let near = catalog.nearest(name);
    let next = if near.is_empty() {
        let all: Vec<&str> = catalog.specs().map(|spec| spec.name.as_str()).collect();
        match all.as_slice() {
            [] => "This session has no tools.".to_owned(),
            all if all.len() > MANY && catalog.has(ASKED) => {
                format!("`{ASKED}` names the {} tools there are.", all.len())
            }
            all => format!("The tools here are: {}.", all.join(", ")),
        }
    } else {
        format!("Did you mean `{}`?", near.join("` or `"))
    };
    Fault::not_found(what).next(next)
}

/// Returns the fault for a tool that exists and that this session does not have.
fn withheld(session: &SessionState, name: &str) -> Option<Fault> {
    let snapshot = session.runtime().registry().snapshot();
    let tool = snapshot.get(name)?;
    let at_most = tool.spec().at_most;
    let limits = session.limits();
    let lacks = |list: &[String]| !list.iter().any(|it| it == name);
    // A tool that the person excluded does not exist for any session.
    if session.runtime().allowed().is_some_and(lacks) {
        return None;
    }
    if tool.only_in_plan_mode() && !session.tools().plans() {
        let fault = Fault::new(Kind::Unavailable, format!("`{name}` is only available in plan mode"));
        return Some(fault.next("A person turns it on: `haft run --plan`, or `/plan` in `haft chat`."));
    }
    if tool.only_among_agents() && !session.catalog().has(name) {
        let fault = Fault::new(Kind::Unavailable, format!("`{name}` is only available to agents of a group"));
        return Some(fault.next("A person starts a group, or names the tool in `tools` of haft.toml."));
    }
    if !limits.tools.as_deref().is_some_and(lacks) {
        return None;
    }
    let why = if limits.read_only && (at_most.covers(Kinds::WRITE) || at_most.covers(Kinds::RUN)) {
        ": this session is read-only"
    } else {
        ""
    };
    let catalog = session.catalog();
    let all: Vec<&str> = catalog.specs().map(|spec| spec.name.as_str()).collect();
    let next = if all.is_empty() {
        "It has no tools.".to_owned()
    } else {
        format!("Its tools are: {}.", all.join(", "))
    };
    Some(Fault::not_found(format!("`{name}` is not among the tools of this session{why}")).next(next))
}

/// Explains in one line why there is no tool of this name: an error in its file, or a similar name. None, if
/// nothing is known.
pub(crate) fn why_missing(session: &SessionState, name: &str) -> Option<String> {
    if let Some(why) = of_file(session, name, gist) {
        return Some(session.secrets().mask(&why).into_owned());
    }
    let catalog = session.catalog();
    let near = catalog.nearest(name);
    match near.is_empty() {
        false => Some(format!("did you mean `{}`?", near.join("` or `"))),
        // A model that was shown a part of the tools must not take it for all.
        true => (catalog.left_out() > 0).then(|| format!("`{FOUND}` finds those that are not listed")),
    }
}

/// Returns the reason, if a file or a server should have the tool.
fn of_file(session: &SessionState, name: &str, told: fn(&str) -> &str) -> Option<String> {
    let outside = session.runtime().plugins();
    outside
        .why_missing(name, told)
        .or_else(|| outside.left_aside(name))
        .or_else(|| outside.servers().why_missing(name))
}

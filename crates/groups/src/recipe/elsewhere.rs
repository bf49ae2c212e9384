//! Members whose turns run on workers: their inbox, messages, triggers and budget stay here, so they can have nothing that acts
//! in the group while a turn runs.

use kit::{Fault, services::PRIVILEGED_TOOLS};

use super::MemberSpec;

/// Tools that act in the group, arm triggers or ask the person: they exist only beside the group.
const HERE: [&str; 11] = [
    "send_channel",
    "send_message",
    "group_send",
    "ask_user",
    "show_card",
    "add_timer",
    "add_schedule",
    "watch_channel",
    "delete_trigger",
    "list_triggers",
    "switch_profile",
];

/// Checks that a member with `on` needs nothing that a worker lacks.
///
/// # Errors
/// When it does, with its name and what to use instead.
pub(super) fn check(spec: &MemberSpec, is_root: bool) -> Result<(), Fault> {
    let Some(on) = &spec.on else { return Ok(()) };
    let name = &spec.name;
    let refused = |what: String, next: &str| Err(Fault::bad_args(what).next(next));
    kit::labels::parse(on).map_err(|why| Fault::bad_args(format!("`{name}`: `on`: {why}")))?;
    if is_root {
        return refused(
            format!(
                "`{name}` is privileged and has `on`: its tools, such as `group_status`, change the group here"
            ),
            "Give `on` to an agent below it.",
        );
    }
    if let Some(channel) = spec.send.first() {
        return refused(
            format!("`{name}` has `on`, so it has no tool `send_channel`, and can't send on `{channel}`"),
            "Use `wires`: its last answer goes to those agents. It may `listen` to channels.",
        );
    }
    let here = |it: &&String| HERE.contains(&it.as_str()) || PRIVILEGED_TOOLS.contains(&it.as_str());
    if let Some(tool) = spec.tools.iter().flatten().find(here) {
        return refused(
            format!("`{name}` has `on`, and its tool `{tool}` works only beside the group"),
            "Leave the tool out; `wires` passes on what the agent answers.",
        );
    }
    let others = [
        (spec.process, "process", "its turns have a process of their own on the worker"),
        (
            spec.pwd.is_some(),
            "pwd",
            "a turn on a worker begins in the workspace; name the folder in `prompt`",
        ),
        (
            spec.read_only && spec.profile.is_some(),
            "read_only",
            "the profile decides that; put `sandbox: read-only` there",
        ),
    ];
    match others.into_iter().find(|it| it.0) {
        Some((_, key, why)) => {
            refused(format!("`{name}` has `on`, and `{key}` does not go with it: {why}"), "Leave it out.")
        }
        None => Ok(()),
    }
}

//! Slash commands in an editor: the person's own and the workspace's, skills, and those of the chat that make sense here.

use agent::Agent;
use kit::Fault;
use runtime::Call;
use serde_json::json;
use serve::acp::v1::{
    AvailableCommand, AvailableCommandInput, AvailableCommandsUpdate, UnstructuredCommandInput,
};
use tokio_util::sync::CancellationToken;

use crate::{
    Opened,
    slash::{All, Own},
    terminal::{
        abbreviate,
        commands::{COMMANDS, Command, Meant, meant},
    },
    verbs::{chat, run::fault},
};

/// The chat's own commands that can be sent as a prompt.
const OWN: [&str; 3] = ["/compact", "/context", UNDO];

/// The one that works wherever the session runs.
pub(super) const UNDO: &str = "/undo";

/// Returns the commands that are available now.
pub(super) fn available(opened: &Opened) -> AvailableCommandsUpdate {
    let command = |name: &str, does: String, takes: &str| {
        let input = AvailableCommandInput::Unstructured(UnstructuredCommandInput::new(takes));
        AvailableCommand::new(name, does).input(Some(input).filter(|_| !takes.is_empty()))
    };
    let own = COMMANDS.iter().filter(|it| OWN.contains(&it.name));
    let own = own.map(|it| command(it.name.trim_start_matches('/'), it.does.to_owned(), it.takes));
    let all = All::read(opened);
    let files = all.own.iter().map(|it| command(it.name(), it.does(), it.takes()));
    AvailableCommandsUpdate::new(own.chain(files).collect())
}

/// Returns the commands that are available in a session that another process runs.
pub(super) fn elsewhere() -> AvailableCommandsUpdate {
    let own = COMMANDS.iter().filter(|it| it.name == UNDO);
    let command = |it: &Command| AvailableCommand::new(it.name.trim_start_matches('/'), it.does);
    AvailableCommandsUpdate::new(own.map(command).collect())
}

/// The meaning of a prompt: words for the model, or a slash command.
pub(super) enum Asked<'a> {
    /// The prompt goes to the model.
    Words,
    /// A command of the chat, and the text that follows it.
    Chat(&'static str, &'a str),
    /// A command or skill from a file, and the text that follows its name.
    File(&'a Own, &'a str),
}

/// Returns the meaning of a prompt.
///
/// # Errors
/// When they begin with `/` and a name that is unknown, that only the chat at a terminal has, or that is not trusted.
pub(super) fn asked<'a>(all: &'a All, words: &'a str) -> Result<Asked<'a>, Fault> {
    if !words.starts_with('/') {
        return Ok(Asked::Words);
    }
    let names: Vec<String> = all.own.iter().map(|it| it.name().to_owned()).collect();
    if let Meant::Command(name, given) = meant(words, &names)
        && OWN.contains(&name)
    {
        return Ok(Asked::Chat(name, given));
    }
    Ok(all.called(words)?.map_or(Asked::Words, |(own, given)| Asked::File(own, given)))
}

/// Runs a command of the chat; returns its output.
pub(super) async fn run(
    agent: &mut Agent,
    name: &str,
    given: &str,
    cancel: &CancellationToken,
) -> Result<String, Fault> {
    match name {
        "/compact" => {
            let keep = Some(given).filter(|it| !it.is_empty());
            let done = agent.compact(keep, cancel).await.map_err(fault)?;
            Ok(format!(
                "Compacted: about {} tokens became {}. All of it stays readable for the model.",
                abbreviate::count(done.before),
                abbreviate::count(done.after)
            ))
        }
        "/context" => Ok(format!("```\n{}\n```", chat::context(&agent.context()))),
        UNDO => {
            let arguments = if given.is_empty() { json!({}) } else { json!({"call": given}) };
            let session = agent.session().clone();
            let call = Call { cancel: cancel.child_token(), by_person: true, ..Call::new("undo", arguments) };
            let answer = session.call(call).await;
            let text = answer.as_text();
            answer.result.map(|_| text)
        }
        other => Err(Fault::bug(format!("{other} is not done here"))),
    }
}

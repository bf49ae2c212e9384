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
    session_service::report,
    slash::{All, Own},
    terminal::{
        abbreviate,
        commands::{Meant, meant},
    },
    verbs::{
        chat::elsewhere::{COMMANDS, is_known},
        run::fault,
    },
};

/// The commands of the chat that the agent of this process runs in a turn of their own.
const IN_TURN: [&str; 3] = ["/compact", "/context", "/undo"];

/// Returns the commands that are available now; where another process runs the session, those of files are not.
pub(super) fn available(opened: &Opened, runs_here: bool) -> AvailableCommandsUpdate {
    let command = |name: &str, does: String, takes: &str| {
        let input = AvailableCommandInput::Unstructured(UnstructuredCommandInput::new(takes));
        AvailableCommand::new(name, does).input(Some(input).filter(|_| !takes.is_empty()))
    };
    let own = COMMANDS.iter();
    let own = own.map(|it| command(it.name.trim_start_matches('/'), it.does.to_owned(), it.takes));
    if !runs_here {
        return AvailableCommandsUpdate::new(own.collect());
    }
    let all = All::read(opened);
    let files = all.own.iter().map(|it| command(it.name(), it.does(), it.takes()));
    AvailableCommandsUpdate::new(own.chain(files).collect())
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
        && is_known(name)
    {
        return Ok(Asked::Chat(name, given));
    }
    Ok(all.called(words)?.map_or(Asked::Words, |(own, given)| Asked::File(own, given)))
}

/// Returns whether the agent of this process runs this command in a turn.
pub(super) fn runs_in_turn(name: &str) -> bool {
    IN_TURN.contains(&name)
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
        "/context" => Ok(format!("```\n{}\n```", report::context(&agent.context()))),
        "/undo" => {
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

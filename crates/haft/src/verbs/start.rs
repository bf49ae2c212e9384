//! `haft` without a command or with an unknown one: starts the chat, or suggests a command.

use std::{io::IsTerminal, process::ExitCode};

use agent::model::{models as known, usual};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use kit::{Fault, nearest::nearest};

use super::{USAGE, chat::Chat, models::local};
use crate::{Options, Place, agent_factory, environment::program, print};

/// Runs `haft` without a command: at a terminal with a usable model it starts the chat, without a model it prints how to get
/// one. Without a terminal it prints `help` and fails.
///
/// # Errors
/// Those of the chat.
pub async fn without_command(options: &Options, place: &Place, help: &str) -> Result<ExitCode, Fault> {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        print::err(help.trim_end());
        return Ok(ExitCode::from(USAGE));
    }
    match without_model(options, place).await? {
        None => Chat::default().run(options, place).await,
        Some(ways) => {
            print::out(&ways);
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Returns the ways to get a model, if none is configured and no provider has a key.
///
/// # Errors
/// When the configuration can't be read.
pub(super) async fn without_model(options: &Options, place: &Place) -> Result<Option<String>, Fault> {
    let (agents, _) = options.agents(place)?;
    let is_named =
        agent_factory::configured(&agents, &place.variables).is_some() || agents.agent.profile.is_some();
    if is_named || usual(agents.choices(&place.variables)).is_some() {
        return Ok(None);
    }
    let local: Vec<Local> = local(&agents, place)
        .await
        .into_iter()
        .filter_map(|(source, models)| {
            let model =
                if source.login().starts_with("models.") { source.name() } else { &models.first()?.name };
            Some(Local { model: model.to_owned(), at: source.origin()?, count: models.len() })
        })
        .collect();
    Ok(Some(ways(&local, &program())))
}

/// A model server on this machine.
struct Local {
    /// One of its models, as `--model` takes it.
    model: String,
    at: String,
    count: usize,
}

/// Returns the ways to get a model, for a person who has none.
fn ways(local: &[Local], haft: &str) -> String {
    let providers: Vec<&str> = known().map(|it| it.provider).filter(|it| *it != "ollama").collect();
    let mut others: Vec<&str> = Vec::new();
    for provider in providers {
        if !others.contains(&provider) {
            others.push(provider);
        }
    }
    let first = if others.is_empty() { "PROVIDER" } else { others.remove(0) };
    let mut text = format!(
        "No model yet. Three ways to start:\n\n\
         1. A key\n  {haft} login {first}\n  (or {})\n\
         2. A local model\n",
        others.join(", ")
    );
    if local.is_empty() {
        text.push_str(&format!("  ollama pull qwen3 && {haft} chat --model ollama:qwen3\n"));
        text.push_str("  (none found: nothing answers at port 11434)\n");
    }
    for Local { model, at, count } in local {
        let models = if *count == 1 { "1 model".to_owned() } else { format!("{count} models") };
        text.push_str(&format!("  {haft} chat --model {model}\n  (found: {models} at {at})\n"));
    }
    text.push_str(&format!(
        "3. No model\n  {haft} demo\n  (a scripted model, the real tools, no network)\n\n\
         Or give the tools to the agent you have:\n  {haft} mcp install claude-code\n\
         All commands:\n  {haft} --help"
    ));
    text
}

/// Returns the message for an unknown command, or `None` if the error is about something else. `words` are the arguments of
/// the process without the program's name.
pub fn unknown_command(
    error: &clap::Error,
    words: &[String],
    commands: &[&str],
    program: &str,
) -> Option<String> {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    // An unknown command below another one, such as `haft mcp nonsense`, is clap's to report.
    let at = words.iter().position(|it| it == typed)?;
    if words.get(..at)?.iter().any(|it| commands.contains(&it.as_str())) {
        return None;
    }
    // A task is often typed without quotes; options after it are not part of it.
    let task: Vec<&str> =
        words.iter().skip(at).map(String::as_str).take_while(|it| !it.starts_with('-')).collect();
    let task = quoted(&task.join(" "));
    let what = format!("unknown command {}", quoted(typed));
    Some(match nearest(typed, commands.iter().copied()) {
        Some(near) => format!(
            "{what}; did you mean `{program} {near}`?\nTo run a task: {program} run {task}; to talk: {program} chat {task}"
        ),
        None => format!(
            "{what}\nTo run a task: {program} run {task}\nTo talk:       {program} chat {task}\nAll commands:  {program} --help"
        ),
    })
}

/// Returns a text in quotes, as a shell takes it.
fn quoted(text: &str) -> String {
    let text = kit::escape::visible(text).0;
    if text.contains(['"', '$', '`', '\\', '!']) {
        format!("'{}'", text.replace('\'', r"'\''"))
    } else {
        format!("\"{text}\"")
    }
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::*;

    const COMMANDS: [&str; 3] = ["run", "chat", "mcp"];

    fn said(words: &[&str]) -> Option<String> {
        let command = Command::new("haft")
            .subcommand(Command::new("run"))
            .subcommand(Command::new("chat"))
            .subcommand(Command::new("mcp").subcommand(Command::new("list")).subcommand_required(true));
        let error = command.try_get_matches_from([&["haft"], words].concat()).err()?;
        let words: Vec<String> = words.iter().map(|it| (*it).to_owned()).collect();
        unknown_command(&error, &words, &COMMANDS, "haft")
    }

    #[test]
    fn a_task_without_a_command_is_answered_with_what_to_type() {
        let text = said(&["fix it"]).unwrap_or_default();
        assert_eq!(
            text,
            "unknown command \"fix it\"\nTo run a task: haft run \"fix it\"\nTo talk:       haft chat \"fix it\"\nAll commands:  haft --help"
        );
        let text = said(&["fix", "the", "test", "--json"]).unwrap_or_default();
        assert!(text.contains("haft run \"fix the test\"\n"), "{text}");
        let text = said(&["print `id` $HOME"]).unwrap_or_default();
        assert!(text.contains("haft run 'print `id` $HOME'\n"), "{text}");
    }

    #[test]
    fn a_misspelt_command_is_suggested_and_one_below_another_is_left_to_clap() {
        let text = said(&["chta"]).unwrap_or_default();
        assert!(text.starts_with("unknown command \"chta\"; did you mean `haft chat`?"), "{text}");
        assert_eq!(said(&["mcp", "lsit"]), None);
        assert_eq!(said(&["run", "--nonsense"]), None);
    }

    #[test]
    fn three_ways_are_named_and_a_local_model_that_was_found() {
        let none = ways(&[], "haft");
        for way in
            ["haft login anthropic", "or openai, gemini", "none found", "haft demo", "haft mcp install"]
        {
            assert!(none.contains(way), "{none}");
        }
        let found =
            Local { model: "ollama:tiny:1b".to_owned(), at: "http://127.0.0.1:11434".to_owned(), count: 2 };
        let text = ways(&[found], "haft");
        assert!(
            text.contains("haft chat --model ollama:tiny:1b\n") && text.contains("(found: 2 models at"),
            "{text}"
        );
        assert!(none.lines().all(|it| it.chars().count() <= 80), "{none}");
    }
}

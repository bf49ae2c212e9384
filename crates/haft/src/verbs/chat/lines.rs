//! How is chatted where there is no terminal to draw on: line by line?

use std::{
    io::{BufRead, IsTerminal, Write},
    process::ExitCode,
    sync::Arc,
};

use agent::{Ended, Message};
use kit::Fault;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_util::sync::CancellationToken;

use super::Chat;
use crate::{
    Options, Place,
    ask::{approver, asker},
    print,
    terminal::{
        interrupt::{self, STOPPED},
        plain::{Out, Plain},
        short,
    },
    verbs::{FAULT, finish, run::fault},
};

/// So much of a call is told.
const TITLE: usize = 100;

/// Reads lines, has the agent answer each, and prints what it says.
pub(super) async fn run(chat: Chat, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
    let cancel = CancellationToken::new();
    interrupt::watch(cancel.clone(), || ())
        .map_err(|error| Fault::new(kit::Kind::Unavailable, format!("signals can't be heard: {error}")))?;
    let agency = chat.agent.open(options, place, approver()).await?;
    for line in &agency.opened.aside {
        print::err(&runtime::visible(&format!("haft: {line}")).0);
    }
    let name = agency.earlier(chat.resume, options.session.as_deref())?;
    let session = agency.session(name.as_deref(), "chat", approver());
    let plain = Arc::new(Plain::new(Out::new(cancel.clone())));
    let (mut agent, told) = agency.agent(session, plain.clone(), asker())?;
    told.iter().for_each(|it| print::err(&format!("haft: {it}")));
    before(&agent.transcript().messages()?);
    let mut lines = read_lines();
    let mut code = ExitCode::SUCCESS;
    let mut first = Some(chat.words.join(" ")).filter(|it| !it.trim().is_empty());
    loop {
        mark();
        let line = match first.take() {
            Some(words) => Some(words),
            None => tokio::select! {
                line = lines.recv() => line,
                () = cancel.cancelled() => None,
            },
        };
        let Some(line) = line else { break };
        let text = line.trim();
        match text {
            "" => continue,
            "/exit" => break,
            _ => {}
        }
        let outcome = agent.turn(Some(text.to_owned()), &cancel).await;
        plain.end();
        match outcome {
            Ok(outcome) if outcome.ended == Ended::Done => {}
            Ok(outcome) => print::err(&format!("haft: {}", how(outcome.ended))),
            Err(error) => {
                print::err(&runtime::visible(&format!("haft: {}", fault(error).as_text())).0);
                code = ExitCode::from(FAULT);
            }
        }
    }
    finish(agent.session()).await;
    Ok(if cancel.is_cancelled() { ExitCode::from(STOPPED) } else { code })
}

fn how(ended: Ended) -> &'static str {
    match ended {
        Ended::Done => "done",
        Ended::Cancelled => "stopped; `haft chat --resume` goes on",
        Ended::Limit => "stopped at its limit",
        Ended::Refused => "the provider refused to go on",
    }
}

/// Where a person types, they see that it is their turn.
fn mark() {
    if std::io::stdin().is_terminal() && std::io::stdout().is_terminal() {
        let mut out = std::io::stdout().lock();
        // Who can't see it can type all the same.
        let _ = out.write_all(b"> ").and_then(|()| out.flush());
    }
}

/// What was said last, where a conversation goes on.
fn before(said: &[Message]) {
    for message in said.iter().rev().take(super::SHOWN).rev() {
        let line = match message {
            Message::Person { text, .. } => format!("> {text}"),
            Message::Model { text } => text.clone(),
            Message::Tool { tool, title, .. } => {
                let arguments = serde_json::from_str(title).unwrap_or_else(|_| title.clone().into());
                format!("< {tool} {}", short::arguments(&arguments, TITLE))
            }
            Message::Note { text } => format!("! {text}"),
        };
        print::err(&runtime::visible(&line).0);
    }
}

/// The lines of standard input, as they come.
fn read_lines() -> UnboundedReceiver<String> {
    let (tell, lines) = unbounded_channel();
    // A thread of its own: a read can't be called off, and must not hold up the end.
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            if tell.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

//! `haft send`: a message to the agent of a session, which is shown before the model's next step.

use std::{
    io::{IsTerminal, Read as _},
    process::ExitCode,
};

use agent::conversation;
use clap::Args;
use kit::{Fault, Kind};
use runtime::Runtime;
use serde_json::json;
use store::{NewMessage, Source};

use super::close;
use crate::{Options, Place, print, session_service::Service};

#[derive(Args)]
pub struct Send {
    /// Session: its name, the beginning of it, or `latest`; a sub-agent as `SESSION/AGENT`
    #[arg(value_name = "SESSION")]
    session: String,
    /// Text; without it, standard input is read
    #[arg(value_name = "TEXT")]
    text: Vec<String>,
    /// Message that this one answers: its id
    #[arg(long, value_name = "ID")]
    reply_to: Option<String>,
    /// Idempotency key: a message of the same key is delivered once
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Send {
    /// Posts the message, and prints whether the session runs.
    ///
    /// # Errors
    /// When there is no such session, the text is empty or too long, or the store can't be written.
    pub async fn run(self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let opened = options.open(place)?;
        let done = self.post(&opened.runtime).await;
        close(&opened.runtime);
        done.map(|()| ExitCode::SUCCESS)
    }

    async fn post(&self, runtime: &Runtime) -> Result<(), Fault> {
        let session = recipient(runtime, &self.session)?;
        let text = self.text()?;
        let service = Service::new(runtime, "send");
        // Only words that a person types at a terminal are a person's. A program that runs this command is a program.
        let is_typed =
            !self.text.is_empty() && std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        let (source, sender) =
            if is_typed { (Source::Person, service.who()) } else { (Source::Direct, "haft send") };
        let message = NewMessage {
            reply_to: self.reply_to.clone(),
            key: self.key.as_ref().map(|it| format!("send {it}")),
            ..NewMessage::new(&session, source, sender, text)
        };
        let posted = runtime.store().inbox().post(message).await?;
        // A sub-agent runs in the process of the session above it.
        let above = session.split('/').next().unwrap_or(&session);
        service.sessions.tell_of_message(above, &session).await;
        let runs = runtime.store().transcripts().holder(above)?.is_some();
        if self.json {
            let said =
                json!({"session": session, "message": posted.message, "new": posted.is_new, "running": runs});
            print::json(&said);
            return Ok(());
        }
        let when = if !posted.is_new {
            "it had a message of this key before, and nothing was added"
        } else if runs {
            "the agent gets it before its next step"
        } else {
            "no process runs the session; its agent gets it when the conversation goes on"
        };
        print::out(&format!("{} to {session}: {when}\n", posted.message));
        Ok(())
    }

    fn text(&self) -> Result<String, Fault> {
        let mut text = self.text.join(" ");
        if text.is_empty() && !std::io::stdin().is_terminal() {
            let most = u64::try_from(store::LONGEST_MESSAGE).unwrap_or(u64::MAX) + 1;
            std::io::stdin()
                .take(most)
                .read_to_string(&mut text)
                .map_err(|error| Fault::bad_args(format!("standard input can't be read as text: {error}")))?;
        }
        if text.trim().is_empty() {
            return Err(
                Fault::bad_args("there is no text to send").next("haft send latest \"also run the tests\"")
            );
        }
        Ok(text)
    }
}

/// Returns the session of this name: a conversation, a sub-agent that runs, or a session that has said nothing yet.
fn recipient(runtime: &Runtime, name: &str) -> Result<String, Fault> {
    if name.contains('/') {
        let running = runtime.store().channels().member(name)?;
        return running.map(|it| it.session).ok_or_else(|| {
            Fault::new(Kind::NotFound, format!("no agent `{name}` runs"))
                .next("Send to the session that started it.")
        });
    }
    match conversation(runtime, name) {
        Ok(found) => Ok(found.session),
        Err(fault) => {
            // A chat that has just begun.
            let is_running = runtime.store().transcripts().holder(name)?.is_some();
            if is_running { Ok(name.to_owned()) } else { Err(fault) }
        }
    }
}

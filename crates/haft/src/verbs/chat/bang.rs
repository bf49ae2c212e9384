//! `!command`: the person runs a command, sees what it prints, and the model sees both with the next message.
//!
//! The session's own tool runs it: in the same sandbox, under the same rules, and in the journal.

use kit::Fault;
use serde_json::json;
use sessions::{Event, attach_command};
use tokio_util::sync::CancellationToken;

use super::{conversation::Conversation, front_end::Face};
use crate::terminal::row::Style;

/// The tools that run a command.
const SHELLS: [&str; 3] = ["shell", "bash", "terminal"];

impl<F: Face> Conversation<F> {
    /// Runs a command for the person.
    pub(super) async fn run(&mut self, command: &str) {
        if command.is_empty() {
            self.fails(&Fault::bad_args("there is no command after the `!`").next("Type one: !git status"));
            return;
        }
        let catalog = self.agent.session().catalog();
        let Some(tool) = SHELLS.into_iter().find(|it| catalog.has(it)) else {
            self.fails(&Fault::not_found("this session has no tool that runs commands"));
            return;
        };
        let (by, command_line) = (self.service.who().to_owned(), command.to_owned());
        self.owner.log().add(Event::Command { key: None, by, command: command_line });
        let cancel = CancellationToken::new();
        let look = self.agent.look(tool, json!({"command": command}), true, &cancel);
        self.face.shows_whole();
        let looked = self.face.attend(self.view.after(look), &cancel).await;
        let text = looked.text.trim_end();
        self.face.tell(if text.is_empty() { "(no output)" } else { text }, Style::PLAIN);
        if cancel.is_cancelled() {
            return;
        }
        if !looked.ok || looked.exit.is_some_and(|it| it != 0) {
            self.face.failed();
        }
        attach_command(&mut self.beside, command, looked.pieces);
    }
}

//! Front ends of a chat: a terminal view, or line by line.

use std::future::Future;

use agent::{Agent, Change, Message};
use kit::Fault;
use tokio_util::sync::CancellationToken;

use crate::terminal::{
    chat::{Front, PromptInput},
    complete::{Own, Value},
    diff,
    input_line::Entry,
    picker::Item,
    row::Style,
};

/// A hint at the command that prints a long diff in full.
pub(super) const HINT: &str = "haft log --diff shows all";

/// The connection between the person and the agent of a chat.
pub(super) trait Face {
    /// Returns the next input of the person.
    async fn prompt(&mut self) -> PromptInput;

    /// Shows events until `work` is done. A person who stops it triggers `cancel`.
    async fn attend<T>(&mut self, work: impl Future<Output = T>, cancel: &CancellationToken) -> T;

    /// Shows a text that haft wrote.
    fn tell(&mut self, text: &str, style: Style);

    /// Shows a text of several pages, of which a person may read as much as they want.
    async fn page(&mut self, title: &str, text: &str);

    /// Lets the person choose from a list: `Some(None)` if they choose nothing, `None` if this front end has no lists.
    async fn pick(&mut self, title: &str, items: Vec<Item>) -> Option<Option<usize>>;

    /// Shows a line that the person should know of and did not ask for.
    fn note(&mut self, text: &str);

    /// Shows the messages of an earlier process.
    fn show_before(&mut self, said: &[Message]);

    /// Shows the changes of a call that the person made.
    fn show_changes(&mut self, changes: &[Change]);

    /// Switches to the conversation of this agent.
    fn follow(&mut self, agent: &Agent);

    /// Records that something failed.
    fn failed(&mut self);

    /// Puts a line back at the prompt, to be changed; returns false if that is not possible.
    fn give_back(&mut self, entry: &Entry) -> bool;

    /// Sets the completions of commands.
    fn offer(&mut self, own: Vec<Own>, values: Vec<(&'static str, Vec<Value>)>);

    /// Puts a text into the person's clipboard.
    ///
    /// # Errors
    /// When no terminal can take it.
    fn copy(&mut self, text: &str) -> Result<(), Fault>;

    /// Marks the input of the person as answered: the next output is set apart.
    fn is_answered(&mut self);

    /// Announces that the whole answer of the next call is shown, so that no summary is.
    fn shows_whole(&mut self);

    /// Returns the maximum width of a line, in columns.
    fn columns(&self) -> usize;

    /// Returns whether the chat was ended from outside.
    fn is_over(&self) -> bool;

    /// Returns whether the chat waits for results of background calls at the end of the input.
    fn waits_at_end(&self) -> bool;
}

impl Face for Front {
    async fn prompt(&mut self) -> PromptInput {
        Self::prompt(self).await
    }

    async fn attend<T>(&mut self, work: impl Future<Output = T>, cancel: &CancellationToken) -> T {
        Self::attend(self, work, cancel).await
    }

    fn tell(&mut self, text: &str, style: Style) {
        Self::tell(self, text, style);
    }

    async fn page(&mut self, title: &str, text: &str) {
        Self::page(self, title, text).await;
    }

    async fn pick(&mut self, title: &str, items: Vec<Item>) -> Option<Option<usize>> {
        Some(Self::pick(self, title, items).await)
    }

    fn note(&mut self, text: &str) {
        Self::tell(self, &format!("haft: {text}"), Style::DIM);
    }

    fn show_before(&mut self, said: &[Message]) {
        self.show_messages(said);
    }

    fn show_changes(&mut self, changes: &[Change]) {
        let rows = diff::rows(changes, 2, self.columns(), diff::SHOWN, HINT);
        self.show(&rows);
    }

    fn follow(&mut self, agent: &Agent) {
        Self::follow(self, agent);
        self.welcome();
    }

    fn failed(&mut self) {}

    fn give_back(&mut self, entry: &Entry) -> bool {
        self.put(entry);
        true
    }

    fn offer(&mut self, own: Vec<Own>, values: Vec<(&'static str, Vec<Value>)>) {
        let words = self.words();
        words.set_own(own);
        values.into_iter().for_each(|(command, values)| words.set_values(command, values));
    }

    fn copy(&mut self, text: &str) -> Result<(), Fault> {
        self.clip(text)
    }

    fn is_answered(&mut self) {
        self.part();
    }

    fn shows_whole(&mut self) {
        Self::shows_whole(self);
    }

    fn columns(&self) -> usize {
        Self::columns(self)
    }

    fn is_over(&self) -> bool {
        self.is_hung_up()
    }

    fn waits_at_end(&self) -> bool {
        // The person chose to leave.
        false
    }
}

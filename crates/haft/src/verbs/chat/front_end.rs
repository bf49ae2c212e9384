//! Where a chat is held: at a terminal that is drawn, or line by line.

use std::future::Future;

use agent::{Agent, Change, Message};
use kit::Fault;
use tokio_util::sync::CancellationToken;

use crate::terminal::{
    chat::{Front, Said},
    complete::{Own, Value},
    diff,
    input_line::Entry,
    picker::Item,
    row::Style,
};

/// Where the whole of a long diff is.
pub(super) const HINT: &str = "haft log --diff shows all";

/// How the person and the agent of a chat reach each other.
pub(super) trait Face {
    /// What the person says next.
    async fn prompt(&mut self) -> Said;

    /// Shows what happens until `work` is done. Who stops it gives `cancel`.
    async fn attend<T>(&mut self, work: impl Future<Output = T>, cancel: &CancellationToken) -> T;

    /// Shows a text of haft's own.
    fn tell(&mut self, text: &str, style: Style);

    /// Shows a text of several pages, of which a person may read as much as they want.
    async fn page(&mut self, title: &str, text: &str);

    /// Has the person choose from a list: nothing, where they choose none; and none at all, where there is no such list.
    async fn pick(&mut self, title: &str, items: Vec<Item>) -> Option<Option<usize>>;

    /// Shows a line that the person should know of and did not ask for.
    fn note(&mut self, text: &str);

    /// Shows what was said in an earlier process.
    fn show_before(&mut self, said: &[Message]);

    /// Shows what a call of the person's changed.
    fn show_changes(&mut self, changes: &[Change]);

    /// From now on it is this agent's conversation.
    fn follow(&mut self, agent: &Agent);

    /// Something failed.
    fn failed(&mut self);

    /// Puts a line at the prompt again, to be changed; false, where that can't be done.
    fn give_back(&mut self, entry: &Entry) -> bool;

    /// Offers these where commands are completed.
    fn offer(&mut self, own: Vec<Own>, values: Vec<(&'static str, Vec<Value>)>);

    /// Puts a text into the person's clipboard.
    ///
    /// # Errors
    /// When there is no way to it.
    fn copy(&mut self, text: &str) -> Result<(), Fault>;

    /// What the person typed is done: what comes next stands apart.
    fn is_answered(&mut self);

    /// The whole answer of the next call is shown, so nothing sums it up.
    fn shows_whole(&mut self);

    /// How many columns a line may take.
    fn columns(&self) -> usize;

    /// Did somebody end the chat from outside?
    fn is_over(&self) -> bool;

    /// Are results of background calls still waited for when nothing more is said?
    fn waits_at_end(&self) -> bool;
}

impl Face for Front {
    async fn prompt(&mut self) -> Said {
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

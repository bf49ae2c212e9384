//! The check of what a call's commands changed: before content is lost that can't be kept, each time that a program
//! waits for input, and at the end.

use std::sync::Arc;

use kit::{Fault, Output, Part};
use sandbox::tracker::{Asker, Call};
use serde_json::json;

use super::{
    super::{
        between,
        changes::{self, Wait},
        deletions::{self, Deletions},
        questions::Asking,
        unkept::Unkept,
    },
    Work,
};

/// The changes of a call that are checked.
pub(super) struct Checked {
    /// The call to whose log they belong: the call itself, or after an interaction with its program, one that follows
    /// it.
    call: String,
    /// The call's arguments, for questions.
    arguments: String,
    by_person: bool,
    unkept: Arc<Unkept>,
    asker: Asker,
    /// Holds what was decided about the call's files as long as it runs.
    tracked: Arc<Call>,
}

impl Work {
    /// Begins to ask before content is lost that can't be kept.
    pub(super) fn begin_check(&mut self, arguments: String, by_person: bool) {
        let session = &self.session;
        session.execution().opens_calls(|| between::opener(session));
        let unkept = Unkept::new(&self.session, &self.id, &self.whose, &self.this, &arguments, by_person);
        let asker = unkept.asker();
        let tracked = self.session.runtime().tracks().call(&self.id);
        tracked.asks(asker.clone());
        let call = self.id.clone();
        self.checked = Some(Checked { call, arguments, by_person, unkept, asker, tracked });
    }

    /// Checks what the call has changed since it began, or since its program last waited for input. The program
    /// waits again: what it changes from now on belongs to another call, so that this one can be put back.
    pub(super) async fn handed_over(&mut self, output: Output) -> Output {
        let Some(call) = self.checked.as_ref().map(|it| it.call.clone()) else { return output };
        let tracks = self.session.runtime().tracks().clone();
        if !tracks.folder_of(&call).exists() {
            return self.with_told(Ok(output)).unwrap_or_else(|fault| Output::text(fault.as_text()));
        }
        if let Err(fault) = self.begin_next().await {
            tracing::warn!(call, "an interaction is not checked: {fault}");
            return output;
        }
        let seen = Box::new(output.clone());
        let done = self.settled(&call, Ok(output), Wait::Not).await;
        done.unwrap_or_else(|fault| {
            // The program goes on, so this is an answer and not the end of the call.
            let fault = Fault { seen: None, ..fault };
            with_line(*seen, &fault.as_text())
        })
    }

    /// Checks what the call has changed at its end.
    pub(super) async fn end_check(&mut self, done: Result<Output, Fault>) -> Result<Output, Fault> {
        let call = self.checked.as_ref().map_or_else(|| self.id.clone(), |it| it.call.clone());
        let wait = if self.checked.is_some() { Wait::Checked } else { Wait::Soon };
        let done = self.settled(&call, done, wait).await;
        self.checked = None;
        done
    }

    async fn settled(
        &mut self,
        call: &str,
        done: Result<Output, Fault>,
        wait: Wait,
    ) -> Result<Output, Fault> {
        let done = self.with_told(done);
        let Some(mut end) = changes::end(&self.session, call, wait).await else { return done };
        let done = match &self.checked {
            Some(_) => self.check_deletions(call, done, &mut end).await,
            None => done,
        };
        end.show(&self.landed).await;
        done
    }

    /// Counts to another call what the processes of this one change from now on.
    async fn begin_next(&mut self) -> Result<(), Fault> {
        let next = self.next_call().await?;
        if let Some(checked) = &mut self.checked {
            let following = self.session.runtime().tracks().call(&next);
            following.asks(checked.asker.clone());
            checked.tracked.followed_by(following.clone());
            checked.tracked = following;
            checked.call = next;
        }
        Ok(())
    }

    /// Opens a call that follows this one.
    async fn next_call(&self) -> Result<String, Fault> {
        let arguments = json!({"job": self.this.id(), "follows": self.id});
        between::open_call(&self.session, &self.this.tool, &arguments, "allowed: its job goes on").await
    }

    /// Adds what was decided about files of which no copy can be kept.
    fn with_told(&mut self, done: Result<Output, Fault>) -> Result<Output, Fault> {
        let Some(checked) = &self.checked else { return done };
        let told = checked.unkept.take();
        self.entry.asked.extend(told.decisions);
        told.lines.iter().fold(done, |done, line| with(done, line))
    }

    /// Denies a call whose command deleted too much, unless the person allows it; its changes are put back then. What
    /// the person runs themselves is only pointed out to them.
    async fn check_deletions(
        &mut self,
        call: &str,
        done: Result<Output, Fault>,
        end: &mut changes::End,
    ) -> Result<Output, Fault> {
        let session = self.session.clone();
        let deletions = Deletions { session: &session, call };
        let too_much = match deletions.too_much().await {
            Ok(None) => {
                end.is_settled = true;
                return done;
            }
            Ok(Some(too_much)) => too_much,
            Err(fault) => {
                tracing::warn!(call, "it is not known what a command deleted: {fault}");
                return done;
            }
        };
        if self.checked.as_ref().is_some_and(|it| it.by_person) {
            end.is_settled = true;
            let what = too_much.summary(session.runtime().roots().workspace());
            return with(done, &format!("this {what}; `/undo` brings that back"));
        }
        // What is put back may be changed again by a process that goes on: that is not in this call's log.
        if self.checked.as_ref().is_some_and(|it| it.call == call)
            && let Err(fault) = self.begin_next().await
        {
            tracing::warn!(call, "what a process changes later may not be known: {fault}");
        }
        let Some(checked) = &self.checked else { return done };
        let asked = self.this.asked.clone();
        let cancel = if self.is_job() { &self.this.stop } else { &self.cancel };
        let asking =
            Asking { session: &session, whose: &self.whose, tool: &self.this.tool, asked: &asked, cancel };
        match deletions.ask(&too_much, asking, (self.this.name(), &checked.arguments)).await {
            Ok(decision) => {
                self.entry.asked.push(decision);
                done
            }
            Err(fault) => {
                self.entry.asked.push(format!("denied: {}", deletions::RULE));
                let seen = done.map_or_else(|fault| fault.seen, |output| Some(Box::new(output)));
                Err(Fault { seen, ..fault })
            }
        }
    }
}

/// Adds a line of haft's to a result.
fn with(done: Result<Output, Fault>, line: &str) -> Result<Output, Fault> {
    match done {
        Ok(output) => Ok(with_line(output, &format!("[{line}]"))),
        Err(fault) => {
            let next = fault.next.as_deref().map_or_else(|| line.to_owned(), |next| format!("{next} {line}"));
            Err(Fault { next: None, ..fault }.next(next))
        }
    }
}

fn with_line(mut output: Output, line: &str) -> Output {
    output.parts.push(Part::Text { text: line.to_owned() });
    output
}

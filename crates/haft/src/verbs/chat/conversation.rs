//! A conversation in a chat, in every front end: commands, messages with the files they name, and turns.

use std::{path::PathBuf, sync::Arc};

use agent::{Agent, AgentError, ChangedBy, Driver, Ended, Input, Outcome};
use kit::Fault;
use sessions::{Began, CommandOutputs, Owner, Pending};
use tokio_util::sync::CancellationToken;

use super::front_end::Face;
use crate::{
    agent_factory::AgentFactory,
    attach::{self, Named},
    session_service::{Person, Running, Service, View},
    slash::{All, Own},
    terminal::{
        chat::PromptInput,
        commands::{Meant, meant},
        input_line::Entry,
        row::Style,
    },
    verbs::run::fault,
};

/// Maximum number of messages that are shown when a conversation is resumed.
pub(super) const SHOWN: usize = 12;

/// A conversation.
pub(super) struct Conversation<F> {
    pub(super) face: F,
    pub(super) agent: Agent,
    pub(super) factory: AgentFactory,
    /// Runs the turns of the agent.
    pub(super) driver: Driver,
    pub(super) person: Arc<Person>,
    pub(super) service: Service,
    /// The session as others reach it.
    pub(super) owner: Owner,
    /// Shows its log.
    pub(super) view: View,
    /// Somebody elsewhere closed the session.
    pub(super) closed: Option<String>,
    /// Attachments of the next message: the output of commands that the person ran, and pictures.
    pub(super) beside: CommandOutputs,
    pub(super) pictures: Vec<PathBuf>,
    /// A message that was not sent: sent again, it is meant as it is.
    pub(super) refused: Option<String>,
    /// Untrusted commands and skills whose text the person was shown, as it was.
    pub(super) seen: Vec<Own>,
    /// The calls that changed files in the turns that were taken back last.
    pub(super) taken_back: Vec<ChangedBy>,
    /// The conversations, as they were listed last.
    pub(super) listed: Vec<String>,
}

/// The event that ended a wait for the person.
enum Next {
    Input(PromptInput),
    /// An attached process requests this operation.
    Asked(Pending),
    /// A message arrived or a job ended, and the model must be notified.
    Woken,
}

impl<F: Face> Conversation<F> {
    /// Opens the conversation of the session with this name, or a new one. `person` is at this terminal and receives its
    /// events.
    ///
    /// # Errors
    /// When no agent can be created, or another process runs the session.
    pub(super) async fn open(
        mut face: F,
        factory: AgentFactory,
        name: Option<&str>,
        person: Person,
    ) -> Result<Self, Fault> {
        let person = Arc::new(person);
        let service = Service::new(&factory.opened.runtime, "chat");
        let Running { agent, owner, view, notes } = service.run(&factory, name, &person).await?;
        factory.opened.aside.iter().chain(&notes).for_each(|it| face.note(it));
        let driver = factory.driver(false);
        Ok(Self {
            face,
            agent,
            factory,
            driver,
            person,
            service,
            owner,
            view,
            closed: None,
            beside: Vec::new(),
            pictures: Vec::new(),
            refused: None,
            seen: Vec::new(),
            taken_back: Vec::new(),
            listed: Vec::new(),
        })
    }

    /// Shows the earlier messages; returns true if there are none.
    pub(super) fn begin(&mut self) -> bool {
        self.face.follow(&self.agent);
        self.offer();
        let said = self.agent.transcript().messages().unwrap_or_default();
        let left_out = said.len().saturating_sub(SHOWN);
        if left_out > 0 {
            self.face.tell(&format!("({left_out} earlier messages)"), Style::DIM);
        }
        if !said.is_empty() {
            self.face.show_before(said.get(left_out..).unwrap_or_default());
        }
        said.is_empty()
    }

    /// Handles input until the person leaves.
    pub(super) async fn talk(&mut self) {
        let mut has_input = false;
        loop {
            let next = tokio::select! {
                biased;
                input = self.face.prompt() => Next::Input(input),
                pending = self.owner.next() => Next::Asked(pending),
                () = self.driver.woken(self.agent.session()) => Next::Woken,
            };
            let entry = match next {
                Next::Input(PromptInput::Line(entry)) => entry,
                // Who only looks asks the model for nothing.
                Next::Input(PromptInput::End) if self.face.waits_at_end() && has_input => {
                    return self.settle().await;
                }
                Next::Input(PromptInput::End) => return,
                // Nothing runs while it is this terminal's turn.
                Next::Input(PromptInput::Stop) => continue,
                Next::Asked(pending) => {
                    self.asked(pending).await;
                    if self.closed.is_some() {
                        return;
                    }
                    continue;
                }
                Next::Woken => {
                    self.wake().await;
                    continue;
                }
            };
            has_input = true;
            let all = All::read(&self.factory.opened);
            let names: Vec<String> = all.own.iter().map(|it| it.name().to_owned()).collect();
            match meant(&entry.text, &names) {
                Meant::Leave => return,
                Meant::Unknown(typed, nearest) => {
                    self.fails(&Fault::bad_args(format!("unknown command {typed}")).next(format!(
                        "Did you mean {nearest}? /help lists all; a space before the `/` sends the line as it is."
                    )));
                }
                meant => self.take(meant, &entry, &all).await,
            }
            self.kept();
            self.offer();
            if self.face.is_over() {
                return;
            }
        }
    }

    /// Saves the state of the conversation after a change.
    pub(super) fn kept(&mut self) {
        if let Err(fault) = self.factory.keep(&self.agent) {
            self.fails(&fault);
        }
        self.owner.describe(&self.agent);
        self.face.is_answered();
    }

    /// Executes a line.
    async fn take(&mut self, meant: Meant<'_>, entry: &Entry, all: &All) {
        match meant {
            Meant::Command(name, given) => match self.command(name, given, all).await {
                Ok(text) if text.is_empty() => {}
                Ok(text) => self.face.tell(&text, Style::DIM),
                Err(fault) => self.fails(&fault),
            },
            Meant::Run(command) => self.run(command).await,
            Meant::Own(name, given) => {
                let Some(own) = all.find(name) else { return };
                if !own.is_trusted() && !self.seen.contains(own) {
                    self.seen.push(own.clone());
                    let again = if self.face.give_back(entry) {
                        "Press Enter to send it."
                    } else {
                        "Say it again to send it."
                    };
                    self.fails(&own.unseen(again));
                    return;
                }
                own.notes().iter().for_each(|it| self.face.tell(&format!("note: {it}"), Style::DIM));
                self.say(entry, Some((own, given))).await;
            }
            Meant::Text(text) => {
                let entry = Entry { text: text.to_owned(), ..entry.clone() };
                self.say(&entry, None).await;
            }
            // A picture alone is a message.
            Meant::Nothing if !entry.pictures.is_empty() => self.say(entry, None).await,
            Meant::Nothing | Meant::Leave | Meant::Unknown(..) => {}
        }
    }

    /// Sends a message with the files it names, unless one of them is missing.
    pub(super) async fn say(&mut self, entry: &Entry, own: Option<(&Own, &str)>) {
        let Some(named) = self.named(entry, own) else { return };
        let Some(mut input) = self.input(entry, named).await else { return };
        let begun = own.map(|(own, given)| own.begin(given, &mut input, &self.factory, &self.agent));
        let for_one_turn = match begun.transpose() {
            Ok(it) => it,
            Err(fault) => return self.fails(&fault),
        };
        self.beside.clear();
        let by = self.service.who().to_owned();
        self.turn(input, Began { by, text: entry.text.clone(), ..Began::default() }).await;
        if let Some(Err(fault)) = for_one_turn.map(|it| it.end(&self.agent)) {
            self.fails(&fault);
        }
    }

    /// Returns the files that a message names. If one is missing, the message goes back to the prompt.
    fn named(&mut self, entry: &Entry, own: Option<(&Own, &str)>) -> Option<Named> {
        let insists = self.refused.take().is_some_and(|it| it == entry.text);
        let names = own.map_or_else(|| entry.text.clone(), |(own, given)| own.names_files(given));
        let refused = match attach::check(&self.agent, &names, insists) {
            Ok(named) => return Some(named),
            Err(refused) => refused,
        };
        let fault = if self.face.give_back(entry) {
            self.refused = Some(entry.text.clone());
            refused.told("Press Enter again to send it as text.")
        } else {
            refused.told("It was not sent: put the name into backticks to send it as text.")
        };
        self.fails(&fault);
        None
    }

    /// Returns the message with its attachments. If one of them can't be read, the message goes back to the prompt.
    async fn input(&mut self, entry: &Entry, named: Named) -> Option<Input> {
        let mut input = Input::new(entry.text.clone());
        self.beside.iter().for_each(|(line, pieces)| input.attach(line.clone(), pieces.clone()));
        let paths = [std::mem::take(&mut self.pictures), entry.pictures.clone()].concat();
        let cancel = CancellationToken::new();
        let attaching = async {
            attach::pictures(&mut input, &self.agent, &paths).await?;
            named.attach(&mut input, &self.agent, true, &cancel).await
        };
        if let Err(fault) = self.face.attend(self.view.after(attaching), &cancel).await {
            self.face.give_back(entry);
            self.fails(&fault);
            return None;
        }
        for path in &paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            self.face.tell(&format!("+ picture {name}"), Style::DIM);
        }
        Some(input)
    }

    /// Runs a turn; returns its end, as the process that began it receives it.
    pub(super) async fn turn(&mut self, input: Input, began: Began) -> serde_json::Value {
        self.taken_back.clear();
        let turn = self.owner.begin_turn(&self.agent, Began { attached: input.attached().to_vec(), ..began });
        let cancel = turn.cancel().clone();
        let work = self.driver.say(&mut self.agent, input, &cancel);
        let outcome = self.face.attend(self.view.after(work), &cancel).await;
        let end = turn.end(&outcome);
        self.tell_outcome(outcome);
        serde_json::json!(end)
    }

    /// Runs a turn that continues where the conversation stopped.
    pub(super) async fn go_on_turn(&mut self, began: Began) -> serde_json::Value {
        self.taken_back.clear();
        let turn = self.owner.begin_turn(&self.agent, began);
        let cancel = turn.cancel().clone();
        let work = self.agent.turn(None, &cancel);
        let outcome = self.face.attend(self.view.after(work), &cancel).await;
        let end = turn.end(&outcome);
        self.tell_outcome(outcome);
        serde_json::json!(end)
    }

    /// Runs the turn that a message of the inbox or the end of a job begins.
    async fn wake(&mut self) {
        let by = Driver::cause(self.agent.session()).to_owned();
        let turn = self.owner.begin_turn(&self.agent, Began { by, ..Began::default() });
        let cancel = turn.cancel().clone();
        let work = self.driver.wake(&mut self.agent, &cancel);
        let outcome = self.face.attend(self.view.after(work), &cancel).await;
        turn.end(&outcome);
        self.tell_outcome(outcome);
        self.kept();
    }

    /// Waits for the pending results of background calls after the person's last message.
    async fn settle(&mut self) {
        // A conversation without messages has nothing to wait for.
        if self.agent.transcript().messages().is_ok_and(|said| said.is_empty()) {
            return;
        }
        let cancel = CancellationToken::new();
        let turns = self.driver.settle(&mut self.agent, None, &cancel);
        let settled = self.face.attend(self.view.after(turns), &cancel).await;
        self.tell_outcome(settled.map(|it| it.outcome));
    }

    fn tell_outcome(&mut self, outcome: Result<Outcome, AgentError>) {
        match outcome {
            Ok(outcome) => match outcome.ended {
                Ended::Done => {}
                Ended::Cancelled => self.face.tell("Stopped. What next?", Style::ASKS),
                Ended::Limit => {
                    self.face.tell("Step limit reached; type anything to continue.", Style::ASKS);
                    self.face.failed();
                }
                Ended::Refused => {
                    self.face.tell("The provider refused to go on.", Style::BAD);
                    self.face.failed();
                }
            },
            Err(error) => self.fails(&fault(error)),
        }
    }

    /// Shows a fault.
    pub(super) fn fails(&mut self, fault: &Fault) {
        let next = fault.next.as_deref().map_or_else(String::new, |it| format!("\n{it}"));
        self.face.tell(&format!("{}{next}", fault.what), Style::BAD);
        self.face.failed();
    }
}

//! Agents of the sessions that this process runs: made for the headless loop of the session service, with the slash commands
//! of an editor.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, OnceLock, Weak},
};

use agent::{Agent, Asker, Crew, Steering};
use kit::{
    Fault, Kind,
    services::{Question, Soon},
};
use parking_lot::Mutex;
use runtime::{Approver, Request, Session, Verdict, WeakSession};
use serve::acp::Editor;
use sessions::{Attachment, Attendance, Begin, Hub, Log, Opened, Opener, Prepared, Prompt, Report};

use super::{
    commands::{self, Asked},
    config_options,
    hosted::Hosted,
    opening::SavedSettings,
};
use crate::{agent_factory::AgentFactory, session_service::report, slash::All};

/// The parts that an editor's session shares with the agent that runs here.
pub(super) struct Shared {
    pub(super) factory: Arc<AgentFactory>,
    /// The session is a server's: its agent is never here, and whoever is connected decides approvals only with the role for it.
    pub(super) hosted: Option<Arc<Hosted>>,
    pub(super) editor: Editor,
    /// Settings that are saved for the next time that the session is opened.
    pub(super) kept: Mutex<SavedSettings>,
    here: Mutex<Option<Arc<Here>>>,
}

/// The agent that runs here, as the editor may change it while it works.
pub(super) struct Here {
    session: WeakSession,
    pub(super) crew: Option<Crew>,
    pub(super) steering: Steering,
    pub(super) log: Arc<Log>,
    hub: Arc<Hub>,
    /// Notes for the person, one line each.
    pub(super) notes: Vec<String>,
    /// The person at the editor can be asked as long as this is there.
    attends: Mutex<Option<Attendance>>,
}

impl Here {
    /// Returns the session; `None` once it has ended.
    pub(super) fn session(&self) -> Option<Session> {
        self.session.get()
    }

    /// The editor can't ask its person: a question that nobody else can be asked is not asked.
    pub(super) fn leave(&self) {
        drop(self.attends.lock().take());
    }
}

impl Shared {
    pub(super) fn new(
        factory: Arc<AgentFactory>,
        hosted: Option<Arc<Hosted>>,
        editor: Editor,
        kept: SavedSettings,
    ) -> Self {
        Self { factory, hosted, editor, kept: Mutex::new(kept), here: Mutex::default() }
    }

    /// Returns the agent, if it runs here.
    pub(super) fn here(&self) -> Option<Arc<Here>> {
        self.here.lock().clone().filter(|it| it.session().is_some())
    }

    /// Forgets the agent: it was closed.
    pub(super) fn forget(&self) {
        drop(self.here.lock().take());
    }
}

/// Makes the agent of one session.
pub(super) struct EditorAgents(pub(super) Arc<Shared>);

impl Opener for EditorAgents {
    fn open(&self, prepared: &Prepared) -> Result<Opened, Fault> {
        let (factory, hub) = (&self.0.factory, prepared.hub());
        // Attended from the first call on: the person at the editor, and nobody who may come later.
        let attends = hub.attend();
        hub.set_waits(false);
        let asker = Arc::new(AtHub { hub: hub.clone(), editor: self.0.editor.clone() });
        let session = factory.session(Some(prepared.session()), "acp", prepared.approver());
        let (agent, notes) = factory.agent(session, prepared.observer(), asker)?;
        config_options::restore_effort(&self.0, &agent.steering());
        let here = Here {
            session: agent.session().weak(),
            crew: agent.crew().cloned(),
            steering: agent.steering(),
            log: prepared.log().clone(),
            hub: hub.clone(),
            notes,
            attends: Mutex::new(Some(attends)),
        };
        *self.0.here.lock() = Some(Arc::new(here));
        Ok(Opened { agent, driver: factory.driver(false), notes: Vec::new() })
    }

    fn set_model(&self, agent: &Agent, name: &str) -> Result<(), Fault> {
        agent.steering().set_model(self.0.factory.model(name)?);
        Ok(())
    }

    fn report(&self, agent: &Agent, report: &Report) -> Result<String, Fault> {
        report::of(agent, report)
    }

    fn begin<'a>(&'a self, agent: &'a mut Agent, prompt: Prompt) -> Soon<'a, Result<Begin, Fault>> {
        Box::pin(async move {
            let factory = &self.0.factory;
            let all = All::read(&factory.opened);
            let words = prompt.text.clone();
            let own = match commands::asked(&all, &words)? {
                Asked::Words => None,
                // It came as words of somebody whose front end runs it as an operation.
                Asked::Chat(name, _) if !commands::runs_in_turn(name) => None,
                Asked::File(own, given) => Some((own, given)),
                Asked::Chat(name, given) => {
                    let given = given.to_owned();
                    return Ok(Begin::Command(Box::new(move |agent, cancel| {
                        Box::pin(async move { commands::run(agent, name, &given, cancel).await })
                    })));
                }
            };
            let has_pictures = prompt.attachments.iter().any(|it| matches!(it, Attachment::Picture { .. }));
            if has_pictures && !agent.model().abilities().images {
                let what = format!("`{}` can't look at pictures", agent.model().name());
                return Err(Fault::bad_args(what).next("Choose a model that can, or leave the picture out."));
            }
            let mut input = self.input(agent.session().clone(), prompt).await?;
            let changed = own.map(|(own, given)| own.begin(given, &mut input, factory, agent)).transpose()?;
            let after: Option<sessions::After> = match changed {
                Some(changed) => Some(Box::new(move |agent: &mut Agent| changed.end(agent))),
                None => None,
            };
            Ok(Begin::Turn { input, after })
        })
    }

    /// An editor shows no turn that begins by itself as a turn: it could not be stopped there.
    fn waits_for_jobs(&self) -> bool {
        true
    }

    fn keep(&self, agent: &Agent) -> Result<(), Fault> {
        self.0.factory.keep(agent)?;
        // The process may be killed before the session ends.
        agent.session().keep()
    }
}

/// Asks the people of a session, where the editor has no forms.
struct AtHub {
    hub: Arc<Hub>,
    editor: Editor,
}

impl Asker for AtHub {
    fn ask(&self, question: Question) -> Soon<'_, Result<String, Fault>> {
        // Whoever else attends may write an answer.
        let is_alone = self.hub.attending() <= 1;
        if question.options.is_empty() && !self.editor.has_forms() && is_alone {
            let what = "this editor has no form in which a person could write an answer";
            let fault = Fault::new(Kind::Unavailable, what)
                .next("Give answers to choose from, or ask in your reply and end your turn there.");
            return Box::pin(std::future::ready(Err(fault)));
        }
        self.hub.ask(question)
    }

    fn show(&self, text: String) -> Soon<'_, Result<(), Fault>> {
        self.hub.show(text)
    }
}

/// Asks outside of a session's calls, such as about hosts of a tool's packages, as long as the agent runs here.
#[derive(Default)]
pub(super) struct OfWorkspace(OnceLock<Weak<Shared>>);

impl OfWorkspace {
    pub(super) fn belongs_to(&self, shared: &Arc<Shared>) {
        // It is set once, when the session is opened.
        let _ = self.0.set(Arc::downgrade(shared));
    }

    fn hub(&self) -> Option<Arc<Hub>> {
        Some(self.0.get()?.upgrade()?.here()?.hub.clone())
    }
}

impl Approver for OfWorkspace {
    fn approve(&self, request: Request) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>> {
        Box::pin(async move {
            match self.hub() {
                Some(hub) => hub.approve(request).await,
                None => Verdict::NobodyThere,
            }
        })
    }

    fn asks_together(&self) -> bool {
        true
    }

    fn is_attended(&self, _: &str) -> bool {
        self.hub().is_some_and(|it| it.attending() > 0)
    }
}

//! Traits of a program that runs sessions: how it makes agents.

use agent::{Agent, Driver, Input};
use kit::{Fault, Kind, base64, services::Soon};
use runtime::Session;
use tokio_util::sync::CancellationToken;

use crate::{
    operation::{Attachment, Prompt, Report},
    owner::Prepared,
};

/// How agents are made, for sessions that no terminal runs.
pub trait Opener: Send + Sync {
    /// Opens the agent of the prepared session, with its [observer](Prepared::observer), [approver](Prepared::approver) and
    /// [asker](Prepared::asker). Blocks.
    ///
    /// # Errors
    /// When there is no agent to be had.
    fn open(&self, prepared: &Prepared) -> Result<Opened, Fault>;

    /// Decides whether one more agent may be opened, of this session and for this person. It may close others for that.
    ///
    /// # Errors
    /// When there are too many.
    fn admit<'a>(&'a self, session: &'a str, who: &'a str) -> Soon<'a, Result<(), Fault>> {
        let (_, _) = (session, who);
        Box::pin(std::future::ready(Ok(())))
    }

    /// Has the model of this name answer from now on. Blocks.
    ///
    /// # Errors
    /// When there is no such model.
    fn set_model(&self, agent: &Agent, name: &str) -> Result<(), Fault>;

    /// Goes on under this profile, or without one. Blocks.
    ///
    /// # Errors
    /// When there is no such profile.
    fn set_profile(&self, agent: &Agent, name: Option<&str>) -> Result<(), Fault> {
        let crew = agent.crew().ok_or_else(|| Fault::new(Kind::Unavailable, "this agent has no profiles"))?;
        crew.begin(name, true).map(drop)
    }

    /// Returns the agent's input for the beginning of a turn.
    fn input(&self, session: Session, prompt: Prompt) -> Soon<'_, Result<Input, Fault>> {
        Box::pin(input_of(session, prompt))
    }

    /// Returns what a prompt begins. It may be a command of the front end, or change settings for one turn.
    ///
    /// # Errors
    /// When it can't begin; then there is no turn.
    fn begin<'a>(&'a self, agent: &'a mut Agent, prompt: Prompt) -> Soon<'a, Result<Begin, Fault>> {
        let session = agent.session().clone();
        Box::pin(async move { Ok(Begin::Turn { input: self.input(session, prompt).await?, after: None }) })
    }

    /// Returns the text of a report on the session. Blocks.
    ///
    /// # Errors
    /// When there is nothing to report.
    fn report(&self, agent: &Agent, report: &Report) -> Result<String, Fault> {
        let (_, _) = (agent, report);
        Err(Fault::new(Kind::Unavailable, "the program that runs this session makes no reports"))
    }

    /// Returns whether a prompt is over only once the results that were promised to the model are there.
    fn waits_for_jobs(&self) -> bool {
        false
    }

    /// Keeps how the conversation stands, for whoever goes on with it. Called after each operation. Blocks.
    ///
    /// # Errors
    /// When that can't be written.
    fn keep(&self, agent: &Agent) -> Result<(), Fault> {
        let _ = agent;
        Ok(())
    }
}

/// The beginning of a prompt's work.
pub enum Begin {
    /// A turn of the model.
    Turn {
        /// Its input.
        input: Input,
        /// Restores settings that were changed for this turn.
        after: Option<After>,
    },
    /// A command of the front end. The watchers see its output.
    Command(Command),
}

/// Runs once a turn is over.
pub type After = Box<dyn FnOnce(&mut Agent) -> Result<(), Fault> + Send>;

/// A command of the front end: gives its output. It stops when the token is cancelled.
pub type Command =
    Box<dyn for<'a> FnOnce(&'a mut Agent, &'a CancellationToken) -> Soon<'a, Result<String, Fault>> + Send>;

/// The result of an [`Opener`].
pub struct Opened {
    /// The agent, which holds the session's lease.
    pub agent: Agent,
    /// The driver, which runs its turns.
    pub driver: Driver,
    /// Notes for the person, one line each.
    pub notes: Vec<String>,
}

/// The prompt with what is attached.
async fn input_of(session: Session, prompt: Prompt) -> Result<Input, Fault> {
    let mut input = Input::new(prompt.text);
    for attachment in prompt.attachments {
        match attachment {
            Attachment::Text { name, text } => {
                let attached = session.clone();
                input = tokio::task::spawn_blocking(move || {
                    input.attach_text(&attached, "file", &name, text.as_bytes()).map(|()| input)
                })
                .await
                .map_err(|error| Fault::bug(format!("a text was not attached: {error}")))??;
            }
            Attachment::Picture { name, data } => {
                let bytes = base64::decoded(&data)
                    .ok_or_else(|| Fault::bad_args(format!("the picture `{name}` is not base64")))?;
                input.attach_picture(&session, &name, bytes).await?;
            }
        }
    }
    Ok(input)
}

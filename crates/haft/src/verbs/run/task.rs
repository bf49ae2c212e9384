//! What `haft run` is to do: the words of the task, what is piped in, and pictures.

use std::path::PathBuf;

use agent::{Agent, Input};
use kit::{Fault, Kind};
use tokio_util::sync::CancellationToken;

use super::stdin::{self, Came};
use crate::{
    agent_factory::AgentFactory,
    attach, print,
    slash::{All, ForOneTurn},
};

/// The words of a task have at most so many bytes.
const LONGEST: usize = 256 << 10;

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Task {
    words: String,
    /// What is piped in beside the words.
    piped: Option<Vec<u8>>,
    images: Vec<PathBuf>,
}

/// What came of looking for a task.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Task(Task),
    /// There is none, and none is needed: the conversation goes on where it was left.
    Resume,
    /// Somebody stopped it.
    Stopped,
}

/// The task: what was typed, with what is piped in; or what is piped in, if nothing was typed.
///
/// # Errors
/// When there is none and nothing to resume, or standard input can't be read or is not text.
pub(super) async fn find(
    typed: Option<&str>,
    images: Vec<PathBuf>,
    resume: bool,
    cancel: &CancellationToken,
) -> Result<Found, Fault> {
    if typed.is_some_and(|it| it.trim().is_empty()) {
        return Err(empty());
    }
    let came = match typed {
        Some("-") => stdin::whole(cancel).await?,
        _ => stdin::piped(cancel).await?,
    };
    let piped = match came {
        Came::Stopped => return Ok(Found::Stopped),
        Came::Bytes(bytes) => Some(bytes),
        Came::Nothing => None,
        Came::Silent => {
            print::err(
                "haft: nothing came on standard input within 3 s; going on without it (`< /dev/null` avoids the wait)",
            );
            None
        }
    };
    let (words, piped) = match (typed, piped) {
        (Some("-"), None) => return Err(empty()),
        (None | Some("-"), Some(bytes)) => (words(bytes)?, None),
        (Some(words), piped) => (words.to_owned(), piped),
        (None, None) if resume && images.is_empty() => return Ok(Found::Resume),
        (None, None) => {
            return Err(Fault::bad_args("there is no task").next(
                "Give one: `haft run \"fix the failing test\"`, or pipe it in: `haft run < task.md`. `--resume` alone goes on \
                 with the newest conversation.",
            ));
        }
    };
    Ok(Found::Task(Task { words, piped, images }))
}

impl Task {
    /// It as this agent is given it: with what was piped in, the files that the words name with `@`, and the pictures beside
    /// the words. Words that begin with a slash command of the person's are what that holds, for this turn.
    ///
    /// # Errors
    /// When what was piped in is not text, the words name a file or a command that is not there, or a picture can't be read
    /// or shown to the model.
    pub(super) async fn input(
        self,
        factory: &AgentFactory,
        agent: &Agent,
        cancel: &CancellationToken,
    ) -> Result<(Input, Option<ForOneTurn>), Fault> {
        let all = All::read(&factory.opened);
        let own = all.called(&self.words)?;
        let names = own.map_or_else(|| self.words.clone(), |(own, given)| own.names_files(given));
        let named = attach::check(agent, &names, false)
            .map_err(|it| it.told("Put a name that is not a file into backticks."))?;
        let mut input = Input::new(self.words.clone());
        named.attach(&mut input, agent, false, cancel).await?;
        if let Some(bytes) = &self.piped {
            input.attach_text(agent.session(), "stdin", "", bytes)?;
        }
        let model = agent.model();
        if !self.images.is_empty() && !model.abilities().images {
            return Err(Fault::bad_args(format!("`{}` can't look at pictures", model.name()))
                .next("Name a model that can with `--model`, or leave `--image` out."));
        }
        for path in &self.images {
            attach::image(&mut input, agent.session(), path).await?;
        }
        let for_one_turn =
            own.map(|(own, given)| own.begin(given, &mut input, factory, agent)).transpose()?;
        Ok((input, for_one_turn))
    }
}

/// What is piped in as the words of the task.
fn words(bytes: Vec<u8>) -> Result<String, Fault> {
    if bytes.len() > LONGEST {
        let what =
            format!("the task on standard input has {} bytes; at most {LONGEST} are a task", bytes.len());
        return Err(Fault::new(Kind::TooBig, what)
            .next("Give the task as an argument, and pipe in only what it is about: `haft run \"explain this\" < error.log`."));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Fault::bad_args(format!("the task on standard input is not UTF-8 text: byte {at} is not"))
            .next("Give the task as an argument: `haft run \"fix the failing test\"`.")
    })
}

fn empty() -> Fault {
    Fault::bad_args("the task is empty").next("Say what to do: `haft run \"fix the failing test\"`.")
}

//! The task of `haft run`: its words, piped input, and pictures.

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

/// Maximum size of the words of a task, in bytes.
const LONGEST: usize = 256 << 10;

/// A task for an agent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Task {
    words: String,
    /// Piped input in addition to the words.
    piped: Option<Vec<u8>>,
    images: Vec<PathBuf>,
}

/// The result of looking for a task.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Task(Task),
    /// There is no task, and none is needed: the conversation continues where it stopped.
    Resume,
    /// Somebody stopped it.
    Stopped,
}

/// Returns the task: the typed words with piped input, or the piped input if nothing was typed.
///
/// # Errors
/// When there is no task and nothing to resume, or standard input can't be read or is not text.
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
    /// Returns the task as input for this agent: the words, the piped input, the files that the words name with `@`, and the
    /// pictures. Words that begin with a slash command that the person wrote are replaced by its text, for this turn.
    ///
    /// # Errors
    /// When piped input is not text, the words name a file or a command that does not exist, or a picture can't be read or
    /// shown to the model.
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

/// Returns piped input as the words of the task.
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

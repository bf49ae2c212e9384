//! `haft chat`: a person and an agent, at a terminal or line by line.

mod bang;
mod command;
mod conversation;
mod export;
mod front_end;
mod lines;
mod report;

use std::{io::IsTerminal, path::PathBuf, process::ExitCode, sync::Arc};

use clap::Args;
use kit::{Fault, Kind};
use tokio_util::sync::CancellationToken;

use super::{USAGE, finish, start::without_model};
use crate::{
    Options, Place,
    agent_factory::{AgentFactory, AgentOptions},
    print,
    terminal::{
        asking::InChat,
        chat::{Front, Settings},
        input::restore,
        interrupt::{self, STOPPED},
    },
    workspace_check::{self, Asking},
};
use conversation::{Conversation, Person};
pub(crate) use report::context;

#[derive(Default, Args)]
pub struct Chat {
    #[command(flatten)]
    agent: AgentOptions,
    /// First words, as if you had typed them in the chat
    #[arg(value_name = "WORDS")]
    words: Vec<String>,
    /// Attach a picture to the first message: png, jpeg, webp or gif; may be repeated
    #[arg(short, long = "image", value_name = "FILE")]
    images: Vec<PathBuf>,
    /// Continue the newest conversation of this workspace, or that of `--session`
    #[arg(long)]
    resume: bool,
}

impl Chat {
    /// Is it left to haft which model answers? An earlier conversation has one.
    fn names_no_model(&self, options: &Options) -> bool {
        let Self { agent, resume, .. } = self;
        agent.model.is_none() && agent.profile.is_none() && !resume && options.session.is_none()
    }

    /// # Errors
    /// When there is no agent to be had.
    pub async fn run(self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        workspace_check::check(options, place, Asking::Possible)?;
        let is_dumb = matches!(place.variable("TERM"), None | Some("dumb"));
        if is_dumb || !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
            return lines::run(self, options, place).await;
        }
        if self.names_no_model(options)
            && let Some(ways) = without_model(options, place).await?
        {
            print::err(&ways);
            return Ok(ExitCode::from(USAGE));
        }
        let hangup = CancellationToken::new();
        interrupt::watch(hangup.clone(), restore).map_err(|error| {
            let what = format!("signals can't be handled, so nothing could be stopped: {error}");
            Fault::new(Kind::Unavailable, what)
        })?;
        let (asks, asked) = InChat::new();
        let Self { agent, words, images, resume } = self;
        let factory = agent.open(options, place, Arc::new(asks.clone())).await?;
        let name = factory.earlier(resume, options.session.as_deref())?;
        let session = factory.session(name.as_deref(), "chat", Arc::new(asks.clone()));
        let settings = Settings::of(place, &factory.opened, true);
        let (front, passes) = Front::new(settings, asked, &place.variables, hangup.clone())
            .map_err(|error| Fault::new(Kind::Unavailable, format!("the terminal can't be used: {error}")))?;
        let person = Person { approver: Arc::new(asks.clone()), asker: Arc::new(asks) };
        let mut talk = Conversation::open(front, factory, session, Arc::new(passes), person)?;
        talk.pictures = images;
        let words = words.join(" ");
        talk.begin();
        talk.face.says_first(words);
        talk.talk().await;
        let Conversation { face, agent, .. } = talk;
        // The terminal is put back before anything else is said.
        drop(face);
        // Nothing can be read once the session has ended.
        let is_empty = agent.transcript().messages().is_ok_and(|it| it.is_empty());
        finish(agent.session()).await;
        if !is_empty {
            let goes_on = format!("haft: to continue: {}", AgentFactory::goes_on("chat", options, &agent));
            print::err(&goes_on);
        }
        Ok(if hangup.is_cancelled() { ExitCode::from(STOPPED) } else { ExitCode::SUCCESS })
    }
}

//! `haft chat`: a person and an agent, at a terminal or line by line.

mod attached;
mod bang;
mod command;
mod conversation;
pub(crate) mod elsewhere;
mod export;
mod front_end;
mod lines;
mod operations;
mod report;

use std::{io::IsTerminal, path::PathBuf, process::ExitCode, sync::Arc};

use agent::{Archived, conversation, conversations};
use clap::Args;
use kit::{Fault, Kind};
use tokio_util::sync::CancellationToken;

use super::{USAGE, close, finish, start::without_model};
use crate::{
    Options, Place,
    agent_factory::{AgentFactory, AgentOptions},
    print,
    session_service::{self, Person},
    terminal::{
        asking::InChat,
        chat::{Front, Settings},
        input::restore,
        interrupt::{self, STOPPED},
        picker,
    },
    workspace_check::{self, Asking},
};
use conversation::Conversation;

/// Maximum number of conversations to choose from.
const LISTED: usize = 200;

#[derive(Clone, Default, Args)]
pub struct Chat {
    #[command(flatten)]
    agent: AgentOptions,
    /// First words, as if you had typed them in the chat
    #[arg(value_name = "WORDS")]
    words: Vec<String>,
    /// Attach a picture to the first message: png, jpeg, webp or gif; may be repeated
    #[arg(short, long = "image", value_name = "FILE", conflicts_with = "attach")]
    images: Vec<PathBuf>,
    /// Continue the newest conversation of this workspace, or that of `--session`
    #[arg(long)]
    resume: bool,
    /// Watch and take part in a session that another process runs; without NAME, choose one
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "", conflicts_with = "resume")]
    attach: Option<String>,
}

/// A session that a person wants to attach to.
struct Chosen {
    name: String,
    /// Another process runs it.
    is_open: bool,
}

impl Chat {
    /// Returns whether haft chooses the model. An earlier conversation already has one.
    fn names_no_model(&self, options: &Options) -> bool {
        let Self { agent, resume, attach, .. } = self;
        let is_new = !resume && attach.is_none() && options.session.is_none();
        agent.model.is_none() && agent.profile.is_none() && is_new
    }

    /// # Errors
    /// When no agent can be created.
    pub async fn run(mut self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        workspace_check::check(options, place, Asking::Possible)?;
        let is_dumb = matches!(place.variable("TERM"), None | Some("dumb"));
        if is_dumb || !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
            return self.run_in_lines(options, place).await;
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
        let Some(mut given) = self.attach.take() else {
            return self.run_here(None, options, place, hangup).await;
        };
        loop {
            let chosen = choose(&given, options, place, Some(&hangup)).await?;
            let Some(Chosen { name, is_open }) = chosen else { return Ok(code(&hangup)) };
            if is_open {
                attached::run(self, &name, options, place, hangup.clone()).await?;
                return Ok(code(&hangup));
            }
            match self.clone().run_here(Some(name.clone()), options, place, hangup.clone()).await {
                // Another process has begun to run it: it is the one to attach to, unless it has ended by now.
                Err(fault) if store::is_lease_taken(&fault) => given = name,
                done => return done,
            }
        }
    }

    /// Runs the session in this process: the chosen one, the one that the options name, or a new one.
    async fn run_here(
        self,
        chosen: Option<String>,
        options: &Options,
        place: &Place,
        hangup: CancellationToken,
    ) -> Result<ExitCode, Fault> {
        let (asks, asked) = InChat::new();
        let Self { agent, words, images, resume, .. } = self;
        let factory = agent.open(options, place, Arc::new(asks)).await?;
        let name = match chosen {
            Some(name) => Some(name),
            None => factory.earlier(resume, options.session.as_deref())?,
        };
        let settings = Settings::of(place, &factory.opened, true);
        let (front, passes) = Front::new(settings, asked, &place.variables, hangup.clone())
            .map_err(|error| Fault::new(Kind::Unavailable, format!("the terminal can't be used: {error}")))?;
        let person = Person { viewer: Arc::new(passes), is_there: true, shows_texts: false };
        let mut talk = Conversation::open(front, factory, name.as_deref(), person).await?;
        talk.pictures = images;
        let words = words.join(" ");
        talk.begin();
        talk.face.says_first(words);
        talk.talk().await;
        let Conversation { face, agent, owner, service, closed, .. } = talk;
        // haft restores the terminal before it prints anything else.
        drop(face);
        if let Some(by) = closed {
            print::err(&format!("haft: {by} closed this session"));
        }
        // Attached processes are notified while the store is still open.
        session_service::close(owner, service.who()).await;
        // Nothing can be read once the session has ended.
        let is_empty = agent.transcript().messages().is_ok_and(|it| it.is_empty());
        finish(agent.session()).await;
        if !is_empty {
            let goes_on = format!("haft: to continue: {}", AgentFactory::goes_on("chat", options, &agent));
            print::err(&goes_on);
        }
        Ok(code(&hangup))
    }

    /// Runs the chat line by line.
    async fn run_in_lines(mut self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let Some(mut given) = self.attach.take() else { return lines::run(self, options, None, place).await };
        loop {
            let chosen = choose(&given, options, place, None).await?;
            let Some(Chosen { name, is_open }) = chosen else { return Ok(ExitCode::SUCCESS) };
            if is_open {
                return attached::run_lines(self, &name, options, place).await;
            }
            match lines::run(self.clone(), options, Some(name.clone()), place).await {
                Err(fault) if store::is_lease_taken(&fault) => given = name,
                done => return done,
            }
        }
    }
}

fn code(hangup: &CancellationToken) -> ExitCode {
    if hangup.is_cancelled() { ExitCode::from(STOPPED) } else { ExitCode::SUCCESS }
}

/// Returns the named session, or the one that the person chooses from a list if they named none. Without `hangup` there is no
/// terminal on which to show a list.
async fn choose(
    given: &str,
    options: &Options,
    place: &Place,
    hangup: Option<&CancellationToken>,
) -> Result<Option<Chosen>, Fault> {
    let opened = options.open(place)?;
    let runtime = &opened.runtime;
    let holder = |name: &str| runtime.store().transcripts().holder(name);
    let found = async {
        let name = match conversation(runtime, given) {
            _ if given.is_empty() => {
                let hangup = hangup.ok_or_else(|| {
                    Fault::bad_args("`--attach` needs a name where no list can be shown")
                        .next("`haft sessions` lists the names; `latest` is the newest.")
                })?;
                let all = conversations(runtime, Archived::Hidden, LISTED)?;
                if all.is_empty() {
                    return Err(Fault::not_found("this workspace has no conversation yet")
                        .next("Begin one with `haft chat`."));
                }
                let items = all.iter().map(|it| Ok(report::item(it, holder(&it.session)?.as_deref())));
                let items = items.collect::<Result<Vec<_>, Fault>>()?;
                let colours = place.variable("NO_COLOR").is_none();
                let picked = picker::pick("Sessions", items, colours, hangup).await.map_err(|error| {
                    Fault::new(Kind::Unavailable, format!("the terminal can't be used: {error}"))
                })?;
                match picked.and_then(|at| all.into_iter().nth(at)) {
                    Some(it) => it.session,
                    None => return Ok(None),
                }
            }
            Ok(found) => found.session,
            // A session without messages.
            Err(_) if holder(given)?.is_some() => given.to_owned(),
            Err(fault) => return Err(fault),
        };
        let is_open = holder(&name)?.is_some();
        Ok(Some(Chosen { name, is_open }))
    };
    let found = found.await;
    close(runtime);
    found
}

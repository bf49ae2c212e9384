//! `haft group run`: runs a group until nobody works and nothing waits.

use std::{
    io::IsTerminal as _,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use clap::Args;
use groups::{
    member_process::{End, GroupSocket},
    recipe::{self, Limits, Recipe, creature},
    service::{Parts, Service, Settled},
};
use kit::{Fault, Kind};
use serde_json::json;
use store::Store;
use tokio_util::sync::CancellationToken;

use super::{
    find,
    lines::{Lines, prefixed},
    packages, places,
    watch::Shown,
};
use crate::{
    Options, Place,
    agent_factory::AgentOptions,
    ask::{approver, somebody},
    group_members::GroupMembers,
    options::{Frozen, FrozenFolder},
    print,
    terminal::{
        input::restore,
        interrupt::{self, STOPPED},
    },
    verbs::{FAULT, close, report_ignored},
    workspace_check::{self, Asking},
};

#[derive(Args)]
pub(super) struct Run {
    #[command(flatten)]
    agent: AgentOptions,
    /// Recipe and task; with `--resume`, a message to the group
    #[arg(value_name = "FILE TASK", num_args = 0..=2)]
    words: Vec<String>,
    /// Agent that gets the task [default: the root, or the first agent]
    #[arg(long, value_name = "AGENT")]
    to: Option<String>,
    /// Go on with a group of this workspace: its name, the beginning of it, or `latest`
    #[arg(long, value_name = "GROUP", conflicts_with_all = ["add", "channel"])]
    resume: Option<String>,
    /// Another creature, which talks with that of FILE on a channel; repeatable
    #[arg(long, value_name = "CONFIG", requires = "channel")]
    add: Vec<String>,
    /// Channel on which all agents listen and send
    #[arg(long, value_name = "NAME", requires = "add")]
    channel: Option<String>,
    /// Keep running when nobody works, until Ctrl-C or `haft group stop`
    #[arg(long)]
    stay: bool,
    /// Print events as lines of JSON
    #[arg(long)]
    json: bool,
    /// Print a line for each event, also on a terminal, which otherwise shows a pane for each agent
    #[arg(long, conflicts_with = "json")]
    lines: bool,
    /// Agent that this process runs for the group that started it
    #[arg(long, hide = true, value_name = "GROUP/ID")]
    process_of: Option<String>,
    #[command(flatten)]
    budget: Budget,
}

#[derive(Args)]
#[command(next_help_heading = "Budget of the whole group")]
struct Budget {
    /// Maximum tokens of all agents, requests and responses together
    #[arg(long, value_name = "N")]
    budget_tokens: Option<u64>,
    /// Maximum cost of all agents, in dollars
    #[arg(long, value_name = "DOLLARS")]
    budget_dollars: Option<f64>,
    /// Maximum time of this run, in minutes
    #[arg(long, value_name = "N")]
    budget_minutes: Option<f64>,
    /// Maximum model responses of all agents
    #[arg(long, value_name = "N")]
    budget_steps: Option<u64>,
    /// How deep agents may start agents [default: 3]
    #[arg(long, value_name = "N")]
    max_depth: Option<usize>,
    /// Exchanges of two agents without another change until both are paused [default: 10]
    #[arg(long, value_name = "N")]
    max_exchanges: Option<usize>,
}

impl Budget {
    fn limits(&self) -> Limits {
        Limits {
            tokens: self.budget_tokens,
            dollars: self.budget_dollars,
            minutes: self.budget_minutes,
            steps: self.budget_steps,
            depth: self.max_depth,
            exchanges: self.max_exchanges,
        }
    }
}

/// The meaning of the words of the command line.
struct Wanted {
    file: Option<PathBuf>,
    task: Option<String>,
}

impl Run {
    pub(super) async fn run(self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        if self.process_of.is_some() {
            return self.run_member(options, place).await;
        }
        let wanted = self.wanted()?;
        workspace_check::check(options, place, Asking::Possible)?;
        let stopped = CancellationToken::new();
        let restore: fn() = if self.has_panes() { restore } else { || () };
        interrupt::watch(stopped.clone(), restore).map_err(|error| {
            Fault::new(
                Kind::Unavailable,
                format!("signals can't be handled, so nothing could be stopped: {error}"),
            )
        })?;
        let factory = Arc::new(self.agent.clone().open(options, place, approver()).await?);
        report_ignored(&factory.opened, false);
        let runtime = factory.opened.runtime.clone();
        let frozen = Frozen::of(options, place, &factory.opened);
        let places = places(&runtime, place, wanted.file.as_deref());
        let parts = Parts {
            store: runtime.store().clone(),
            maker: Arc::new(GroupMembers::new(&factory, packages(place), somebody(), frozen)),
            workspace: runtime.roots().workspace().to_owned(),
            places: places.clone(),
            by: "group".to_owned(),
        };
        let group = match (&self.resume, &wanted.file) {
            (Some(name), _) => {
                let record = find(&runtime, name)?;
                Service::resume(parts, &record.name, self.budget.limits()).await?
            }
            (None, Some(file)) => {
                let recipe = self.recipe(file, &places)?;
                let notes = recipe.all_notes().into_iter().chain(recipe.dangling());
                notes.for_each(|it| print::err(&format!("haft: {it}")));
                let shown = file.display().to_string();
                Service::begin(parts, &recipe, &shown, self.budget.limits()).await?
            }
            (None, None) => {
                return Err(Fault::bad_args("a recipe is missing").next("haft group run FILE TASK"));
            }
        };
        let done = self.work(&group, runtime.store(), place, wanted.task, &stopped).await;
        close(&runtime);
        done
    }

    /// Runs one agent in this process, for the group's process that started it.
    async fn run_member(self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let socket = GroupSocket::take()
            .map_err(|error| Fault::bad_args(format!("there is no standard input: {error}")))?;
        let joined = socket.join().await?;
        let frozen: Frozen = serde_json::from_value(joined.configuration().clone()).map_err(|error| {
            Fault::bad_args(format!("the group runs by another version of haft: {error}"))
        })?;
        let folder = Arc::new(FrozenFolder::new(frozen.clone(), place)?);
        let options = Options { frozen: Some(folder), ..options.clone() };
        let factory = Arc::new(self.agent.open(&options, place, approver()).await?);
        // Its files are read.
        drop(options);
        let runtime = factory.opened.runtime.clone();
        // The group says whether a person is there.
        let members = Arc::new(GroupMembers::new(&factory, packages(place), false, frozen));
        match joined.run(runtime.store().clone(), members).await? {
            End::Asked => {
                close(&runtime);
                Ok(ExitCode::SUCCESS)
            }
            // As after a kill: the turn stays interrupted, and goes on with the group.
            End::Alone => std::process::exit(i32::from(FAULT)),
        }
    }

    fn wanted(&self) -> Result<Wanted, Fault> {
        let mut words = self.words.iter().cloned();
        let file = if self.resume.is_some() { None } else { words.next().map(PathBuf::from) };
        let task = words.next();
        if words.next().is_some() {
            return Err(
                Fault::bad_args("with `--resume` there is at most one text").next("Put the task in quotes.")
            );
        }
        Ok(Wanted { file, task })
    }

    fn recipe(&self, file: &Path, places: &recipe::document::Places) -> Result<Recipe, Fault> {
        let Some(channel) = &self.channel else { return recipe::load(file, places) };
        let here = std::env::current_dir().unwrap_or_default();
        let all = std::iter::once(file.display().to_string()).chain(self.add.iter().cloned());
        let members = all.map(|it| creature::load(places, &here, &it)).collect::<Result<Vec<_>, _>>()?;
        let name = members.first().map_or_else(|| "group".to_owned(), |it| it.name.clone());
        Ok(recipe::around_channel(&name, channel, members))
    }

    async fn work(
        &self,
        group: &Service,
        store: &Store,
        place: &Place,
        task: Option<String>,
        stopped: &CancellationToken,
    ) -> Result<ExitCode, Fault> {
        let lines = Lines { is_json: self.json };
        let mut seen = group.watch();
        if let Some(task) = &task {
            // A group begins with one task; what a later run adds is another message.
            let key =
                if self.resume.is_some() { format!("task {}", store::now_ms()) } else { "task".to_owned() };
            group.say(self.to.as_deref(), task, &key).await?;
        }
        // Whoever knows the group's name can resume it, with its task, also before a member runs.
        if self.json {
            print::json(&json!({"group": group.name(), "graph": group.topology()}));
        } else {
            print::err(&format!("haft: group {}", group.name()));
        }
        tokio::select! {
            biased;
            started = group.start() => started?,
            () = stopped.cancelled() => {}
            () = group.is_stopped() => {}
        }
        let mut panes = match self.has_panes() {
            true => Some(Shown::begin(store, group.name(), place, "Ctrl-C stops")?),
            false => None,
        };
        let settled = group.settled(false);
        tokio::pin!(settled);
        let how = loop {
            if let Some(panes) = &mut panes {
                panes.draw()?;
            }
            tokio::select! {
                biased;
                Some(it) = seen.recv() => {
                    if panes.is_none() {
                        lines.show(&it);
                    }
                }
                () = stopped.cancelled() => break None,
                left = next_of(&mut panes) => if left { break None },
                how = &mut settled => match how? {
                    Settled::Quiet | Settled::Paused | Settled::Down(_) if self.stay => {
                        // Something begins again with a message or a job.
                        settled.set(group.settled(true));
                    }
                    how => break Some(how),
                },
            }
        };
        let had_panes = panes.take().is_some();
        let state = match &how {
            None | Some(Settled::Stopped) => "stopped",
            Some(Settled::Quiet) => "done",
            Some(Settled::Budget(_) | Settled::Paused | Settled::Down(_)) => "paused",
        };
        group.close(state).await?;
        while let Ok(it) = seen.try_recv() {
            if !had_panes {
                lines.show(&it);
            }
        }
        if had_panes {
            last_words(store, group.name())?;
        }
        Ok(self.tell(group, how.as_ref(), state))
    }

    /// Returns whether the terminal shows panes.
    fn has_panes(&self) -> bool {
        !self.json && !self.lines && std::io::stdout().is_terminal() && std::io::stdin().is_terminal()
    }

    fn tell(&self, group: &Service, how: Option<&Settled>, state: &str) -> ExitCode {
        let (_, used) = group.used();
        let resume = format!("haft group run --resume {}", group.name());
        if self.json {
            print::json(&json!({
                "ended": state, "group": group.name(), "tokens": used.tokens, "steps": used.steps, "cost": used.cost,
            }));
        } else {
            let tokens = crate::terminal::abbreviate::count(used.tokens);
            print::err(&format!("haft: {state}: {} steps, {tokens} tokens", used.steps));
            if let Some(Settled::Down(names)) = how {
                let names = names.join(", ");
                print::err(&format!(
                    "haft: the process of {names} ended, and no other agent could be notified"
                ));
            }
            if how != Some(&Settled::Quiet) {
                print::err(&format!("haft: to continue: {resume}"));
            }
        }
        match how {
            Some(Settled::Quiet) => ExitCode::SUCCESS,
            None | Some(Settled::Stopped) => ExitCode::from(STOPPED),
            Some(Settled::Budget(_) | Settled::Paused | Settled::Down(_)) => ExitCode::from(FAULT),
        }
    }
}

/// Waits for the person, or until something may be new; without panes for ever.
async fn next_of(panes: &mut Option<Shown>) -> bool {
    match panes {
        Some(panes) => panes.next().await,
        None => std::future::pending().await,
    }
}

/// Prints with what each agent ended: the panes are gone.
fn last_words(store: &Store, group: &str) -> Result<(), Fault> {
    for member in store.groups().shape(group)?.members {
        let Some(seq) = store.events().newest(&member.session, "turn_ended")? else { continue };
        let rows = store.events().page(&member.session, seq.saturating_sub(1), 1, usize::MAX)?;
        let end = rows.first().and_then(|it| serde_json::from_str::<sessions::Event>(&it.body).ok());
        if let Some(sessions::Event::TurnEnded(end)) = end
            && !end.text.trim().is_empty()
        {
            print::err(&prefixed(&member.name, &end.text));
        }
    }
    Ok(())
}

//! `haft group`: several agents that work together: run, shown, messaged, paused, stopped.

mod check;
mod control;
mod lines;
mod run;
mod show;
mod watch;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use groups::recipe::document::Places;
use kit::Fault;
use runtime::Runtime;
use store::groups::GroupRecord;

use super::close;
use crate::{Options, Place};

#[derive(Args)]
#[command(subcommand_value_name = "COMMAND")]
pub struct Group {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Run a group of agents on a task
    ///
    /// FILE is terrarium.yaml, group.toml, a creature's config.yaml, a profile with `group:`, or a folder with one of them. The
    /// root gets the task, or the first agent where there is no root. The command ends when nobody works and nothing waits.
    Run(Box<run::Run>),
    /// Load a recipe and print its graph, without running it
    Check(check::Check),
    /// List the groups of this workspace
    List(show::List),
    /// Show the agents of a group: what they do, used and exchanged
    Status(show::Status),
    /// Show a pane for each agent, and the channels, until you press q
    Watch(watch::Watch),
    /// Show who is connected with whom
    Graph(show::Graph),
    /// Send a message to an agent of a group
    Send(control::Send),
    /// Pause an agent, or all: its messages wait
    Pause(control::OneOrAll),
    /// Let a paused or stopped agent go on, or all
    Resume(control::OneOrAll),
    /// Stop an agent, or the whole group
    Stop(control::Stop),
}

impl Group {
    /// # Errors
    /// When there is no such recipe or group, or it can't be run.
    pub async fn run(self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        match self.what {
            What::Run(it) => it.run(options, place).await,
            What::Check(it) => it.run(options, place),
            What::List(it) => with(options, place, |runtime| it.run(runtime)),
            What::Status(it) => with(options, place, |runtime| it.run(runtime)),
            What::Watch(it) => it.run(options, place).await,
            What::Graph(it) => with(options, place, |runtime| it.run(runtime)),
            What::Send(it) => it.run(options, place).await,
            What::Pause(it) => it.pause(options, place).await,
            What::Resume(it) => it.resume(options, place).await,
            What::Stop(it) => it.run(options, place).await,
        }
    }
}

fn with(
    options: &Options,
    place: &Place,
    work: impl FnOnce(&Runtime) -> Result<(), Fault>,
) -> Result<ExitCode, Fault> {
    let opened = options.open(place)?;
    let done = work(&opened.runtime);
    close(&opened.runtime);
    done.map(|()| ExitCode::SUCCESS)
}

/// The group.
#[derive(Args)]
struct Named {
    /// Group: its name, the beginning of it, or `latest`
    #[arg(value_name = "GROUP")]
    name: String,
}

impl Named {
    /// Returns the group. Blocks.
    fn find(&self, runtime: &Runtime) -> Result<GroupRecord, Fault> {
        find(runtime, &self.name)
    }
}

fn find(runtime: &Runtime, name: &str) -> Result<GroupRecord, Fault> {
    let all = runtime.store().groups().list()?.into_iter().map(|it| (it.name.clone(), true, it));
    agent::named(all, name)?.ok_or_else(|| {
        Fault::not_found(format!("this workspace has no group `{name}`"))
            .next("`haft group list` shows all; `haft group run FILE TASK` begins one.")
    })
}

/// Returns the folders whose files a recipe may name: those of the workspace, of installed packages, and of the
/// project that the recipe is in.
fn places(runtime: &Runtime, place: &Place, file: Option<&std::path::Path>) -> Places {
    let roots = runtime.roots().list().map(|it| it.0.to_owned());
    let places = Places::new(roots, packages(place));
    match file {
        Some(file) => places.with_project_of(file),
        None => places,
    }
}

/// Returns the folder in which KohakuTerrarium installs packages, if there is one.
fn packages(place: &Place) -> Option<std::path::PathBuf> {
    let home = place.variables.iter().find(|it| it.0 == "HOME").map(|it| it.1.clone())?;
    let folder = std::path::Path::new(&home).join(".kohakuterrarium/packages");
    folder.is_dir().then_some(folder)
}

/// Returns a time in the person's time zone.
fn when(ms: u64) -> String {
    let at = jiff::Timestamp::from_millisecond(ms.cast_signed()).unwrap_or_default();
    at.to_zoned(jiff::tz::TimeZone::system()).strftime("%H:%M:%S").to_string()
}

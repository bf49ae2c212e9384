//! `haft sessions`: the conversations of a workspace: listed, searched, shown, renamed, forked, archived, deleted, exported.

mod change;
mod export;
mod list;
pub(super) mod markdown;
mod show;

use std::process::ExitCode;

use agent::{Conversation, conversation};
use clap::{Args, Subcommand};
use kit::Fault;
use runtime::Runtime;

pub(super) use list::resumes;

use super::close;
use crate::{Opened, Options, Place};

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_value_name = "COMMAND")]
pub struct Sessions {
    #[command(subcommand)]
    what: Option<What>,
    /// Show only conversations whose messages, calls, name or title match
    #[arg(value_name = "SEARCH")]
    search: Option<String>,
    #[command(flatten)]
    listing: list::Listing,
}

#[derive(Subcommand)]
enum What {
    /// List conversations, the one used last first
    List(list::Listing),
    /// Search messages and calls, and show the line that matches
    Search(list::Search),
    /// Show a conversation: its messages, and one line per call
    Show(show::Show),
    /// Give a conversation a title
    Rename(change::Rename),
    /// Start a new session with the conversation up to a message
    ///
    /// The new session has what the model was sent and what you saw, the files as they were seen, notes, and kept outputs. It has
    /// no approvals of the other session, no background jobs, and undoes no changes made before the fork.
    Fork(change::Fork),
    /// Hide a conversation from lists
    Archive(change::Archive),
    /// Delete a conversation, its kept outputs and its shared files
    ///
    /// Lists no longer show it, and it can't be resumed. Its messages, the journal of calls and the file changes are in append-only
    /// tables: they stay in the workspace's haft.db.
    Delete(change::Delete),
    /// Write a conversation as Markdown or JSON
    Export(export::Export),
}

impl Sessions {
    /// Runs the command. Without one, prints the conversations, the last used first; results of a search by relevance.
    ///
    /// # Errors
    /// When there is no such conversation, or the store can't be used.
    pub async fn run(&self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let opened = options.open(place)?;
        let done = self.done(&opened, options, place);
        close(&opened.runtime);
        if let Some(read) = done? {
            read.at_terminal(place).await?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Runs the command; returns the text to read at the terminal, if there is one.
    fn done(&self, opened: &Opened, options: &Options, place: &Place) -> Result<Option<show::Read>, Fault> {
        match &self.what {
            None => self.listing.run(opened, options, self.search.as_deref())?,
            Some(What::List(it)) => it.run(opened, options, None)?,
            Some(What::Search(it)) => it.run(opened, options)?,
            Some(What::Show(it)) => return it.run(opened, place),
            Some(What::Rename(it)) => it.run(opened)?,
            Some(What::Fork(it)) => it.run(opened, options)?,
            Some(What::Archive(it)) => it.run(opened)?,
            Some(What::Delete(it)) => it.run(opened)?,
            Some(What::Export(it)) => it.run(opened)?,
        }
        Ok(None)
    }
}

/// The conversation that a command works on.
#[derive(Args)]
struct Named {
    /// Conversation: its name, the beginning of it, or `latest`
    #[arg(value_name = "NAME")]
    name: String,
}

impl Named {
    fn find(&self, runtime: &Runtime) -> Result<Conversation, Fault> {
        conversation(runtime, &self.name)
    }
}

/// Returns a time in the person's time zone.
fn when(ms: u64) -> String {
    let at = jiff::Timestamp::from_millisecond(ms.cast_signed()).unwrap_or_default();
    at.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string()
}

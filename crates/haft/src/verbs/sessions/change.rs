//! `haft sessions rename`, `fork`, `archive` and `delete`.

use agent::fork;
use clap::Args;
use kit::{Fault, Kind, counted};
use serde_json::json;
use store::Deleted;

use super::{Named, list::resumes};
use crate::{Opened, Options, ask, options::session_name, print, terminal::abbreviate};

#[derive(Args)]
pub(super) struct Rename {
    #[command(flatten)]
    conversation: Named,
    /// Its title
    #[arg(value_name = "TITLE", required = true)]
    title: Vec<String>,
}

#[derive(Args)]
pub(super) struct Fork {
    #[command(flatten)]
    conversation: Named,
    /// Last of your messages that goes along, with its answer, as `haft sessions show` numbers them [default: the newest]
    #[arg(long, value_name = "N")]
    at: Option<u64>,
    /// Name of the new session [default: a new one]
    #[arg(long = "as", value_name = "NEW", value_parser = session_name)]
    new_name: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(super) struct Archive {
    #[command(flatten)]
    conversation: Named,
    /// Show it in lists again
    #[arg(long)]
    undo: bool,
}

#[derive(Args)]
pub(super) struct Delete {
    #[command(flatten)]
    conversation: Named,
    /// Delete it without asking
    #[arg(long)]
    yes: bool,
}

impl Rename {
    pub(super) fn run(&self, opened: &Opened) -> Result<(), Fault> {
        let runtime = &opened.runtime;
        let found = self.conversation.find(runtime)?;
        let title = agent::title(&self.title.join(" "));
        if title.is_empty() {
            return Err(Fault::bad_args("a title needs a word"));
        }
        runtime.store().conversations().rename(&found.session, &title)?;
        print::out(&format!("{}: {title}", found.session));
        Ok(())
    }
}

impl Fork {
    pub(super) fn run(&self, opened: &Opened, options: &Options) -> Result<(), Fault> {
        let from = self.conversation.find(&opened.runtime)?.session;
        let made = fork(opened.runtime.store(), &from, self.at, self.new_name.as_deref())?;
        if made.left_out {
            print::err("haft: the newest message is still being answered, and was left out");
        }
        if self.json {
            print::json(&json!({"session": made.session, "forked_from": from, "turns": made.turns}));
            return Ok(());
        }
        let turns = counted(usize::try_from(made.turns).unwrap_or(usize::MAX), "message");
        print::out(&format!(
            "{}: {turns} of {from}\nto continue: {}",
            made.session,
            resumes(options, &made.session)
        ));
        Ok(())
    }
}

impl Archive {
    pub(super) fn run(&self, opened: &Opened) -> Result<(), Fault> {
        let runtime = &opened.runtime;
        let found = self.conversation.find(runtime)?;
        let changed = runtime.store().conversations().archive(&found.session, !self.undo)?;
        print::out(&match (changed, self.undo) {
            (true, false) => format!("archived {} ({})", found.session, found.title),
            (true, true) => format!("{} ({}) is in lists again", found.session, found.title),
            (false, false) => format!("{} was archived already", found.session),
            (false, true) => format!("{} was not archived", found.session),
        });
        Ok(())
    }
}

impl Delete {
    pub(super) fn run(&self, opened: &Opened) -> Result<(), Fault> {
        let store = opened.runtime.store();
        let found = self.conversation.find(&opened.runtime)?;
        let database = store.folder().join("haft.db");
        if !self.yes {
            // haft does not ask for confirmation of a deletion that it would refuse.
            if let Some(by) = store.transcripts().holder(&found.session)? {
                let what = format!("the session `{}` is open in another haft (process {by})", found.session);
                return Err(Fault::new(Kind::Unavailable, what).next("Close it there first."));
            }
            let question = format!(
                "Delete {} ({}, {})?\n\
                 Its kept outputs, shared files, saved state and session approvals are removed. Its messages, the journal and the file \
                 changes stay in {}: these tables are append-only.\n\
                 Delete it? [y/N] ",
                print::harmless(&found.session),
                print::harmless(&found.title),
                counted(usize::try_from(found.turns).unwrap_or(usize::MAX), "turn"),
                database.display()
            );
            match ask::confirm(&question) {
                Some(true) => {}
                Some(false) => {
                    print::out("not deleted");
                    return Ok(());
                }
                None => {
                    return Err(Fault::bad_args(format!(
                        "nobody can be asked whether to delete {}",
                        found.session
                    ))
                    .next("Add `--yes` to delete it without asking."));
                }
            }
        }
        let deleted = store.conversations().delete(&found.session)?;
        print::out(&summary(&found.session, &deleted, &database.display().to_string()));
        Ok(())
    }
}

/// Returns a text that names what was removed and what stays.
fn summary(session: &str, deleted: &Deleted, database: &str) -> String {
    let number = |it: u64| usize::try_from(it).unwrap_or(usize::MAX);
    let size = abbreviate::size(number(deleted.bytes));
    let outputs = match deleted.outputs {
        0 => "no kept outputs".to_owned(),
        some => format!("{} ({size})", counted(some, "kept output")),
    };
    format!(
        "deleted {session}: {outputs}, {}, {} and its saved state are gone\n\
         append-only, so still in {database}: {}, {}, {}",
        counted(deleted.files, "shared file"),
        counted(deleted.grants, "session approval"),
        counted(number(deleted.rows), "line"),
        counted(number(deleted.calls), "call"),
        counted(number(deleted.changes), "file change"),
    )
}

//! `haft grants`: permissions that need no approval: listing, adding, revoking.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use jiff::{Timestamp, tz::TimeZone};
use kit::Fault;
use store::GrantRecord;

use super::close;
use crate::{Options, Place, print};

#[derive(Args)]
pub struct Grants {
    #[command(subcommand)]
    what: Option<What>,
    /// Print one line of JSON per grant
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand)]
enum What {
    /// Add a grant for this workspace, or with `--session NAME` for one session
    ///
    /// Kinds of grants:
    ///   write PATH           change this file, or anything below this folder
    ///   edit PATH            the same under `--approve ask-edits`, which else asks for each edit
    ///   net HOST             contact this host: host, host:port, *.example.org, *
    ///   web HOST             read from this host, send nothing
    ///   run COMMAND          run commands that begin with these words
    ///   unconfined COMMAND   run them outside the sandbox
    ///   server NAME@HASH     start a workspace's MCP server, as it is configured now
    #[command(verbatim_doc_comment)]
    Add {
        /// Kind and what it allows, as one argument or several: `net crates.io`
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        effect: Vec<String>,
    },
    /// Revoke grants
    Revoke {
        /// Numbers of the grants, as `haft grants` prints them
        #[arg(required = true)]
        numbers: Vec<i64>,
    },
}

impl Grants {
    /// # Errors
    /// When the grant to add is not valid, or the store can't be used.
    pub fn run(&self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let runtime = options.open(place)?.runtime;
        let grants = runtime.store().grants();
        let session = options.session.as_deref();
        let said = match &self.what {
            None => grants.list(session).map(|records| (self.listed(&records), true)),
            Some(What::Add { effect }) => policy::grants::parse(&joined(effect)).and_then(|effect| {
                let id = grants.add(&effect, session, "cli")?;
                let scope = session.map_or_else(|| "project".to_owned(), |name| format!("session {name}"));
                Ok((format!("{id}  {scope}  {}", plain(&effect.to_string())), true))
            }),
            Some(What::Revoke { numbers }) => {
                numbers.iter().try_fold((String::new(), true), |(text, all), id| {
                    let revoked = grants.revoke(*id)?;
                    let line = if revoked { format!("{id} revoked\n") } else { format!("no grant {id}\n") };
                    Ok((text + &line, all && revoked))
                })
            }
        };
        close(&runtime);
        let (text, good) = said?;
        print::out(&text);
        Ok(if good { ExitCode::SUCCESS } else { ExitCode::from(super::FAULT) })
    }

    fn listed(&self, records: &[GrantRecord]) -> String {
        if self.json {
            return records.iter().map(|it| serde_json::to_string(it).unwrap_or_default() + "\n").collect();
        }
        if records.is_empty() {
            return "no grants".to_owned();
        }
        records.iter().map(line).collect()
    }
}

/// Joins words as a person typed them: one argument is the whole text.
fn joined(words: &[String]) -> String {
    match words {
        [one] => one.clone(),
        [kind, rest @ ..] => {
            format!("{kind} {}", rest.join(" "))
        }
        [] => String::new(),
    }
}

/// Returns one grant in one line.
fn line(record: &GrantRecord) -> String {
    let since = Timestamp::from_millisecond(record.since_ms.cast_signed())
        .map(|at| at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string())
        .unwrap_or_default();
    let scope = record
        .session
        .as_ref()
        .map_or_else(|| "project".to_owned(), |name| format!("session {}", plain(name)));
    let uses = match record.uses {
        0 => "not used since".to_owned(),
        1 => "used once".to_owned(),
        uses => format!("used {uses} times"),
    };
    format!(
        "{}  {scope}  {}  since {since} by {}, {uses}\n",
        record.id,
        plain(&record.effect),
        record.front_end
    )
}

/// Escapes a command line that a model wrote: nothing in it acts on the terminal or begins a line.
fn plain(text: &str) -> String {
    text.chars()
        .map(|it| if it.is_control() { it.escape_default().to_string() } else { it.to_string() })
        .collect()
}

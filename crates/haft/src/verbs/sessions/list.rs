//! `haft sessions list` and `search`: a line for each conversation, with its state.

use std::fmt::Write as _;

use agent::{Archived, Conversation, conversations, find_conversations};
use clap::Args;
use kit::{Fault, quote::quote};
use runtime::Runtime;
use serde::Serialize;
use serde_json::json;

use super::when;
use crate::{Opened, Options, print};

#[derive(Args)]
pub(super) struct Listing {
    /// Maximum number of conversations
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Show archived conversations too
    #[arg(long)]
    archived: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(super) struct Search {
    /// Words to search for
    #[arg(value_name = "TEXT", required = true)]
    text: Vec<String>,
    #[command(flatten)]
    listing: Listing,
}

/// A conversation with the process that runs it.
#[derive(Serialize)]
struct Listed {
    #[serde(flatten)]
    conversation: Conversation,
    /// The id of that process.
    #[serde(skip_serializing_if = "Option::is_none")]
    open_in: Option<String>,
}

impl Search {
    pub(super) fn run(&self, opened: &Opened, options: &Options) -> Result<(), Fault> {
        self.listing.run(opened, options, Some(&self.text.join(" ")))
    }
}

impl Listing {
    /// Prints the conversations; with a search, the ones that match.
    pub(super) fn run(&self, opened: &Opened, options: &Options, search: Option<&str>) -> Result<(), Fault> {
        let runtime = &opened.runtime;
        let archived = if self.archived { Archived::Shown } else { Archived::Hidden };
        let found = match search {
            Some(search) => find_conversations(runtime, search, archived, self.limit)?,
            None => conversations(runtime, archived, self.limit)?,
        };
        let found = found.into_iter().map(|it| listed(runtime, it)).collect::<Result<Vec<_>, _>>()?;
        let workspace = runtime.roots().workspace();
        if self.json {
            print::json(&json!({ "workspace": workspace, "sessions": found }));
            return Ok(());
        }
        let Some(first) = found.first() else {
            print::out(&match search {
                Some(search) => {
                    format!("no conversation of {} contains `{search}`", workspace.display())
                }
                None => format!("no conversations in {}", workspace.display()),
            });
            return Ok(());
        };
        let mut text = table(&found);
        let _ = write!(
            text,
            "\nin {}; to resume one: {}",
            workspace.display(),
            resumes(options, &first.conversation.session)
        );
        print::out(&text);
        Ok(())
    }
}

/// Returns the command that resumes a conversation.
pub(in crate::verbs) fn resumes(options: &Options, session: &str) -> String {
    let dir = options.dir.as_ref().map(|it| format!(" --dir {}", quote(&it.display().to_string())));
    format!("haft{} chat --resume --session {}", dir.unwrap_or_default(), quote(session))
}

fn listed(runtime: &Runtime, conversation: Conversation) -> Result<Listed, Fault> {
    let open_in = runtime.store().transcripts().holder(&conversation.session)?;
    Ok(Listed { conversation, open_in })
}

/// Returns a line for each: name, time of the last use, number of turns, title, state; below it the line that a search
/// found.
fn table(found: &[Listed]) -> String {
    let all = || found.iter().map(|it| &it.conversation);
    let name = all().map(|it| it.session.chars().count()).max().unwrap_or(0);
    let turns = all().map(|it| it.turns.to_string().len()).max().unwrap_or(0);
    let mut text = String::new();
    for Listed { conversation: it, open_in } in found {
        let (session, when) = (&it.session, when(it.used_ms));
        let plural = if it.turns == 1 { " " } else { "s" };
        let state = state(it, open_in.is_some());
        let _ =
            writeln!(text, "{session:name$}  {when}  {:>turns$} turn{plural}  {}{state}", it.turns, it.title);
        // The title already contains the line.
        if let Some(line) = it.found.as_ref().filter(|line| !it.title.contains(line.as_str())) {
            let _ = writeln!(text, "{:name$}  … {line}", "");
        }
    }
    text
}

/// Returns the state of a conversation in a list: open, archived, fork.
fn state(it: &Conversation, is_open: bool) -> String {
    let fork = it.forked_from.as_ref().map(|from| match it.forked_at {
        Some(at) => format!("fork of {from} after message {at}"),
        None => format!("fork of {from}"),
    });
    let states: Vec<String> =
        [is_open.then(|| "open".to_owned()), it.archived.then(|| "archived".to_owned()), fork]
            .into_iter()
            .flatten()
            .collect();
    if states.is_empty() { String::new() } else { format!(" ({})", states.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conversation(session: &str, title: &str, turns: u64, found: Option<&str>) -> Conversation {
        Conversation {
            session: session.to_owned(),
            title: title.to_owned(),
            begun_ms: 0,
            used_ms: 1_795_000_000_000,
            turns,
            found: found.map(str::to_owned),
            archived: false,
            forked_from: None,
            forked_at: None,
        }
    }

    #[test]
    fn names_times_titles_and_states_stand_in_columns() {
        let found = [
            Listed {
                conversation: conversation("s_1", "fix the test", 12, Some("the prices are wrong")),
                open_in: None,
            },
            Listed {
                conversation: Conversation {
                    archived: true,
                    forked_from: Some("s_1".to_owned()),
                    forked_at: Some(3),
                    ..conversation("mine", "say hello", 1, Some("hello"))
                },
                open_in: Some("12".to_owned()),
            },
        ];
        let text = table(&found);
        let lines: Vec<&str> = text.lines().collect();
        let [first, below, second] = lines.as_slice() else { unreachable!("{text}") };
        assert!(first.starts_with("s_1   2026-11-") && first.ends_with("  12 turns  fix the test"), "{text}");
        assert_eq!(*below, "      … the prices are wrong");
        assert!(
            second.starts_with("mine  ")
                && second.ends_with("   1 turn   say hello (open, archived, fork of s_1 after message 3)"),
            "{text}"
        );
    }
}

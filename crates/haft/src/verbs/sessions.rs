//! `haft sessions`: the conversations of a workspace with their titles, to find one and resume it.

use std::{fmt::Write as _, process::ExitCode};

use agent::{Conversation, conversations, find_conversations};
use clap::Args;
use kit::{Fault, quote::quote};
use serde_json::json;

use super::close;
use crate::{Options, Place, print};

#[derive(Args)]
pub struct Sessions {
    /// Show only conversations in which this was said or done, or whose name has it
    #[arg(value_name = "SEARCH")]
    search: Option<String>,
    /// Maximum number of conversations
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Sessions {
    /// Prints the conversations, the one used last first; of a search the best first.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn run(&self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let opened = options.open(place)?;
        let runtime = &opened.runtime;
        let found = match &self.search {
            Some(search) => find_conversations(runtime, search, self.limit),
            None => conversations(runtime, self.limit),
        };
        let workspace = runtime.roots().workspace().to_owned();
        close(runtime);
        let found = found?;
        if self.json {
            print::json(&json!({ "workspace": workspace, "sessions": found }));
            return Ok(ExitCode::SUCCESS);
        }
        let Some(first) = found.first() else {
            print::out(&match &self.search {
                Some(search) => {
                    format!("no conversation of {} contains `{search}`", workspace.display())
                }
                None => format!("no conversations in {}", workspace.display()),
            });
            return Ok(ExitCode::SUCCESS);
        };
        let mut text = listed(&found);
        let dir = options.dir.as_ref().map(|it| format!(" --dir {}", quote(&it.display().to_string())));
        let _ = write!(
            text,
            "\nin {}; to resume one: haft{} chat --resume --session {}",
            workspace.display(),
            dir.unwrap_or_default(),
            quote(&first.session),
        );
        print::out(&text);
        Ok(ExitCode::SUCCESS)
    }
}

/// A line for each: name, when it was used last, how often the person spoke, title; below it the line that a search found.
fn listed(found: &[Conversation]) -> String {
    let name = found.iter().map(|it| it.session.chars().count()).max().unwrap_or(0);
    let turns = found.iter().map(|it| it.turns.to_string().len()).max().unwrap_or(0);
    let mut text = String::new();
    for it in found {
        let (session, when) = (&it.session, when(it.used_ms));
        let plural = if it.turns == 1 { " " } else { "s" };
        let _ = writeln!(text, "{session:name$}  {when}  {:>turns$} turn{plural}  {}", it.turns, it.title);
        // The title says it already.
        if let Some(line) = it.found.as_ref().filter(|line| !it.title.contains(line.as_str())) {
            let _ = writeln!(text, "{:name$}  … {line}", "");
        }
    }
    text
}

/// A time as the person's clock has it.
fn when(ms: u64) -> String {
    let at = jiff::Timestamp::from_millisecond(ms.cast_signed()).unwrap_or_default();
    at.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string()
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
        }
    }

    #[test]
    fn names_times_and_titles_stand_in_columns() {
        let found = [
            conversation("s_1", "fix the test", 12, Some("the prices are wrong")),
            conversation("mine", "say hello", 1, Some("hello")),
        ];
        let text = listed(&found);
        let lines: Vec<&str> = text.lines().collect();
        let [first, below, second] = lines.as_slice() else { unreachable!("{text}") };
        assert!(first.starts_with("s_1   2026-11-") && first.ends_with("  12 turns  fix the test"), "{text}");
        assert_eq!(*below, "      … the prices are wrong");
        assert!(second.starts_with("mine  ") && second.ends_with("   1 turn   say hello"), "{text}");
    }
}

//! `haft sessions export`: a conversation as Markdown, or as JSON with the calls, their results and the file changes.

use std::path::PathBuf;

use agent::{Conversation, calls};
use clap::{Args, ValueEnum};
use kit::Fault;
use runtime::Runtime;
use serde_json::{Value, json};
use sessions::lines;
use store::{changes::DiffLimits, journal::Filter};

use super::{
    Named,
    markdown::{markdown, write},
};
use crate::{Opened, print, terminal::abbreviate, verbs::LAST_WRITE};

#[derive(Args)]
pub(super) struct Export {
    #[command(flatten)]
    conversation: Named,
    /// Format of the export
    #[arg(long, value_enum, default_value_t = Format::Md)]
    format: Format,
    /// File to write, which must not exist [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// Messages, and one line per call
    Md,
    /// The same, the calls with their whole results, and the file changes as diffs
    Json,
}

impl Export {
    pub(super) fn run(&self, opened: &Opened) -> Result<(), Fault> {
        let runtime = &opened.runtime;
        let about = self.conversation.find(runtime)?;
        let text = match self.format {
            Format::Md => {
                let said: Vec<_> = lines(runtime, &about.session)?.into_iter().map(|it| it.message).collect();
                markdown(&about.title, &about.session, &said)
            }
            Format::Json => {
                let value = whole(runtime, &about)?;
                serde_json::to_string_pretty(&value).unwrap_or_default() + "\n"
            }
        };
        let Some(path) = &self.output else {
            match self.format {
                Format::Md => print::out(&text),
                // haft's usual escapes would not be valid JSON.
                Format::Json => print::drawn(&kit::escape::visible_json(&text)),
            }
            return Ok(());
        };
        write(path, &text).map_err(|fault| fault.next("Name another file: -o FILE"))?;
        print::out(&format!("Written: {} ({} bytes).", path.display(), abbreviate::count(text.len() as u64)));
        Ok(())
    }
}

/// Returns the whole conversation as JSON. Secrets were redacted when it was recorded.
fn whole(runtime: &Runtime, about: &Conversation) -> Result<Value, Fault> {
    // A call whose process is dead is shown with its result.
    runtime.wait_recovered(LAST_WRITE);
    let filter = Filter { session: Some(about.session.clone()), limit: usize::MAX, ..Filter::default() };
    let mut changes = Vec::new();
    for record in runtime.store().journal().log(filter)? {
        for change in runtime.changes(&runtime.changed_by(&record)?, DiffLimits::NONE) {
            let mut value = json!({"call": record.call, "tool": record.tool, "at_ms": record.began_ms});
            if let (Some(fields), Ok(Value::Object(more))) =
                (value.as_object_mut(), serde_json::to_value(change))
            {
                fields.extend(more);
            }
            changes.push(value);
        }
    }
    Ok(json!({
        "workspace": runtime.roots().workspace(),
        "conversation": about,
        "messages": lines(runtime, &about.session)?,
        "calls": calls(runtime, &about.session)?,
        "changes": changes,
    }))
}

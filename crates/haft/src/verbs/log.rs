//! `haft log`: the journal of calls, with what each one changed.

use std::{collections::BTreeSet, io::IsTerminal, path::Path, process::ExitCode};

use clap::Args;
use kit::{Fault, Touch};
use runtime::Runtime;
use serde_json::{Value, json};
use store::{
    changes::{Change, DiffLimits},
    journal::{CallRecord, Filter, local_time},
};

use super::{LAST_WRITE, close};
use crate::{
    Options, Place,
    print::{self, line_of_json},
    terminal::{abbreviate, diff, row},
};

/// The tool of calls that land changes of another machine or of a subagent.
const LAND: &str = "land";

/// The most files that the row of an undo names.
const RESTORED: usize = 5;

#[derive(Args)]
pub struct Log {
    /// Number of calls to show, the newest
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50)]
    limit: usize,
    /// Show only calls of this tool
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Show only this call, with its arguments
    #[arg(long, value_name = "ID")]
    call: Option<String>,
    /// Show only calls that failed or were interrupted
    #[arg(long)]
    faults: bool,
    /// Show the diff of each file that a call changed
    #[arg(long)]
    diff: bool,
    /// Print everything, as one line of JSON per call
    #[arg(long)]
    json: bool,
}

impl Log {
    /// # Errors
    /// When the journal can't be read.
    pub fn run(&self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let opened = options.open(place)?;
        let filter = Filter {
            session: options.session.clone(),
            tool: self.tool.clone(),
            call: self.call.clone(),
            faults: self.faults,
            limit: self.limit,
            ..Filter::default()
        };
        // A call whose process is dead is shown with its result.
        opened.runtime.wait_recovered(LAST_WRITE);
        let records = opened.runtime.store().journal().log(filter);
        let found = records.and_then(|it| self.found(it));
        let with_diffs = found.and_then(|records| {
            records
                .into_iter()
                .map(|it| Ok((self.diffs(&opened.runtime, &it)?, it)))
                .collect::<Result<Vec<_>, Fault>>()
        });
        close(&opened.runtime);
        let workspace = opened.runtime.roots().workspace();
        let look = Look::of(place);
        let text: String = with_diffs?
            .iter()
            .map(|(diffs, record)| {
                if self.json {
                    return line_of_json(&json(record, diffs.as_deref())) + "\n";
                }
                let text =
                    if self.call.is_some() { whole(record, workspace) } else { line(record, workspace) };
                print::harmless(&text).into_owned() + &look.drawn(diffs.as_deref().unwrap_or_default())
            })
            .collect();
        if !text.is_empty() {
            print::drawn(&text);
        } else if !self.json {
            print::drawn("no calls");
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Returns these records, or a fault if the named call does not exist.
    fn found(&self, records: Vec<CallRecord>) -> Result<Vec<CallRecord>, Fault> {
        match &self.call {
            Some(id) if records.is_empty() => {
                let filtered = if self.tool.is_some() || self.faults { " with these filters" } else { "" };
                Err(Fault::not_found(format!("no call `{id}` in the journal of this workspace{filtered}"))
                    .next("`haft log` lists the newest calls with their ids."))
            }
            _ => Ok(records),
        }
    }

    /// Returns the changes of a call if `--diff` is set.
    fn diffs(&self, runtime: &Runtime, record: &CallRecord) -> Result<Option<Vec<Change>>, Fault> {
        let of_call = || Ok(runtime.changes(&runtime.changed_by(record)?, DiffLimits::NONE));
        self.diff.then(of_call).transpose()
    }
}

/// Returns the record as JSON, with the diffs of the call if they were requested.
fn json(record: &CallRecord, diffs: Option<&[Change]>) -> Value {
    let mut value = serde_json::to_value(record).unwrap_or_default();
    if let (Some(fields), Some(diffs)) = (value.as_object_mut(), diffs) {
        fields.insert("diffs".to_owned(), json!(diffs));
    }
    value
}

/// The format of diffs: drawn at a terminal, plain text in a pipe.
pub(super) struct Look {
    columns: usize,
    colours: bool,
}

impl Look {
    pub(super) fn of(place: &Place) -> Self {
        let is_terminal = std::io::stdout().is_terminal();
        let columns =
            if is_terminal { crossterm::terminal::size().map_or(80, |it| usize::from(it.0)) } else { 0 };
        let is_dumb = matches!(place.variable("TERM"), None | Some("dumb"));
        Self { columns, colours: place.variable("NO_COLOR").is_none() && !is_dumb }
    }

    /// Returns these diffs in full, each line with its end.
    pub(super) fn drawn(&self, diffs: &[Change]) -> String {
        self.beginning(diffs, usize::MAX, "")
    }

    /// Returns the first `most` lines of these diffs, each with its end, and `hint` if there are more.
    pub(super) fn beginning(&self, diffs: &[Change], most: usize, hint: &str) -> String {
        if self.columns == 0 {
            return diff::plain(diffs, 4, most, hint).iter().map(|it| it.clone() + "\n").collect();
        }
        let rows = diff::rows(diffs, 4, self.columns, most, hint);
        rows.iter().map(|it| it.painted(self.colours) + "\n").collect()
    }
}

/// Returns one call with its arguments.
pub(crate) fn whole(record: &CallRecord, workspace: &Path) -> String {
    format!("{}  arguments: {}\n", line(record, workspace), record.arguments)
}

/// Returns one call in one line, and the text of a fault in a second.
pub(crate) fn line(record: &CallRecord, workspace: &Path) -> String {
    let began = local_time(record.began_ms);
    let outcome = record.outcome.as_deref().unwrap_or("running");
    // Most calls take milliseconds; longer ones are shown in seconds, as on the screens.
    let took = record.took_ms.map_or_else(String::new, |ms| match ms {
        ..1000.0 => format!(" {ms:.1} ms"),
        _ => format!(" {}", abbreviate::ms(ms)),
    });
    let short = |path: &Path| {
        let shown = path.strip_prefix(workspace).unwrap_or(path).display().to_string();
        if shown.is_empty() { ".".to_owned() } else { shown }
    };
    // A landing names the files that it refused in its notes.
    let is_refused = |path: &str| {
        let of_path =
            |note: &String| note.strip_prefix("refused ")?.strip_prefix(path)?.strip_prefix(": ").map(drop);
        record.tool == LAND && record.notes.iter().any(|it| of_path(it).is_some())
    };
    // An undo names no paths before it runs.
    let restored: BTreeSet<&Path> =
        record.changes.iter().filter(|it| it.undoes.is_some()).map(|it| it.path.as_path()).collect();
    let rest = restored.len().saturating_sub(RESTORED);
    let restored = restored.into_iter().take(RESTORED).map(|it| format!("restored {}", short(it)));
    let touched: Vec<String> = record
        .touches
        .iter()
        // The scheduling of a call says nothing about its effects.
        .filter(|it| !matches!(it, Touch::Exclusive))
        .map(|touch| match touch {
            Touch::Read(path) => format!("read {}", short(Path::new(path))),
            Touch::Write(path) if is_refused(&short(Path::new(path))) => {
                format!("refused {}", short(Path::new(path)))
            }
            Touch::Write(path) | Touch::WriteTree { path, .. } => format!("write {}", short(Path::new(path))),
            Touch::Run(command) => format!("run {command}"),
            Touch::Unconfined => "outside the sandbox".to_owned(),
            Touch::Net(host) => format!("net {host}"),
            Touch::Web(host) => format!("web {host}"),
            Touch::Server { name, .. } => format!("server {name}"),
            Touch::Session(key) => format!("session {key}"),
            Touch::Tool(name) => format!("tool {name}"),
            Touch::Trigger(about) => about.lines().next().unwrap_or_default().to_owned(),
            Touch::Exclusive => "exclusive".to_owned(),
        })
        .chain(restored)
        .chain((rest > 0).then(|| format!("and {rest} more")))
        .collect();
    let touched = touched.join(", ");
    let mut line = format!(
        "{began}  {}  {}  {outcome}{took}  {}",
        record.call,
        row::harmless(&record.tool),
        row::harmless(&touched)
    );
    if record.decision != "allowed" {
        line.push_str(&format!("  ({})", record.decision));
    }
    line.push('\n');
    if let Some(said) = &record.said {
        line.push_str(&format!("    {}\n", said.replace('\n', "\n    ")));
    }
    line
}

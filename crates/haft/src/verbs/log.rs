//! `haft log`: what calls were made, and what came of them?

use std::process::ExitCode;

use clap::Args;
use jiff::{Timestamp, tz::TimeZone};
use kit::{Fault, Touch};
use runtime::journal::{CallRecord, Filter};

use super::{LAST_WRITE, close};
use crate::{Options, Place, print};

#[derive(Args)]
pub struct Log {
    /// Number of calls to show, the newest
    #[arg(long, short = 'n', default_value_t = 50)]
    limit: usize,
    /// Show only calls of this tool
    #[arg(long)]
    tool: Option<String>,
    /// Show only this call, with its arguments
    #[arg(long, value_name = "ID")]
    call: Option<String>,
    /// Show only calls that failed or were interrupted
    #[arg(long)]
    faults: bool,
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
        close(&opened.runtime);
        let text: String = records?
            .iter()
            .map(|record| {
                if self.json {
                    return serde_json::to_string(record).unwrap_or_default() + "\n";
                }
                let workspace = opened.runtime.roots().workspace();
                if self.call.is_some() { whole(record, workspace) } else { line(record, workspace) }
            })
            .collect();
        print::out(if text.is_empty() { "no calls" } else { &text });
        Ok(ExitCode::SUCCESS)
    }
}

/// One call with its arguments.
pub(crate) fn whole(record: &CallRecord, workspace: &std::path::Path) -> String {
    format!("{}  arguments: {}\n", line(record, workspace), record.arguments)
}

/// One call in one line, and what a fault said in a second.
pub(crate) fn line(record: &CallRecord, workspace: &std::path::Path) -> String {
    let began = Timestamp::from_millisecond(record.began_ms.cast_signed())
        .map(|at| at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string())
        .unwrap_or_default();
    let outcome = record.outcome.as_deref().unwrap_or("running");
    let took = record.took_ms.map_or_else(String::new, |ms| format!(" {ms:.1} ms"));
    let touched: Vec<String> = record
        .touches
        .iter()
        .map(|touch| {
            let short = |path: &str| {
                let path = std::path::Path::new(path);
                let shown = path.strip_prefix(workspace).unwrap_or(path).display().to_string();
                if shown.is_empty() { ".".to_owned() } else { shown }
            };
            match touch {
                Touch::Read(path) => format!("read {}", short(path)),
                Touch::Write(path) => format!("write {}", short(path)),
                Touch::Run(command) => format!("run {command}"),
                Touch::Unconfined => "outside the sandbox".to_owned(),
                Touch::Net(host) => format!("net {host}"),
                Touch::Web(host) => format!("web {host}"),
                Touch::Server { name, .. } => format!("server {name}"),
                Touch::Session(key) => format!("session {key}"),
                Touch::Tool(name) => format!("tool {name}"),
                Touch::Exclusive => "alone".to_owned(),
            }
        })
        .collect();
    let mut line =
        format!("{began}  {}  {}  {outcome}{took}  {}", record.call, record.tool, touched.join(", "));
    if record.decision != "allowed" {
        line.push_str(&format!("  ({})", record.decision));
    }
    line.push('\n');
    if let Some(said) = &record.said {
        line.push_str(&format!("    {}\n", said.replace('\n', "\n    ")));
    }
    line
}

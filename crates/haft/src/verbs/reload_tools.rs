//! `haft reload-tools`: reloads the tools that are files, and reports errors.

use std::process::ExitCode;

use clap::Args;
use kit::{Fault, services::Reloaded};

use super::{FAULT, all_seen, close, report_ignored};
use crate::{Options, Place, ask::approver, print};

#[derive(Args)]
pub struct ReloadTools {
    /// Exit with 1 if a file can't be loaded or is ignored
    #[arg(long)]
    strict: bool,
}

impl ReloadTools {
    /// # Errors
    /// When no runtime can be opened.
    pub async fn run(&self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let opened = options.open(place)?;
        report_ignored(&opened, self.strict);
        opened.runtime.plugins().asks(approver());
        let report = opened.runtime.plugins().reload(true).await;
        close(&opened.runtime);
        print::out(&as_text(&report, opened.unseen.is_empty()));
        if self.strict {
            all_seen(&opened)?;
        }
        let failed = self.strict && !report.failed.is_empty();
        Ok(if failed { ExitCode::from(FAULT) } else { ExitCode::SUCCESS })
    }
}

fn as_text(report: &Reloaded, is_all: bool) -> String {
    let mut text = String::new();
    let lists = [("loaded", &report.loaded), ("changed", &report.changed), ("gone", &report.gone)];
    for (what, names) in lists.into_iter().filter(|(_, names)| !names.is_empty()) {
        text.push_str(&format!("{what}: {}\n", names.join(", ")));
    }
    for it in &report.failed {
        let older = if it.older_serves { "; its last good version stays in use" } else { "" };
        text.push_str(&format!("failed: {}{older}\n{}\n", it.file, it.why.trim_end()));
    }
    for note in &report.notes {
        text.push_str(&format!("note: {note}\n"));
    }
    match (text.is_empty(), is_all) {
        (false, _) => text,
        (true, true) => "no tool files\n".to_owned(),
        (true, false) => "no tool files were loaded\n".to_owned(),
    }
}

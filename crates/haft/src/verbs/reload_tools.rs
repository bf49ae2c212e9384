//! `haft reload-tools`: what becomes of the tools that are files, if all of them are asked again?

use std::process::ExitCode;

use clap::Args;
use kit::{Fault, services::Reloaded};

use super::{FAULT, close};
use crate::{Options, Place, ask::approver, print};

#[derive(Args)]
pub struct ReloadTools {
    /// Exit with 1 if any file can't be loaded.
    #[arg(long)]
    strict: bool,
}

impl ReloadTools {
    /// # Errors
    /// When there is no runtime to be had.
    pub async fn run(&self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let opened = options.open(place)?;
        for line in &opened.aside {
            print::err(&format!("haft: {line}"));
        }
        opened.runtime.outside().asks(approver());
        let report = opened.runtime.outside().reload(true).await;
        close(&opened.runtime);
        print::out(&as_text(&report));
        let failed = self.strict && !report.failed.is_empty();
        Ok(if failed { ExitCode::from(FAULT) } else { ExitCode::SUCCESS })
    }
}

fn as_text(report: &Reloaded) -> String {
    let mut text = String::new();
    let lists = [("loaded", &report.loaded), ("changed", &report.changed), ("gone", &report.gone)];
    for (what, names) in lists.into_iter().filter(|(_, names)| !names.is_empty()) {
        text.push_str(&format!("{what}: {}\n", names.join(", ")));
    }
    for it in &report.failed {
        let older = if it.older_serves { "; its last good version goes on" } else { "" };
        text.push_str(&format!("failed: {}{older}\n{}\n", it.file, it.why.trim_end()));
    }
    for note in &report.notes {
        text.push_str(&format!("note: {note}\n"));
    }
    if text.is_empty() { "no tools that are files\n".to_owned() } else { text }
}

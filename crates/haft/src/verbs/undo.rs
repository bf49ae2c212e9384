//! `haft undo`: puts back the file changes of calls, and shows the diff of that.

use std::{path::PathBuf, process::ExitCode, time::Instant};

use clap::Args;
use kit::{Fault, services::Which};
use store::{
    changes::DiffLimits,
    journal::{Begun, Durability, Ended, Filter},
    undo::Scope,
};

use super::{close, log::Look};
use crate::{
    Options, Place,
    print::{self, harmless},
    terminal::diff,
};

#[derive(Args)]
pub struct Undo {
    /// Undo only the newest change of this file
    #[arg(long, value_name = "PATH")]
    path: Option<PathBuf>,
    /// Undo the changes of this call, as `haft log` names it [default: the newest that is not undone yet]
    #[arg(long, value_name = "ID", conflicts_with = "path")]
    call: Option<String>,
    /// List what can be undone, and change nothing
    #[arg(long)]
    list: bool,
}

impl Undo {
    /// # Errors
    /// When there is nothing to undo, or it can't be undone.
    pub async fn run(&self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let runtime = options.open(place)?.runtime;
        // A person may undo the changes of every session in this workspace.
        let scope = options.session.clone().map_or(Scope::Workspace, Scope::Session);
        let store = runtime.store();
        let call = store.call_id();
        let undo = runtime.undo("cli", &call, scope);
        if self.list {
            const SHOWN: usize = 50;
            let listed = undo.list(SHOWN);
            close(&runtime);
            print::out(&listed?.as_text());
            return Ok(ExitCode::SUCCESS);
        }
        let which = match (&self.path, &self.call) {
            (Some(path), _) => Which::File(runtime.roots().locate(&path.to_string_lossy())?.absolute()),
            (None, Some(call)) => Which::Call(call.clone()),
            (None, None) => Which::Last,
        };
        let began = Instant::now();
        let begun = Begun {
            call: call.clone(),
            session: "cli".to_owned(),
            tool: "haft undo".to_owned(),
            arguments: format!("{which:?}"),
            touches: kit::Touches::exclusive(),
            decision: "allowed".to_owned(),
        };
        let journal = store.journal();
        journal.begin(begun, Durability::Later).await?;
        let result = undo.undo(which);
        journal.end_later(Ended::of(&call, "cli", &result, began.elapsed()))?;
        let hint = format!("haft log --diff --call {call} shows all");
        let filter = Filter { call: Some(call), ..Filter::default() };
        let diffs = journal.log(filter).and_then(|records| match records.first() {
            Some(record) => Ok(runtime.changes(&runtime.changed_by(record)?, DiffLimits::NONE)),
            None => Ok(Vec::new()),
        });
        close(&runtime);
        let text = result?.as_text();
        // haft reports the restored files even if it can't show their diff.
        let drawn = Look::of(place).beginning(&diffs.unwrap_or_default(), diff::SHOWN, &hint);
        print::drawn(&format!("{}\n{drawn}", harmless(&text)));
        Ok(ExitCode::SUCCESS)
    }
}

//! `haft call --on`: the call runs on another machine, and its changes land here.

use std::{collections::BTreeSet, process::ExitCode};

use clap::Args;
use engine::{Key, Need, Outcome};
use kit::{Fault, Kind};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Call;
use crate::{
    Options, Place,
    ask::approver,
    print,
    remote::{self, CallResult, Followed, RemoteCall, Sender, Travel, labels},
    terminal::interrupt::{self, STOPPED},
    verbs::{FAULT, close, finish, report_ignored, run::tell_landed},
    workspace_check::{self, Asking},
};

/// The heading of these options in the help.
const MACHINES: &str = "Other machines";

/// Options that send a call to another machine.
#[derive(Debug, Default, Args)]
pub(super) struct On {
    /// Run it on a worker with these labels: `gpu,linux`, `any`; what it changes lands here
    #[arg(help_heading = MACHINES, long, value_name = "LABELS", value_parser = labels, conflicts_with_all = ["batch", "preview"])]
    pub(super) on: Option<BTreeSet<String>>,
    /// The call may run twice: run it again when its worker is lost [default: it ends as interrupted]
    #[arg(help_heading = MACHINES, long, requires = "on")]
    idempotent: bool,
    /// Engine: `nats://HOST:PORT`, or `sqlite` for this machine [default: `engine` in haft.toml, else sqlite]
    #[arg(help_heading = MACHINES, long, value_name = "URL", requires = "on")]
    engine: Option<String>,
}

impl Call {
    /// Runs the call on another machine.
    pub(super) async fn elsewhere(
        &self,
        labels: BTreeSet<String>,
        arguments: &str,
        options: &Options,
        place: &Place,
    ) -> Result<ExitCode, Fault> {
        if options.session.is_some() {
            return Err(
                Fault::bad_args("a call on another machine has no session").next("Leave out `--session`.")
            );
        }
        workspace_check::check(options, place, Asking::Possible)?;
        let cancel = CancellationToken::new();
        interrupt::watch(cancel.clone(), || ())
            .map_err(|error| Fault::new(Kind::Unavailable, format!("signals can't be handled: {error}")))?;
        let call = RemoteCall {
            tool: self.tool.clone().unwrap_or_default(),
            arguments: parsed(arguments)?,
            toolset: options.toolset.clone(),
        };
        let call = call.waiting();
        let engine = remote::open(self.remote.engine.as_deref(), place).await?;
        let config = options.config(place)?;
        let limits = remote::limits(&config)?;
        let opened = options.open(place)?;
        opened.runtime.load_tools().await;
        self.strict.require(&opened, place).await?;
        report_ignored(&opened, self.strict.strict);
        let session = opened.runtime.session(None, "cli", approver());
        let done = async {
            call.check(&session, &Options::own_config(place)?.workers)?;
            let of_tool = |it: &Need| matches!(it, Need::Tool { name, .. } if *name == call.tool);
            let needs = remote::needs(&opened, None).into_iter().filter(of_tool).collect();
            let snapshot = Travel { engine: &engine }.take(&opened.runtime, place).await?;
            let sender = Sender { engine, labels, needs, snapshot, limits };
            self.sent(&sender, &call, &session, &cancel).await
        };
        let done = done.await;
        finish(&session).await;
        close(&opened.runtime);
        done
    }

    async fn sent(
        &self,
        sender: &Sender,
        call: &RemoteCall,
        session: &runtime::Session,
        cancel: &CancellationToken,
    ) -> Result<ExitCode, Fault> {
        let name = session.runtime().store().call_id();
        let key = Key { session: name, step: 0, call: 0, attempt: 0 };
        let work = sender.call(key, call, self.remote.idempotent)?;
        sender.offer(&work).await?;
        let see = |followed| match followed {
            Followed::Waits(why) => print::err(&format!("haft: waiting: {why} (Ctrl-C stops the wait)")),
            Followed::Unreachable(why) => print::err(&format!("haft: {why}; trying again")),
            Followed::Event(_) | Followed::Taken { .. } => {}
        };
        let (result, patch) = match sender.follow(&work, cancel, see).await?.0 {
            Outcome::Done { result, patch } => (remote::result_of::<CallResult>(result)?, patch),
            Outcome::Cancelled => {
                print::err("haft: stopped; nothing was changed here");
                return Ok(ExitCode::from(STOPPED));
            }
            Outcome::Failed { error } => {
                return Err(Fault::new(Kind::Failed, error).next("Nothing was changed here."));
            }
            Outcome::Interrupted => return Err(interrupted()),
        };
        let landed = match &patch {
            Some(patch) => {
                Travel { engine: &sender.engine }.land(patch, session, &CancellationToken::new()).await?
            }
            None => Vec::new(),
        };
        self.tell(&result, &landed);
        let refused = landed.iter().any(|it| it.refused.is_some());
        Ok(if result.code == 0 && refused { ExitCode::from(FAULT) } else { ExitCode::from(result.code) })
    }

    fn tell(&self, result: &CallResult, landed: &[remote::Landed]) {
        let mut answer = result.answer.clone();
        let text = match &mut answer {
            Value::Object(all) => all.remove("text"),
            _ => None,
        };
        if self.json {
            if let Value::Object(all) = &mut answer {
                all.insert("worker".to_owned(), json!(result.worker));
                all.insert("landed".to_owned(), json!(landed));
            }
            print::json(&answer);
        } else {
            print::out(text.as_ref().and_then(Value::as_str).unwrap_or_default());
        }
        tell_landed(landed);
    }
}

fn interrupted() -> Fault {
    Fault::new(
        Kind::Failed,
        "the worker was lost after the call had begun: it may have happened, wholly or in part",
    )
    .next(
        "Its changes of files are lost with it. A call that may run twice is repeated by haft with `--idempotent`.",
    )
}

/// Parses the arguments of a call.
fn parsed(arguments: &str) -> Result<Value, Fault> {
    if arguments.trim().is_empty() {
        return Ok(json!({}));
    }
    serde_json::from_str(arguments)
        .map_err(|error| Fault::bad_args(format!("the arguments are not JSON: {error}; nothing was run")))
}

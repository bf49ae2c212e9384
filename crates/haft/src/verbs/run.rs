//! `haft run`: an agent does one task.

use std::{process::ExitCode, sync::Arc};

use agent::{Ended, Event, Host};
use clap::Args;
use kit::{Fault, Kind};
use tokio_util::sync::CancellationToken;

use super::{FAULT, finish};
use crate::{Options, Place, agency::AgentOptions, print};

#[derive(Args)]
pub struct Run {
    #[command(flatten)]
    agent: AgentOptions,
    /// What to do; `-` reads it from standard input.
    task: Option<String>,
    /// Go on with the newest conversation of this workspace, or that of `--session`.
    #[arg(long)]
    resume: bool,
    /// Print what happens as lines of JSON.
    #[arg(long)]
    json: bool,
}

impl Run {
    /// # Errors
    /// When there is no agent to be had, or its model does not answer.
    pub async fn run(self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let host: Arc<dyn Host> = if self.json { Arc::new(Json) } else { Arc::new(Plain) };
        let session = if self.resume && options.session.is_none() {
            let opened = options.open(place)?;
            opened.runtime.store().transcripts().newest()?
        } else {
            None
        };
        let (mut agent, opened) = self.agent.open(options, place, host, "run", session.as_deref()).await?;
        for line in &opened.aside {
            print::err(&format!("haft: {line}"));
        }
        let outcome = agent.turn(self.task, &CancellationToken::new()).await;
        finish(agent.session()).await;
        match outcome {
            Ok(outcome) if outcome.ended == Ended::Done => Ok(ExitCode::SUCCESS),
            Ok(_) => Ok(ExitCode::from(FAULT)),
            Err(error) => Err(Fault::new(Kind::Unavailable, error.to_string())),
        }
    }
}

struct Plain;

impl Host for Plain {
    fn hear(&self, event: Event) {
        match event {
            Event::Text { text } => print::out(&text),
            Event::Called { tool, arguments, .. } => print::err(&format!("> {tool} {arguments}")),
            Event::Answered { tool, ok, ms, .. } => print::err(&format!("< {tool} ok={ok} {ms} ms")),
            Event::Again { why, .. } => print::err(&why),
            _ => {}
        }
    }
}

struct Json;

impl Host for Json {
    fn hear(&self, event: Event) {
        print::out(&serde_json::to_string(&event).unwrap_or_default());
    }
}

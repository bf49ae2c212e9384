//! `haft worker`: takes sessions of other machines, and runs them here.

use std::{collections::BTreeSet, process::ExitCode};

use clap::Args;
use kit::Fault;

use crate::{
    Options, Place,
    agent_factory::AgentOptions,
    remote::{self, Offers, labels},
};

#[derive(Args)]
pub struct Worker {
    /// Engine: `nats://HOST:PORT`, or `sqlite` for this machine [default: `engine` in haft.toml, else sqlite]
    #[arg(long, value_name = "URL")]
    engine: Option<String>,
    /// Labels beside those of every worker (system, architecture, host name): gpu,repo:shop
    #[arg(long, value_name = "LABELS", value_parser = labels, default_value = "any", hide_default_value = true)]
    labels: BTreeSet<String>,
    /// Sessions at once [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    slots: Option<u32>,
    #[command(flatten)]
    agent: AgentOptions,
}

impl Worker {
    /// # Errors
    /// When the engine or the configuration can't be used.
    pub async fn run(self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let Self { engine, labels, slots, agent } = self;
        if options.dir.is_some() || options.session.is_some() {
            return Err(Fault::bad_args("`--dir` and `--session` have no effect on a worker")
                .next("Each session has a folder of its own, made from what its sender has."));
        }
        let engine = remote::open(engine.as_deref(), place).await?;
        let slots = slots.unwrap_or_else(|| {
            std::thread::available_parallelism().map_or(1, |it| u32::try_from(it.get()).unwrap_or(1))
        });
        let offers = Offers { labels, slots };
        remote::Worker::new(engine, offers, agent, options, place).await?.run().await?;
        Ok(ExitCode::SUCCESS)
    }
}

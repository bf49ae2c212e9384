//! Which calls outlive their turn, and what came of them?

use std::time::Duration;

use kit::{
    Fault, Kind, Output,
    services::{Caller, Job, Live, Soon, Until, Waited},
};
use serde_json::Value;

/// The jobs of one session.
#[derive(Default)]
pub(crate) struct Jobs {}

impl kit::services::Jobs for Jobs {
    fn list(&self) -> Vec<Job> {
        Vec::new()
    }

    fn get(&self, id: &str) -> Result<Job, Fault> {
        Err(Fault::not_found(format!("there is no job `{id}`")))
    }

    fn wait<'a>(&'a self, id: &'a str, _: Until, _: Duration) -> Soon<'a, Result<Waited, Fault>> {
        Box::pin(async move { self.get(id).map(|job| Waited { job, met: false, line: None }) })
    }

    fn stop<'a>(&'a self, id: &'a str) -> Soon<'a, Result<Job, Fault>> {
        Box::pin(async move { self.get(id) })
    }

    fn go_on<'a>(&'a self, id: &'a str, _: Value) -> Soon<'a, Result<Output, Fault>> {
        Box::pin(async move { self.get(id).map(|_| Output::text("")) })
    }
}

/// One call, as its tool sees it.
#[derive(Default)]
pub(crate) struct ThisCall {}

impl Caller for ThisCall {
    fn job(&self) -> String {
        String::new()
    }

    fn show(&self, _: Live) {}

    fn go_on(&self, _: Output) {}

    fn hand_over(&self, _: Output) -> Soon<'_, Result<Value, Fault>> {
        Box::pin(std::future::ready(Err(Fault::new(Kind::Cancelled, "nobody continues this call"))))
    }
}

//! Where do a session's processes run?

use kit::{
    Fault, Kind,
    procs::{Exit, Program, Starting},
};

/// The ground of one session: its keeper, started at first use and kept to its end.
#[derive(Default)]
pub(crate) struct Ground {}

impl kit::procs::Ground for Ground {
    fn start(&self, _: Program) -> Starting<'_> {
        Box::pin(std::future::ready(Err(Fault::new(Kind::Unavailable, "there is no keeper"))))
    }

    fn denials(&self, _: Exit, _: &str) -> Vec<String> {
        Vec::new()
    }
}

//! `haft prune`: removes before-images and long outputs that are too old or too many, and says what is left.

use std::{process::ExitCode, time::Duration};

use clap::Args;
use kit::{Fault, counted};
use store::{DiskUse, PruneLimits};

use super::close;
use crate::{Options, Place, print, terminal::abbreviate};

const DAY: u64 = 24 * 60 * 60;

#[derive(Args)]
pub struct Prune {
    /// Remove what is older than this many days
    #[arg(long, value_name = "N", default_value_t = 30)]
    days: u64,
    /// Keep at most this many MiB of each kind, the newest
    #[arg(long, value_name = "MIB", default_value_t = 2048)]
    size: u64,
}

impl Prune {
    /// # Errors
    /// When the state folder can't be read or written.
    pub fn run(&self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let runtime = options.open(place)?.runtime;
        let limits = PruneLimits {
            age: Duration::from_secs(self.days.saturating_mul(DAY)),
            bytes: self.size.saturating_mul(1 << 20),
        };
        let done = runtime.store().prune(limits).and_then(|pruned| Ok((pruned, runtime.store().held()?)));
        close(&runtime);
        let (pruned, held) = done?;
        print::out(&format!(
            "removed {} ({}); left: {}",
            counted(pruned.files, "file"),
            bytes(pruned.bytes),
            in_words(held)
        ));
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns what before-images and long outputs hold, in words.
pub(super) fn in_words(held: DiskUse) -> String {
    let DiskUse { edits, commands, outputs } = held;
    let [edits, commands, outputs] = [edits, commands, outputs].map(bytes);
    format!("for undo: edits {edits}, commands {commands}; long outputs {outputs}")
}

fn bytes(number: u64) -> String {
    abbreviate::size(usize::try_from(number).unwrap_or(usize::MAX))
}

//! One command within its time limit, and the processes it leaves running.

use std::{sync::Arc, time::Duration};

use kit::{
    Cx, Fault, Kind,
    procs::{Ending, Exit, Process, left_running},
    services::Live,
};

use super::{
    DRAIN,
    answer::{self, SHOWN},
    start::CommandLine,
};

/// Time for a command to end by itself: after a timeout, and when a caller waits for the answer.
const GRACE: Duration = Duration::from_millis(500);
const SHORT_GRACE: Duration = Duration::from_millis(100);

/// A command that has ended or was stopped.
pub(crate) struct Once {
    process: Arc<Process>,
    /// Its exit; `None`, if it had to be stopped.
    pub(crate) exit: Option<Exit>,
    /// Number of processes it left behind that were killed.
    left: usize,
}

impl Once {
    /// Runs a command for at most this long, and kills the processes it leaves behind.
    ///
    /// # Errors
    /// When it can't be started, and [`Kind::Cancelled`] with its output.
    pub(crate) async fn run(line: &CommandLine<'_>, at_most: Duration, cx: &Cx) -> Result<Self, Fault> {
        let process = Arc::new(line.start(cx).await?);
        process.lend_when_quiet();
        // For tools that read it as a job.
        cx.caller().show(Live {
            output: Some(process.output().clone()),
            process: Some(process.clone()),
            ..Live::default()
        });
        let exit = tokio::select! {
            biased;
            () = cx.cancelled() => {
                process.end(Ending::within(SHORT_GRACE)).await;
                let seen = kit::Output::text(answer::with(&process.output().since(0, SHOWN).text, &[]));
                return Err(Fault::new(Kind::Cancelled, "the command was stopped").seen(seen));
            }
            exit = process.finished(DRAIN) => Some(exit),
            () = cx.caller().passed(at_most) => None,
        };
        // Output during its end counts, too.
        let left = process.end(Ending::within(if exit.is_some() { Duration::ZERO } else { GRACE })).await;
        Ok(Self { process, exit, left })
    }

    /// Returns its output, at most this many bytes of it; a line names the handle of longer output.
    pub(crate) fn output(&self, bytes: usize) -> String {
        self.process.output().since(0, bytes).text
    }

    /// Returns its separate stderr, likewise.
    pub(crate) fn errors(&self, bytes: usize) -> String {
        self.process.errors().map(|it| it.since(0, bytes).text).unwrap_or_default()
    }

    /// Returns notes, one line each: processes it left behind, and sandbox denials.
    pub(crate) fn notes(&self, cx: &Cx) -> Vec<String> {
        let Some(exit) = self.exit else { return Vec::new() };
        let mut notes = Vec::from_iter(left_running(self.left));
        let recording = self.process.errors().unwrap_or_else(|| self.process.output());
        notes.extend(cx.denials(exit, &recording.tail(4096).text));
        notes
    }
}

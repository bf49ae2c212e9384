//! Commands of hooks: each runs in the session's sandbox, within its time, with JSON on standard input.

use std::{collections::HashMap, path::PathBuf, time::Duration};

use kit::{
    Touches,
    procs::{Ending, Exit, Program, Recording, Stdin, Streams, signal_name},
};
use parking_lot::Mutex;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{Hook, RunResult};
use crate::execution::Execution;

/// Limit of the output that haft reads, in bytes.
const OUTPUT: u64 = 1 << 20;
/// Time limit for the bytes that remain in a pipe that nobody holds open.
const LAST_BYTES: Duration = Duration::from_secs(5);
/// Time that haft waits for the last output if another process holds the pipe open.
const DRAIN: Duration = Duration::from_millis(100);

/// The sandboxes of a session's hooks, which stay from one hook to the next.
#[derive(Default)]
pub(crate) struct HookExecutions(Mutex<HashMap<(bool, Vec<PathBuf>), Execution>>);

impl HookExecutions {
    fn of(&self, hook: &Hook, session: &Execution) -> Execution {
        let make = || session.of_hook(hook.read.clone(), hook.write);
        self.0.lock().entry((hook.write, hook.read.clone())).or_insert_with(make).clone()
    }
}

/// Runs a hook's command, and ends all that it started.
pub(crate) async fn run(
    hook: &Hook,
    command: &str,
    input: &Value,
    (executions, session): (&HookExecutions, &Execution),
    cancel: &CancellationToken,
) -> RunResult {
    let execution = executions.of(hook, session);
    let procs = execution.of_call(&Touches::run(command), &[]);
    let workspace = session.workspace().to_owned();
    let variable = |name: &str, value: String| (name.to_owned(), value);
    let program = Program {
        argv: vec!["sh".to_owned(), "-c".to_owned(), command.to_owned()],
        cwd: workspace.clone(),
        env: vec![
            variable("CLAUDE_PROJECT_DIR", workspace.display().to_string()),
            variable("HAFT_WORKSPACE", workspace.display().to_string()),
            variable("HAFT_HOOK", hook.event.name().to_owned()),
        ],
        stdin: Stdin::Pipe,
        streams: Streams::Apart,
        files: Vec::new(),
    };
    let process = match procs.start(program).await {
        Ok(process) => process,
        Err(fault) => return RunResult::Failed(format!("could not be started: {}", fault.what)),
    };
    // A hook that reads nothing, or has ended already, may be right.
    let _ = process.write(input.to_string().as_bytes()).await;
    process.close_input();
    let ended = tokio::select! {
        biased;
        () = cancel.cancelled() => Err("was stopped, as its call was".to_owned()),
        exit = process.finished(DRAIN) => Ok(exit),
        () = tokio::time::sleep(hook.within) => {
            Err(format!("did not end within {} s and was ended", hook.within.as_secs()))
        }
    };
    process.end(Ending::within(Duration::ZERO)).await;
    if ended.is_ok() {
        // No process holds the pipes any more: the rest of the output arrives, and then its end.
        process.finished(LAST_BYTES).await;
    }
    match ended {
        Err(why) => RunResult::Failed(why),
        Ok(Exit::Code(code)) => {
            let err = process.errors().map(|it| text(it)).unwrap_or_default();
            RunResult::Ended { code, out: text(process.output()), err }
        }
        Ok(Exit::Signal(signal)) => RunResult::Failed(format!("was ended by {}", signal_name(signal))),
        Ok(Exit::Lost) => RunResult::Failed("ended, and nobody knows how".to_owned()),
    }
}

fn text(recording: &Recording) -> String {
    let bytes = recording.whole(OUTPUT).unwrap_or_else(|| recording.raw(0, OUTPUT as usize).1);
    String::from_utf8_lossy(&bytes).into_owned()
}

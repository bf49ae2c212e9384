//! The zygote, from which supervisors are forked, and the spare supervisor: a command may kill and stop both.

use std::path::Path;

use haft::kit::procs::{Exit, Keeper, Process, Program, Stdin};
use rustix::process::{Pid, Signal, kill_process};

use super::support::{keeper, mark, marked, run, sh, start, until, until_marked, until_written};

/// How often they are killed or stopped, with a command after each time.
const TIMES: usize = 20;

/// Starts a command that waits for a line.
async fn waiting(keeper: &Keeper, mark: &(String, String)) -> Process {
    let script = sh("echo ready; read -r line; echo $line; exit 4");
    let process = Program { env: vec![mark.clone()], stdin: Stdin::Pipe, ..script };
    let process = start(keeper, process).await.unwrap();
    until_written(&process, "ready").await;
    process
}

/// Returns the zygote and the spare supervisor: the children of the keeper that supervise no command.
fn own(keeper: &Keeper) -> Vec<u32> {
    let children = |pid: u32| -> Vec<u32> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        text.split_ascii_whitespace().map(|it| it.parse().unwrap()).collect()
    };
    children(keeper.pid()).into_iter().filter(|it| children(*it).is_empty()).collect()
}

/// Sends a signal to the zygote and the spare supervisor, and returns their process ids.
async fn send_to_both(keeper: &Keeper, signal: Signal) -> Vec<u32> {
    // The spare supervisor is forked after the command has started.
    until(|| own(keeper).len() == 2).await;
    let both = own(keeper);
    for pid in &both {
        // It may be the supervisor of the command before, which has just ended.
        let _ = kill_process(Pid::from_raw((*pid).try_into().unwrap()).unwrap(), signal);
    }
    both
}

async fn goes_on(process: Process, mark: &(String, String)) {
    assert_eq!(marked(mark).len(), 1);
    process.write(b"go on\n").await.unwrap();
    until_written(&process, "go on").await;
    assert_eq!(process.exited().await, Exit::Code(4));
    until_marked(mark, |count| count == 0).await;
}

#[tokio::test]
async fn commands_go_on_and_others_start_after_zygote_and_spare_supervisor_are_killed() {
    let (keeper, mark) = (keeper().await, mark());
    let process = waiting(&keeper, &mark).await;
    for time in 0..TIMES {
        let killed = send_to_both(&keeper, Signal::KILL).await;
        // A command that is given to a supervisor as it dies was not started, which is reported.
        until(|| killed.iter().all(|it| !Path::new(&format!("/proc/{it}")).exists())).await;
        let ran = run(&keeper, sh("echo it runs; exit 3")).await;
        assert_eq!(ran, (Exit::Code(3), "it runs\n".to_owned()), "{time}");
    }
    goes_on(process, &mark).await;
}

#[tokio::test]
async fn commands_start_while_zygote_and_spare_supervisor_are_stopped() {
    let (keeper, mark) = (keeper().await, mark());
    let process = waiting(&keeper, &mark).await;
    for time in 0..TIMES {
        send_to_both(&keeper, Signal::STOP).await;
        assert_eq!(run(&keeper, sh("exit 3")).await.0, Exit::Code(3), "{time}");
    }
    goes_on(process, &mark).await;
}

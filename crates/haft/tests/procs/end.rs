//! End of a command: everything that it started ends, however it was started.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    time::Duration,
};

use haft::kit::{
    Kind,
    procs::{Ending, Exit, Keeper, Process, Program, Stdin},
};
use rustix::process::{Pid, Signal, kill_process};

use super::support::{HANG, keeper, mark, marked, run, sh, start, until, until_marked, until_written};

/// Starts what is hard to end: a grandchild, one in a session of its own, one whose parent has gone twice, one that no
/// terminal takes along, and one that does not want to.
const FAMILY: &str = "
    sleep 1000 &
    setsid sleep 1000 &
    (setsid sh -c 'sleep 1000 & sleep 1000 &' &)
    nohup sleep 1000 > /dev/null 2>&1 &
    sh -c 'trap \"\" TERM HUP INT; while :; do sleep 1000; done' &
    sleep 0; echo ready; wait";
/// The number of these processes, with the shell that starts them.
const MEMBERS: usize = 8;
/// The number of them that sleep, once all have started.
const SLEEPERS: usize = 6;

async fn family(keeper: &Keeper, mark: &(String, String)) -> Process {
    let process = start(keeper, Program { env: vec![mark.clone()], ..sh(FAMILY) }).await.unwrap();
    until_written(&process, "ready").await;
    until(|| marked(mark).into_iter().filter(|it| is_sleep(*it)).count() == SLEEPERS).await;
    process
}

fn is_sleep(pid: u32) -> bool {
    std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default().starts_with(b"sleep\0")
}

#[tokio::test]
async fn ending_a_process_ends_its_whole_tree() {
    let (keeper, mark) = (keeper().await, mark());
    let process = family(&keeper, &mark).await;
    let ended = process.end(Ending::within(Duration::from_millis(200))).await;
    assert!(ended >= MEMBERS, "{ended}");
    assert_eq!(marked(&mark), [0; 0]);
    // It was asked first.
    assert_eq!(process.exited().await, Exit::Signal(15));
    assert_eq!(process.end(Ending::NOW).await, 0);
}

#[tokio::test]
async fn process_that_exits_on_sigterm_is_not_killed() {
    let keeper = keeper().await;
    let process =
        start(&keeper, sh("trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.01; done"))
            .await
            .unwrap();
    until_written(&process, "ready").await;
    process.end(Ending::within(HANG)).await;
    assert_eq!(process.finished(HANG).await, Exit::Code(5));
    assert!(process.output().tail(100).text.ends_with("bye\n"));
    let stopped = start(&keeper, sh("kill -STOP $$; exit 3")).await.unwrap();
    stopped.end(Ending::within(HANG)).await;
    assert_eq!(stopped.exited().await, Exit::Signal(15));
}

#[tokio::test]
async fn dropping_a_process_ends_its_whole_tree() {
    let (keeper, mark) = (keeper().await, mark());
    drop(family(&keeper, &mark).await);
    until_marked(&mark, |count| count == 0).await;
}

#[tokio::test]
async fn leftover_processes_are_reported_and_ended() {
    let (keeper, mark) = (keeper().await, mark());
    let script = "sleep 1000 & exec 3<&-; echo done";
    let process = start(&keeper, Program { env: vec![mark.clone()], ..sh(script) }).await.unwrap();
    // The pipe stays open, and that is not waited for.
    assert_eq!(process.finished(Duration::from_millis(20)).await, Exit::Code(0));
    assert_eq!(process.output().since(0, 100).text, "done\n");
    assert!(!process.output().is_over());
    let left = process.left().await;
    assert_eq!(left.processes.iter().map(|it| it.1.as_str()).collect::<Vec<_>>(), ["sleep 1000"]);
    assert_eq!(left.ports, Vec::<u16>::new());
    assert_eq!(process.end(Ending::NOW).await, 1);
    assert_eq!(marked(&mark), [0; 0]);
    process.output().over().await;
    assert_eq!(process.left().await.processes, []);
}

#[tokio::test]
async fn listening_port_of_a_command_is_found() {
    kit::needs!(Python);
    let keeper = keeper().await;
    let script = "import socket, time; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); print(s.getsockname()[1], flush=True); time.sleep(1000)";
    let process = start(&keeper, sh(&format!("python3 -c \"{script}\" &"))).await.unwrap();
    until_written(&process, "\n").await;
    let port: u16 = process.output().since(0, 100).text.trim().parse().unwrap();
    assert_eq!(process.left().await.ports, [port]);
}

#[tokio::test]
async fn only_processes_newer_than_a_mark_are_ended() {
    let (keeper, mark) = (keeper().await, mark());
    let shell = Program {
        env: vec![mark.clone()],
        stdin: Stdin::Pipe,
        ..sh("while read -r line; do eval \"$line\"; echo said $?; done")
    };
    let process = start(&keeper, shell).await.unwrap();
    process.write(b"sleep 1000 & setsid sleep 1000 &\n").await.unwrap();
    until_written(&process, "said 0").await;
    until_marked(&mark, |count| count == 3).await;
    let before = process.mark().await;
    process.write(b"(setsid sleep 1001 &); sleep 1000 | sleep 1000\n").await.unwrap();
    until_marked(&mark, |count| count == 6).await;
    let ending = Ending { grace: HANG, spare: Some(before) };
    assert_eq!(process.end(ending).await, 3);
    assert_eq!(marked(&mark).len(), 3);
    // The shell goes on.
    until_written(&process, "said 143").await;
    process.write(b"exit 4\n").await.unwrap();
    assert_eq!(process.exited().await, Exit::Code(4));
    process.end(Ending::NOW).await;
    assert_eq!(marked(&mark), [0; 0]);
}

#[tokio::test]
async fn fork_bomb_is_ended() {
    kit::needs!(Python);
    let (keeper, mark) = (keeper().await, mark());
    // Each has two more and a session of its own, seven deep: 255 of them, and all of them go on forking.
    let bomb = "import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
def bomb(depth):
    for _ in range(2):
        if depth and os.fork() == 0:
            os.setsid()
            depth -= 1
            return bomb(depth)
    while True:
        if os.fork() == 0: os._exit(0)
        time.sleep(0.5)
bomb(7)";
    let program = Program { env: vec![mark.clone()], ..super::support::program(&["python3", "-c", bomb]) };
    let process = start(&keeper, program).await.unwrap();
    until_marked(&mark, |count| count >= 200).await;
    let ended = tokio::time::timeout(HANG, process.end(Ending::NOW)).await.unwrap();
    assert!(ended >= 200, "{ended}");
    assert_eq!(marked(&mark), [0; 0]);
}

#[tokio::test]
async fn killed_keeper_takes_all_commands_with_it() {
    let (keeper, mark) = (keeper().await, mark());
    let process = family(&keeper, &mark).await;
    kill(keeper.pid());
    assert_eq!(tokio::time::timeout(HANG, process.exited()).await.unwrap(), Exit::Lost);
    until_marked(&mark, |count| count == 0).await;
    assert!(keeper.is_gone());
    assert_eq!(start(&keeper, sh("true")).await.err().unwrap().kind, Kind::Unavailable);
}

#[tokio::test]
async fn killed_supervisor_takes_its_own_tree_only() {
    let (keeper, mark) = (keeper().await, mark());
    let process = family(&keeper, &mark).await;
    let parent = std::fs::read_to_string(format!("/proc/{}/stat", process.pid())).unwrap();
    let parent = parent.rsplit_once(')').unwrap().1.split_ascii_whitespace().nth(1).unwrap().parse().unwrap();
    kill(parent);
    assert_eq!(tokio::time::timeout(HANG, process.exited()).await.unwrap(), Exit::Lost);
    until_marked(&mark, |count| count == 0).await;
    assert_eq!(run(&keeper, sh("exit 2")).await.0, Exit::Code(2));
}

#[tokio::test]
async fn stopped_supervisor_does_not_block_others() {
    let (keeper, mark) = (keeper().await, mark());
    // A command can do that to the one it descends from.
    let script = sh("read -r line; kill -STOP $PPID; echo done; sleep 1000");
    let process = Program { env: vec![mark.clone()], stdin: Stdin::Pipe, ..script };
    let process = start(&keeper, process).await.unwrap();
    process.write(b"\n").await.unwrap();
    until_written(&process, "done").await;
    tokio::time::timeout(HANG, process.end(Ending::NOW)).await.unwrap();
    until_marked(&mark, |count| count == 0).await;
    assert_eq!(process.exit(), Some(Exit::Signal(9)));
    assert_eq!(run(&keeper, sh("kill -STOP $PPID; exit 3")).await.0, Exit::Code(3));
}

#[tokio::test]
async fn command_that_keeps_stopping_its_supervisor_is_ended() {
    let (keeper, mark) = (keeper().await, mark());
    // It waits until haft knows that it runs.
    let script = sh("sleep 1000 & read go; while kill -STOP $PPID; do :; done; sleep 1000");
    let process = Program { env: vec![mark.clone()], stdin: Stdin::Pipe, ..script };
    let process = start(&keeper, process).await.unwrap();
    process.write(b"\n").await.unwrap();
    assert_eq!(tokio::time::timeout(HANG, process.exited()).await.unwrap(), Exit::Lost);
    until_marked(&mark, |count| count == 0).await;
    assert_eq!(run(&keeper, sh("exit 2")).await.0, Exit::Code(2));
}

#[tokio::test]
async fn signals_of_a_command_do_not_end_its_supervisor() {
    let keeper = keeper().await;
    let script = "for it in TERM INT HUP USR1 PIPE ALRM; do kill -$it $PPID; done; exit 6";
    assert_eq!(run(&keeper, sh(script)).await.0, Exit::Code(6));
}

#[tokio::test]
async fn signal_reaches_the_process_group() {
    let keeper = keeper().await;
    let process = start(&keeper, sh("trap 'echo got; exit 1' INT; echo ready; while :; do sleep 0.01; done"))
        .await
        .unwrap();
    until_written(&process, "ready").await;
    process.signal(2).await.unwrap();
    assert_eq!(process.exited().await, Exit::Code(1));
    assert_eq!(process.signal(2).await.unwrap_err().kind, Kind::Unavailable);
}

#[tokio::test]
async fn killed_parent_takes_all_commands_with_it() {
    const HOLDER: &str = "HAFT_TEST_HOLDER";
    if let Ok(mark) = std::env::var(HOLDER) {
        let keeper = keeper().await;
        let _family = family(&keeper, &("HAFT_TEST_MARK".to_owned(), mark)).await;
        print(b"\nheld\n");
        return std::future::pending().await;
    }
    let mark = mark();
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "procs::end::killed_parent_takes_all_commands_with_it", "--nocapture"])
        .env(HOLDER, &mark.1)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    assert!(lines.any(|it| it.unwrap() == "held"));
    assert!(marked(&mark).len() >= MEMBERS);
    holder.kill().unwrap();
    holder.wait().unwrap();
    until_marked(&mark, |count| count == 0).await;
}

fn print(bytes: &[u8]) {
    std::io::Write::write_all(&mut std::io::stdout(), bytes).unwrap();
}

fn kill(pid: u32) {
    let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
}

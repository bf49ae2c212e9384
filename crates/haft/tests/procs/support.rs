//! A keeper of the binary that is tested, and commands on it.

use std::{
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use haft::kit::{
    Fault,
    procs::{Base, Exit, Keeper, Process, Program, Stdin, Streams},
};

/// A timeout that only a call that hangs exceeds.
pub(crate) const HANG: Duration = Duration::from_secs(60);

pub(crate) async fn keeper() -> Keeper {
    let mut command = Command::new(env!("CARGO_BIN_EXE_haft"));
    command.arg(haft::sandbox::KEEPER);
    Keeper::spawn(command, b"").await.unwrap().0
}

pub(crate) fn program(argv: &[&str]) -> Program {
    Program {
        argv: argv.iter().map(|it| (*it).to_owned()).collect(),
        cwd: "/".into(),
        env: Vec::new(),
        stdin: Stdin::Null,
        streams: Streams::Together,
        files: Vec::new(),
    }
}

pub(crate) fn sh(script: &str) -> Program {
    program(&["sh", "-c", script])
}

pub(crate) fn env() -> Vec<(String, String)> {
    vec![("PATH".to_owned(), std::env::var("PATH").unwrap())]
}

pub(crate) async fn start(keeper: &Keeper, program: Program) -> Result<Process, Fault> {
    let env = env();
    let base = Base { env: &env, ..Base::default() };
    tokio::time::timeout(HANG, keeper.start(program, base)).await.unwrap()
}

/// Runs it to its end: how that was, and what it wrote.
pub(crate) async fn run(keeper: &Keeper, program: Program) -> (Exit, String) {
    let process = start(keeper, program).await.unwrap();
    let exit = tokio::time::timeout(HANG, process.finished(HANG)).await.unwrap();
    (exit, process.output().since(0, usize::MAX).text)
}

/// Returns a variable that no other process has in its environment.
pub(crate) fn mark() -> (String, String) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    ("HAFT_TEST_MARK".to_owned(), format!("mark-{}-{count}", std::process::id()))
}

/// Returns the processes that have this in their environment.
pub(crate) fn marked(mark: &(String, String)) -> Vec<u32> {
    let mark = format!("{}={}", mark.0, mark.1).into_bytes();
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|it| it.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|it| *it == 0).any(|it| it == mark)
        })
        .collect()
}

/// Waits until so many have it.
pub(crate) async fn until_marked(mark: &(String, String), enough: impl Fn(usize) -> bool) {
    until(|| enough(marked(mark).len())).await;
}

/// Waits for what no event tells of.
pub(crate) async fn until(holds: impl Fn() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(HANG, wait).await.unwrap();
}

/// Waits until the output has this in it.
pub(crate) async fn until_written(process: &Process, what: &str) {
    let wait = async {
        loop {
            let slice = process.output().since(0, usize::MAX);
            if slice.text.contains(what) {
                return;
            }
            assert!(process.output().grown(slice.total).await, "{what} never came: {}", slice.text);
        }
    };
    tokio::time::timeout(HANG, wait).await.unwrap();
}

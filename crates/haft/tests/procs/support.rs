//! A keeper of the binary that is tested, and commands on it.

use std::{process::Command, time::Duration};

use haft::kit::{
    Fault,
    procs::{Base, Exit, Keeper, Process, Program, Stdin, Streams},
};

/// Nothing here takes as long, unless it hangs.
pub(crate) const HANG: Duration = Duration::from_secs(60);

pub(crate) async fn keeper() -> Keeper {
    let mut command = Command::new(env!("CARGO_BIN_EXE_haft"));
    command.arg(haft::runtime::sandbox::KEEPER);
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

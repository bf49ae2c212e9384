//! Runs a command that can write the current folder and nothing else, without network:
//! `cargo run -p haft-sandbox --example confined -- sh -c 'echo hello > made; cat ~/.ssh/id_ed25519; curl example.org'`

use std::{
    env,
    error::Error,
    io::Write as _,
    process::{Command, ExitCode},
    time::Duration,
};

use kit::procs::{Base, Keeper, Program, Stdin, Streams};
use sandbox::{
    Confined, KEEPER, Plan, Report, SandboxMode,
    layout::{Wanted, layout},
};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    // The keeper, which builds the sandbox and starts commands in it, is this same program.
    if env::args_os().nth(1).is_some_and(|it| it == KEEPER) {
        return Ok(sandbox::keep());
    }
    let words = env::args().skip(1).collect();
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(run(words))
}

async fn run(words: Vec<String>) -> Result<ExitCode, Box<dyn Error>> {
    let folder = env::current_dir()?.canonicalize()?;
    let variables: Vec<(String, String)> = env::vars().collect();
    let wanted = Wanted {
        sandbox: SandboxMode::Workspace,
        roots: vec![(folder.clone(), false)],
        variables: variables.clone(),
        ..Wanted::default()
    };
    let plan = Plan { confined: Confined::Apart, mounts: layout(&wanted)?.mounts, ..Plan::default() };

    let mut keeper = Command::new(env::current_exe()?);
    keeper.arg(KEEPER);
    let (keeper, report, _sockets) = Keeper::spawn(keeper, &serde_json::to_vec(&plan)?).await?;
    if let Some(missing) = serde_json::from_slice::<Report>(&report)?.trouble {
        return Err(format!("there is no sandbox: {missing}").into());
    }

    let program = Program {
        argv: words,
        cwd: folder,
        env: Vec::new(),
        stdin: Stdin::Null,
        streams: Streams::Together,
        files: Vec::new(),
    };
    let base = Base { env: &variables, ..Base::default() };
    let process = keeper.start(program, base).await?;
    let exit = process.finished(Duration::from_secs(60)).await;
    std::io::stdout().write_all(process.output().since(0, usize::MAX).text.as_bytes())?;
    Ok(ExitCode::from(u8::try_from(exit.code()).unwrap_or(u8::MAX)))
}

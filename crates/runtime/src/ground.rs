//! Where do a session's processes run?

use std::process::Command;

use kit::{
    Fault, Kind,
    procs::{Base, Exit, Keeper, Program, Starting},
};
use tokio::sync::Mutex;

use crate::sandbox;

/// The ground of one session: its keeper, started at first use and kept to its end.
#[derive(Default)]
pub(crate) struct Ground {
    keeper: Mutex<Option<Keeper>>,
}

impl Ground {
    async fn keeper(&self) -> Result<Keeper, Fault> {
        let mut kept = self.keeper.lock().await;
        if let Some(keeper) = kept.as_ref().filter(|it| !it.is_gone()) {
            return Ok(keeper.clone());
        }
        let binary = std::env::current_exe().map_err(|error| {
            Fault::new(Kind::Unavailable, format!("haft can't find its own program: {error}"))
        })?;
        let mut command = Command::new(binary);
        command.arg(sandbox::KEEPER);
        let (keeper, _) = Keeper::spawn(command, b"").await?;
        *kept = Some(keeper.clone());
        Ok(keeper)
    }
}

impl kit::procs::Ground for Ground {
    fn start(&self, program: Program) -> Starting<'_> {
        Box::pin(async {
            let keeper = self.keeper().await?;
            let env: Vec<_> = ["PATH", "HOME", "LANG", "TZ"]
                .into_iter()
                .filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)))
                .collect();
            keeper.start(program, Base { env: &env, ..Base::default() }).await
        })
    }

    fn denials(&self, _: Exit, _: &str) -> Vec<String> {
        Vec::new()
    }
}

//! The execution environment of a preview: the session's roots as overlays, and no network.
//!
//! What a command sends can't be taken back, so a preview reaches no host.

use std::{future::Future, path::PathBuf, pin::Pin, sync::Arc};

use kit::{
    Fault, Kind,
    procs::preview::{Preview, Previewed, Previewing},
};
use sandbox::{SandboxMode, Trouble, proxy::Hosts};

use super::{Execution, OfCall, Own, Place, of_plugin::Whose};
use crate::config::AskLimits;

impl Execution {
    /// Returns the execution environment of one preview. It is always in the sandbox.
    fn of_preview(&self) -> Self {
        let session = &*self.inner;
        let sandbox = match session.sandbox {
            SandboxMode::Full => SandboxMode::Workspace,
            sandbox => sandbox,
        };
        // It changes nothing that lasts, so it works in read-only mode too.
        self.another(Whose::Preview, session.roots.clone(), sandbox, Hosts::default(), &Arc::default())
    }

    /// Returns an execution environment for checks of haft's own: it can read the session's roots, change nothing,
    /// and reaches no host.
    pub(crate) fn of_check(&self) -> Self {
        let session = &*self.inner;
        let roots = session.roots.iter().map(|(path, _)| (path.clone(), false)).collect();
        let whose = Whose::Tool(Own::default());
        self.another(whose, roots, SandboxMode::ReadOnly, Hosts::default(), &Arc::default())
    }

    /// Returns the limits above which a person is asked about what a command deleted.
    pub(crate) fn ask_limits(&self) -> AskLimits {
        self.inner.commands.ask
    }

    /// Returns the roots.
    pub(crate) fn roots(&self) -> Vec<PathBuf> {
        self.inner.roots.iter().map(|it| it.0.clone()).collect()
    }

    async fn previewed(&self) -> Result<Previewed, Fault> {
        let Some(living) = self.inner.confined.lock().await.take() else { return Ok(Previewed::default()) };
        let Some(uppers) = living.uppers else { return Err(Fault::bug("a preview without overlays")) };
        let mounts = self.inner.seen.lock().mounts.clone();
        let read = move || {
            // A process that still runs could change what is read.
            living.keeper.end();
            sandbox::preview::changes(&uppers, &mounts)
        };
        tokio::task::spawn_blocking(read)
            .await
            .map_err(|error| Fault::bug(format!("the changes of a preview can't be read: {error}")))
    }
}

/// Returns a preview for the commands of this call.
pub(super) fn of_call(call: &OfCall) -> Result<Preview, Fault> {
    if call.place == Place::None {
        return Err(Fault::denied("this call did not declare that it starts a command"));
    }
    let execution = call.execution.of_preview();
    let previewing = OfCall { execution, place: Place::Sandbox, _hosts: Vec::new(), pass: None, tool: None };
    Ok(Preview::new(Arc::new(previewing)))
}

impl Previewing for OfCall {
    fn changes(&self) -> Pin<Box<dyn Future<Output = Result<Previewed, Fault>> + Send + '_>> {
        Box::pin(self.execution.previewed())
    }
}

/// Returns the fault for a machine on which there are no previews.
pub(super) fn unavailable(trouble: &Trouble) -> Fault {
    Fault::new(Kind::Unavailable, format!("a preview can't be made here, so nothing was run: {trouble}")).next(
        "It needs overlayfs in user namespaces, and a file system below that overlayfs accepts. Run the command without `preview`."
            .to_owned(),
    )
}

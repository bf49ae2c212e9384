//! Choice of the interpreter.

use std::sync::Arc;

use kit::{Cx, Fault, Kind};
use tokio::sync::Mutex;

use super::warm::Warm;

/// The interpreters of a session.
#[derive(Default)]
pub(super) struct Interpreters {
    kept: Mutex<WarmState>,
}

#[derive(Default)]
struct WarmState {
    warm: Option<Arc<Warm>>,
    /// The executable of an interpreter that can't be kept warm: it is too old, or lacks a module.
    unfit: Option<String>,
    /// A name, and the program that it resolved to: resolving a shim takes time.
    found: Option<(String, String)>,
}

impl Interpreters {
    /// Returns the first existing interpreter of these names, warm; `None` when it can't be kept warm.
    pub(super) async fn warm(&self, names: &[String], cx: &Cx) -> Result<Option<Arc<Warm>>, Fault> {
        let mut kept = self.kept.lock().await;
        if let Some(warm) = &kept.warm
            && names.contains(&warm.name)
            && !warm.is_gone()
        {
            return Ok(Some(warm.clone()));
        }
        kept.warm = None;
        for name in names {
            if kept.unfit.as_ref() == Some(name) {
                return Ok(None);
            }
            match Warm::start(name, cx).await {
                Ok(warm) => {
                    let warm = Arc::new(warm);
                    kept.found = Some((name.clone(), warm.executable.clone()));
                    kept.warm = Some(warm.clone());
                    return Ok(Some(warm));
                }
                Err(fault) if fault.kind == Kind::NotFound => {}
                Err(fault) if matches!(fault.kind, Kind::Denied | Kind::Cancelled) => return Err(fault),
                Err(_) => {
                    kept.unfit = Some(name.clone());
                    return Ok(None);
                }
            }
        }
        Err(none(names))
    }

    /// Returns the same names, or the program that they resolved to.
    pub(super) async fn found(&self, names: &[String]) -> Vec<String> {
        match &self.kept.lock().await.found {
            Some((name, program)) if names.contains(name) => vec![program.clone()],
            _ => names.to_vec(),
        }
    }

    /// Drops a warm interpreter that no longer works. It ends after its present calls.
    pub(super) async fn forget(&self, warm: &Arc<Warm>) {
        let mut kept = self.kept.lock().await;
        if kept.warm.as_ref().is_some_and(|it| Arc::ptr_eq(it, warm)) {
            kept.warm = None;
        }
    }
}

/// Returns the names to try: the workspace's interpreter if it has one, then that of the session.
pub(super) fn names(cx: &Cx) -> Vec<String> {
    let workspace = cx.files().roots().workspace();
    let own = [".venv/bin/python", "venv/bin/python"].map(|it| workspace.join(it));
    match own.iter().find(|it| it.is_file()) {
        Some(own) => vec![own.display().to_string()],
        None => vec!["python3".to_owned(), "python".to_owned()],
    }
}

/// Returns the fault for a missing interpreter.
pub(super) fn none(names: &[String]) -> Fault {
    Fault::new(Kind::Unavailable, format!("there is no Python here: looked for `{}`", names.join("`, `")))
        .next("A person can install python3, or make a `.venv` in the workspace.")
}

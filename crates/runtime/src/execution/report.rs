//! Sandbox report of a session: the rules in effect, and missing protections.

use std::{
    cell::OnceCell,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::{Duration, SystemTime},
};

use kit::{
    effect::Effect,
    procs::{Exit, Life, Process},
};
use policy::Approve;
use sandbox::{
    closed::Closed,
    denial::{self, Known},
    environment,
    layout::Mount,
    limits::Ended,
    watch::Watch,
};

use super::{Execution, Inner, Living};
use crate::provenance::Open;

/// Interval at which haft checks what calls of a tool changed in the workspace.
const RARELY: Duration = Duration::from_secs(1);

/// The data on the sandbox that explains failures.
#[derive(Default)]
pub(super) struct SandboxReport {
    pub(super) mounts: Vec<Mount>,
    pub(super) ended: Vec<Ended>,
    pub(super) watch: Watch,
    pub(super) closed: Closed,
    /// Paths that were protected and are not any more, so that the sandbox had to be recreated.
    pub(super) opened: Vec<PathBuf>,
    /// Marks the tool's folder as writable, until it is dropped.
    pub(super) open: Option<Open>,
    /// The last change of an entry in that folder that haft has seen.
    pub(super) changed: Option<SystemTime>,
}

impl Execution {
    /// Returns a path that the present sandbox protected and protects no longer.
    pub(crate) fn opened(&self) -> Option<PathBuf> {
        self.inner.seen.lock().closed.opened()
    }

    /// Checks the sandbox of a continued shell, which starts no process by which a change would be noticed.
    pub(super) fn look_whether_closed(&self) {
        // The task that holds the lock is about to check.
        if self.inner.own.is_none()
            && let Ok(mut kept) = self.inner.confined.try_lock()
        {
            self.still_closed(&mut kept);
        }
    }

    /// Returns the keeper, if its sandbox is still valid; otherwise drops it.
    pub(super) fn still_closed(&self, kept: &mut Option<Living>) -> Option<Living> {
        let living = kept.take().filter(|it| !it.keeper.is_gone())?;
        if living.read_only != self.is_read_only() {
            living.keeper.end();
            return None;
        }
        let Some(opened) = self.opened() else {
            *kept = Some(living.clone());
            return Some(living);
        };
        // Calls of a tool end soon, but processes of a session may run forever.
        if self.inner.own.is_none() {
            living.keeper.end();
            self.inner.seen.lock().opened.push(opened);
        }
        None
    }

    /// Returns notes on code that the tool made, after a successful call. If the folder has no new entries
    /// since the last check, this costs one `stat`.
    pub(crate) fn made(&self) -> Vec<String> {
        let Some(own) = &self.inner.own else { return Vec::new() };
        let now = changed(&own.folder);
        let mut seen = self.inner.seen.lock();
        let is_new = seen.open.is_some() && seen.changed != now;
        // Repeated calls don't check all folders each time; the final check is at the end.
        if !is_new && seen.watch.looked_ago().is_some_and(|it| it < RARELY) {
            return Vec::new();
        }
        seen.changed = now;
        self.inner.look(&mut seen.watch);
        let found = seen.watch.found();
        let known = Known {
            appeared: &found.appeared,
            aside: &found.aside,
            stuck: &found.stuck,
            taken: &found.taken,
            roots: &self.inner.roots,
            ..Known::default()
        };
        denial::denials(Exit::Code(0), "", &known)
    }

    /// Returns the denials. The tool's name may be unknown: its file may not be a tool yet.
    pub(super) fn denials(&self, exit: Exit, output: &str, tool: Option<&str>) -> Vec<String> {
        let own = self.inner.own.as_ref();
        let tool = own.map(|_| tool.unwrap_or("NAME"));
        let own_folder = own.and_then(|it| it.folder.canonicalize().ok());
        let given = environment::environment(&self.inner.commands.variables, &self.inner.commands.env);
        let given = || given.iter().chain(own.iter().flat_map(|it| &it.env));
        let names = self.inner.commands.variables.iter().map(|it| it.0.as_str());
        let kept: Vec<&str> = names.filter(|name| given().all(|it| it.0 != *name)).collect();
        let mut seen = self.inner.seen.lock();
        self.inner.look(&mut seen.watch);
        let (ended, found) = (std::mem::take(&mut seen.ended), seen.watch.found());
        let opened = std::mem::take(&mut seen.opened);
        let refused_hosts = self.inner.hosts.take_refusals();
        let granted_ports: Vec<u16> = self.inner.hosts.loopback_ports().into_iter().collect();
        let known = Known {
            mounts: &seen.mounts,
            roots: &self.inner.roots,
            held: self.is_read_only(),
            limits: self.inner.commands.limits,
            refused_hosts: &refused_hosts,
            granted_ports: &granted_ports,
            tool,
            own_folder: own_folder.as_deref(),
            is_server: own.is_some_and(|it| it.is_server),
            kept_variables: &kept,
            ended: &ended,
            appeared: &found.appeared,
            aside: &found.aside,
            stuck: &found.stuck,
            taken: &found.taken,
        };
        let anew = opened.iter().map(|path| {
            format!(
                "sandbox: rule `control_files`: {} was replaced from outside, which opened it, so the sandbox was rebuilt; what \
                 ran in the old one has ended",
                path.display()
            )
        });
        denial::denials(exit, output, &known).into_iter().chain(anew).collect()
    }
}

impl Execution {
    /// Records the start of a command: until all its processes are gone, changes may be its own.
    pub(super) fn command_begins(&self) -> Starting {
        let mut seen = self.inner.seen.lock();
        // The processes before it may have been stopped, without a check since.
        if seen.watch.is_over() {
            self.inner.look(&mut seen.watch);
        }
        seen.watch.command_begins();
        Starting { execution: self.inner.clone(), life: None }
    }
}

impl Inner {
    /// Checks what commands changed. Reads the grants only after a change of a control file.
    pub(super) fn look(&self, watch: &mut Watch) {
        let granted = OnceCell::new();
        watch.look(&|path| {
            self.approve == Approve::Auto
                || granted.get_or_init(|| self.granted_writes()).iter().any(|it| path.starts_with(it))
        });
    }

    /// Returns the paths that a person allows to be written.
    fn granted_writes(&self) -> Vec<PathBuf> {
        let workspace = self.roots.first().map_or_else(PathBuf::new, |it| it.0.clone());
        let granted = self.grants.in_force(&self.session).unwrap_or_default();
        let writes = granted.iter().filter_map(|it| match policy::grants::parse(&it.effect) {
            Ok(Effect::Write(path)) => Some(workspace.join(path)),
            _ => None,
        });
        writes.collect()
    }
}

/// A command that is about to start.
pub(super) struct Starting {
    execution: Arc<Inner>,
    life: Option<Life>,
}

impl Starting {
    /// Records that the command has started.
    pub(super) fn began(mut self, process: Process) -> Process {
        self.life = Some(process.life());
        process.holding(Running { execution: Arc::downgrade(&self.execution) })
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        self.execution.seen.lock().watch.command_began(self.life.take());
    }
}

/// A running command, and all that it started.
struct Running {
    execution: Weak<Inner>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(execution) = self.execution.upgrade() else { return };
        // The caller that stopped it may not check the changes.
        if !execution.seen.lock().watch.is_over() {
            return;
        }
        let look = move || {
            let mut seen = execution.seen.lock();
            if seen.watch.is_over() {
                execution.look(&mut seen.watch);
            }
        };
        if let Err(error) = std::thread::Builder::new().name("haft-watch".to_owned()).spawn(look) {
            tracing::warn!("no thread could be started to look at control files: {error}");
        }
    }
}

/// Returns the time of the last added or removed entry in this folder.
pub(super) fn changed(folder: &Path) -> Option<SystemTime> {
    folder.metadata().and_then(|it| it.modified()).ok()
}

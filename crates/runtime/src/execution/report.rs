//! A session's sandbox as it is reported: what holds, and what is missing.

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

/// How often it is looked at most what the calls of a tool changed in the workspace.
const RARELY: Duration = Duration::from_secs(1);

/// What is known of the sandbox for who asks why something failed.
#[derive(Default)]
pub(super) struct SandboxReport {
    pub(super) mounts: Vec<Mount>,
    pub(super) ended: Vec<Ended>,
    pub(super) watch: Watch,
    pub(super) closed: Closed,
    /// What was closed and is not, so that the sandbox had to be made anew.
    pub(super) opened: Vec<PathBuf>,
    /// For as long as the folder of tools is open.
    pub(super) open: Option<Open>,
    /// When a name in that folder came or went last, as far as that was looked at.
    pub(super) changed: Option<SystemTime>,
}

impl Execution {
    /// What the sandbox that there is closed, and closes no more.
    pub(crate) fn opened(&self) -> Option<PathBuf> {
        self.inner.seen.lock().closed.opened()
    }

    /// A lasting bash starts nothing by which it would be noticed that its sandbox is not what it was.
    pub(super) fn look_whether_closed(&self) {
        // Who has it locked is about to look.
        if self.inner.own.is_none()
            && let Ok(mut kept) = self.inner.confined.try_lock()
        {
            self.still_closed(&mut kept);
        }
    }

    /// The keeper that is kept, if its sandbox is what it was; otherwise it is let go of.
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
        // What a tool's calls do is done soon, but what a session runs may be there for ever.
        if self.inner.own.is_none() {
            living.keeper.end();
            self.inner.seen.lock().opened.push(opened);
        }
        None
    }

    /// What is to be said of code that the tool made, now that a call of it worked. Where no name came to its folder
    /// since this was asked last, it costs one look at the folder's time.
    pub(crate) fn made(&self) -> Vec<String> {
        let Some(own) = &self.inner.own else { return Vec::new() };
        let now = changed(&own.folder);
        let mut seen = self.inner.seen.lock();
        let is_new = seen.open.is_some() && seen.changed != now;
        // One who calls again and again does not have all folders looked at each time; the last look is at the end.
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

    /// A tool that is a file is not always known by name: its file may be no tool yet.
    pub(super) fn denials(&self, exit: Exit, output: &str, tool: Option<&str>) -> Vec<String> {
        let own = self.inner.own.as_ref();
        let tool = own.map(|_| tool.unwrap_or("NAME"));
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
    /// A command begins: until nothing is left of it, what changes may be its doing.
    pub(super) fn command_begins(&self) -> Starting {
        let mut seen = self.inner.seen.lock();
        // What ran before may have been stopped, and nobody looked since.
        if seen.watch.is_over() {
            self.inner.look(&mut seen.watch);
        }
        seen.watch.command_begins();
        Starting { execution: self.inner.clone(), life: None }
    }
}

impl Inner {
    /// Looks at what commands changed. The store is asked for grants only once a control file did change.
    pub(super) fn look(&self, watch: &mut Watch) {
        let granted = OnceCell::new();
        watch.look(&|path| {
            self.approve == Approve::Auto
                || granted.get_or_init(|| self.granted_writes()).iter().any(|it| path.starts_with(it))
        });
    }

    /// What a person allowed to be written.
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

/// A command that is about to begin.
pub(super) struct Starting {
    execution: Arc<Inner>,
    life: Option<Life>,
}

impl Starting {
    /// It began.
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

/// A command that runs, and all it started.
struct Running {
    execution: Weak<Inner>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(execution) = self.execution.upgrade() else { return };
        // Who stopped it may not ask what it changed.
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

/// When a name in this folder came or went last.
pub(super) fn changed(folder: &Path) -> Option<SystemTime> {
    folder.metadata().and_then(|it| it.modified()).ok()
}

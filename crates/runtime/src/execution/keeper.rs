//! Keepers of an execution: each starts the session's commands, in the sandbox or outside of it.

use std::{
    net::TcpListener,
    os::fd::OwnedFd,
    path::PathBuf,
    process::Command,
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use kit::{
    Fault, Kind,
    procs::{Attribution, Base, During, Keeper, Process, Program},
    spans,
};
use sandbox::{
    Confined, KEEPER, Part, Plan, Report, SandboxMode, Trouble, bubblewrap,
    closed::Closed,
    environment,
    layout::{self, Mount, Wanted},
    pass::Pass,
    preview, proxy,
    tracker::{Tracked, Tracker},
    watch::{self, Begun},
};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::UnixStream,
};

use super::{Execution, Living, Own, Place, of_preview, report::changed, sandbox_lock};

impl Execution {
    pub(super) async fn start(
        &self,
        place: Place,
        pass: Option<&Pass>,
        mut program: Program,
    ) -> Result<Process, Fault> {
        let place = self.now(place);
        let living = match place {
            Place::None => {
                return Err(Fault::denied("this call did not declare that it starts a command"));
            }
            Place::Sandbox => self.inside().await?,
            Place::Unconfined => self.outside().await?,
        };
        if place == Place::Sandbox {
            self.forward_loopback().await;
        }
        let read_only = living.read_only;
        if let (Some(pass), Some(port)) = (pass, living.proxy) {
            program.env.extend(environment::proxy_variables(port, Some(pass.word())));
        }
        let base = Base {
            env: &living.env,
            limits: &living.limits,
            spilling: Some(&self.inner.spilling),
            track: matches!(living.tracker, Ok(Some(_))),
        };
        let starting = (place == Place::Sandbox).then(|| self.command_begins());
        let coming = pass.map(Pass::coming);
        let mut process = living.keeper.start(program, base).await?;
        match (process.take_listener(), &living.tracker) {
            (Some(listener), Ok(Some(tracker))) => {
                match listener.and_then(|it| tracker.track(it, self.call.as_deref())) {
                    Ok(tracked) => {
                        process = process.lending(Arc::new(tracked.clone()));
                        process = process.attributed_by(Arc::new(ByCall(tracked)));
                    }
                    Err(error) => self.not_tracked(&error.to_string()),
                }
            }
            (_, Err(why)) => self.not_tracked(why),
            (_, Ok(_)) => {}
        }
        if let Some(coming) = coming {
            coming.is(process.supervisor());
        }
        let process = if let Some(starting) = starting { starting.began(process) } else { process };
        // A command that was allowed before the session became read-only must not begin after that.
        if self.is_read_only() && !read_only {
            return Err(sandbox_lock::held_now());
        }
        Ok(process)
    }

    /// Starts the keeper in the sandbox, if a command `is_next` and there is none. If that fails, the command says why.
    pub(crate) async fn warm(&self, is_next: bool) {
        let is_cold = || self.inner.confined.try_lock().is_ok_and(|it| it.is_none());
        if is_next && self.sandbox() != SandboxMode::Full && is_cold() {
            let _ = self.inside().await;
        }
    }

    /// Returns the keeper in the sandbox. Replaces one that died: its processes are gone, but the session
    /// continues.
    async fn inside(&self) -> Result<Living, Fault> {
        let mut kept = self.inner.confined.lock().await;
        let read_only = self.is_read_only();
        if let Some(living) = self.still_closed(&mut kept) {
            return Ok(living);
        }
        let began = Instant::now();
        let mut plan = self.plan(read_only)?;
        if self.inner.preview {
            plan.mounts = preview::overlays(std::mem::take(&mut plan.mounts))?;
            // Neither bubblewrap nor rules alone can do this.
            let living = self.try_with(&plan).await?.map_err(|trouble| of_preview::unavailable(&trouble))?;
            *kept = Some(Living { read_only, ..living.clone() });
            return Ok(living);
        }
        let mut tried = self.try_with(&plan).await?;
        if matches!(&tried, Err(trouble) if trouble.part == Part::Namespaces) && self.bubblewrap().is_some() {
            // The kernel may refuse haft a namespace and grant bubblewrap an exception.
            let plan = Plan { confined: Confined::Wrapped, ..plan.clone() };
            let wrapped = match self.try_with(&plan).await {
                Ok(Ok(living)) => Ok(living),
                Ok(Err(trouble)) => Err(trouble.to_string()),
                Err(fault) => Err(fault.what),
            };
            tried = match (wrapped, tried) {
                (Ok(living), _) | (Err(_), Ok(living)) => Ok(living),
                (Err(why), Err(trouble)) => {
                    Err(Trouble { error: format!("{}; with bubblewrap: {why}", trouble.error), ..trouble })
                }
            };
        }
        let living = match tried {
            Ok(living) => living,
            Err(trouble) if trouble.part == Part::Namespaces && self.accepts(trouble.part) => {
                let plan = Plan {
                    confined: Confined::ByRules,
                    scratch: vec![self.scratch().map_err(|error| unavailable_folder(&error))?],
                    mounts: self.without_own_folder(plan.mounts),
                    ..plan
                };
                self.try_with(&plan).await?.map_err(|trouble| unavailable(&trouble))?
            }
            Err(trouble) => return Err(unavailable(&trouble)),
        };
        let living = Living { read_only, ..living };
        spans::sandbox_started(began.elapsed());
        *kept = Some(living.clone());
        Ok(living)
    }

    async fn outside(&self) -> Result<Living, Fault> {
        if self.is_read_only() {
            return Err(sandbox_lock::held_now());
        }
        let mut kept = self.inner.unconfined.lock().await;
        if let Some(living) = kept.as_ref().filter(|it| !it.keeper.is_gone()) {
            return Ok(living.clone());
        }
        let living = self.try_with(&Plan::default()).await?.map_err(|trouble| unavailable(&trouble))?;
        *kept = Some(living.clone());
        Ok(living)
    }

    fn plan(&self, read_only: bool) -> Result<Plan, Fault> {
        let inner = &*self.inner;
        if let Some(path) =
            inner.own.iter().flat_map(|own| own.read.iter().chain(&own.write)).find(|it| inner.is_haft_s(it))
        {
            let path = path.display();
            return Err(Fault::new(
                Kind::Unavailable,
                format!("{path} is haft's own, and no tool is given it"),
            )
            .next("Take it out of the tool's section in haft.toml.".to_owned()));
        }
        // A folder must exist to be visible in the sandbox.
        let spill = store::create_folder(&inner.spill).is_ok().then(|| inner.spill.clone());
        // haft's own work runs no tool, and has no use for the output of the session's commands.
        let spill = spill.filter(|_| inner.own.as_ref().is_none_or(|own| !own.folder.as_os_str().is_empty()));
        let sandbox = match read_only {
            true => SandboxMode::ReadOnly,
            // A keeper in the sandbox confines, whatever the configuration allows.
            false => inner.sandbox.min(SandboxMode::Workspace),
        };
        let wanted = Wanted {
            sandbox,
            roots: inner.roots.iter().map(|(path, writable)| (path.clone(), !writable)).collect(),
            variables: inner.commands.variables.clone(),
            hidden: inner.hidden.clone(),
            spill,
            tools: inner.own.as_ref().map(|it| (it.folder.clone(), it.code.clone())),
            index: inner.index.clone(),
            configured: inner.configured.clone(),
            names: inner.own.iter().flat_map(Own::paths).cloned().collect(),
        };
        let mut seen = inner.seen.lock();
        // Changes that exist when the sandbox is created would count as the person's own.
        if seen.watch.is_due() {
            inner.look(&mut seen.watch);
        }
        seen.watch.take_away();
        let layout = layout::layout(&wanted)?;
        seen.closed = Closed::by(&layout.mounts);
        if inner.preview {
            // Its commands change no real file, so there is nothing to watch.
            return Ok(self.plan_of(layout.mounts, Vec::new()));
        }
        let alone = watch::without_common(&layout.guarded);
        let open = sandbox != SandboxMode::ReadOnly;
        let roots = inner.roots.iter().filter(|it| it.1 && open).map(|it| it.0.clone()).collect();
        seen.open =
            layout.tools.as_ref().map(|(folder, those)| inner.appeared.open(folder.clone(), those.clone()));
        let tools = layout.tools.map(|it| it.0);
        seen.changed = tools.as_deref().and_then(changed);
        let begun = Begun {
            roots,
            tools,
            folders: layout.guarded,
            index: inner.index.clone(),
            configured: inner.configured.clone(),
        };
        seen.watch.begin(begun, &layout.mounts);
        Ok(self.plan_of(layout.mounts, alone))
    }

    fn plan_of(&self, mounts: Vec<Mount>, alone: Vec<PathBuf>) -> Plan {
        let inner = &*self.inner;
        Plan {
            confined: Confined::Apart,
            mounts,
            alone,
            scratch: Vec::new(),
            limits: inner.commands.limits,
            unix_sockets: inner.commands.unix_sockets || inner.own.as_ref().is_some_and(|it| it.unix_sockets),
            accept_weaker: inner.commands.accept_weaker.clone(),
        }
    }

    /// Creates a folder for temporary files, for commands that can't have a private `/tmp`.
    fn scratch(&self) -> std::io::Result<PathBuf> {
        let folder = self.inner.scratch();
        store::create_folder(&folder)?;
        folder.canonicalize()
    }

    fn bubblewrap(&self) -> Option<PathBuf> {
        let path = self.inner.commands.variables.iter().find(|(name, _)| name == "PATH");
        let found = bubblewrap::find(path.map(|(_, value)| value.as_str())?)?.canonicalize().ok()?;
        // A command may have created a file in a root.
        (!self.is_in_a_root(&found)).then_some(found)
    }

    /// Returns the command that starts a keeper with this plan.
    fn command(&self, plan: &Plan) -> Result<Command, Fault> {
        let program = self.inner.commands.program();
        let mut command = match self.bubblewrap().filter(|_| plan.confined == Confined::Wrapped) {
            None => Command::new(program),
            Some(wrapper) => {
                let arguments = program
                    .canonicalize()
                    .and_then(|program| bubblewrap::arguments(&plan.mounts, &program, &self.scratch()?));
                let arguments = arguments.map_err(|error: std::io::Error| {
                    Fault::new(Kind::Unavailable, format!("bubblewrap can't be started: {error}"))
                })?;
                let mut command = Command::new(wrapper);
                command.args(arguments);
                command
            }
        };
        command.arg(KEEPER);
        Ok(command)
    }

    fn accepts(&self, part: Part) -> bool {
        self.inner.commands.accept_weaker.iter().any(|it| it == part.name())
    }

    /// Starts a keeper with this plan, or returns the reason why that fails.
    async fn try_with(&self, plan: &Plan) -> Result<Result<Living, Trouble>, Fault> {
        let command = self.command(plan)?;
        let plan_bytes = serde_json::to_vec(plan).map_err(|error| {
            Fault::new(Kind::Unavailable, format!("the sandbox can't be described: {error}")).caused_by(error)
        })?;
        let (keeper, report, mut files) = Keeper::spawn(command, &plan_bytes).await?;
        let report: Report = serde_json::from_slice(&report)
            .map_err(|error| Fault::bug(format!("the keeper's report can't be read: {error}")))?;
        if let Some(trouble) = report.trouble {
            return Ok(Err(trouble));
        }
        let mut env = self.environment();
        if let Some(scratch) = plan.scratch.first() {
            env.retain(|(name, _)| name != "TMPDIR");
            env.push(("TMPDIR".to_owned(), scratch.to_string_lossy().into_owned()));
        }
        if plan.confined != Confined::Not {
            let mut seen = self.inner.seen.lock();
            seen.mounts.clone_from(&plan.mounts);
        }
        if let Some(own) = &self.inner.own {
            env.retain(|(name, _)| !own.env.iter().any(|(it, _)| it == name));
            env.extend(own.env.iter().cloned());
        }
        // The folder with the changes comes last.
        let uppers = files.pop_if(|_| self.inner.preview).map(Arc::new);
        if let Some(port) = report.proxy {
            env.extend(environment::proxy_variables(port, None));
            self.inner.ports.are_of(&keeper, port);
            self.serve(files);
        }
        let tracker = self.tracker(plan);
        let limits = if plan.confined == Confined::Not { Vec::new() } else { plan.limits.of_each() };
        Ok(Ok(Living {
            keeper,
            env: Arc::new(env),
            limits: Arc::new(limits),
            proxy: report.proxy,
            tracker,
            read_only: false,
            uppers,
        }))
    }

    /// Starts the tracker of a keeper's commands, or returns the reason why they are not tracked. `None`: they
    /// have nothing to track.
    fn tracker(&self, plan: &Plan) -> Result<Option<Tracker>, String> {
        if plan.confined == Confined::Not {
            return Err("it ran outside of the sandbox".to_owned());
        }
        if self.inner.preview {
            return Ok(None);
        }
        let roots: Vec<PathBuf> = self.inner.roots.iter().filter(|it| it.1).map(|it| it.0.clone()).collect();
        if roots.is_empty() || self.is_read_only() {
            return Ok(None);
        }
        let tracker = Tracker::start(self.inner.tracks.clone(), &roots, self.inner.opener.clone());
        tracker.map(Some).map_err(|error| {
            self.inner.is_untracked.store(true, Ordering::Relaxed);
            error.to_string()
        })
    }

    /// Records that a command of the call may change files that are not tracked, so that an undo says so.
    fn not_tracked(&self, why: &str) {
        let Some(call) = &self.call else { return };
        if let Err(error) = self.inner.tracks.call(call).not_tracked(why) {
            tracing::warn!(
                call = &**call,
                "the changes of a command are not tracked ({why}), and its log fails: {error}"
            );
        }
    }

    /// Serves the sandbox's requests to haft.
    fn serve(&self, files: Vec<OwnedFd>) {
        let mut files = files.into_iter();
        if let Some(listener) = files.next() {
            tokio::spawn(proxy::serve(TcpListener::from(listener), self.inner.hosts.clone()));
        }
        let Some(ended) = files.next() else { return };
        let execution = Arc::downgrade(&self.inner);
        let ended = std::os::unix::net::UnixStream::from(ended);
        // A task, not a thread: the end of the runtime must not wait for the sandbox.
        let Ok(ended) = ended.set_nonblocking(true).and_then(|()| UnixStream::from_std(ended)) else {
            return;
        };
        tokio::spawn(async move {
            let mut lines = BufReader::new(ended).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let (Some(execution), Ok(one)) = (execution.upgrade(), serde_json::from_str(&line)) else {
                    return;
                };
                execution.seen.lock().ended.push(one);
            }
        });
    }
}

/// Counts the changes of tracked processes to calls.
struct ByCall(Tracked);

impl Attribution for ByCall {
    fn during(&self, call: &str) -> During {
        Box::new(self.0.during(call))
    }
}

fn unavailable_folder(error: &std::io::Error) -> Fault {
    Fault::new(Kind::Unavailable, format!("no folder for temporary files could be made: {error}"))
}

fn unavailable(trouble: &Trouble) -> Fault {
    let name = trouble.part.name();
    Fault::new(Kind::Unavailable, format!("the sandbox can't be built, so nothing was started: {trouble}")).next(format!(
        "A person can accept a weaker sandbox with `--accept-weaker {name}`, or `accept_weaker = {}` in their own haft.toml: {}",
        json!([name]),
        trouble.part.without(),
    ))
}

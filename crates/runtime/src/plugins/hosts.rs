//! Python processes of a session: starts, shares and ends them.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::Duration,
};

use kit::{Fault, Kind, Touch, Touches, procs::Recording, services::Soon};
use parking_lot::Mutex;
use serde::Serialize;
use store::create_folder;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::task::AbortOnDropHandle;

use super::{
    Section, Version,
    attestation::Module,
    call_rules::Served,
    compiled::Compiled,
    failure, folders,
    host::{Host, Mode},
    interpreter::{self, Interpreters},
    uv::{self, Environments, Provided},
};
use crate::execution::{Execution, Own};

/// Idle time after which a process ends.
const IDLE: Duration = Duration::from_secs(300);
/// Limit of processes; there are more only while more are in calls at the same time.
const MOST: usize = 64;
/// Time limit of an import.
const IMPORT: Duration = Duration::from_secs(60);
/// Bytes shown of a call's printed output.
const PRINTED: usize = 4 << 10;

/// The processes of one session. Dropping this ends them.
pub(crate) struct Hosts {
    inner: Arc<Inner>,
}

struct Inner {
    execution: Execution,
    workspace: PathBuf,
    session: String,
    environments: Environments,
    packages: Packages,
    interpreters: Interpreters,
    slots: Mutex<Slots>,
}

/// Returns the environment with the packages that this file, with this source, declares; none if it needs
/// none.
pub(crate) type Packages =
    Box<dyn Fn(PathBuf, Arc<[u8]>) -> Soon<'static, Result<Option<Provided>, Fault>> + Send + Sync>;

#[derive(Default)]
struct Slots {
    by_key: HashMap<blake3::Hash, Slot>,
    /// Ends idle processes.
    sweeper: Option<AbortOnDropHandle<()>>,
}

/// The slot of one process, which may be running or not.
struct Slot {
    served: Arc<Served>,
    execution: Execution,
    host: Option<Arc<Host>>,
    /// Keeps the packages of the process from being pruned.
    _provided: Option<Provided>,
    starting: Weak<Start>,
    /// The digest of the files that it may import from its folder, if it may import any.
    imports: Option<blake3::Hash>,
    /// The number of calls that use it or wait for it.
    busy: usize,
    idle_since: Instant,
    /// Whether there is a newer version: the process ends with its last call.
    is_old: bool,
    printed: Option<Printed>,
}

/// A start under way. It is cancelled when nobody waits for it.
struct Start {
    done: watch::Receiver<Option<Result<Arc<Host>, Arc<Fault>>>>,
    _task: AbortOnDropHandle<()>,
}

/// A call's claim on a process. The process lives at least as long.
pub(super) struct Lease {
    pub(super) host: Arc<Host>,
    /// Its execution environment.
    pub(super) execution: Execution,
    busy: Busy,
}

/// Counts a call, so that the process is not idle.
struct Busy {
    inner: Arc<Inner>,
    key: blake3::Hash,
}

/// The output of a process from one position on.
#[derive(Clone)]
pub(super) struct Printed {
    recording: Arc<Recording>,
    from: u64,
}

/// The process for a call.
enum Next {
    Here(Arc<Host>),
    Soon(Arc<Start>),
}

impl Hosts {
    /// Creates the processes of a session, which run in this execution environment.
    pub(crate) fn new(execution: Execution, session: &str, packages: Packages) -> Self {
        let inner = Inner {
            workspace: execution.workspace().to_owned(),
            session: session.to_owned(),
            environments: Environments::of(&execution),
            execution,
            packages,
            interpreters: Interpreters::default(),
            slots: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Returns the session's name.
    pub(super) fn session(&self) -> &str {
        &self.inner.session
    }

    /// Returns the process that serves this version; starts it if there is none.
    pub(super) async fn lease(&self, served: &Arc<Served>) -> Result<Lease, Fault> {
        let (busy, next, execution) = self.enter(served);
        let host = match next {
            Next::Here(host) => host,
            Next::Soon(start) => start.host().await?,
        };
        Ok(Lease { host, execution, busy })
    }

    /// Returns an execution environment for a program with these code files and its grants.
    pub(super) fn ground_of(&self, version: &Version, section: &Section, code: Vec<PathBuf>) -> Execution {
        self.inner.ground_of(version, section, code)
    }

    /// Releases all processes: running calls finish in theirs, and the next calls import again.
    pub(crate) fn renew(&self) {
        let mut slots = self.inner.slots.lock();
        let gone: Vec<Slot> = slots.by_key.extract_if(|_, it| it.busy == 0).map(|it| it.1).collect();
        for slot in slots.by_key.values_mut() {
            (slot.host, slot.starting) = (None, Weak::new());
        }
        drop(slots);
        drop(gone);
    }

    /// Returns what the newest call of a tool in this file printed, if it succeeded and printed something.
    pub(crate) fn printed(&self, file: &Path) -> Option<String> {
        let slots = self.inner.slots.lock();
        let of_file = slots.by_key.values().filter(|it| it.served.version.path == file);
        let printed = of_file.max_by_key(|it| it.idle_since)?.printed.clone();
        drop(slots);
        printed.map(|it| it.text()).filter(|it| !it.is_empty())
    }

    fn enter(&self, served: &Arc<Served>) -> (Busy, Next, Execution) {
        let inner = &self.inner;
        // If the imports are attested, other content is another version.
        let imports = served.beside.is_none().then(|| folders::imports(&served.version.folder));
        let mut slots = inner.slots.lock();
        let is_new = !slots.by_key.contains_key(&served.key);
        let slot = slots.by_key.entry(served.key).or_insert_with(|| Slot::new(served, inner, imports));
        slot.busy += 1;
        if slot.imports != imports {
            // The next process imports the present files.
            (slot.host, slot.starting, slot.imports) = (None, Weak::new(), imports);
        }
        let is_closed = slot.execution.opened().is_none();
        if !is_closed {
            // Running calls keep what they have.
            *slot = Slot { busy: slot.busy, ..Slot::new(served, inner, imports) };
        }
        let execution = slot.execution.clone();
        let next = match (&slot.host, slot.starting.upgrade()) {
            (Some(host), _) if !host.is_gone() && is_closed => Next::Here(host.clone()),
            (_, Some(start)) if start.is_good() => Next::Soon(start),
            _ => {
                let start = Start::new(inner, served, &execution, imports);
                slot.starting = Arc::downgrade(&start);
                Next::Soon(start)
            }
        };
        let gone = if is_new || slot.is_old { slots.evict(served) } else { Vec::new() };
        if slots.sweeper.is_none() {
            slots.sweeper = Some(AbortOnDropHandle::new(tokio::spawn(sweep(Arc::downgrade(inner)))));
        }
        drop(slots);
        drop(gone);
        (Busy { inner: inner.clone(), key: served.key }, next, execution)
    }
}

impl Inner {
    /// Returns an execution environment for a version of a file, with its grants.
    fn ground_of(&self, version: &Version, section: &Section, code: Vec<PathBuf>) -> Execution {
        let env = self.execution.variables().iter().filter(|(name, _)| section.env.contains(name)).cloned();
        let mut read = section.read.clone();
        if let Ok(source) = version.source.text()
            && let Ok(Some(script)) = uv::wanted(&source)
            && self.environments.is_needed(&script)
        {
            let folder = self.environments.folder_of(&script);
            // A folder must exist to be visible in the sandbox; the environment may have to be made again.
            let _ = create_folder(&folder);
            read.push(folder);
        }
        self.execution.of_tool(Own {
            folder: version.folder.clone(),
            code,
            read,
            write: section.write.clone(),
            env: env.collect(),
            is_server: false,
            unix_sockets: false,
        })
    }
}

impl Slots {
    /// Removes slots before a call: those of other versions of its file, and the ones idle longest.
    fn evict(&mut self, served: &Served) -> Vec<Slot> {
        for (key, slot) in &mut self.by_key {
            if slot.served.version.path == served.version.path {
                slot.is_old = *key != served.key && slot.served.version.hash != served.version.hash;
            }
        }
        let mut gone: Vec<Slot> =
            self.by_key.extract_if(|_, it| it.is_old && it.busy == 0).map(|it| it.1).collect();
        while self.by_key.len() > MOST {
            let idle = self.by_key.iter().filter(|(_, it)| it.busy == 0);
            let Some(key) = idle.min_by_key(|(_, it)| it.idle_since).map(|(key, _)| *key) else { break };
            gone.extend(self.by_key.remove(&key));
        }
        gone
    }
}

impl Slot {
    fn new(served: &Arc<Served>, inner: &Inner, imports: Option<blake3::Hash>) -> Self {
        let (version, section) = (&served.version, &served.section);
        Self {
            served: served.clone(),
            execution: inner.ground_of(version, section, vec![version.path.clone()]),
            host: None,
            _provided: None,
            starting: Weak::new(),
            imports,
            busy: 0,
            idle_since: Instant::now(),
            is_old: false,
            printed: None,
        }
    }
}

impl Start {
    fn new(
        inner: &Arc<Inner>,
        served: &Arc<Served>,
        execution: &Execution,
        imports: Option<blake3::Hash>,
    ) -> Arc<Self> {
        let (say, done) = watch::channel(None);
        let (inner, served, execution) = (inner.clone(), served.clone(), execution.clone());
        let task = tokio::spawn(async move {
            let begun = begin(&inner, &served, &execution).await.map_err(Arc::new);
            if let Ok((host, provided)) = &begun
                && let Some(slot) = inner.slots.lock().by_key.get_mut(&served.key)
                // Its imports may have changed meanwhile.
                && slot.imports == imports
            {
                (slot.host, slot._provided) = (Some(host.clone()), provided.clone());
            }
            // The waiting calls may have been cancelled.
            let _ = say.send(Some(begun.map(|it| it.0)));
        });
        Arc::new(Self { done, _task: AbortOnDropHandle::new(task) })
    }

    /// Returns whether the start may still give a process, or has given one that runs.
    fn is_good(&self) -> bool {
        match &*self.done.borrow() {
            None => true,
            Some(Ok(host)) => !host.is_gone(),
            Some(Err(_)) => false,
        }
    }

    async fn host(&self) -> Result<Arc<Host>, Fault> {
        let mut done = self.done.clone();
        let host = done.wait_for(Option::is_some).await.ok().and_then(|it| it.clone());
        match host {
            Some(Ok(host)) => Ok(host),
            Some(Err(fault)) => Err(fault.copied()),
            None => Err(Fault::new(Kind::Cancelled, "haft ends, so the tool was not started")),
        }
    }
}

impl Lease {
    /// Returns the output from now on.
    pub(super) fn printed(&self) -> Printed {
        let recording = self.host.printed().clone();
        // Output of earlier calls that is still in the pipe belongs to them.
        recording.catch_up();
        Printed { from: recording.total(), recording }
    }

    /// Stores the output of a call.
    pub(super) fn keep(&self, printed: Printed) {
        let key = &self.busy.key;
        if let Some(slot) = self.busy.inner.slots.lock().by_key.get_mut(key) {
            slot.printed = Some(printed);
        }
    }
}

impl Printed {
    /// Returns the output, cut to its limit.
    pub(super) fn text(&self) -> String {
        self.recording.catch_up();
        let mut text = self.recording.since(self.from, PRINTED).text;
        text.truncate(text.trim_end().len());
        text
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut slots = self.inner.slots.lock();
        let Some(slot) = slots.by_key.get_mut(&self.key) else { return };
        slot.busy -= 1;
        slot.idle_since = Instant::now();
        let gone = if slot.is_old && slot.busy == 0 { slots.by_key.remove(&self.key) } else { None };
        drop(slots);
        drop(gone);
    }
}

/// Ends processes that were idle for long.
async fn sweep(hosts: Weak<Inner>) {
    loop {
        let next = {
            let Some(inner) = hosts.upgrade() else { return };
            let now = Instant::now();
            let mut slots = inner.slots.lock();
            let is_over = |it: &Slot| it.busy == 0 && it.idle_since + IDLE <= now;
            let gone: Vec<Slot> = slots.by_key.extract_if(|_, it| is_over(it)).map(|it| it.1).collect();
            let idle = slots.by_key.values().filter(|it| it.busy == 0).map(|it| it.idle_since);
            let next = idle.min().unwrap_or(now) + IDLE;
            drop(slots);
            drop(gone);
            next
        };
        sleep_until(next).await;
    }
}

#[derive(Serialize)]
struct Load<'a> {
    op: &'static str,
    path: &'a Path,
    folder: &'a Path,
    source: &'a str,
    workspace: &'a Path,
    session: &'a str,
    settings: Settings<'a>,
    /// All modules that it may import from its folder, if it has grants.
    beside: Option<&'a [Module]>,
}

#[derive(Serialize)]
struct Settings<'a> {
    tools_dir: &'a Path,
}

/// Starts a process and imports the file in it.
async fn begin(
    inner: &Inner,
    served: &Served,
    execution: &Execution,
) -> Result<(Arc<Host>, Option<Provided>), Fault> {
    let (version, section) = (&*served.version, &served.section);
    let touches = section.net.iter().cloned().map(Touch::Net).fold(Touches::run("python3"), Touches::and);
    let procs = execution.of_call(&touches, &[]);
    let file = version.path.display().to_string();
    let source = version.source.text()?;
    let provided = (inner.packages)(version.path.clone(), source.clone()).await?;
    let names = match &provided {
        Some(it) => vec![it.python.display().to_string()],
        // Commands may change the workspace's own interpreter, so it gets no grants.
        None if section.is_grant() => interpreter::names(&inner.workspace, &execution.environment()),
        None => inner.interpreters.of(version, &inner.workspace, &execution.environment()),
    };
    let compiled = |name: &str| Compiled::of(execution, name);
    let starting =
        Host::start_with_any(&procs, &names, &inner.workspace, (Mode::Serve, Some(&version.path)), compiled)
            .await;
    // The interpreter found earlier may have been removed.
    let (name, host) = starting.inspect_err(|_| inner.interpreters.forget())?;
    let source = String::from_utf8_lossy(&source);
    let load = Load {
        op: "load",
        path: &version.path,
        folder: &version.folder,
        source: &source,
        workspace: &inner.workspace,
        session: &inner.session,
        settings: Settings { tools_dir: &version.folder },
        beside: served.beside.as_ref().map(|it| it.modules()),
    };
    let printed = Printed { recording: host.printed().clone(), from: 0 };
    let imported = match host.ask(None, |_, _| load) {
        Ok(mut asked) => timeout(IMPORT, asked.answer()).await,
        Err(lost) => Ok(Err(lost)),
    };
    match imported {
        Ok(Ok(said)) if said.op == "loaded" => {
            inner.interpreters.remember(name, &said.executable);
            host.imported().await;
            Ok((host, provided))
        }
        Ok(Ok(said)) => Err(failure::broken(&file, &said, &printed.text(), &procs)),
        Ok(Err(lost)) => Err(failure::not_imported(&file, &lost, &printed.text(), &procs)),
        Err(_) => Err(failure::with_printed(
            Fault::new(
                Kind::Timeout,
                format!(
                    "{file} could not be imported within {} s, so its process was ended",
                    IMPORT.as_secs()
                ),
            ),
            &printed.text(),
        )),
    }
}

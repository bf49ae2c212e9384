//! Processes that hold a session's Python files, and their lifetime.

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

/// How long a process stays that nobody calls.
const IDLE: Duration = Duration::from_secs(300);
/// As many stay at most; more only while more are called at the same moment.
const MOST: usize = 64;
/// How long a file may take to be imported.
const IMPORT: Duration = Duration::from_secs(60);
/// How much of what a call printed is shown.
const PRINTED: usize = 4 << 10;

/// The processes of one session. They end when this is dropped.
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

/// Gives what provides the packages which this file, with this source, says that it needs; none if it needs none.
pub(crate) type Packages =
    Box<dyn Fn(PathBuf, Arc<[u8]>) -> Soon<'static, Result<Option<Provided>, Fault>> + Send + Sync>;

#[derive(Default)]
struct Slots {
    by_key: HashMap<blake3::Hash, Slot>,
    /// Ends what is idle.
    sweeper: Option<AbortOnDropHandle<()>>,
}

/// The place of one process, which may be there or not.
struct Slot {
    served: Arc<Served>,
    execution: Execution,
    host: Option<Arc<Host>>,
    /// What that process imports, for as long as it may.
    _provided: Option<Provided>,
    starting: Weak<Start>,
    /// As the files were that it may import from its folder, where whatever is there counts.
    imports: Option<blake3::Hash>,
    /// How many calls have it, or wait for it.
    busy: usize,
    idle_since: Instant,
    /// There is a newer version: it goes with its last call.
    is_old: bool,
    printed: Option<Printed>,
}

/// A process that is being started. It is given up when nobody waits for it any more.
struct Start {
    done: watch::Receiver<Option<Result<Arc<Host>, Arc<Fault>>>>,
    _task: AbortOnDropHandle<()>,
}

/// A process that a call has. It stays at least as long as this.
pub(super) struct Lease {
    pub(super) host: Arc<Host>,
    /// Where it runs.
    pub(super) execution: Execution,
    busy: Busy,
}

/// Counts a call among those that keep a process from being idle.
struct Busy {
    inner: Arc<Inner>,
    key: blake3::Hash,
}

/// What a process printed from one moment on.
#[derive(Clone)]
pub(super) struct Printed {
    recording: Arc<Recording>,
    from: u64,
}

/// What a call finds.
enum Next {
    Here(Arc<Host>),
    Soon(Arc<Start>),
}

impl Hosts {
    /// Those of a session whose processes run on this ground.
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

    /// The session's name.
    pub(super) fn session(&self) -> &str {
        &self.inner.session
    }

    /// The process that serves this, started if there is none.
    pub(super) async fn lease(&self, served: &Arc<Served>) -> Result<Lease, Fault> {
        let (busy, next, execution) = self.enter(served);
        let host = match next {
            Next::Here(host) => host,
            Next::Soon(start) => start.host().await?,
        };
        Ok(Lease { host, execution, busy })
    }

    /// A ground of its own for a program, whose code this is, with what a person granted to it.
    pub(super) fn ground_of(&self, version: &Version, section: &Section, code: Vec<PathBuf>) -> Execution {
        self.inner.ground_of(version, section, code)
    }

    /// Lets go of all processes: calls that run finish in theirs, and the next ones import anew.
    pub(crate) fn renew(&self) {
        let mut slots = self.inner.slots.lock();
        let gone: Vec<Slot> = slots.by_key.extract_if(|_, it| it.busy == 0).map(|it| it.1).collect();
        for slot in slots.by_key.values_mut() {
            (slot.host, slot.starting) = (None, Weak::new());
        }
        drop(slots);
        drop(gone);
    }

    /// What the newest call of a tool in this file printed, if it worked and printed something.
    pub(crate) fn printed(&self, file: &Path) -> Option<String> {
        let slots = self.inner.slots.lock();
        let of_file = slots.by_key.values().filter(|it| it.served.version.path == file);
        let printed = of_file.max_by_key(|it| it.idle_since)?.printed.clone();
        drop(slots);
        printed.map(|it| it.text()).filter(|it| !it.is_empty())
    }

    fn enter(&self, served: &Arc<Served>) -> (Busy, Next, Execution) {
        let inner = &self.inner;
        // Of what a person vouches for, another content is another version.
        let imports = served.beside.is_none().then(|| folders::imports(&served.version.folder));
        let mut slots = inner.slots.lock();
        let is_new = !slots.by_key.contains_key(&served.key);
        let slot = slots.by_key.entry(served.key).or_insert_with(|| Slot::new(served, inner, imports));
        slot.busy += 1;
        if slot.imports != imports {
            // The next process imports what is there now.
            (slot.host, slot.starting, slot.imports) = (None, Weak::new(), imports);
        }
        let is_closed = slot.execution.opened().is_none();
        if !is_closed {
            // The calls that run keep what they have.
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
        let gone = if is_new || slot.is_old { slots.make_room(served) } else { Vec::new() };
        if slots.sweeper.is_none() {
            slots.sweeper = Some(AbortOnDropHandle::new(tokio::spawn(sweep(Arc::downgrade(inner)))));
        }
        drop(slots);
        drop(gone);
        (Busy { inner: inner.clone(), key: served.key }, next, execution)
    }
}

impl Inner {
    /// A ground of its own for a version of a file, with what a person granted to it.
    fn ground_of(&self, version: &Version, section: &Section, code: Vec<PathBuf>) -> Execution {
        let env = self.execution.variables().iter().filter(|(name, _)| section.env.contains(name)).cloned();
        let mut read = section.read.clone();
        if let Ok(Some(script)) = uv::wanted(&version.source)
            && self.environments.is_needed(&script)
        {
            let folder = self.environments.folder_of(&script);
            // What is to be seen has to be there before; it may have to be made again.
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
    /// Takes out what has to go because this is called now: the other versions of its file, and who was idle longest.
    fn make_room(&mut self, served: &Served) -> Vec<Slot> {
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
                // What it imported may be old by now.
                && slot.imports == imports
            {
                (slot.host, slot._provided) = (Some(host.clone()), provided.clone());
            }
            // Who waited may have been told to stop.
            let _ = say.send(Some(begun.map(|it| it.0)));
        });
        Arc::new(Self { done, _task: AbortOnDropHandle::new(task) })
    }

    /// May there be a process of it?
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
    /// What is printed from now on.
    pub(super) fn printed(&self) -> Printed {
        let recording = self.host.printed().clone();
        // What earlier calls left in the pipe is theirs.
        recording.catch_up();
        Printed { from: recording.total(), recording }
    }

    /// Keeps what a call printed, for whoever asks.
    pub(super) fn keep(&self, printed: Printed) {
        let key = &self.busy.key;
        if let Some(slot) = self.busy.inner.slots.lock().by_key.get_mut(key) {
            slot.printed = Some(printed);
        }
    }
}

impl Printed {
    /// It, as far as it is shown.
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

/// Ends what nobody has called for long.
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
    /// All that it imports from its folder, where it is granted something.
    beside: Option<&'a [Module]>,
}

#[derive(Serialize)]
struct Settings<'a> {
    tools_dir: &'a Path,
}

/// Starts a process and has it import the file.
async fn begin(
    inner: &Inner,
    served: &Served,
    execution: &Execution,
) -> Result<(Arc<Host>, Option<Provided>), Fault> {
    let (version, section) = (&*served.version, &served.section);
    let touches = section.net.iter().cloned().map(Touch::Net).fold(Touches::run("python3"), Touches::and);
    let procs = execution.of_call(&touches, &[]);
    let file = version.path.display().to_string();
    let provided = (inner.packages)(version.path.clone(), version.source.clone()).await?;
    let names = match &provided {
        Some(it) => vec![it.python.display().to_string()],
        // Commands may change the workspace's own interpreter: it is given nothing that they do not have.
        None if section.is_grant() => interpreter::names(&inner.workspace, &execution.environment()),
        None => inner.interpreters.of(version, &inner.workspace, &execution.environment()),
    };
    let compiled = |name: &str| Compiled::of(execution, name);
    let starting =
        Host::start_with_any(&procs, &names, &inner.workspace, (Mode::Serve, Some(&version.path)), compiled)
            .await;
    // What was found may have been removed.
    let (name, host) = starting.inspect_err(|_| inner.interpreters.forget())?;
    let source = String::from_utf8_lossy(&version.source);
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

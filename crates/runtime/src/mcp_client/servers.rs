//! The configured servers, and which of their tools may be called.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::SystemTime,
};

use arc_swap::ArcSwap;
use kit::{AnyTool, Fault, Kind};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::{
    Server,
    connect::Lifecycle,
    definition::Definition,
    definition_store::{self, Manifest},
    names::called,
    oauth::Logins,
    start::Start,
    tool::ServerTool,
};
use crate::{Registry, provenance::Whose, registry::Failure};

/// The configured servers, with the known tool definitions of each, running or not.
pub struct Servers {
    /// The folder of the records.
    folder: PathBuf,
    /// The stored credentials.
    logins: Logins,
    workspace: PathBuf,
    registry: Arc<Registry>,
    now: ArcSwap<BTreeMap<String, Entry>>,
    /// Held while the servers change.
    turn: Mutex<()>,
    /// Changes whenever the tools do.
    changes: watch::Sender<u64>,
    /// The number of unknown servers whose tools haft is fetching.
    asking: watch::Sender<usize>,
    /// Starts those servers; none, if haft does not fetch by itself.
    asks_with: OnceLock<Start>,
    /// Why haft has no tool definitions of a server.
    silent: Mutex<BTreeMap<String, String>>,
}

/// A server and its known tools.
#[derive(Clone)]
struct Entry {
    server: Arc<Server>,
    path: PathBuf,
    manifest: Option<Arc<Manifest>>,
    written: Option<SystemTime>,
    /// Notes on tools that haft left out.
    notes: Arc<Vec<String>>,
}

impl Servers {
    pub(crate) fn new(
        state: &Path,
        workspace: PathBuf,
        registry: Arc<Registry>,
        changes: watch::Sender<u64>,
    ) -> Self {
        Self {
            folder: state.join("mcp"),
            logins: Logins::in_state(state),
            workspace,
            registry,
            now: ArcSwap::default(),
            turn: Mutex::default(),
            changes,
            asking: watch::Sender::new(0),
            asks_with: OnceLock::new(),
            silent: Mutex::default(),
        }
    }

    /// Returns the stored credentials.
    pub fn logins(&self) -> &Logins {
        &self.logins
    }

    /// Returns the folder of the records; none, if no server is configured.
    pub(crate) fn place(&self) -> Option<PathBuf> {
        (!self.now.load().is_empty()).then(|| self.folder.clone())
    }

    /// Replaces the configured servers. Reads again the records that were written since.
    pub(crate) fn decide(self: &Arc<Self>, servers: &[Server]) {
        if servers.is_empty() && self.now.load().is_empty() {
            return;
        }
        let turn = self.turn.lock();
        let before = self.now.load_full();
        let mut entries = BTreeMap::new();
        for server in servers {
            // The first server of a name wins: the person's own comes first.
            entries
                .entry(server.name.clone())
                .or_insert_with(|| self.entry(server, before.get(&server.name)));
        }
        self.put(entries, &before);
        drop(turn);
        self.ask_unknown();
    }

    fn entry(&self, server: &Server, before: Option<&Entry>) -> Entry {
        let path = definition_store::place(&self.folder, server, &self.workspace);
        let before = before.filter(|it| it.path == path);
        let written = path.metadata().ok().and_then(|it| it.modified().ok());
        let (manifest, written) = match before {
            Some(it) if it.written == written => (it.manifest.clone(), written),
            _ => match definition_store::read(&path) {
                Some((manifest, written)) => (Some(Arc::new(manifest)), written),
                None => (None, None),
            },
        };
        let server = match before {
            Some(it) if *it.server == *server => it.server.clone(),
            _ => Arc::new(server.clone()),
        };
        Entry {
            server,
            path,
            manifest,
            written,
            notes: before.map(|it| it.notes.clone()).unwrap_or_default(),
        }
    }

    /// Replaces the servers, and signals a change if the tools differ.
    fn put(&self, entries: BTreeMap<String, Entry>, before: &BTreeMap<String, Entry>) {
        let is_same = entries.len() == before.len()
            && entries.iter().zip(before).all(|(one, other)| {
                one.0 == other.0 && one.1.server == other.1.server && one.1.manifest == other.1.manifest
            });
        let entries = Arc::new(entries);
        self.now.store(entries.clone());
        if is_same {
            return;
        }
        let mut tools: Vec<Arc<dyn AnyTool>> = Vec::new();
        let mut failed = Vec::new();
        for entry in entries.values().filter(|it| !it.server.section.disabled) {
            tools.extend(entry.tools().map(|it| it as Arc<dyn AnyTool>));
            failed.extend(entry.failures());
        }
        self.registry.swap_servers(tools, failed);
        self.changes.send_modify(|number| *number += 1);
    }

    /// Records the definitions that a server declared. Returns the manifest with what is accepted.
    pub(super) fn learned(
        &self,
        server: &Server,
        lifecycle: Lifecycle,
        (said, notes): (Vec<Definition>, Vec<String>),
    ) -> Arc<Manifest> {
        let _turn = self.turn.lock();
        self.silent.lock().remove(&server.name);
        let path = definition_store::place(&self.folder, server, &self.workspace);
        // A person may have accepted a change meanwhile, in another process.
        let kept = definition_store::read(&path);
        let manifest = match &kept {
            Some((manifest, _)) => manifest.updated(lifecycle, said),
            None => Manifest::first(&server.name, lifecycle, said),
        };
        let mut written = kept.as_ref().and_then(|it| it.1);
        if kept.is_none_or(|it| it.0 != manifest) {
            match definition_store::write(&path, &manifest) {
                Ok(at) => written = at,
                Err(fault) => tracing::warn!("{fault}"),
            }
        }
        let manifest = Arc::new(manifest);
        let before = self.now.load_full();
        let mut entries = BTreeMap::clone(&before);
        if let Some(entry) = entries.get_mut(&server.name).filter(|it| it.path == path) {
            (entry.manifest, entry.written) = (Some(manifest.clone()), written);
            entry.notes = Arc::new(notes);
        }
        self.put(entries, &before);
        manifest
    }

    /// Renders the difference between the server's present definitions and the accepted ones, for a person.
    ///
    /// # Errors
    /// When there is no such server, or nothing to accept.
    pub fn difference(&self, name: &str) -> Result<String, Fault> {
        let before = self.now.load_full();
        let Some(entry) = before.get(name) else { return Err(self.unknown(name)) };
        let Some((manifest, _)) = definition_store::read(&entry.path) else {
            return Err(Fault::not_found(format!(
                "haft has not fetched the tool definitions of `{name}` yet, so there is nothing to accept"
            ))
            .next("Its first definitions are pinned without a question."));
        };
        manifest
            .difference()
            .ok_or_else(|| Fault::not_found(format!("`{name}` says of its tools what was accepted")))
    }

    /// Accepts the definitions that a person was shown: exactly this [`difference`](Self::difference).
    ///
    /// # Errors
    /// Those of `difference`; [`Kind::Stale`] when the difference has changed since; and when the record
    /// can't be written.
    pub fn accept(&self, name: &str, shown: &str) -> Result<(), Fault> {
        let _turn = self.turn.lock();
        let before = self.now.load_full();
        let Some(entry) = before.get(name) else { return Err(self.unknown(name)) };
        let pending = definition_store::read(&entry.path)
            .filter(|(manifest, _)| manifest.difference().as_deref() == Some(shown));
        let Some((manifest, _)) = pending else {
            return Err(Fault::new(
                Kind::Stale,
                format!("`{name}` says something else by now; nothing was accepted"),
            )
            .next(format!("Look again: `haft mcp trust {name}`.")));
        };
        let manifest = manifest.with_pending();
        let written = definition_store::write(&entry.path, &manifest)?;
        let mut entries = BTreeMap::clone(&before);
        if let Some(entry) = entries.get_mut(name) {
            (entry.manifest, entry.written) = (Some(Arc::new(manifest)), written);
        }
        self.put(entries, &before);
        Ok(())
    }

    /// Fetches the definitions of unknown servers from now on, since a model can call only tools that it was
    /// shown. Fetches only from servers in the person's own file: starting any other needs permission.
    pub(crate) fn ask_by_itself(self: &Arc<Self>, with: Start) {
        // The first call of this wins.
        let _ = self.asks_with.set(with);
        self.ask_unknown();
    }

    fn ask_unknown(self: &Arc<Self>) {
        let (Some(with), Ok(tasks)) = (self.asks_with.get(), tokio::runtime::Handle::try_current()) else {
            return;
        };
        for entry in self.now.load().values() {
            let server = entry.server.clone();
            let is_due =
                entry.manifest.is_none() && server.whose == Whose::Person && !server.section.disabled;
            // A call asks again a server that did not answer.
            if !is_due || self.silent.lock().contains_key(&server.name) {
                continue;
            }
            self.silent.lock().insert(server.name.clone(), "it is being asked for its tools".to_owned());
            self.asking.send_modify(|number| *number += 1);
            let (this, with) = (self.clone(), with.clone());
            tasks.spawn(async move {
                match with.start(&this, &server, None).await {
                    // A call starts it again.
                    Ok(live) => live.end().await,
                    Err(fault) => {
                        this.silent.lock().insert(server.name.clone(), fault.as_text());
                    }
                }
                this.asking.send_modify(|number| *number -= 1);
            });
        }
    }

    /// Waits until no fetch is under way.
    pub(crate) async fn settled(&self) {
        let mut asking = self.asking.subscribe();
        // The sender lives as long as `self`.
        let _ = asking.wait_for(|number| *number == 0).await;
    }

    /// Returns the servers, sorted by name.
    pub fn list(&self) -> Vec<Arc<Server>> {
        self.now.load().values().map(|it| it.server.clone()).collect()
    }

    /// Returns the server of this name.
    pub(super) fn get(&self, name: &str) -> Option<Arc<Server>> {
        self.now.load().get(name).map(|it| it.server.clone())
    }

    /// Returns the server of this name.
    ///
    /// # Errors
    /// [`Kind::NotFound`] with the configured names.
    pub fn named(&self, name: &str) -> Result<Arc<Server>, Fault> {
        self.get(name).ok_or_else(|| self.unknown(name))
    }

    pub(super) fn manifest(&self, name: &str) -> Option<Arc<Manifest>> {
        self.now.load().get(name)?.manifest.clone()
    }

    /// Returns the notes on a server, one line each; changes that are not accepted come first.
    pub fn notes(&self, name: &str) -> Vec<String> {
        let now = self.now.load();
        let Some(entry) = now.get(name) else { return Vec::new() };
        let pending = entry.manifest.as_ref().and_then(|it| not_accepted(name, it));
        let silent = self.silent.lock().get(name).cloned();
        pending.into_iter().chain(silent).chain(entry.notes.iter().cloned()).collect()
    }

    /// Returns how many tools of a server may be called; none, if its tools are unknown.
    pub fn tools_of(&self, name: &str) -> Option<usize> {
        let now = self.now.load();
        let entry = now.get(name)?;
        entry.manifest.as_ref()?;
        Some(entry.tools().count())
    }

    /// Returns the fault for an unknown name.
    pub(super) fn unknown(&self, name: &str) -> Fault {
        let now = self.now.load();
        let names: Vec<&str> = now.keys().map(String::as_str).collect();
        let fault = Fault::not_found(format!("there is no server `{name}`"));
        match names.as_slice() {
            [] => fault.next("None is configured: a person can add `[mcp.NAME]` to haft.toml."),
            names => fault.next(format!("The servers are: {}.", names.join(", "))),
        }
    }

    /// Records that an unknown server did not answer.
    pub(super) fn did_not_answer(&self, name: &str, fault: &Fault) {
        self.silent.lock().insert(name.to_owned(), fault.as_text());
    }

    /// Returns the server that may have a tool of this name and whose tools are unknown.
    pub(super) fn may_have(&self, tool: &str) -> Option<Arc<Server>> {
        let now = self.now.load();
        let unknown = now.values().filter(|it| it.manifest.is_none() && !it.server.section.disabled);
        let prefix = |name: &str| {
            let called = called(name, "x");
            called.split_once("__").map(|it| format!("{}__", it.0)).unwrap_or_default()
        };
        unknown.map(|it| it.server.clone()).find(|it| tool.starts_with(&prefix(&it.name)))
    }

    /// Explains why there is no tool of this name, if a server has or may have it.
    pub(crate) fn why_missing(&self, tool: &str) -> Option<String> {
        let now = self.now.load();
        for (name, entry) in &**now {
            let Some(manifest) = &entry.manifest else { continue };
            let said = manifest.pending.iter().flatten();
            if entry.server.section.disabled {
                if manifest.accepted.iter().any(|it| called(name, &it.name) == tool) {
                    return Some(format!("the server `{name}` is disabled in {}", entry.server.file));
                }
                continue;
            }
            if manifest.accepted.iter().chain(said).any(|it| called(name, &it.name) == tool) {
                return match not_accepted(name, manifest) {
                    Some(why) => Some(why),
                    None => Some(format!("`tools` of `{name}` in {} leaves it out", entry.server.file)),
                };
            }
        }
        drop(now);
        let server = self.may_have(tool)?;
        let name = &server.name;
        Some(match self.silent.lock().get(name) {
            Some(why) => {
                format!("the tools of the server `{name}` are not known, and mcp_list tries it again: {why}")
            }
            None => format!(
                "the tools of the server `{name}` are not known yet: mcp_list asks whether it may start, and lists them"
            ),
        })
    }
}

impl Entry {
    /// Returns the tools that may be called.
    fn tools(&self) -> impl Iterator<Item = Arc<ServerTool>> {
        let all = self.manifest.iter().flat_map(|it| it.usable());
        all.filter(|it| self.is_wanted(&it.name)).map(|it| Arc::new(ServerTool::new(&self.server, it)))
    }

    fn is_wanted(&self, tool: &str) -> bool {
        self.server.section.tools.as_ref().is_none_or(|only| only.iter().any(|it| it == tool))
    }

    /// Returns the failures that the tool report lists.
    fn failures(&self) -> Vec<Failure> {
        let Some(manifest) = &self.manifest else { return Vec::new() };
        let name = &self.server.name;
        let changed = not_accepted(name, manifest);
        let mut failed: Vec<Failure> =
            changed.map(|why| Failure { tool: name.clone(), why, older_serves: false }).into_iter().collect();
        let unknown = self.server.section.tools.iter().flatten();
        for tool in unknown.filter(|it| manifest.accepted.iter().all(|known| known.name != **it)) {
            let why = format!(
                "`tools` of `{name}` in {} names it, and the server has no such tool",
                self.server.file
            );
            failed.push(Failure { tool: tool.clone(), why, older_serves: false });
        }
        failed
    }
}

/// Returns a line if a server has changed definitions that are not accepted. The line leaves out the change:
/// a model must not read it before a person accepts it.
pub(super) fn not_accepted(name: &str, manifest: &Manifest) -> Option<String> {
    manifest.pending.as_ref()?;
    Some(format!(
        "the server `{name}` now describes its tools differently from what was accepted; what differs is not used until a person looks at it: `haft mcp trust {name}`"
    ))
}

/// Returns the fault for a call of a tool whose definition has changed since it was shown.
pub(super) fn changed(name: &str, tool: &str, manifest: &Manifest) -> Fault {
    let why = not_accepted(name, manifest).unwrap_or_else(|| format!("`{name}` has it no more"));
    Fault::new(Kind::Denied, format!("`{tool}` was not called: {why}"))
}

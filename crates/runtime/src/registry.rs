//! Tool registry: all tools that exist.
//!
//! It returns an immutable snapshot and replaces it as a whole: calls in flight finish with the tools that
//! they began with.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use arc_swap::ArcSwap;
use kit::{AnyTool, Origin, services::NotLoaded};
use parking_lot::Mutex;

/// The tools of one server.
pub struct Registry {
    /// The tools that are part of the program; they are always there.
    own: Vec<Arc<dyn AnyTool>>,
    others: Mutex<Others>,
    now: ArcSwap<Snapshot>,
}

/// The tools that are not part of the program.
#[derive(Default)]
struct Others {
    files: (Vec<Arc<dyn AnyTool>>, Vec<Failure>),
    /// The names of built-in tools that a person lets files replace.
    replaced: HashSet<String>,
    servers: (Vec<Arc<dyn AnyTool>>, Vec<Failure>),
}

/// The tools that existed at one moment.
#[derive(Default, Clone)]
pub struct Snapshot {
    tools: Vec<Arc<dyn AnyTool>>,
    by_name: HashMap<String, usize>,
    /// Tools that could not be loaded, and why.
    failed: Vec<Failure>,
}

/// A tool that could not be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The name that it should have, or its file.
    pub tool: String,
    /// The reason: the traceback, if there is one.
    pub why: String,
    /// Whether an earlier version of it serves.
    pub older_serves: bool,
}

impl Failure {
    /// Returns it as tools and people are shown it.
    pub fn not_loaded(&self) -> NotLoaded {
        NotLoaded { file: self.tool.clone(), why: self.why.clone(), older_serves: self.older_serves }
    }
}

impl Registry {
    /// Creates a registry with these tools, which are part of the program.
    pub fn new(tools: Vec<Arc<dyn AnyTool>>) -> Self {
        let now = ArcSwap::from_pointee(Snapshot::new(tools.iter().cloned()));
        Self { own: tools, others: Mutex::default(), now }
    }

    /// Returns the present tools.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.now.load_full()
    }

    /// Returns the names that a file can have only if a person allows it.
    pub(crate) fn own_names(&self) -> impl Iterator<Item = &str> {
        self.own.iter().map(|tool| tool.name())
    }

    /// Replaces all tool files, and the failures. Built-in tools with a name in `replaced` are absent,
    /// whether a file has that name or not.
    pub fn swap(&self, files: Vec<Arc<dyn AnyTool>>, failed: Vec<Failure>, replaced: HashSet<String>) {
        self.put(|others| {
            others.files = (files, failed);
            others.replaced = replaced;
        });
    }

    /// Replaces all tools of servers, and the failures.
    pub fn swap_servers(&self, tools: Vec<Arc<dyn AnyTool>>, failed: Vec<Failure>) {
        self.put(|others| others.servers = (tools, failed));
    }

    fn put(&self, change: impl FnOnce(&mut Others)) {
        let mut others = self.others.lock();
        change(&mut others);
        let Others { files, replaced, servers } = &*others;
        let own = self.own.iter().filter(|it| !replaced.contains(it.name()));
        let mut snapshot = Snapshot::new(own.chain(&files.0).chain(&servers.0).cloned());
        snapshot.failed.extend(files.1.iter().chain(&servers.1).cloned());
        self.now.store(Arc::new(snapshot));
    }
}

impl Snapshot {
    /// Takes the tools in order; leaves out and reports one whose name is taken or malformed. A provider's
    /// tool may have the name of a local one: a session shows one of the two.
    fn new(tools: impl IntoIterator<Item = Arc<dyn AnyTool>>) -> Self {
        let mut snapshot = Self::default();
        for tool in tools {
            let name = tool.name().to_owned();
            if !is_name(&name) {
                snapshot.failed.push(Failure { tool: name, why: NAME_RULE.to_owned(), older_serves: false });
            } else if *tool.origin() == Origin::Provider && snapshot.by_name.contains_key(&name) {
                snapshot.tools.push(tool);
            } else if snapshot.by_name.contains_key(&name) {
                let why = "a tool of this name exists already; the first one is kept".to_owned();
                snapshot.failed.push(Failure { tool: name, why, older_serves: false });
            } else {
                snapshot.by_name.insert(name, snapshot.tools.len());
                snapshot.tools.push(tool);
            }
        }
        snapshot
    }

    /// Returns the snapshot with these tools after the others.
    pub(crate) fn with(&self, more: &[Arc<dyn AnyTool>]) -> Self {
        let mut snapshot = Self::new(self.tools.iter().chain(more).cloned());
        snapshot.failed.extend(self.failed.iter().cloned());
        snapshot
    }

    /// Returns the tool of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn AnyTool>> {
        self.by_name.get(name).and_then(|index| self.tools.get(*index))
    }

    /// Returns all tools, in order.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<dyn AnyTool>> {
        self.tools.iter()
    }

    /// Returns the tools that could not be loaded.
    pub fn failed(&self) -> &[Failure] {
        &self.failed
    }
}

/// The message for an invalid name.
pub(crate) const NAME_RULE: &str = "a name has 1 to 64 letters, digits, `_` or `-`";

/// Returns whether every model provider accepts this name.
pub(crate) fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_' || it == b'-')
}

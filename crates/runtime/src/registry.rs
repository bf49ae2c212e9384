//! The registry: all tools that exist.
//!
//! The answer is an immutable snapshot that is swapped whole: who holds one keeps
//! it, so calls in flight finish on the tools they began with.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use arc_swap::ArcSwap;
use kit::{AnyTool, Origin};
use parking_lot::Mutex;

/// The tools of one server.
pub struct Registry {
    /// Those that are part of the program: they are there whatever becomes of the others.
    own: Vec<Arc<dyn AnyTool>>,
    others: Mutex<Others>,
    now: ArcSwap<Snapshot>,
}

/// The tools that are not part of the program.
#[derive(Default)]
struct Others {
    files: (Vec<Arc<dyn AnyTool>>, Vec<Failure>),
    /// Names that a person took from tools of the program, for tools that are files.
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
    /// What it would have been called, or the file it is in.
    pub tool: String,
    /// Why not: the traceback, where there is one.
    pub why: String,
    /// An earlier version of it goes on.
    pub older_serves: bool,
}

impl Registry {
    /// A registry with these tools, which are part of the program.
    pub fn new(tools: Vec<Arc<dyn AnyTool>>) -> Self {
        let now = ArcSwap::from_pointee(Snapshot::new(tools.iter().cloned()));
        Self { own: tools, others: Mutex::default(), now }
    }

    /// The tools as they are now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.now.load_full()
    }

    /// The names that a file has only where a person says so.
    pub(crate) fn own_names(&self) -> impl Iterator<Item = &str> {
        self.own.iter().map(|tool| tool.spec().name.as_str())
    }

    /// Puts these in the place of all tools that are files, with what could not be loaded. Tools of the program with a
    /// name in `replaced` are absent, whether there is a file of that name or not.
    pub fn swap(&self, files: Vec<Arc<dyn AnyTool>>, failed: Vec<Failure>, replaced: HashSet<String>) {
        self.put(|others| {
            others.files = (files, failed);
            others.replaced = replaced;
        });
    }

    /// Puts these in the place of all tools of servers, with what is wrong with those.
    pub fn swap_servers(&self, tools: Vec<Arc<dyn AnyTool>>, failed: Vec<Failure>) {
        self.put(|others| others.servers = (tools, failed));
    }

    fn put(&self, change: impl FnOnce(&mut Others)) {
        let mut others = self.others.lock();
        change(&mut others);
        let Others { files, replaced, servers } = &*others;
        let own = self.own.iter().filter(|it| !replaced.contains(&it.spec().name));
        let mut snapshot = Snapshot::new(own.chain(&files.0).chain(&servers.0).cloned());
        snapshot.failed.extend(files.1.iter().chain(&servers.1).cloned());
        self.now.store(Arc::new(snapshot));
    }
}

impl Snapshot {
    /// Takes the tools in order; one whose name is taken or malformed is left out and reported. What a model's provider
    /// runs may have the name of one that runs here: a session shows one of the two.
    fn new(tools: impl IntoIterator<Item = Arc<dyn AnyTool>>) -> Self {
        let mut snapshot = Self::default();
        for tool in tools {
            let name = tool.spec().name.clone();
            if !is_name(&name) {
                snapshot.failed.push(Failure { tool: name, why: NAME_RULE.to_owned(), older_serves: false });
            } else if tool.spec().origin == Origin::Provider && snapshot.by_name.contains_key(&name) {
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

    /// The same with these tools after the others.
    pub(crate) fn with(&self, more: &[Arc<dyn AnyTool>]) -> Self {
        let mut snapshot = Self::new(self.tools.iter().chain(more).cloned());
        snapshot.failed.extend(self.failed.iter().cloned());
        snapshot
    }

    /// The tool of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn AnyTool>> {
        self.by_name.get(name).and_then(|index| self.tools.get(*index))
    }

    /// All of them, in order.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<dyn AnyTool>> {
        self.tools.iter()
    }

    /// Tools that could not be loaded.
    pub fn failed(&self) -> &[Failure] {
        &self.failed
    }
}

/// What is said of another name.
pub(crate) const NAME_RULE: &str = "a name has 1 to 64 letters, digits, `_` or `-`";

/// What every model provider accepts as a name.
pub(crate) fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_' || it == b'-')
}

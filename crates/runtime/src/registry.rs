//! Which tools exist?
//!
//! The answer is an immutable snapshot that is swapped whole: who holds one keeps
//! it, so calls in flight finish on the tools they began with.

use std::{collections::HashMap, sync::Arc};

use arc_swap::ArcSwap;
use kit::AnyTool;

/// The tools of one server.
pub struct Registry {
    now: ArcSwap<Snapshot>,
}

/// The tools that existed at one moment.
#[derive(Default)]
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
    /// Why not.
    pub why: String,
}

impl Registry {
    /// A registry with these tools.
    pub fn new(tools: Vec<Arc<dyn AnyTool>>) -> Self {
        Self { now: ArcSwap::from_pointee(Snapshot::new(tools)) }
    }

    /// The tools as they are now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.now.load_full()
    }

    /// Puts these in the place of all that were there.
    pub fn swap(&self, tools: Vec<Arc<dyn AnyTool>>) {
        self.now.store(Arc::new(Snapshot::new(tools)));
    }
}

impl Snapshot {
    /// Takes the tools in order; one whose name is taken or malformed is left out and reported.
    fn new(tools: Vec<Arc<dyn AnyTool>>) -> Self {
        let mut snapshot = Self::default();
        for tool in tools {
            let name = tool.spec().name.clone();
            if !is_name(&name) {
                let why = "a name has 1 to 64 letters, digits, `_` or `-`".to_owned();
                snapshot.failed.push(Failure { tool: name, why });
            } else if snapshot.by_name.contains_key(&name) {
                let why = "a tool of this name exists already; the first one is kept".to_owned();
                snapshot.failed.push(Failure { tool: name, why });
            } else {
                snapshot.by_name.insert(name, snapshot.tools.len());
                snapshot.tools.push(tool);
            }
        }
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

/// What every model provider accepts as a name.
fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_' || it == b'-')
}

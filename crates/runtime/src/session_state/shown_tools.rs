//! Tools that a session shows: those of the registry, narrowed by its limits and mode, and tools that only it
//! has.

use std::{borrow::Cow, sync::Arc};

use arc_swap::{ArcSwap, ArcSwapOption};
use kit::{Fault, Origin, references};
use serde_json::Value;

use crate::{Catalog, Listing, Runtime, Snapshot, catalog::AgentMode, mcp_client::SessionTools};

/// The limits of a session, beyond those of its runtime. They may change while the session lives.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// The only tools that it has; those of the runtime, if there is no list.
    pub tools: Option<Vec<String>>,
    /// Whether the session is read-only.
    pub read_only: bool,
}

/// The conditions under which a session shows tools of the registry.
#[derive(Clone, Default)]
struct CallLimits {
    limits: Arc<Limits>,
    /// Whether its agent is in plan mode, and can send to others.
    mode: AgentMode,
    /// The tools that the provider of its model runs.
    own: Vec<String>,
    /// The limit of its tool list.
    listing: Arc<Listing>,
    /// The tools of servers that only this session added.
    more: Arc<SessionTools>,
}

/// The tools of a session under its present conditions, and the catalog that was computed last.
pub(crate) struct ShownTools {
    runtime: Runtime,
    terms: ArcSwap<CallLimits>,
    /// `None` before anybody asked.
    shown: ArcSwapOption<Shown>,
}

/// A snapshot of the registry, and the catalog that a session shows of it.
struct Shown {
    snapshot: Arc<Snapshot>,
    terms: Arc<CallLimits>,
    catalog: Arc<Catalog>,
}

impl ShownTools {
    pub(crate) fn new(runtime: Runtime) -> Self {
        Self { runtime, shown: ArcSwapOption::empty(), terms: ArcSwap::default() }
    }

    fn change(&self, change: impl Fn(&mut CallLimits)) {
        self.terms.rcu(|terms| {
            let mut terms = CallLimits::clone(terms);
            change(&mut terms);
            terms
        });
    }

    /// Returns the tools that this session shows now. The result does not change afterwards.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        let (shown, terms) = (self.shown.load(), self.terms.load_full());
        let snapshot = self.runtime.registry().snapshot();
        if let Some(shown) = &*shown
            && Arc::ptr_eq(&shown.terms, &terms)
            && Arc::ptr_eq(&shown.snapshot, &snapshot)
        {
            return shown.catalog.clone();
        }
        let shown = Arc::new(Shown::now(&self.runtime, &terms));
        self.shown.store(Some(shown.clone()));
        shown.catalog.clone()
    }

    /// Renders a text with the names of the tools that this session shows, where it refers to haft's own: see
    /// [`kit::references`].
    pub(crate) fn named<'t>(&self, text: &'t str) -> Cow<'t, str> {
        // The catalog is needed only if there is a reference.
        if !references::has_any(text) {
            return Cow::Borrowed(text);
        }
        self.catalog().named(text)
    }

    /// Limits the session from the next call on.
    pub(crate) fn limit(&self, limits: Limits) {
        let limits = Arc::new(limits);
        self.change(|terms| terms.limits = limits.clone());
    }

    /// Sets whether the session's agent is in plan mode: some tools exist only then.
    pub(crate) fn plan(&self, plans: bool) {
        if self.plans() != plans {
            self.change(|terms| terms.mode.plans = plans);
        }
    }

    /// Returns whether the session's agent is in plan mode.
    pub(crate) fn plans(&self) -> bool {
        self.terms.load().mode.plans
    }

    /// Adds tools by which the session's agent sends messages to others.
    pub(crate) fn sends_by(&self, tools: &[&str]) {
        let is_new = |terms: &CallLimits, name: &str| !terms.mode.sends_by.iter().any(|it| it == name);
        if tools.iter().any(|it| is_new(&self.terms.load(), it)) {
            self.change(|terms| {
                let new = tools.iter().filter(|it| is_new(terms, it)).map(|it| (*it).to_owned());
                let new: Vec<String> = new.collect();
                terms.mode.sends_by.extend(new);
            });
        }
    }

    /// Limits the size of tool lists from now on, for this session and those opened below it later.
    pub(crate) fn list_within(&self, listing: Listing) {
        let listing = Arc::new(listing);
        self.change(|terms| terms.listing = listing.clone());
    }

    /// Takes over the list limit of the session above.
    pub(crate) fn list_as(&self, above: &Self) {
        let listing = above.terms.load().listing.clone();
        self.change(|terms| terms.listing = listing.clone());
    }

    /// Sets the tools that the provider of the session's model runs; others of [`kit::Origin::Provider`] are
    /// absent. Returns whether that is a change.
    pub(crate) fn provider_runs<'a>(&self, tools: impl IntoIterator<Item = &'a str>) -> bool {
        let tools: Vec<String> = tools.into_iter().map(str::to_owned).collect();
        let is_new = self.terms.load().own != tools;
        if is_new {
            self.change(|terms| terms.own.clone_from(&tools));
        }
        is_new
    }

    /// Returns the fault for a tool that another model's provider would run.
    pub(crate) fn run_elsewhere(&self, name: &str) -> Option<Fault> {
        let tool = self.runtime.registry().snapshot().get(name).cloned()?;
        let limits = self.limits();
        let lists = [self.runtime.allowed(), limits.tools.as_deref()];
        let is_allowed = lists.into_iter().flatten().all(|list| list.iter().any(|it| it == name));
        (is_allowed && tool.spec().origin == Origin::Provider).then(|| tool.prepare(Value::Null).err())?
    }

    /// Sets the tools that only this session has.
    pub(crate) fn has_tools_of_its_own(&self, tools: SessionTools) {
        if !(tools.is_empty() && self.terms.load().more.is_empty()) {
            let tools = Arc::new(tools);
            self.change(|terms| terms.more = tools.clone());
        }
    }

    /// Returns the limits of the session, beyond those of its runtime.
    pub(crate) fn limits(&self) -> Arc<Limits> {
        self.terms.load().limits.clone()
    }
}

impl Shown {
    fn now(runtime: &Runtime, terms: &Arc<CallLimits>) -> Self {
        let snapshot = runtime.registry().snapshot();
        let allowed: Option<Vec<String>> = match (runtime.allowed(), &terms.limits.tools) {
            (Some(all), Some(mine)) => Some(mine.iter().filter(|it| all.contains(it)).cloned().collect()),
            (all, mine) => all.map(<[String]>::to_vec).or_else(|| mine.clone()),
        };
        let CallLimits { own, mode, listing, more, .. } = &**terms;
        let catalog = match more.is_empty() {
            true => runtime.catalogs().of(&snapshot, allowed.as_deref(), own, mode, listing),
            false => Arc::new(Catalog::of(&snapshot.with(more), allowed.as_deref(), own, mode, listing)),
        };
        Self { snapshot, terms: terms.clone(), catalog }
    }
}

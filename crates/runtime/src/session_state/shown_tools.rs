//! Tools that a session shows: what the registry has, narrowed by its limits and mode, with tools of its own on top.

use std::{borrow::Cow, sync::Arc};

use arc_swap::ArcSwap;
use kit::{Fault, Origin, references};
use serde_json::Value;

use crate::{Catalog, Listing, Runtime, Snapshot, mcp_client::OwnTools};

/// How much less than its runtime allows a session may do. It may change while the session lives.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// The only tools it has; those of the runtime, if this is not given.
    pub tools: Option<Vec<String>>,
    /// Nothing may be changed.
    pub read_only: bool,
}

/// On which terms a session shows tools of the registry.
#[derive(Clone, Default)]
struct CallLimits {
    limits: Arc<Limits>,
    /// Its agent is in plan mode.
    plans: bool,
    /// The tools that the provider of its model runs.
    own: Vec<String>,
    /// What a list of its tools may cost.
    listing: Arc<Listing>,
    /// The tools of servers that were added to this session alone.
    more: Arc<OwnTools>,
}

/// The tools of a session on its terms as they are now, and what it showed when it was last looked at.
pub(crate) struct ShownTools {
    runtime: Runtime,
    terms: ArcSwap<CallLimits>,
    shown: ArcSwap<Shown>,
}

/// A snapshot of the registry, and what a session shows of it.
struct Shown {
    snapshot: Arc<Snapshot>,
    terms: Arc<CallLimits>,
    catalog: Arc<Catalog>,
}

impl ShownTools {
    pub(crate) fn new(runtime: Runtime) -> Self {
        let terms = Arc::<CallLimits>::default();
        let shown = ArcSwap::from_pointee(Shown::now(&runtime, &terms));
        Self { runtime, shown, terms: ArcSwap::new(terms) }
    }

    fn change(&self, change: impl Fn(&mut CallLimits)) {
        self.terms.rcu(|terms| {
            let mut terms = CallLimits::clone(terms);
            change(&mut terms);
            terms
        });
    }

    /// The tools this session shows, as they are now. Who holds what this gave keeps those of that moment.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        let (shown, terms) = (self.shown.load(), self.terms.load_full());
        let snapshot = self.runtime.registry().snapshot();
        if Arc::ptr_eq(&shown.terms, &terms) && Arc::ptr_eq(&shown.snapshot, &snapshot) {
            return shown.catalog.clone();
        }
        let shown = Arc::new(Shown::now(&self.runtime, &terms));
        self.shown.store(shown.clone());
        shown.catalog.clone()
    }

    /// The text with the names of the tools that this session shows, where it refers to haft's own: see
    /// [`kit::references`].
    pub(crate) fn named<'t>(&self, text: &'t str) -> Cow<'t, str> {
        // Which these are is of interest only where there is a reference.
        if !references::has_any(text) {
            return Cow::Borrowed(text);
        }
        self.catalog().named(text)
    }

    /// From the next call on the session may do no more than this.
    pub(crate) fn limit(&self, limits: Limits) {
        let limits = Arc::new(limits);
        self.change(|terms| terms.limits = limits.clone());
    }

    /// Says whether the session's agent is in plan mode: some tools are there only then.
    pub(crate) fn plan(&self, plans: bool) {
        if self.plans() != plans {
            self.change(|terms| terms.plans = plans);
        }
    }

    /// Is the session's agent in plan mode?
    pub(crate) fn plans(&self) -> bool {
        self.terms.load().plans
    }

    /// From now on a list of the session's tools, and of those below it that are opened later, may cost this much.
    pub(crate) fn list_within(&self, listing: Listing) {
        let listing = Arc::new(listing);
        self.change(|terms| terms.listing = listing.clone());
    }

    /// It lists no more than the session above it.
    pub(crate) fn list_as(&self, above: &Self) {
        let listing = above.terms.load().listing.clone();
        self.change(|terms| terms.listing = listing.clone());
    }

    /// The provider of the session's model runs these tools, and no others of [`kit::Origin::Provider`]. Says whether
    /// that is new.
    pub(crate) fn provider_runs<'a>(&self, tools: impl IntoIterator<Item = &'a str>) -> bool {
        let tools: Vec<String> = tools.into_iter().map(str::to_owned).collect();
        let is_new = self.terms.load().own != tools;
        if is_new {
            self.change(|terms| terms.own.clone_from(&tools));
        }
        is_new
    }

    /// Why a tool can't be called that the provider of another model would run.
    pub(crate) fn run_elsewhere(&self, name: &str) -> Option<Fault> {
        let tool = self.runtime.registry().snapshot().get(name).cloned()?;
        let limits = self.limits();
        let lists = [self.runtime.allowed(), limits.tools.as_deref()];
        let is_allowed = lists.into_iter().flatten().all(|list| list.iter().any(|it| it == name));
        (is_allowed && tool.spec().origin == Origin::Provider).then(|| tool.prepare(Value::Null).err())?
    }

    /// These tools are this session's, and no other's.
    pub(crate) fn has_tools_of_its_own(&self, tools: OwnTools) {
        if !(tools.is_empty() && self.terms.load().more.is_empty()) {
            let tools = Arc::new(tools);
            self.change(|terms| terms.more = tools.clone());
        }
    }

    /// How much less than its runtime allows the session may do.
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
        let of = |snapshot: &Snapshot| {
            Catalog::of(snapshot, allowed.as_deref(), &terms.own, terms.plans, &terms.listing)
        };
        let more = &terms.more;
        let catalog = if more.is_empty() { of(&snapshot) } else { of(&snapshot.with(more)) };
        Self { snapshot, terms: terms.clone(), catalog: Arc::new(catalog) }
    }
}

//! The catalog: the tools that a model is shown.

mod listing;
mod shared;

use std::{
    borrow::Cow,
    sync::{Arc, OnceLock},
};

use kit::{
    AnyTool, Origin, Spec,
    nearest::nearest,
    references::{Named, has_any, rendered},
};

use serde_json::Value;

use crate::{
    options::{takes_options, with_options},
    registry::{Failure, Snapshot},
};

use listing::Listable;
pub use listing::Listing;
pub(crate) use shared::SharedCatalogs;

/// Limit of a name that is compared with tools' names, in bytes.
const LONGEST_NAME: usize = 200;

/// The tools that one session can call, in a stable order: the order is part of the prompt, and a changed
/// prompt is not cached. Listed tools are in every list; the others are found by a search, and called in the
/// same way.
#[derive(Clone, Default)]
pub struct Catalog {
    tools: Vec<Shown>,
    /// The places of the tools, in the order of their names.
    by_name: Vec<usize>,
    left_out: usize,
    failed: Vec<Failure>,
}

/// A tool, and its spec if that differs from the tool's own.
#[derive(Clone)]
struct Shown {
    tool: Arc<dyn AnyTool>,
    /// Made when the tool is listed, searched or called.
    spec: OnceLock<Option<Arc<Spec>>>,
    /// All tools of the catalog, which its texts may refer to.
    among: Arc<[Arc<dyn AnyTool>]>,
    has_options: bool,
    is_listed: bool,
}

/// The conditions under which an agent has tools that others have not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentMode {
    /// Whether the agent is in plan mode.
    pub plans: bool,
    /// The tools by which it sends messages to other agents.
    pub sends_by: Vec<String>,
}

impl Shown {
    fn spec(&self) -> &Spec {
        // Tools of files and servers are shown as they are.
        if !takes_options(self.tool.origin()) {
            return self.tool.spec();
        }
        let changed = self.spec.get_or_init(|| {
            let with_options = self.has_options.then(|| with_options(self.tool.spec())).flatten();
            let spec = with_options.as_ref().unwrap_or_else(|| self.tool.spec());
            self.with_names(spec).or(with_options).map(Arc::new)
        });
        changed.as_deref().unwrap_or_else(|| self.tool.spec())
    }

    /// Replaces references to tools in a description with the tools' names. `None`, if there are none.
    fn with_names(&self, spec: &Spec) -> Option<Spec> {
        let described = |it: &Value| it.get("description").and_then(Value::as_str).is_some_and(has_any);
        let properties = spec.schema.get("properties").and_then(Value::as_object);
        let refers =
            has_any(&spec.description) || properties.into_iter().any(|it| it.values().any(described));
        if spec.origin != Origin::Program || !refers {
            return None;
        }
        let mut spec = spec.clone();
        let name = |text: &mut String| {
            let named = rendered(text, &|own| Named::among(self.among.iter(), own));
            if let Cow::Owned(named) = named {
                named.trim_end().clone_into(text);
            }
        };
        name(&mut spec.description);
        let properties = spec.schema.get_mut("properties").and_then(Value::as_object_mut);
        for property in properties.into_iter().flat_map(|it| it.values_mut()) {
            if let Some(Value::String(description)) = property.get_mut("description") {
                name(description);
            }
        }
        Some(spec)
    }
}

impl Listable for Shown {
    fn name(&self) -> &str {
        self.tool.name()
    }

    fn origin(&self) -> &Origin {
        self.tool.origin()
    }

    fn spec(&self) -> &Spec {
        self.spec()
    }

    fn least_bytes(&self) -> usize {
        self.tool.least_bytes()
    }
}

impl Catalog {
    /// Returns the catalog of these tools. With an allowlist, a tool that is not on it is absent everywhere,
    /// and a name on it without a tool is reported. Of the tools that a model's provider runs, only those in
    /// `own` are present: the ones that this model's provider has. Some tools are present only in a `mode`.
    /// `listing` selects the listed ones.
    pub fn of(
        snapshot: &Snapshot,
        allowed: Option<&[String]>,
        own: &[String],
        mode: &AgentMode,
        listing: &Listing,
    ) -> Self {
        let mut failed = snapshot.failed().to_vec();
        let mut tools: Vec<Arc<dyn AnyTool>> = match allowed {
            None => snapshot.tools().cloned().collect(),
            Some(allowed) => {
                failed.extend(unknown(snapshot, allowed).map(|(name, near)| {
                    let why = format!("`tools` in haft.toml names it, and there is no such tool{near}");
                    Failure { tool: name.to_owned(), why, older_serves: false }
                }));
                let is_allowed = |tool: &&Arc<dyn AnyTool>| allowed.iter().any(|it| it == tool.name());
                snapshot.tools().filter(is_allowed).cloned().collect()
            }
        };
        let provider = |it: &&Arc<dyn AnyTool>| *it.origin() == Origin::Provider;
        let provided: Vec<String> =
            snapshot.tools().filter(provider).map(|it| it.name().to_owned()).collect();
        tools.retain(|tool| {
            let name = tool.name();
            let has = |names: &[String]| names.iter().any(|it| it == name);
            if tool.only_in_plan_mode() && !mode.plans
                || tool.only_among_agents() && !has(&mode.sends_by) && !allowed.is_some_and(has)
            {
                return false;
            }
            let is_own = has(own);
            // A provider's tool replaces the local tool of its name.
            if *tool.origin() == Origin::Provider { is_own } else { !(is_own && has(&provided)) }
        });
        let mut by_name: Vec<usize> = (0..tools.len()).collect();
        let name = |it: &usize| tools.get(*it).map(|it| it.name());
        by_name.sort_by(|one, other| name(one).cmp(&name(other)));
        // A background call is of use only to a model that can read jobs.
        let has_options = tools.iter().any(|it| it.name() == "read_job");
        let among: Arc<[_]> = tools.into();
        let shown = |tool: &Arc<dyn AnyTool>| Shown {
            tool: tool.clone(),
            spec: OnceLock::new(),
            among: among.clone(),
            has_options,
            is_listed: true,
        };
        let mut catalog = Self { tools: among.iter().map(shown).collect(), by_name, left_out: 0, failed };
        catalog.list(listing, allowed);
        catalog
    }

    /// If every tool is listed, no search is needed.
    fn list(&mut self, listing: &Listing, allowed: Option<&[String]>) {
        let tools: Vec<&Shown> = self.tools.iter().collect();
        let chosen = listing.choose(&tools, allowed);
        let is_pinned = |it: &Shown| listing.pinned.iter().any(|pinned| pinned == it.name());
        let is_listed: Vec<bool> = tools
            .iter()
            .map(|it| match &chosen {
                Some(chosen) => chosen.contains(it.name()),
                None => !listing::is_finder(*it) || is_pinned(it),
            })
            .collect();
        self.left_out = chosen.map_or(0, |it| tools.len() - it.len());
        for (shown, is_listed) in self.tools.iter_mut().zip(is_listed) {
            shown.is_listed = is_listed;
        }
    }

    /// Returns the tools' specs in order, listed or not. Leaves out the tools that find and call others,
    /// unless some tool is not listed.
    pub fn specs(&self) -> impl Iterator<Item = &Spec> {
        let is_needed = |it: &&Shown| it.is_listed || self.left_out > 0 || !listing::is_finder(*it);
        self.tools.iter().filter(is_needed).map(Shown::spec)
    }

    /// Returns the specs of the listed tools, in order.
    pub fn listed(&self) -> impl Iterator<Item = &Spec> {
        self.tools.iter().filter(|it| it.is_listed).map(Shown::spec)
    }

    /// Returns the number of tools that are not listed.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Returns the tool of this name, if there is one.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn AnyTool>> {
        let tool = |it: &usize| self.tools.get(*it).map(|it| &it.tool);
        let at = self.by_name.partition_point(|it| tool(it).is_some_and(|it| it.name() < name));
        self.by_name.get(at).and_then(tool).filter(|it| it.name() == name)
    }

    /// Returns the tool that replaces one of haft's own, or that tool itself.
    pub fn stand_in(&self, own: &str) -> Option<&Spec> {
        Named::among(self.tools.iter().map(|it| &it.tool), own).map(|it| it.tool.spec())
    }

    /// Renders a text with the names of these tools, where it refers to haft's own: see [`kit::references`].
    pub fn named<'t>(&self, text: &'t str) -> Cow<'t, str> {
        rendered(text, &|own| Named::among(self.tools.iter().map(|it| &it.tool), own))
    }

    /// Returns whether there is a tool of this name.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Returns the missing tools: those that did not load, and names without a tool.
    pub fn failed(&self) -> &[Failure] {
        &self.failed
    }

    /// Returns at most three names that are similar to this one.
    pub(crate) fn nearest(&self, name: &str) -> Vec<&str> {
        // Comparing a text that is not a name takes long.
        let specs = self.specs().filter(|spec| name.len() <= LONGEST_NAME && spec.name.len() <= LONGEST_NAME);
        let mut near: Vec<(f32, &str)> = specs
            .map(|spec| (similar::TextDiff::from_chars(name, &spec.name).ratio(), spec.name.as_str()))
            .filter(|(ratio, _)| *ratio >= 0.6)
            .collect();
        near.sort_by(|one, other| other.0.total_cmp(&one.0));
        near.into_iter().take(3).map(|(_, name)| name).collect()
    }
}

/// Returns the names without a tool, each with a suggestion if a tool's name is similar.
pub(crate) fn unknown<'a>(
    snapshot: &'a Snapshot,
    named: &'a [String],
) -> impl Iterator<Item = (&'a str, String)> {
    let all = || snapshot.tools().map(|it| it.name());
    named.iter().filter(|name| snapshot.get(name).is_none()).map(move |name| {
        let near = Some(name).filter(|it| it.len() <= LONGEST_NAME).and_then(|it| nearest(it, all()));
        (name.as_str(), near.map_or(String::new(), |it| format!("; did you mean `{it}`?")))
    })
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, sync::Arc};

    use kit::{AnyTool, Fault, Kinds, Mode, Origin, Prepared, Spec};
    use serde_json::{Value, json};

    use super::*;
    use crate::registry::Registry;

    struct Named(Spec);

    impl AnyTool for Named {
        fn spec(&self) -> &Spec {
            &self.0
        }

        fn prepare(&self, _: Value) -> Result<Box<dyn Prepared>, Fault> {
            Err(Fault::bug("not called here"))
        }
    }

    fn tool(name: &str) -> Arc<dyn AnyTool> {
        let schema = json!({"type": "object"});
        let (name, description) = (name.to_owned(), String::new());
        Arc::new(Named(Spec {
            name,
            description,
            schema,
            mode: Mode::Direct,
            at_most: Kinds::NONE,
            output: None,
            origin: kit::Origin::Program,
        }))
    }

    fn of(registry: &Registry, allowed: Option<&[String]>, own: &[String]) -> Catalog {
        Catalog::of(&registry.snapshot(), allowed, own, &AgentMode::default(), &Listing::default())
    }

    fn names(catalog: &Catalog) -> Vec<&str> {
        catalog.specs().map(|spec| spec.name.as_str()).collect()
    }

    #[test]
    fn a_tool_off_the_list_is_absent_and_an_unknown_name_is_reported() {
        let registry = Registry::new(vec![tool("read"), tool("edit"), tool("grep")]);
        let allowed = ["grep".to_owned(), "raed".to_owned(), "read".to_owned()];
        let catalog = of(&registry, Some(&allowed), &[]);
        assert_eq!(names(&catalog), ["read", "grep"]);
        assert!(!catalog.has("edit"));
        let failed: Vec<(&str, &str)> =
            catalog.failed().iter().map(|it| (it.tool.as_str(), it.why.as_str())).collect();
        assert!(
            matches!(failed.as_slice(), [("raed", why)] if why.ends_with("did you mean `read`?")),
            "{failed:?}"
        );
        assert_eq!(names(&of(&registry, Some(&[]), &[])), Vec::<&str>::new());
    }

    #[test]
    fn overlong_name_is_not_compared() {
        let long = "x".repeat(LONGEST_NAME + 1);
        let catalog = of(&Registry::new(vec![tool("read"), tool(&long)]), None, &[]);
        assert_eq!(catalog.nearest("raed"), ["read"]);
        // The comparison of so many characters would not end.
        assert!(catalog.nearest(&"x".repeat(16 << 20)).is_empty() && catalog.nearest(&long).is_empty());
    }

    #[test]
    fn provider_tool_is_present_only_with_its_provider() {
        let mut declared = tool("image_gen").spec().clone();
        declared.origin = Origin::Provider;
        let registry = Registry::new(vec![tool("read"), Arc::new(Named(declared))]);
        let own = ["image_gen".to_owned()];
        assert_eq!(names(&of(&registry, None, &[])), ["read"]);
        assert_eq!(names(&of(&registry, None, &own)), ["read", "image_gen"]);
        let allowed = of(&registry, Some(&own), &[]);
        assert!(names(&allowed).is_empty() && allowed.failed().is_empty());
        assert!(names(&of(&registry, Some(&["read".to_owned()]), &own)) == ["read"]);
    }

    #[test]
    fn provider_tool_replaces_the_local_one_only_with_its_provider() {
        let mut declared = tool("web_search").spec().clone();
        declared.origin = Origin::Provider;
        let registry = Registry::new(vec![tool("web_search"), Arc::new(Named(declared))]);
        let origin = |own: &[String]| {
            let catalog = of(&registry, None, own);
            assert!(catalog.failed().is_empty() && names(&catalog) == ["web_search"]);
            catalog.get("web_search").map(|it| it.spec().origin.clone())
        };
        assert_eq!(origin(&[]), Some(Origin::Program));
        assert_eq!(origin(&["web_search".to_owned()]), Some(Origin::Provider));
    }

    #[test]
    fn unlisted_tools_are_callable_and_search_exists_only_for_them() {
        let all = ["read", "edit", "search_tools", "call_tool", "undo"];
        let registry = Registry::new(all.into_iter().map(tool).collect());
        let within = |tools: usize, pinned: &[&str]| {
            let cost: fn(&Spec, usize) -> usize = |_, _| 999;
            let pinned = pinned.iter().map(|it| (*it).to_owned()).collect();
            let listing = Listing { bytes: Some(tools * 1_000 + 200), pinned, cost, ..Listing::default() };
            Catalog::of(&registry.snapshot(), None, &[], &AgentMode::default(), &listing)
        };
        let listed = |catalog: &Catalog| catalog.listed().map(|it| it.name.clone()).collect::<Vec<_>>();
        let some = within(2, &["undo"]);
        assert_eq!(listed(&some), ["search_tools", "call_tool", "undo"]);
        assert_eq!((names(&some), some.left_out()), (all.to_vec(), 2));
        assert!(some.has("read"));
        let whole = within(3, &[]);
        assert_eq!(listed(&whole), ["read", "edit", "undo"]);
        assert_eq!((names(&whole), whole.left_out()), (vec!["read", "edit", "undo"], 0));
        assert_eq!(listed(&within(9, &["call_tool"])), ["read", "edit", "call_tool", "undo"]);
        assert_eq!(listed(&of(&registry, None, &[])), ["read", "edit", "undo"]);
    }

    #[test]
    fn a_second_tool_of_a_name_and_a_malformed_name_are_reported() {
        let registry = Registry::new(vec![tool("read"), tool("read"), tool("a b"), tool("")]);
        let catalog = of(&registry, None, &[]);
        assert_eq!(names(&catalog), ["read"]);
        assert_eq!(catalog.failed().len(), 3);
    }

    #[test]
    fn held_snapshot_does_not_change() {
        let registry = Registry::new(vec![tool("old")]);
        let held = registry.snapshot();
        registry.swap(vec![tool("new")], Vec::new(), HashSet::new());
        assert!(held.get("old").is_some() && held.get("new").is_none());
        assert!(registry.snapshot().get("new").is_some());
    }
}

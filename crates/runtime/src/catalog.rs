//! The catalog: the tools that a model is shown.

mod listing;
mod shared;

use std::{borrow::Cow, sync::Arc};

use kit::{
    AnyTool, Origin, Spec,
    nearest::nearest,
    references::{Named, has_any, rendered},
};

use serde_json::Value;

use crate::{
    options::with_options,
    registry::{Failure, Snapshot},
};

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
    spec: Option<Arc<Spec>>,
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
    fn of(tool: &Arc<dyn AnyTool>) -> Self {
        Self { tool: tool.clone(), spec: None, is_listed: true }
    }

    fn spec(&self) -> &Spec {
        self.spec.as_deref().unwrap_or_else(|| self.tool.spec())
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
        let tools = match allowed {
            None => snapshot.tools().map(Shown::of).collect(),
            Some(allowed) => {
                failed.extend(unknown(snapshot, allowed).map(|(name, near)| {
                    let why = format!("`tools` in haft.toml names it, and there is no such tool{near}");
                    Failure { tool: name.to_owned(), why, older_serves: false }
                }));
                snapshot.tools().filter(|tool| allowed.contains(&tool.spec().name)).map(Shown::of).collect()
            }
        };
        let mut catalog = Self { tools, failed, by_name: Vec::new(), left_out: 0 };
        let provider = |it: &&Arc<dyn AnyTool>| it.spec().origin == Origin::Provider;
        let provided: Vec<String> =
            snapshot.tools().filter(provider).map(|it| it.spec().name.clone()).collect();
        catalog.tools.retain(|shown| {
            let spec = shown.tool.spec();
            let is_named = allowed.is_some_and(|it| it.contains(&spec.name));
            if shown.tool.only_in_plan_mode() && !mode.plans
                || shown.tool.only_among_agents() && !mode.sends_by.contains(&spec.name) && !is_named
            {
                return false;
            }
            let is_own = own.contains(&spec.name);
            // A provider's tool replaces the local tool of its name.
            if spec.origin == Origin::Provider { is_own } else { !(is_own && provided.contains(&spec.name)) }
        });
        catalog.by_name = (0..catalog.tools.len()).collect();
        let name = |it: &usize| catalog.tools.get(*it).map(|it| it.tool.spec().name.as_str());
        catalog.by_name.sort_by(|one, other| name(one).cmp(&name(other)));
        // A background call is of use only to a model that can read jobs.
        let has_jobs = catalog.has("read_job");
        for shown in catalog.tools.iter_mut().filter(|_| has_jobs) {
            shown.spec = with_options(shown.tool.spec()).map(Arc::new);
        }
        catalog.name_tools();
        catalog.list(listing, allowed);
        catalog
    }

    /// Replaces references to tools in descriptions with the tools' names.
    fn name_tools(&mut self) {
        let named: Vec<Option<Arc<Spec>>> = self.tools.iter().map(|it| self.with_names(it.spec())).collect();
        for (shown, named) in self.tools.iter_mut().zip(named) {
            shown.spec = named.or(shown.spec.take());
        }
    }

    fn with_names(&self, spec: &Spec) -> Option<Arc<Spec>> {
        let described = |it: &Value| it.get("description").and_then(Value::as_str).is_some_and(has_any);
        let properties = spec.schema.get("properties").and_then(Value::as_object);
        let refers =
            has_any(&spec.description) || properties.into_iter().any(|it| it.values().any(described));
        if spec.origin != Origin::Program || !refers {
            return None;
        }
        let mut spec = spec.clone();
        let name = |text: &mut String| {
            if let Cow::Owned(named) = self.named(text) {
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
        Some(Arc::new(spec))
    }

    /// If every tool is listed, no search is needed.
    fn list(&mut self, listing: &Listing, allowed: Option<&[String]>) {
        let specs: Vec<&Spec> = self.tools.iter().map(Shown::spec).collect();
        let chosen = listing.choose(&specs, allowed);
        let is_listed: Vec<bool> = specs
            .iter()
            .map(|spec| match &chosen {
                Some(chosen) => chosen.contains(spec.name.as_str()),
                None => !listing::is_finder(spec) || listing.pinned.contains(&spec.name),
            })
            .collect();
        self.left_out = chosen.map_or(0, |it| specs.len() - it.len());
        for (shown, is_listed) in self.tools.iter_mut().zip(is_listed) {
            shown.is_listed = is_listed;
        }
    }

    /// Returns the tools' specs in order, listed or not. Leaves out the tools that find and call others,
    /// unless some tool is not listed.
    pub fn specs(&self) -> impl Iterator<Item = &Spec> {
        let is_needed = |it: &&Shown| it.is_listed || self.left_out > 0 || !listing::is_finder(it.spec());
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
        let at = self.by_name.partition_point(|it| tool(it).is_some_and(|it| it.spec().name.as_str() < name));
        self.by_name.get(at).and_then(tool).filter(|it| it.spec().name == name)
    }

    /// Returns the tool that replaces one of haft's own, or that tool itself.
    pub fn stand_in(&self, own: &str) -> Option<&Spec> {
        Named::among(self.tools.iter().map(|it| &it.tool), own).map(|it| it.spec)
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
    let all = || snapshot.tools().map(|it| it.spec().name.as_str());
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
            let cost: fn(&Spec) -> usize = |_| 999;
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

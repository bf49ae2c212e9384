//! Tool listing: the tools that a model is sent; it finds the others by search.

use std::{
    cell::OnceCell,
    collections::{BTreeMap, HashSet},
    ptr,
};

use kit::{Origin, Spec};

/// The tool that finds unlisted tools, and the one that calls them.
const FINDERS: [&str; 2] = ["search_tools", "call_tool"];

/// Bytes of an answer with a list beside the tools: generous, as each revision of MCP adds some.
const ENVELOPE: usize = 200;

/// Bytes around the name, description and schema of a tool in its declaration to a model.
const AROUND: usize = 60;

/// Bytes between two tools of a list.
const COMMA: usize = 1;

/// A tool file takes at most this fraction of a list, so that others fit too.
const SHARE: usize = 8;

/// The limit of a tool list, and its order. By default there is no limit.
#[derive(Clone)]
pub struct Listing {
    /// The limit in bytes; none, if it is not set.
    pub bytes: Option<usize>,
    /// The part of it that built-in tools take at most, in bytes as a model sees them: name, description and schema.
    /// The rest is for tools of files and servers. None, if it is not set.
    pub built_in: Option<usize>,
    /// Tools that are listed at any cost.
    pub pinned: Vec<String>,
    /// Built-in tools that come before all others, the most important first.
    pub first: Vec<String>,
    /// Built-in tools that come last, the most important first.
    pub last: Vec<String>,
    /// Built-in tools that are found by search only, unless they are pinned or an allowlist names them.
    pub unlisted: Vec<String>,
    /// Returns the cost of a tool in the list's format, in bytes: at least its [`Spec::bytes`]. Gets the bytes of its schema,
    /// which are counted once.
    pub cost: fn(&Spec, usize) -> usize,
}

/// A tool that a list may have. Its spec may have to be made first.
pub(super) trait Listable {
    fn name(&self) -> &str;
    fn origin(&self) -> &Origin;
    fn spec(&self) -> &Spec;

    /// A number of bytes that its spec takes at least.
    fn least_bytes(&self) -> usize {
        0
    }
}

impl PartialEq for Listing {
    fn eq(&self, other: &Self) -> bool {
        let Self { bytes, built_in, pinned, first, last, unlisted, cost } = self;
        (*bytes, *built_in) == (other.bytes, other.built_in)
            && (pinned, first, last, unlisted) == (&other.pinned, &other.first, &other.last, &other.unlisted)
            && ptr::fn_addr_eq(*cost, other.cost)
    }
}

impl Default for Listing {
    fn default() -> Self {
        Self {
            bytes: None,
            built_in: None,
            pinned: Vec::new(),
            first: Vec::new(),
            last: Vec::new(),
            unlisted: Vec::new(),
            cost: |spec, schema| spec.bytes_with(schema) + ENVELOPE,
        }
    }
}

/// A tool that may be listed. Its bytes are counted once, and only if they matter: that takes a part of the start of a
/// program.
struct Candidate<'s, T> {
    tool: &'s T,
    listing: &'s Listing,
    schema: OnceCell<usize>,
    cost: OnceCell<usize>,
}

impl<T: Listable> Candidate<'_, T> {
    fn cost(&self) -> usize {
        *self.cost.get_or_init(|| (self.listing.cost)(self.tool.spec(), self.schema()) + COMMA)
    }

    /// The bytes of its schema.
    fn schema(&self) -> usize {
        *self.schema.get_or_init(|| self.tool.spec().schema_bytes())
    }

    /// Returns whether it costs at most this much. Tools that are far too big are not measured.
    fn fits(&self, left: usize) -> bool {
        self.tool.least_bytes() <= left && self.cost() <= left
    }

    /// The bytes that it takes of the built-in tools' part.
    fn built_in(&self) -> usize {
        let counts = *self.tool.origin() == Origin::Program && self.listing.built_in.is_some();
        if counts { self.tool.spec().bytes_with(self.schema()) + AROUND } else { 0 }
    }
}

/// The order in which tools are added to a list.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    First(usize),
    File,
    Server,
    Last(usize),
}

impl Listing {
    /// Returns the names of the listed tools; none, if all are listed.
    ///
    /// Invariant: the result depends only on the tools, so that the same tools give the same list; the list
    /// keeps the order of the tools, so that one more tool moves no other.
    pub(super) fn choose<'s, T: Listable>(
        &'s self,
        tools: &[&'s T],
        allowed: Option<&[String]>,
    ) -> Option<HashSet<&'s str>> {
        let bytes = self.bytes?;
        let (finders, others): (Vec<&T>, Vec<&T>) = tools.iter().partition(|it| is_finder(**it));
        // A tool that the model could not find stays in the list.
        if finders.len() < FINDERS.len() {
            return None;
        }
        let has = |names: &[String], tool: &T| names.iter().any(|it| it == tool.name());
        let is_named = |it: &T| has(&self.pinned, it) || allowed.is_some_and(|allowed| has(allowed, it));
        let is_unlisted =
            |it: &T| *it.origin() == Origin::Program && has(&self.unlisted, it) && !is_named(it);
        let candidates =
            |tools: Vec<&'s T>| tools.into_iter().map(|it| self.candidate(it)).collect::<Vec<_>>();
        let finders = candidates(finders);
        let mut others = candidates(others.into_iter().filter(|it| !is_unlisted(it)).collect());
        // The sort is stable: tools of the same turn keep their order. Those of the first turns are measured first, and the
        // last ones not at all if the list is full.
        others.sort_by_cached_key(|it| self.turn(it.tool));
        let most = self.built_in.unwrap_or(usize::MAX);
        let fit_all = || {
            let (mut all, mut built_in) = (ENVELOPE, 0);
            others.iter().all(|it| {
                all += it.cost();
                built_in += it.built_in();
                all <= bytes && built_in <= most
            })
        };
        if fit_all() {
            let chosen: HashSet<&str> = finders.iter().chain(&others).map(|it| it.tool.name()).collect();
            return (chosen.len() < tools.len()).then_some(chosen);
        }
        let is_pinned = |it: &T| *it.origin() == Origin::Provider || has(&self.pinned, it);
        let (pinned, others): (Vec<_>, Vec<_>) = others.into_iter().partition(|it| is_pinned(it.tool));
        let mut listed: HashSet<&str> = finders.iter().chain(&pinned).map(|it| it.tool.name()).collect();
        let at_any_cost = || finders.iter().chain(&pinned);
        let mut left = bytes.saturating_sub(ENVELOPE + at_any_cost().map(Candidate::cost).sum::<usize>());
        let mut left_of_built_in = most.saturating_sub(at_any_cost().map(Candidate::built_in).sum::<usize>());
        let mut of_servers = BTreeMap::<&str, usize>::new();
        for it in &others {
            if let Origin::Server(server) = it.tool.origin() {
                *of_servers.entry(server).or_default() += it.cost();
            }
        }
        let mut is_full = false;
        for it in others {
            let fits = match it.tool.origin() {
                Origin::File(_) => it.fits(left.min(bytes / SHARE)),
                // A part of a server's tools would look like all of them. The bytes of those that were added
                // are already taken off.
                Origin::Server(server) => of_servers.get_mut(server.as_str()).is_some_and(|whole| {
                    let fits = *whole <= left;
                    *whole = if fits { *whole - it.cost() } else { usize::MAX };
                    fits
                }),
                // After the first tool that does not fit none is added: otherwise one more tool would bring
                // others in.
                Origin::Program | Origin::Provider => {
                    !is_full && it.cost() <= left && it.built_in() <= left_of_built_in
                }
            };
            is_full |= !fits && *it.tool.origin() == Origin::Program;
            if fits {
                left -= it.cost();
                left_of_built_in -= it.built_in();
                listed.insert(it.tool.name());
            }
        }
        // Pinned tools may exceed the limit: then nothing is left to find.
        (listed.len() < tools.len()).then_some(listed)
    }

    fn candidate<'s, T>(&'s self, tool: &'s T) -> Candidate<'s, T> {
        Candidate { tool, listing: self, schema: OnceCell::new(), cost: OnceCell::new() }
    }

    fn turn(&self, tool: &impl Listable) -> Turn {
        let at = |list: &[String]| list.iter().position(|it| it == tool.name());
        match tool.origin() {
            Origin::File(_) => Turn::File,
            Origin::Server(_) => Turn::Server,
            Origin::Program | Origin::Provider => match at(&self.first) {
                Some(place) => Turn::First(place),
                None => Turn::Last(at(&self.last).unwrap_or(usize::MAX)),
            },
        }
    }
}

/// Returns whether it is one of the two tools that reach the others. A file of that name is not.
pub(super) fn is_finder(tool: &impl Listable) -> bool {
    *tool.origin() == Origin::Program && FINDERS.contains(&tool.name())
}

#[cfg(test)]
mod tests {
    use kit::{Kinds, Mode};
    use serde_json::json;

    use super::*;

    impl Listable for Spec {
        fn name(&self) -> &str {
            &self.name
        }

        fn origin(&self) -> &Origin {
            &self.origin
        }

        fn spec(&self) -> &Spec {
            self
        }
    }

    /// Creates a tool that costs 100 bytes with its comma, or the number in its name: `big_900`.
    fn spec(name: &str, origin: Origin) -> Spec {
        Spec {
            name: name.to_owned(),
            description: String::new(),
            schema: json!({}),
            mode: Mode::Direct,
            at_most: Kinds::NONE,
            output: None,
            origin,
        }
    }

    fn cost(spec: &Spec, _: usize) -> usize {
        spec.name.rsplit_once('_').and_then(|(_, bytes)| bytes.parse().ok()).unwrap_or(100) - COMMA
    }

    fn specs(program: &str, files: &str, servers: &[(&str, &str)]) -> Vec<Spec> {
        let of_program = format!("{program} {}", FINDERS.join(" "));
        let mut specs: Vec<Spec> =
            of_program.split_whitespace().map(|it| spec(it, Origin::Program)).collect();
        specs.extend(files.split_whitespace().map(|it| spec(it, Origin::File(it.into()))));
        for (server, tools) in servers {
            let origin = Origin::Server((*server).to_owned());
            specs.extend(tools.split_whitespace().map(|it| spec(it, origin.clone())));
        }
        specs
    }

    fn listed(room: usize, specs: &[Spec]) -> String {
        let names = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let listing = Listing {
            bytes: Some(ENVELOPE + room),
            built_in: None,
            pinned: names("pin_5000"),
            first: names("read edit grep"),
            last: names("undo tree"),
            unlisted: names("timer"),
            cost,
        };
        let chosen = listing.choose(&specs.iter().collect::<Vec<_>>(), None);
        let Some(chosen) = chosen else { return "all".to_owned() };
        let names: Vec<&str> =
            specs.iter().map(|it| it.name.as_str()).filter(|it| chosen.contains(it)).collect();
        names.join(" ")
    }

    #[test]
    fn list_takes_first_tools_then_files_then_servers_then_the_rest() {
        let tools = specs("tree odd undo grep edit read", "mine", &[("s", "s__a")]);
        assert_eq!(listed(800, &tools), "all");
        let tools = specs("tree odd undo grep edit read", "mine x_9000", &[("s", "s__a")]);
        for (room, expected) in [
            (200, "search_tools call_tool"),
            (300, "read search_tools call_tool"),
            (400, "edit read search_tools call_tool"),
            (500, "grep edit read search_tools call_tool"),
            (700, "grep edit read search_tools call_tool mine s__a"),
            (800, "undo grep edit read search_tools call_tool mine s__a"),
            (900, "tree undo grep edit read search_tools call_tool mine s__a"),
            (1_000, "tree odd undo grep edit read search_tools call_tool mine s__a"),
        ] {
            assert_eq!(listed(room, &tools), expected, "{room}");
        }
    }

    #[test]
    fn built_in_tools_take_their_part_and_leave_the_rest_to_others() {
        let tools = specs("tree undo grep edit read", "mine own", &[]);
        let listed = |built_in: usize| {
            let first = ["read", "edit", "grep"].map(str::to_owned).to_vec();
            let listing =
                Listing { bytes: Some(9_000), built_in: Some(built_in), first, cost, ..Listing::default() };
            let chosen = listing.choose(&tools.iter().collect::<Vec<_>>(), None)?;
            Some(
                tools
                    .iter()
                    .map(|it| it.name.as_str())
                    .filter(|it| chosen.contains(it))
                    .collect::<Vec<_>>()
                    .join(" "),
            )
        };
        assert_eq!(listed(9_000), None);
        // Each has a name and the schema `{}`.
        let bytes = |names: &str| names.split(' ').map(|it| it.len() + 2 + AROUND).sum::<usize>();
        let some = bytes("search_tools call_tool read edit");
        assert_eq!(listed(some).as_deref(), Some("edit read search_tools call_tool mine own"));
        assert_eq!(listed(some - 1).as_deref(), Some("read search_tools call_tool mine own"));
    }

    #[test]
    fn an_unlisted_tool_is_found_by_search_unless_a_list_names_it() {
        let tools = specs("read timer", "", &[]);
        assert_eq!(listed(9_000, &tools), "read search_tools call_tool");
        let listing =
            Listing { bytes: Some(9_000), unlisted: vec!["timer".to_owned()], cost, ..Listing::default() };
        let all: Vec<&Spec> = tools.iter().collect();
        let named = ["read", "timer", "search_tools", "call_tool"].map(str::to_owned);
        assert_eq!(listing.choose(&all, Some(&named)), None);
        let files = specs("read", "timer", &[]);
        assert_eq!(listed(9_000, &files), "all", "a file of that name is another tool");
    }

    #[test]
    fn oversized_tool_displaces_no_other() {
        let tools = specs("read edit grep undo tree", "a_20000 b c", &[]);
        assert_eq!(listed(1_000, &tools), "read edit grep undo tree search_tools call_tool b c");
        let tools = specs("read edit_5000 grep", "a_600 b c", &[]);
        assert_eq!(listed(4_000, &tools), "read grep search_tools call_tool b c");
    }

    #[test]
    fn a_server_is_listed_whole_or_not_at_all() {
        let many: String = (0..500).map(|it| format!("m__{it}x ")).collect();
        let tools = specs("read", "", &[("many", &many), ("few", "f__a f__b")]);
        assert_eq!(listed(600, &tools), "read search_tools call_tool f__a f__b");
        assert_eq!(listed(499, &tools), "read search_tools call_tool");
    }

    #[test]
    fn pinned_and_provider_tools_are_listed_at_any_cost() {
        let mut tools = specs("read edit", "pin_5000 b", &[]);
        tools.push(spec("web_search", Origin::Provider));
        assert_eq!(listed(600, &tools), "search_tools call_tool pin_5000 web_search");
    }

    #[test]
    fn everything_is_listed_without_a_search_tool() {
        let tools: Vec<Spec> =
            specs("read edit grep undo", "", &[]).into_iter().filter(|it| it.name != "call_tool").collect();
        assert_eq!(listed(100, &tools), "all");
        let mut tools = specs("read edit grep undo", "", &[]);
        for it in tools.iter_mut().filter(|it| it.name == "search_tools") {
            it.origin = Origin::File("search_tools.py".into());
        }
        assert_eq!(listed(100, &tools), "all");
    }

    #[test]
    fn one_more_tool_reorders_no_other() {
        let before = specs("read edit grep undo tree", "b d f", &[("s", "s__a")]);
        let after = specs("read edit grep undo tree", "b c d f", &[("s", "s__a")]);
        let kept = |specs: &[Spec]| listed(800, specs).replace("c ", "");
        assert!(listed(800, &after).contains(" c "), "{}", listed(800, &after));
        let (before, after) = (kept(&before), kept(&after));
        let order: Vec<&str> = after.split(' ').collect();
        let same: Vec<&str> = before.split(' ').filter(|it| order.contains(it)).collect();
        assert_eq!(order, same, "{before}");
    }
}

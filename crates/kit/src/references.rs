//! References to tools in texts: rendered with the names of the toolset that is shown.
//!
//! The tools of several toolsets share their code, and with it hints, faults and manuals. Such a text does not name a tool
//! but refers to one of haft's own, and is rendered with the names of the tools that are shown:
//!
//! - `` `tool:tree` `` is a tool: `` `tree` ``, or `` `filesystem` with `action`: "list" ``.
//! - `` `arg:shell.net` `` is an argument of a tool.
//! - `` `call:read {"path": "a.txt"}` `` is a whole call; made by [`call`], where a value comes from outside.
//! - `` `if:edit.anchor` `` is nothing, and says that what stands beside it is so only where that argument is there.
//! - `[?one|other?]` is the first of these texts all of whose tools and arguments are here, or nothing. What may be absent
//!   stands in such a group.
//!
//! The arguments of these are always those of haft's own tool.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::Spec;

/// A tool of another toolset that does the work of one of haft's own, and the arguments for that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StandsFor {
    /// haft's own tool.
    pub tool: &'static str,
    /// The arguments, with their values, by which this tool does it.
    pub with: &'static [(&'static str, &'static str)],
    /// Arguments with other names here: haft's name, and this tool's; an empty one means that it has none.
    pub arguments: &'static [(&'static str, &'static str)],
}

impl StandsFor {
    /// Creates the entry for a tool with the same arguments.
    pub const fn tool(tool: &'static str) -> Self {
        Self { tool, with: &[], arguments: &[] }
    }

    /// Adds arguments with fixed values.
    #[must_use]
    pub const fn with(self, with: &'static [(&'static str, &'static str)]) -> Self {
        Self { with, ..self }
    }

    /// Adds arguments that have other names here.
    #[must_use]
    pub const fn naming(self, arguments: &'static [(&'static str, &'static str)]) -> Self {
        Self { arguments, ..self }
    }
}

/// A tool that a text may name. Its definition is built only for a reference to an argument.
pub trait Nameable {
    /// Returns its name.
    fn name(&self) -> &str;

    /// Returns its definition.
    fn spec(&self) -> &Spec;
}

/// The tool that is shown in place of one of haft's own.
#[derive(Clone, Copy)]
pub struct Named<'a> {
    /// The tool.
    pub tool: &'a dyn Nameable,
    /// The mapping to it; `None` if it is the tool itself.
    pub stands_for: Option<&'a StandsFor>,
}

impl<'a> Named<'a> {
    fn with(&self) -> &'static [(&'static str, &'static str)] {
        self.stands_for.map_or(&[], |it| it.with)
    }

    fn tool(&self) -> String {
        let with: Vec<String> =
            self.with().iter().map(|(name, value)| format!("`{name}`: \"{value}\"")).collect();
        match with.as_slice() {
            [] => format!("`{}`", self.tool.name()),
            with => format!("`{}` with {}", self.tool.name(), with.join(", ")),
        }
    }

    /// Returns the name of an argument here, if it exists.
    fn argument<'b>(&self, own: &'b str) -> Option<&'b str> {
        let renamed = self.stands_for.and_then(|it| it.arguments.iter().find(|(of, _)| *of == own));
        let name = renamed.map_or(own, |(_, here)| *here);
        has_argument(&self.tool.spec().schema, name).then_some(name)
    }

    fn call(&self, arguments: &Map<String, Value>) -> Option<String> {
        let with = self.with().iter().map(|(name, value)| Some((*name, Value::from(*value))));
        let given = arguments.iter().map(|(own, value)| Some((self.argument(own)?, value.clone())));
        let fields: Option<Vec<(&str, Value)>> = with.chain(given).collect();
        Some(as_call(self.tool.name(), fields?))
    }
}

/// Returns whether the schema has an argument of this name, or the items of one have such a field.
fn has_argument(schema: &Value, name: &str) -> bool {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return false };
    properties.contains_key(name)
        || properties.values().filter_map(|it| it.get("items")).any(|items| has_argument(items, name))
}

fn as_call<'a>(tool: &str, fields: impl IntoIterator<Item = (&'a str, Value)>) -> String {
    let fields: Vec<String> =
        fields.into_iter().map(|(name, value)| format!("{}: {value}", Value::from(name))).collect();
    format!("`{tool}` {{{}}}", fields.join(", "))
}

/// One reference in a text.
#[derive(Debug, Clone, PartialEq)]
pub enum Reference<'t> {
    /// One of haft's own tools.
    Tool(&'t str),
    /// An argument of one.
    Argument(&'t str, &'t str),
    /// A condition, which renders as nothing: the argument has to exist.
    If(&'t str, &'t str),
    /// A call of one.
    Call(&'t str, Map<String, Value>),
}

impl<'t> Reference<'t> {
    /// Parses the reference at the beginning of a text; returns it and the rest.
    fn read(text: &'t str) -> Option<(Self, &'t str)> {
        let text = text.strip_prefix('`')?;
        if let Some(rest) = text.strip_prefix("tool:") {
            let (name, rest) = rest.split_once('`')?;
            return is_name(name).then_some((Self::Tool(name), rest));
        }
        if let Some(rest) = text.strip_prefix("arg:").or_else(|| text.strip_prefix("if:")) {
            let (path, rest) = rest.split_once('`')?;
            let (tool, name) = path.split_once('.').filter(|(tool, name)| is_name(tool) && is_name(name))?;
            let is_shown = text.starts_with("arg:");
            return Some((if is_shown { Self::Argument(tool, name) } else { Self::If(tool, name) }, rest));
        }
        let (tool, rest) = text.strip_prefix("call:")?.split_once(' ')?;
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Map<String, Value>>();
        let arguments = values.next()?.ok()?;
        let rest = rest.get(values.byte_offset()..)?.strip_prefix('`')?;
        is_name(tool).then_some((Self::Call(tool, arguments), rest))
    }

    /// Renders the reference; `None` if the tool or argument is not shown.
    fn rendered(&self, names: Names<'_>) -> Option<String> {
        let Names::Shown(find) = names else { return Some(self.in_own_names()) };
        match self {
            Self::Tool(tool) => Some(find(tool)?.tool()),
            Self::Argument(tool, name) => Some(format!("`{}`", find(tool)?.argument(name)?)),
            Self::If(tool, name) => find(tool)?.argument(name).map(|_| String::new()),
            Self::Call(tool, arguments) => find(tool)?.call(arguments),
        }
    }

    fn in_own_names(&self) -> String {
        match self {
            Self::Tool(name) | Self::Argument(_, name) => format!("`{name}`"),
            Self::If(..) => String::new(),
            Self::Call(tool, arguments) => {
                as_call(tool, arguments.iter().map(|(name, value)| (name.as_str(), value.clone())))
            }
        }
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_')
}

/// The names with which a text is rendered.
#[derive(Clone, Copy)]
enum Names<'a> {
    Own,
    Shown(&'a dyn Fn(&str) -> Option<Named<'a>>),
}

/// A piece of a text.
#[derive(Debug, Clone, PartialEq)]
enum Piece<'t> {
    Text(&'t str),
    Reference(Reference<'t>),
    /// Alternatives; the first that fits is taken.
    Group(Vec<Vec<Self>>),
}

/// Parses pieces up to one of these ends; returns them, the end, and the rest.
fn pieces<'t>(mut text: &'t str, ends: &[&'static str]) -> (Vec<Piece<'t>>, Option<&'static str>, &'t str) {
    let mut pieces = Vec::new();
    // Groups don't nest.
    let may_group = ends.is_empty();
    loop {
        let Some(at) = text.find(['`', '[', '|', '?']) else {
            pieces.push(Piece::Text(text));
            return (pieces, None, "");
        };
        let (before, from) = text.split_at(at);
        if !before.is_empty() {
            pieces.push(Piece::Text(before));
        }
        if let Some(end) = ends.iter().find(|end| from.starts_with(**end)) {
            return (pieces, Some(end), from.get(end.len()..).unwrap_or_default());
        }
        if let Some((reference, rest)) = Reference::read(from) {
            pieces.push(Piece::Reference(reference));
            text = rest;
        } else if let Some((group, rest)) = may_group.then(|| group(from)).flatten() {
            pieces.push(Piece::Group(group));
            text = rest;
        } else {
            let (mark, rest) = from.split_at(1);
            pieces.push(Piece::Text(mark));
            text = rest;
        }
    }
}

/// Parses the group at the beginning of a text. A group has at least one reference.
fn group(text: &str) -> Option<(Vec<Vec<Piece<'_>>>, &str)> {
    let mut rest = text.strip_prefix("[?").filter(|it| it.contains("?]"))?;
    let mut alternatives = Vec::new();
    loop {
        let (alternative, end, after) = pieces(rest, &["|", "?]"]);
        alternatives.push(alternative);
        rest = after;
        match end? {
            "|" => {}
            _ => break,
        }
    }
    let refers = alternatives.iter().flatten().any(|it| matches!(it, Piece::Reference(_)));
    refers.then_some((alternatives, rest))
}

/// Renders these pieces; `None` if one of them is not shown.
fn joined(pieces: &[Piece<'_>], names: Names<'_>) -> Option<String> {
    let mut out = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Reference(reference) => out.push_str(&reference.rendered(names)?),
            Piece::Group(alternatives) => {
                out.push_str(&alternatives.iter().find_map(|it| joined(it, names)).unwrap_or_default());
            }
        }
    }
    Some(out)
}

/// Formats a reference to a call of haft's own tool with these arguments, which are an object.
pub fn call(tool: &str, arguments: &Value) -> String {
    format!("`call:{tool} {arguments}`")
}

/// Renders a text with the names of the tools that are shown; `find` returns the one for each of haft's own.
pub fn rendered<'t, 'a>(text: &'t str, find: &'a dyn Fn(&str) -> Option<Named<'a>>) -> Cow<'t, str> {
    in_names(text, Names::Shown(find))
}

/// Renders a text with haft's own names, as if all of its tools were shown.
pub fn in_own_names(text: &str) -> Cow<'_, str> {
    in_names(text, Names::Own)
}

/// Returns whether a text refers to tools.
pub fn has_any(text: &str) -> bool {
    ["`tool:", "`arg:", "`if:", "`call:"].iter().any(|it| text.contains(it))
}

/// Disables references in a text from outside, so that it can be put into one that is rendered.
pub fn inert(text: &str) -> Cow<'_, str> {
    if has_any(text) { Cow::Owned(text.replace('`', "'")) } else { Cow::Borrowed(text) }
}

/// A longer text contains more than the program's own words, and is not rendered.
const LONGEST: usize = 16 << 10;

fn in_names<'t>(text: &'t str, names: Names<'_>) -> Cow<'t, str> {
    if text.len() > LONGEST || !has_any(text) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for piece in pieces(text, &[]).0 {
        let one = std::slice::from_ref(&piece);
        match (joined(one, names), &piece) {
            (Some(text), _) => out.push_str(&text),
            // An argument that may be absent should be in a group; otherwise haft's own name is shown.
            (None, Piece::Reference(reference)) => out.push_str(&reference.in_own_names()),
            (None, _) => {}
        }
    }
    Cow::Owned(out)
}

/// Returns the references of a text, and whether each may be absent.
pub fn references(text: &str) -> Vec<(Reference<'_>, bool)> {
    let mut found = Vec::new();
    for piece in pieces(text, &[]).0 {
        match piece {
            Piece::Text(_) => {}
            Piece::Reference(reference) => found.push((reference, false)),
            Piece::Group(alternatives) => {
                let all = alternatives.into_iter().flatten();
                found.extend(all.filter_map(|it| match it {
                    Piece::Reference(reference) => Some((reference, true)),
                    Piece::Text(_) | Piece::Group(_) => None,
                }));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Kinds, Mode, Origin};

    impl Nameable for Spec {
        fn name(&self) -> &str {
            &self.name
        }

        fn spec(&self) -> &Spec {
            self
        }
    }

    fn spec(name: &str, arguments: &[&str]) -> Spec {
        let properties: Map<String, Value> =
            arguments.iter().map(|it| ((*it).to_owned(), json!({}))).collect();
        Spec {
            name: name.to_owned(),
            description: String::new(),
            schema: json!({"type": "object", "properties": properties}),
            mode: Mode::Direct,
            at_most: Kinds::READ,
            output: None,
            origin: Origin::Program,
        }
    }

    /// Renders a text for a toolset with one tool for all files, and one for commands without `net`.
    fn said(text: &str) -> String {
        const LIST: StandsFor =
            StandsFor::tool("tree").with(&[("action", "list")]).naming(&[("dir", "path")]);
        const SHELL: StandsFor = StandsFor::tool("shell").naming(&[("net", "")]);
        let files = spec("filesystem", &["action", "path", "content"]);
        let terminal = spec("terminal", &["command"]);
        let find = |tool: &str| match tool {
            "tree" => Some(Named { tool: &files, stands_for: Some(&LIST) }),
            "shell" => Some(Named { tool: &terminal, stands_for: Some(&SHELL) }),
            _ => None,
        };
        rendered(text, &find).into_owned()
    }

    #[test]
    fn tools_arguments_and_calls_have_the_names_that_are_shown() {
        assert_eq!(said("List it with `tool:tree`."), "List it with `filesystem` with `action`: \"list\".");
        assert_eq!(said("`arg:tree.dir` is a file"), "`path` is a file");
        let call = call("tree", &json!({"dir": "a `b` | ?]"}));
        assert_eq!(
            said(&format!("[?{call} lists it.?]")),
            r#"`filesystem` {"action": "list", "path": "a `b` | ?]"} lists it."#
        );
    }

    #[test]
    fn a_missing_reference_falls_back_to_the_next_alternative() {
        let text = "Refused.[? `arg:shell.net` asks.| A person grants it.?][? `tool:undo` takes it back.?]";
        assert_eq!(said(text), "Refused. A person grants it.");
        assert_eq!(in_own_names(text), "Refused. `net` asks. `undo` takes it back.");
        assert_eq!(said("[?`tool:undo`|`tool:shell`?] helps"), "`terminal` helps");
        // An argument that the tool does not have makes the call impossible.
        assert_eq!(said("a[? `call:tree {\"depth\": 2}`?]"), "a");
    }

    #[test]
    fn other_text_stays_as_it_is() {
        for text in
            ["`tool` and `a:b`", "x[?1|2?]", "`tool:` `arg:shell` `call:x`", "[?never closed `tool:shell"]
        {
            assert_eq!(in_own_names(text), text);
            assert_eq!(said(text), text);
        }
        assert_eq!(in_own_names("[?never closed `tool:shell`"), "[?never closed `shell`");
    }

    #[test]
    fn many_unclosed_groups_are_left_as_text() {
        for many in ["[?", "[?|", "?][?", "`tool:", "`call:x {", "[?`tool:x`"] {
            let text = format!("`tool:read` {}", many.repeat((LONGEST - 16) / many.len()));
            assert!(in_own_names(&text).starts_with("`read` "), "{many}");
        }
        let long = format!("`tool:read` {}", "x".repeat(LONGEST));
        assert_eq!(in_own_names(&long), long);
        assert_eq!(in_own_names(&inert("`tool:read`")), "'tool:read'");
    }

    #[test]
    fn references_are_found_inside_groups_and_outside() {
        let text = "`tool:read` it[?, or `arg:shell.net`?]";
        assert_eq!(
            references(text),
            [(Reference::Tool("read"), false), (Reference::Argument("shell", "net"), true)]
        );
    }
}

//! Type erasure: tools of different types in one list.

use std::{
    future::Future,
    io,
    marker::PhantomData,
    pin::Pin,
    sync::{Arc, OnceLock},
    time::Duration,
};

use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    Address, Cx, Fault, Origin, Output, Preferences, Spec, Tool, Touches,
    nearest::nearest,
    references::{Nameable, Named, StandsFor},
};

/// A tool of any type. Tools known only at run time implement it directly.
pub trait AnyTool: Send + Sync {
    /// Returns its definition.
    fn spec(&self) -> &Spec;

    /// Returns its name, also if the rest of its definition was not made yet.
    fn name(&self) -> &str {
        &self.spec().name
    }

    /// Returns its source, also if the rest of its definition was not made yet.
    fn origin(&self) -> &Origin {
        &self.spec().origin
    }

    /// Returns a number of bytes that its definition takes at least: see [`Spec::bytes`].
    fn least_bytes(&self) -> usize {
        0
    }

    /// Returns whether only an agent in plan mode has it: see [`Tool::ONLY_IN_PLAN_MODE`].
    fn only_in_plan_mode(&self) -> bool {
        false
    }

    /// Returns whether only an agent that can send to others has it: see [`Tool::ONLY_AMONG_AGENTS`].
    fn only_among_agents(&self) -> bool {
        false
    }

    /// Returns the built-in tools whose place it takes in a toolset with other names: see
    /// [`references`](crate::references).
    fn stands_for(&self) -> &'static [StandsFor] {
        &[]
    }

    /// Parses the arguments of a call.
    ///
    /// # Errors
    /// [`Kind::BadArgs`](crate::Kind::BadArgs), naming the field.
    fn prepare(&self, arguments: Value) -> Result<Box<dyn Prepared>, Fault>;
}

/// A call whose arguments were parsed, and which has not run yet.
pub trait Prepared: Send {
    /// Returns what the call would touch.
    fn touches(&self) -> Touches;

    /// Like `touches`, with the person's configuration: see [`Tool::touches_with`].
    fn touches_with(&self, _preferences: &Preferences) -> Touches {
        self.touches()
    }

    /// Returns who chose the address that it reads: see [`Tool::address`].
    fn address(&self) -> Address {
        Address::Composed
    }

    /// Returns the time limit that it declares: see [`Tool::time_limit`].
    fn time_limit(&self) -> Option<Duration> {
        None
    }

    /// Returns the name of the process that it shares: see [`Tool::shared_process`].
    fn shared_process(&self) -> Option<&'static str> {
        None
    }

    /// Returns its name for people: see [`Tool::title`].
    fn title(&self) -> String {
        String::new()
    }

    /// Runs it, once.
    fn run(self: Box<Self>, cx: Cx) -> Running;
}

/// A call under way.
pub type Running = Pin<Box<dyn Future<Output = Result<Output, Fault>> + Send>>;

/// Makes a tool of any type fit for a list of tools.
pub fn erase<T: Tool>() -> Arc<dyn AnyTool> {
    Arc::new(Erased::<T> { spec: OnceLock::new(), tool: PhantomData })
}

struct Erased<T> {
    /// Made when the tool is listed or called: the schemas of all tools take a part of the start of a program.
    spec: OnceLock<Spec>,
    // `fn() -> T`, so that the tool need not be `Sync` for its erasure to be.
    tool: PhantomData<fn() -> T>,
}

impl<T: Tool> AnyTool for Erased<T> {
    fn spec(&self) -> &Spec {
        self.spec.get_or_init(Spec::of::<T>)
    }

    fn name(&self) -> &str {
        T::NAME
    }

    fn origin(&self) -> &Origin {
        &Origin::Program
    }

    fn only_in_plan_mode(&self) -> bool {
        T::ONLY_IN_PLAN_MODE
    }

    fn only_among_agents(&self) -> bool {
        T::ONLY_AMONG_AGENTS
    }

    fn stands_for(&self) -> &'static [StandsFor] {
        T::STANDS_FOR
    }

    fn prepare(&self, arguments: Value) -> Result<Box<dyn Prepared>, Fault> {
        let tool: T = serde_path_to_error::deserialize(arguments).map_err(|error| {
            let path = error.path().to_string();
            let inner = error.into_inner();
            Fault::bad_args(located(&path, &in_json(&inner.to_string()))).caused_by(inner)
        })?;
        Ok(Box::new(Ready(tool)))
    }
}

/// Prefixes an error with its place in the arguments. An unknown argument is named once.
fn located(path: &str, words: &str) -> String {
    match words.strip_prefix("there is no field ") {
        Some(rest) if rest.starts_with(&format!("`{path}`")) => format!("there is no argument {rest}"),
        _ if path == "." => words.to_owned(),
        _ => format!("`{path}`: {words}"),
    }
}

/// Replaces Rust's terms in an error of serde by JSON's.
fn in_json(words: &str) -> String {
    const STRUCT: &str = "expected struct ";
    if words.starts_with("data did not match any variant of ") {
        return "this is none of the forms that are accepted here".to_owned();
    }
    if let Some(rest) = words.strip_prefix("unknown field ") {
        return unknown_field(rest);
    }
    if let Some((found, expected)) =
        words.strip_prefix("invalid type: ").and_then(|it| it.split_once(", expected "))
    {
        return format!("must be {}, not {}", form_of(expected), value_of(found));
    }
    if let Some((found, expected)) =
        words.strip_prefix("invalid value: ").and_then(|it| it.split_once(", expected "))
        && is_integer(expected)
    {
        let value = value_of(found);
        return match expected.starts_with('u') && value.starts_with('-') {
            true => format!("must be 0 or more, not {value}"),
            false => format!("{value} is out of range"),
        };
    }
    let words = words.replace("unknown variant", "unknown value");
    match words.split_once(STRUCT) {
        Some((before, after)) => {
            let rest = after.trim_start_matches(|it: char| it.is_ascii_alphanumeric() || it == '_');
            format!("{before}expected an object{rest}")
        }
        None => words,
    }
}

/// Returns the argument that was probably meant, or all there are, from an error such as `` `pth`, expected
/// one of `path`, `limit` ``.
fn unknown_field(rest: &str) -> String {
    let (typed, known) = rest.split_once(", ").unwrap_or((rest, ""));
    let names = known.split('`').skip(1).step_by(2);
    match nearest(typed.trim_matches('`'), names) {
        Some(near) => format!("there is no field {typed}; did you mean `{near}`?"),
        None if known.is_empty() => format!("there is no field {typed}"),
        None if known == "there are no fields" => format!("there is no field {typed}; it takes none"),
        None => format!("there is no field {typed}, {known}"),
    }
}

/// Returns whether it is the name of an integer type.
fn is_integer(expected: &str) -> bool {
    let bits = expected.strip_prefix(['u', 'i']);
    bits.is_some_and(|it| it == "size" || !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit()))
}

/// Returns the expected form in JSON's terms.
fn form_of(expected: &str) -> String {
    match expected {
        it if it.starts_with("struct ") => "an object".to_owned(),
        "a map" => "an object".to_owned(),
        "a sequence" => "a list".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        it if is_integer(it) => "a whole number".to_owned(),
        it => it.to_owned(),
    }
}

/// Returns the value that was found, as it was written: `1` of ``integer `1` ``.
fn value_of(found: &str) -> String {
    match found {
        "map" => "an object".to_owned(),
        "sequence" => "a list".to_owned(),
        "unit value" => "null".to_owned(),
        _ => ["integer `", "floating point `", "boolean `"]
            .iter()
            .find_map(|it| found.strip_prefix(it)?.strip_suffix('`'))
            .or_else(|| found.strip_prefix("string "))
            .unwrap_or(found)
            .to_owned(),
    }
}

impl Nameable for Arc<dyn AnyTool> {
    fn name(&self) -> &str {
        self.as_ref().name()
    }

    fn spec(&self) -> &Spec {
        self.as_ref().spec()
    }
}

impl<'a> Named<'a> {
    /// Finds the tool shown for one of haft's own: the one with its name, or else one that stands for it.
    pub fn among(tools: impl Iterator<Item = &'a Arc<dyn AnyTool>> + Clone, own: &str) -> Option<Self> {
        let is_built_in = |it: &&Arc<dyn AnyTool>| *it.origin() == Origin::Program;
        let stands_for = |it: &'a Arc<dyn AnyTool>| it.stands_for().iter().find(|it| it.tool == own);
        // Most often the tool itself is shown: names are compared before anything else.
        if let Some(tool) = tools.clone().find(|it| it.name() == own && is_built_in(it)) {
            return Some(Self { tool, stands_for: stands_for(tool) });
        }
        tools.filter(is_built_in).find_map(|tool| Some(Self { tool, stands_for: Some(stands_for(tool)?) }))
    }
}

struct Ready<T>(T);

impl<T: Tool> Prepared for Ready<T> {
    fn touches(&self) -> Touches {
        self.0.touches()
    }

    fn touches_with(&self, preferences: &Preferences) -> Touches {
        self.0.touches_with(preferences)
    }

    fn address(&self) -> Address {
        self.0.address()
    }

    fn time_limit(&self) -> Option<Duration> {
        self.0.time_limit()
    }

    fn shared_process(&self) -> Option<&'static str> {
        self.0.shared_process()
    }

    fn title(&self) -> String {
        self.0.title()
    }

    fn run(self: Box<Self>, cx: Cx) -> Running {
        Box::pin(async move { self.0.run(&cx).await })
    }
}

impl Spec {
    /// Builds the definition of a tool from its type.
    pub fn of<T: Tool>() -> Self {
        let schema = SchemaSettings::draft2020_12()
            .with(|settings| {
                settings.meta_schema = None;
                // Models cope badly with `$ref`, and a client may not resolve it at all.
                settings.inline_subschemas = true;
            })
            .into_generator()
            .into_root_schema_for::<T>();
        let mut schema = schema.to_value();
        let description = schema
            .as_object_mut()
            .and_then(|object| object.remove("description"))
            .and_then(|text| text.as_str().map(unwrap_lines))
            .unwrap_or_default();
        minify(&mut schema);
        // `{"type": "object"}` alone is refused by some clients.
        if let Some(object) = schema.as_object_mut() {
            object.entry("properties").or_insert_with(|| Value::Object(Map::new()));
        }
        Self {
            name: T::NAME.to_owned(),
            description,
            schema,
            mode: T::MODE,
            at_most: T::AT_MOST,
            output: None,
            origin: Origin::Program,
        }
    }

    /// Returns the size of this definition in a model's tool list, in bytes of JSON.
    pub fn bytes(&self) -> usize {
        self.bytes_with(self.schema_bytes())
    }

    /// Like [`bytes`](Self::bytes), where the bytes of the schema were counted before.
    pub fn bytes_with(&self, schema: usize) -> usize {
        self.name.len() + self.description.len() + schema
    }

    /// Returns the size of the schema, in bytes of JSON.
    pub fn schema_bytes(&self) -> usize {
        json_bytes(&self.schema)
    }
}

/// Returns the size of a value as JSON, in bytes; the largest number for what has no form in JSON. Nothing is kept of it.
pub fn json_bytes(value: &impl Serialize) -> usize {
    let mut count = Count(0);
    serde_json::to_writer(&mut count, value).map_or(usize::MAX, |()| count.0)
}

/// Counts the bytes that are written.
struct Count(usize);

impl io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The keys of a schema that only a validator uses.
const OF_VALIDATORS: [&str; 5] = ["$schema", "title", "format", "minimum", "default"];

/// Minifies a schema: drops what only a validator uses, about a quarter of the bytes.
fn minify(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            // A look at the few keys takes less time than to look up each of ours.
            let is_there = OF_VALIDATORS.map(|key| object.keys().any(|it| it == key));
            for (key, _) in OF_VALIDATORS.into_iter().zip(is_there).filter(|it| it.1) {
                object.remove(key);
            }
            if let Some(Value::String(text)) = object.get_mut("description") {
                let unwrapped = unwrap_lines(&*text);
                *text = unwrapped;
            }
            // `["string", "null"]` says "may be absent" twice; `required` says it once.
            if let Some(Value::Array(kinds)) = object.get("type")
                && let [only, Value::String(null)] = kinds.as_slice()
                && null == "null"
            {
                let only = only.clone();
                object.insert("type".to_owned(), only);
            }
            if let Some(Value::Array(values)) = object.get_mut("enum") {
                values.retain(|value| !value.is_null());
            }
            collapse_nullable(object);
            for (key, value) in object {
                match value {
                    // The keys in here are the tool's own words: an argument may be called `title`.
                    Value::Object(properties) if key == "properties" => {
                        properties.values_mut().for_each(minify);
                    }
                    value => minify(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(minify),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Replaces `anyOf: [X, null]` by X, for the same reason.
fn collapse_nullable(object: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = object.get("anyOf") else { return };
    let [Value::Object(only), Value::Object(null)] = choices.as_slice() else { return };
    if null.get("type").and_then(Value::as_str) != Some("null") {
        return;
    }
    let only = only.clone();
    object.remove("anyOf");
    for (key, value) in only {
        object.entry(key).or_insert(value);
    }
}

/// Joins the wrapped lines of a text: a model needs only the paragraphs.
fn unwrap_lines(text: impl AsRef<str>) -> String {
    let text = text.as_ref();
    let is_one_line = text.is_ascii() && !text.contains(['\n', '\t', '\r']) && !text.contains("  ");
    if is_one_line && text.trim() == text {
        return text.to_owned();
    }
    let paragraphs: Vec<String> = text
        .split("\n\n")
        .map(|paragraph| {
            if paragraph.lines().any(|line| line.trim_start().starts_with("- ")) {
                paragraph.trim().to_owned()
            } else {
                paragraph.split_whitespace().collect::<Vec<_>>().join(" ")
            }
        })
        .collect();
    paragraphs.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argument_errors_do_not_use_words_of_rust() {
        for (words, said) in [
            ("invalid value: integer `-5`, expected usize", "must be 0 or more, not -5"),
            ("invalid value: integer `300`, expected u8", "300 is out of range"),
            ("unknown field `x`, there are no fields", "there is no field `x`; it takes none"),
            (
                "data did not match any variant of untagged enum Given",
                "this is none of the forms that are accepted here",
            ),
            ("unknown variant `x`, expected one of `a`, `b`", "unknown value `x`, expected one of `a`, `b`"),
            ("invalid type: string \"a\", expected struct Place", "must be an object, not \"a\""),
            ("invalid type: integer `1`, expected a string", "must be a string, not 1"),
            ("invalid type: map, expected a sequence", "must be a list, not an object"),
            ("invalid type: string \"x\", expected u64", "must be a whole number, not \"x\""),
            (
                "unknown field `pth`, expected one of `path`, `limit`",
                "there is no field `pth`; did you mean `path`?",
            ),
            ("unknown field `zzz`, expected `a` or `b`", "there is no field `zzz`, expected `a` or `b`"),
            ("missing field `path`", "missing field `path`"),
        ] {
            assert_eq!(in_json(words), said);
        }
        let wrong = "there is no field `pth`; did you mean `path`?";
        assert_eq!(located("pth", wrong), "there is no argument `pth`; did you mean `path`?");
        assert_eq!(located("edits[0].pth", wrong), format!("`edits[0].pth`: {wrong}"));
        assert_eq!(located(".", "missing field `path`"), "missing field `path`");
    }
}

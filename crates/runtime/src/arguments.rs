//! Validation of arguments against the schema that a file or a server declares.
//!
//! The schema is untrusted: it may be wrong, infinite, or made to exhaust the CPU. So haft follows it keyword
//! by keyword and skips keywords that make no sense ([`fitted`] reports which). It limits the number of
//! steps, and patterns run in linear time. Other validators reject an imperfect schema as a whole, and none
//! limits its steps.

mod schema_error;
mod validation_error;

use std::collections::HashMap;

use grep_matcher::Matcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use kit::{Fault, counted};
use parking_lot::Mutex;
use serde_json::{Map, Value};

pub(crate) use schema_error::{fitted, troubles};
use validation_error::{ANSWER, ARGUMENTS, At, Called, Problem, Wrong, nearest};

/// Limit of reported problems.
const TOLD: usize = 5;
/// Limit of steps, about 100 ms; haft does not check the rest.
const STEPS: usize = 1_000_000;
/// Limit of depth: more than JSON text can nest.
const DEEP: usize = 400;
/// Limits of a pattern: its length and its memory, in bytes.
const PATTERN: usize = 4 << 10;
const PATTERN_MEMORY: usize = 1 << 20;
/// Limit of cached patterns per schema.
const PATTERNS: usize = 64;

/// The checker of one schema. It compiles patterns at first use and caches them.
#[derive(Default)]
pub(crate) struct Check {
    patterns: Mutex<HashMap<String, Option<RegexMatcher>>>,
}

impl Check {
    /// Checks arguments: a call with others never reaches the tool.
    ///
    /// # Errors
    /// [`Kind::BadArgs`](kit::Kind::BadArgs) with the arguments, what they are and what they must be.
    pub(crate) fn check(&self, schema: &Value, arguments: &Value) -> Result<(), Fault> {
        match self.problems(schema, arguments, ARGUMENTS) {
            lines if lines.is_empty() => Ok(()),
            lines => Err(Fault::bad_args(lines.join("\n"))),
        }
    }

    /// Returns the problems of a model's answer, one line each.
    pub(crate) fn problems_of_answer(&self, schema: &Value, answer: &Value) -> Vec<String> {
        self.problems(schema, answer, ANSWER)
    }

    fn problems(&self, schema: &Value, value: &Value, called: Called) -> Vec<String> {
        let mut walk = Walk { root: schema, patterns: &self.patterns, steps: 0 };
        let mut problems = Vec::new();
        walk.value(schema, value, Here::new(&At::Top), &mut problems);
        problems.iter().take(TOLD).map(|it| it.line(called)).collect()
    }
}

/// The traversal of a value.
struct Walk<'a> {
    root: &'a Value,
    patterns: &'a Mutex<HashMap<String, Option<RegexMatcher>>>,
    steps: usize,
}

/// The position of a traversal.
#[derive(Clone, Copy)]
struct Here<'a> {
    at: &'a At<'a>,
    depth: usize,
    /// The references that led here without a step into the value.
    followed: Option<&'a Followed<'a>>,
}

/// A referenced schema, and the references before it.
struct Followed<'a> {
    schema: &'a Value,
    before: Option<&'a Self>,
}

impl<'a> Here<'a> {
    fn new(at: &'a At<'a>) -> Self {
        Self { at, depth: 0, followed: None }
    }

    /// Returns the same place in the value, at a part of its schema.
    fn deeper(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }

    fn has_followed(&self, schema: &Value) -> bool {
        let mut followed = self.followed;
        while let Some(one) = followed {
            if std::ptr::eq(one.schema, schema) {
                return true;
            }
            followed = one.before;
        }
        false
    }
}

impl<'a> Walk<'a> {
    /// Counts a step; returns false if the limit is exceeded.
    fn step(&mut self, cost: usize) -> bool {
        self.steps = self.steps.saturating_add(cost);
        self.steps <= STEPS
    }

    fn value(&mut self, schema: &Value, value: &Value, here: Here<'_>, out: &mut Vec<Problem>) {
        if !self.step(1) || here.depth > DEEP || out.len() >= TOLD {
            return;
        }
        if schema == &Value::Bool(false) {
            out.push(Problem::new(here.at, value, Wrong::Other("is not allowed".to_owned())));
        }
        let Value::Object(schema) = schema else { return };
        if let Some(wanted) = type_of(schema).filter(|it| !it.iter().any(|it| is_of_type(value, it))) {
            let wanted = wanted.into_iter().map(str::to_owned).collect();
            out.push(Problem::new(here.at, value, Wrong::Type(wanted)));
            return;
        }
        if let Some(Value::Array(allowed)) = schema.get("enum")
            && self.step(allowed.len())
            && !allowed.iter().any(|it| same(it, value))
        {
            out.push(Problem::new(here.at, value, Wrong::Value(allowed.clone())));
            return;
        }
        if let Some(only) = schema.get("const").filter(|it| !same(it, value)) {
            out.push(Problem::new(here.at, value, Wrong::Value(vec![only.clone()])));
            return;
        }
        match value {
            Value::Object(object) => self.object(schema, value, object, here, out),
            Value::Array(items) => self.list(schema, value, items, here, out),
            Value::String(text) => self.text(schema, value, text, here, out),
            Value::Number(number) => out.extend(
                number_problem(schema, number).map(|it| Problem::new(here.at, value, Wrong::Must(it))),
            ),
            Value::Null | Value::Bool(_) => {}
        }
        self.reference(schema, value, here, out);
        self.combined(schema, value, here, out);
    }

    fn reference(
        &mut self,
        schema: &Map<String, Value>,
        value: &Value,
        here: Here<'_>,
        out: &mut Vec<Problem>,
    ) {
        let Some(target) = schema.get("$ref").and_then(Value::as_str).and_then(|it| resolve(self.root, it))
        else {
            return;
        };
        // A reference that leads back to itself has no meaning.
        if here.has_followed(target) {
            return;
        }
        let followed = Followed { schema: target, before: here.followed };
        self.value(target, value, Here { followed: Some(&followed), ..here.deeper() }, out);
    }

    fn text(
        &mut self,
        schema: &Map<String, Value>,
        value: &Value,
        text: &str,
        here: Here<'_>,
        out: &mut Vec<Problem>,
    ) {
        let (least, most) = (count(schema, "minLength"), count(schema, "maxLength"));
        if (least.is_some() || most.is_some()) && self.step(text.len() / 64) {
            let length = text.chars().count();
            if let Some(must) = bounds(length, least, most, "character") {
                out.push(Problem::new(
                    here.at,
                    value,
                    Wrong::Other(format!("has {length} characters and must have {must}")),
                ));
            }
        }
        if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
            && self.matches(pattern, text) == Some(false)
        {
            out.push(Problem::new(here.at, value, Wrong::Must(format!("match `{pattern}`"))));
        }
    }

    /// Returns whether this pattern matches somewhere in the text. `None` means that this is unknown.
    fn matches(&mut self, pattern: &str, text: &str) -> Option<bool> {
        if !self.step(1 + text.len() / 64) {
            return None;
        }
        let mut patterns = self.patterns.lock();
        if !patterns.contains_key(pattern) {
            if patterns.len() >= PATTERNS {
                return None;
            }
            patterns.insert(pattern.to_owned(), compile(pattern).ok());
        }
        patterns.get(pattern)?.as_ref()?.is_match(text.as_bytes()).ok()
    }

    fn list(
        &mut self,
        schema: &Map<String, Value>,
        value: &Value,
        items: &[Value],
        here: Here<'_>,
        out: &mut Vec<Problem>,
    ) {
        let must = bounds(items.len(), count(schema, "minItems"), count(schema, "maxItems"), "item");
        if let Some(must) = must {
            let has = format!("has {} and must have {must}", counted(items.len(), "item"));
            out.push(Problem::new(here.at, value, Wrong::Other(has)));
        }
        if schema.get("uniqueItems") == Some(&Value::Bool(true)) && self.step(items.len()) && has_twice(items)
        {
            let twice = "has the same item twice and must not".to_owned();
            out.push(Problem::new(here.at, value, Wrong::Other(twice)));
        }
        // Older drafts declare the first items as a list in `items`.
        let (first, rest) = match (schema.get("prefixItems"), schema.get("items")) {
            (Some(Value::Array(first)), rest) => (first.as_slice(), rest),
            (_, Some(Value::Array(first))) => (first.as_slice(), schema.get("additionalItems")),
            (_, rest) => (&[][..], rest),
        };
        for (index, item) in items.iter().enumerate() {
            let Some(schema) = first.get(index).or(rest) else { break };
            let at = At::Item(here.at, index);
            self.value(schema, item, Here { at: &at, depth: here.depth + 1, followed: None }, out);
            if out.len() >= TOLD || self.steps > STEPS {
                return;
            }
        }
        if let Some(wanted) = schema.get("contains") {
            self.contains(schema, wanted, value, items, here, out);
        }
    }

    fn contains(
        &mut self,
        schema: &Map<String, Value>,
        wanted: &Value,
        value: &Value,
        items: &[Value],
        here: Here<'_>,
        out: &mut Vec<Problem>,
    ) {
        let mut fitting = 0;
        for (index, item) in items.iter().enumerate() {
            let at = At::Item(here.at, index);
            fitting +=
                usize::from(self.fits(wanted, item, Here { at: &at, depth: here.depth + 1, followed: None }));
        }
        let least = count(schema, "minContains").unwrap_or(1);
        if let Some(must) = bounds(fitting, Some(least), count(schema, "maxContains"), "item") {
            let has = format!("has {} of the kind that it must have {must} of", counted(fitting, "item"));
            out.push(Problem::new(here.at, value, Wrong::Other(has)));
        }
    }

    fn object(
        &mut self,
        schema: &Map<String, Value>,
        value: &Value,
        object: &Map<String, Value>,
        here: Here<'_>,
        out: &mut Vec<Problem>,
    ) {
        let none = Map::new();
        let known = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
        missing(schema, known, object, here, out);
        let must =
            bounds(object.len(), count(schema, "minProperties"), count(schema, "maxProperties"), "field");
        if let Some(must) = must {
            let has = format!("has {} and must have {must}", counted(object.len(), "field"));
            out.push(Problem::new(here.at, value, Wrong::Other(has)));
        }
        self.dependent(schema, value, object, here, out);
        let patterns = schema.get("patternProperties").and_then(Value::as_object).unwrap_or(&none);
        let others = schema.get("additionalProperties");
        for (name, value) in object {
            let at = At::Field(here.at, name);
            let here = Here { at: &at, depth: here.depth + 1, followed: None };
            if let Some(names) = schema.get("propertyNames")
                && !self.fits(names, &Value::String(name.clone()), here)
            {
                out.push(Problem::new(&at, value, Wrong::Other("has a name that is not allowed".to_owned())));
            }
            let mut is_known = false;
            if let Some(schema) = known.get(name) {
                is_known = true;
                self.value(schema, value, here, out);
            }
            for (pattern, schema) in patterns {
                // An unknown match may be meant.
                let matches = self.matches(pattern, name);
                is_known |= matches != Some(false);
                if matches == Some(true) {
                    self.value(schema, value, here, out);
                }
            }
            match others {
                Some(Value::Bool(false)) if !is_known => {
                    out.push(Problem::new(&at, value, unknown(name, known, object)));
                }
                Some(schema) if !is_known => self.value(schema, value, here, out),
                _ => {}
            }
            if out.len() >= TOLD || self.steps > STEPS {
                return;
            }
        }
    }

    /// Checks keywords that depend on the presence of other fields.
    fn dependent(
        &mut self,
        schema: &Map<String, Value>,
        value: &Value,
        object: &Map<String, Value>,
        here: Here<'_>,
        out: &mut Vec<Problem>,
    ) {
        for key in ["dependentRequired", "dependentSchemas", "dependencies"] {
            let Some(rules) = schema.get(key).and_then(Value::as_object) else { continue };
            for (name, rule) in rules.iter().filter(|(name, _)| object.contains_key(*name)) {
                if !rule.is_array() {
                    self.value(rule, value, here.deeper(), out);
                    continue;
                }
                for missing in strings(Some(rule)).filter(|it| !object.contains_key(*it)) {
                    let at = At::Field(here.at, missing);
                    let missing = format!("is missing; `{name}` needs it");
                    out.push(Problem::new(&at, value, Wrong::Other(missing)));
                }
            }
        }
    }

    fn combined(
        &mut self,
        schema: &Map<String, Value>,
        value: &Value,
        here: Here<'_>,
        out: &mut Vec<Problem>,
    ) {
        let here = here.deeper();
        for part in list(schema, "allOf") {
            self.value(part, value, here, out);
        }
        if let Some(condition) = schema.get("if") {
            let then = if self.fits(condition, value, here) { "then" } else { "else" };
            if let Some(then) = schema.get(then) {
                self.value(then, value, here, out);
            }
        }
        if let Some(not) = schema.get("not")
            && self.fits(not, value, here)
            && self.steps <= STEPS
        {
            let text = match not.as_object().map(|it| strings(it.get("required")).collect::<Vec<_>>()) {
                Some(names) if !names.is_empty() => {
                    format!("must not have `{}`", names.join("` together with `"))
                }
                _ => "is what it must not be".to_owned(),
            };
            out.push(Problem::new(here.at, value, Wrong::Other(text)));
        }
        for key in ["anyOf", "oneOf"] {
            let forms = list(schema, key);
            let mut fitting = 0;
            let mut failed = Vec::new();
            for form in forms {
                let mut problems = Vec::new();
                self.value(form, value, here, &mut problems);
                if !problems.is_empty() {
                    failed.push(problems);
                    continue;
                }
                fitting += 1;
                if key == "anyOf" {
                    break;
                }
            }
            match fitting {
                // After the last step the result is unknown.
                _ if self.steps > STEPS => return,
                0 if !forms.is_empty() => out.extend(validation_error::of_forms(here.at, value, failed)),
                0 | 1 => {}
                _ => {
                    let text = format!(
                        "fits {fitting} forms and must fit just one{}",
                        validation_error::forms_by_name(forms)
                    );
                    out.push(Problem::new(here.at, value, Wrong::Other(text)));
                }
            }
        }
    }

    fn fits(&mut self, schema: &Value, value: &Value, here: Here<'_>) -> bool {
        let mut problems = Vec::new();
        self.value(schema, value, here.deeper(), &mut problems);
        problems.is_empty()
    }
}

/// Returns the types that a schema declares, if they are valid.
fn type_of(schema: &Map<String, Value>) -> Option<Vec<&str>> {
    let mut types: Vec<&str> = match schema.get("type")? {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().map(|it| it.as_str().unwrap_or_default()).collect(),
        _ => return None,
    };
    if types.is_empty() || !types.iter().all(|it| TYPES.contains(it)) {
        return None;
    }
    // OpenAPI's form.
    if schema.get("nullable") == Some(&Value::Bool(true)) {
        types.push("null");
    }
    Some(types)
}

const TYPES: [&str; 7] = ["string", "integer", "number", "boolean", "array", "object", "null"];

fn is_of_type(value: &Value, wanted: &str) -> bool {
    match value {
        Value::Null => wanted == "null",
        Value::Bool(_) => wanted == "boolean",
        Value::Number(number) => {
            let whole = || !number.is_f64() || number.as_f64().is_some_and(|it| it.fract() == 0.0);
            wanted == "number" || (wanted == "integer" && whole())
        }
        Value::String(_) => wanted == "string",
        Value::Array(_) => wanted == "array",
        Value::Object(_) => wanted == "object",
    }
}

/// Returns whether two values are equal; 1 and 1.0 are.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(name, one)| other.get(name).is_some_and(|other| same(one, other)))
        }
        (one, other) => one == other,
    }
}

fn has_twice(items: &[Value]) -> bool {
    // Comparing all pairs takes too long for many items; comparing their text is nearly as good.
    if items.len() > 64 {
        let mut seen = std::collections::HashSet::new();
        return !items.iter().all(|it| seen.insert(it.to_string()));
    }
    items.iter().enumerate().any(|(index, one)| items.iter().skip(index + 1).any(|other| same(one, other)))
}

fn number_problem(schema: &Map<String, Value>, number: &serde_json::Number) -> Option<String> {
    let value = number.as_f64()?;
    let limit =
        |key: &str| schema.get(key).filter(|it| it.is_number()).and_then(|it| Some((it, it.as_f64()?)));
    // In the oldest draft `exclusiveMinimum` is a flag of `minimum`.
    let strict = |key: &str| schema.get(key) == Some(&Value::Bool(true));
    for (key, strict) in [("minimum", strict("exclusiveMinimum")), ("exclusiveMinimum", true)] {
        if let Some((shown, least)) = limit(key)
            && (value < least || (strict && value <= least))
        {
            return Some(format!("be {} {shown}", if strict { "more than" } else { "at least" }));
        }
    }
    for (key, strict) in [("maximum", strict("exclusiveMaximum")), ("exclusiveMaximum", true)] {
        if let Some((shown, most)) = limit(key)
            && (value > most || (strict && value >= most))
        {
            return Some(format!("be {} {shown}", if strict { "less than" } else { "at most" }));
        }
    }
    let (shown, of) = limit("multipleOf").filter(|(_, of)| *of > 0.0)?;
    let times = value / of;
    let off = (times - times.round()).abs() > 1e-9 * times.abs().max(1.0);
    off.then(|| format!("be a multiple of {shown}"))
}

/// Returns the required bounds of a count, if it violates them.
fn bounds(has: usize, least: Option<usize>, most: Option<usize>, what: &str) -> Option<String> {
    match (least, most) {
        (Some(least), _) if has < least => Some(format!("at least {}", counted(least, what))),
        (_, Some(most)) if has > most => Some(format!("at most {}", counted(most, what))),
        _ => None,
    }
}

fn count(schema: &Map<String, Value>, key: &str) -> Option<usize> {
    let number = schema.get(key)?;
    let number = number.as_u64().or_else(|| {
        let whole = number.as_f64().filter(|it| it.fract() == 0.0 && (0.0..9e15).contains(it))?;
        format!("{whole}").parse().ok()
    })?;
    usize::try_from(number).ok()
}

fn list<'a>(schema: &'a Map<String, Value>, key: &str) -> &'a [Value] {
    schema.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn strings(of: Option<&Value>) -> impl Iterator<Item = &str> {
    of.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// Returns the target of a reference within the schema. haft fetches nothing from elsewhere.
fn resolve<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let pointer = reference.strip_prefix('#')?;
    if !pointer.contains('%') {
        return root.pointer(pointer);
    }
    let mut bytes = Vec::with_capacity(pointer.len());
    let mut rest = pointer.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|it| std::str::from_utf8(it).ok());
        match hex.filter(|_| *first == b'%').and_then(|it| u8::from_str_radix(it, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    root.pointer(std::str::from_utf8(&bytes).ok()?)
}

/// Compiles a pattern within limits of time and memory, or returns the reason why that fails.
fn compile(pattern: &str) -> Result<RegexMatcher, String> {
    if pattern.len() > PATTERN {
        return Err(format!("it has more than {PATTERN} bytes"));
    }
    let built =
        RegexMatcherBuilder::new().size_limit(PATTERN_MEMORY).dfa_size_limit(PATTERN_MEMORY).build(pattern);
    built.map_err(|error| error.to_string())
}

/// Returns the required fields that are missing.
fn missing(
    schema: &Map<String, Value>,
    known: &Map<String, Value>,
    object: &Map<String, Value>,
    here: Here<'_>,
    out: &mut Vec<Problem>,
) {
    for name in strings(schema.get("required")).filter(|it| !object.contains_key(*it)) {
        let strangers: Vec<&str> =
            object.keys().map(String::as_str).filter(|it| !known.contains_key(*it)).collect();
        let near = nearest(name, &strangers).map(str::to_owned);
        let wanted = known.get(name).and_then(Value::as_object).and_then(type_of).unwrap_or_default();
        let wanted = wanted.into_iter().map(str::to_owned).collect();
        let at = At::Field(here.at, name);
        out.push(Problem::new(&at, &Value::Null, Wrong::Missing { wanted, near }));
    }
}

/// Returns the problem of a field that is not allowed.
fn unknown(name: &str, known: &Map<String, Value>, object: &Map<String, Value>) -> Wrong {
    // Fields that are already present are not meant.
    let names: Vec<&str> = known.keys().map(String::as_str).filter(|it| !object.contains_key(*it)).collect();
    let near = nearest(name, &names).map(str::to_owned);
    Wrong::Unknown { near, known: known.keys().cloned().collect() }
}

#[cfg(test)]
mod tests;

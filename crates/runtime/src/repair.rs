//! Argument repair: corrects arguments that are almost right, and reports each repair.
//!
//! It repairs only what is unambiguous by the schema: a quoted number where a number is needed, a quoted list
//! where a list is needed, null for "not given", a known synonym of a missing field. It never changes a
//! string where a string is allowed.

use std::cell::Cell;

use kit::{Fault, Origin, Spec};
use serde_json::{Map, Value};

/// Synonyms of field names that models use.
const SYNONYMS: [(&str, &[&str]); 16] = [
    ("path", &["file_path", "filepath", "file", "filename", "file_name", "target_file", "notebook_path"]),
    ("dir", &["directory", "folder", "dir_path", "path"]),
    ("pattern", &["regex", "regexp", "query", "search", "glob_pattern"]),
    ("glob", &["include", "file_pattern", "glob_pattern"]),
    ("content", &["text", "contents", "file_text", "data"]),
    ("query", &["q", "params"]),
    ("limit", &["max_results", "head_limit", "count", "num_lines", "max"]),
    ("offset", &["start", "start_line", "skip", "from_line"]),
    ("command", &["cmd", "script"]),
    ("code", &["script", "source", "source_code"]),
    ("user", &["username", "user_name"]),
    ("mode", &["output_mode"]),
    ("ignore_case", &["case_insensitive", "_i", "i"]),
    ("end", &["end_line"]),
    ("new", &["new_text", "new_string", "new_str", "replacement"]),
    ("old", &["old_text", "old_string", "old_str"]),
];

/// Fields in which a number is a mistake, not the name of a file.
const PATHS: &[&str] = &["path", "paths", "dir", "from", "to", "upload", "save_to"];

/// Limit of steps in a schema; beyond it nothing is repaired.
const STEPS: usize = 20_000;

/// The arguments of a call, from the model or the client.
pub enum Arguments {
    /// Parsed JSON.
    Json(Value),
    /// The model's text. Broken JSON is a fault, never an empty object.
    Raw(String),
}

/// Repaired arguments for the tool.
#[derive(Debug)]
pub(crate) struct Repaired {
    /// The arguments.
    pub(crate) arguments: Value,
    /// The repairs, one line each.
    pub(crate) notes: Vec<String>,
}

/// Repairs arguments to match the schema, if the meaning is clear.
///
/// # Errors
/// [`kit::Kind::BadArgs`] when they are not JSON, or not an object: such arguments never become an empty
/// object.
pub(crate) fn repair(spec: &Spec, arguments: Arguments) -> Result<Repaired, Fault> {
    let mut notes = Vec::new();
    let mut value = match arguments {
        Arguments::Json(value) => value,
        Arguments::Raw(text) if text.trim().is_empty() => Value::Object(Map::new()),
        Arguments::Raw(text) => parse(spec, &text)?,
    };
    if let Value::String(text) = &value {
        value = parse(spec, text)?;
        notes.push("the arguments came as a string with JSON in it".to_owned());
    }
    if value.is_null() {
        value = Value::Object(Map::new());
    }
    let Value::Object(object) = &mut value else {
        return Err(Fault::bad_args(format!(
            "the arguments of `{}` must be a JSON object, and {} was given",
            spec.name,
            kind(&value)
        ))
        .next(format!("For example {}.", example(spec))));
    };
    let schema = Schema::of(spec);
    schema.repair_object(object, &spec.schema, "", &mut notes);
    Ok(Repaired { arguments: value, notes })
}

/// The schema of a tool, possibly untrusted.
struct Schema<'a> {
    root: &'a Value,
    /// Whether the tool is haft's own, so that synonyms of its fields are known. In a tool file `file` may
    /// mean something else than `path`.
    is_ours: bool,
    left: Cell<usize>,
}

fn parse(spec: &Spec, text: &str) -> Result<Value, Fault> {
    serde_json::from_str(text).map_err(|error| {
        Fault::bad_args(format!(
            "the arguments of `{}` are not valid JSON: {error}; the call was not run",
            spec.name
        ))
        .next(format!("For example {}.", example(spec)))
        .caused_by(error)
    })
}

/// Returns example arguments with every required field.
pub(crate) fn example(spec: &Spec) -> Value {
    let properties = spec.schema.get("properties").and_then(Value::as_object);
    let required = spec.schema.get("required").and_then(Value::as_array);
    let fields = required.into_iter().flatten().filter_map(Value::as_str).map(|field| {
        let of =
            properties.and_then(|it| it.get(field)).and_then(|it| it.get("type")).and_then(Value::as_str);
        let value = match of {
            Some("integer" | "number") => Value::from(1),
            Some("boolean") => Value::from(true),
            Some("array") => Value::Array(Vec::new()),
            Some("object") => Value::Object(Map::new()),
            _ => Value::from("…"),
        };
        (field.to_owned(), value)
    });
    Value::Object(fields.collect())
}

impl<'a> Schema<'a> {
    fn of(spec: &'a Spec) -> Self {
        Self { root: &spec.schema, is_ours: spec.origin == Origin::Program, left: Cell::new(STEPS) }
    }

    fn repair_object(
        &self,
        object: &mut Map<String, Value>,
        schema: &Value,
        at: &str,
        notes: &mut Vec<String>,
    ) {
        let schema = self.form_of(schema, "object");
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
        // If any name is allowed, an unknown one is intended.
        if matches!(schema.get("additionalProperties"), None | Some(Value::Bool(false)))
            && schema.get("patternProperties").is_none()
        {
            self.rename_synonyms(object, properties, at, notes);
        }
        let is_absent = |(name, value): &(&String, &Value)| {
            value.is_null() && properties.get(*name).is_some_and(|it| !self.takes(it, "null"))
        };
        let absent: Vec<String> = object.iter().filter(is_absent).map(|(name, _)| name.clone()).collect();
        for name in absent {
            object.shift_remove(&name);
        }
        for (name, value) in object {
            if let Some(schema) = properties.get(name) {
                self.repair_value(value, schema, &join(at, name), notes);
            }
        }
    }

    /// Renames a field that the tool does not have, if it clearly means one that the tool has and that is
    /// missing.
    fn rename_synonyms(
        &self,
        object: &mut Map<String, Value>,
        properties: &Map<String, Value>,
        at: &str,
        notes: &mut Vec<String>,
    ) {
        if self.is_ours {
            convert_timeout(object, properties, at, notes);
        }
        let unknown: Vec<String> =
            object.keys().filter(|name| !properties.contains_key(*name)).cloned().collect();
        for name in unknown {
            let plain = snake(&name);
            let is_text = object.get(&name).is_some_and(Value::is_string);
            // The data to send is text or JSON.
            let is_data = |field: &str| match field {
                "body" => plain == "data" && is_text,
                "json" => plain == "data" && !is_text,
                _ => false,
            };
            let is_synonym = |field: &str| {
                let is_listed =
                    || SYNONYMS.iter().any(|(it, others)| *it == field && others.contains(&plain.as_str()));
                self.is_ours && (is_data(field) || is_listed())
            };
            let means = |field: &&String| {
                !object.contains_key(*field) && (snake(field) == plain || is_synonym(field))
            };
            let mut meant = properties.keys().filter(means);
            let (Some(field), None) = (meant.next().cloned(), meant.next()) else { continue };
            if let Some(value) = object.shift_remove(&name) {
                notes.push(format!("`{}` was read as `{}`", join(at, &name), join(at, &field)));
                object.insert(field, value);
            }
        }
    }

    fn repair_value(&self, value: &mut Value, schema: &Value, at: &str, notes: &mut Vec<String>) {
        if let Value::String(text) = value
            && !self.takes(schema, "string")
            && let Some(meant) = self.unquote(text, schema)
        {
            notes.push(format!("`{at}` came in quotes and was read as {}", kind(&meant)));
            *value = meant;
        }
        if let Value::Number(number) = value
            && self.takes(schema, "string")
            && !self.takes(schema, "integer")
            && !self.takes(schema, "number")
            && !PATHS.contains(&at)
        {
            // The repair loses nothing, so it is not reported.
            *value = Value::String(number.to_string());
        }
        if let Value::Number(number) = value
            && self.takes(schema, "integer")
            && !self.takes(schema, "number")
            && let Some(whole) =
                number.as_f64().filter(|it| number.is_f64() && it.fract() == 0.0 && it.abs() < 9e15)
        {
            #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and small")]
            let whole = whole as i64;
            *value = Value::from(whole);
        }
        if self.takes(schema, "array")
            && !self.takes(schema, "string")
            && (value.is_object() || value.is_string())
        {
            let items = self.form_of(schema, "array").get("items");
            let fits = items
                .is_none_or(|items| self.takes(items, if value.is_object() { "object" } else { "string" }));
            if fits {
                notes.push(format!("`{at}` is a list and was given one item without the list"));
                *value = Value::Array(vec![value.take()]);
            }
        }
        match value {
            Value::Object(object) => self.repair_object(object, schema, at, notes),
            Value::Array(items) => {
                let Some(schema) = self.form_of(schema, "array").get("items") else { return };
                for (index, item) in items.iter_mut().enumerate() {
                    self.repair_value(item, schema, &format!("{at}[{index}]"), notes);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Returns the value that a string means if no string is allowed.
    fn unquote(&self, text: &str, schema: &Value) -> Option<Value> {
        let lower = text.trim().to_ascii_lowercase();
        if self.takes(schema, "boolean") && (lower == "true" || lower == "false") {
            return Some(Value::Bool(lower == "true"));
        }
        let meant: Value = serde_json::from_str(text.trim()).ok()?;
        let fits = match &meant {
            Value::Number(number) => {
                self.takes(schema, "number") || (self.takes(schema, "integer") && !number.is_f64())
            }
            Value::Array(_) => self.takes(schema, "array"),
            Value::Object(_) => self.takes(schema, "object"),
            Value::Null | Value::Bool(_) | Value::String(_) => false,
        };
        fits.then_some(meant)
    }

    /// Returns whether the schema allows a value of this type. An empty schema allows all types.
    fn takes(&self, schema: &Value, wanted: &str) -> bool {
        let Some(left) = self.left.get().checked_sub(1) else { return true };
        self.left.set(left);
        let schema = self.followed(schema);
        let is_one = |it: &Value| it == wanted || it.as_str().is_none_or(|it| !TYPES.contains(&it));
        let by_type = match schema.get("type") {
            Some(Value::Array(several)) => several.iter().any(is_one),
            Some(one) => is_one(one),
            None => true,
        };
        let by_value = || match (schema.get("type"), schema.get("enum").and_then(Value::as_array)) {
            (None, Some(values)) => values.iter().any(|value| json_type(value) == wanted),
            (None, None) => schema.get("const").is_none_or(|value| json_type(value) == wanted),
            (Some(_), _) => true,
        };
        let by_forms = || {
            ["anyOf", "oneOf"]
                .iter()
                .filter_map(|it| schema.get(*it)?.as_array())
                .all(|forms| forms.is_empty() || forms.iter().any(|form| self.takes(form, wanted)))
        };
        let is_nullable = wanted == "null" && schema.get("nullable") == Some(&Value::Bool(true));
        is_nullable || (by_type && by_value() && by_forms())
    }

    /// Follows references; one that leads nowhere, or in a cycle, allows all.
    fn followed<'b>(&'b self, schema: &'b Value) -> &'b Value {
        let mut schema = schema;
        for _ in 0..8 {
            let Some(reference) = schema.get("$ref").and_then(Value::as_str) else { return schema };
            let target = reference.strip_prefix('#').and_then(|it| self.root.pointer(it));
            let Some(target) = target else { return &Value::Null };
            schema = target;
        }
        &Value::Null
    }

    /// Returns the only alternative that allows a value of this type, if there is exactly one.
    fn form_of<'b>(&'b self, schema: &'b Value, json_type: &str) -> &'b Value {
        let schema = self.followed(schema);
        if schema.get("properties").is_some() || schema.get("items").is_some() {
            return schema;
        }
        let forms = schema.get("anyOf").or_else(|| schema.get("oneOf")).and_then(Value::as_array);
        let mut fitting = forms.into_iter().flatten().filter(|it| self.takes(it, json_type));
        match (fitting.next(), fitting.next()) {
            (Some(one), None) => self.followed(one),
            _ => schema,
        }
    }
}

const TYPES: [&str; 7] = ["string", "integer", "number", "boolean", "array", "object", "null"];

/// A `timeout` below this is in seconds: nobody waits that many seconds, or gives so few milliseconds.
const SECONDS: f64 = 1000.0;

/// Converts a `timeout`, mostly in seconds, to the `timeout_ms` that a tool has.
fn convert_timeout(
    object: &mut Map<String, Value>,
    properties: &Map<String, Value>,
    at: &str,
    notes: &mut Vec<String>,
) {
    const OURS: &str = "timeout_ms";
    let is_free = properties.contains_key(OURS) && !object.contains_key(OURS);
    let names = ["timeout", "timeout_seconds", "timeout_sec", "timeout_s"];
    let mut given = names.into_iter().filter(|it| !properties.contains_key(*it) && object.contains_key(*it));
    let (true, Some(name), None) = (is_free, given.next(), given.next()) else { return };
    let number = object.get(name).and_then(|it| it.as_f64().or_else(|| it.as_str()?.trim().parse().ok()));
    let Some(number) = number.filter(|it| (0.0..1e12).contains(it)) else { return };
    let is_seconds = name != "timeout" || number < SECONDS;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is positive, and below 1e15"
    )]
    let ms = (if is_seconds { number * 1000.0 } else { number }).round() as u64;
    object.shift_remove(name);
    object.insert(OURS.to_owned(), ms.into());
    notes.push(format!("`{}` was read as `{}`: {ms}", join(at, name), join(at, OURS)));
}

/// Normalizes a name: `filePath`, `file-path` and `FILE_PATH` are one.
fn snake(name: &str) -> String {
    let mut plain = String::with_capacity(name.len() + 2);
    let mut after_lower = false;
    for letter in name.chars() {
        if letter.is_uppercase() && after_lower {
            plain.push('_');
        }
        after_lower = letter.is_lowercase() || letter.is_ascii_digit();
        plain.extend(if letter == '-' || letter == ' ' { '_' } else { letter }.to_lowercase());
    }
    plain
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn join(at: &str, name: &str) -> String {
    if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use kit::{Kinds, Mode};
    use serde_json::json;

    use super::*;

    fn spec() -> Spec {
        Spec {
            name: "t".to_owned(),
            description: String::new(),
            schema: json!({"type": "object", "required": ["path"], "properties": {
                "path": {"type": "string"},
                "limit": {"type": "integer"},
                "all": {"type": "boolean"},
                "names": {"type": "array", "items": {"type": "string"}},
                "edits": {"type": "array", "items": {"type": "object", "properties": {"line": {"type": "integer"}}}},
            }}),
            mode: Mode::Direct,
            at_most: Kinds::READ,
            output: None,
            origin: kit::Origin::Program,
        }
    }

    fn repaired_value(value: Value) -> (Value, usize) {
        let repaired = repair(&spec(), Arguments::Json(value)).unwrap();
        (repaired.arguments, repaired.notes.len())
    }

    #[test]
    fn clear_mistakes_are_repaired_and_reported() {
        assert_eq!(repaired_value(json!({"limit": "200"})), (json!({"limit": 200}), 1));
        assert_eq!(repaired_value(json!({"limit": 200.0})), (json!({"limit": 200}), 0));
        assert_eq!(repaired_value(json!({"all": "True"})), (json!({"all": true}), 1));
        assert_eq!(repaired_value(json!({"names": "[\"a\"]"})), (json!({"names": ["a"]}), 1));
        assert_eq!(repaired_value(json!({"names": "a"})), (json!({"names": ["a"]}), 1));
        assert_eq!(repaired_value(json!({"edits": {"line": "3"}})), (json!({"edits": [{"line": 3}]}), 2));
        // A number in place of a path is a mistake, not a file's name.
        assert_eq!(repaired_value(json!({"path": 404})), (json!({"path": 404}), 0));
        assert_eq!(repaired_value(json!({"limit": null})), (json!({}), 0));
        assert_eq!(repaired_value(json!({"file_path": "a"})), (json!({"path": "a"}), 1));
        assert_eq!(repaired_value(json!({"filePath": "a"})), (json!({"path": "a"}), 1));
        assert_eq!(repaired_value(json!("{\"path\": \"a\"}")), (json!({"path": "a"}), 1));
        let schema =
            json!({"properties": {"query": {"type": "object"}, "body": {"type": "string"}, "json": {}}});
        let sends = Spec { schema, ..spec() };
        let of = |value: Value| repair(&sends, Arguments::Json(value)).unwrap().arguments;
        assert_eq!(of(json!({"params": {"a": 1}})), json!({"query": {"a": 1}}));
        assert_eq!(of(json!({"data": {"a": 1}})), json!({"json": {"a": 1}}));
        assert_eq!(of(json!({"data": "a=1"})), json!({"body": "a=1"}));
    }

    #[test]
    fn the_names_of_source_user_and_time_limit_are_understood() {
        let schema = json!({"properties": {
            "code": {"type": "string"}, "user": {"type": "string"}, "timeout_ms": {"type": "integer"},
        }});
        let tool = Spec { schema, ..spec() };
        let of = |value: Value| {
            let repaired = repair(&tool, Arguments::Json(value)).unwrap();
            (repaired.arguments, repaired.notes)
        };
        assert_eq!(of(json!({"script": "cube(1);"})).0, json!({"code": "cube(1);"}));
        assert_eq!(of(json!({"username": "me"})).0, json!({"user": "me"}));
        assert_eq!(
            of(json!({"timeout": 30})),
            (json!({"timeout_ms": 30_000}), vec!["`timeout` was read as `timeout_ms`: 30000".to_owned()])
        );
        assert_eq!(of(json!({"timeout": "2.5"})).0, json!({"timeout_ms": 2_500}));
        assert_eq!(of(json!({"timeout": 120_000})).0, json!({"timeout_ms": 120_000}));
        assert_eq!(of(json!({"timeout_seconds": 1200})).0, json!({"timeout_ms": 1_200_000}));
        for left in
            [json!({"timeout": 5, "timeout_ms": 1}), json!({"timeout": -1}), json!({"timeout": "long"})]
        {
            assert_eq!(of(left.clone()).0, left);
        }
        let seconds = Spec { schema: json!({"properties": {"timeout": {}, "timeout_ms": {}}}), ..spec() };
        let given = json!({"timeout": 5});
        assert_eq!(repair(&seconds, Arguments::Json(given.clone())).unwrap().arguments, given);
    }

    #[test]
    fn valid_or_ambiguous_arguments_are_left_alone() {
        for value in [
            json!({"path": "200"}),
            json!({"path": "[\"a\"]"}),
            json!({"path": "null"}),
            json!({"limit": "many"}),
            json!({"limit": "1.5"}),
            json!({"limit": 1.5}),
            json!({"path": "a", "file_path": "b"}),
            json!({"unheard_of": 1}),
        ] {
            assert_eq!(repaired_value(value.clone()), (value, 0));
        }
    }

    /// Repairs arguments for a tool file with this schema.
    fn foreign(schema: Value, value: Value) -> Value {
        let origin = Origin::File("/t/t.py".into());
        let spec = Spec { schema, origin, ..spec() };
        repair(&spec, Arguments::Json(value)).unwrap().arguments
    }

    #[test]
    fn fields_of_a_foreign_schema_have_no_synonyms() {
        let schema = json!({"type": "object", "properties": {"path": {}, "pattern": {}, "content": {}, "file_name": {}}});
        for given in [
            json!({"file": "a"}),
            json!({"query": "a"}),
            json!({"text": "a"}),
            json!({"data": "a", "search": "b"}),
        ] {
            assert_eq!(foreign(schema.clone(), given.clone()), given);
        }
        assert_eq!(foreign(schema.clone(), json!({"fileName": "a"})), json!({"file_name": "a"}));
        let mut open = schema;
        open.as_object_mut().unwrap().insert("additionalProperties".to_owned(), json!({"type": "string"}));
        assert_eq!(foreign(open, json!({"fileName": "a"})), json!({"fileName": "a"}));
    }

    #[test]
    fn foreign_schema_may_declare_types_in_any_form() {
        let of = |schema: Value, value: Value| {
            let schema = json!({"properties": {"x": schema}, "$defs": {"n": {"type": "integer"}, "m": {"$ref": "#/$defs/n"},
                "ring": {"$ref": "#/$defs/ring"}, "o": {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}}}});
            foreign(schema, json!({ "x": value })).get("x").cloned()
        };
        for (schema, given, becomes) in [
            (json!({"type": ["integer", "null"]}), json!("5"), Some(json!(5))),
            (json!({"type": ["integer", "null"]}), json!(null), Some(json!(null))),
            (json!({"type": ["string", "integer"]}), json!("5"), Some(json!("5"))),
            (json!({"type": ["string", "null"]}), json!(5), Some(json!("5"))),
            (json!({"type": "string", "nullable": true}), json!(null), Some(json!(null))),
            (json!({"type": "string"}), json!(null), None),
            (json!({"type": "any"}), json!(null), Some(json!(null))),
            (json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}), json!("5"), Some(json!(5))),
            (json!({"oneOf": [{"type": "integer"}, {"type": "string"}]}), json!("5"), Some(json!("5"))),
            (json!({"type": "integer", "anyOf": [{"minimum": 1}]}), json!("5"), Some(json!(5))),
            (json!({"$ref": "#/$defs/m"}), json!("5"), Some(json!(5))),
            (json!({"$ref": "#/$defs/ring"}), json!("5"), Some(json!("5"))),
            (json!({"$ref": "elsewhere"}), json!(null), Some(json!(null))),
            (
                json!({"anyOf": [{"$ref": "#/$defs/o"}, {"type": "null"}]}),
                json!({"n": "5"}),
                Some(json!({"n": 5})),
            ),
            (json!({"enum": [1, 2]}), json!("2"), Some(json!(2))),
            (json!({"enum": ["1", "2"]}), json!(2), Some(json!("2"))),
            (json!({"enum": ["1", 2]}), json!("2"), Some(json!("2"))),
            (
                json!({"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}),
                json!([["1"], ["2", 3]]),
                Some(json!([[1], [2, 3]])),
            ),
            (json!({"type": "array", "items": {"type": "array"}}), json!("a"), Some(json!("a"))),
            (
                json!({"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]}),
                json!("[\"1\"]"),
                Some(json!([1])),
            ),
        ] {
            assert_eq!(of(schema.clone(), given), becomes, "{schema}");
        }
    }

    #[test]
    fn hostile_schema_is_left_alone_in_bounded_time() {
        let mut defs = Map::new();
        for index in 0..40 {
            let next = json!({"$ref": format!("#/$defs/d{}", index + 1)});
            defs.insert(format!("d{index}"), json!({"anyOf": [next.clone(), next]}));
        }
        defs.insert("d40".to_owned(), json!({"type": "integer"}));
        let schema = json!({"properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": defs});
        assert_eq!(foreign(schema, json!({"x": "a"})), json!({"x": "a"}));
    }

    #[test]
    fn broken_json_is_a_fault_and_never_an_empty_object() {
        for raw in ["{\"path\": \"a\"", "{path: a}", "[1]", "7", "{\"path\": \"a\"} trailing"] {
            let fault = repair(&spec(), Arguments::Raw(raw.to_owned())).unwrap_err();
            assert_eq!(fault.kind, kit::Kind::BadArgs, "{raw}");
            assert_eq!(fault.next.unwrap(), "For example {\"path\":\"…\"}.");
        }
        assert_eq!(repair(&spec(), Arguments::Raw("  ".to_owned())).unwrap().arguments, json!({}));
    }
}

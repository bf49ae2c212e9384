//! What did the model mean by arguments that are almost right?
//!
//! Only what is unambiguous is repaired, guided by the schema, and every repair is
//! told: a number in quotes where a number is wanted, a list in quotes where a list is
//! wanted, null for "not given", a well-known other name for a field that is missing.
//! A string is never touched where a string is wanted.

use kit::{Fault, Spec};
use serde_json::{Map, Value};

use crate::Arguments;

/// Names that models give to fields of these names.
const SYNONYMS: [(&str, &[&str]); 13] = [
    ("path", &["file_path", "filepath", "file", "filename", "file_name", "target_file", "notebook_path"]),
    ("dir", &["directory", "folder", "dir_path", "path"]),
    ("pattern", &["regex", "regexp", "query", "search", "glob_pattern"]),
    ("glob", &["include", "file_pattern", "glob_pattern"]),
    ("content", &["text", "contents", "file_text", "data"]),
    ("limit", &["max_results", "head_limit", "count", "num_lines", "max"]),
    ("offset", &["start", "start_line", "skip", "from_line"]),
    ("command", &["cmd", "script"]),
    ("mode", &["output_mode"]),
    ("ignore_case", &["case_insensitive", "_i", "i"]),
    ("end", &["end_line"]),
    ("new", &["new_text", "new_string", "new_str", "replacement"]),
    ("old", &["old_text", "old_string", "old_str"]),
];

/// Arguments that can be given to the tool, and what was done to them.
#[derive(Debug)]
pub(crate) struct Repaired {
    /// The arguments.
    pub(crate) arguments: Value,
    /// What was done, one line each.
    pub(crate) notes: Vec<String>,
}

/// Makes arguments fit the schema where it is clear what was meant.
///
/// # Errors
/// [`kit::Kind::BadArgs`] when they are no JSON, or no object: such arguments never
/// become an empty object.
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
    mend_object(object, &spec.schema, "", &mut notes);
    Ok(Repaired { arguments: value, notes })
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

/// Arguments with every required field, as they might look.
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

fn mend_object(object: &mut Map<String, Value>, schema: &Value, at: &str, notes: &mut Vec<String>) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    rename_synonyms(object, properties, at, notes);
    let absent: Vec<String> = object
        .iter()
        .filter(|(name, value)| value.is_null() && properties.get(*name).is_some_and(|it| !takes(it, "null")))
        .map(|(name, _)| name.clone())
        .collect();
    for name in absent {
        object.shift_remove(&name);
    }
    for (name, value) in object {
        if let Some(schema) = properties.get(name) {
            mend(value, schema, &join(at, name), notes);
        }
    }
}

/// Renames a field the tool doesn't have to the one it surely stands for: one that it
/// has, and that was not given.
fn rename_synonyms(
    object: &mut Map<String, Value>,
    properties: &Map<String, Value>,
    at: &str,
    notes: &mut Vec<String>,
) {
    let unknown: Vec<String> =
        object.keys().filter(|name| !properties.contains_key(*name)).cloned().collect();
    for name in unknown {
        let plain = snake(&name);
        let means = |field: &&String| {
            !object.contains_key(*field)
                && (snake(field) == plain
                    || SYNONYMS
                        .iter()
                        .any(|(it, others)| *it == field.as_str() && others.contains(&plain.as_str())))
        };
        let mut meant = properties.keys().filter(means);
        let (Some(field), None) = (meant.next().cloned(), meant.next()) else { continue };
        if let Some(value) = object.shift_remove(&name) {
            notes.push(format!("`{}` was read as `{}`", join(at, &name), join(at, &field)));
            object.insert(field, value);
        }
    }
}

/// `filePath`, `file-path` and `FILE_PATH` are one name.
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

fn mend(value: &mut Value, schema: &Value, at: &str, notes: &mut Vec<String>) {
    if let Value::String(text) = value
        && !takes(schema, "string")
        && let Some(meant) = unquote(text, schema)
    {
        notes.push(format!("`{at}` came in quotes and was read as {}", kind(&meant)));
        *value = meant;
    }
    if let Value::Number(number) = value
        && takes(schema, "string")
        && !takes(schema, "integer")
        && !takes(schema, "number")
    {
        notes.push(format!("`{at}` was read as a string"));
        *value = Value::String(number.to_string());
    }
    if let Value::Number(number) = value
        && takes(schema, "integer")
        && !takes(schema, "number")
        && let Some(whole) =
            number.as_f64().filter(|it| number.is_f64() && it.fract() == 0.0 && it.abs() < 9e15)
    {
        #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and small")]
        let whole = whole as i64;
        *value = Value::from(whole);
    }
    if takes(schema, "array") && !takes(schema, "string") && (value.is_object() || value.is_string()) {
        let items = schema.get("items");
        let fits =
            items.is_none_or(|items| takes(items, if value.is_object() { "object" } else { "string" }));
        if fits {
            notes.push(format!("`{at}` is a list and was given one item without the list"));
            *value = Value::Array(vec![value.take()]);
        }
    }
    match value {
        Value::Object(object) => mend_object(object, schema, at, notes),
        Value::Array(items) => {
            let Some(schema) = schema.get("items") else { return };
            for (index, item) in items.iter_mut().enumerate() {
                mend(item, schema, &format!("{at}[{index}]"), notes);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// What a string stands for where no string is wanted.
fn unquote(text: &str, schema: &Value) -> Option<Value> {
    let lower = text.trim().to_ascii_lowercase();
    if takes(schema, "boolean") && (lower == "true" || lower == "false") {
        return Some(Value::Bool(lower == "true"));
    }
    let meant: Value = serde_json::from_str(text.trim()).ok()?;
    let fits = match &meant {
        Value::Number(number) => takes(schema, "number") || (takes(schema, "integer") && !number.is_f64()),
        Value::Array(_) => takes(schema, "array"),
        Value::Object(_) => takes(schema, "object"),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    };
    fits.then_some(meant)
}

/// Does the schema allow a value of this type? A schema that says nothing allows all.
fn takes(schema: &Value, wanted: &str) -> bool {
    let any_of = |key: &str| schema.get(key).and_then(Value::as_array);
    if let Some(choices) = any_of("anyOf").or_else(|| any_of("oneOf")) {
        return choices.iter().any(|choice| takes(choice, wanted));
    }
    match schema.get("type") {
        Some(Value::String(one)) => one == wanted,
        Some(Value::Array(several)) => several.iter().any(|one| one == wanted),
        Some(_) => true,
        None => match schema.get("enum").and_then(Value::as_array) {
            Some(values) => values.iter().any(|value| json_type(value) == wanted),
            None => schema.get("const").is_none_or(|value| json_type(value) == wanted),
        },
    }
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
            origin: kit::Origin::Program,
        }
    }

    fn mended(value: Value) -> (Value, usize) {
        let repaired = repair(&spec(), Arguments::Json(value)).unwrap();
        (repaired.arguments, repaired.notes.len())
    }

    #[test]
    fn what_is_clear_is_repaired_and_told() {
        assert_eq!(mended(json!({"limit": "200"})), (json!({"limit": 200}), 1));
        assert_eq!(mended(json!({"limit": 200.0})), (json!({"limit": 200}), 0));
        assert_eq!(mended(json!({"all": "True"})), (json!({"all": true}), 1));
        assert_eq!(mended(json!({"names": "[\"a\"]"})), (json!({"names": ["a"]}), 1));
        assert_eq!(mended(json!({"names": "a"})), (json!({"names": ["a"]}), 1));
        assert_eq!(mended(json!({"edits": {"line": "3"}})), (json!({"edits": [{"line": 3}]}), 2));
        assert_eq!(mended(json!({"path": 404})), (json!({"path": "404"}), 1));
        assert_eq!(mended(json!({"limit": null})), (json!({}), 0));
        assert_eq!(mended(json!({"file_path": "a"})), (json!({"path": "a"}), 1));
        assert_eq!(mended(json!({"filePath": "a"})), (json!({"path": "a"}), 1));
        assert_eq!(mended(json!("{\"path\": \"a\"}")), (json!({"path": "a"}), 1));
    }

    #[test]
    fn what_is_right_or_unclear_is_left_alone() {
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
            assert_eq!(mended(value.clone()), (value, 0));
        }
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

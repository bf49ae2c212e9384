//! Structured output: the part of a JSON Schema that providers enforce while the model writes.
//!
//! Providers support a subset: objects with named fields and no others, and no limits on lengths and numbers.
//! The result here never has more fields than the schema itself; the caller checks the left-out limits on the
//! answer.

use serde_json::{Map, Value};

/// Maximum depth of a schema; providers refuse less deep ones already.
const DEEP: usize = 64;

/// Keywords that say nothing about the form of a value, or say it in a way that providers refuse.
const LEFT_OUT: [&str; 28] = [
    "$id",
    "$schema",
    "contains",
    "default",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "if",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "pattern",
    "then",
    "uniqueItems",
];

/// The part of a schema that providers can enforce.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Enforced {
    /// The schema, in their subset.
    pub(super) schema: Value,
    /// Whether every field of every object is required. OpenAI's strict mode supports nothing else.
    pub(super) all_required: bool,
}

/// Returns the part of this schema that can be enforced; `None` if its answers are not objects, or objects
/// with arbitrary names.
pub(super) fn enforced(schema: &Value) -> Option<Enforced> {
    let is_object = schema.get("type").and_then(Value::as_str) == Some("object");
    let mut all_required = true;
    let schema = part(schema, &mut all_required, 0).filter(|_| is_object)?;
    Some(Enforced { schema, all_required })
}

fn part(schema: &Value, all_required: &mut bool, depth: usize) -> Option<Value> {
    let fields = schema.as_object().filter(|_| depth < DEEP)?;
    let mut kept = Map::new();
    for (keyword, value) in fields {
        let value = match keyword.as_str() {
            left_out if LEFT_OUT.contains(&left_out) => continue,
            // Fields with unknown names can't be enforced.
            "patternProperties" | "propertyNames" | "unevaluatedProperties" => return None,
            "additionalProperties" => continue,
            "properties" | "$defs" | "definitions" => named(value, all_required, depth)?,
            "items" => part(value, all_required, depth + 1)?,
            "prefixItems" | "additionalItems" => return None,
            "anyOf" | "allOf" | "oneOf" => {
                let all = value.as_array()?.iter().map(|it| part(it, all_required, depth + 1));
                let keyword = if keyword == "oneOf" { "anyOf" } else { keyword };
                kept.insert(keyword.to_owned(), Value::Array(all.collect::<Option<_>>()?));
                continue;
            }
            _ => value.clone(),
        };
        kept.insert(keyword.clone(), value);
    }
    if is_object(fields) {
        let Some(properties) = fields.get("properties").and_then(Value::as_object) else {
            // An object with arbitrary fields.
            return None;
        };
        let required = |name: &String| {
            let named = fields.get("required").and_then(Value::as_array);
            named.is_some_and(|it| it.iter().any(|it| it.as_str() == Some(name)))
        };
        *all_required &= properties.keys().all(required);
        kept.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    Some(Value::Object(kept))
}

fn named(schemas: &Value, all_required: &mut bool, depth: usize) -> Option<Value> {
    let all = schemas.as_object()?.iter();
    let all = all.map(|(name, it)| Some((name.clone(), part(it, all_required, depth + 1)?)));
    Some(Value::Object(all.collect::<Option<_>>()?))
}

fn is_object(fields: &Map<String, Value>) -> bool {
    match fields.get("type") {
        Some(Value::String(kind)) => kind == "object",
        Some(Value::Array(kinds)) => kinds.iter().any(|it| it == "object"),
        _ => fields.contains_key("properties"),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    #[test]
    fn limits_are_left_out_and_no_field_is_added() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
                "count": {"type": "integer", "minimum": 0},
                "tags": {"type": "array", "items": {"oneOf": [{"type": "string", "maxLength": 9}, {"type": "null"}]}},
                "default": {"$ref": "#/$defs/place"},
            },
            "required": ["count", "tags", "default"],
            "$defs": {"place": {"type": "object", "properties": {"line": {"type": "integer"}}, "required": ["line"]}},
        });
        let enforced = enforced(&schema).unwrap();
        assert!(enforced.all_required);
        assert_eq!(
            enforced.schema,
            json!({
                "type": "object",
                "properties": {
                    "count": {"type": "integer"},
                    "tags": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
                    "default": {"$ref": "#/$defs/place"},
                },
                "required": ["count", "tags", "default"],
                "additionalProperties": false,
                "$defs": {"place": {
                    "type": "object",
                    "properties": {"line": {"type": "integer"}},
                    "required": ["line"],
                    "additionalProperties": false,
                }},
            })
        );
    }

    #[test]
    fn optional_fields_are_detected() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        assert!(!enforced(&schema).unwrap().all_required);
    }

    #[test]
    fn unenforceable_schemas_are_left_to_the_check() {
        for schema in [
            json!({"type": "array", "items": {"type": "string"}}),
            json!({"type": "string"}),
            json!(true),
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            json!({"type": "object", "properties": {"a": {"type": "object"}}}),
            json!({"type": "object", "properties": {}, "patternProperties": {"^x": {}}}),
        ] {
            assert_eq!(enforced(&schema), None, "{schema}");
        }
    }
}

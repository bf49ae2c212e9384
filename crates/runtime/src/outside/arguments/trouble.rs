//! What in a schema makes no sense, so that it is not checked?

use serde_json::{Map, Value};

use super::{TYPES, compile, resolve};

/// So much of a schema is looked at.
const NODES: usize = 10_000;
/// So many troubles are told.
const TOLD: usize = 5;
/// No text of JSON is nested deeper.
const DEEP: usize = 200;

/// What of this schema is not checked when the tool is called, and why: one line each. A tool whose schema has such parts
/// can be called all the same.
pub(crate) fn trouble(schema: &Value) -> Vec<String> {
    let mut look = Look { root: schema, nodes: 0, found: Vec::new() };
    look.schema(schema, "", 0);
    look.found.into_iter().map(|it| format!("schema: {it}; that is not checked")).collect()
}

struct Look<'a> {
    root: &'a Value,
    nodes: usize,
    found: Vec<String>,
}

/// What the value of a keyword must be.
enum Must {
    Schema,
    SchemaOrSchemas,
    Schemas,
    SchemasByName,
    Number,
    Count,
    Names,
    Values,
    Pattern,
    Reference,
    Type,
    /// It is one that is not known here.
    Unchecked,
}

impl Look<'_> {
    fn schema(&mut self, schema: &Value, at: &str, depth: usize) {
        self.nodes += 1;
        if self.nodes > NODES || self.found.len() >= TOLD || depth > DEEP {
            return;
        }
        let Value::Object(schema) = schema else {
            if !schema.is_boolean() {
                let name = if at.is_empty() { "it".to_owned() } else { format!("`{at}`") };
                self.found.push(format!("{name} is no schema"));
            }
            return;
        };
        for (keyword, value) in schema {
            let Some(must) = must_be(keyword, value) else { continue };
            let at = if at.is_empty() { keyword.clone() } else { format!("{at}.{keyword}") };
            if let Some(why) = self.why_not(schema, &must, value) {
                if self.found.len() < TOLD {
                    self.found.push(format!("`{at}` {why}"));
                }
                continue;
            }
            self.below(&must, value, &at, depth + 1);
        }
    }

    fn below(&mut self, must: &Must, value: &Value, at: &str, depth: usize) {
        match (must, value) {
            (Must::Schema | Must::SchemaOrSchemas, value) if !value.is_array() => {
                self.schema(value, at, depth)
            }
            (Must::Schemas | Must::SchemaOrSchemas, Value::Array(several)) => {
                for (index, one) in several.iter().enumerate() {
                    self.schema(one, &format!("{at}[{index}]"), depth);
                }
            }
            (Must::SchemasByName, Value::Object(several)) => {
                for (name, one) in several {
                    // Names alone are what the older `dependencies` may have.
                    if !one.is_array() {
                        self.schema(one, &format!("{at}.{name}"), depth);
                    }
                }
            }
            _ => {}
        }
    }

    fn why_not(&self, schema: &Map<String, Value>, must: &Must, value: &Value) -> Option<String> {
        let short: String = value.to_string().chars().take(60).collect();
        let text = value.as_str().unwrap_or_default();
        match must {
            Must::Schema => None,
            Must::SchemaOrSchemas | Must::SchemasByName if value.is_object() || value.is_boolean() => None,
            Must::Schemas | Must::SchemaOrSchemas => match value.as_array() {
                Some(several) if !several.is_empty() => None,
                _ => Some("is no list of schemas".to_owned()),
            },
            Must::SchemasByName => Some("does not name schemas".to_owned()),
            Must::Number => (!value.is_number()).then(|| format!("is {short}, which is no number")),
            Must::Count => (value.as_f64().is_none_or(|it| it < 0.0 || it.fract() != 0.0))
                .then(|| format!("is {short}, which is no count")),
            Must::Names => match value.as_array() {
                Some(names) if names.iter().all(Value::is_string) => None,
                _ => Some(format!("is {short}, which is no list of names")),
            },
            Must::Values => match value.as_array() {
                Some(values) if !values.is_empty() => None,
                _ => Some(format!("is {short}, which is no list of values")),
            },
            Must::Pattern if !value.is_string() => Some(format!("is {short}, which is no pattern")),
            Must::Pattern => {
                let error = compile(text).err()?;
                let last = error.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
                Some(format!("is {short}, which can't be followed ({last})"))
            }
            Must::Reference => {
                resolve(self.root, text).is_none().then(|| format!("is {short}, which leads nowhere in it"))
            }
            Must::Type => super::type_of(schema)
                .is_none()
                .then(|| format!("is {short}, which is none of {}", TYPES.join(", "))),
            Must::Unchecked => Some("is a word that is not known here".to_owned()),
        }
    }
}

fn must_be(keyword: &str, value: &Value) -> Option<Must> {
    Some(match keyword {
        "type" => Must::Type,
        "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas"
        | "dependencies" | "dependentRequired" => Must::SchemasByName,
        "items" => Must::SchemaOrSchemas,
        "additionalProperties"
        | "additionalItems"
        | "contains"
        | "propertyNames"
        | "not"
        | "if"
        | "then"
        | "else" => Must::Schema,
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => Must::Schemas,
        // In the oldest draft these are flags.
        "exclusiveMinimum" | "exclusiveMaximum" if value.is_boolean() => return None,
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => Must::Number,
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties"
        | "minContains" | "maxContains" => Must::Count,
        "required" => Must::Names,
        "enum" => Must::Values,
        "pattern" => Must::Pattern,
        "$ref" => Must::Reference,
        "unevaluatedProperties" | "unevaluatedItems" | "$dynamicRef" | "$recursiveRef" => Must::Unchecked,
        _ => return None,
    })
}

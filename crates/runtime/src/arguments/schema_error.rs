//! Schema errors: invalid schemas, and the parts of a schema that are not checked.

use serde_json::{Map, Value, json};

use super::{TYPES, compile, resolve};

/// Limit of visited nodes of a schema.
const NODES: usize = 10_000;
/// Limit of reported errors.
const TOLD: usize = 5;
/// Limit of depth: JSON text is not nested deeper.
const DEEP: usize = 200;

/// Converts a declared schema to one that every client accepts. Returns the parts that are not checked at a
/// call, one line each; a tool with such parts can still be called.
///
/// # Errors
/// The errors that make it an invalid JSON schema of an object, one line each: a model's API would refuse it,
/// and with it all other tools.
pub(crate) fn fitted(schema: &mut Value) -> Result<Vec<String>, String> {
    let Value::Object(fields) = schema else {
        return Err(format!("`{TOP}` is {}; it must be the JSON schema of an object", short(schema)));
    };
    if let Some(other) = fields.get("type").filter(|it| *it != "object") {
        return Err(format!("`{TOP}.type` is {}; it must be \"object\"", short(other)));
    }
    if !fields.contains_key("properties")
        && let Some((name, _)) = fields.iter().find(|(name, value)| is_misplaced(name, value))
    {
        return Err(format!(
            "`{TOP}.{name}` is not a word of JSON schemas; arguments belong into `{TOP}.properties`"
        ));
    }
    fields.entry("type").or_insert_with(|| json!("object"));
    fields.entry("properties").or_insert_with(|| json!({}));
    let mut look = Look { root: schema, nodes: 0, wrong: Vec::new(), unchecked: Vec::new() };
    look.schema(schema, TOP, 0);
    if !look.wrong.is_empty() {
        return Err(look.wrong.join("\n"));
    }
    Ok(look.unchecked.into_iter().map(|it| format!("schema: {it}; that is not checked")).collect())
}

/// Returns the errors in a schema of this name, and the parts that can't be checked, one line each.
pub(crate) fn troubles(schema: &Value, name: &str) -> (Vec<String>, Vec<String>) {
    let mut look = Look { root: schema, nodes: 0, wrong: Vec::new(), unchecked: Vec::new() };
    look.schema(schema, name, 0);
    (look.wrong, look.unchecked)
}

/// The name of the schema in messages.
const TOP: &str = "parameters";

/// Returns whether this field, at the top of a schema without properties, is a misplaced argument.
fn is_misplaced(name: &str, value: &Value) -> bool {
    let is_schema = value.as_object().is_some_and(|it| it.contains_key("type"));
    is_schema
        && must_be(name, value).is_none()
        && !matches!(name, "default" | "const")
        && !name.starts_with("x-")
}

fn short(value: &Value) -> String {
    value.to_string().chars().take(60).collect()
}

struct Look<'a> {
    root: &'a Value,
    nodes: usize,
    /// The errors.
    wrong: Vec<String>,
    /// The parts that are not checked.
    unchecked: Vec<String>,
}

/// The verdict on a keyword.
enum Flaw {
    Wrong(String),
    Unchecked(String),
}

/// The required form of a keyword's value.
enum Must {
    Schema,
    SchemaOrSchemas,
    Schemas,
    SchemasByName,
    Number,
    Count,
    Names,
    Values,
    Text,
    Pattern,
    Reference,
    Type,
    /// An unknown keyword.
    Unchecked,
}

impl Look<'_> {
    fn schema(&mut self, schema: &Value, at: &str, depth: usize) {
        self.nodes += 1;
        if self.nodes > NODES || self.wrong.len() >= TOLD || depth > DEEP {
            return;
        }
        let Value::Object(schema) = schema else {
            if !schema.is_boolean() {
                self.wrong.push(format!("`{at}` is {}; it must be a schema", short(schema)));
            }
            return;
        };
        for (keyword, value) in schema {
            let Some(must) = must_be(keyword, value) else { continue };
            let at = format!("{at}.{keyword}");
            if let Some(flaw) = self.flaw(schema, &must, value) {
                let (list, why) = match flaw {
                    Flaw::Wrong(why) => (&mut self.wrong, why),
                    Flaw::Unchecked(why) => (&mut self.unchecked, why),
                };
                if list.len() < TOLD {
                    list.push(format!("`{at}` is {}{why}", short(value)));
                }
                continue;
            }
            self.below(&must, value, &at, depth + 1);
        }
    }

    fn below(&mut self, must: &Must, value: &Value, at: &str, depth: usize) {
        match (must, value) {
            (Must::Schema | Must::SchemaOrSchemas, value) if !value.is_array() => {
                self.schema(value, at, depth);
            }
            (Must::Schemas | Must::SchemaOrSchemas, Value::Array(several)) => {
                for (index, one) in several.iter().enumerate() {
                    self.schema(one, &format!("{at}[{index}]"), depth);
                }
            }
            (Must::SchemasByName, Value::Object(several)) => {
                for (name, one) in several {
                    // The older `dependencies` may list just names.
                    if !one.is_array() {
                        self.schema(one, &format!("{at}.{name}"), depth);
                    }
                }
            }
            _ => {}
        }
    }

    fn flaw(&self, schema: &Map<String, Value>, must: &Must, value: &Value) -> Option<Flaw> {
        let text = value.as_str().unwrap_or_default();
        let are = |all: fn(&Value) -> bool| value.as_array().is_some_and(|it| it.iter().all(all));
        let is_filled = value.as_array().is_some_and(|it| !it.is_empty());
        let (is_right, wanted) = match must {
            Must::Schema => return None,
            Must::SchemasByName => (value.is_object(), "an object of schemas by their names"),
            Must::SchemaOrSchemas => (value.is_object() || value.is_boolean() || is_filled, "a schema"),
            Must::Schemas => (is_filled, "a list of schemas"),
            Must::Number => (value.is_number(), "a number"),
            Must::Count => {
                (value.as_f64().is_some_and(|it| it >= 0.0 && it.fract() == 0.0), "a whole number from 0")
            }
            Must::Names => (are(Value::is_string), "a list of names"),
            Must::Values => (is_filled, "a list of values"),
            Must::Text | Must::Pattern | Must::Reference if !value.is_string() => (false, "a string"),
            Must::Text => return None,
            Must::Pattern => {
                let error = compile(text).err()?;
                let last = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
                return Some(Flaw::Unchecked(format!(", which can't be followed ({last})")));
            }
            Must::Reference => {
                let leads = resolve(self.root, text).is_some();
                return (!leads).then(|| Flaw::Unchecked(", which leads nowhere in it".to_owned()));
            }
            Must::Type => {
                let wanted = || Flaw::Wrong(format!("; it must be one of {}", TYPES.join(", ")));
                return super::type_of(schema).is_none().then(wanted);
            }
            Must::Unchecked => return Some(Flaw::Unchecked(", by a word that is not known here".to_owned())),
        };
        (!is_right).then(|| Flaw::Wrong(format!("; it must be {wanted}")))
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
        "title" | "description" => Must::Text,
        "enum" => Must::Values,
        "pattern" => Must::Pattern,
        "$ref" => Must::Reference,
        "unevaluatedProperties" | "unevaluatedItems" | "$dynamicRef" | "$recursiveRef" => Must::Unchecked,
        _ => return None,
    })
}

//! A tool's schema in a few words, and the values of arguments written as text.

use kit::Spec;
use serde_json::{Map, Value, json};

/// Maximum depth of a schema that is shown.
const DEEPEST: usize = 4;

/// The arguments of a tool, the required ones first.
pub(super) struct Fields(pub(super) Vec<Field>);

/// One argument.
pub(super) struct Field {
    pub(super) name: String,
    /// The type, such as `string` or `[{old: string, all?: boolean}]`.
    pub(super) shape: String,
    pub(super) about: String,
    pub(super) required: bool,
    kind: Kind,
}

/// The type as which the text of an argument is parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Number,
    Bool,
    /// JSON, or a text if it is not JSON.
    Any,
}

/// The argument that a block's body stands for, by the tool's name.
const BODIES: [(&str, &str); 12] = [
    ("bash", "command"),
    ("python", "code"),
    ("edit", "diff"),
    ("write", "content"),
    ("read", "path"),
    ("glob", "pattern"),
    ("grep", "pattern"),
    ("tree", "path"),
    ("send_message", "message"),
    ("info", "tool_name"),
    ("read_job", "job_id"),
    ("subagent", "task"),
];

/// The argument in all other tools.
const BODY: &str = "content";

impl Fields {
    pub(super) fn of(schema: &Value) -> Self {
        let empty = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
        let fields = properties.iter().map(|(name, it)| Field {
            name: name.clone(),
            shape: shape(it, 0),
            about: it.get("description").and_then(Value::as_str).unwrap_or_default().to_owned(),
            required: needs(schema, name),
            kind: kind(it),
        });
        let mut fields: Vec<Field> = fields.collect();
        fields.sort_by_key(|it| !it.required);
        Self(fields)
    }

    pub(super) fn get(&self, name: &str) -> Option<&Field> {
        self.0.iter().find(|it| it.name == name)
    }
}

impl Field {
    /// Parses the text of the argument. Invalid text stays a text: the call reports the error.
    pub(super) fn read(&self, text: &str) -> Value {
        let json = |text: &str| serde_json::from_str::<Value>(text.trim()).ok();
        let read = match self.kind {
            Kind::Text => None,
            Kind::Number => json(text).filter(Value::is_number),
            Kind::Bool => match text.trim().to_ascii_lowercase().as_str() {
                "true" | "yes" | "1" => Some(Value::Bool(true)),
                "false" | "no" | "0" => Some(Value::Bool(false)),
                _ => None,
            },
            Kind::Any => json(text),
        };
        read.unwrap_or_else(|| Value::String(text.to_owned()))
    }

    /// Returns whether the argument is always a text.
    pub(super) fn is_text(&self) -> bool {
        self.kind == Kind::Text
    }

    /// Returns whether its text is parsed as JSON first.
    pub(super) fn is_json(&self) -> bool {
        self.kind == Kind::Any
    }
}

/// Returns the argument that a block's body stands for: the one in the table, if the tool has it; otherwise
/// its last required text, or its first text.
pub(super) fn body_of(spec: &Spec) -> Option<String> {
    let usual = BODIES.iter().find(|(tool, _)| *tool == spec.name).map_or(BODY, |(_, argument)| argument);
    let fields = Fields::of(&spec.schema);
    if fields.get(usual).is_some() {
        return Some(usual.to_owned());
    }
    let properties = spec.schema.get("properties");
    let texts = || {
        let is_word = |it: &&Field| {
            properties.and_then(|all| all.get(&it.name)).is_some_and(|it| it.get("enum").is_none())
        };
        fields.0.iter().filter(|it| matches!(it.kind, Kind::Text | Kind::Any)).filter(is_word)
    };
    let of_type = |it: &&Field| it.is_text() || it.shape == "any";
    let needed = texts().filter(of_type).rfind(|it| it.required);
    needed.or_else(|| texts().find(|it| it.is_text())).map(|it| it.name.clone())
}

/// Returns an example value of an argument.
pub(super) fn example(field: &Field) -> Value {
    match (field.kind, field.name.as_str()) {
        (Kind::Number, _) => json!(1),
        (Kind::Bool, _) => json!(true),
        (Kind::Any, _) if field.shape.starts_with('[') => json!([]),
        (Kind::Any, _) => json!({}),
        (Kind::Text, "path") => json!("src/main.rs"),
        (Kind::Text, "dir") => json!("src"),
        (Kind::Text, "command") => json!("ls -l"),
        (Kind::Text, "code") => json!("print(6 * 7)\n"),
        (Kind::Text, "pattern") => json!("TODO"),
        (Kind::Text, "content") => json!("The text.\n"),
        (Kind::Text, name) => json!(format!("the {name}")),
    }
}

fn needs(schema: &Value, name: &str) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    required.is_some_and(|all| all.iter().any(|it| it == name))
}

/// Returns the types that a schema names, if any.
fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(many)) => {
            many.iter().filter_map(Value::as_str).filter(|it| *it != "null").collect()
        }
        _ => Vec::new(),
    }
}

fn kind(schema: &Value) -> Kind {
    match types(schema).as_slice() {
        ["string"] => Kind::Text,
        ["integer" | "number"] => Kind::Number,
        ["boolean"] => Kind::Bool,
        [] if schema.get("enum").is_some() => Kind::Text,
        _ => Kind::Any,
    }
}

fn shape(schema: &Value, depth: usize) -> String {
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return values.iter().map(Value::to_string).collect::<Vec<_>>().join("|");
    }
    let choices = schema.get("anyOf").or_else(|| schema.get("oneOf")).and_then(Value::as_array);
    if let Some(choices) = choices {
        let shapes = choices.iter().map(|it| shape(it, depth + 1)).filter(|it| it != "null");
        return shapes.collect::<Vec<_>>().join("|");
    }
    match types(schema).as_slice() {
        [] => "any".to_owned(),
        ["array"] => match schema.get("items") {
            Some(items) if depth < DEEPEST => format!("[{}]", shape(items, depth + 1)),
            _ => "array".to_owned(),
        },
        ["object"] => match schema.get("properties").and_then(Value::as_object) {
            Some(properties) if depth < DEEPEST => {
                let fields = properties.iter().map(|(name, it)| {
                    let optional = if needs(schema, name) { "" } else { "?" };
                    format!("{name}{optional}: {}", shape(it, depth + 1))
                });
                format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
            }
            _ => "object".to_owned(),
        },
        types => types.join("|"),
    }
}

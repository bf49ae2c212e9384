//! A tool's definition as a manual for people.

use serde_json::{Map, Value};

use crate::Spec;

impl Spec {
    /// Returns its description and its arguments as Markdown.
    pub fn manual(&self) -> String {
        let mut text = format!("# {}\n\n{}\n\n## Arguments\n\n", self.name, self.description);
        let required = names(self.schema.get("required"));
        let properties = self.schema.get("properties").and_then(Value::as_object);
        if properties.is_none_or(Map::is_empty) {
            text.push_str("None.\n");
        }
        describe(&mut text, properties, &required, "");
        text
    }

    /// Returns the first sentence of its description, cut to one line.
    pub fn gist(&self) -> String {
        first_sentence(&self.description)
    }

    /// Returns a sentence for each required argument with an enumeration of values: `` `action` is one of
    /// "save", "search".``
    pub fn choices(&self) -> String {
        let properties = self.schema.get("properties").and_then(Value::as_object);
        let of = |name: &&str| Some(format!("`{name}` is one of {}.", one_of(properties?.get(*name)?)?));
        names(self.schema.get("required")).iter().filter_map(of).collect::<Vec<_>>().join(" ")
    }

    /// Returns its arguments in one line: `path (string, required), limit (integer)`.
    pub fn arguments(&self) -> String {
        let required = names(self.schema.get("required"));
        let properties = self.schema.get("properties").and_then(Value::as_object);
        let each = properties.into_iter().flatten().map(|(name, schema)| {
            let must = if required.contains(&name.as_str()) { ", required" } else { "" };
            format!("{name} ({}{must})", kind(schema))
        });
        let all: Vec<String> = each.collect();
        if all.is_empty() { "none".to_owned() } else { all.join(", ") }
    }
}

/// Returns the first sentence of a description, cut to one line.
fn first_sentence(description: &str) -> String {
    const CHARS: usize = 140;
    let line = description.trim().lines().next().unwrap_or_default();
    let begins_anew = |at: usize| {
        // Not after `e.g. this`.
        line.get(at + 2..).and_then(|rest| rest.chars().next()).is_none_or(|it| !it.is_lowercase())
    };
    let end = line.match_indices(". ").map(|(at, _)| at).find(|at| begins_anew(*at));
    let sentence = end.and_then(|at| line.get(..=at)).unwrap_or(line);
    match sentence.char_indices().nth(CHARS) {
        Some((at, _)) => format!("{}…", sentence.get(..at).unwrap_or_default()),
        None => sentence.to_owned(),
    }
}

fn kind(schema: &Value) -> &str {
    schema.get("type").and_then(Value::as_str).unwrap_or("value")
}

/// Returns the values that an argument, or each item of it, may have: `"save", "search"`.
fn one_of(schema: &Value) -> Option<String> {
    let of_items = || schema.get("items").and_then(|it| it.get("enum"));
    let values = schema.get("enum").or_else(of_items).and_then(Value::as_array)?;
    let values: Vec<String> = values.iter().filter(|it| !it.is_null()).map(Value::to_string).collect();
    (!values.is_empty()).then(|| values.join(", "))
}

/// Adds one line for each argument; those of the items of a list are indented below it.
fn describe(text: &mut String, properties: Option<&Map<String, Value>>, required: &[&str], indent: &str) {
    for (name, schema) in properties.into_iter().flatten() {
        let must = if required.contains(&name.as_str()) { ", required" } else { "" };
        let says = schema.get("description").and_then(Value::as_str).unwrap_or_default();
        let says = if says.is_empty() { String::new() } else { format!(": {says}") };
        let values = one_of(schema).map(|it| format!(", one of {it}")).unwrap_or_default();
        text.push_str(&format!("{indent}- `{name}` ({}{values}{must}){says}\n", kind(schema)));
        if let Some(items) = schema.get("items") {
            let below = items.get("properties").and_then(Value::as_object);
            describe(text, below, &names(items.get("required")), &format!("{indent}  "));
        }
    }
}

fn names(list: Option<&Value>) -> Vec<&str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Kinds, Mode, Origin};

    #[test]
    fn a_gist_is_a_sentence() {
        assert_eq!(first_sentence("Do it, e.g. this. Then that."), "Do it, e.g. this.");
        assert_eq!(first_sentence("No end"), "No end");
        assert_eq!(first_sentence("One line\nand another"), "One line");
        assert_eq!(first_sentence(&"x".repeat(500)).chars().count(), 141);
    }

    #[test]
    fn an_argument_without_a_description_ends_with_its_type() {
        let spec = Spec {
            name: "greet".to_owned(),
            description: "Greet.".to_owned(),
            schema: json!({"type": "object", "required": ["who", "how"], "properties": {
                "who": {"type": "string"},
                "loud": {"type": "boolean", "description": "Shout."},
                "how": {"type": "string", "enum": ["low", "high"]},
            }}),
            mode: Mode::Direct,
            at_most: Kinds::READ,
            output: None,
            origin: Origin::Program,
        };
        let text = spec.manual();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.contains(&"- `loud` (boolean): Shout."), "{text}");
        assert!(lines.contains(&"- `who` (string, required)"), "{text}");
        assert!(lines.contains(&"- `how` (string, one of \"low\", \"high\", required)"), "{text}");
        assert_eq!(spec.choices(), "`how` is one of \"low\", \"high\".");
    }
}

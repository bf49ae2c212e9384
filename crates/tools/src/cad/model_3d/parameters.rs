//! JSON values as OpenSCAD literals.

use kit::Fault;
use serde_json::{Map, Value};

/// Maximum size of all parameters.
const MOST: usize = 64 << 10;
/// Maximum nesting of lists.
const DEEPEST: usize = 8;

/// Returns each parameter as `name=value`.
pub(super) fn definitions(parameters: &Map<String, Value>) -> Result<Vec<String>, Fault> {
    let mut definitions = Vec::new();
    for (name, value) in parameters {
        let bare = name.strip_prefix('$').unwrap_or(name);
        let begins = bare.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_');
        if !begins || !bare.chars().all(|it| it.is_ascii_alphanumeric() || it == '_') {
            return Err(Fault::bad_args(format!(
                "`{}` in `parameters` is not a name of a variable",
                name.escape_debug()
            )));
        }
        let mut text = format!("{name}=");
        say(name, value, 0, &mut text)?;
        definitions.push(text);
    }
    if definitions.iter().map(String::len).sum::<usize>() > MOST {
        return Err(Fault::bad_args(format!("`parameters` are longer than {MOST} bytes"))
            .next("Write them into a file and `include` it."));
    }
    Ok(definitions)
}

fn say(name: &str, value: &Value, depth: usize, into: &mut String) -> Result<(), Fault> {
    match value {
        Value::Null => into.push_str("undef"),
        Value::Bool(value) => into.push_str(if *value { "true" } else { "false" }),
        Value::Number(value) => into.push_str(&value.to_string()),
        Value::String(value) if value.contains('\0') => {
            return Err(Fault::bad_args(format!("`parameters.{name}` contains a NUL character")));
        }
        Value::String(value) => {
            into.push('"');
            for letter in value.chars() {
                match letter {
                    '"' | '\\' => into.extend(['\\', letter]),
                    '\n' => into.push_str("\\n"),
                    '\r' => into.push_str("\\r"),
                    '\t' => into.push_str("\\t"),
                    letter => into.push(letter),
                }
            }
            into.push('"');
        }
        Value::Array(values) if depth < DEEPEST => {
            into.push('[');
            for value in values {
                say(name, value, depth + 1, into)?;
                into.push(',');
            }
            into.push(']');
        }
        Value::Array(_) | Value::Object(_) => {
            return Err(Fault::bad_args(format!("`parameters.{name}` is nothing that OpenSCAD has"))
                .next("Give a number, a string, a boolean, or a list of them."));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    fn said(value: &Value) -> Result<Vec<String>, Fault> {
        definitions(value.as_object().unwrap())
    }

    #[test]
    fn a_value_stays_a_value_whatever_is_in_it() {
        let values = json!({"a": 1.5, "b": "x\"; cube(9); //\\", "$fn": 64, "c": [1, [true, null], "é\n"], "d": -2e-7});
        assert_eq!(
            said(&values).unwrap(),
            ["a=1.5", "b=\"x\\\"; cube(9); //\\\\\"", "$fn=64", "c=[1,[true,undef,],\"é\\n\",]", "d=-2e-7"]
        );
    }

    #[test]
    fn invalid_names_and_values_are_refused() {
        for bad in
            [json!({"a;b": 1}), json!({"": 1}), json!({"1a": 1}), json!({"a": {"b": 1}}), json!({"a": "\0"})]
        {
            assert!(said(&bad).is_err(), "{bad}");
        }
        let deep = (0..20).fold(json!(1), |it, _| json!([it]));
        assert!(said(&json!({ "a": deep })).is_err());
        assert!(said(&json!({"a": "x".repeat(100_000)})).is_err());
    }
}

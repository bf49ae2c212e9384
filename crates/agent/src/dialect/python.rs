//! Python literals: converts them to JSON and back.

use serde_json::{Map, Number, Value};

/// Maximum depth of a literal.
const DEEPEST: usize = 64;

/// Parses a literal of dicts, lists, tuples, strings, numbers, `True`, `False` and `None`; returns `None` for
/// anything else.
pub(super) fn literal(text: &str) -> Option<Value> {
    let mut reader = Reader { rest: text };
    let value = reader.value(0)?;
    reader.blank();
    reader.rest.is_empty().then_some(value)
}

/// Writes these fields as a dict, in their order.
pub(super) fn written(fields: &[(&str, &Value)]) -> String {
    let fields = fields.iter().map(|(name, it)| format!("'{name}': {}", write(it)));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
}

fn write(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        // JSON's escapes mean the same in Python, except for surrogate pairs, which are never written.
        Value::Number(_) | Value::String(_) => value.to_string(),
        Value::Array(all) => format!("[{}]", all.iter().map(write).collect::<Vec<_>>().join(", ")),
        Value::Object(all) => {
            let fields =
                all.iter().map(|(name, it)| format!("{}: {}", Value::from(name.as_str()), write(it)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
    }
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn blank(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, what: &str) -> bool {
        let rest = self.rest.strip_prefix(what);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let c = chars.next();
        self.rest = chars.as_str();
        c
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        self.blank();
        if depth > DEEPEST {
            return None;
        }
        match self.rest.chars().next()? {
            '{' => self.dict(depth),
            '[' => self.list(']', depth).map(|(items, _)| Value::Array(items)),
            '(' => self.list(')', depth).map(|(mut items, comma)| match items.pop() {
                Some(only) if items.is_empty() && !comma => only,
                last => Value::Array(items.into_iter().chain(last).collect()),
            }),
            '"' | '\'' | 'r' => self.strings(),
            _ => self.word(),
        }
    }

    fn dict(&mut self, depth: usize) -> Option<Value> {
        self.next();
        let mut fields = Map::new();
        loop {
            self.blank();
            if self.take("}") {
                return Some(Value::Object(fields));
            }
            let Value::String(key) = self.strings()? else { return None };
            self.blank();
            if !self.take(":") {
                return None;
            }
            fields.insert(key, self.value(depth + 1)?);
            self.blank();
            if !self.take(",") && !self.rest.starts_with('}') {
                return None;
            }
        }
    }

    /// Parses the items, and returns whether a comma follows the last one.
    fn list(&mut self, close: char, depth: usize) -> Option<(Vec<Value>, bool)> {
        self.next();
        let (mut items, mut comma) = (Vec::new(), false);
        loop {
            self.blank();
            if self.rest.starts_with(close) {
                self.next();
                return Some((items, comma));
            }
            items.push(self.value(depth + 1)?);
            self.blank();
            comma = self.take(",");
            if !comma && !self.rest.starts_with(close) {
                return None;
            }
        }
    }

    /// Parses a string, or several adjacent ones, which are one.
    fn strings(&mut self) -> Option<Value> {
        let mut text = String::new();
        loop {
            let raw = self.take("r");
            let mark = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|it| self.take(it))?;
            self.string(mark, raw, &mut text)?;
            self.blank();
            if !self.rest.starts_with(['"', '\'']) {
                return Some(Value::String(text));
            }
        }
    }

    fn string(&mut self, mark: &str, raw: bool, text: &mut String) -> Option<()> {
        while !self.take(mark) {
            match self.next()? {
                '\\' if raw => text.extend(['\\', self.next()?]),
                '\\' => self.escape(text)?,
                '\n' if mark.len() == 1 => return None,
                c => text.push(c),
            }
        }
        Some(())
    }

    fn escape(&mut self, text: &mut String) -> Option<()> {
        let c = self.next()?;
        let plain = match c {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            '0' => '\0',
            '\\' | '\'' | '"' => c,
            'x' => self.code(2)?,
            'u' => self.code(4)?,
            'U' => self.code(8)?,
            '\n' => return Some(()),
            _ => {
                text.push('\\');
                c
            }
        };
        text.push(plain);
        Some(())
    }

    /// Parses a character of `digits` hexadecimal digits.
    fn code(&mut self, digits: usize) -> Option<char> {
        let (code, rest) = self.rest.split_at_checked(digits)?;
        self.rest = rest;
        char::from_u32(u32::from_str_radix(code, 16).ok()?)
    }

    fn word(&mut self) -> Option<Value> {
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && !"+-._".contains(c));
        let (word, rest) = self.rest.split_at_checked(end.unwrap_or(self.rest.len()))?;
        self.rest = rest;
        match word {
            "True" | "true" => Some(Value::Bool(true)),
            "False" | "false" => Some(Value::Bool(false)),
            "None" | "null" => Some(Value::Null),
            number => serde_json::from_str::<Number>(number).ok().map(Value::Number),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn literals_are_parsed_as_python_does() {
        let check = |text: &str, value: Value| assert_eq!(literal(text), Some(value), "{text}");
        check(
            "{'a': 1, \"b\": [True, False, None,], 'c': (1.5, -2)}",
            json!({"a": 1, "b": [true, false, null], "c": [1.5, -2]}),
        );
        check(r"'it\'s \x41\u00fc\n'", json!("it's Aü\n"));
        check("'''a\n'b' c'''", json!("a\n'b' c"));
        check(r"r'\d+'", json!(r"\d+"));
        check("('a'\n 'b')", json!("ab"));
        check("('a',)", json!(["a"]));
        check(" {} ", json!({}));
        for text in ["{'a' 1}", "'a\nb'", "{'a': __import__('os')}", "[1", "1 2", "", "'\\x4'"] {
            assert_eq!(literal(text), None, "{text}");
        }
        assert_eq!(literal(&"[".repeat(1000)), None);
    }
}

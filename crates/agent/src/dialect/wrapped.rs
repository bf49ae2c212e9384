//! Calls as objects between tags: `<json>`, `<tool_call>`, `<tool_use>`.

use serde_json::{Map, Value, json};

use super::{
    parse::{Opening, Verdict},
    python,
};
use crate::model::ResultOf;

/// The syntax of a dialect with objects between fixed tags.
pub(super) struct Wrapped {
    open: &'static str,
    pub(super) close: &'static str,
    /// The tags of a result.
    result: (&'static str, &'static str),
    name: &'static str,
    input: &'static str,
    /// The field of a result that contains its text.
    output: &'static str,
    literal: Literal,
}

/// The notation of the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Literal {
    Json,
    /// A Python literal, or JSON.
    Python,
}

/// HyperAgents' dialect.
pub(super) const JSON: Wrapped = Wrapped {
    open: "<json>",
    close: "</json>",
    result: ("<json>", "</json>"),
    name: "tool_name",
    input: "tool_input",
    output: "tool_output",
    literal: Literal::Json,
};

/// The dialect of the Hermes models, and of models with the same training.
pub(super) const HERMES: Wrapped = Wrapped {
    open: "<tool_call>",
    close: "</tool_call>",
    result: ("<tool_response>", "</tool_response>"),
    name: "name",
    input: "arguments",
    output: "content",
    literal: Literal::Json,
};

/// DGM's dialect.
pub(super) const TOOL_USE: Wrapped = Wrapped {
    open: "<tool_use>",
    close: "</tool_use>",
    result: ("<tool_result>", "</tool_result>"),
    literal: Literal::Python,
    ..JSON
};

impl Wrapped {
    pub(super) fn begins(&self, c: char) -> Option<Opening> {
        self.open.starts_with(c).then(|| Opening::Fixed(c.len_utf8()))
    }

    /// Adds a character to the opening tag. A tag opens a block only if an object follows, so that a text can
    /// mention the tag.
    pub(super) fn opens(&self, seen: &mut usize, c: char) -> Verdict {
        match self.open.get(*seen..).unwrap_or_default().chars().next() {
            Some(next) if next == c => {
                *seen += c.len_utf8();
                Verdict::Maybe
            }
            None if c == '{' => Verdict::Open,
            None if c.is_whitespace() => Verdict::Maybe,
            Some(_) | None => Verdict::No,
        }
    }

    pub(super) fn quotes(&self) -> Quotes {
        let marks = if self.literal == Literal::Python { "\"'" } else { "\"" };
        Quotes { marks, within: None, escaped: false }
    }

    /// Returns the tool's name, if the object begins with it and it is complete.
    pub(super) fn named<'a>(&self, body: &'a str) -> Option<&'a str> {
        let quoted = |text: &'a str| -> Option<(&'a str, &'a str)> {
            let mark = text.chars().next().filter(|it| self.quotes().marks.contains(*it))?;
            text.get(1..)?.split_once(mark)
        };
        let (key, rest) = quoted(body.trim_start().strip_prefix('{')?.trim_start())?;
        let (name, _) = quoted(rest.trim_start().strip_prefix(':')?.trim_start())?;
        (key == self.name && !name.is_empty() && !name.contains(['\\', '\n'])).then_some(name)
    }

    /// Returns the call; `None` if it is not an object or lacks one of the two keys.
    pub(super) fn call(&self, body: &str) -> Option<(String, String)> {
        let read: Option<Value> = match (serde_json::from_str(body), self.literal) {
            (Ok(read), _) => Some(read),
            (Err(_), Literal::Python) => python::literal(body),
            (Err(_), Literal::Json) => None,
        };
        let Some(read) = read else { return self.broken(body) };
        // A result that the model invented is not a call.
        if self.name == JSON.name && read.get(self.output).is_some() {
            return None;
        }
        let name = read.get(self.name)?.as_str()?.to_owned();
        let arguments = match read.get(self.input)? {
            // JSON within JSON is taken as it is.
            Value::String(text) => text.clone(),
            input => input.to_string(),
        };
        Some((name, arguments))
    }

    /// Returns a call whose object is invalid but clearly a call: with its arguments unchanged, so that the
    /// call repairs them or reports the error.
    fn broken(&self, body: &str) -> Option<(String, String)> {
        let name = self.named(body)?;
        let (_, rest) = body.split_once(self.input)?;
        let (_, rest) = rest.split_once(':')?;
        let arguments = rest.trim().strip_suffix('}')?.trim();
        arguments.starts_with('{').then(|| (name.to_owned(), arguments.to_owned()))
    }

    /// Returns whether the name and the input were begun, in this order.
    pub(super) fn is_cut(&self, body: &str) -> bool {
        body.split_once(self.name).is_some_and(|(_, rest)| rest.contains(self.input))
    }

    pub(super) fn write(&self, tool: &str, read: Option<Map<String, Value>>, arguments: &str) -> String {
        let input = read.map_or_else(|| Value::String(arguments.to_owned()), Value::Object);
        let (open, close) = (self.open, self.close);
        let object = match self.literal {
            Literal::Json => unclosing(&ordered(&[(self.name, &json!(tool)), (self.input, &input)])),
            Literal::Python => {
                let call = [(self.name, &json!(tool)), (self.input, &input)];
                // Not as in JSON: in Python, `\/` is two characters.
                python::written(&call).replace("</", "<\\x2f")
            }
        };
        format!("{open}\n{object}\n{close}")
    }

    pub(super) fn result(&self, result: &ResultOf, arguments: &str, text: &str) -> String {
        let input: Value =
            serde_json::from_str(arguments).unwrap_or_else(|_| Value::String(arguments.to_owned()));
        let (tool, output, failed) = (json!(result.tool), json!(text), json!(true));
        let mut fields = vec![(self.name, &tool)];
        if self.name == JSON.name {
            fields.push((self.input, &input));
        }
        fields.push((self.output, &output));
        if !result.ok {
            fields.push(("is_error", &failed));
        }
        let (open, close) = self.result;
        format!("{open}\n{}\n{close}", unclosing(&ordered(&fields)))
    }

    pub(super) fn words(&self) -> String {
        let (open, close) = (self.open, self.close);
        let (result, _) = self.result;
        let object = match self.literal {
            Literal::Json => "valid JSON: line breaks within a text are `\\n`, quotes `\\\"`",
            Literal::Python => "a Python literal",
        };
        format!(
            "- Between {open} and {close} is one object: {object}. It has `{}` and `{}`.\n\
             - A result comes in {result}, with the text as `{}`; with `is_error` the call has failed.\n",
            self.name, self.input, self.output
        )
    }
}

/// Writes these fields as an object, in this order.
fn ordered(fields: &[(&str, &Value)]) -> String {
    let fields = fields.iter().map(|(name, it)| format!("{}: {it}", Value::from(*name)));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
}

/// Returns the same object without text that looks like a closing tag: `</` can only occur within a string.
fn unclosing(object: &str) -> String {
    object.replace("</", "<\\/")
}

/// Tracks whether the end of the text so far is within a quoted string. A closing tag there closes nothing.
pub(super) struct Quotes {
    marks: &'static str,
    within: Option<char>,
    escaped: bool,
}

impl Quotes {
    /// Creates a tracker that ignores quotes.
    pub(super) fn ignored() -> Self {
        Self { marks: "", within: None, escaped: false }
    }

    pub(super) fn push(&mut self, c: char) {
        match self.within {
            Some(_) if std::mem::take(&mut self.escaped) => {}
            Some(_) if c == '\\' => self.escaped = true,
            Some(mark) if mark == c => self.within = None,
            Some(_) => {}
            None if self.marks.contains(c) => self.within = Some(c),
            None => {}
        }
    }

    pub(super) fn open(&self) -> bool {
        self.within.is_some()
    }
}

//! Calls as objects between tags: `<json>`, `<tool_call>`, `<tool_use>`.

use serde_json::{Map, Value, json};

use super::{
    parse::{Opening, Verdict},
    python,
};
use crate::model::ResultOf;

/// A dialect of this kind.
pub(super) struct Wrapped {
    open: &'static str,
    pub(super) close: &'static str,
    /// The tags of a result.
    result: (&'static str, &'static str),
    name: &'static str,
    input: &'static str,
    /// Under this name a result has its text.
    output: &'static str,
    literal: Literal,
}

/// How the object is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Literal {
    Json,
    /// As Python writes it; JSON is understood as well.
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

/// The dialect of the Hermes models, and of those that were trained like them.
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

    /// A tag opens a block only where an object follows: then a text can name the tag.
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

    /// The tool's name, if the object begins with it and it is there as a whole.
    pub(super) fn named<'a>(&self, body: &'a str) -> Option<&'a str> {
        let quoted = |text: &'a str| -> Option<(&'a str, &'a str)> {
            let mark = text.chars().next().filter(|it| self.quotes().marks.contains(*it))?;
            text.get(1..)?.split_once(mark)
        };
        let (key, rest) = quoted(body.trim_start().strip_prefix('{')?.trim_start())?;
        let (name, _) = quoted(rest.trim_start().strip_prefix(':')?.trim_start())?;
        (key == self.name && !name.is_empty() && !name.contains(['\\', '\n'])).then_some(name)
    }

    /// The call that this is; nothing, if it is not an object or has not both keys.
    pub(super) fn call(&self, body: &str) -> Option<(String, String)> {
        let read: Option<Value> = match (serde_json::from_str(body), self.literal) {
            (Ok(read), _) => Some(read),
            (Err(_), Literal::Python) => python::literal(body),
            (Err(_), Literal::Json) => None,
        };
        let Some(read) = read else { return self.broken(body) };
        // A result that the model made up is not a call.
        if self.name == JSON.name && read.get(self.output).is_some() {
            return None;
        }
        let name = read.get(self.name)?.as_str()?.to_owned();
        let arguments = match read.get(self.input)? {
            // Written as JSON within JSON: taken as it is.
            Value::String(text) => text.clone(),
            input => input.to_string(),
        };
        Some((name, arguments))
    }

    /// A call whose object can't be read, but plainly is one: its arguments as they stand, for the call to mend or to say
    /// what is wrong with them.
    fn broken(&self, body: &str) -> Option<(String, String)> {
        let name = self.named(body)?;
        let (_, rest) = body.split_once(self.input)?;
        let (_, rest) = rest.split_once(':')?;
        let arguments = rest.trim().strip_suffix('}')?.trim();
        arguments.starts_with('{').then(|| (name.to_owned(), arguments.to_owned()))
    }

    /// The name and the input were begun, in this order.
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
                // Not as in JSON: there `\/` would be two characters.
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

/// These fields as an object, in this order.
fn ordered(fields: &[(&str, &Value)]) -> String {
    let fields = fields.iter().map(|(name, it)| format!("{}: {it}", Value::from(*name)));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
}

/// The same object, without anything in it that looks like a closing tag: `</` can only be within a text.
fn unclosing(object: &str) -> String {
    object.replace("</", "<\\/")
}

/// Is the end of what was written so far within a quoted text? A closing tag there closes nothing.
pub(super) struct Quotes {
    marks: &'static str,
    within: Option<char>,
    escaped: bool,
}

impl Quotes {
    /// Quotes mean nothing here.
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

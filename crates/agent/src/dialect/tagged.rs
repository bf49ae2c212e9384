//! Calls as blocks whose tags are the tool's name: bracket, xml, and custom formats.

use kit::Spec;
pub use runtime::config::ArgStyle;
use runtime::config::DialectSection;
use serde_json::{Map, Value};

use super::{parse::Verdict, schema, syntax::Known};

/// The form of a block's tags and the place of its arguments. The fields are those of the format object in
/// KohakuTerrarium.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Format {
    /// The first character of a tag.
    pub start_char: char,
    /// The last character of a tag.
    pub end_char: char,
    /// Whether the slash before the name opens a block and the one after it closes it: `[/read]`, `[read/]`.
    pub slash_means_open: bool,
    /// The place of arguments.
    pub arg_style: ArgStyle,
    /// The beginning of an argument line.
    pub arg_prefix: String,
    /// The separator between an argument's name and its value.
    pub arg_kv_sep: String,
}

/// Arguments that consist of lines: their last line break is part of them. All others are trimmed.
const LINES: [&str; 4] = ["code", "content", "diff", "file_text"];

/// The entities of characters in a tag.
const ENTITIES: [(&str, &str); 7] = [
    ("amp;", "&"),
    ("quot;", "\""),
    ("apos;", "'"),
    ("lt;", "<"),
    ("gt;", ">"),
    ("#10;", "\n"),
    ("#13;", "\r"),
];

impl Default for Format {
    fn default() -> Self {
        Self::bracket()
    }
}

/// Omitted fields are as in `bracket`.
impl From<DialectSection> for Format {
    fn from(section: DialectSection) -> Self {
        let DialectSection { start_char, end_char, slash_means_open, arg_style, arg_prefix, arg_kv_sep } =
            section;
        let usual = Self::bracket();
        Self {
            start_char: start_char.unwrap_or(usual.start_char),
            end_char: end_char.unwrap_or(usual.end_char),
            slash_means_open: slash_means_open.unwrap_or(usual.slash_means_open),
            arg_style: arg_style.unwrap_or(usual.arg_style),
            arg_prefix: arg_prefix.unwrap_or(usual.arg_prefix),
            arg_kv_sep: arg_kv_sep.unwrap_or(usual.arg_kv_sep),
        }
    }
}

impl Format {
    /// Returns the format `[/read]`, `@@path=src/main.rs`, `[read/]`.
    pub fn bracket() -> Self {
        Self {
            start_char: '[',
            end_char: ']',
            slash_means_open: true,
            arg_style: ArgStyle::Line,
            arg_prefix: "@@".to_owned(),
            arg_kv_sep: "=".to_owned(),
        }
    }

    /// Returns the format `<read path="src/main.rs"/>`.
    pub fn xml() -> Self {
        Self {
            start_char: '<',
            end_char: '>',
            slash_means_open: false,
            arg_style: ArgStyle::Inline,
            arg_prefix: String::new(),
            arg_kv_sep: "=".to_owned(),
        }
    }

    /// Returns why calls in this format can't be distinguished from text, if they can't.
    pub(super) fn flaw(&self) -> Option<&'static str> {
        let unfit = |c: char| c.is_alphanumeric() || c.is_whitespace() || "/_\"'`\\".contains(c);
        if unfit(self.start_char) || unfit(self.end_char) {
            return Some("`start_char` and `end_char` must be marks such as `<` and `>`");
        }
        if self.arg_kv_sep.is_empty() || self.arg_kv_sep.contains(|c: char| is_word(c) || c.is_whitespace()) {
            return Some("`arg_kv_sep` must be marks such as `=`");
        }
        if self.arg_style == ArgStyle::Line && self.arg_prefix.trim().is_empty() {
            return Some("`arg_prefix` must be marks such as `@@`");
        }
        None
    }

    fn open(&self, name: &str, inline: &str) -> String {
        let slash = if self.slash_means_open { "/" } else { "" };
        format!("{}{slash}{name}{inline}{}", self.start_char, self.end_char)
    }

    pub(super) fn close(&self, name: &str) -> String {
        let (before, after) = if self.slash_means_open { ("", "/") } else { ("/", "") };
        format!("{}{before}{name}{after}{}", self.start_char, self.end_char)
    }
}

/// The syntax of a dialect with tagged blocks.
pub(super) struct Tagged {
    pub(super) format: Format,
}

impl Tagged {
    pub(super) fn begins(&self, c: char) -> Option<Tag> {
        let part = if self.format.slash_means_open { Part::Slash } else { Part::Name };
        (c == self.format.start_char).then(|| Tag { name: String::new(), given: Vec::new(), part })
    }

    pub(super) fn body_of(&self, spec: &Spec) -> Option<String> {
        schema::body_of(spec)
    }

    /// Returns the arguments of a block. A named argument takes precedence over the body.
    pub(super) fn arguments(&self, tool: &Known, tag: &Tag, body: Option<&str>) -> Value {
        let mut arguments = Map::new();
        let mut give = |name: &str, text: &str| {
            let value = tool.fields.get(name).map_or_else(|| Value::from(text), |it| it.read(text));
            arguments.insert(name.to_owned(), value);
        };
        for (name, text) in &tag.given {
            give(name, text);
        }
        let mut body = body.unwrap_or_default();
        body = body.strip_prefix("\r\n").or_else(|| body.strip_prefix('\n')).unwrap_or(body);
        while let Some((name, text, rest)) = self.line(body) {
            let quoted = serde_json::from_str::<String>(text).ok();
            match quoted {
                Some(text) if !is_json(Some(tool), name) => give(name, &text),
                _ => give(name, text),
            }
            body = rest;
        }
        let Some(name) = tool.body.as_deref().filter(|it| !arguments.contains_key(*it)) else {
            return Value::Object(arguments);
        };
        let lines = LINES.contains(&name);
        let needed = tool.fields.get(name).is_some_and(|it| it.required);
        if !body.trim().is_empty() || (lines && needed) {
            let text = if lines { body } else { body.trim() };
            let value = tool.fields.get(name).map_or_else(|| Value::from(text), |it| it.read(text));
            arguments.insert(name.to_owned(), value);
        }
        Value::Object(arguments)
    }

    /// Splits an argument line off a text: returns its name, its value, and the text after the line.
    fn line<'a>(&self, text: &'a str) -> Option<(&'a str, &'a str, &'a str)> {
        if self.format.arg_style == ArgStyle::Inline {
            return None;
        }
        let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
        let (name, value) =
            line.strip_prefix(&self.format.arg_prefix)?.split_once(&self.format.arg_kv_sep)?;
        // A blank before the name is not allowed: `@@ x = 1` is a line of a diff.
        let name = name.trim_end();
        let is_name = !name.is_empty() && name.chars().all(is_word);
        is_name.then(|| (name, value.trim(), rest))
    }

    /// Writes a call as a block. The body's argument becomes the body, if it parses back to the same text.
    pub(super) fn write(
        &self,
        tool: &str,
        known: Option<&Known>,
        read: Option<Map<String, Value>>,
        raw: &str,
    ) -> String {
        let close = self.format.close(tool);
        let Some(mut arguments) = read else {
            return format!("{}\n{raw}\n{close}", self.format.open(tool, ""));
        };
        let place = known.and_then(|it| it.body.as_deref());
        let body = place.and_then(|name| {
            let text = arguments.get(name)?.as_str()?;
            let is_text = known.and_then(|it| it.fields.get(name)).is_none_or(schema::Field::is_text);
            let fits = is_text && self.fits(name, text, &close);
            fits.then(|| text.to_owned())
        });
        if body.is_some() {
            place.map(|name| arguments.remove(name));
        }
        let body =
            body.map(|text| if place.is_some_and(|it| LINES.contains(&it)) { text } else { text + "\n" });
        match self.format.arg_style {
            ArgStyle::Line => {
                let (prefix, sep) = (&self.format.arg_prefix, &self.format.arg_kv_sep);
                let lines: String = arguments
                    .iter()
                    .map(|(name, it)| {
                        format!("{prefix}{name}{sep}{}\n", on_a_line(it, is_json(known, name), &close))
                    })
                    .collect();
                format!("{}\n{lines}{}{close}", self.format.open(tool, ""), body.unwrap_or_default())
            }
            ArgStyle::Inline => {
                let sep = &self.format.arg_kv_sep;
                let given: String = arguments
                    .iter()
                    .map(|(name, it)| format!(" {name}{sep}\"{}\"", in_a_tag(it, is_json(known, name))))
                    .collect();
                match body {
                    None if !self.format.slash_means_open => self.format.open(tool, &(given + "/")),
                    body => {
                        format!("{}\n{}{close}", self.format.open(tool, &given), body.unwrap_or_default())
                    }
                }
            }
        }
    }

    /// Returns whether this text, as a body, parses back to itself.
    fn fits(&self, name: &str, text: &str, close: &str) -> bool {
        let trimmed = LINES.contains(&name) || (text.trim() == text && !text.is_empty());
        trimmed && !text.trim().is_empty() && !text.contains(close) && self.line(text).is_none()
    }

    pub(super) fn words(&self) -> String {
        let Format { arg_prefix, arg_kv_sep, .. } = &self.format;
        let (open, close) = (self.format.open("NAME", ""), self.format.close("NAME"));
        let arguments = match self.format.arg_style {
            ArgStyle::Line => format!(
                "{open} opens a call and {close} closes it, and both stand as they are. Right after {open} each argument has a line of its own, `{arg_prefix}argument{arg_kv_sep}value`; a text with line breaks as a JSON string (\"a\\nb\"). What follows these lines is the body"
            ),
            ArgStyle::Inline => format!(
                "{} opens a call and {close} closes it. Arguments are in the opening tag, in quotes, with &quot; and &amp; where the value has them. What is between the tags is the body, as it is",
                self.format.open("NAME", &format!(" argument{arg_kv_sep}\"value\""))
            ),
        };
        format!(
            "- {arguments}: the value of the argument marked `body`. It ends at {close}. Lists and objects are JSON.\n\
             - A result begins with `## id tool - OK` or `## id tool - ERROR`.\n"
        )
    }
}

/// Writes a value on a line; as a JSON string, if the plain text would not parse back to itself.
fn on_a_line(value: &Value, is_json: bool, close: &str) -> String {
    // A closing tag has a slash, which JSON can escape.
    let harmless = |json: String| if json.contains(close) { json.replace('/', "\\/") } else { json };
    let Value::String(text) = value else { return harmless(value.to_string()) };
    let plain = !text.contains(['\n', '\r']) && !text.starts_with('"') && text.trim() == text;
    let plain = plain && !text.contains(close) && !(is_json && is_json_text(text));
    if plain { text.clone() } else { harmless(value.to_string()) }
}

/// Writes a value in a tag.
fn in_a_tag(value: &Value, is_json: bool) -> String {
    let text = match value {
        Value::String(text) if !(is_json && is_json_text(text)) => text.clone(),
        other => other.to_string(),
    };
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match ENTITIES.iter().find(|(_, means)| means.starts_with(c)) {
            Some((name, _)) if c != '\'' => {
                escaped.push('&');
                escaped.push_str(name);
            }
            _ => escaped.push(c),
        }
    }
    escaped
}

/// Returns whether the text of this argument is parsed as JSON first.
fn is_json(tool: Option<&Known>, name: &str) -> bool {
    tool.and_then(|it| it.fields.get(name)).is_some_and(schema::Field::is_json)
}

fn is_json_text(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok()
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn is_name(c: char) -> bool {
    is_word(c) || "-.:".contains(c)
}

/// An opening tag, as far as it is written.
pub(super) struct Tag {
    pub(super) name: String,
    /// The arguments in the tag.
    given: Vec<(String, String)>,
    part: Part,
}

/// The current part of a tag.
enum Part {
    Slash,
    Name,
    Gap,
    Key(String),
    /// The name, and the number of bytes so far of the separator after it.
    Sep(String, usize),
    Value {
        key: String,
        quote: char,
        value: String,
    },
    /// A value has been closed.
    Given,
    /// Only the end of the tag can follow.
    Ending,
}

impl Tag {
    /// Adds the next character.
    pub(super) fn push(&mut self, c: char, tagged: &Tagged, tools: &[Known]) -> Verdict {
        let format = &tagged.format;
        let inline = format.arg_style == ArgStyle::Inline;
        let part = std::mem::replace(&mut self.part, Part::Gap);
        self.part = match part {
            Part::Slash if c == '/' => Part::Name,
            Part::Name if is_name(c) => {
                self.name.push(c);
                if !tools.iter().any(|it| it.name.starts_with(&self.name)) {
                    return Verdict::No;
                }
                Part::Name
            }
            Part::Name if !tools.iter().any(|it| it.name == self.name) => return Verdict::No,
            Part::Name | Part::Gap | Part::Given if c == format.end_char => return Verdict::Open,
            Part::Name | Part::Gap | Part::Given if inline && c == '/' => Part::Ending,
            Part::Name | Part::Gap | Part::Given if inline && c.is_whitespace() => Part::Gap,
            Part::Gap if inline && is_word(c) => Part::Key(c.to_string()),
            Part::Key(mut key) if is_word(c) => {
                key.push(c);
                Part::Key(key)
            }
            Part::Key(key) if format.arg_kv_sep.starts_with(c) => Part::Sep(key, c.len_utf8()),
            Part::Sep(key, seen) => match format.arg_kv_sep.get(seen..).unwrap_or_default().chars().next() {
                Some(next) if next == c => Part::Sep(key, seen + c.len_utf8()),
                None if c == '"' || c == '\'' => Part::Value { key, quote: c, value: String::new() },
                Some(_) | None => return Verdict::No,
            },
            Part::Value { key, quote, value } if c == quote => {
                self.given.push((key, unescaped(&value)));
                Part::Given
            }
            Part::Value { key, quote, mut value } => {
                value.push(c);
                Part::Value { key, quote, value }
            }
            Part::Ending if c == format.end_char => return Verdict::Whole,
            Part::Slash | Part::Name | Part::Gap | Part::Key(_) | Part::Given | Part::Ending => {
                return Verdict::No;
            }
        };
        Verdict::Maybe
    }
}

/// Decodes the entities of a value in a tag. Unknown entities stay as they are.
fn unescaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    let mut rest = value;
    while let Some((before, after)) = rest.split_once('&') {
        text.push_str(before);
        let found = ENTITIES.iter().find_map(|(name, means)| Some((after.strip_prefix(name)?, means)));
        let (after, means) = found.unwrap_or((after, &"&"));
        text.push_str(means);
        rest = after;
    }
    text + rest
}

//! JSON values that keep every number as the file writes it.
//!
//! `serde_json` would round numbers beyond 64 bits, and takes three times the memory.

use std::borrow::Cow;

use jsonc_parser::{Scanner, ScannerOptions, tokens::Token};
use kit::{Fault, Kind};

use super::json::DEEPEST;

/// JSON's own tokens and comments; the parser allows trailing commas as well.
const TOKENS: ScannerOptions = ScannerOptions {
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// A value of a JSON text.
#[derive(Debug)]
pub(crate) enum Node<'t> {
    Null,
    Bool(bool),
    /// As written in the text.
    Number(&'t str),
    String(Cow<'t, str>),
    List(Box<[Self]>),
    /// In the order of the file. Of several members with one name the last one counts.
    Object(Box<[(Cow<'t, str>, Self)]>),
}

/// One step of the path to a value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step<'t> {
    Name(&'t str),
    Index(usize),
}

impl<'t> Node<'t> {
    /// Parses JSON, with optional comments and trailing commas.
    ///
    /// # Errors
    /// [`Kind::BadArgs`] with line and column, [`Kind::TooBig`] when it is nested too deep.
    pub(crate) fn parse(path: &str, text: &'t str) -> Result<Self, Fault> {
        let mut parser = Parser { path, text, scanner: Scanner::new(text, &TOKENS), deep: 0 };
        let Some(token) = parser.next()? else {
            return Err(Fault::bad_args(format!("`{path}` is not JSON: there is no value in it")));
        };
        let whole = parser.value(token)?;
        match parser.next()? {
            None => Ok(whole),
            Some(_) => Err(parser.wrong("one value is over, and more follows")),
        }
    }

    /// Returns the number of members or items.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::List(items) => items.len(),
            Self::Object(members) => members.len(),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::String(_) => 0,
        }
    }

    /// Returns the member or item at an index, in the file's order.
    pub(crate) fn child(&self, at: usize) -> Option<(Step<'_>, &Self)> {
        match self {
            Self::List(items) => Some((Step::Index(at), items.get(at)?)),
            Self::Object(members) => members.get(at).map(|(name, value)| (Step::Name(name), value)),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::String(_) => None,
        }
    }

    /// Returns all members or items.
    pub(crate) fn children(&self) -> impl Iterator<Item = (Step<'_>, &Self)> {
        (0..self.len()).filter_map(|at| self.child(at))
    }

    /// Returns the member of this name.
    pub(crate) fn member(&self, name: &str) -> Option<&Self> {
        let Self::Object(members) = self else { return None };
        members.iter().rev().find(|(it, _)| it == name).map(|(_, value)| value)
    }

    /// Returns the value that a JSON Pointer refers to.
    pub(crate) fn pointer(&self, pointer: &str) -> Option<&Self> {
        let mut node = self;
        for step in pointer.split('/').skip(1) {
            let name = step.replace("~1", "/").replace("~0", "~");
            node = match node {
                Self::List(items) => items.get(index(&name)?)?,
                _ => node.member(&name)?,
            };
        }
        Some(node)
    }

    /// Formats the value as JSON on one line.
    pub(crate) fn compact(&self) -> String {
        let mut print = Print { text: String::new(), most: usize::MAX, wide: 0 };
        print.value(self, None);
        print.text
    }

    /// Formats the value as JSON with one member on each line; `None` if that is longer than `most`.
    #[cfg(test)]
    fn pretty(&self, most: usize) -> Option<String> {
        let mut print = Print { text: String::new(), most, wide: 0 };
        print.value(self, Some(0)).then_some(print.text)
    }

    /// Like [`pretty`](Self::pretty), with short values on one line: half as long, and easier to read.
    pub(crate) fn spread(&self, most: usize) -> Option<String> {
        let mut print = Print { text: String::new(), most, wide: WIDE };
        print.value(self, Some(0)).then_some(print.text)
    }

    /// Formats the value on one line with a blank after each comma and colon; `None` if that is longer than `most`.
    fn inline(&self, most: usize) -> Option<String> {
        let mut print = Print { text: String::new(), most, wide: usize::MAX };
        print.value(self, None).then_some(print.text)
    }
}

/// Formats the path to a value as a JSON Pointer.
pub(crate) fn pointer_of(way: &[Step<'_>]) -> String {
    let mut pointer = String::new();
    for step in way {
        pointer.push('/');
        match step {
            Step::Name(name) => pointer.push_str(&name.replace('~', "~0").replace('/', "~1")),
            Step::Index(at) => pointer.push_str(&at.to_string()),
        }
    }
    pointer
}

/// Parses an index of a JSON Pointer: no sign, no leading zero.
pub(crate) fn index(name: &str) -> Option<usize> {
    let plain = name == "0" || !name.starts_with('0');
    if plain && name.bytes().all(|it| it.is_ascii_digit()) { name.parse().ok() } else { None }
}

struct Parser<'p, 't> {
    path: &'p str,
    text: &'t str,
    scanner: Scanner<'t>,
    deep: usize,
}

impl<'t> Parser<'_, 't> {
    fn next(&mut self) -> Result<Option<Token<'t>>, Fault> {
        loop {
            let token = self
                .scanner
                .scan()
                .map_err(|error| Fault::bad_args(format!("`{}` is not JSON: {error}", self.path)))?;
            if !matches!(token, Some(Token::CommentLine(_) | Token::CommentBlock(_))) {
                return Ok(token);
            }
        }
    }

    fn must(&mut self, what: &str) -> Result<Token<'t>, Fault> {
        self.next()?.ok_or_else(|| self.wrong(&format!("it ends where {what} is expected")))
    }

    fn value(&mut self, token: Token<'t>) -> Result<Node<'t>, Fault> {
        Ok(match token {
            Token::Null => Node::Null,
            Token::Boolean(it) => Node::Bool(it),
            Token::Number(it) => Node::Number(it),
            Token::String(it) => Node::String(it),
            Token::OpenBracket | Token::OpenBrace => {
                self.deep += 1;
                if self.deep > DEEPEST {
                    return Err(Fault::new(
                        Kind::TooBig,
                        format!("`{}` is nested more than {DEEPEST} levels deep", self.path),
                    ));
                }
                let node = if token == Token::OpenBrace { self.object() } else { self.list() };
                self.deep -= 1;
                node?
            }
            _ => return Err(self.wrong("a value is expected")),
        })
    }

    fn list(&mut self) -> Result<Node<'t>, Fault> {
        let mut items = Vec::new();
        loop {
            match self.must("an item or `]`")? {
                Token::CloseBracket => break,
                token => items.push(self.value(token)?),
            }
            match self.must("`,` or `]`")? {
                Token::Comma => {}
                Token::CloseBracket => break,
                _ => return Err(self.wrong("`,` or `]` is expected")),
            }
        }
        Ok(Node::List(items.into()))
    }

    fn object(&mut self) -> Result<Node<'t>, Fault> {
        let mut members = Vec::new();
        loop {
            let name = match self.must("a name or `}`")? {
                Token::CloseBrace => break,
                Token::String(name) => name,
                _ => return Err(self.wrong("a name in quotes or `}` is expected")),
            };
            if self.must("`:`")? != Token::Colon {
                return Err(self.wrong("`:` is expected"));
            }
            let token = self.must("a value")?;
            members.push((name, self.value(token)?));
            match self.must("`,` or `}`")? {
                Token::Comma => {}
                Token::CloseBrace => break,
                _ => return Err(self.wrong("`,` or `}` is expected")),
            }
        }
        Ok(Node::Object(members.into()))
    }

    fn wrong(&self, what: &str) -> Fault {
        let before = self.text.get(..self.scanner.token_start()).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Fault::bad_args(format!("`{}` is not JSON: {what}, on line {line} column {column}", self.path))
    }
}

/// Maximum columns of a value on one line.
const WIDE: usize = 100;

/// JSON being written; every function returns whether it still fits.
struct Print {
    text: String,
    most: usize,
    /// Values up to this width are on one line; 0 for none.
    wide: usize,
}

impl Print {
    fn put(&mut self, text: &str) -> bool {
        self.text.push_str(text);
        self.text.len() <= self.most
    }

    fn value(&mut self, node: &Node<'_>, indent: Option<usize>) -> bool {
        match node {
            Node::Null => self.put("null"),
            Node::Bool(it) => self.put(if *it { "true" } else { "false" }),
            Node::Number(it) => self.put(it),
            Node::String(it) => self.string(it),
            Node::List(_) => self.all(node, "[", "]", indent),
            Node::Object(_) => self.all(node, "{", "}", indent),
        }
    }

    fn string(&mut self, text: &str) -> bool {
        if text.len() > self.most.saturating_sub(self.text.len()) {
            return false;
        }
        self.put(&serde_json::to_string(text).unwrap_or_default())
    }

    fn all(&mut self, node: &Node<'_>, open: &str, close: &str, indent: Option<usize>) -> bool {
        if let Some(deep) = indent.filter(|_| self.wide > 0)
            && let Some(line) = node.inline(self.wide.saturating_sub(deep * 2))
        {
            return self.put(&line);
        }
        let blank = if indent.is_none() && self.wide > 0 { " " } else { "" };
        let below = indent.map(|it| it + 1).filter(|_| node.len() > 0);
        let fits = self.put(open)
            && node.children().enumerate().all(|(count, (step, value))| {
                (count == 0 || self.put(",") && self.put(blank))
                    && self.line(below)
                    && match step {
                        Step::Name(name) => {
                            self.string(name)
                                && self.put(if indent.is_some() { ": " } else { ":" })
                                && self.put(blank)
                        }
                        Step::Index(_) => true,
                    }
                    && self.value(value, below)
            });
        fits && self.line(below.and(indent)) && self.put(close)
    }

    fn line(&mut self, indent: Option<usize>) -> bool {
        indent.is_none_or(|deep| self.put("\n") && (0..deep).all(|_| self.put("  ")))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn output_equals_that_of_serde() {
        for text in [
            r#"{"a":[1,{"b":[],"c":{}},"x\n\u0001\"ü"],"d":null,"e":true,"":false}"#,
            "[]",
            "[[[]]]",
            "\"\\ud83d\\ude00\"",
            "-0.5",
        ] {
            let value: serde_json::Value = serde_json::from_str(text).unwrap();
            let node = Node::parse("f", text).unwrap();
            assert_eq!(node.compact(), value.to_string());
            assert_eq!(node.pretty(1000).unwrap(), serde_json::to_string_pretty(&value).unwrap());
        }
    }

    #[test]
    fn numbers_are_kept_as_written_and_errors_have_a_position() {
        let text = "[12345678901234567890123, 1.10, 1e999, /* c */ 18446744073709551615,] // end";
        let node = Node::parse("f", text).unwrap();
        assert_eq!(node.compact(), "[12345678901234567890123,1.10,1e999,18446744073709551615]");
        for (text, says) in [
            ("", "there is no value in it"),
            ("[1 2]", "`,` or `]` is expected, on line 1 column 4"),
            ("{\"a\"\n 1}", "`:` is expected, on line 2 column 2"),
            ("{a: 1}", "a name in quotes or `}` is expected, on line 1 column 2"),
            ("[1", "it ends where `,` or `]` is expected"),
            ("[,]", "a value is expected"),
            ("{} {}", "one value is over, and more follows"),
            ("{]", "a name in quotes"),
        ] {
            let fault = Node::parse("f", text).unwrap_err();
            assert!(fault.what.contains(says), "{text}: {}", fault.what);
        }
        for text in
            ["[+1]", "[01]", "[.5]", "[5.]", "[0x1]", "[NaN]", "['a']", "[\"a", "[1e]", "[-]", "[tru]"]
        {
            assert!(Node::parse("f", text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_last_of_several_members_with_one_name_counts() {
        let node = Node::parse("f", r#"{"a": 1, "a": 2}"#).unwrap();
        assert_eq!(node.pointer("/a").unwrap().compact(), "2");
    }

    #[test]
    fn short_values_stay_on_a_line_and_wide_ones_are_spread() {
        let row = r#"{"id": 0, "v": [0, 0], "e": {}}"#;
        let long = "x".repeat(100);
        let text = format!(r#"{{"rows": [{row}, {row}, {row}, {row}], "long": ["{long}", 1]}}"#);
        let expected = format!(
            "{{\n  \"rows\": [\n    {row},\n    {row},\n    {row},\n    {row}\n  ],\n  \"long\": [\n    \"{long}\",\n    1\n  ]\n}}"
        );
        let node = Node::parse("f", &text).unwrap();
        assert_eq!(node.spread(1000).unwrap(), expected);
        assert!(node.spread(100).is_none());
        // The work is bounded: nested lists are tried once for each level, and no further than a line.
        let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
        assert_eq!(Node::parse("f", &deep).unwrap().spread(1 << 20).unwrap().lines().count(), 199);
    }

    #[test]
    fn values_that_do_not_fit_are_not_printed() {
        assert!(Node::parse("f", "[1,2,3]").unwrap().pretty(8).is_none());
    }
}

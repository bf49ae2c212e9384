//! `JSONPath` parser.

use std::borrow::Cow;

use kit::Fault;

use super::json_tree::Node;

/// Maximum length of a query.
const LONGEST: usize = 1000;

/// Maximum nesting of filters, parentheses and functions.
const DEEPEST: usize = 8;

/// A parsed query.
#[derive(Debug)]
pub(crate) struct Path<'q> {
    pub(super) segments: Vec<Segment<'q>>,
}

/// One step of a query.
#[derive(Debug)]
pub(super) struct Segment<'q> {
    /// Whether it also visits every value below: `..`.
    pub(super) descends: bool,
    pub(super) selectors: Vec<Selector<'q>>,
}

#[derive(Debug)]
pub(super) enum Selector<'q> {
    Name(String),
    All,
    Index(i64),
    Slice { start: Option<i64>, end: Option<i64>, step: i64 },
    Filter(Expr<'q>),
}

#[derive(Debug)]
pub(super) enum Expr<'q> {
    Any(Vec<Self>),
    All(Vec<Self>),
    Not(Box<Self>),
    Exists(Vec<Segment<'q>>),
    Compare(Operand<'q>, Compare, Operand<'q>),
}

#[derive(Debug)]
pub(super) enum Operand<'q> {
    Literal(Node<'q>),
    /// Selects one value at most.
    Query(Vec<Segment<'q>>),
    Length(Box<Self>),
    Count(Vec<Segment<'q>>),
    Value(Vec<Segment<'q>>),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Compare {
    Equal,
    NotEqual,
    LessOrEqual,
    GreaterOrEqual,
    Less,
    Greater,
}

/// In the order in which they are tried: the longer ones first.
const COMPARES: [(&str, Compare); 6] = [
    ("==", Compare::Equal),
    ("!=", Compare::NotEqual),
    ("<=", Compare::LessOrEqual),
    (">=", Compare::GreaterOrEqual),
    ("<", Compare::Less),
    (">", Compare::Greater),
];

impl<'q> Path<'q> {
    /// Parses a query.
    ///
    /// # Errors
    /// [`Kind::BadArgs`](kit::Kind::BadArgs): the error, and its place.
    pub(crate) fn parse(query: &'q str) -> Result<Self, Fault> {
        if query.len() > LONGEST {
            return Err(Fault::bad_args(format!(
                "`query` has {} bytes, and at most {LONGEST} are read",
                query.len()
            ))
            .next("Begin it further down with `pointer`.".to_owned()));
        }
        let mut parser = Parser { query, rest: query, deep: 0 };
        if !parser.take("$") {
            return Err(parser.wrong("it begins with `$`"));
        }
        let segments = parser.segments()?;
        if parser.rest.is_empty() {
            Ok(Self { segments })
        } else {
            Err(parser.wrong("this can't follow here"))
        }
    }
}

struct Parser<'q> {
    query: &'q str,
    /// The text that is not parsed yet.
    rest: &'q str,
    deep: usize,
}

impl<'q> Parser<'q> {
    fn take(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn must(&mut self, text: &str) -> Result<(), Fault> {
        if self.take(text) { Ok(()) } else { Err(self.wrong(&format!("`{text}` is expected"))) }
    }

    fn space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
    }

    fn next(&self) -> Option<char> {
        self.rest.chars().next()
    }

    /// Consumes the characters that match.
    fn run(&mut self, part: impl Fn(char) -> bool) -> &'q str {
        let end = self.rest.find(|it| !part(it)).unwrap_or(self.rest.len());
        let (run, rest) = self.rest.split_at_checked(end).unwrap_or_default();
        self.rest = rest;
        run
    }

    fn wrong(&self, what: &str) -> Fault {
        let at = self.query.len() - self.rest.len();
        Fault::bad_args(format!("`{}` is not a JSONPath: {what}, at byte {at}", self.query))
            .next("For example `$..name`, `$.items[0].id`, `$.items[?@.price < 10]`.".to_owned())
    }

    fn deeper<T>(&mut self, inside: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<T, Fault> {
        if self.deep == DEEPEST {
            return Err(Fault::bad_args(format!(
                "`query` has more than {DEEPEST} filters, parentheses and functions within one another"
            ))
            .next("Begin it further down with `pointer`, or ask in several queries.".to_owned()));
        }
        self.deep += 1;
        let done = inside(self);
        self.deep -= 1;
        done
    }

    fn segments(&mut self) -> Result<Vec<Segment<'q>>, Fault> {
        let mut segments = Vec::new();
        loop {
            self.space();
            let descends = self.take("..");
            let selectors = if self.take("[") {
                self.selectors()?
            } else if descends || self.take(".") {
                vec![if self.take("*") { Selector::All } else { Selector::Name(self.name()?) }]
            } else {
                return Ok(segments);
            };
            segments.push(Segment { descends, selectors });
        }
    }

    fn name(&mut self) -> Result<String, Fault> {
        let is_first = |it: char| it.is_ascii_alphabetic() || it == '_' || !it.is_ascii();
        if !self.next().is_some_and(is_first) {
            return Err(self.wrong("a name is expected; one of other letters is written as `['a-b']`"));
        }
        Ok(self.run(|it| is_first(it) || it.is_ascii_digit()).to_owned())
    }

    fn selectors(&mut self) -> Result<Vec<Selector<'q>>, Fault> {
        let mut selectors = Vec::new();
        loop {
            self.space();
            selectors.push(self.selector()?);
            self.space();
            if !self.take(",") {
                break;
            }
        }
        self.must("]")?;
        Ok(selectors)
    }

    fn selector(&mut self) -> Result<Selector<'q>, Fault> {
        if matches!(self.next(), Some('\'' | '"')) {
            return Ok(Selector::Name(self.string()?));
        }
        if self.take("*") {
            return Ok(Selector::All);
        }
        if self.take("?") {
            return Ok(Selector::Filter(self.deeper(Self::any)?));
        }
        let start = self.integer()?;
        self.space();
        if !self.take(":") {
            return match start {
                Some(at) => Ok(Selector::Index(at)),
                None => Err(self.wrong("a name in quotes, an index, a slice, `*` or `?` is expected")),
            };
        }
        self.space();
        let end = self.integer()?;
        self.space();
        let mut step = None;
        if self.take(":") {
            self.space();
            step = self.integer()?;
        }
        Ok(Selector::Slice { start, end, step: step.unwrap_or(1) })
    }

    fn integer(&mut self) -> Result<Option<i64>, Fault> {
        let before = self.rest;
        let text = self.run(|it| it == '-' || it.is_ascii_digit());
        if text.is_empty() {
            return Ok(None);
        }
        // The largest integer that every JSON reader represents exactly.
        let most = (1_i64 << 53) - 1;
        match text.parse::<i64>() {
            Ok(it) if (-most..=most).contains(&it) && it.to_string() == text => Ok(Some(it)),
            _ => {
                self.rest = before;
                Err(self.wrong("this is not an index"))
            }
        }
    }

    fn string(&mut self) -> Result<String, Fault> {
        let before = self.rest;
        let quote = if self.take("'") { '\'' } else { '"' };
        if quote == '"' {
            self.must("\"")?;
        }
        // Converted to a JSON string, which has other quotes.
        let mut json = String::from('"');
        let mut letters = self.rest.chars();
        while let Some(letter) = letters.next() {
            match letter {
                _ if letter == quote => {
                    json.push('"');
                    self.rest = letters.as_str();
                    return serde_json::from_str(&json).map_err(|_| {
                        self.rest = before;
                        self.wrong("this string has an escape or a character that JSON doesn't allow")
                    });
                }
                '\\' => match letters.next() {
                    Some('\'') if quote == '\'' => json.push('\''),
                    // Meaningless within single quotes: not allowed.
                    Some('"') if quote == '\'' => json.push_str("\\'"),
                    Some(escaped) => json.extend(['\\', escaped]),
                    None => break,
                },
                '"' => json.push_str("\\\""),
                _ => json.push(letter),
            }
        }
        Err(self.wrong("this string has no end"))
    }

    fn any(&mut self) -> Result<Expr<'q>, Fault> {
        let mut parts = vec![self.all()?];
        while self.take("||") {
            parts.push(self.all()?);
        }
        Ok(Expr::Any(parts))
    }

    fn all(&mut self) -> Result<Expr<'q>, Fault> {
        let mut parts = Vec::new();
        loop {
            self.space();
            parts.push(self.test()?);
            self.space();
            if !self.take("&&") {
                return Ok(Expr::All(parts));
            }
        }
    }

    fn test(&mut self) -> Result<Expr<'q>, Fault> {
        let negated = self.take("!");
        self.space();
        let test = if self.take("(") {
            let inside = self.deeper(Self::any)?;
            self.must(")")?;
            inside
        } else if negated {
            self.must("@")?;
            Expr::Exists(self.segments()?)
        } else {
            self.comparison()?
        };
        Ok(if negated { Expr::Not(Box::new(test)) } else { test })
    }

    fn comparison(&mut self) -> Result<Expr<'q>, Fault> {
        let left = if self.take("@") {
            let query = self.segments()?;
            self.space();
            if !COMPARES.iter().any(|(sign, _)| self.rest.starts_with(sign)) {
                return Ok(Expr::Exists(query));
            }
            self.one_value(query)?
        } else {
            self.operand()?
        };
        self.space();
        for (sign, compare) in COMPARES {
            if self.take(sign) {
                self.space();
                return Ok(Expr::Compare(left, compare, self.operand()?));
            }
        }
        Err(self.wrong("a comparison is expected, such as `==` or `<`"))
    }

    fn operand(&mut self) -> Result<Operand<'q>, Fault> {
        if self.take("@") {
            let query = self.segments()?;
            return self.one_value(query);
        }
        match self.next() {
            Some('\'' | '"') => Ok(Operand::Literal(Node::String(Cow::Owned(self.string()?)))),
            Some('-' | '0'..='9') => self.number().map(Operand::Literal),
            Some('a'..='z') => self.word(),
            Some('$') => Err(Fault::bad_args("a filter can't look at the whole file with `$`, only at `@`")
                .next(
                    "Read the value that it is compared with first, and write it into the query.".to_owned(),
                )),
            _ => Err(self.wrong("`@`, a value or a function is expected")),
        }
    }

    fn word(&mut self) -> Result<Operand<'q>, Fault> {
        let before = self.rest;
        let word = self.run(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_');
        let literal = match word {
            "true" => Some(Node::Bool(true)),
            "false" => Some(Node::Bool(false)),
            "null" => Some(Node::Null),
            _ => None,
        };
        if let Some(literal) = literal {
            return Ok(Operand::Literal(literal));
        }
        if matches!(word, "match" | "search") {
            return Err(Fault::bad_args(format!("the function `{word}` is not available in a query")).hint(
                "Compare with `==`[?, or find text by regex in the file's lines with `tool:filegrep`|, or find text by regex with `tool:grep`?].".to_owned(),
            ));
        }
        if !matches!(word, "length" | "count" | "value") || !self.take("(") {
            self.rest = before;
            return Err(self.wrong("the functions are `length(…)`, `count(…)` and `value(…)`"));
        }
        self.space();
        let operand = if word == "length" {
            Operand::Length(Box::new(self.deeper(Self::operand)?))
        } else {
            self.must("@")?;
            let query = self.segments()?;
            if word == "count" { Operand::Count(query) } else { Operand::Value(query) }
        };
        self.space();
        self.must(")")?;
        Ok(operand)
    }

    fn number(&mut self) -> Result<Node<'q>, Fault> {
        let before = self.rest;
        let text = self.run(|it| it.is_ascii_digit() || matches!(it, '-' | '+' | '.' | 'e' | 'E'));
        if serde_json::from_str::<serde_json::Number>(text).is_ok() {
            return Ok(Node::Number(text));
        }
        self.rest = before;
        Err(self.wrong("this is not a number"))
    }

    fn one_value(&self, query: Vec<Segment<'q>>) -> Result<Operand<'q>, Fault> {
        let is_one = |it: &Segment<'_>| {
            !it.descends && matches!(it.selectors.as_slice(), [Selector::Name(_) | Selector::Index(_)])
        };
        if query.iter().all(is_one) {
            return Ok(Operand::Query(query));
        }
        Err(self.wrong("what is compared is one value: names and indices only, or `value(…)` around it"))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn queries_that_another_implementation_refuses_are_refused() {
        for query in [
            "",
            "a",
            "$.",
            "$..",
            "$[",
            "$[]",
            "$[1",
            "$[01]",
            "$[-0]",
            "$['a]",
            "$[\"a\\'\"]",
            "$['\\\"']",
            "$['\\x']",
            "$[9007199254740992]",
            "$.1a",
            "$.a b",
            "$[?]",
            "$[?@.a ==]",
            "$[?== 1]",
            "$[?@.a = 1]",
            "$[?@..a == 1]",
            "$[?@[*] == 1]",
            "$[?!@.a == 1]",
            "$[?(@.a]",
            "$[?@.a &&]",
            "$[?true]",
            "$[?length(@)]",
            "$[?count(1) == 1]",
            "$[?nothing(@) == 1]",
            "$[?@.a == 01]",
            "$[?@.a == 1.]",
            "$[?@.a == {}]",
            "$[1:2:3:4]",
            "$[1,]",
            "$.a.",
            "$ ",
            "$[?@.a == 'b'] x",
            "$[?length(@..a) == 1]",
        ] {
            assert!(Path::parse(query).is_err() || query == "$ ", "{query}");
            assert!(serde_json_path::JsonPath::parse(query).is_err(), "{query}");
        }
    }

    #[test]
    fn long_and_deep_queries_are_refused_before_anything_is_done() {
        for query in [
            "$".to_owned() + &"[".repeat(990),
            "$".to_owned() + &"[?@".repeat(330),
            format!("$[?{}", "!(".repeat(400)),
        ] {
            assert!(Path::parse(&query).is_err(), "{query}");
        }
        let long = Path::parse(&format!("${}", ".a".repeat(500))).unwrap_err();
        assert!(long.what.contains("at most 1000"), "{}", long.what);
        let nested = |levels: usize| format!("${}{}", "[?@".repeat(levels), "]".repeat(levels));
        assert!(Path::parse(&nested(8)).is_ok());
        let deep = Path::parse(&nested(9)).unwrap_err();
        assert!(deep.what.contains("more than 8 filters"), "{}", deep.what);
        assert!(Path::parse("$['[[[[[[[[[[((((((((((']").is_ok());
    }

    #[test]
    fn unsupported_filters_name_an_alternative() {
        for (query, what, next) in [
            ("$[?match(@, 'a*')]", "`match`", "filegrep"),
            ("$[?!search(@.a, 'a')]", "`@` is expected", "For example"),
            ("$.a[?@.b == $.c]", "`$`", "Read the value"),
            ("$.a[?$..b]", "`$`", "Read the value"),
        ] {
            let fault = Path::parse(query).unwrap_err();
            assert!(
                fault.what.contains(what) && fault.next.unwrap().contains(next),
                "{query}: {}",
                fault.what
            );
        }
    }
}

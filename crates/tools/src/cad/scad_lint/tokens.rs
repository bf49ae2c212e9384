//! OpenSCAD tokenizer.

use super::report::{Finding, Report};

/// A word of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a str,
    /// Its offset in bytes.
    pub(super) at: usize,
}

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A name or a keyword.
    Word,
    Number,
    Text,
    /// `use <…>`: the text is the path.
    Use,
    /// `include <…>`: the text is the path.
    Include,
    /// An operator or a bracket.
    Sign,
    End,
}

impl Token<'_> {
    /// Returns the offset after its last byte.
    pub(super) fn end(&self) -> usize {
        self.at + self.text.len()
    }

    pub(super) fn is(&self, sign: &str) -> bool {
        self.kind == Kind::Sign && self.text == sign
    }

    pub(super) fn is_word(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text == word
    }
}

/// Splits the source into tokens; invalid text is reported.
pub(super) fn tokens<'a>(source: &'a str, report: &mut Report) -> Vec<Token<'a>> {
    let mut tokens = Vec::new();
    let mut at = if source.starts_with('\u{feff}') { 3 } else { 0 };
    while let Some(rest) = source.get(at..).filter(|it| !it.is_empty()) {
        let (length, kind) = match first(rest) {
            First::Blank(length) => {
                at += length;
                continue;
            }
            First::Open(what) => {
                report.error(at, format!("{what} is not closed"));
                break;
            }
            First::Stray(stray) => {
                report.error(at, format!("`{}` means nothing here", stray.escape_debug()));
                at += stray.len_utf8();
                continue;
            }
            First::Token(length, kind) => (length, kind),
        };
        let text = rest.get(..length).unwrap_or_default();
        let token = Token { kind, text, at };
        at += length;
        if matches!(text, "use" | "include")
            && let Some((path, length)) = path(source.get(at..).unwrap_or_default())
        {
            let kind = if text == "use" { Kind::Use } else { Kind::Include };
            tokens.push(Token { kind, text: path, at: token.at });
            at += length;
            continue;
        }
        tokens.push(token);
    }
    tokens.push(Token { kind: Kind::End, text: "", at: source.trim_end().len() });
    tokens
}

enum First {
    Blank(usize),
    Open(&'static str),
    Stray(char),
    Token(usize, Kind),
}

fn first(rest: &str) -> First {
    let Some(letter) = rest.chars().next() else { return First::Blank(0) };
    if letter.is_whitespace() {
        return First::Blank(letter.len_utf8());
    }
    if rest.starts_with("//") {
        return First::Blank(rest.find('\n').unwrap_or(rest.len()));
    }
    if let Some(inner) = rest.strip_prefix("/*") {
        return inner.find("*/").map_or(First::Open("the comment"), |it| First::Blank(it + 4));
    }
    if let Some(inner) = rest.strip_prefix('"') {
        return text(inner).map_or(First::Open("the string"), |it| First::Token(it + 1, Kind::Text));
    }
    let word = word(rest);
    let number = number(rest);
    if number > 0 && number >= word {
        return First::Token(number, Kind::Number);
    }
    if word > 0 {
        return First::Token(word, Kind::Word);
    }
    for sign in ["<=", ">=", "==", "!=", "&&", "||"] {
        if rest.starts_with(sign) {
            return First::Token(2, Kind::Sign);
        }
    }
    if "()[]{};,=?:.+-*/%^!<>#".contains(letter) { First::Token(1, Kind::Sign) } else { First::Stray(letter) }
}

/// Returns the length of a string, including its closing quote.
fn text(inner: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Returns the length of the name at the start: OpenSCAD lets it begin with a digit.
fn word(rest: &str) -> usize {
    let dollar = usize::from(rest.starts_with('$'));
    let name = rest.get(dollar..).unwrap_or_default();
    let length = name.bytes().take_while(|it| it.is_ascii_alphanumeric() || *it == b'_').count();
    if length == 0 { 0 } else { dollar + length }
}

/// Returns the length of the number at the start.
fn number(rest: &str) -> usize {
    let digits =
        |from: usize| rest.get(from..).unwrap_or_default().bytes().take_while(u8::is_ascii_digit).count();
    let byte = |at: usize| rest.as_bytes().get(at).copied();
    let whole = digits(0);
    let mut length = whole;
    if byte(length) == Some(b'.') {
        let fraction = digits(length + 1);
        if whole + fraction == 0 {
            return 0;
        }
        length += 1 + fraction;
    } else if whole == 0 {
        return 0;
    }
    if matches!(byte(length), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(byte(length + 1), Some(b'+' | b'-')));
        let exponent = digits(length + 1 + sign);
        if exponent > 0 {
            length += 1 + sign + exponent;
        }
    }
    length
}

/// Returns the path in `<…>`, and its length.
fn path(rest: &str) -> Option<(&str, usize)> {
    let blank = rest.len() - rest.trim_start().len();
    let inner = rest.get(blank..)?.strip_prefix('<')?;
    let end = inner.find(['>', '\n']).filter(|it| inner.get(*it..).is_some_and(|it| it.starts_with('>')))?;
    Some((inner.get(..end)?, blank + end + 2))
}

/// Reports each unbalanced bracket, at the opening one if that is known; returns whether there are none.
pub(super) fn balanced(tokens: &[Token<'_>], report: &mut Report) -> bool {
    let before = report.len();
    // Each opened bracket, and whether `;` may stand in it.
    let mut open: Vec<(Token<'_>, bool)> = Vec::new();
    let mut previous = "";
    for token in tokens {
        if report.is_full() {
            break;
        }
        match (token.kind, token.text) {
            (Kind::Sign, "(" | "[" | "{") => open.push((*token, token.text == "{" || previous == "for")),
            (Kind::Sign, ")" | "]" | "}") => {
                let partner = opener(token.text);
                let Some(at) = open.iter().rposition(|it| it.0.text == partner) else {
                    report.error(token.at, format!("`{}` closes nothing", token.text));
                    continue;
                };
                for (unclosed, _) in open.drain(at..).skip(1) {
                    report.unclosed(unclosed, token);
                }
            }
            (Kind::Sign, ";") => {
                while let Some((unclosed, _)) = open.pop_if(|it| !it.1) {
                    report.unclosed(unclosed, token);
                }
            }
            (Kind::End, _) => {
                for (unclosed, _) in open.drain(..) {
                    report.error(unclosed.at, format!("`{}` is not closed", unclosed.text));
                }
            }
            _ => {}
        }
        previous = token.text;
    }
    report.len() == before
}

fn opener(closer: &str) -> &'static str {
    match closer {
        ")" => "(",
        "]" => "[",
        _ => "{",
    }
}

impl Report<'_> {
    fn unclosed(&mut self, opened: Token<'_>, by: &Token<'_>) {
        if self.is_full() {
            return;
        }
        let place = self.place(by.at);
        self.add(Finding::error(
            opened.at,
            format!("`{}` is not closed before the `{}` at {place}", opened.text, by.text),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<&str> {
        let mut report = Report::new("a", source);
        tokens(source, &mut report).iter().map(|it| it.text).filter(|it| !it.is_empty()).collect()
    }

    #[test]
    fn words_are_cut_as_openscad_cuts_them() {
        assert_eq!(texts("8bit = 1e3+.5*2.;"), ["8bit", "=", "1e3", "+", ".5", "*", "2.", ";"]);
        assert_eq!(texts("$fn=3d; // no\n/* no */ \"a\\\"b\""), ["$fn", "=", "3d", ";", "\"a\\\"b\""]);
        assert_eq!(texts("use <a b.scad>x<y>z"), ["a b.scad", "x", "<", "y", ">", "z"]);
        assert_eq!(texts("\u{feff}v.x>=1"), ["v", ".", "x", ">=", "1"]);
    }

    #[test]
    fn a_hanging_bracket_is_reported_where_it_was_opened() {
        let hanging = |source: &str| {
            let mut report = Report::new("a", source);
            let tokens = tokens(source, &mut report);
            balanced(&tokens, &mut report);
            report.lines()
        };
        assert_eq!(hanging("cube([1, 2, 3);"), ["a:1:6 error `[` is not closed before the `)` at 1:14"]);
        assert_eq!(hanging("cube(1;\nsphere(2);"), ["a:1:5 error `(` is not closed before the `;` at 1:7"]);
        assert_eq!(hanging("union() {\n cube(1);"), ["a:1:9 error `{` is not closed"]);
        assert_eq!(hanging("cube(1));"), ["a:1:8 error `)` closes nothing"]);
        assert_eq!(hanging("a = [for (i = 0; i < 3; i = i + 1) i];"), [""; 0]);
        assert_eq!(hanging("a = \"x;\n"), ["a:1:5 error the string is not closed"]);
        assert_eq!(hanging("/* x"), ["a:1:1 error the comment is not closed"]);
    }
}

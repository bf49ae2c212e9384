//! Syntax colours for code: a lexer that works line by line, so that code can be coloured while it is still being written.
//!
//! It knows comments, strings, numbers, keywords and called names, for the languages of [`languages`]. Text in any other
//! language stays as it is. A lexer never fails and never loses a letter: text that it does not understand is plain.

mod languages;

use super::row::{Row, Style, Tint};
use languages::{Family, Language};

/// A longer line is not highlighted: it is data that a person does not read.
const LONGEST: usize = 4_000;

/// The highlighter of one block of code.
#[derive(Debug, Clone)]
pub(crate) struct Code {
    language: Option<&'static Language>,
    inside: Inside,
}

/// The token that the last line left open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    Nothing,
    /// A comment that ends with this text.
    Comment(&'static str),
    /// A string that ends with this text.
    Text(&'static str),
}

impl Code {
    /// Creates it for the language that an info string names: `rust`, `py`, `c++ title="x"`.
    pub(crate) fn new(name: &str) -> Self {
        Self { language: languages::find(name), inside: Inside::Nothing }
    }

    /// Returns the next line, in colours.
    pub(crate) fn line(&mut self, line: &str) -> Row {
        let Some(language) = self.language.filter(|_| line.len() <= LONGEST) else {
            return Row::new(line, Style::PLAIN);
        };
        match language.family {
            Family::Diff => of_diff(line),
            Family::Markup => self.markup(line),
            Family::Keys => self.keys(line, language),
            Family::Words => self.words(line, language),
        }
    }

    /// Highlights a line of a programming language.
    fn words(&mut self, line: &str, language: &'static Language) -> Row {
        let mut row = Row::default();
        let mut rest = self.close(line, &mut row);
        let mut before = None;
        while let Some(first) = rest.chars().next() {
            let (length, style) = self.token(rest, first, before, language);
            let (token, after) = rest.split_at(length);
            before = token.chars().next_back();
            row = row.with(token, style);
            rest = after;
        }
        row
    }

    /// Adds the rest of the token that the previous line left open; returns the text after it.
    fn close<'a>(&mut self, line: &'a str, row: &mut Row) -> &'a str {
        let (end, style) = match self.inside {
            Inside::Nothing => return line,
            Inside::Comment(end) => (end, Style::DIM),
            Inside::Text(end) => (end, Style::tinted(Tint::Literal)),
        };
        let length = match end_of(line, end, matches!(self.inside, Inside::Text(_))) {
            Some(length) => {
                self.inside = Inside::Nothing;
                length
            }
            None => line.len(),
        };
        let (taken, rest) = line.split_at(length);
        *row = std::mem::take(row).with(taken, style);
        rest
    }

    /// Returns the length of the token at the start of `rest`, and its style.
    fn token(
        &mut self,
        rest: &str,
        first: char,
        before: Option<char>,
        language: &'static Language,
    ) -> (usize, Style) {
        let begins_word = !before.is_some_and(|it| it.is_alphanumeric() || it == '_');
        let is_comment = |mark: &str| {
            // In a shell a hash inside a word does not begin a comment.
            rest.starts_with(mark) && (mark != "#" || before.is_none_or(|it| it.is_whitespace() || it == ';'))
        };
        if language.comments.iter().any(|it| is_comment(it)) {
            return (rest.len(), Style::DIM);
        }
        if let Some((open, end)) = language.blocks.iter().find(|(open, _)| rest.starts_with(open)) {
            let after = rest.get(open.len()..).unwrap_or_default();
            return match after.find(end) {
                Some(at) => (open.len() + at + end.len(), Style::DIM),
                None => {
                    self.inside = Inside::Comment(end);
                    (rest.len(), Style::DIM)
                }
            };
        }
        if let Some(quote) = language.quotes.iter().find(|it| rest.starts_with(it.mark)) {
            return self.quoted(rest, quote, language);
        }
        if first == '$' && language.dollars {
            return (variable(rest), Style::tinted(Tint::Number));
        }
        if first == '@' && begins_word && language.decorators {
            let length = 1 + word(rest.get(1..).unwrap_or_default());
            return (length, Style::tinted(Tint::Name));
        }
        if first.is_ascii_digit() && begins_word {
            let length = rest
                .find(|it: char| !(it.is_ascii_alphanumeric() || it == '_' || it == '.'))
                .unwrap_or(rest.len());
            return (length, Style::tinted(Tint::Number));
        }
        if first.is_alphabetic() || first == '_' {
            let length = word(rest);
            let (token, after) = rest.split_at(length);
            return (length, language.style_of(token, after));
        }
        // Punctuation and blanks form one token.
        let plain = |it: char| it.is_whitespace() || "{}()[]<>,;:=+*&|!?.%^~".contains(it);
        let is_mark = |at: usize| {
            let rest = rest.get(at..).unwrap_or_default();
            language.comments.iter().any(|it| rest.starts_with(it))
                || language.blocks.iter().any(|(open, _)| rest.starts_with(open))
        };
        let mut letters = rest.char_indices().skip(1);
        let end = letters.find(|(at, letter)| !plain(*letter) || is_mark(*at));
        (end.map_or(rest.len(), |(at, _)| at), Style::PLAIN)
    }

    fn quoted(
        &mut self,
        rest: &str,
        quote: &'static languages::Quote,
        language: &Language,
    ) -> (usize, Style) {
        let style = Style::tinted(Tint::Literal);
        let open = quote.mark.len();
        let after = rest.get(open..).unwrap_or_default();
        // In Rust and similar languages `'a` may be a lifetime.
        if language.lifetimes && quote.mark == "'" {
            let is_letter = after.starts_with('\\') || after.chars().nth(1) == Some('\'');
            if !is_letter {
                return (1 + word(after), Style::tinted(Tint::Name));
            }
        }
        match end_of(after, quote.mark, quote.escapes) {
            Some(length) => {
                let behind = after.get(length..).unwrap_or_default();
                let is_key =
                    language.family == Family::Keys && behind.trim_start().starts_with(language.divider);
                (open + length, if is_key { Style::tinted(Tint::Name) } else { style })
            }
            None if quote.lines => {
                self.inside = Inside::Text(quote.mark);
                (rest.len(), style)
            }
            // A lone apostrophe, as in a sentence.
            None if quote.mark == "'" => (open, Style::PLAIN),
            None => (rest.len(), style),
        }
    }

    /// Highlights a line of keys and values: YAML, TOML, JSON and similar.
    fn keys(&mut self, line: &str, language: &'static Language) -> Row {
        let inside = line.trim_start().trim_start_matches("- ").trim_start();
        let indent = line.len() - inside.len();
        let is_header = inside.starts_with('[') && language.sections && !inside.contains('"');
        if is_header && self.inside == Inside::Nothing {
            let end = inside.rfind(']').map_or(inside.len(), |it| it + 1);
            let (header, rest) = inside.split_at(end);
            let row = Row::new(line.get(..indent).unwrap_or_default(), Style::PLAIN);
            return row.with(header, Style::tinted(Tint::Keyword)).and(self.words(rest, language));
        }
        let key = match (self.inside, inside.find(language.divider)) {
            (Inside::Nothing, Some(at)) => inside.get(..at).map(str::trim_end).filter(|it| is_key(it)),
            _ => None,
        };
        let Some(key) = key else { return self.words(line, language) };
        let (before, rest) = line.split_at(indent);
        let (_, rest) = rest.split_at(key.len());
        Row::new(before, Style::PLAIN).with(key, Style::tinted(Tint::Name)).and(self.words(rest, language))
    }

    /// Highlights a line of HTML or XML.
    fn markup(&mut self, line: &str) -> Row {
        let mut row = Row::default();
        let mut rest = self.close(line, &mut row);
        while !rest.is_empty() {
            let (length, style) = if rest.starts_with("<!--") {
                match rest.find("-->") {
                    Some(at) => (at + 3, Style::DIM),
                    None => {
                        self.inside = Inside::Comment("-->");
                        (rest.len(), Style::DIM)
                    }
                }
            } else if rest.starts_with('<') {
                let marks = rest.len() - rest.trim_start_matches(['<', '/', '!', '?']).len();
                let name = rest.get(marks..).unwrap_or_default();
                let end = name.find(|it: char| it.is_whitespace() || it == '>').unwrap_or(name.len());
                (marks + end, Style::tinted(Tint::Keyword))
            } else if rest.starts_with('"') {
                let end = rest.get(1..).and_then(|it| it.find('"')).map_or(rest.len(), |it| it + 2);
                (end, Style::tinted(Tint::Literal))
            } else if rest.starts_with(|it: char| it.is_alphanumeric() || it == '_') {
                let end =
                    rest.find(|it: char| !(it.is_alphanumeric() || "_-:".contains(it))).unwrap_or(rest.len());
                let is_attribute =
                    rest.get(end..).is_some_and(|it| it.starts_with("=\"") || it.starts_with("='"));
                (end, if is_attribute { Style::tinted(Tint::Name) } else { Style::PLAIN })
            } else {
                (rest.chars().next().map_or(1, char::len_utf8), Style::PLAIN)
            };
            let (token, after) = rest.split_at(length);
            row = row.with(token, style);
            rest = after;
        }
        row
    }
}

fn of_diff(line: &str) -> Row {
    let style = match line.chars().next() {
        _ if line.starts_with("+++") || line.starts_with("---") => Style::BOLD,
        Some('+') => Style::GOOD,
        Some('-') => Style::BAD,
        Some('@') => Style::tinted(Tint::Number),
        _ => Style::PLAIN,
    };
    Row::new(line, style)
}

/// Returns where the closing mark ends in this text, if it is there.
fn end_of(text: &str, mark: &str, escapes: bool) -> Option<usize> {
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|it| !it.is_empty()) {
        if rest.starts_with(mark) {
            return Some(at + mark.len());
        }
        let mut letters = rest.chars();
        let first = letters.next()?;
        at += first.len_utf8();
        if escapes && first == '\\' {
            at += letters.next().map_or(0, char::len_utf8);
        }
    }
    None
}

/// Returns the length of the word at the start of the text.
fn word(text: &str) -> usize {
    text.find(|it: char| !(it.is_alphanumeric() || it == '_')).unwrap_or(text.len())
}

/// Returns the length of the variable at the start of the text, dollar included.
fn variable(text: &str) -> usize {
    let after = text.get(1..).unwrap_or_default();
    let length = match after.chars().next() {
        Some('{') => after.find('}').map_or(after.len(), |it| it + 1),
        Some(it) if it.is_alphanumeric() || it == '_' => word(after),
        Some(it) if "?!@#*$-".contains(it) => 1,
        _ => 0,
    };
    1 + length
}

fn is_key(text: &str) -> bool {
    let text = text.trim();
    let bare = text.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
    match bare {
        Some(bare) => !bare.contains('"'),
        None => !text.is_empty() && text.chars().all(|it| it.is_alphanumeric() || "_-.$/@ *\"'".contains(it)),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    /// Returns the text with its colours as letters: `k` keyword, `s` string, `n` number, `f` name, `d` dim.
    fn coloured(language: &str, text: &str) -> String {
        let mut code = Code::new(language);
        let names =
            [("35", "k"), ("32", "s"), ("36", "n"), ("94", "f"), ("2", "d"), ("31", "bad"), ("1", "b")];
        let lines = text.lines().map(|line| {
            let row = code.line(line);
            assert_eq!(row.text(), line, "no letter is lost");
            names
                .iter()
                .fold(row.painted(true), |line, (code, name)| {
                    line.replace(&format!("\u{1b}[{code}m"), &format!("⟨{name}:"))
                })
                .replace("\u{1b}[0m", "⟩")
                + "\n"
        });
        lines.collect()
    }

    #[test]
    fn each_family_of_languages_has_its_colours() {
        let of = |samples: &[(&str, &str)]| -> String {
            samples.iter().map(|(name, text)| format!("{name}\n{}", coloured(name, text))).collect()
        };
        expect![[r#"
            rust
            ⟨k:pub⟩ ⟨k:fn⟩ one<⟨f:'a⟩>(x: &⟨f:'a⟩ ⟨n:str⟩) -> ⟨n:Option⟩<⟨n:char⟩> { ⟨d:// a "note"⟩
                ⟨f:println⟩!(⟨s:"{x}\""⟩, ⟨s:'\n'⟩); ⟨d:/* over⟩
            ⟨d:lines */⟩ ⟨n:None⟩
            python
            ⟨f:@cached⟩
            ⟨k:def⟩ ⟨f:f⟩(n=⟨n:0x1f⟩): ⟨s:"""doc⟩
            ⟨s:goes on"""⟩
                ⟨k:return⟩ f⟨s:'it\'s'⟩ ⟨d:# why⟩
            sh
            ⟨k:if⟩ [ -f ⟨s:"$a"⟩ ]; ⟨k:then⟩ echo ⟨n:${HOME}⟩ a#b; ⟨k:fi⟩ ⟨d:# note⟩
            json
            {⟨f:"a"⟩: [⟨n:1⟩, ⟨n:true⟩, ⟨s:"x"⟩]}
              ⟨f:"key"⟩: ⟨n:null⟩
            toml
            ⟨k:[a.b]⟩ ⟨d:# note⟩
            ⟨f:key⟩ = ⟨s:"v"⟩
            yaml
            - ⟨f:name⟩: it is ⟨n:5⟩
              ⟨d:# note⟩
            html
            ⟨k:<a⟩ ⟨f:href⟩=⟨s:"x"⟩>text⟨k:</a⟩> ⟨d:<!-- note -->⟩
            diff
            ⟨n:@@ -1 +1 @@⟩
            ⟨bad:-old⟩
            ⟨s:+new⟩
        "#]]
        .assert_eq(&of(&[
            ("rust", "pub fn one<'a>(x: &'a str) -> Option<char> { // a \"note\"\n    println!(\"{x}\\\"\", '\\n'); /* over\nlines */ None"),
            ("python", "@cached\ndef f(n=0x1f): \"\"\"doc\ngoes on\"\"\"\n    return f'it\\'s' # why"),
            ("sh", "if [ -f \"$a\" ]; then echo ${HOME} a#b; fi # note"),
            ("json", "{\"a\": [1, true, \"x\"]}\n  \"key\": null"),
            ("toml", "[a.b] # note\nkey = \"v\""),
            ("yaml", "- name: it is 5\n  # note"),
            ("html", "<a href=\"x\">text</a> <!-- note -->"),
            ("diff", "@@ -1 +1 @@\n-old\n+new"),
        ]));
    }

    #[test]
    fn no_letter_is_lost_in_any_language_whatever_the_text_is() {
        let evil =
            "'''\"\"\"`${ /* <!-- -- # // \\\u{1b} ü 日本 @@ [x] 'a' 0x \"\\\n*/ --> ''' [[ \" ` $ @ ' -";
        for language in languages::ALL {
            for name in language.names {
                coloured(name, evil);
                coloured(name, &evil.chars().rev().collect::<String>());
            }
        }
        assert_eq!(coloured("cobol", "MOVE \"A\" TO B"), "MOVE \"A\" TO B\n");
        assert_eq!(coloured("", "let x"), "let x\n");
    }

    #[test]
    fn a_language_is_found_by_its_names_and_by_file_endings() {
        for name in ["Rust", "rs", "rust,ignore", "rust title=\"x\"", "{.rust}"] {
            assert!(Code::new(name).language.is_some_and(|it| it.names.contains(&"rust")), "{name}");
        }
        assert!(Code::new("brainfuck").language.is_none());
    }
}

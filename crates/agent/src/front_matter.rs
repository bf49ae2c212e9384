//! YAML front matter of Markdown files: bounded parsing, typed fields, and errors that name the line.
//!
//! Profiles, slash commands and skills are such files, and their authors are untrusted: front matter can't
//! expand (no anchors, bounded depth and size).

use serde_json::{Map, Value};

/// Maximum length of a description, in characters; longer ones are cut, as they stand in a list.
const DESCRIPTION: usize = 600;

/// Limits of a front matter: number of values, and depth of nesting.
const NODES: usize = 1000;
const DEPTH: usize = 8;

/// Maximum size of a front matter, in bytes; a larger one is refused before parsing.
const FRONT: usize = 16 << 10;

/// The parsed fields of a front matter.
pub(crate) struct FrontMatter<'a> {
    fields: Map<String, Value>,
    yaml: &'a str,
}

/// Returns the text without a byte order mark and with line feeds only.
pub(crate) fn normalized(text: &str) -> String {
    text.trim_start_matches('\u{feff}').replace("\r\n", "\n")
}

impl<'a> FrontMatter<'a> {
    /// Parses the front matter of a [`normalized`] text; returns it and the rest of the text, or `None` if
    /// the text begins with no front matter. Unless `strict`, a front matter that is not YAML is read line by
    /// line, as `word: text`.
    ///
    /// # Errors
    /// The line, and what is wrong there.
    pub(crate) fn read(text: &'a str, strict: bool) -> Result<Option<(Self, &'a str)>, String> {
        let Some(rest) = text.strip_prefix("---\n") else { return Ok(None) };
        let Some((yaml, body)) = split(rest) else {
            return Err(format!("line {}: the front matter has no end: a line `---`", text.lines().count()));
        };
        Ok(Some((Self { fields: fields(yaml, strict)?, yaml }, body)))
    }

    /// Returns a front matter without fields.
    pub(crate) fn none() -> FrontMatter<'static> {
        FrontMatter { fields: Map::new(), yaml: "" }
    }

    /// Returns the names of its fields.
    pub(crate) fn words(&self) -> impl Iterator<Item = &str> {
        self.fields.keys().map(String::as_str)
    }

    /// Returns whether the field `word` has a value.
    pub(crate) fn has(&self, word: &str) -> bool {
        self.fields.get(word).is_some_and(|it| !it.is_null())
    }

    /// Returns whether the field `word` is true.
    pub(crate) fn is_true(&self, word: &str) -> bool {
        match self.fields.get(word) {
            Some(Value::Bool(it)) => *it,
            Some(Value::String(text)) => text == "true",
            _ => false,
        }
    }

    /// Returns an error about the field `word`, with its line number.
    pub(crate) fn wrong(&self, word: &str, what: &str) -> String {
        let is_it = |line: &str| line.trim_start_matches(['"', '\'']).starts_with(word);
        let line = self.yaml.lines().position(is_it).map_or(1, |it| it + 2);
        format!("line {line}: {what}")
    }

    /// Returns the text of the field `word`.
    ///
    /// # Errors
    /// When its value has another type, with its line.
    pub(crate) fn text(&self, word: &str) -> Result<Option<String>, String> {
        match self.fields.get(word) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.trim().to_owned())),
            Some(Value::Number(number)) => Ok(Some(number.to_string())),
            Some(other) => Err(self.wrong(word, &format!("`{word}` is {other}; it must be a text"))),
        }
    }

    /// Returns the number of the field `word`, which is at least 1.
    ///
    /// # Errors
    /// When its value is anything else, with its line.
    pub(crate) fn number(&self, word: &str) -> Result<Option<usize>, String> {
        let value = match self.fields.get(word) {
            None | Some(Value::Null) => return Ok(None),
            Some(value) => value,
        };
        let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
        match number.and_then(|it| usize::try_from(it).ok()) {
            Some(number) if number > 0 => Ok(Some(number)),
            _ => Err(self.wrong(word, &format!("`{word}` is {value}; it must be a number from 1"))),
        }
    }

    /// Returns the tables in the list of the field `word`.
    ///
    /// # Errors
    /// When its value has another type, with its line.
    pub(crate) fn tables(&self, word: &str) -> Result<Vec<Map<String, Value>>, String> {
        let wrong =
            |value: &Value| self.wrong(word, &format!("`{word}` is {value}; it must be a list of tables"));
        match self.fields.get(word) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(items)) => {
                items.iter().map(|it| it.as_object().cloned().ok_or_else(|| wrong(it))).collect()
            }
            Some(other) => Err(wrong(other)),
        }
    }

    /// Returns the list of the field `word`, which may also be one text with commas.
    ///
    /// # Errors
    /// When its value has another type, with its line.
    pub(crate) fn list(&self, word: &str) -> Result<Option<Vec<String>>, String> {
        let wrong = |value: &Value| {
            self.wrong(
                word,
                &format!("`{word}` is {value}; it must be a list of names, or one text with commas"),
            )
        };
        match self.fields.get(word) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(between_commas(text))),
            Some(Value::Array(items)) => {
                let name = |it: &Value| it.as_str().map(|it| it.trim().to_owned()).ok_or_else(|| wrong(it));
                items.iter().map(name).collect::<Result<_, _>>().map(Some)
            }
            Some(other) => Err(wrong(other)),
        }
    }
}

/// Splits a text into the front matter and the rest.
fn split(text: &str) -> Option<(&str, &str)> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some((text.get(..at)?, text.get(at + line.len()..)?));
        }
        at += line.len();
    }
    None
}

fn fields(yaml: &str, strict: bool) -> Result<Map<String, Value>, String> {
    if yaml.trim().is_empty() {
        return Ok(Map::new());
    }
    if yaml.len() > FRONT {
        return Err(format!("line 2: the front matter has {} bytes; {FRONT} is the most", yaml.len()));
    }
    match serde_saphyr::from_str_with_options(yaml, bounds()) {
        Ok(fields) => Ok(fields),
        // Descriptions may be invalid YAML that the program they were written for accepts.
        Err(_) if !strict && !lines_of(yaml).is_empty() => Ok(lines_of(yaml)),
        Err(error) => {
            let line = error.location().map_or(1, |it| it.line()) + 1;
            let what = error.to_string();
            let what = what.lines().next().unwrap_or_default();
            Err(format!("line {line}: {what}"))
        }
    }
}

/// Returns the parser's limits. Without anchors, a few hundred bytes can't expand to gigabytes.
fn bounds() -> serde_saphyr::Options {
    let budget = serde_saphyr::budget! {
        max_anchors: 0,
        max_aliases: 0,
        max_nodes: NODES,
        max_depth: DEPTH,
    };
    serde_saphyr::options! { budget: budget }
}

/// Reads each line `word: text` as it is.
fn lines_of(yaml: &str) -> Map<String, Value> {
    let of_line = |line: &str| {
        let (word, text) = line.split_once(':')?;
        let is_word =
            !word.is_empty() && word.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_' || it == b'-');
        is_word.then(|| (word.to_owned(), Value::String(text.trim().to_owned())))
    };
    yaml.lines().filter_map(of_line).collect()
}

/// Splits a text at its commas; a comma in brackets is part of a name.
fn between_commas(text: &str) -> Vec<String> {
    let mut depth = 0usize;
    let parts = text.split(|it: char| {
        match it {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        it == ',' && depth == 0
    });
    parts.map(|it| it.trim().to_owned()).filter(|it| !it.is_empty()).collect()
}

/// Returns the text as one line of bounded length, with invisible characters escaped.
pub(crate) fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = kit::escape::visible(&line).0.into_owned();
    if line.chars().count() <= DESCRIPTION {
        return line;
    }
    line.chars().take(DESCRIPTION).chain(['…']).collect()
}

//! JSON style of a notebook, kept for new text.

use jsonc_parser::{ast::Object, common::Ranged};

/// The JSON style of a file.
#[derive(Debug, Clone)]
pub(super) struct Style {
    /// One step of indentation; `None` if everything is on one line.
    pub(super) unit: Option<String>,
    newline: &'static str,
    /// The text after a comma on one line.
    gap: String,
    colon: String,
    /// Whether letters beyond ASCII are written as `\u00e9`.
    ascii: bool,
}

impl Style {
    /// Detects the style of a text that is this object.
    pub(super) fn of(text: &str, root: &Object<'_>) -> Self {
        let between = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
        let mut members = root.properties.iter();
        let first = members.next();
        let second = members.next();
        let lead = first.map_or("", |it| between(root.range.start + 1, it.range.start));
        let unit = lead.rsplit_once('\n').map(|(_, unit)| unit.to_owned());
        let colon = first.map_or(": ", |it| between(it.name.range().end, it.value.start()));
        let gap = match (first, second) {
            (Some(first), Some(second)) if unit.is_none() => {
                between(first.range.end, second.range.start).trim_start().trim_start_matches(',')
            }
            _ => " ",
        };
        Self {
            unit,
            newline: if text.contains("\r\n") { "\r\n" } else { "\n" },
            gap: gap.to_owned(),
            colon: colon.to_owned(),
            ascii: text.is_ascii() && has_escaped_letters(text),
        }
    }

    /// Returns the text before a cell, and before the bracket after the last one, if no other cell shows it.
    pub(super) fn around_cells(&self) -> (String, String) {
        let Some(unit) = &self.unit else { return (String::new(), String::new()) };
        let newline = self.newline;
        (format!("{newline}{unit}{unit}"), format!("{newline}{unit}"))
    }

    /// Returns the text between the comma and the next of two items on one line.
    pub(super) fn gap(&self) -> &str {
        &self.gap
    }

    /// Quotes a text as JSON.
    pub(super) fn string(&self, text: &str) -> String {
        let plain = serde_json::to_string(text).unwrap_or_default();
        if !self.ascii || plain.is_ascii() {
            return plain;
        }
        let mut escaped = String::with_capacity(plain.len() * 2);
        for letter in plain.chars() {
            if letter.is_ascii() {
                escaped.push(letter);
                continue;
            }
            for unit in letter.encode_utf16(&mut [0; 2]) {
                escaped.push_str(&format!("\\u{unit:04x}"));
            }
        }
        escaped
    }

    /// Formats a source: as one string, or as a list of lines that begins on a line indented by `base`.
    pub(super) fn source(&self, text: &str, in_one: bool, base: &str) -> String {
        if in_one {
            return self.string(text);
        }
        let lines: Vec<String> = text.split_inclusive('\n').map(|it| self.string(it)).collect();
        self.block('[', &lines, ']', base)
    }

    /// Formats an object that begins on a line indented by `base`.
    pub(super) fn object(&self, members: &[(String, String)], base: &str) -> String {
        let members: Vec<String> = members
            .iter()
            .map(|(name, value)| format!("{}{}{value}", self.string(name), self.colon))
            .collect();
        self.block('{', &members, '}', base)
    }

    fn block(&self, open: char, items: &[String], close: char, base: &str) -> String {
        match &self.unit {
            _ if items.is_empty() => format!("{open}{close}"),
            None => format!("{open}{}{close}", items.join(&format!(",{}", self.gap))),
            Some(unit) => {
                let line = format!("{}{base}{unit}", self.newline);
                let items = items.join(&format!(",{line}"));
                format!("{open}{line}{items}{}{base}{close}", self.newline)
            }
        }
    }
}

/// Returns the indentation of the line of `at`, if nothing else is before it.
pub(super) fn indent_at(text: &str, at: usize) -> Option<&str> {
    let before = text.get(..at)?;
    let line = before.rsplit_once('\n').map_or(before, |(_, line)| line);
    line.bytes().all(|it| it == b' ' || it == b'\t').then_some(line)
}

fn has_escaped_letters(text: &str) -> bool {
    text.match_indices("\\u").any(|(at, _)| {
        let code = text.get(at + 2..at + 6).and_then(|it| u32::from_str_radix(it, 16).ok());
        code.is_some_and(|it| it >= 0x80)
    })
}

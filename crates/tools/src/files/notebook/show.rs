//! Cells and their outputs as text.

use std::fmt::Write;

use jsonc_parser::ast::{Object, Value};

use super::{Cell, text_of, value};

/// Maximum bytes of a source that are shown.
const SOURCE: usize = 32 << 10;

/// Maximum bytes of one output if many cells are shown, and if one is.
const SHORT: usize = 2 << 10;
const LONG: usize = 16 << 10;

/// The part of the outputs that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outputs {
    Hidden,
    Short,
    Long,
}

/// A rendered cell.
pub(crate) struct Shown {
    pub(crate) text: String,
    /// Whether the source is complete.
    pub(crate) whole: bool,
}

/// Formats the line before a cell: `[3:7f2a] code 8b1c2d3e run 5`.
pub(crate) fn header(cell: &Cell<'_>, index: usize) -> String {
    let mut text = format!("[{index}:{}] {}", cell.hash(), cell.kind);
    if let Some(id) = &cell.id {
        let _ = write!(text, " {id}");
    }
    if let Some(run) = &cell.run {
        let _ = write!(text, " run {run}");
    }
    text
}

/// Renders a cell with its header.
pub(crate) fn cell(cell: &Cell<'_>, index: usize, outputs: Outputs) -> Shown {
    let mut text = header(cell, index);
    let whole = cell.source.len() <= SOURCE;
    if !cell.source.is_empty() {
        let end = if whole { cell.source.len() } else { cell.source.floor_char_boundary(SOURCE) };
        text.push('\n');
        text.push_str(cell.source.get(..end).unwrap_or_default().trim_end_matches('\n'));
        if !whole {
            let more = cell.source.len() - end;
            let _ = write!(text, "\n[{more} more bytes; all of it: json_read pointer /cells/{index}/source]");
        }
    }
    let most = match outputs {
        Outputs::Hidden => return Shown { text, whole },
        Outputs::Short => SHORT,
        Outputs::Long => LONG,
    };
    for output in &cell.outputs {
        text.push('\n');
        text.push_str(&shown(output, most));
    }
    Shown { text, whole }
}

/// An output in its parts.
pub(crate) struct Parts {
    /// `stream:stdout`, `error`, `execute_result`.
    pub(crate) kind: String,
    /// Its text, without terminal control sequences.
    pub(crate) text: String,
    /// Its other contents: `image/png, 2.1 KB`.
    pub(crate) others: Vec<String>,
}

/// Splits an output into its parts.
pub(crate) fn parts(output: &Value<'_>) -> Parts {
    let Value::Object(output) = output else {
        return Parts { kind: "not an output".to_owned(), text: String::new(), others: Vec::new() };
    };
    let string = |name: &str| output.get_string(name).map(|it| it.value.clone().into_owned());
    let kind = string("output_type").unwrap_or_else(|| "an output of no type".to_owned());
    let (mut text, mut others, mut name) = (String::new(), Vec::new(), None);
    if kind == "stream" {
        name = Some(string("name").unwrap_or_else(|| "stdout".to_owned()));
        text = value(output, "text").and_then(text_of).unwrap_or_default();
    } else if kind == "error" {
        text = format!("{}: {}", string("ename").unwrap_or_default(), string("evalue").unwrap_or_default());
        for line in trace(output) {
            text.push('\n');
            text.push_str(&line);
        }
    } else if let Some(data) = output.get_object("data") {
        text = value(data, "text/plain").and_then(text_of).unwrap_or_default();
        others = others_in(data);
    }
    let kind = name.map_or_else(|| kind.clone(), |name| format!("{kind}:{name}"));
    Parts { kind, text: plain(&text).trim_end_matches('\n').to_owned(), others }
}

/// Renders an output: `=> stdout` and its text; of a picture only its type.
fn shown(output: &Value<'_>, most: usize) -> String {
    let Value::Object(output) = output else { return "=> not an output".to_owned() };
    let string = |name: &str| output.get_string(name).map(|it| it.value.clone().into_owned());
    match string("output_type").as_deref() {
        Some("stream") => {
            let name = string("name").unwrap_or_else(|| "stdout".to_owned());
            let text = value(output, "text").and_then(text_of).unwrap_or_default();
            format!("=> {name}{}", body(&text, most))
        }
        Some("error") => {
            let name = string("ename").unwrap_or_default();
            let what = string("evalue").unwrap_or_default();
            let trace = body(&trace(output).join("\n"), most);
            format!("=> error {}: {}{trace}", plain(&name), plain(&what))
        }
        Some(kind @ ("execute_result" | "display_data" | "update_display_data")) => {
            let kind = if kind == "execute_result" { "result" } else { "display" };
            format!("=> {kind}{}", output.get_object("data").map(|it| data(it, most)).unwrap_or_default())
        }
        other => format!("=> {}", other.unwrap_or("an output of no type")),
    }
}

/// Returns the lines of an error's traceback.
fn trace(output: &Object<'_>) -> Vec<String> {
    let lines = value(output, "traceback").and_then(Value::as_array);
    let lines = lines.into_iter().flat_map(|it| &it.elements).filter_map(Value::as_string_lit);
    lines.map(|it| it.value.clone().into_owned()).collect()
}

/// Renders displayed data: its plain text, and its other types.
fn data(data: &Object<'_>, most: usize) -> String {
    let mut text: String = others_in(data).iter().map(|it| format!(" {it}")).collect();
    if let Some(plain) = value(data, "text/plain").and_then(text_of) {
        text.push_str(&body(&plain, most));
    }
    text
}

/// Returns the types besides plain text, with their sizes.
fn others_in(data: &Object<'_>) -> Vec<String> {
    let mut others = Vec::new();
    for it in &data.properties {
        let name = it.name.as_str();
        let held = text_of(&it.value).unwrap_or_default();
        if name.starts_with("image/") && name != "image/svg+xml" {
            others.push(format!("{name}, {}", size(decoded_length(&held))));
        } else if name != "text/plain" {
            others.push(format!("{name}, {}", size(held.len())));
        }
    }
    others
}

/// Returns the number of bytes that base64 encodes.
fn decoded_length(base64: &str) -> usize {
    base64.bytes().filter(|it| !it.is_ascii_whitespace() && *it != b'=').count() * 3 / 4
}

fn size(bytes: usize) -> String {
    if bytes < 1024 { format!("{bytes} bytes") } else { format!("{:.1} KB", bytes as f64 / 1024.0) }
}

/// Indents a text; of a long one the head and the tail.
fn body(text: &str, most: usize) -> String {
    let text = plain(text);
    let text = text.trim_end_matches('\n');
    if text.is_empty() {
        return String::new();
    }
    if text.len() <= most {
        return format!("\n{text}");
    }
    let head = text.floor_char_boundary(most / 2);
    let tail = text.ceil_char_boundary(text.len() - most / 2);
    // Cut at line breaks, unless lines are too long for that.
    let head = text.get(..head).and_then(|it| it.rfind('\n')).filter(|it| *it > most / 4).unwrap_or(head);
    let lines = text.get(tail..).and_then(|it| it.find('\n')).filter(|it| *it < most / 4);
    let tail = lines.map_or(tail, |it| tail + it + 1);
    let (head, tail) = (text.get(..head).unwrap_or_default(), text.get(tail..).unwrap_or_default());
    let out = text.len() - head.len() - tail.len();
    format!("\n{head}\n[{out} of {} bytes left out]\n{tail}", text.len())
}

/// Removes terminal colours; a line that was overwritten is shown as it was last.
fn plain(text: &str) -> String {
    let text = without_colours(text);
    if !text.contains('\r') {
        return text;
    }
    let last = |line: &str| line.rsplit('\r').find(|it| !it.is_empty()).unwrap_or_default().to_owned();
    text.split('\n').map(|line| last(line.trim_end_matches('\r'))).collect::<Vec<_>>().join("\n")
}

fn without_colours(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(letter) = rest.next() {
        if letter != '\u{1b}' {
            plain.push(letter);
            continue;
        }
        match rest.next() {
            Some('[') => while rest.next().is_some_and(|it| !('\u{40}'..='\u{7e}').contains(&it)) {},
            Some(']') => {
                while let Some(it) = rest.next() {
                    if it == '\u{7}' || (it == '\u{1b}' && rest.next_if_eq(&'\\').is_some()) {
                        break;
                    }
                }
            }
            _ => {}
        }
    }
    plain
}

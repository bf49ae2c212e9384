//! The text of a question: effects, diffs and reasons of a call, escaped and truncated.

use std::collections::BTreeMap;

use agent::ChangeKind;
use kit::{effect::Effect, escape::is_unseen, services::Question};
use serde_json::Value;

use super::AboutCall;
use crate::terminal::diff;

/// The first and last parts of a longer text are shown; the rest is counted.
const LONGEST: usize = 2_000;

/// At most so many identical blanks or invisible characters are shown one by one; more are counted.
const SAME: usize = 8;

/// At most so many lines of the new content are shown, and so many bytes.
const LINES: usize = 20;
const CONTENT: usize = 1_500;

/// At most so much of one such line is shown.
const WIDTH: usize = 200;

/// Returns the text of a model's question, with the answers that it offers.
pub(crate) fn wanted(question: &Question) -> String {
    let mut text = format!("the model asks: {}\n", shown(&question.text));
    for (at, option) in question.options.iter().enumerate() {
        text.push_str(&format!("  {}. {}\n", at + 1, shown(option)));
    }
    text
}

/// A question in parts: the effects, the diffs of the changes, and the reason for asking.
pub(crate) struct Parts {
    pub(crate) asks: String,
    pub(crate) effects: Vec<String>,
    pub(crate) why: Vec<String>,
}

/// Returns the parts of a question, each as an escaped line.
pub(crate) fn parts(request: &AboutCall) -> Parts {
    let whose = request.agent.as_ref().map(|it| format!("{}: ", shown(it))).unwrap_or_default();
    // The diffs show which files are written.
    let is_shown = |it: &&String| !it.starts_with("write ") || request.changes.is_empty();
    let mut effects: Vec<String> =
        request.effects.iter().filter(is_shown).map(|it| format!("  {}", shown(it))).collect();
    if effects.is_empty() && request.changes.is_empty() {
        effects.push(format!("  {}", shown(&request.arguments)));
    }
    let mut why = vec![format!("Reason: {} (rule {})", shown(&request.says), shown(&request.rule))];
    let is_said = |it: &String| it.ends_with(request.about.as_str());
    if !request.effects.iter().any(is_said) && !request.changes.iter().any(|it| is_said(&it.path)) {
        why.push(format!("  {}", shown(&request.about)));
    }
    if request.changes.is_empty() {
        why.extend(content(&request.arguments).lines().map(str::to_owned));
    }
    let hidden =
        unseen(&format!("{}{}{}", request.effects.concat(), request.about, in_words(&request.arguments)));
    if !hidden.is_empty() {
        why.push(format!("Careful, it has letters that can't be seen: {}", hidden.join("; ")));
    }
    if !request.offers.is_empty() {
        why.push("A session or project approval covers:".to_owned());
        why.extend(request.offers.iter().map(|it| format!("  {}", shown(&covered(it)))));
    }
    let asks = format!("{whose}Allow `{}` to {}?", shown(&request.tool), does(request, &effects));
    Parts { asks, effects, why }
}

/// Describes the effects in a few words: a single file by its path.
fn does(request: &AboutCall, effects: &[String]) -> String {
    let ([change], []) = (request.changes.as_slice(), effects) else { return "do this".to_owned() };
    let does = match change.kind {
        ChangeKind::Created => "create",
        ChangeKind::Changed => "change",
        ChangeKind::Deleted => "delete",
    };
    format!("{does} {}", bounded(&change.path, WIDTH))
}

/// Returns all texts of these arguments, without JSON escapes.
pub(super) fn in_words(arguments: &str) -> String {
    fn add(value: &Value, text: &mut String) {
        match value {
            Value::String(it) => text.push_str(it),
            Value::Array(list) => list.iter().for_each(|it| add(it, text)),
            Value::Object(map) => map.iter().for_each(|(name, it)| {
                text.push_str(name);
                add(it, text);
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let Ok(value) = serde_json::from_str(arguments) else { return arguments.to_owned() };
    let mut text = String::new();
    add(&value, &mut text);
    text
}

/// Returns what a grant covers, in the words of `haft grants`.
fn covered(offer: &Effect) -> String {
    match offer {
        Effect::Edit(path) if path == "." => {
            format!("{offer}  (every file in the workspace, except those that always need approval)")
        }
        _ => offer.to_string(),
    }
}

/// Returns the question as text, with at most so many lines of diffs.
pub(crate) fn question(request: &AboutCall, lines: usize, hint: &str) -> String {
    let Parts { asks, effects, why } = parts(request);
    let hint = if hint.is_empty() { String::new() } else { format!("; {hint}") };
    let diffs = diff::proposed_plain(&request.changes, 2);
    let diffs = head_and_tail(diffs, lines, |rest| format!("  … {rest} more lines{hint} …"));
    let all: Vec<String> = [vec![asks], effects, diffs, why].concat();
    format!("\n{}\n", all.join("\n"))
}

/// Returns whether the diffs have more lines than a question shows at first.
pub(crate) fn is_cut(request: &AboutCall) -> bool {
    let lines: usize = request.changes.iter().map(|it| it.diff.lines().count()).sum();
    lines > diff::SHOWN
}

/// Returns the beginning and the end of the new content, if the arguments contain it.
pub(super) fn content(arguments: &str) -> String {
    let Ok(arguments) = serde_json::from_str::<Value>(arguments) else { return String::new() };
    let field = |of: &Value, name: &str| of.get(name).and_then(Value::as_str).map(str::to_owned);
    let mut lines: Vec<String> = Vec::new();
    let mut add = |mark: &str, text: Option<String>| {
        lines.extend(
            text.iter().flat_map(|it| it.lines()).map(|line| format!("{mark}{}", bounded(line, WIDTH))),
        );
    };
    add("", field(&arguments, "content"));
    for edit in arguments.get("edits").and_then(Value::as_array).into_iter().flatten() {
        add("- ", field(edit, "old"));
        add("+ ", field(edit, "new"));
    }
    if lines.is_empty() {
        return String::new();
    }
    // A few long lines take as much space as many short ones.
    let longest = lines.iter().map(String::len).max().unwrap_or_default().max(1);
    let most = LINES.min(CONTENT / longest).max(4);
    let lines = head_and_tail(lines, most, |rest| {
        format!("… {rest} more {} …", if rest == 1 { "line" } else { "lines" })
    });
    let lines: String = lines.iter().map(|line| format!("  {line}\n")).collect();
    format!("It would write:\n{lines}")
}

/// Returns the first and the last of so many lines, and between them one that counts the omitted ones.
pub(crate) fn head_and_tail<T>(mut all: Vec<T>, most: usize, more: impl FnOnce(usize) -> T) -> Vec<T> {
    if all.len() <= most.saturating_add(1) {
        return all;
    }
    let tail = all.split_off(all.len() - most / 3);
    let head = most - most / 3;
    let left_out = all.len() - head;
    all.truncate(head);
    all.push(more(left_out));
    all.extend(tail);
    all
}

pub(crate) fn choices(offers: &[Effect]) -> &'static str {
    if offers.is_empty() {
        "allow it? [o]nce, [n]o: "
    } else {
        "allow it? [o]nce, this [s]ession, this [p]roject, [n]o: "
    }
}

/// Returns the possible answers, for a person who typed another one.
pub(crate) fn keys(request: &AboutCall) -> String {
    let keys = if request.offers.is_empty() { "o or n" } else { "o, s, p or n" };
    let all = if is_cut(request) { "; d shows the whole diff" } else { "" };
    format!("Type {keys}; `n WORDS` refuses and tells the model why{all}.")
}

/// Escapes a text into one line: a line break can't start a fake question, and nothing pushes the end out of view.
pub(crate) fn shown(text: &str) -> String {
    bounded(text, LONGEST)
}

/// Does the same, truncated in the middle to about so many characters.
fn bounded(text: &str, longest: usize) -> String {
    let pieces = pieces(text);
    let width = |piece: &String| piece.chars().count();
    let all: usize = pieces.iter().map(width).sum();
    if all <= longest {
        return pieces.concat();
    }
    let (mut head, mut room) = (String::new(), longest - longest / 3);
    let mut rest = pieces.as_slice();
    while let [first, after @ ..] = rest
        && width(first) <= room
    {
        head.push_str(first);
        room -= width(first);
        rest = after;
    }
    let (mut tail, mut room) = (Vec::new(), longest / 3);
    while let [before @ .., last] = rest
        && width(last) <= room
    {
        tail.push(last.as_str());
        room -= width(last);
        rest = before;
    }
    let left_out: usize = rest.iter().map(width).sum();
    tail.reverse();
    format!("{head}… {left_out} more characters …{}", tail.concat())
}

/// Splits a text into characters as shown; repeated blanks become one piece that counts them.
fn pieces(text: &str) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let shown = match letter {
            ' '..='~' => letter.to_string(),
            // Letters of other scripts are shown; marks, blanks and control characters are escaped.
            letter if letter.is_alphanumeric() && !is_unseen(letter) => letter.to_string(),
            letter => letter.escape_default().to_string(),
        };
        let mut count = 1;
        // A visible letter is never counted as a blank, however often it is repeated.
        if letter == ' ' || shown.chars().count() > 1 {
            while letters.next_if_eq(&letter).is_some() {
                count += 1;
            }
        }
        match (count, letter) {
            (..=SAME, _) => pieces.extend(std::iter::repeat_n(shown, count)),
            (_, ' ') => pieces.push(format!("⟨{count} spaces⟩")),
            _ => pieces.push(format!("⟨{count} × {shown}⟩")),
        }
    }
    pieces
}

/// Lists the invisible characters in a text by name: `U+3164 (Hangul filler), 500 times`.
pub(super) fn unseen(text: &str) -> Vec<String> {
    let mut counts: BTreeMap<char, usize> = BTreeMap::new();
    let odd = |it: &char| !it.is_ascii() && (is_unseen(*it) || it.is_whitespace() || *it == '\u{2800}');
    text.chars().filter(odd).for_each(|it| *counts.entry(it).or_default() += 1);
    let said = |(letter, count): (char, usize)| {
        let times = if count == 1 { String::new() } else { format!(", {count} times") };
        let name = name_of(letter).map(|it| format!(" ({it})")).unwrap_or_default();
        format!("U+{:04X}{name}{times}", u32::from(letter))
    };
    counts.into_iter().map(said).collect()
}

/// Returns the Unicode name of the invisible characters that are known here.
fn name_of(letter: char) -> Option<&'static str> {
    Some(match letter {
        '\u{85}' => "next line",
        '\u{a0}' => "no-break space",
        '\u{ad}' => "soft hyphen",
        '\u{34f}' => "combining grapheme joiner",
        '\u{61c}' => "Arabic letter mark",
        '\u{115f}' => "Hangul choseong filler",
        '\u{1160}' => "Hangul jungseong filler",
        '\u{17b4}' | '\u{17b5}' => "Khmer inherent vowel",
        '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' => "space",
        '\u{200b}' => "zero width space",
        '\u{200c}' => "zero width non-joiner",
        '\u{200d}' => "zero width joiner",
        '\u{200e}' | '\u{200f}' => "direction mark",
        '\u{2028}' => "line separator",
        '\u{2029}' => "paragraph separator",
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => "direction override",
        '\u{2060}' => "word joiner",
        '\u{2061}'..='\u{2064}' => "invisible operator",
        '\u{2800}' => "Braille blank",
        '\u{3000}' => "ideographic space",
        '\u{3164}' => "Hangul filler",
        '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' => "variation selector",
        '\u{feff}' => "zero width no-break space",
        '\u{ffa0}' => "halfwidth Hangul filler",
        '\u{e0000}'..='\u{e007f}' => "tag",
        _ => return None,
    })
}

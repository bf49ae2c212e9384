//! Declared effects: what a call of a tool file touches.
//!
//! A line is a verb and its object: `read PATH`, `write PATH`, `net HOST`, `session KEY`. `{argument}` stands
//! for the value of an argument; a line whose argument is missing has no effect, and a list gives one touch
//! per item.

use kit::{
    Fault, Kind, Touch, Touches,
    effect::{host_matches, is_host},
};
use serde_json::Value;

use super::{Described, Section};

/// The verbs, and the touch that each makes.
const WORDS: [(&str, Make); 4] = [
    ("read", Touch::Read),
    ("write", Touch::Write),
    ("net", |it| Touch::Net(host_of(&it).to_owned())),
    ("session", Touch::Session),
];

/// Makes a touch of an object.
type Make = fn(String) -> Touch;

/// Limit of touches; a call with more runs alone.
const MOST: usize = 256;

/// Returns what a call with these arguments touches: it runs `command`, and touches what the file declares. A
/// call of a file that declares nothing runs alone.
///
/// The hosts of the section are left out: a person has granted them, so nobody is asked. The code that starts
/// the tool passes them to its execution environment.
///
/// # Errors
/// When a line is invalid; [`check`] reports that beforehand.
pub(crate) fn touches(
    described: &Described,
    section: &Section,
    command: &str,
    arguments: &Value,
) -> Result<Touches, Fault> {
    let run = Touches::run(command);
    let Some(lines) = &described.touches else { return Ok(run.and(Touch::Exclusive)) };
    let mut touched = Vec::new();
    for text in lines {
        let line = Line::parse(text).map_err(|why| Fault::new(Kind::Failed, why))?;
        let Some(values) = line.values(arguments).filter(|it| touched.len() + it.len() <= MOST) else {
            return Ok(run.and(Touch::Exclusive));
        };
        touched.extend(values.into_iter().map(line.touch));
    }
    let granted = |touch: &Touch| match touch {
        Touch::Net(host) => section.net.iter().any(|it| host_matches(it, host)),
        _ => false,
    };
    Ok(touched.into_iter().filter(|it| !granted(it)).fold(run, Touches::and))
}

/// Checks that each line is valid and that the schema has its arguments.
///
/// # Errors
/// The invalid line, and what is allowed.
pub(crate) fn check(lines: &[String], schema: &Value) -> Result<(), String> {
    for text in lines {
        let line = Line::parse(text)?;
        // A schema with references or alternatives may have other arguments.
        let known = schema.get("properties").and_then(Value::as_object);
        let open = ["$ref", "allOf", "anyOf", "oneOf", "patternProperties"];
        let Some(known) = known.filter(|_| !open.iter().any(|it| schema.get(it).is_some())) else { continue };
        if let Some(unknown) = line.arguments().find(|it| !known.contains_key(*it)) {
            let all: Vec<&str> = known.keys().map(String::as_str).collect();
            return Err(format!(
                "touches: `{text}` is about `{{{unknown}}}`, which is not an argument; there are: {}",
                all.join(", ")
            ));
        }
    }
    Ok(())
}

/// A parsed line.
struct Line<'a> {
    touch: Make,
    parts: Vec<Part<'a>>,
}

enum Part<'a> {
    Text(&'a str),
    /// The value of this argument.
    Argument(&'a str),
}

impl<'a> Line<'a> {
    fn parse(text: &'a str) -> Result<Self, String> {
        let wrong = |why: &str| {
            format!(
                "touches: `{text}` {why}; a line is `read PATH`, `write PATH`, `net HOST` or `session KEY`, where `{{argument}}` stands for its value"
            )
        };
        let (word, rest) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
        let Some((_, touch)) = WORDS.iter().find(|(it, _)| *it == word) else {
            return Err(wrong("begins with none of the words"));
        };
        let mut rest = rest.trim();
        if rest.is_empty() {
            return Err(wrong("does not say what"));
        }
        let mut parts = Vec::new();
        while let Some((before, after)) = rest.split_once('{') {
            let Some((name, after)) = after.split_once('}') else {
                return Err(wrong("has a `{` without its `}`"));
            };
            if name.is_empty() {
                return Err(wrong("has `{}` without a name"));
            }
            parts.extend((!before.is_empty()).then_some(Part::Text(before)));
            parts.push(Part::Argument(name));
            rest = after;
        }
        parts.extend((!rest.is_empty()).then_some(Part::Text(rest)));
        let line = Self { touch: *touch, parts };
        if word == "net" && line.arguments().next().is_none() && !is_host(host_of(rest)) {
            return Err(wrong("names no host"));
        }
        Ok(line)
    }

    fn arguments(&self) -> impl Iterator<Item = &'a str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Argument(name) => Some(*name),
            Part::Text(_) => None,
        })
    }

    /// Returns the objects with these arguments: nothing, if one is missing; `None`, if a value can't be part
    /// of a path.
    fn values(&self, arguments: &Value) -> Option<Vec<String>> {
        let mut texts = vec![String::new()];
        for part in &self.parts {
            let values = match part {
                Part::Text(text) => vec![(*text).to_owned()],
                Part::Argument(name) => match arguments.get(name) {
                    None | Some(Value::Null) => return Some(Vec::new()),
                    Some(Value::Array(items)) => items.iter().map(plain).collect::<Option<_>>()?,
                    Some(value) => vec![plain(value)?],
                },
            };
            if texts.len().saturating_mul(values.len()) > MOST {
                return None;
            }
            texts =
                texts.iter().flat_map(|text| values.iter().map(move |it| format!("{text}{it}"))).collect();
        }
        Some(texts)
    }
}

/// Returns a value as it is written in a path.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(yes) => Some(yes.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Returns the host of a URL, or the text itself if it is not a URL.
fn host_of(text: &str) -> &str {
    let Some((_, rest)) = text.split_once("://") else { return text };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    authority.rsplit_once('@').map_or(authority, |(_, host)| host)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    fn touched(lines: Option<&[&str]>, net: &[&str], arguments: &Value) -> Vec<Touch> {
        let described = Described {
            name: "t".to_owned(),
            description: String::new(),
            schema: json!({}),
            format: "executable".to_owned(),
            entry: String::new(),
            touches: lines.map(|it| it.iter().map(|it| (*it).to_owned()).collect()),
            timeout_seconds: None,
            manual: None,
            manual_first: false,
            contribution: None,
            mode: None,
            notes: Vec::new(),
        };
        let section = Section { net: net.iter().map(|it| (*it).to_owned()).collect(), ..Section::default() };
        let touches = touches(&described, &section, "./t", arguments).unwrap();
        let mut touched: Vec<Touch> = touches.iter().cloned().collect();
        assert_eq!(touched.remove(0), Touch::Run("./t".to_owned()));
        touched
    }

    fn of(lines: &[&str], arguments: &Value) -> Vec<Touch> {
        touched(Some(lines), &[], arguments)
    }

    fn read(path: &str) -> Touch {
        Touch::Read(path.to_owned())
    }

    #[test]
    fn missing_declaration_runs_alone_and_empty_list_runs_beside_all() {
        assert_eq!(touched(None, &[], &json!({})), [Touch::Exclusive]);
        assert_eq!(of(&[], &json!({})), []);
    }

    #[test]
    fn an_argument_stands_for_its_value() {
        let lines = ["read {path}", "write {dir}/{name}.txt", "session notes", "net {url}"];
        let arguments =
            json!({"path": "a.rs", "dir": "out", "name": 7, "url": "https://me@example.org:8443/x?y"});
        assert_eq!(
            of(&lines, &arguments),
            [
                read("a.rs"),
                Touch::Write("out/7.txt".to_owned()),
                Touch::Session("notes".to_owned()),
                Touch::Net("example.org:8443".to_owned()),
            ]
        );
    }

    #[test]
    fn missing_argument_touches_nothing_and_a_list_touches_each_item() {
        assert_eq!(of(&["read {path}"], &json!({})), []);
        assert_eq!(of(&["read {path}"], &json!({"path": null})), []);
        assert_eq!(of(&["read {paths}"], &json!({"paths": []})), []);
        assert_eq!(
            of(&["read {dir}/{paths}"], &json!({"dir": "d", "paths": ["a", "b"]})),
            [read("d/a"), read("d/b")]
        );
    }

    #[test]
    fn inexpressible_touches_run_alone() {
        assert_eq!(of(&["read {path}"], &json!({"path": {"x": 1}})), [Touch::Exclusive]);
        let many: Vec<String> = (0..1_000).map(|it| it.to_string()).collect();
        assert_eq!(of(&["read {a}{a}{a}"], &json!({"a": many})), [Touch::Exclusive]);
        let some: Vec<String> = (0..200).map(|it| it.to_string()).collect();
        assert_eq!(of(&["read {a}", "write {a}"], &json!({"a": some})), [Touch::Exclusive]);
    }

    #[test]
    fn granted_host_needs_no_approval_and_another_does() {
        let asked = touched(Some(&["net api.example.org", "net other.org"]), &["*.example.org"], &json!({}));
        assert_eq!(asked, [Touch::Net("other.org".to_owned())]);
        assert_eq!(touched(Some(&[]), &["example.org"], &json!({})), []);
    }

    #[test]
    fn invalid_line_is_reported_with_the_valid_forms() {
        let schema = json!({"properties": {"path": {}}});
        let wrong = |line: &str| check(&[line.to_owned()], &schema).unwrap_err();
        assert_eq!(
            wrong("reads {path}"),
            "touches: `reads {path}` begins with none of the words; a line is `read PATH`, `write PATH`, `net HOST` or `session KEY`, where `{argument}` stands for its value"
        );
        assert!(wrong("read").contains("does not say what"));
        assert!(wrong("").contains("begins with none"));
        assert!(wrong("read {path").contains("without its `}`"));
        assert!(wrong("read {}").contains("without a name"));
        assert!(wrong("net a b").contains("names no host"));
        assert_eq!(
            wrong("read {pth}"),
            "touches: `read {pth}` is about `{pth}`, which is not an argument; there are: path"
        );
        assert_eq!(check(&["read {path}".to_owned(), "net *.example.org".to_owned()], &schema), Ok(()));
        assert_eq!(check(&["read {x}".to_owned()], &json!({"allOf": []})), Ok(()));
    }
}

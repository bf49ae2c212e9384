//! What does a profile's file say?

use serde_json::{Map, Value};

use super::{Origin, Profile};

/// A longer description is cut: it stands in a list.
const DESCRIPTION: usize = 600;

/// A front matter has at most so many values, one within the other at most so deep.
const NODES: usize = 1000;
const DEPTH: usize = 8;

/// A longer front matter is refused before it is parsed.
const FRONT: usize = 16 << 10;

/// Whose format a file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// haft's own. A word in it that nobody knows is a mistake, since it may be one that was to narrow something.
    Haft,
    /// Claude Code's: its names of tools, and more words than count here.
    Claude,
    /// nav's: the file's name is the id.
    Nav,
}

/// The words that count.
const WORDS: [&str; 10] = [
    "name",
    "description",
    "model",
    "tools",
    "disallowedTools",
    "sandbox",
    "max_turns",
    "maxTurns",
    "max_steps",
    "permissionMode",
];

/// The profile that this text is. The error says in which line what is wrong.
pub(super) fn parse(format: Format, file: &str, text: &str) -> Result<Profile, String> {
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    let Some(rest) = text.strip_prefix("---\n") else {
        return Err("line 1: it does not begin with `---`, a front matter in YAML, and `---`".to_owned());
    };
    let Some((yaml, prompt)) = split(rest) else {
        return Err(format!("line {}: the front matter has no end: a line `---`", text.lines().count()));
    };
    let said = Said { fields: fields(format, yaml)?, yaml };
    if format == Format::Haft
        && let Some(word) = said.fields.keys().find(|it| !WORDS.contains(&it.as_str()))
    {
        return Err(
            said.wrong(word, &format!("`{word}` is no word of a profile; those are: {}", WORDS.join(", ")))
        );
    }
    let mut notes = Vec::new();
    let named = said.text("name")?;
    let name = if format == Format::Nav {
        file.to_owned()
    } else {
        named.clone().unwrap_or_else(|| file.to_owned())
    };
    if !is_name(&name) {
        return Err(
            said.wrong("name", &format!("`{name}` is no name: 1 to 48 letters, digits, `_`, `-`, `.`"))
        );
    }
    let description = said.text("description")?.unwrap_or_default();
    let mut tools = Vec::new();
    for name in said.list("tools")?.unwrap_or_default() {
        add_tool(format, &name, &mut tools, &mut notes);
    }
    let all = said.fields.get("tools").is_none_or(Value::is_null) || tools.iter().any(|it| it == "*");
    let mut without = Vec::new();
    for name in said.list("disallowedTools")?.unwrap_or_default() {
        // What is forbidden in part is forbidden as a whole.
        let whole = name.split('(').next().unwrap_or_default().trim();
        add_tool(format, whole, &mut without, &mut notes);
    }
    let plans = said.text("permissionMode")?.is_some_and(|it| it == "plan");
    let read_only = match said.text("sandbox")?.as_deref() {
        None | Some("workspace") => plans,
        Some("read-only") => true,
        Some(other) => {
            return Err(said.wrong(
                "sandbox",
                &format!("`{other}` can't be asked for by a profile; `read-only` and `workspace` can"),
            ));
        }
    };
    let mut max_turns = None;
    for word in ["max_turns", "maxTurns", "max_steps"] {
        max_turns = max_turns.or(said.number(word)?);
    }
    Ok(Profile {
        title: named.unwrap_or_else(|| name.clone()),
        name,
        description: one_line(&description),
        // Nothing in it is hidden from the person that the model reads.
        prompt: runtime::visible(prompt.trim()).0.into_owned(),
        model: said.text("model")?.filter(|it| !it.is_empty() && it != "inherit"),
        tools: (!all).then_some(tools),
        without,
        read_only,
        max_turns,
        origin: Origin::Program,
        notes,
    })
}

/// The front matter, and what follows it.
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

fn fields(format: Format, yaml: &str) -> Result<Map<String, Value>, String> {
    if yaml.trim().is_empty() {
        return Ok(Map::new());
    }
    if yaml.len() > FRONT {
        return Err(format!("line 2: the front matter has {} bytes; {FRONT} is the most", yaml.len()));
    }
    match serde_saphyr::from_str_with_options(yaml, bounds()) {
        Ok(fields) => Ok(fields),
        // Descriptions are written there that no YAML parser takes, and their own program does.
        Err(_) if format != Format::Haft && !lines_of(yaml).is_empty() => Ok(lines_of(yaml)),
        Err(error) => {
            let line = error.location().map_or(1, |it| it.line()) + 1;
            let what = error.to_string();
            let what = what.lines().next().unwrap_or_default();
            Err(format!("line {line}: {what}"))
        }
    }
}

/// A front matter repeats nothing by reference, so a few hundred bytes can't stand for gigabytes.
fn bounds() -> serde_saphyr::Options {
    let budget = serde_saphyr::budget! {
        max_anchors: 0,
        max_aliases: 0,
        max_nodes: NODES,
        max_depth: DEPTH,
    };
    serde_saphyr::options! { budget: budget }
}

/// Each line `word: text` as it is.
fn lines_of(yaml: &str) -> Map<String, Value> {
    let of_line = |line: &str| {
        let (word, text) = line.split_once(':')?;
        let is_word =
            !word.is_empty() && word.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_' || it == b'-');
        is_word.then(|| (word.to_owned(), Value::String(text.trim().to_owned())))
    };
    yaml.lines().filter_map(of_line).collect()
}

/// What the front matter says.
struct Said<'a> {
    fields: Map<String, Value>,
    yaml: &'a str,
}

impl Said<'_> {
    /// What is wrong, with the line in which this word stands.
    fn wrong(&self, word: &str, what: &str) -> String {
        let is_it = |line: &str| line.trim_start_matches(['"', '\'']).starts_with(word);
        let line = self.yaml.lines().position(is_it).map_or(1, |it| it + 2);
        format!("line {line}: {what}")
    }

    fn text(&self, word: &str) -> Result<Option<String>, String> {
        match self.fields.get(word) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.trim().to_owned())),
            Some(Value::Number(number)) => Ok(Some(number.to_string())),
            Some(other) => Err(self.wrong(word, &format!("`{word}` is {other}; it must be a text"))),
        }
    }

    fn number(&self, word: &str) -> Result<Option<usize>, String> {
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

    /// A list, which may be written as one text with commas.
    fn list(&self, word: &str) -> Result<Option<Vec<String>>, String> {
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

/// The names in a text; a comma in brackets is part of a name.
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

/// Adds a tool by the name that it has here.
fn add_tool(format: Format, name: &str, tools: &mut Vec<String>, notes: &mut Vec<String>) {
    if name.contains('(') {
        // The whole tool would be more than was meant.
        notes.push(format!("`{name}` is left out: a tool is allowed as a whole here, or not at all"));
        return;
    }
    let here = match format {
        Format::Claude => CLAUDE.iter().find(|it| it.0 == name).map_or(name, |it| it.1),
        Format::Haft | Format::Nav => name,
    };
    if !tools.iter().any(|it| it == here) {
        tools.push(here.to_owned());
    }
}

/// Claude Code's names of tools, and those that do the same here.
const CLAUDE: [(&str, &str); 17] = [
    ("Agent", "subagent"),
    ("AskUserQuestion", "ask_user"),
    ("Bash", "bash"),
    ("BashOutput", "read_job"),
    ("Edit", "edit"),
    ("Glob", "glob"),
    ("Grep", "grep"),
    ("KillBash", "stop_task"),
    ("KillShell", "stop_task"),
    ("LS", "tree"),
    ("MultiEdit", "edit"),
    ("Read", "read"),
    ("Task", "subagent"),
    ("TodoWrite", "todo"),
    ("WebFetch", "web_fetch"),
    ("WebSearch", "web_search"),
    ("Write", "write"),
];

fn is_name(name: &str) -> bool {
    (1..=48).contains(&name.len())
        && name.starts_with(|it: char| it.is_ascii_alphanumeric())
        && name.bytes().all(|it| it.is_ascii_alphanumeric() || b"_-.".contains(&it))
}

/// A text in one line, in which nothing hides.
fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = runtime::visible(&line).0.into_owned();
    if line.chars().count() <= DESCRIPTION {
        return line;
    }
    line.chars().take(DESCRIPTION).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn what_claude_code_takes_is_taken() {
        let text = "---\nname: reviewer\ndescription: Use this: Examples: <example>user: \"x\" # y</example>\ntools: Read, Bash(git diff:*, git log:*), mcp__a__b, Task\ndisallowedTools: Bash(rm:*)\nmodel: sonnet\ncolor: red\nmaxTurns: 7\npermissionMode: plan\n---\nReview.\n";
        let it = parse(Format::Claude, "file", text).unwrap();
        assert_eq!((it.name.as_str(), it.prompt.as_str(), it.max_turns), ("reviewer", "Review.", Some(7)));
        assert_eq!(it.tools.unwrap(), ["read", "mcp__a__b", "subagent"]);
        assert_eq!(it.without, ["bash"]);
        assert!(it.read_only);
        assert_eq!(it.model.as_deref(), Some("sonnet"));
        assert!(it.notes.concat().contains("`Bash(git diff:*, git log:*)` is left out"));
        assert!(it.description.starts_with("Use this: Examples"));
    }

    #[test]
    fn no_tools_are_none_and_silence_is_all() {
        let tools = |yaml: &str| parse(Format::Haft, "x", &format!("---\n{yaml}\n---\n")).unwrap().tools;
        assert_eq!(tools("tools: []"), Some(Vec::new()));
        assert_eq!(tools("description: x"), None);
        assert_eq!(tools("tools: '*'"), None);
        assert_eq!(tools("tools: read, edit"), Some(vec!["read".to_owned(), "edit".to_owned()]));
    }

    #[test]
    fn nothing_stands_for_more_than_it_is() {
        let lines: Vec<String> = (1..12)
            .map(|it| format!("x{it}: &x{it} [{}]", vec![format!("*x{}", it - 1); 9].join(", ")))
            .collect();
        let bomb = format!("description: &x0 [a, a]\n{}", lines.join("\n"));
        let deep = format!("tools: {}{}", "[".repeat(100), "]".repeat(100));
        let wide = format!("tools: [{}]", "a, ".repeat(5000));
        for yaml in [bomb, deep, wide] {
            let said = parse(Format::Haft, "x", &format!("---\n{yaml}\n---\n")).unwrap_err();
            assert!(said.starts_with("line ") && said.len() < 300, "{said}");
        }
    }

    #[test]
    fn nothing_hides_in_a_prompt() {
        let it = parse(Format::Haft, "x", "---\nname: x\n---\none\n\ttwo\u{1b}]0;x\u{7}\u{202e}\n").unwrap();
        assert_eq!(it.prompt, "one\n\ttwo\\u{1b}]0;x\\u{7}\\u{202e}");
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (yaml, said) in [
            ("description: x\nmax_turns: 0", "line 3: `max_turns` is 0"),
            ("tools: {a: b}", "line 2: `tools` is"),
            ("name: ../x", "line 2: `../x` is no name"),
            ("sandbox: [", "line "),
        ] {
            let why = parse(Format::Haft, "x", &format!("---\n{yaml}\n---\n")).unwrap_err();
            assert!(why.starts_with(said), "{why}");
        }
    }
}

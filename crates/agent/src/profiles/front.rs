//! Front matter of profiles: parses the formats of haft, Claude Code and nav.

use super::{NamedTrigger, Origin, Profile};
use crate::front_matter::{self, FrontMatter, one_line};
use runtime::config::spec_of_creature;

/// The format of a profile file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// haft's format. An unknown field is an error, since it may be a misspelt restriction.
    Haft,
    /// Claude Code's format: its names of tools; unknown fields are ignored.
    Claude,
    /// nav's format: the file's name is the id.
    Nav,
}

/// The known fields.
const WORDS: [&str; 12] = [
    "name",
    "description",
    "model",
    "tools",
    "disallowedTools",
    "sandbox",
    "max_turns",
    "maxTurns",
    "max_steps",
    "triggers",
    "permissionMode",
    "group",
];

/// Parses a profile. An error names the line.
pub(super) fn parse(format: Format, file: &str, text: &str) -> Result<Profile, String> {
    let text = front_matter::normalized(text);
    // nav treats front matter without an end as text.
    let has_end = || text.get(3..).is_some_and(|rest| rest.contains("\n---"));
    let read = if format == Format::Nav && !has_end() {
        None
    } else {
        FrontMatter::read(&text, format == Format::Haft)?
    };
    let (said, prompt) = match read {
        Some(read) => read,
        // nav needs no front matter: the whole text is the prompt.
        None if format == Format::Nav && !text.trim().is_empty() => (FrontMatter::none(), text.as_str()),
        None if format == Format::Nav => return Err("line 1: it is empty; its text is the prompt".to_owned()),
        None => {
            return Err("line 1: it does not begin with `---`, a front matter in YAML, and `---`".to_owned());
        }
    };
    if format == Format::Haft
        && let Some(word) = said.words().find(|it| !WORDS.contains(it))
    {
        return Err(said
            .wrong(word, &format!("`{word}` is not a word of a profile; those are: {}", WORDS.join(", "))));
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
            said.wrong("name", &format!("`{name}` is not a name: 1 to 48 letters, digits, `_`, `-`, `.`"))
        );
    }
    let description = said.text("description")?.unwrap_or_default();
    let mut tools = Vec::new();
    for name in said.list("tools")?.unwrap_or_default() {
        add_tool(format, &name, &mut tools, &mut notes);
    }
    let all = !said.has("tools") || tools.iter().any(|it| it == "*") || tools == ["all"];
    let mut without = Vec::new();
    for name in said.list("disallowedTools")?.unwrap_or_default() {
        // A tool that is forbidden in part is forbidden as a whole.
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
    let triggers = triggers_of(&said, format, &name)?;
    Ok(Profile {
        title: named.unwrap_or_else(|| name.clone()),
        name,
        description: one_line(&description),
        // Escaped, so that the prompt hides nothing from the person.
        prompt: kit::escape::visible(prompt.trim()).0.into_owned(),
        model: said.text("model")?.filter(|it| !it.is_empty() && it != "inherit"),
        tools: (!all).then_some(tools),
        without,
        read_only,
        max_turns,
        triggers,
        origin: Origin::Program,
        notes,
    })
}

/// Returns the triggers of a profile in haft's format, checked. One without a name gets that of the profile and a number.
fn triggers_of(said: &FrontMatter<'_>, format: Format, profile: &str) -> Result<Vec<NamedTrigger>, String> {
    let mut triggers: Vec<NamedTrigger> = Vec::new();
    let all = if format == Format::Haft { said.tables("triggers")? } else { Vec::new() };
    for (at, mut keys) in all.into_iter().enumerate() {
        let name = keys.remove("name").and_then(|it| it.as_str().map(str::to_owned));
        let name = name.unwrap_or_else(|| format!("{profile}-{}", at + 1));
        let wrong = |what: &str| said.wrong("triggers", &format!("the trigger `{name}`: {what}"));
        if triggers.iter().any(|(other, _)| *other == name) {
            return Err(wrong("another one has that name"));
        }
        let spec = spec_of_creature(&keys).map_err(|fault| wrong(&fault.what))?;
        triggers.push((name, spec));
    }
    Ok(triggers)
}

/// Adds a tool by its name here.
fn add_tool(format: Format, name: &str, tools: &mut Vec<String>, notes: &mut Vec<String>) {
    if name.contains('(') {
        // The whole tool would be more than the profile allows.
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

/// Claude Code's names of tools, with the tools here that do the same.
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

/// Returns the names of a tool here; a file in Claude Code's format uses Claude Code's names.
pub(crate) fn names_here(name: &str, of_claude: bool) -> Vec<String> {
    match (of_claude, CLAUDE.iter().find(|it| it.0 == name)) {
        // The toolset decides which of the two exists.
        (true, _) if name == "Bash" => vec!["bash".to_owned(), "shell".to_owned()],
        (true, Some((_, here))) => vec![(*here).to_owned()],
        _ => vec![name.to_owned()],
    }
}

fn is_name(name: &str) -> bool {
    (1..=48).contains(&name.len())
        && name.starts_with(|it: char| it.is_ascii_alphanumeric())
        && name.bytes().all(|it| it.is_ascii_alphanumeric() || b"_-.".contains(&it))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn profiles_of_claude_code_are_accepted() {
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
    fn a_subagent_of_nav_needs_no_front_matter() {
        let it = parse(Format::Nav, "scribe", "You write.\n\n---\nShort.\n").unwrap();
        assert_eq!((it.name.as_str(), it.title.as_str()), ("scribe", "scribe"));
        assert_eq!(it.prompt, "You write.\n\n---\nShort.");
        assert_eq!((it.tools, it.model), (None, None));
        assert!(parse(Format::Nav, "scribe", "\n").unwrap_err().starts_with("line 1: it is empty"));
        assert!(parse(Format::Nav, "the scribe", "You write.").unwrap_err().contains("is not a name"));
        assert_eq!(parse(Format::Nav, "scribe", "---\nYou write.\n").unwrap().prompt, "---\nYou write.");
        for format in [Format::Haft, Format::Claude] {
            assert!(parse(format, "scribe", "You write.").is_err());
        }
    }

    #[test]
    fn empty_tool_list_means_none_and_a_missing_one_means_all() {
        let tools = |yaml: &str| parse(Format::Haft, "x", &format!("---\n{yaml}\n---\n")).unwrap().tools;
        assert_eq!(tools("tools: []"), Some(Vec::new()));
        assert_eq!(tools("description: x"), None);
        assert_eq!(tools("tools: '*'"), None);
        assert_eq!(tools("tools: all"), None);
        assert_eq!(tools("tools: read, edit"), Some(vec!["read".to_owned(), "edit".to_owned()]));
    }

    #[test]
    fn anchors_and_deep_or_wide_front_matter_are_refused() {
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
    fn invisible_characters_in_a_prompt_are_escaped() {
        let it = parse(Format::Haft, "x", "---\nname: x\n---\none\n\ttwo\u{1b}]0;x\u{7}\u{202e}\n").unwrap();
        assert_eq!(it.prompt, "one\n\ttwo\\u{1b}]0;x\\u{7}\\u{202e}");
    }

    #[test]
    fn errors_name_their_line() {
        for (yaml, said) in [
            ("description: x\nmax_turns: 0", "line 3: `max_turns` is 0"),
            ("tools: {a: b}", "line 2: `tools` is"),
            ("name: ../x", "line 2: `../x` is not a name"),
            ("sandbox: [", "line "),
        ] {
            let why = parse(Format::Haft, "x", &format!("---\n{yaml}\n---\n")).unwrap_err();
            assert!(why.starts_with(said), "{why}");
        }
    }
}

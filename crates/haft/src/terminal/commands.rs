//! Chat commands: their list, and the parsing of a typed line.
//!
//! A line that begins with `/` is a command or is refused with the nearest name; it is sent to the model only if it is
//! clearly a path or a comment (`/etc/hosts is wrong`, `// why?`), or begins with a blank.

/// A built-in command of the chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Command {
    /// The name, with its `/`.
    pub(crate) name: &'static str,
    /// The arguments.
    pub(crate) takes: &'static str,
    /// The description, for a list.
    pub(crate) does: &'static str,
}

const fn command(name: &'static str, takes: &'static str, does: &'static str) -> Command {
    Command { name, takes, does }
}

/// The commands, in the order in which they are listed.
pub(crate) const COMMANDS: [Command; 22] = [
    command("/help", "", "list commands and keys"),
    command("/model", "[NAME]", "show the model and others, or switch to NAME"),
    command("/profile", "[NAME]", "show the profiles, or switch to NAME; `none` leaves it"),
    command("/plan", "[TASK]", "plan mode, on or off: nothing is changed"),
    command("/tools", "[WORD]", "list the model's tools"),
    command("/jobs", "", "list background commands"),
    command("/undo", "[CALL|turn]", "undo the last change, CALL's, or a rewound turn's"),
    command("/rewind", "[N|list]", "go back to before your last message, or the Nth last"),
    command("/fork", "[N]", "branch: go on in a copy of the conversation, up to your message N"),
    command("/compact", "[KEEP]", "summarize the conversation now, keeping KEEP"),
    command("/context", "", "show what fills the context window"),
    command("/cost", "", "tokens and cost so far"),
    command("/status", "", "show model, folder, sandbox and session"),
    command("/sessions", "[WORD]", "choose another conversation, or one about WORD"),
    command("/rename", "TITLE", "give the conversation a title"),
    command("/resume", "[NUMBER]", "continue another conversation, or the newest"),
    command("/new", "", "start a new conversation"),
    command("/clear", "", "the same as /new"),
    command("/copy", "[N]", "copy the last answer, or its Nth code block"),
    command("/export", "[FILE]", "write the conversation to a Markdown file"),
    command("/quit", "", "leave; so does Ctrl-D"),
    command("/exit", "", "the same as /quit"),
];

/// A name with a larger edit distance is not suggested.
const NEAR: usize = 2;

/// Words that leave other programs.
const LEAVE: [&str; 6] = ["exit", "quit", ":q", ":q!", ":wq", ":x"];

/// The meaning of a typed line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Meant<'a> {
    /// An empty line.
    Nothing,
    /// A message for the model.
    Text(&'a str),
    /// A command of the chat, and its arguments.
    Command(&'static str, &'a str),
    /// A command from a file, by its name without the `/`, and its arguments.
    Own(&'a str, &'a str),
    /// A shell command that the person runs.
    Run(&'a str),
    /// An unknown command, and the nearest known one.
    Unknown(&'a str, String),
    /// The person leaves the chat.
    Leave,
}

/// Parses a line, where `own` are the commands from files.
pub(crate) fn meant<'a>(line: &'a str, own: &[String]) -> Meant<'a> {
    let text = line.trim();
    if text.is_empty() {
        return Meant::Nothing;
    }
    // A leading blank marks a line that is sent unchanged.
    if line.starts_with(char::is_whitespace) {
        return Meant::Text(line.trim_end());
    }
    if LEAVE.contains(&text) {
        return Meant::Leave;
    }
    if let Some(command) = text.strip_prefix('!') {
        return Meant::Run(command.trim());
    }
    let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let Some(name) = first.strip_prefix('/').filter(|it| is_name(it)) else { return Meant::Text(text) };
    let rest = rest.trim();
    if own.iter().any(|it| it == name) {
        // Files can't replace built-in names.
        if !COMMANDS.iter().any(|it| it.name == first) {
            return Meant::Own(name, rest);
        }
    }
    let lower = first.to_ascii_lowercase();
    match COMMANDS.iter().find(|it| it.name == lower) {
        Some(Command { name: "/quit" | "/exit", .. }) => Meant::Leave,
        Some(command) => Meant::Command(command.name, rest),
        None if matches!(name, "?" | "h") => Meant::Command("/help", rest),
        None => Meant::Unknown(first, nearest(first, own)),
    }
}

/// Returns whether this may be a command's name. A path and a comment are not; an empty one is not typed yet.
fn is_name(word: &str) -> bool {
    word == "?" || word.chars().all(|it| it.is_alphanumeric() || matches!(it, '-' | '_' | ':'))
}

/// Returns the known command that is nearest to the typed one.
fn nearest(typed: &str, own: &[String]) -> String {
    let own = own.iter().map(|it| format!("/{it}"));
    let all = COMMANDS.iter().map(|it| it.name.to_owned()).chain(own);
    let typed = typed.to_ascii_lowercase();
    let near = all.map(|it| (distance(&it, &typed), it)).min_by_key(|it| it.0);
    near.filter(|it| it.0 <= NEAR).map_or_else(|| "/help".to_owned(), |it| it.1)
}

/// Returns the edit distance in letters; 0 if `typed` is a prefix of `name`.
pub(crate) fn distance(name: &str, typed: &str) -> usize {
    if name.starts_with(typed) {
        return 0;
    }
    let typed: Vec<char> = typed.chars().collect();
    let mut before: Vec<usize> = (0..=typed.len()).collect();
    for (at, letter) in name.chars().enumerate() {
        let mut now = vec![at + 1];
        for (other, above) in typed.iter().zip(before.windows(2)) {
            let (diagonal, up) = (above.first().copied().unwrap_or(0), above.last().copied().unwrap_or(0));
            let left = now.last().copied().unwrap_or(0);
            now.push((diagonal + usize::from(*other != letter)).min(up + 1).min(left + 1));
        }
        before = now;
    }
    before.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Meant<'_> {
        meant(line, &["review".to_owned(), "git:commit".to_owned(), "undo".to_owned()])
    }

    #[test]
    fn commands_are_known_with_what_follows_them() {
        assert_eq!(of("  "), Meant::Nothing);
        assert_eq!(of("/model  openai:x "), Meant::Command("/model", "openai:x"));
        assert_eq!(of("/Help"), Meant::Command("/help", ""));
        assert_eq!(of("/?"), Meant::Command("/help", ""));
        assert_eq!(of("/plan\nfix it"), Meant::Command("/plan", "fix it"));
        assert_eq!(of("/review src\nand more"), Meant::Own("review", "src\nand more"));
        assert_eq!(of("/git:commit"), Meant::Own("git:commit", ""));
        assert_eq!(of("/undo"), Meant::Command("/undo", ""), "a file takes no name of the chat's own");
    }

    #[test]
    fn a_slash_never_reaches_the_model_by_mistake() {
        for (typed, near) in [
            ("/modle", "/model"),
            ("/sess", "/sessions"),
            ("/revew it", "/review"),
            ("/tmp is full", "/help"),
            ("/foo", "/fork"),
            ("/zzz", "/help"),
        ] {
            let Meant::Unknown(_, nearest) = of(typed) else { unreachable!("{typed}") };
            assert_eq!(nearest, near, "{typed}");
        }
        assert!(matches!(of("/"), Meant::Unknown("/", _)));
        for text in ["/etc/hosts is wrong", "// why?", "/** doc */", "/[0-9]+/ matches", "/x.txt"] {
            assert_eq!(of(text), Meant::Text(text));
        }
        assert_eq!(of(" /plan is a word\n"), Meant::Text(" /plan is a word"));
    }

    #[test]
    fn the_words_by_which_people_leave_leave() {
        for line in ["exit", "quit", "/quit", "/exit", ":q"] {
            assert_eq!(of(line), Meant::Leave, "{line}");
        }
        assert_eq!(of("exit the loop early"), Meant::Text("exit the loop early"));
        assert_eq!(of("quit\nplease"), Meant::Text("quit\nplease"));
    }

    #[test]
    fn what_follows_an_exclamation_mark_is_a_command_of_the_person_s() {
        assert_eq!(of("!ls -l | wc"), Meant::Run("ls -l | wc"));
        assert_eq!(of("! make\n  test"), Meant::Run("make\n  test"));
        assert_eq!(of("!"), Meant::Run(""));
    }
}

//! What can be asked of the chat itself?

/// The commands, with what they take and what they do.
pub(crate) const COMMANDS: [(&str, &str, &str); 13] = [
    ("/help", "", "what can be typed here"),
    ("/model", "[NAME]", "which model answers; goes on with another"),
    ("/profile", "[NAME]", "which profiles there are; goes on under another"),
    ("/plan", "", "plan mode, on and off: nothing is changed"),
    ("/tools", "", "the tools that the model has"),
    ("/jobs", "", "what runs in the background, and what became of it"),
    ("/undo", "", "puts back what the last call changed"),
    ("/cost", "", "what this conversation took until now"),
    ("/sessions", "", "the conversations of this workspace"),
    ("/resume", "[NAME]", "goes on with another conversation, or the newest"),
    ("/new", "", "begins a new conversation"),
    ("/clear", "", "the same"),
    ("/exit", "", "ends; so does Ctrl-D"),
];

/// A line as it is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Meant<'a> {
    /// Nothing.
    Nothing,
    /// Something for the model.
    Said(&'a str),
    /// A command, and what it is given.
    Command(&'static str, &'a str),
    /// No command, and the one that is nearest.
    Unknown(&'a str, &'static str),
}

/// What a line means. A path such as `/etc/hosts` is no command, nor is what goes on over lines.
pub(crate) fn meant(line: &str) -> Meant<'_> {
    let line = line.trim();
    if line.is_empty() {
        return Meant::Nothing;
    }
    let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let is_command = first
        .strip_prefix('/')
        .is_some_and(|it| !it.is_empty() && it.chars().all(|it| it.is_ascii_lowercase()));
    if !is_command {
        return Meant::Said(line);
    }
    match COMMANDS.iter().find(|it| it.0 == first) {
        Some((name, ..)) => Meant::Command(name, rest.trim()),
        None => {
            let nearest = COMMANDS.iter().min_by_key(|it| distance(it.0, first));
            Meant::Unknown(first, nearest.map_or("/help", |it| it.0))
        }
    }
}

/// How many letters have to change, come or go. A beginning of it is near.
fn distance(name: &str, typed: &str) -> usize {
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

    #[test]
    fn commands_are_told_from_what_is_said() {
        assert_eq!(meant("  "), Meant::Nothing);
        assert_eq!(meant("/model  openai:x "), Meant::Command("/model", "openai:x"));
        assert_eq!(meant("/etc/hosts is wrong"), Meant::Said("/etc/hosts is wrong"));
        assert_eq!(meant("/"), Meant::Said("/"));
        assert_eq!(meant("/modle"), Meant::Unknown("/modle", "/model"));
        assert_eq!(meant("/quit"), Meant::Unknown("/quit", "/exit"));
        assert_eq!(meant("/sess"), Meant::Unknown("/sess", "/sessions"));
    }
}

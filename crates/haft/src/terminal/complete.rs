//! Completion: returns the choices for the word before the cursor: a command, a value of one, or a file after `@`.

use super::{
    commands::{COMMANDS, Command},
    files::Files,
};

/// Completes the text at the prompt.
#[derive(Default)]
pub(crate) struct Words {
    files: Option<Files>,
    /// Commands from files.
    own: Vec<Own>,
    /// The values that a command accepts.
    values: Vec<(&'static str, Vec<Value>)>,
}

/// A command from a file, or a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Own {
    /// The name, without the `/`.
    pub(crate) name: String,
    pub(crate) takes: String,
    pub(crate) does: String,
}

/// A value that a command accepts, and its description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) word: String,
    pub(crate) about: String,
}

/// A choice for a word.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Choice {
    /// The text that replaces the word.
    pub(crate) word: String,
    /// The text that the popup shows.
    pub(crate) shown: String,
    /// The arguments of the command.
    pub(crate) takes: String,
    pub(crate) about: String,
    /// The word is complete: a blank follows it.
    pub(crate) ends: bool,
    /// The line is complete with it.
    pub(crate) done: bool,
}

/// The choices for the word that begins at `start`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Offered {
    pub(crate) start: usize,
    pub(crate) choices: Vec<Choice>,
    /// The text that is shown if there are no choices.
    pub(crate) says: &'static str,
    /// The first one is chosen, unless the person chooses.
    pub(crate) picks: bool,
}

impl Words {
    pub(crate) fn new(files: Option<Files>) -> Self {
        Self { files, ..Self::default() }
    }

    /// Sets the commands from files.
    pub(crate) fn set_own(&mut self, own: Vec<Own>) {
        self.own = own;
    }

    /// Sets the values that a command accepts.
    pub(crate) fn set_values(&mut self, command: &'static str, values: Vec<Value>) {
        self.values.retain(|it| it.0 != command);
        self.values.push((command, values));
    }

    /// Waits until the file search has a new result.
    pub(crate) async fn changed(&mut self) {
        match &mut self.files {
            Some(files) => files.changed().await,
            None => std::future::pending().await,
        }
    }

    /// Returns the choices for the word before `at`, or `None` if nothing is completed there.
    pub(crate) fn offered(&self, line: &str, at: usize) -> Option<Offered> {
        let typed = line.get(..at)?;
        if let Some((start, path)) = mention(typed) {
            return Some(self.files_like(start, path));
        }
        if typed.contains('\n') {
            return None;
        }
        let begun = typed.strip_prefix('/')?;
        let Some((name, rest)) = begun.split_once(' ') else {
            return (line.len() == at).then(|| self.commands_like(begun));
        };
        let rest = rest.trim_start();
        let known = self.values.iter().find(|it| it.0.strip_prefix('/') == Some(name))?;
        Some(values_like(at - rest.len(), &known.1, rest))
    }

    fn commands_like(&self, begun: &str) -> Offered {
        let begun = begun.to_lowercase();
        let of_chat = COMMANDS.iter().map(|Command { name, takes, does }| Choice {
            word: (*name).to_owned(),
            shown: (*name).to_owned(),
            takes: (*takes).to_owned(),
            about: (*does).to_owned(),
            ends: !takes.is_empty(),
            done: takes.is_empty(),
        });
        let is_taken = |name: &str| COMMANDS.iter().any(|it| it.name.strip_prefix('/') == Some(name));
        let own = self.own.iter().filter(|it| !is_taken(&it.name)).map(|it| Choice {
            word: format!("/{}", it.name),
            shown: format!("/{}", it.name),
            takes: it.takes.clone(),
            about: it.does.clone(),
            // It acts on the model's turn, which is hard to undo, so the choice does not complete the line.
            ends: true,
            done: false,
        });
        let mut choices: Vec<(usize, Choice)> = of_chat
            .chain(own)
            .filter_map(|it| {
                // Names that begin with it come first, then those that contain it.
                let name = it.word.get(1..)?.to_lowercase();
                let place = name.find(&begun)?;
                Some((usize::from(place > 0) * 2 + usize::from(name != begun), it))
            })
            .collect();
        choices.sort_by_key(|it| it.0);
        let choices = choices.into_iter().map(|it| it.1).collect();
        Offered { start: 0, choices, says: "", picks: true }
    }

    fn files_like(&self, start: usize, path: &str) -> Offered {
        let Some(files) = &self.files else { return Offered::default() };
        files.ask(path);
        let Some(found) = files.found(path) else {
            return Offered { start, says: "looking for files…", ..Offered::default() };
        };
        let says = if found.cut { "no such file among the first ones found" } else { "no such file" };
        let choices = found.paths.into_iter().map(|path| {
            let is_folder = path.ends_with('/');
            let blank = path.chars().any(char::is_whitespace);
            let word = match (blank, is_folder) {
                (true, true) => format!("@\"{path}"),
                (true, false) => format!("@\"{path}\""),
                (false, _) => format!("@{path}"),
            };
            Choice { word, shown: path, ends: !is_folder, ..Choice::default() }
        });
        Offered { start, choices: choices.collect(), says, picks: true }
    }
}

/// Returns the position of the `@` of the word at the cursor, and the text after it.
fn mention(typed: &str) -> Option<(usize, &str)> {
    let at = typed.rfind('@')?;
    let before = typed.get(..at)?.chars().next_back();
    let begins = before.is_none_or(|it| it.is_whitespace() || matches!(it, '(' | '[' | '{' | '"' | '\''));
    let path = typed.get(at + 1..)?;
    let (path, is_quoted) = match path.strip_prefix('"') {
        Some(path) => (path, true),
        None => (path, false),
    };
    let ended = if is_quoted { path.contains(['"', '\n']) } else { path.contains(char::is_whitespace) };
    (begins && !ended).then_some((at, path))
}

fn values_like(start: usize, values: &[Value], begun: &str) -> Offered {
    let begun_lower = begun.to_lowercase();
    let is_like = |it: &&Value| {
        it.word.to_lowercase().contains(&begun_lower) || it.about.to_lowercase().contains(&begun_lower)
    };
    let choices = values.iter().filter(is_like).map(|it| Choice {
        word: it.word.clone(),
        shown: it.word.clone(),
        about: it.about.clone(),
        done: true,
        ..Choice::default()
    });
    // The bare command is a query, so nothing is chosen until a letter is typed.
    Offered { start, choices: choices.collect(), says: "", picks: !begun.is_empty() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> Words {
        let mut words = Words::default();
        let own = |name: &str| Own { name: name.to_owned(), takes: String::new(), does: "mine".to_owned() };
        words.set_own(vec![own("review"), own("undo")]);
        let value = |word: &str| Value { word: word.to_owned(), about: String::new() };
        words.set_values("/model", vec![value("openai:gpt"), value("anthropic:x")]);
        words
    }

    fn offered(line: &str) -> Vec<String> {
        let found = words().offered(line, line.len());
        found.map(|it| it.choices.into_iter().map(|it| it.word).collect()).unwrap_or_default()
    }

    #[test]
    fn commands_are_offered_at_the_beginning_of_the_line() {
        assert_eq!(offered("/se"), ["/sessions"]);
        assert_eq!(offered("/re"), ["/rewind", "/rename", "/resume", "/review"]);
        assert_eq!(offered("/ew"), ["/rewind", "/new", "/review"]);
        assert_eq!(offered("/undo"), ["/undo"], "a file takes no name of the chat's own");
        assert_eq!(offered("/").len(), COMMANDS.len() + 1);
        assert_eq!(offered("say /se"), [""; 0]);
        assert_eq!(offered("/nothing"), [""; 0]);
    }

    #[test]
    fn what_may_follow_a_command_is_offered_behind_it() {
        assert_eq!(offered("/model "), ["openai:gpt", "anthropic:x"]);
        assert_eq!(offered("/model anth"), ["anthropic:x"]);
        let found = words().offered("/model anth", 11).map(|it| (it.start, it.picks));
        assert_eq!(found, Some((7, true)));
        assert_eq!(offered("/cost x"), [""; 0]);
    }

    #[test]
    fn a_mention_begins_with_an_at_sign_at_the_beginning_of_a_word() {
        assert_eq!(mention("look at @src/m"), Some((8, "src/m")));
        assert_eq!(mention("(@\"a b"), Some((1, "a b")));
        assert_eq!(mention("@"), Some((0, "")));
        for typed in ["me@example.org", "@a b", "@\"a b\"", "no"] {
            assert_eq!(mention(typed), None, "{typed}");
        }
    }
}

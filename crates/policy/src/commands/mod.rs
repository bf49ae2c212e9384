//! Command analysis: every simple command that a command line may start.
//!
//! The text is parsed as bash would, and split into every simple command that may run, at any depth. A text
//! that can't be parsed for certain is an error, never a guess: the caller then asks. The result is for
//! approval and lists; the sandbox enforces the boundary.

mod inline;
mod launchers;
mod programs;
mod read;
mod rules;
mod scan;
mod section;
mod walk;
mod wrappers;

#[cfg(test)]
mod tests;

pub use rules::Rules;
pub(crate) use rules::{Case, Judged, Placement, as_prefix};
pub use section::{CommandRule, Commands, Then};

use kit::quote::quote;

/// The stack of the parser's thread, in bytes: deeper nesting is refused before.
const STACK: usize = 256 << 20;

/// Time limit of the analysis. It takes microseconds; this is for cases that nobody anticipated.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(2);

/// One simple command of a command line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Part {
    /// The program and its arguments.
    pub(crate) words: Vec<Word>,
    /// The files that its redirections write to.
    pub(crate) writes: Vec<Word>,
    /// The reason why its words don't determine its effect: no prefix can allow it.
    pub(crate) odd: Option<&'static str>,
    /// Whether it runs text that is not visible here, so that any rule may apply.
    pub(crate) opaque: bool,
    /// Whether it contains code or options that may start programs that no list can recognize. Only lists use this.
    pub(crate) unclear: bool,
    /// Text in which the name of a denied program counts as that program.
    pub(crate) code: Vec<String>,
    /// Files that it renames, moves, or reads into a variable.
    pub(crate) takes: Vec<Word>,
    /// System programs among its arguments, which it may start.
    pub(crate) near: Vec<Word>,
    /// Whether it reads input from the command line.
    pub(crate) fed: bool,
    /// Whether it only starts another part, which is listed separately.
    pub(crate) wraps: bool,
}

/// One word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Word {
    /// A literal word.
    Plain(String),
    /// A word with expansions, as it is written: its value is known only at run time.
    Open(String),
}

/// A command line that could not be parsed for certain, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unparsed(pub(crate) String);

impl Unparsed {
    fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

impl Word {
    /// Returns the word, if it is literal.
    pub(crate) fn plain(&self) -> Option<&str> {
        match self {
            Self::Plain(text) => Some(text),
            Self::Open(_) => None,
        }
    }

    /// Returns the word as it is written, or nearly so.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Plain(text) | Self::Open(text) => text,
        }
    }
}

impl Part {
    /// Returns the program, if it is known.
    pub(crate) fn program(&self) -> Option<&str> {
        self.words.first().and_then(Word::plain)
    }

    /// Formats the part in one line, for a person.
    pub(crate) fn text(&self) -> String {
        let mut text = self.words.iter().map(show).collect::<Vec<_>>().join(" ");
        for target in &self.writes {
            text.push_str(" > ");
            text.push_str(&show(target));
        }
        text
    }
}

fn show(word: &Word) -> String {
    match word {
        Word::Plain(text) => quote(text),
        Word::Open(text) => text.clone(),
    }
}

/// Splits a command line into its parts.
///
/// # Errors
/// When it can't be parsed for certain.
pub(crate) fn parse(text: &str) -> Result<Vec<Part>, Unparsed> {
    scan::scan(text)?;
    let (done, parsed) = std::sync::mpsc::sync_channel(1);
    let text = text.to_owned();
    // A thread of its own, with a large stack: the third-party parser recurses for each level of nesting.
    let thread =
        std::thread::Builder::new().name("haft-parse".to_owned()).stack_size(STACK).spawn(move || {
            // After the time limit the receiver is gone.
            let _ = done.send(walk::parts(&text));
        });
    if thread.is_err() {
        return Err(Unparsed::new("no thread could be started to parse it"));
    }
    parsed.recv_timeout(TIMEOUT).unwrap_or_else(|_| Err(Unparsed::new("the parser found no end of it")))
}

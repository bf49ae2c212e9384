//! Command analysis: every simple command that a command line may start.
//!
//! The text is parsed as bash would, and taken apart into every simple command that may
//! run, wherever it hides. What can't be understood for sure is an error, never a guess:
//! whoever decides then asks. The answer is for questions and lists; the wall is the sandbox.

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

/// The stack of the thread that parses: deeper nesting than it holds is refused before.
const STACK: usize = 256 << 20;

/// How long a command line may take to be understood. Measured are microseconds; this is
/// for what nobody thought of.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);

/// One simple command of a command line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Part {
    /// The program and its arguments.
    pub(crate) words: Vec<Word>,
    /// The files that its redirections write to.
    pub(crate) writes: Vec<Word>,
    /// Why its words don't tell what it does: no prefix can speak for it.
    pub(crate) odd: Option<&'static str>,
    /// Whether it runs text that can't be seen, so that any rule might be about it.
    pub(crate) opaque: bool,
    /// Whether it brings code or options that may start what no list can read. Only lists care.
    pub(crate) unclear: bool,
    /// Text in which the name of a denied program counts as that program.
    pub(crate) code: Vec<String>,
    /// Files that get another name or place by it, or become a variable's value.
    pub(crate) takes: Vec<Word>,
    /// Programs of the system among its arguments, which it may start.
    pub(crate) near: Vec<Word>,
    /// Whether it reads something that the command line brings.
    pub(crate) fed: bool,
    /// It only starts another part, which stands beside it.
    pub(crate) wraps: bool,
}

/// One word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Word {
    /// Exactly this.
    Plain(String),
    /// Known only when it runs; here as it is written.
    Open(String),
}

/// A command line that could not be understood, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unparsed(pub(crate) String);

impl Unparsed {
    fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

impl Word {
    /// The word, if it is known.
    pub(crate) fn plain(&self) -> Option<&str> {
        match self {
            Self::Plain(text) => Some(text),
            Self::Open(_) => None,
        }
    }

    /// The word as it is written, or as good as.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Plain(text) | Self::Open(text) => text,
        }
    }
}

impl Part {
    /// The program, if it is known.
    pub(crate) fn program(&self) -> Option<&str> {
        self.words.first().and_then(Word::plain)
    }

    /// The part in one line, for a person.
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

/// The parts of a command line.
///
/// # Errors
/// When it is not a command line that can be understood for sure.
pub(crate) fn parse(text: &str) -> Result<Vec<Part>, Unparsed> {
    scan::scan(text)?;
    let (done, parsed) = std::sync::mpsc::sync_channel(1);
    let text = text.to_owned();
    // A thread of its own: the parser calls itself for each level of nesting, and is not ours.
    let thread =
        std::thread::Builder::new().name("haft-parse".to_owned()).stack_size(STACK).spawn(move || {
            // Nobody waits any more: nothing to tell.
            let _ = done.send(walk::parts(&text));
        });
    if thread.is_err() {
        return Err(Unparsed::new("no thread could be started to parse it"));
    }
    parsed.recv_timeout(PATIENCE).unwrap_or_else(|_| Err(Unparsed::new("the parser found no end of it")))
}

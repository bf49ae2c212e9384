//! Conversations by OpenAI's API: finds the session that a list of messages continues, and gives each session to one request at a
//! time.
//!
//! A client sends its whole conversation with each request, and names no session. So haft compares: everything before the last
//! answer by its hash, and the last answer too, unless it was cut. System messages don't count, as clients change them (the time,
//! what they remember of the person), nor does space around a text. The hashes are on the disk, too, for the next server.

use std::{
    collections::VecDeque,
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// So many answers are remembered.
const REMEMBERED: usize = 1000;

/// The longest answer whose text is remembered, in bytes, where it was cut.
const LONGEST: usize = 16 << 10;

/// The file of hashes is shortened when it has this many lines.
const LINES: usize = 4 * REMEMBERED;

/// A message that counts: the person's, or an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Compared {
    pub(crate) is_answer: bool,
    pub(crate) text: String,
    /// The addresses of its pictures.
    pub(crate) pictures: Vec<String>,
}

/// A conversation up to an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct History {
    /// The hash of all before the last message of the person, and of the person, the workspace and the profile.
    before: String,
    /// The last message of the person, and its hash.
    user: String,
    user_hash: String,
    /// The texts after it.
    answer: String,
}

/// The session of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Conversation {
    before: String,
    user: String,
    answer: String,
    /// The answer, where the client may have less of it.
    #[serde(skip)]
    cut: Option<String>,
    pub(crate) workspace: String,
    pub(crate) session: String,
    /// The number of the row with which its newest turn began.
    pub(crate) turn: u64,
    /// The hash of the instructions that the session was given last.
    pub(crate) instructions: String,
}

/// The conversations of a server; newest last.
pub(crate) struct Conversations {
    all: Mutex<VecDeque<Conversation>>,
    file: PathBuf,
}

/// Returns a hash, as text.
pub(crate) fn hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

impl History {
    /// Returns the history of these messages; `scope` names the person, the workspace and the profile. None, if nothing of it
    /// is the person's.
    pub(crate) fn of(scope: &str, all: &[Compared]) -> Option<Self> {
        let at = all.iter().rposition(|it| !it.is_answer)?;
        let (before, rest) = all.split_at(at);
        let (user, answers) = rest.split_first()?;
        let before: Vec<_> =
            before.iter().map(|it| json!([it.is_answer, it.text.trim(), it.pictures])).collect();
        let user_hash = hash(&json!([user.text.trim(), user.pictures]).to_string());
        let answer: Vec<&str> = answers.iter().map(|it| it.text.trim()).collect();
        Some(Self {
            before: hash(&json!([scope, before]).to_string()),
            user: user.text.trim().to_owned(),
            user_hash,
            answer: answer.join("\n").trim().to_owned(),
        })
    }

    /// Returns whether this message, which haft has, holds the person's last one: clients send a message with what belongs to
    /// it, such as passages of a file, and later the message alone. Without an answer there is too little to compare.
    pub(crate) fn is_wrapped_in(&self, message: &str) -> bool {
        !self.answer.is_empty() && !self.user.is_empty() && message.contains(&self.user)
    }
}

impl Conversation {
    /// The conversation `history` in this session; `is_cut`, if the client may have less of the answer.
    pub(crate) fn new(
        history: &History,
        is_cut: bool,
        (workspace, session): (&str, &str),
        turn: u64,
        instructions: &str,
    ) -> Self {
        let cut = Some(history.answer.clone()).filter(|it| is_cut && it.len() <= LONGEST);
        Self {
            before: history.before.clone(),
            user: history.user_hash.clone(),
            answer: hash(&history.answer),
            cut,
            workspace: workspace.to_owned(),
            session: session.to_owned(),
            turn,
            instructions: instructions.to_owned(),
        }
    }

    /// Returns whether it has this history, whatever the person's last message is.
    fn is_like(&self, history: &History) -> bool {
        let is_part = |cut: &String| !history.answer.is_empty() && cut.starts_with(&history.answer);
        self.before == history.before
            && (self.answer == hash(&history.answer) || self.cut.as_ref().is_some_and(is_part))
    }

    /// Returns whether the person's last message is the same.
    pub(crate) fn has_same_user(&self, history: &History) -> bool {
        self.user == history.user_hash
    }
}

impl Conversations {
    /// Opens those of the last server, which are in this file.
    pub(crate) fn open(file: PathBuf) -> Self {
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => {
                tracing::warn!(%error, file = %file.display(), "conversations of the last server are not known");
                String::new()
            }
        };
        let lines: Vec<&str> = text.lines().collect();
        let newest = lines.get(lines.len().saturating_sub(REMEMBERED)..).unwrap_or_default();
        // A line that a crash cut is left out.
        let all: VecDeque<Conversation> =
            newest.iter().filter_map(|it| serde_json::from_str(it).ok()).collect();
        if lines.len() > LINES
            && let Err(error) = replace(&file, &all)
        {
            tracing::warn!(%error, file = %file.display(), "the file of conversations was not shortened");
        }
        Self { all: Mutex::new(all), file }
    }

    /// Returns the conversations with this history, whatever the person's last message is: those with the same one first, and of
    /// those that are alike the newest.
    pub(crate) fn like(&self, history: &History) -> Vec<Conversation> {
        let mut found: Vec<Conversation> =
            self.all.lock().iter().rev().filter(|it| it.is_like(history)).cloned().collect();
        found.sort_by_key(|it| !it.has_same_user(history));
        found
    }

    /// Takes the session of a conversation, for a request that continues it: no other one finds it until it is remembered again.
    /// Returns false where another request was first.
    pub(crate) fn take(&self, found: &Conversation) -> bool {
        let mut all = self.all.lock();
        if !all.contains(found) {
            return false;
        }
        all.retain(|it| (&it.workspace, &it.session) != (&found.workspace, &found.session));
        true
    }

    /// Remembers a conversation. Blocks for one short write.
    pub(crate) fn remember(&self, conversation: Conversation) {
        let line = json!(conversation).to_string();
        let mut all = self.all.lock();
        all.push_back(conversation);
        if all.len() > REMEMBERED {
            all.pop_front();
        }
        if let Err(error) = append(&self.file, &line) {
            tracing::warn!(%error, file = %self.file.display(), "a conversation is remembered until the server ends");
        }
    }
}

/// Adds a line, in one write.
fn append(file: &Path, line: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(file)?;
    file.write_all(format!("{line}\n").as_bytes())
}

/// Writes the file anew.
fn replace(file: &Path, all: &VecDeque<Conversation>) -> io::Result<()> {
    let text: String = all.iter().map(|it| format!("{}\n", json!(it))).collect();
    let new = file.with_extension(format!("new.{}", std::process::id()));
    let mut written = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    written.write_all(text.as_bytes())?;
    fs::rename(&new, file)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn compared(texts: &[&str]) -> Vec<Compared> {
        let of = |(at, text): (usize, &&str)| Compared {
            is_answer: at % 2 == 1,
            text: (*text).to_owned(),
            pictures: Vec::new(),
        };
        texts.iter().enumerate().map(of).collect()
    }

    fn history(texts: &[&str]) -> History {
        History::of("ann", &compared(texts)).unwrap()
    }

    fn conversation(texts: &[&str], session: &str, is_cut: bool) -> Conversation {
        Conversation::new(&history(texts), is_cut, ("w", session), 1, "")
    }

    #[test]
    fn space_does_not_count_and_a_cut_answer_matches_its_beginning() {
        let whole = conversation(&["a", "One two.\n"], "s_1", false);
        assert!(whole.is_like(&history(&["a ", " One two."])));
        assert!(!whole.is_like(&history(&["a", "One"])));
        let cut = conversation(&["a", "One two."], "s_1", true);
        assert!(cut.is_like(&history(&["a", "One"])) && cut.is_like(&history(&["a", "One two."])));
        assert!(!cut.is_like(&history(&["a", "two"])) && !cut.is_like(&history(&["a"])));
        assert!(history(&["a", "b"]).is_wrapped_in("context of a file\na"));
        assert!(!history(&["a"]).is_wrapped_in("a"), "without an answer too little is known");
    }

    #[test]
    fn session_is_taken_once_and_remembered_beyond_the_server() {
        let folder = std::env::temp_dir().join(format!("haft-conversations-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("conversations");
        let all = Conversations::open(file.clone());
        for session in ["s_1", "s_2"] {
            all.remember(conversation(&["hi", "Hello."], session, false));
        }
        let found = Conversations::open(file).like(&history(&["hi", "Hello."]));
        assert_eq!(found.len(), 2);
        let [one, two] = <[Conversation; 2]>::try_from(all.like(&history(&["hi", "Hello."]))).unwrap();
        assert!(all.take(&one) && !all.take(&one) && all.take(&two));
        assert!(all.like(&history(&["hi", "Hello."])).is_empty());
        fs::remove_dir_all(&folder).unwrap();
    }
}

//! Session notes and workspace memory.

use kit::{
    Fault,
    services::{Change, Fact, FoundMessage, Notes},
};
use store::Store;

/// The prefix of notes' keys in a session's stored state.
const PREFIX: &str = "note ";

/// The notes of one session.
pub(crate) struct NotesOf {
    store: Store,
    session: String,
}

impl NotesOf {
    /// Returns the notes of the session of this name.
    pub(crate) fn new(store: Store, session: &str) -> Self {
        Self { store, session: session.to_owned() }
    }

    /// Returns the key of a note, redacted: a model may have put a secret there.
    fn key(&self, key: &str) -> String {
        format!("{PREFIX}{}", self.store.stamp().secrets.mask(key))
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Notes for NotesOf {
    fn get(&self, key: &str) -> Result<Option<String>, Fault> {
        let bytes = self.store.sessions().get(&self.session, &self.key(key))?;
        Ok(bytes.as_deref().map(text))
    }

    fn change(&self, key: &str, change: Change) -> Result<Option<String>, Fault> {
        let secrets = self.store.stamp().secrets;
        let changed = self.store.sessions().change(&self.session, &self.key(key), move |before| {
            let after = change(before.as_deref().map(text))?;
            Ok(after.map(|it| secrets.mask(&it).into_owned().into_bytes()))
        })?;
        Ok(changed.as_deref().map(text))
    }

    fn keys(&self, prefix: &str) -> Result<Vec<String>, Fault> {
        let keys = self.store.sessions().keys(&self.session, &self.key(prefix))?;
        Ok(keys.iter().filter_map(|it| it.strip_prefix(PREFIX)).map(str::to_owned).collect())
    }

    fn remember(&self, fact: &str, tags: &[String]) -> Result<u64, Fault> {
        self.store.memory().remember(&self.session, fact, tags)
    }

    fn recall(&self, query: &str, limit: usize) -> Result<Vec<Fact>, Fault> {
        self.store.memory().recall(query, limit)
    }

    fn forget(&self, number: u64) -> Result<Fact, Fault> {
        let found = self.store.memory().forget(number)?;
        found.ok_or_else(|| Fault::not_found(format!("no fact has the number {number}, or it was forgotten")))
    }

    fn find_messages(&self, query: &str, limit: usize) -> Result<Vec<FoundMessage>, Fault> {
        self.store.sayings().find(&self.session, query, limit)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::{path::Path, sync::Arc};

    use kit::{Kind, redact::Secrets};

    use super::*;
    use store::Buffer;

    fn open(state: &Path) -> Store {
        let secrets = Secrets::collect([("API_KEY", "hunter2hunter2")], []);
        Store::open(state, Path::new("/nowhere/w"), Arc::new(secrets))
    }

    fn notes(store: &Store, session: &str) -> NotesOf {
        NotesOf { store: store.clone(), session: session.to_owned() }
    }

    fn texts(notes: &NotesOf, query: &str) -> Vec<String> {
        notes.recall(query, 10).unwrap().into_iter().map(|it| it.text).collect()
    }

    /// Text with a meaning in an index query or in SQL.
    const HOSTILE: &[&str] = &[
        "\"",
        "'",
        "a\"b",
        "NOT",
        "AND",
        "a AND",
        "OR OR",
        "NEAR(",
        "a NEAR/2 b",
        "text:",
        "text : x",
        "*",
        "a*b*",
        "^a",
        "- a",
        "+",
        "{a b}",
        "(",
        ")",
        "a)(",
        "\\",
        "%",
        "_",
        ";",
        "--",
        "/*",
        "\0",
        "a\0b",
        "\u{feff}",
        "💥",
        "\u{301}",
        "日本語",
        "a\nb\t",
        "?1",
        ":x",
        "@x",
        "$x",
        "' OR 1=1 --",
    ];

    #[test]
    fn any_text_can_be_searched_for() {
        let dir = tempfile::tempdir().unwrap();
        let notes = notes(&open(dir.path()), "s");
        for it in HOSTILE {
            notes.remember(&format!("fact {it} end"), &[(*it).to_owned()]).unwrap();
        }
        for it in HOSTILE.iter().copied().chain([&*"\"x ".repeat(5_000), &*"y".repeat(100_000)]) {
            notes.recall(it, 5).unwrap_or_else(|fault| unreachable!("{it:?}: {fault}"));
            notes.find_messages(it, 5).unwrap_or_else(|fault| unreachable!("{it:?}: {fault}"));
        }
    }

    #[test]
    fn facts_are_found_by_their_words_until_they_are_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path());
        let notes = notes(&store, "s");
        let build = notes.remember("The builds need a running database.", &["build".to_owned()]).unwrap();
        let other = notes.remember("Müller wrote the parser", &[]).unwrap();
        notes.remember("日本語の文書", &[]).unwrap();
        assert_eq!(
            notes.remember(" The builds need a running database. ", &[]).unwrap(),
            build,
            "known already"
        );
        // Stems, diacritics, the beginning of the last word, tags, one word of several, and scripts without spaces.
        for query in ["run build", "database", "datab", "build zebra"] {
            assert_eq!(texts(&notes, query), ["The builds need a running database."], "{query}");
        }
        assert_eq!(texts(&notes, "muller"), ["Müller wrote the parser"]);
        assert_eq!(texts(&notes, "本語"), ["日本語の文書"]);
        assert_eq!(texts(&notes, "zebra"), Vec::<String>::new());
        assert_eq!(texts(&notes, " * ").len(), 3, "without words the newest");
        assert_eq!(notes.forget(other).unwrap().text, "Müller wrote the parser");
        assert_eq!(notes.forget(other).unwrap_err().kind, Kind::NotFound);
        assert_eq!(texts(&notes, "muller"), Vec::<String>::new());
        assert_ne!(notes.remember("Müller wrote the parser", &[]).unwrap(), other);
    }

    #[test]
    fn transcript_is_found_in_its_own_session_only() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path());
        let say = |session: &str, number, body: &str| {
            drop(store.transcripts().add(
                session,
                Buffer::Messages,
                number,
                serde_json::from_str(body).unwrap(),
            ));
        };
        say("s", 1, r#"{"who":"person","text":"Why is the build red?"}"#);
        say(
            "s",
            2,
            r#"{"who":"tool","tool":"shell","title":"just test","ok":false,"line":"exit 1","ms":3.0}"#,
        );
        say("s", 3, r#"{"who":"model","text":"A test is broken: hunter2hunter2 \"quoted\"."}"#);
        say("s", 4, r#"{"who":"note","text":"build"}"#);
        say("s", 5, r#"{"who":"something newer"}"#);
        say("s/sub", 1, r#"{"who":"person","text":"Another build."}"#);
        let said = |session, query| -> Vec<(u64, String, String)> {
            let found = notes(&store, session).find_messages(query, 10).unwrap();
            found.into_iter().map(|it| (it.place, it.who, it.text)).collect()
        };
        let row = |place, who: &str, text: &str| (place, who.to_owned(), text.to_owned());
        assert_eq!(said("s", "builds"), [row(1, "person", "Why is the build red?")]);
        assert_eq!(said("s", "just test"), [row(2, "shell", "shell just test: exit 1")]);
        assert_eq!(said("s", "quoted"), [row(3, "model", "A test is broken: [masked:API_KEY] \"quoted\".")]);
        assert_eq!(said("s", "").len(), 3);
        assert_eq!(said("s/sub", "build"), [row(1, "person", "Another build.")]);
        assert!(said("other", "build").is_empty());
    }

    #[test]
    fn long_line_is_shown_around_the_match() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path());
        let body = format!(r#"{{"who":"model","text":"{0} needle {0}"}}"#, "hay ".repeat(5_000));
        drop(store.transcripts().add("s", Buffer::Messages, 1, serde_json::from_str(&body).unwrap()));
        let found = notes(&store, "s").find_messages("needle", 1).unwrap();
        let text = &found.first().unwrap().text;
        assert!(text.contains("needle") && text.len() < 2_000, "{text}");
    }

    #[test]
    fn notes_are_kept_apart_and_without_secrets_and_a_refused_change_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = {
            let store = open(dir.path());
            let one = notes(&store, "s");
            one.put("pad b", Some("key hunter2hunter2")).unwrap();
            one.put("pad a", Some("1")).unwrap();
            one.put("list", Some("x")).unwrap();
            let refused = one.change("pad a", Box::new(|_| Err(Fault::bad_args("no"))));
            assert_eq!(refused.unwrap_err().kind, Kind::BadArgs);
            let grown = one.change("pad a", Box::new(|before| Ok(before.map(|it| it + "2"))));
            assert_eq!(grown.unwrap().as_deref(), Some("12"));
            one.put("list", None).unwrap();
            drop(one);
            drop(store);
            let store = open(dir.path());
            (notes(&store, "s"), notes(&store, "s/sub"))
        };
        assert_eq!(one.keys("pad ").unwrap(), ["pad a", "pad b"]);
        assert_eq!(one.keys("list").unwrap(), Vec::<String>::new());
        assert_eq!(one.get("pad b").unwrap().as_deref(), Some("key [masked:API_KEY]"));
        assert_eq!(other.get("pad b").unwrap(), None);
        let number = one.remember("key hunter2hunter2", &["hunter2hunter2".to_owned()]).unwrap();
        let fact = other.forget(number).unwrap();
        assert_eq!(
            (fact.text.as_str(), fact.tags),
            ("key [masked:API_KEY]", vec!["[masked:API_KEY]".to_owned()])
        );
    }
}

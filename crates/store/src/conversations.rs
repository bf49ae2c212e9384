//! The conversations of a workspace: listed with their first words, and searched.
//!
//! A conversation is a session in which a person sent a message to an agent; sessions of sub-agents are none.
//! Messages that the person took back don't count, neither as first words nor in a search.

use std::collections::HashSet;

use kit::Fault;
use rusqlite::{Row, params, types::Value};

use super::{
    Store,
    search_index::STANDS,
    search_query::{Words, rows},
};

/// Maximum number of characters of a conversation's first words.
const FIRST: i64 = 400;

/// Maximum number of matching lines that are read; many may be of one conversation.
const LINES: i64 = 500;

/// The conversations of one workspace.
#[derive(Clone)]
pub struct Conversations {
    store: Store,
}

/// One conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    /// The name of its session.
    pub session: String,
    /// The beginning of the person's first message. Secrets in it are masked.
    pub first: String,
    /// The first use of its session, in milliseconds since 1970.
    pub begun_ms: u64,
    /// The last use of its session.
    pub used_ms: u64,
    /// Number of the person's messages.
    pub turns: u64,
    /// The matching line of a search, or a part of it.
    pub found: Option<String>,
}

impl Store {
    /// Returns the conversations of this workspace.
    pub fn conversations(&self) -> Conversations {
        Conversations { store: self.clone() }
    }
}

/// Returns the query for the columns of each conversation; `?1` is [`FIRST`].
fn select(more: &str) -> String {
    format!(
        "SELECT id, created_ms, used_ms, first, turns FROM (
           SELECT s.id, s.created_ms, s.used_ms,
             (SELECT substr(d.text, 1, ?1) FROM said d
              WHERE d.session = s.id AND d.who = 'person' AND {STANDS} ORDER BY d.place LIMIT 1) AS first,
             (SELECT count(*) FROM said d WHERE d.session = s.id AND d.who = 'person' AND {STANDS}) AS turns
           FROM sessions s WHERE s.id NOT LIKE '%/%'
         ) WHERE turns > 0 {more}"
    )
}

fn conversation(row: &Row<'_>) -> rusqlite::Result<Conversation> {
    Ok(Conversation {
        session: row.get(0)?,
        begun_ms: row.get::<_, i64>(1)?.cast_unsigned(),
        used_ms: row.get::<_, i64>(2)?.cast_unsigned(),
        first: row.get(3)?,
        turns: row.get::<_, i64>(4)?.cast_unsigned(),
        found: None,
    })
}

impl Conversations {
    /// Returns the conversations, the most recently used first. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn list(&self, limit: usize) -> Result<Vec<Conversation>, Fault> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.store.wait(move |database| {
            let sql = select("ORDER BY used_ms DESC, id LIMIT ?2");
            rows(database, &sql, params![FIRST, limit], conversation)
        })
    }

    /// Returns the conversations that match `query`, best first, each with the matching line; and those whose
    /// name contains it. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn find(&self, query: &str, limit: usize) -> Result<Vec<Conversation>, Fault> {
        let words = Words::of(query);
        if words.is_empty() {
            return self.list(limit);
        }
        let whole = format!(
            "SELECT d.session, snippet(said_words, 0, '', '', ' … ', 24)
             FROM said_words JOIN said d ON d.id = said_words.rowid
             WHERE said_words MATCH ?1 AND d.session NOT LIKE '%/%' AND {STANDS}
             ORDER BY bm25(said_words), d.id DESC LIMIT ?2"
        );
        let part = format!(
            "SELECT d.session, substr(d.text, max(1, instr(lower(d.text), lower(?1)) - 60), 160) FROM said d
             WHERE instr(lower(d.text), lower(?1)) > 0 AND d.session NOT LIKE '%/%' AND {STANDS}
             ORDER BY d.id DESC LIMIT ?2"
        );
        let query = query.trim().to_owned();
        self.store.wait(move |database| {
            let params = |asked| vec![Value::Text(asked), Value::Integer(LINES)];
            let pair = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?));
            let lines = words.find(database, (&whole, &part), params, pair)?;
            let named = rows(
                database,
                &select("AND instr(lower(id), lower(?2)) > 0 ORDER BY used_ms DESC, id"),
                params![FIRST, query],
                conversation,
            )?;
            let mut found: Vec<Conversation> = Vec::new();
            let mut known = HashSet::new();
            let one = select("AND id = ?2");
            for (session, line) in lines {
                if found.len() >= limit || !known.insert(session.clone()) {
                    continue;
                }
                let this = rows(database, &one, params![FIRST, session], conversation)?;
                found.extend(this.into_iter().map(|it| Conversation { found: Some(line.clone()), ..it }));
            }
            let others = named.into_iter().filter(|it| !known.contains(&it.session));
            let left = limit.saturating_sub(found.len());
            found.extend(others.take(left));
            Ok(found)
        })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::{path::Path, sync::Arc};

    use crate::Buffer;
    use serde_json::json;

    use super::*;
    use kit::redact::Secrets;

    struct TestWorkspace {
        _folder: tempfile::TempDir,
        store: Store,
    }

    impl TestWorkspace {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let secrets = Secrets::collect([("A_TOKEN", "hunter2hunter2")], []);
            let store = Store::open(folder.path(), Path::new("/nowhere/w"), Arc::new(secrets));
            Self { _folder: folder, store }
        }

        async fn say(&self, session: &str, lines: &[serde_json::Value]) {
            self.store.sessions().used(session, "chat").unwrap();
            for (at, line) in lines.iter().enumerate() {
                let number = at as u64 + 1;
                self.store.transcripts().add(session, Buffer::Messages, number, line.clone()).await.unwrap();
            }
        }

        fn list(&self) -> Vec<(String, String, u64)> {
            let all = self.store.conversations().list(10).unwrap();
            all.into_iter().map(|it| (it.session, it.first, it.turns)).collect()
        }

        fn find(&self, query: &str) -> Vec<(String, Option<String>)> {
            let all = self.store.conversations().find(query, 10).unwrap();
            all.into_iter().map(|it| (it.session, it.found)).collect()
        }
    }

    fn person(text: &str) -> serde_json::Value {
        json!({"who": "person", "text": text})
    }

    #[tokio::test]
    async fn conversations_are_listed_by_first_words_without_secrets_and_sub_agents() {
        let test_ws = TestWorkspace::new();
        test_ws.say("s_1", &[person("use hunter2hunter2 here"), json!({"who": "model", "text": "ok"})]).await;
        test_ws.say("s_1/explore_1", &[person("look around")]).await;
        test_ws.say("cli", &[json!({"who": "tool", "tool": "read", "title": "a", "line": "b"})]).await;
        assert_eq!(test_ws.list(), [("s_1".to_owned(), "use [masked:A_TOKEN] here".to_owned(), 1)]);
    }

    #[tokio::test]
    async fn rewound_lines_are_neither_titles_nor_found() {
        let test_ws = TestWorkspace::new();
        let lines = [
            person("about zebras"),
            json!({"who": "model", "text": "striped"}),
            json!({"who": "rewound", "since": 1}),
            person("about horses"),
        ];
        test_ws.say("s_1", &lines).await;
        assert_eq!(test_ws.list(), [("s_1".to_owned(), "about horses".to_owned(), 1)]);
        assert!(test_ws.find("zebras").is_empty(), "{:?}", test_ws.find("zebras"));
        assert_eq!(test_ws.find("hors"), [("s_1".to_owned(), Some("about horses".to_owned()))]);
        test_ws.say("s_2", &[person("hello"), json!({"who": "rewound", "since": 1})]).await;
        assert_eq!(test_ws.list().len(), 1, "nothing is left of it");
    }

    #[tokio::test]
    async fn a_search_finds_each_conversation_once_by_its_lines_or_its_name() {
        let test_ws = TestWorkspace::new();
        test_ws.say("prices", &[person("hello")]).await;
        let tool =
            json!({"who": "tool", "tool": "edit", "title": "{\"path\":\"shop/prices.py\"}", "line": "+1 -1"});
        test_ws.say("s_1", &[person("mend the shop"), tool, person("and the prices again")]).await;
        let found = test_ws.find("prices");
        assert_eq!(found.iter().map(|it| it.0.as_str()).collect::<Vec<_>>(), ["s_1", "prices"]);
        assert!(found.iter().any(|it| it.1.as_deref().is_some_and(|line| line.contains("prices"))));
        assert!(test_ws.find("nothing like it").is_empty());
        assert_eq!(test_ws.find("  ").len(), 2, "without words all are listed");
    }

    #[tokio::test]
    async fn hundreds_of_conversations_are_listed_newest_first_and_bounded() {
        let test_ws = TestWorkspace::new();
        for at in 0..300 {
            test_ws.say(&format!("s_{at:03}"), &[person(&format!("task {at}"))]).await;
        }
        let listed = test_ws.store.conversations().list(20).unwrap();
        assert_eq!(listed.len(), 20);
        assert!(listed.is_sorted_by(|one, other| one.used_ms >= other.used_ms));
    }
}

//! The conversations of a workspace: listed with their first words, and searched.
//!
//! A conversation is a session in which a person said something to an agent; sessions of sub-agents are none. What a
//! person took back counts neither for its first words nor for a search. A deleted conversation is in no list.

mod delete;
mod fork;

use std::collections::HashSet;

use kit::Fault;
use rusqlite::{Row, params, types::Value};

use super::{
    Store, now_ms,
    search_index::STANDS,
    search_query::{Words, rows},
};

/// Maximum number of characters of a conversation's first words.
const FIRST: i64 = 400;

pub use delete::Deleted;
pub use fork::{Cut, Forked};

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
    /// The title that the person gave it. Secrets in it are masked.
    pub title: Option<String>,
    /// When it was archived.
    pub archived_ms: Option<u64>,
    /// The session it was forked from.
    pub forked_from: Option<String>,
    /// After how many of the person's messages, where that was not the whole.
    pub forked_at: Option<u64>,
}

/// Whether a list has the archived conversations too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Archived {
    /// It does not.
    Hidden,
    /// It does.
    Shown,
}

impl Store {
    /// Returns the conversations of this workspace.
    pub fn conversations(&self) -> Conversations {
        Conversations { store: self.clone() }
    }
}

/// A line of `said d` whose conversation was not deleted.
const IS_LISTED: &str = "d.session NOT IN (SELECT session FROM conversations WHERE deleted_ms IS NOT NULL)";

/// Returns the query for the columns of each conversation that a person took part in; `?1` is [`FIRST`]. `used_ms` is the time
/// of its newest message, whoever looked at it since.
fn select(more: &str) -> String {
    select_where("turns > 0", more)
}

/// Returns the query for the columns of the conversations of which this is true.
fn select_where(what: &str, more: &str) -> String {
    format!(
        "SELECT id, created_ms, used_ms, first, turns, title, archived_ms, forked_from, forked_at FROM (
           SELECT s.id, s.created_ms, max(s.created_ms, coalesce(
               (SELECT t.at_ms FROM transcript t WHERE t.session = s.id AND t.buffer = 'messages' ORDER BY t.number DESC LIMIT 1),
               s.used_ms)) AS used_ms, c.title, c.archived_ms, c.forked_from, c.forked_at,
             (SELECT substr(d.text, 1, ?1) FROM said d
              WHERE d.session = s.id AND d.who IN ('person', 'model') AND {STANDS}
              ORDER BY d.who <> 'person', d.place LIMIT 1) AS first,
             (SELECT count(*) FROM said d WHERE d.session = s.id AND d.who = 'person' AND {STANDS}) AS turns
           FROM sessions s LEFT JOIN conversations c ON c.session = s.id
           WHERE s.id NOT LIKE '%/%' AND c.deleted_ms IS NULL
         ) WHERE {what} {more}"
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
        title: row.get(5)?,
        archived_ms: row.get::<_, Option<i64>>(6)?.map(i64::cast_unsigned),
        forked_from: row.get(7)?,
        forked_at: row.get::<_, Option<i64>>(8)?.map(i64::cast_unsigned),
    })
}

/// Returns the SQL condition for the conversations that `archived` lets into a list.
fn stands(archived: Archived) -> &'static str {
    match archived {
        Archived::Hidden => "AND archived_ms IS NULL",
        Archived::Shown => "",
    }
}

impl Conversations {
    /// Returns the conversations, the most recently used first. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn list(&self, archived: Archived, limit: usize) -> Result<Vec<Conversation>, Fault> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.store.wait(move |database| {
            let sql = select(&format!("{} ORDER BY used_ms DESC, id LIMIT ?2", stands(archived)));
            rows(database, &sql, params![FIRST, limit], conversation)
        })
    }

    /// The conversation of this session, archived or not, also one that only messages of other agents and triggers began; none,
    /// where it is none or was deleted. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn about(&self, session: &str) -> Result<Option<Conversation>, Fault> {
        let session = session.to_owned();
        self.store.wait(move |database| {
            let query = select_where("first IS NOT NULL", "AND id = ?2");
            Ok(rows(database, &query, params![FIRST, session], conversation)?.pop())
        })
    }

    /// Whether the conversation of this session was deleted. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn is_deleted(&self, session: &str) -> Result<bool, Fault> {
        let session = session.to_owned();
        self.store.wait(move |database| {
            database
                .prepare_cached("SELECT 1 FROM conversations WHERE session = ?1 AND deleted_ms IS NOT NULL")?
                .exists(params![session])
        })
    }

    /// Returns the title that somebody gave a session, also before anybody said something in it. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn given_title(&self, session: &str) -> Result<Option<String>, Fault> {
        let session = session.to_owned();
        self.store.wait(move |database| {
            let query = "SELECT title FROM conversations WHERE session = ?1";
            Ok(rows(database, query, params![session], |row| row.get::<_, Option<String>>(0))?
                .pop()
                .flatten())
        })
    }

    /// Gives a conversation a title. Secrets in it are masked. Blocks.
    ///
    /// # Errors
    /// When the database can't be written.
    pub fn rename(&self, session: &str, title: &str) -> Result<(), Fault> {
        let (session, title) = (session.to_owned(), self.store.stamp().secrets.mask(title).into_owned());
        self.store.wait(move |database| {
            database
                .prepare_cached(
                    "INSERT INTO conversations (session, title) VALUES (?1, ?2)
                     ON CONFLICT (session) DO UPDATE SET title = excluded.title",
                )?
                .execute(params![session, title])?;
            Ok(())
        })
    }

    /// Hides a conversation from lists, or shows it there again. Gives whether that changed anything. Blocks.
    ///
    /// # Errors
    /// When the database can't be written.
    pub fn archive(&self, session: &str, archive: bool) -> Result<bool, Fault> {
        let (session, now) = (session.to_owned(), now_ms().cast_signed());
        let sql = if archive {
            "INSERT INTO conversations (session, archived_ms) VALUES (?1, ?2)
             ON CONFLICT (session) DO UPDATE SET archived_ms = excluded.archived_ms WHERE archived_ms IS NULL"
        } else {
            "UPDATE conversations SET archived_ms = NULL
             WHERE session = ?1 AND archived_ms IS NOT NULL AND ?2 IS NOT NULL"
        };
        self.store.wait(move |database| Ok(database.prepare_cached(sql)?.execute(params![session, now])? > 0))
    }

    /// The conversations in which something answers to `query`, best first, each with the line that does; and those whose
    /// name or title has it. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn find(&self, query: &str, archived: Archived, limit: usize) -> Result<Vec<Conversation>, Fault> {
        let words = Words::of(query);
        if words.is_empty() {
            return self.list(archived, limit);
        }
        // The best line of each conversation. The ranks are read before the grouping, in which the index has none.
        let whole = format!(
            "WITH lines AS MATERIALIZED (
               SELECT d.session, d.id, rank AS score, snippet(said_words, 0, '', '', ' … ', 24) AS line
               FROM said_words JOIN said d ON d.id = said_words.rowid
               WHERE said_words MATCH ?1 AND d.session NOT LIKE '%/%' AND {IS_LISTED} AND {STANDS})
             SELECT session, line, min(score) FROM lines GROUP BY session ORDER BY min(score), id DESC"
        );
        let part = format!(
            "SELECT d.session, substr(d.text, max(1, instr(lower(d.text), lower(?1)) - 60), 160), max(d.id) FROM said d
             WHERE instr(lower(d.text), lower(?1)) > 0 AND d.session NOT LIKE '%/%' AND {IS_LISTED} AND {STANDS}
             GROUP BY d.session ORDER BY max(d.id) DESC"
        );
        let query = query.trim().to_owned();
        self.store.wait(move |database| {
            let params = |asked| vec![Value::Text(asked)];
            let pair = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?));
            let lines = words.find(database, (&whole, &part), params, pair)?;
            let named = rows(
                database,
                &select(&format!(
                    "AND (instr(lower(id), lower(?2)) > 0 OR instr(lower(title), lower(?2)) > 0) {}
                     ORDER BY used_ms DESC, id",
                    stands(archived)
                )),
                params![FIRST, query],
                conversation,
            )?;
            let mut found: Vec<Conversation> = Vec::new();
            let mut known = HashSet::new();
            let one = select(&format!("AND id = ?2 {}", stands(archived)));
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

    use crate::{Buffer, folder_of, schema::script_of};
    use rusqlite::Connection;
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
            let all = self.store.conversations().list(Archived::Hidden, 10).unwrap();
            all.into_iter().map(|it| (it.session, it.first, it.turns)).collect()
        }

        fn find(&self, query: &str) -> Vec<(String, Option<String>)> {
            let all = self.store.conversations().find(query, Archived::Hidden, 10).unwrap();
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
    async fn a_search_finds_a_conversation_behind_one_that_has_the_word_very_often() {
        let test_ws = TestWorkspace::new();
        for query in ["zebra", "ebr"] {
            test_ws
                .say(&format!("rare_{query}"), &[person("about a zebra and much else that is not one")])
                .await;
            test_ws.say(&format!("often_{query}"), &vec![person("zebra"); 600]).await;
            let found: Vec<String> = test_ws.find(query).into_iter().map(|it| it.0).collect();
            assert!(found.contains(&format!("rare_{query}")), "{query}: {found:?}");
        }
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
        let listed = test_ws.store.conversations().list(Archived::Hidden, 20).unwrap();
        assert_eq!(listed.len(), 20);
        assert!(listed.is_sorted_by(|one, other| one.used_ms >= other.used_ms));
    }

    #[test]
    fn database_of_the_version_before_opens_with_its_conversations() {
        let state = tempfile::tempdir().unwrap();
        let workspace = Path::new("/nowhere/w");
        let folder = folder_of(state.path(), workspace);
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("haft.db");
        let database = Connection::open(&path).unwrap();
        database.execute_batch(&script_of(5)).unwrap();
        database
            .execute_batch(
                r#"INSERT INTO sessions VALUES ('s_1', 'chat', 1, 2);
                   INSERT INTO transcript VALUES ('s_1', 'messages', 1, 1, '{"who":"person","text":"fix it"}');
                   INSERT INTO said (session, place, who, at_ms, text) VALUES ('s_1', 1, 'person', 1, 'fix it');"#,
            )
            .unwrap();
        drop(database);
        let store = Store::open(state.path(), workspace, Arc::new(Secrets::none()));
        let all = store.conversations();
        let listed = all.list(Archived::Hidden, 10).unwrap();
        assert_eq!(listed.iter().map(|it| it.first.as_str()).collect::<Vec<_>>(), ["fix it"]);
        assert_eq!(all.find("fix", Archived::Hidden, 10).unwrap().len(), 1);
        all.rename("s_1", "A title").unwrap();
        assert_eq!(all.about("s_1").unwrap().unwrap().title.as_deref(), Some("A title"));
    }
}

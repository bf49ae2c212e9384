//! Workspace memory: facts that later sessions can search.

use kit::{Fault, Kind, services::Fact};
use rusqlite::{OptionalExtension, Row, params, types::Value};

use super::{
    Store, now_ms,
    search_query::{Words, rows},
};

/// The most facts that a workspace remembers.
const MOST: i64 = 5_000;

/// The separator of tags.
const BETWEEN: &str = "\n";

/// The facts of one workspace.
#[derive(Clone)]
pub struct Memory {
    store: Store,
}

impl Store {
    /// Returns the memory of this workspace.
    pub fn memory(&self) -> Memory {
        Memory { store: self.clone() }
    }
}

impl Memory {
    /// Stores a fact, with its secrets masked; returns its number. A known fact keeps its own. Blocks.
    pub fn remember(&self, session: &str, fact: &str, tags: &[String]) -> Result<u64, Fault> {
        let stamp = self.store.stamp();
        let fact = stamp.secrets.mask(fact.trim()).into_owned();
        let tags: Vec<String> =
            tags.iter().map(|it| it.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        let tags = stamp.secrets.mask(&tags.join(BETWEEN)).into_owned();
        let (session, at) = (session.to_owned(), now_ms().cast_signed());
        let number: Option<i64> = self.store.wait(move |database| {
            let known = database
                .prepare_cached("SELECT number FROM memory WHERE text = ?1 AND forgotten_ms IS NULL")?
                .query_row(params![fact], |row| row.get(0))
                .optional()?;
            if known.is_some() {
                return Ok(known);
            }
            let count: i64 = database
                .prepare_cached("SELECT count(*) FROM memory WHERE forgotten_ms IS NULL")?
                .query_row([], |row| row.get(0))?;
            if count >= MOST {
                return Ok(None);
            }
            database
                .prepare_cached("INSERT INTO memory (text, tags, session, at_ms) VALUES (?1, ?2, ?3, ?4)")?
                .execute(params![fact, tags, session, at])?;
            Ok(Some(database.last_insert_rowid()))
        })?;
        number.map(i64::cast_unsigned).ok_or_else(|| {
            Fault::new(Kind::TooBig, format!("this workspace remembers {MOST} facts already"))
                .next("Forget one that is of no use any more.")
        })
    }

    /// Returns the facts that match `query`, best first; without words in it the newest. Blocks.
    pub fn recall(&self, query: &str, limit: usize) -> Result<Vec<Fact>, Fault> {
        const NEWEST: &str = "SELECT number, text, tags, at_ms FROM memory
            WHERE forgotten_ms IS NULL ORDER BY number DESC LIMIT ?1";
        const WHOLE: &str = "SELECT number, memory.text, memory.tags, at_ms
            FROM memory_words JOIN memory ON number = memory_words.rowid
            WHERE memory_words MATCH ?1 AND forgotten_ms IS NULL ORDER BY bm25(memory_words), number DESC LIMIT ?2";
        const PART: &str = "SELECT number, text, tags, at_ms FROM memory
            WHERE forgotten_ms IS NULL AND instr(lower(text), lower(?1)) > 0 ORDER BY number DESC LIMIT ?2";
        let words = Words::of(query);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.store.wait(move |database| {
            if words.is_empty() {
                return rows(database, NEWEST, params![limit], fact);
            }
            let params = |asked| vec![Value::Text(asked), Value::Integer(limit)];
            words.find(database, (WHOLE, PART), params, fact)
        })
    }

    /// Deletes a fact, and returns it if it existed. Blocks.
    pub fn forget(&self, number: u64) -> Result<Option<Fact>, Fault> {
        let (number, now) = (number.cast_signed(), now_ms().cast_signed());
        self.store.wait(move |database| {
            let found = database
                .prepare_cached(
                    "SELECT number, text, tags, at_ms FROM memory WHERE number = ?1 AND forgotten_ms IS NULL",
                )?
                .query_row(params![number], fact)
                .optional()?;
            database
                .prepare_cached(
                    "UPDATE memory SET forgotten_ms = ?2 WHERE number = ?1 AND forgotten_ms IS NULL",
                )?
                .execute(params![number, now])?;
            Ok(found)
        })
    }
}

fn fact(row: &Row<'_>) -> rusqlite::Result<Fact> {
    let tags: String = row.get(2)?;
    Ok(Fact {
        number: row.get::<_, i64>(0)?.cast_unsigned(),
        text: row.get(1)?,
        tags: tags.split(BETWEEN).filter(|it| !it.is_empty()).map(str::to_owned).collect(),
        at_ms: row.get::<_, i64>(3)?.cast_unsigned(),
    })
}

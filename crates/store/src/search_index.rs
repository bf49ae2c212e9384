//! The search index of messages: selects the lines to index, and searches those of a session.

use std::borrow::Cow;

use kit::{Fault, services::FoundMessage};
use rusqlite::{Connection, Row, params, types::Value};
use serde::Deserialize;

use super::{
    Store,
    search_query::{Words, rows},
};

/// Maximum bytes of one line that are indexed.
const SEARCHED: usize = 64 << 10;

/// Maximum characters of a line that is shown whole; of a longer one only the match is.
const WHOLE_LINE: i64 = 2_000;

/// Condition for a line of `said d` that the person did not take back.
pub(super) const STANDS: &str = "NOT EXISTS (SELECT 1 FROM said_rewound r WHERE r.session = d.session AND d.place BETWEEN r.first AND r.last)";

/// The searchable part of a transcript's row.
#[derive(Deserialize)]
struct IndexedRow<'a> {
    #[serde(borrow)]
    who: Cow<'a, str>,
    #[serde(borrow, default)]
    text: Cow<'a, str>,
    #[serde(borrow, default)]
    tool: Cow<'a, str>,
    #[serde(borrow, default)]
    title: Cow<'a, str>,
    #[serde(borrow, default)]
    line: Cow<'a, str>,
    /// In a row that takes others back: the first of those.
    #[serde(default)]
    since: u64,
}

/// Indexes a row of the messages, whose secrets are masked already.
pub(super) fn keep(
    database: &Connection,
    session: &str,
    place: u64,
    at_ms: i64,
    body: &str,
) -> rusqlite::Result<()> {
    // A newer haft may have written other rows, which are not indexed.
    let Ok(line) = serde_json::from_str::<IndexedRow<'_>>(body) else { return Ok(()) };
    let (who, text) = match &*line.who {
        "person" | "model" => (&line.who, line.text.clone()),
        "tool" => (&line.tool, Cow::Owned(format!("{} {}: {}", line.tool, line.title, line.line))),
        "rewound" => {
            database
                .prepare_cached("INSERT INTO said_rewound (session, first, last) VALUES (?1, ?2, ?3)")?
                .execute(params![session, line.since.cast_signed(), place.cast_signed()])?;
            return Ok(());
        }
        _ => return Ok(()),
    };
    let text = text.get(..text.floor_char_boundary(SEARCHED)).unwrap_or_default();
    if text.trim().is_empty() {
        return Ok(());
    }
    database
        .prepare_cached("INSERT INTO said (session, place, who, at_ms, text) VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute(params![session, place.cast_signed(), who, at_ms, text])?;
    Ok(())
}

/// The messages of one workspace.
#[derive(Clone)]
pub struct Sayings {
    store: Store,
}

impl Store {
    /// Returns the messages of this workspace.
    pub fn sayings(&self) -> Sayings {
        Sayings { store: self.clone() }
    }
}

impl Sayings {
    /// Returns the lines of a session that match `query`, best first; without words in it the newest. Blocks.
    pub fn find(&self, session: &str, query: &str, limit: usize) -> Result<Vec<FoundMessage>, Fault> {
        let newest = format!(
            "SELECT place, who, at_ms, substr(text, 1, ?3) FROM said d
             WHERE session = ?1 AND {STANDS} ORDER BY place DESC LIMIT ?2"
        );
        let whole = format!(
            "SELECT place, who, at_ms,
               CASE WHEN length(d.text) <= ?4 THEN d.text ELSE snippet(said_words, 0, '', '', ' … ', 64) END
             FROM said_words JOIN said d ON d.id = said_words.rowid
             WHERE said_words MATCH ?1 AND session = ?2 AND {STANDS}
             ORDER BY bm25(said_words), place DESC LIMIT ?3"
        );
        let part = format!(
            "SELECT place, who, at_ms,
               CASE WHEN length(text) <= ?4 THEN text
               ELSE substr(text, max(1, instr(lower(text), lower(?1)) - 200), 400) END
             FROM said d WHERE session = ?2 AND instr(lower(text), lower(?1)) > 0 AND {STANDS}
             ORDER BY place DESC LIMIT ?3"
        );
        let (words, session) = (Words::of(query), session.to_owned());
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.store.wait(move |database| {
            if words.is_empty() {
                return rows(database, &newest, params![session, limit, WHOLE_LINE], found_message);
            }
            let params = |asked| {
                vec![
                    Value::Text(asked),
                    Value::Text(session.clone()),
                    Value::Integer(limit),
                    Value::Integer(WHOLE_LINE),
                ]
            };
            words.find(database, (&whole, &part), params, found_message)
        })
    }
}

fn found_message(row: &Row<'_>) -> rusqlite::Result<FoundMessage> {
    Ok(FoundMessage {
        place: row.get::<_, i64>(0)?.cast_unsigned(),
        who: row.get(1)?,
        at_ms: row.get::<_, i64>(2)?.cast_unsigned(),
        text: row.get(3)?,
    })
}

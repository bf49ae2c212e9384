//! Forking a conversation: a new session with the rows of another one up to a place, its saved state and its outputs.

use kit::{Fault, Kind, deliberate_faults::killed_at};
use rusqlite::{Connection, params};

use super::Conversations;
use crate::{now_ms, search_index};

/// Up to where a conversation is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// The last row of what the model was sent that goes along.
    pub context: u64,
    /// The last row of what the person was shown that goes along.
    pub messages: u64,
    /// After how many of the person's messages that is, where it is not the whole.
    pub after: Option<u64>,
}

/// Counts of the data that a fork copied or shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forked {
    /// Rows of both buffers.
    pub rows: usize,
    /// Kept outputs.
    pub outputs: usize,
}

impl Conversations {
    /// Makes the session `to` of the session `from`: its rows up to `cut`, what it put away under the keys that `takes`
    /// accepts, and its outputs under the same handles. `from` stays as it is. Blocks.
    ///
    /// # Errors
    /// [`Kind::BadArgs`] when there is a session `to`, and when the store can't be written.
    pub fn fork(&self, from: &str, to: &str, cut: Cut, takes: fn(&str) -> bool) -> Result<Forked, Fault> {
        let name = to.to_owned();
        self.store
            .wait(move |database| Ok(is_free(database, &name)?.then_some(())))?
            .ok_or_else(|| taken(to))?;
        // Before the rows that name them.
        let outputs = self.store.spills().share_all(from, to)?;
        killed_at("fork-outputs-shared");
        let (from, name) = (from.to_owned(), to.to_owned());
        let rows = self.store.wait(move |database| {
            // Two processes may have found the name free.
            is_free(database, &name)?.then(|| copy(database, &from, &name, cut, takes)).transpose()
        })?;
        Ok(Forked { rows: rows.ok_or_else(|| taken(to))?, outputs })
    }
}

fn taken(to: &str) -> Fault {
    Fault::new(Kind::BadArgs, format!("there is a session `{to}` already")).next("Choose another name.")
}

fn is_free(database: &Connection, name: &str) -> rusqlite::Result<bool> {
    let known = database
        .prepare_cached(
            "SELECT 1 FROM sessions WHERE id = ?1 UNION ALL SELECT 1 FROM transcript WHERE session = ?1
         UNION ALL SELECT 1 FROM conversations WHERE session = ?1",
        )?
        .exists(params![name])?;
    Ok(!known)
}

/// Copies what is in the database; gives how many rows that was.
fn copy(
    database: &Connection,
    from: &str,
    to: &str,
    cut: Cut,
    takes: fn(&str) -> bool,
) -> rusqlite::Result<usize> {
    let now = now_ms().cast_signed();
    database.execute(
        "INSERT INTO sessions (id, door, created_ms, used_ms) VALUES (?1, 'fork', ?2, ?2)",
        params![to, now],
    )?;
    let (context, messages) = (cut.context.cast_signed(), cut.messages.cast_signed());
    let rows = database.execute(
        "INSERT INTO transcript (session, buffer, number, at_ms, body)
         SELECT ?2, buffer, number, at_ms, body FROM transcript
         WHERE session = ?1 AND number <= CASE buffer WHEN 'context' THEN ?3 ELSE ?4 END",
        params![from, to, context, messages],
    )?;
    let mut lines = database.prepare(
        "SELECT number, at_ms, body FROM transcript WHERE session = ?1 AND buffer = 'messages' ORDER BY number",
    )?;
    let mut lines = lines.query(params![to])?;
    while let Some(line) = lines.next()? {
        let (number, body) = (line.get::<_, i64>(0)?.cast_unsigned(), line.get::<_, String>(2)?);
        search_index::keep(database, to, number, line.get(1)?, &body)?;
    }
    let keys = database
        .prepare("SELECT key FROM session_values WHERE session = ?1")?
        .query_map(params![from], |row| row.get(0))?
        .collect::<rusqlite::Result<Vec<String>>>()?;
    for key in keys.iter().filter(|it| takes(it)) {
        database
            .prepare_cached(
                "INSERT INTO session_values (session, key, bytes)
                 SELECT ?2, key, bytes FROM session_values WHERE session = ?1 AND key = ?3",
            )?
            .execute(params![from, to, key])?;
    }
    database.execute(
        "INSERT INTO conversations (session, forked_from, forked_at) VALUES (?1, ?2, ?3)",
        params![to, from, cut.after.map(u64::cast_signed)],
    )?;
    Ok(rows)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::{path::Path, sync::Arc};

    use kit::redact::Secrets;
    use serde_json::json;

    use super::*;
    use crate::{Archived, Buffer, Store};

    #[tokio::test]
    async fn fork_has_the_rows_state_and_outputs_and_the_other_one_keeps_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), Path::new("/nowhere/w"), Arc::new(Secrets::none()));
        store.sessions().used("a", "chat").unwrap();
        for (number, text) in [(1, "about zebras"), (2, "about horses")] {
            let line = json!({"who": "person", "text": text});
            store.transcripts().add("a", Buffer::Messages, number, line).await.unwrap();
            let row = json!({"row": "note", "text": text});
            store.transcripts().add("a", Buffer::Context, number, row).await.unwrap();
        }
        store.sessions().put("a", "view x", vec![1]).unwrap();
        store.sessions().put("a", "job 1", vec![2]).unwrap();
        assert_eq!(store.spills().keep("a", b"long").unwrap(), "out_1");
        let all = store.conversations();
        let cut = Cut { context: 1, messages: 1, after: Some(1) };
        let forked = all.fork("a", "b", cut, |key| !key.starts_with("job ")).unwrap();
        assert_eq!(forked, Forked { rows: 2, outputs: 1 });
        let bodies = |session: &str| store.transcripts().rows(session, Buffer::Context).unwrap().len();
        assert_eq!((bodies("a"), bodies("b")), (2, 1));
        assert_eq!(store.sessions().keys("b", "").unwrap(), ["view x"]);
        assert_eq!(store.spills().read("b", "out_1").unwrap(), b"long");
        assert_eq!(store.spills().keep("b", b"other").unwrap(), "out_2", "handles go on");
        let about = all.about("b").unwrap().unwrap();
        assert_eq!((about.forked_from.as_deref(), about.forked_at, about.turns), (Some("a"), Some(1), 1));
        let found = |query: &str| all.find(query, Archived::Hidden, 9).unwrap().len();
        assert_eq!((found("zebras"), found("horses")), (2, 1));
        assert_eq!(all.fork("a", "b", cut, |_| true).unwrap_err().kind, Kind::BadArgs);
    }

    #[tokio::test]
    async fn deleted_conversation_is_in_no_list_and_its_name_is_not_free() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), Path::new("/nowhere/w"), Arc::new(Secrets::none()));
        let line = json!({"who": "person", "text": "about zebras"});
        for session in ["a", "a/explore_1", "ab"] {
            store.sessions().used(session, "chat").unwrap();
            store.transcripts().add(session, Buffer::Messages, 1, line.clone()).await.unwrap();
            store.sessions().put(session, "view x", vec![1]).unwrap();
            store.spills().keep(session, b"long").unwrap();
        }
        let all = store.conversations();
        let deleted = all.delete("a").unwrap();
        assert_eq!((deleted.outputs, deleted.bytes, deleted.rows), (2, 8, 2));
        assert!(all.is_deleted("a").unwrap() && all.about("a").unwrap().is_none());
        let left: Vec<String> =
            all.find("zebras", Archived::Shown, 9).unwrap().into_iter().map(|it| it.session).collect();
        assert_eq!(left, ["ab"], "a name that begins alike is another one");
        assert!(store.spills().read("a", "out_1").is_err() && store.spills().read("ab", "out_1").is_ok());
        assert!(store.sessions().keys("a/explore_1", "").unwrap().is_empty());
        let cut = Cut { context: 1, messages: 1, after: None };
        assert!(all.fork("ab", "a", cut, |_| true).is_err());
    }
}

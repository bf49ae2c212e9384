//! The database schema and its migrations.

use rusqlite::Connection;

/// The migrations: step n upgrades a database of version n to version n + 1. A step that
/// was released is never changed; a new one is added below it.
const STEPS: &[&str] = &[ONE, TWO, THREE, FOUR, FIVE, SIX, SEVEN, EIGHT, NINE, TEN, ELEVEN];

/// Processes, the journal, changes and sessions. The journal and the changes are append-only, which triggers
/// enforce.
const ONE: &str = "
CREATE TABLE processes (
  instance TEXT PRIMARY KEY, pid INTEGER NOT NULL, at_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE processes_ended (
  instance TEXT PRIMARY KEY, at_ms INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE journal (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  event TEXT NOT NULL CHECK (event IN ('begun', 'ended')),
  call TEXT NOT NULL, session TEXT NOT NULL, instance TEXT NOT NULL,
  at_ms INTEGER NOT NULL, up_us INTEGER NOT NULL,
  tool TEXT, arguments_hash BLOB, arguments TEXT, touches TEXT, decision TEXT, bytes_in INTEGER,
  outcome TEXT, said TEXT, notes TEXT, took_us INTEGER, bytes_out INTEGER
);
CREATE UNIQUE INDEX journal_once ON journal (call, event);
CREATE INDEX journal_instance ON journal (instance) WHERE event = 'begun';
CREATE INDEX journal_session ON journal (session, seq) WHERE event = 'begun';

CREATE TABLE changes (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  call TEXT NOT NULL, session TEXT NOT NULL, path BLOB NOT NULL, at_ms INTEGER NOT NULL,
  before BLOB, after BLOB,
  reverts INTEGER REFERENCES changes (id),
  depth INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX changes_call ON changes (call);
CREATE INDEX changes_session ON changes (session);
CREATE INDEX changes_path ON changes (path);
CREATE TABLE undone (
  change INTEGER PRIMARY KEY REFERENCES changes (id), call TEXT NOT NULL, at_ms INTEGER NOT NULL
);

CREATE TRIGGER journal_kept BEFORE DELETE ON journal BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER journal_fixed BEFORE UPDATE ON journal BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER changes_kept BEFORE DELETE ON changes BEGIN SELECT RAISE(ABORT, 'changes are append-only'); END;
CREATE TRIGGER changes_fixed BEFORE UPDATE ON changes BEGIN SELECT RAISE(ABORT, 'changes are append-only'); END;
CREATE TRIGGER undone_kept BEFORE DELETE ON undone BEGIN SELECT RAISE(ABORT, 'undone changes are append-only'); END;
CREATE TRIGGER undone_fixed BEFORE UPDATE ON undone BEGIN SELECT RAISE(ABORT, 'undone changes are append-only'); END;

CREATE TABLE sessions (
  id TEXT PRIMARY KEY, door TEXT NOT NULL, created_ms INTEGER NOT NULL, used_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE session_values (
  session TEXT NOT NULL, key TEXT NOT NULL, bytes BLOB NOT NULL, PRIMARY KEY (session, key)
);
";

/// Grants. A revoked grant keeps its row, since the journal refers to it.
const TWO: &str = "
CREATE TABLE grants (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  session TEXT, effect TEXT NOT NULL, door TEXT NOT NULL, since_ms INTEGER NOT NULL,
  uses INTEGER NOT NULL DEFAULT 0, revoked_ms INTEGER
);
";

/// The transcripts of agent sessions. They are append-only, like the journal.
const THREE: &str = "
CREATE TABLE transcript (
  session TEXT NOT NULL, buffer TEXT NOT NULL CHECK (buffer IN ('messages', 'context')),
  number INTEGER NOT NULL, at_ms INTEGER NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (session, buffer, number)
) WITHOUT ROWID;
CREATE INDEX transcript_newest ON transcript (at_ms) WHERE buffer = 'context';
CREATE TRIGGER transcript_kept BEFORE DELETE ON transcript BEGIN SELECT RAISE(ABORT, 'the transcript is append-only'); END;
CREATE TRIGGER transcript_fixed BEFORE UPDATE ON transcript BEGIN SELECT RAISE(ABORT, 'the transcript is append-only'); END;
";

/// Memory, and the search index of conversations. A forgotten fact keeps its row, and no search finds it.
const FOUR: &str = "
CREATE TABLE memory (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  text TEXT NOT NULL, tags TEXT NOT NULL, session TEXT NOT NULL, at_ms INTEGER NOT NULL, forgotten_ms INTEGER
);
CREATE UNIQUE INDEX memory_known ON memory (text) WHERE forgotten_ms IS NULL;
CREATE VIRTUAL TABLE memory_words USING fts5 (
  text, tags, content = 'memory', content_rowid = 'number', tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE TRIGGER memory_learned AFTER INSERT ON memory BEGIN
  INSERT INTO memory_words (rowid, text, tags) VALUES (new.number, new.text, new.tags);
END;
CREATE TRIGGER memory_forgotten AFTER UPDATE OF forgotten_ms ON memory
WHEN old.forgotten_ms IS NULL AND new.forgotten_ms IS NOT NULL BEGIN
  INSERT INTO memory_words (memory_words, rowid, text, tags) VALUES ('delete', old.number, old.text, old.tags);
END;
CREATE TRIGGER memory_kept BEFORE DELETE ON memory BEGIN SELECT RAISE(ABORT, 'the memory is append-only'); END;
CREATE TRIGGER memory_fixed BEFORE UPDATE OF number, text, tags, session, at_ms ON memory
BEGIN SELECT RAISE(ABORT, 'the memory is append-only'); END;

CREATE TABLE said (
  id INTEGER PRIMARY KEY,
  session TEXT NOT NULL, place INTEGER NOT NULL, who TEXT NOT NULL, at_ms INTEGER NOT NULL, text TEXT NOT NULL,
  UNIQUE (session, place)
);
CREATE VIRTUAL TABLE said_words USING fts5 (
  text, content = 'said', content_rowid = 'id', tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE TRIGGER said_added AFTER INSERT ON said BEGIN
  INSERT INTO said_words (rowid, text) VALUES (new.id, new.text);
END;
CREATE TRIGGER said_kept BEFORE DELETE ON said BEGIN SELECT RAISE(ABORT, 'what was said is append-only'); END;
CREATE TRIGGER said_fixed BEFORE UPDATE ON said BEGIN SELECT RAISE(ABORT, 'what was said is append-only'); END;
";

/// Rewound lines of a session, by their numbers among its messages. They keep their rows, and no longer count
/// for the title of a conversation or for a search among conversations.
const FIVE: &str = "
CREATE TABLE said_rewound (
  session TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, PRIMARY KEY (session, first, last)
) WITHOUT ROWID;
CREATE TRIGGER said_rewound_kept BEFORE DELETE ON said_rewound BEGIN SELECT RAISE(ABORT, 'what was rewound is append-only'); END;
CREATE TRIGGER said_rewound_fixed BEFORE UPDATE ON said_rewound BEGIN SELECT RAISE(ABORT, 'what was rewound is append-only'); END;
CREATE INDEX said_by_person ON said (session, place) WHERE who = 'person';
";

/// Properties of a conversation as a whole: its title, when it was archived or deleted; and which one it was forked from, after
/// how many of the person's messages. A conversation without a row has none of that.
const SIX: &str = "
CREATE TABLE conversations (
  session TEXT PRIMARY KEY, title TEXT, archived_ms INTEGER, deleted_ms INTEGER, forked_from TEXT, forked_at INTEGER
) WITHOUT ROWID;
";

/// The events of sessions as their watchers see them, the operations on sessions, and which process runs a session. An event
/// is deleted only where a row that covers its number takes its place, or with its whole session.
const SEVEN: &str = "
CREATE TABLE events (
  session TEXT NOT NULL, seq INTEGER NOT NULL, first INTEGER NOT NULL, at_ms INTEGER NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (session, seq), CHECK (first BETWEEN 1 AND seq)
);
CREATE TRIGGER events_fixed BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'an event is never changed'); END;

CREATE TABLE operations (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  session TEXT NOT NULL, key TEXT NOT NULL, by TEXT NOT NULL, at_ms INTEGER NOT NULL,
  hash BLOB NOT NULL, body TEXT NOT NULL, begun INTEGER, result TEXT, done_ms INTEGER
);
CREATE UNIQUE INDEX operations_once ON operations (session, key);
CREATE INDEX operations_open ON operations (id) WHERE result IS NULL;

CREATE TABLE owners (
  session TEXT PRIMARY KEY, epoch INTEGER NOT NULL, instance TEXT, pid INTEGER NOT NULL, socket TEXT, since_ms INTEGER NOT NULL
) WITHOUT ROWID;
";

/// The inboxes of sessions; channels with their edges, messages and readers; and the sessions that others can send to by name.
const EIGHT: &str = "
CREATE TABLE inbox (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  recipient TEXT NOT NULL, key TEXT NOT NULL, at_ms INTEGER NOT NULL,
  source TEXT NOT NULL, sender TEXT NOT NULL, sender_session TEXT, channel TEXT,
  message TEXT NOT NULL, reply_to TEXT, metadata TEXT, text TEXT NOT NULL, grants TEXT,
  state TEXT NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'shown', 'acted')),
  shown_ms INTEGER, shown_row INTEGER, acted_ms INTEGER, calls TEXT
);
CREATE UNIQUE INDEX inbox_once ON inbox (recipient, key);
CREATE INDEX inbox_all ON inbox (recipient, id);
CREATE INDEX inbox_queued ON inbox (recipient, id) WHERE state = 'queued';
CREATE INDEX inbox_shown ON inbox (recipient, id) WHERE state = 'shown';
CREATE TABLE inbox_waiting (
  recipient TEXT PRIMARY KEY, messages INTEGER NOT NULL, bytes INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TRIGGER inbox_came AFTER INSERT ON inbox BEGIN
  INSERT INTO inbox_waiting VALUES (new.recipient, 1, length(CAST(new.text AS BLOB)))
  ON CONFLICT (recipient) DO UPDATE SET messages = messages + 1, bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER inbox_went AFTER UPDATE OF state ON inbox WHEN old.state = 'queued' BEGIN
  UPDATE inbox_waiting SET messages = messages - 1, bytes = bytes - length(CAST(old.text AS BLOB))
  WHERE recipient = old.recipient;
END;
CREATE TRIGGER inbox_dropped AFTER DELETE ON inbox WHEN old.state = 'queued' BEGIN
  UPDATE inbox_waiting SET messages = messages - 1, bytes = bytes - length(CAST(old.text AS BLOB))
  WHERE recipient = old.recipient;
END;
CREATE TRIGGER inbox_shown_once BEFORE UPDATE OF state ON inbox
WHEN NOT ((old.state = 'queued' AND new.state = 'shown') OR (old.state = 'shown' AND new.state = 'acted'))
BEGIN SELECT RAISE(ABORT, 'a message is queued, then shown, then acted'); END;

CREATE TABLE channels (
  scope TEXT NOT NULL, name TEXT NOT NULL, kind TEXT NOT NULL CHECK (kind IN ('queue', 'broadcast')),
  description TEXT NOT NULL, capacity INTEGER NOT NULL, created_ms INTEGER NOT NULL, PRIMARY KEY (scope, name)
) WITHOUT ROWID;
CREATE TABLE channel_edges (
  scope TEXT NOT NULL, channel TEXT NOT NULL, session TEXT NOT NULL,
  direction TEXT NOT NULL CHECK (direction IN ('listen', 'send')), PRIMARY KEY (scope, channel, direction, session)
) WITHOUT ROWID;
CREATE INDEX channel_edges_of ON channel_edges (session);
CREATE TABLE channel_messages (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  scope TEXT NOT NULL, channel TEXT NOT NULL, message TEXT NOT NULL, key TEXT NOT NULL, at_ms INTEGER NOT NULL,
  sender TEXT NOT NULL, sender_session TEXT, content TEXT NOT NULL, metadata TEXT NOT NULL, reply_to TEXT, taken_by TEXT
);
CREATE UNIQUE INDEX channel_messages_once ON channel_messages (scope, channel, key);
CREATE INDEX channel_messages_of ON channel_messages (scope, channel, id);
CREATE TABLE channel_readers (
  scope TEXT NOT NULL, channel TEXT NOT NULL, reader TEXT NOT NULL, after INTEGER NOT NULL, seen_ms INTEGER NOT NULL,
  PRIMARY KEY (scope, channel, reader)
) WITHOUT ROWID;
CREATE TABLE members (
  session TEXT PRIMARY KEY, environment TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, parent TEXT,
  privileged INTEGER NOT NULL, running INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX members_of ON members (environment);
";

/// Triggers of sessions, and the history of their fires.
const NINE: &str = "
CREATE TABLE triggers (
  session TEXT NOT NULL, id TEXT NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL, origin TEXT NOT NULL,
  channel TEXT, secret TEXT, made_ms INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('armed', 'paused', 'done')),
  due_ms INTEGER, next_fire_ms INTEGER, fires INTEGER NOT NULL DEFAULT 0, busy INTEGER,
  day TEXT, fires_of_day INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (session, id)
) WITHOUT ROWID;
CREATE INDEX triggers_of_channel ON triggers (channel) WHERE channel IS NOT NULL AND state <> 'done';
CREATE TABLE trigger_history (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  session TEXT NOT NULL, trigger TEXT NOT NULL, at_ms INTEGER NOT NULL, event TEXT NOT NULL, fire INTEGER, text TEXT NOT NULL,
  delivery TEXT, told_ms INTEGER
);
CREATE INDEX trigger_history_of ON trigger_history (session, trigger, id);
CREATE INDEX trigger_history_by_age ON trigger_history (at_ms);
CREATE INDEX trigger_history_untold ON trigger_history (id) WHERE told_ms IS NULL;
CREATE UNIQUE INDEX trigger_fires_once ON trigger_history (session, trigger, fire) WHERE event = 'fired';
CREATE UNIQUE INDEX trigger_deliveries_once ON trigger_history (session, trigger, delivery) WHERE delivery IS NOT NULL;
";

/// Groups of agents: their members, graphs, wires and events. Channels and edges are those of the one before.
const TEN: &str = "
CREATE TABLE groups (
  name TEXT PRIMARY KEY, file TEXT NOT NULL, recipe TEXT NOT NULL, limits TEXT NOT NULL, state TEXT NOT NULL,
  generation INTEGER NOT NULL, created_ms INTEGER NOT NULL,
  turns INTEGER NOT NULL DEFAULT 0, tokens INTEGER NOT NULL DEFAULT 0, steps INTEGER NOT NULL DEFAULT 0,
  cost REAL NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE group_graphs (
  grp TEXT NOT NULL, id TEXT NOT NULL, cap INTEGER NOT NULL, PRIMARY KEY (grp, id)
) WITHOUT ROWID;
CREATE TABLE group_members (
  grp TEXT NOT NULL, id TEXT NOT NULL, place INTEGER NOT NULL, name TEXT NOT NULL, session TEXT NOT NULL,
  graph TEXT NOT NULL, parent TEXT, privileged INTEGER NOT NULL, spec TEXT NOT NULL,
  running INTEGER NOT NULL, paused INTEGER NOT NULL, killed INTEGER NOT NULL,
  seen INTEGER NOT NULL DEFAULT 0, turns INTEGER NOT NULL DEFAULT 0, tokens INTEGER NOT NULL DEFAULT 0,
  steps INTEGER NOT NULL DEFAULT 0, cost REAL NOT NULL DEFAULT 0, PRIMARY KEY (grp, id)
);
CREATE UNIQUE INDEX group_members_session ON group_members (session);
CREATE TABLE group_wires (
  grp TEXT NOT NULL, place INTEGER NOT NULL, source TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (grp, place)
) WITHOUT ROWID;
CREATE TABLE group_events (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, grp TEXT NOT NULL, at_ms INTEGER NOT NULL, kind TEXT NOT NULL,
  member TEXT, graph TEXT, body TEXT NOT NULL
);
CREATE INDEX group_events_of ON group_events (grp, seq);
";

/// The keys of an inbox by themselves first: the copies of a broadcast have one key, and stand side by side in the index.
const ELEVEN: &str = "
DROP INDEX inbox_once;
CREATE UNIQUE INDEX inbox_once ON inbox (key, recipient);
";

/// The error of a migration.
#[derive(Debug, thiserror::Error)]
pub(super) enum SchemaError {
    #[error("it was made by a newer haft (version {found}; this one knows {known})")]
    Newer { found: usize, known: usize },
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
}

/// Migrates the database to the newest version. The caller holds the lock for opening.
pub(super) fn migrate(database: &Connection) -> Result<(), SchemaError> {
    let found: usize = database
        .query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0))
        .map(|it| usize::try_from(it).unwrap_or(usize::MAX))?;
    let known = STEPS.len();
    if found > known {
        return Err(SchemaError::Newer { found, known });
    }
    for (version, step) in STEPS.iter().enumerate().skip(found) {
        // One transaction for each step: a step that is killed halfway is rolled back.
        let script = format!("BEGIN IMMEDIATE;{step}PRAGMA user_version = {};COMMIT;", version + 1);
        if let Err(error) = database.execute_batch(&script) {
            if !database.is_autocommit() {
                database.execute_batch("ROLLBACK")?;
            }
            return Err(error.into());
        }
    }
    Ok(())
}

/// Returns the SQL that creates a database of this version, by the same steps as a haft of that time.
#[cfg(test)]
pub(super) fn script_of(version: usize) -> String {
    let steps: String = STEPS.iter().take(version).copied().collect();
    format!("{steps}PRAGMA user_version = {version};")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn migration_from_the_first_version_keeps_rows_and_adds_tables() {
        let database = Connection::open_in_memory().unwrap();
        database.execute_batch(&format!("{ONE}PRAGMA user_version = 1;")).unwrap();
        database.execute_batch("INSERT INTO sessions VALUES ('old', 'cli', 1, 2)").unwrap();
        migrate(&database).unwrap();
        migrate(&database).unwrap();
        let count = |table: &str| -> i64 {
            database.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
        };
        assert_eq!((count("sessions"), count("grants")), (1, 0));
        assert_eq!((count("events"), count("operations"), count("owners")), (0, 0, 0));
        assert_eq!((count("memory_words"), count("said_words"), count("said_rewound")), (0, 0, 0));
        assert_eq!(count("conversations"), 0);
        assert_eq!((count("inbox"), count("channels"), count("members")), (0, 0, 0));
        assert_eq!((count("triggers"), count("trigger_history")), (0, 0));
    }
}

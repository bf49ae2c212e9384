//! Members: the sessions of a group and the running agents that another agent started, by which messages find them.

use super::*;
use crate::inbox;

/// A session that others can send to by its id or name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Member {
    /// The session.
    pub session: String,
    /// The id of its group's environment; empty for an agent that belongs to no group.
    pub environment: String,
    /// Its id, unique in the workspace.
    pub id: String,
    /// Its display name.
    pub name: String,
    /// The session that started it.
    pub parent: Option<String>,
    /// Whether it may send to any member and change the group.
    pub privileged: bool,
    /// Whether it takes messages now.
    pub running: bool,
}

const COLUMNS: &str = "session, environment, id, name, parent, privileged, running";

impl Channels {
    /// Adds a member, or replaces what is known of that session.
    ///
    /// # Errors
    /// When the database can't be written.
    pub fn join(&self, member: Member) -> impl Future<Output = Result<(), Fault>> + Send + use<> {
        self.store.ask(move |database| {
            let sql =
                format!("INSERT OR REPLACE INTO members ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)");
            let Member { session, environment, id, name, parent, privileged, running } = &member;
            database.prepare_cached(&sql)?.execute(params![
                session,
                environment,
                id,
                name,
                parent,
                privileged,
                running
            ])?;
            Ok(())
        })
    }

    /// Sets whether a member takes messages.
    ///
    /// # Errors
    /// When the database can't be written.
    pub fn set_running(
        &self,
        session: &str,
        running: bool,
    ) -> impl Future<Output = Result<(), Fault>> + Send + use<> {
        let session = session.to_owned();
        self.store.ask(move |database| {
            database
                .prepare_cached("UPDATE members SET running = ?2 WHERE session = ?1")?
                .execute(params![session, running])?;
            Ok(())
        })
    }

    /// Removes a member, with its edges and the members that it started. Nobody can send to them any more.
    ///
    /// # Errors
    /// When the database can't be written.
    pub fn leave(&self, session: &str) -> impl Future<Output = Result<(), Fault>> + Send + use<> {
        let session = session.to_owned();
        self.store.ask(move |database| leave(database, &session))
    }

    /// Removes a member if no message waits for it: the check and the removal are one transaction, so no message is accepted
    /// for a member that will not read it. Returns whether it is removed.
    ///
    /// # Errors
    /// When the database can't be written.
    pub fn leave_if_idle(&self, session: &str) -> impl Future<Output = Result<bool, Fault>> + Send + use<> {
        let session = session.to_owned();
        self.store.ask(move |database| {
            if inbox::has_queued(database, &session)? {
                return Ok(false);
            }
            leave(database, &session).map(|()| true)
        })
    }

    /// Removes the agents that this session started in an earlier process.
    ///
    /// # Errors
    /// When the database can't be written.
    pub fn forget_agents_of(&self, session: &str) -> Result<(), Fault> {
        let session = session.to_owned();
        self.store.later(move |database| forget_agents_of(database, &session))
    }

    /// Returns a member. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn member(&self, session: &str) -> Result<Option<Member>, Fault> {
        Ok(self.members_where("session = ?1", session)?.pop())
    }

    /// Returns the members of a group, by their names. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn members(&self, environment: &str) -> Result<Vec<Member>, Fault> {
        self.members_where("environment = ?1 AND environment <> ''", environment)
    }

    /// Returns the running agents that this session started itself, by their names. Blocks.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn agents_of(&self, session: &str) -> Result<Vec<Member>, Fault> {
        self.members_where("parent = ?1 AND environment = ''", session)
    }

    fn members_where(&self, condition: &'static str, value: &str) -> Result<Vec<Member>, Fault> {
        let value = value.to_owned();
        self.store.read(move |database| {
            let sql = format!("SELECT {COLUMNS} FROM members WHERE {condition} ORDER BY name, id");
            database
                .prepare_cached(&sql)?
                .query_map([&value], |row| {
                    Ok(Member {
                        session: row.get(0)?,
                        environment: row.get(1)?,
                        id: row.get(2)?,
                        name: row.get(3)?,
                        parent: row.get(4)?,
                        privileged: row.get(5)?,
                        running: row.get(6)?,
                    })
                })?
                .collect()
        })
    }
}

fn leave(database: &Connection, session: &str) -> rusqlite::Result<()> {
    database.prepare_cached("DELETE FROM members WHERE session = ?1")?.execute([session])?;
    database.prepare_cached("DELETE FROM channel_edges WHERE session = ?1")?.execute([session])?;
    forget_agents_of(database, session)
}

/// The agents of a group are sessions of their own and stay; those that a session started for a task ended with it.
fn forget_agents_of(database: &Connection, session: &str) -> rusqlite::Result<()> {
    database
        .prepare_cached(
            "DELETE FROM members WHERE environment = '' AND substr(session, 1, length(?1) + 1) = ?1 || '/'",
        )?
        .execute([session])?;
    Ok(())
}

//! Turns that nobody attends: those that a trigger or a webhook began.
//!
//! Such a turn has the grants of its triggers and no others, and nobody is asked. What it was refused is in the history of the
//! fires that began it, where the person finds it.

use kit::Fault;
use runtime::Session;
use store::{Arrival, HistoryEvent, Source, fire_of};

/// Maximum length of a turn's last text in the history, in characters.
const TEXT: usize = 200;

/// The fires whose messages a turn has shown, and what the turn may do.
#[derive(Default)]
pub(crate) struct Unattended {
    /// The fires whose turn is not over, each a trigger and a number.
    fires: Vec<(String, u64)>,
    /// The fires that began this turn, or the turn whose job began this one.
    begun: Vec<(String, u64)>,
    /// The grants, if nobody attends the turn.
    grants: Option<Vec<String>>,
}

impl Unattended {
    /// Begins a turn. `shown` are its first messages; `begins` says whether they alone begin it: neither a person nor a program
    /// said anything.
    pub(crate) fn begin(&mut self, session: &Session, shown: &[Arrival], begins: bool) {
        // The end of a job that such a turn started belongs to that turn.
        let goes_on = begins && shown.iter().all(|it| it.source == Source::Job);
        // A turn that was dropped has ended as well.
        for (trigger, fire) in std::mem::take(&mut self.fires) {
            drop(session.runtime().store().triggers().turn_ended(session.name(), &trigger, fire, "stopped"));
        }
        if !goes_on {
            self.begun.clear();
            self.grants = if begins { common(shown) } else { None };
        }
        self.shows(shown);
        if let Err(fault) = session.unattended(self.grants.as_deref()) {
            tracing::warn!(%fault, "a grant of a trigger can't be read, so its turn has none");
            self.grants = Some(Vec::new());
            // An empty list has no text that could be wrong.
            drop(session.unattended(Some(&[])));
        }
    }

    /// Notes the messages that a running turn shows.
    pub(crate) fn shows(&mut self, shown: &[Arrival]) {
        let fires = shown.iter().filter_map(|it| fire_of(&it.key));
        let fires: Vec<_> = fires.map(|(trigger, fire)| (trigger.to_owned(), fire)).collect();
        self.fires.extend(fires.iter().cloned());
        self.begun.extend(fires);
    }

    /// Ends a turn: its fires are over, and what it was refused is in their history. `said` is its last text, or its error.
    ///
    /// # Errors
    /// When the store can't be written.
    pub(crate) async fn end(&mut self, session: &Session, said: &str) -> Result<(), Fault> {
        let refused = session.unattended(None)?;
        let (triggers, name) = (session.runtime().store().triggers(), session.name());
        for (trigger, fire) in self.begun.iter().filter(|_| !refused.is_empty()) {
            for line in &refused {
                triggers.note(name, trigger, HistoryEvent::Denied, Some(*fire), line).await?;
            }
        }
        let text: String = said.chars().take(TEXT).collect();
        for (trigger, fire) in std::mem::take(&mut self.fires) {
            triggers.turn_ended(name, &trigger, fire, &text).await?;
        }
        Ok(())
    }
}

/// Returns the grants that all messages of triggers have, if there is such a message and none of the person.
fn common(shown: &[Arrival]) -> Option<Vec<String>> {
    if shown.iter().any(|it| it.source == Source::Person) {
        return None;
    }
    let mut lists = shown.iter().filter_map(|it| it.grants.as_ref());
    let first = lists.next()?;
    let others: Vec<&Vec<String>> = lists.collect();
    Some(first.iter().filter(|it| others.iter().all(|list| list.contains(it))).cloned().collect())
}

#[cfg(test)]
mod tests {
    use store::ArrivalState;

    use super::*;

    fn arrival(source: Source, grants: Option<&[&str]>) -> Arrival {
        Arrival {
            id: 1,
            recipient: "s".to_owned(),
            at_ms: 0,
            source,
            sender: "t".to_owned(),
            sender_session: None,
            channel: None,
            message: "msg_1".to_owned(),
            reply_to: None,
            metadata: None,
            text: String::new(),
            key: String::new(),
            grants: grants.map(|it| it.iter().map(|it| (*it).to_owned()).collect()),
            state: ArrivalState::Queued,
            shown_ms: None,
            shown_row: None,
            calls: Vec::new(),
        }
    }

    #[test]
    fn a_turn_has_the_grants_that_all_its_triggers_have() {
        let trigger = |grants: &[&str]| arrival(Source::Trigger, Some(grants));
        assert_eq!(common(&[]), None);
        assert_eq!(common(&[arrival(Source::Direct, None)]), None);
        assert_eq!(common(&[trigger(&[])]), Some(Vec::new()));
        assert_eq!(common(&[trigger(&["a", "b"]), trigger(&["b", "c"])]), Some(vec!["b".to_owned()]));
        assert_eq!(common(&[trigger(&["a"]), arrival(Source::Channel, None)]), Some(vec!["a".to_owned()]));
        assert_eq!(common(&[trigger(&["a"]), arrival(Source::Person, None)]), None, "the person is there");
    }
}

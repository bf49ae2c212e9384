//! Additions to the conversation before a request: the input, messages of the inbox, events since the last
//! turn.

use kit::{Fault, services::PRIVILEGED_TOOLS};
use runtime::Session;

use super::Agent;
use crate::{
    arrivals::Arrivals,
    input::Input,
    model::{Item, Piece},
};

impl Agent {
    /// Adds the input, the messages of the inbox and the events since the last turn to the conversation.
    pub(super) fn take(&mut self, input: Option<Input>) -> Result<(), Fault> {
        let arrivals = self.arrivals()?;
        let notifications: Vec<Piece> = self.session.notifications().into_iter().map(Piece::text).collect();
        let is_said = matches!(self.transcript.items().last(), Some(Item::Model { .. }) | None);
        let mut pieces = self.transcript.notes();
        // Notes alone are not a reason to send a request.
        if input.is_none() && notifications.is_empty() && arrivals.is_none() && (is_said || pieces.is_empty())
        {
            return Ok(());
        }
        let begun_by = arrivals.as_ref().map_or(&[][..], |it| &it.all);
        self.unattended.begin(&self.session, begun_by, input.is_none());
        pieces.extend(notifications);
        let shown = arrivals.as_ref().map(|it| it.ids.clone()).unwrap_or_default();
        pieces.extend(arrivals.iter().flat_map(|it| it.pieces.iter().cloned()));
        match input {
            Some(input) => {
                let is_persons = input.is_persons();
                if is_persons {
                    self.session.add_person_words(input.words());
                }
                let (message, given) = input.into_parts();
                let count = pieces.len();
                pieces.extend(given);
                if is_persons {
                    self.transcript.begin_turn(&message, count, pieces, shown);
                } else {
                    self.transcript.tell(&message);
                    self.transcript.add_shown(Item::Person { pieces }, shown);
                }
            }
            None => self.transcript.add_shown(Item::Person { pieces }, shown),
        }
        arrivals.into_iter().for_each(|it| self.tell_of(it));
        Ok(())
    }

    /// Returns the messages that wait in the inbox, if there are any.
    fn arrivals(&self) -> Result<Option<Arrivals>, Fault> {
        Arrivals::waiting(&self.session, self.transcript.shown(), self.inbox)
    }

    /// Adds the messages of the inbox to the conversation between two steps of a turn.
    pub(super) fn show_arrivals(&mut self) -> Result<(), Fault> {
        // An answer that was paused has to be continued as it is.
        if matches!(self.transcript.items().last(), Some(Item::Model { .. })) {
            return Ok(());
        }
        let Some(arrivals) = self.arrivals()? else { return Ok(()) };
        let mut pieces = self.transcript.notes();
        pieces.extend(arrivals.pieces.iter().cloned());
        self.transcript.add_shown(Item::Person { pieces }, arrivals.ids.clone());
        self.unattended.shows(&arrivals.all);
        self.tell_of(arrivals);
        Ok(())
    }

    /// Tells the person and the observer of messages that the model is shown.
    fn tell_of(&mut self, arrivals: Arrivals) {
        arrivals.of_person.iter().for_each(|it| self.session.add_person_words(it));
        arrivals.lines.iter().for_each(|it| self.transcript.tell(it));
        arrivals.events.into_iter().for_each(|it| self.host.observe(it));
    }
}

/// Gives the session the tools by which its agent reaches others: all of them in a group, and the direct one to an agent that
/// another one started or that `leads` others. Blocks.
pub(super) fn offer_messages(session: &Session, leads: bool) -> Result<(), Fault> {
    let member = session.runtime().store().channels().member(session.name())?;
    if let Some(member) = member.filter(|it| !it.environment.is_empty()) {
        let mut tools = vec!["group_send", "send_channel", "send_message"];
        if member.privileged {
            tools.extend(PRIVILEGED_TOOLS);
        }
        session.sends_by(&tools);
    } else if leads || session.agent().is_some() {
        session.sends_by(&["group_send"]);
    }
    Ok(())
}

//! `group_channel`: creates, deletes and connects channels of the group.

use kit::{
    prelude::*,
    services::{ChannelChange, GroupAct},
};

use super::{GROUP, answer, required};

/// Create or delete a channel of your group, or connect an agent with it. Not for output wires [?: that is
/// `tool:group_wire`?].
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupChannel {
    /// The action.
    action: Action,
    /// Channel's name.
    channel: String,
    /// Purpose of a new channel.
    description: Option<String>,
    /// Agent whose edge is added or removed, by wire and unwire: one edge per call.
    creature_id: Option<String>,
    /// Whether that agent sends or listens.
    direction: Option<Direction>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    Create,
    Delete,
    Wire,
    Unwire,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Direction {
    Send,
    Listen,
}

impl Tool for GroupChannel {
    const NAME: &str = "group_channel";
    const AT_MOST: Kinds = Kinds::SESSION;
    const ONLY_AMONG_AGENTS: bool = true;

    fn touches(&self) -> Touches {
        Touches::session(GROUP)
    }

    fn title(&self) -> String {
        self.channel.clone()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let channel = required("channel", &self.channel)?;
        let change = match self.action {
            Action::Create => ChannelChange::Create { description: self.description.unwrap_or_default() },
            Action::Delete => ChannelChange::Delete,
            Action::Wire | Action::Unwire => {
                let member = required("creature_id", self.creature_id.as_deref().unwrap_or_default())?;
                let Some(direction) = self.direction else {
                    return Err(Fault::bad_args("direction must be 'send' or 'listen'"));
                };
                let is_there = matches!(self.action, Action::Wire);
                ChannelChange::Edge { member, listens: direction == Direction::Listen, is_there }
            }
        };
        answer(cx, GroupAct::Channel { channel, change }).await
    }
}

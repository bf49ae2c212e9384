//! Messages for tests: an agent with fixed neighbours and channels, to whom everything is delivered.

use std::sync::Arc;

use serde_json::Value;

use super::TestWorkspace;
use crate::{
    Fault,
    services::{
        ChannelInfo, ChannelRequest, Delivery, Messages, OtherAgent, Outgoing, OwnIdentity, Soon, Undelivered,
    },
};

/// An agent of a group with these neighbours and channels.
pub struct Wired {
    /// Its name; its id is `NAME_id`.
    pub name: String,
    /// Whether it may send to any member.
    pub privileged: bool,
    /// The agents that it can send to.
    pub others: Vec<OtherAgent>,
    /// The channels that it sees.
    pub channels: Vec<ChannelInfo>,
}

impl Wired {
    /// Creates an empty workspace whose tools send as this agent.
    pub fn workspace(self) -> TestWorkspace {
        let mut workspace = TestWorkspace::empty();
        workspace.messages = Arc::new(self);
        workspace
    }
}

impl Messages for Wired {
    fn own(&self) -> Result<OwnIdentity, Fault> {
        Ok(OwnIdentity {
            id: format!("{}_id", self.name),
            name: self.name.clone(),
            environment: Some("env_graph_1".to_owned()),
            privileged: self.privileged,
        })
    }

    fn others(&self) -> Result<Vec<OtherAgent>, Fault> {
        Ok(self.others.clone())
    }

    fn channels(&self) -> Result<Vec<ChannelInfo>, Fault> {
        Ok(self.channels.clone())
    }

    fn send(&self, message: Outgoing) -> Soon<'_, Result<Result<Delivery, Undelivered>, Fault>> {
        let known = self.channels.iter().find(|it| it.name == message.channel);
        let sent = match known {
            None => Err(Undelivered::Unknown),
            Some(it) if !it.may_send => Err(Undelivered::NotWired),
            Some(_) => Ok(Delivery { message_id: "msg_1".to_owned() }),
        };
        Box::pin(std::future::ready(Ok(sent)))
    }

    fn send_direct(&self, _: OtherAgent, _: String) -> Soon<'_, Result<Result<String, Undelivered>, Fault>> {
        Box::pin(std::future::ready(Ok(Ok("direct_1".to_owned()))))
    }

    fn request(&self, _: ChannelRequest) -> Soon<'_, Result<Value, Fault>> {
        Box::pin(std::future::ready(Ok(Value::Null)))
    }
}

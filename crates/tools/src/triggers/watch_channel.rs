//! `watch_channel`: begins a turn at each message on a channel.

use kit::prelude::*;
use serde::Serialize;

use super::{MAKES, add, touches};

/// Begin a turn of yours at each message on a channel; your own messages do not count.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WatchChannel {
    /// Channel.
    channel_name: String,
    /// Message that begins the turn, with {content}, {channel}, {sender}, {message_id}, {reply_to}, {sender_id} and keys of the
    /// metadata. Default: the message with its sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<String>,
    /// Only messages of this sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    filter_sender: Option<String>,
    /// Its id; default: a new one.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Grants of its turns: `run cargo test`, `net HOST`, `write PATH`. Nobody is asked then; anything else that needs approval fails.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    grants: Vec<String>,
    /// Maximum fires a day.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_per_day: Option<u64>,
}

impl Tool for WatchChannel {
    const NAME: &str = "watch_channel";
    const AT_MOST: Kinds = MAKES;

    fn touches(&self) -> Touches {
        touches(Self::NAME, self)
    }

    fn title(&self) -> String {
        self.channel_name.clone()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        add(Self::NAME, &self, cx).await
    }
}

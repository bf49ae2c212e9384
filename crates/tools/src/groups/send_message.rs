//! `send_message`: sends a message to a named channel, private or shared.

use kit::{
    prelude::*,
    services::{ChannelInfo, Outgoing, OwnIdentity, Undelivered},
};
use serde_json::{Value, json};

use super::{MESSAGES, quoted};

/// Maximum length of the content that the answer repeats, in characters.
const PREVIEW: usize = 60;

/// Send a message to a named channel: one of your group, or a private one of this session.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SendMessage {
    /// Channel's name, exactly as it is listed.
    #[serde(default)]
    channel: String,
    /// The text.
    #[serde(default, alias = "content")]
    message: String,
    /// Ignored: a channel is what it was created as.
    #[serde(default, rename = "channel_type")]
    #[schemars(skip)]
    _channel_type: Option<String>,
    /// Id of the message that this one answers.
    reply_to: Option<String>,
    /// Data for the receivers: an object.
    #[serde(default)]
    metadata: Value,
}

impl Tool for SendMessage {
    const NAME: &str = "send_message";
    const AT_MOST: Kinds = Kinds::SESSION;
    const ONLY_AMONG_AGENTS: bool = true;

    fn touches(&self) -> Touches {
        Touches::session(MESSAGES)
    }

    fn title(&self) -> String {
        format!("to channel {}", self.channel)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        if self.channel.is_empty() {
            return Err(Fault::bad_args("Channel name is required"));
        }
        if self.message.is_empty() {
            return Err(Fault::bad_args("Message content is required"));
        }
        let (channel, text) = (self.channel, self.message);
        let outgoing = Outgoing {
            channel: channel.clone(),
            content: Value::String(text.clone()),
            metadata: object(self.metadata),
            reply_to: self.reply_to.filter(|it| !it.is_empty()),
            shared_only: false,
        };
        let refused = match cx.services().messages.send(outgoing).await? {
            Ok(sent) => return Ok(Output::text(delivered(&channel, &sent.message_id, &text))),
            Err(refused) => refused,
        };
        let messages = cx.services().messages.clone();
        let (own, known) = cx.blocking(move |_| Ok((messages.own()?, messages.channels()?))).await?;
        Err(match refused {
            Undelivered::NotWired => not_wired(&channel, &own, &known),
            Undelivered::Full(what) => {
                Fault::new(Kind::Unavailable, format!("'{what}' has no room for more messages"))
                    .next("Send again once somebody has read them.")
            }
            Undelivered::Unknown | Undelivered::Stopped => unknown(&channel, &known),
        })
    }
}

/// Returns metadata that may have come as JSON text. What is not JSON is left out, as in KohakuTerrarium.
fn object(metadata: Value) -> Value {
    match metadata {
        Value::String(text) => serde_json::from_str(&text).unwrap_or_else(|_| json!({})),
        other => other,
    }
}

fn delivered(channel: &str, id: &str, text: &str) -> String {
    let preview: String = text.chars().take(PREVIEW).collect::<String>().replace('\n', " ");
    let more = if text.chars().count() > PREVIEW { "..." } else { "" };
    format!(
        "Delivered to '{channel}' (id: {id}). Content: \"{preview}{more}\". Message delivered successfully, no further action \
         needed for this send."
    )
}

fn not_wired(channel: &str, own: &OwnIdentity, known: &[ChannelInfo]) -> Fault {
    let outgoing = quoted(known.iter().filter(|it| it.shared && it.may_send).map(|it| it.name.as_str()));
    Fault::denied(format!(
        "You are not wired as sender on channel '{channel}'. Your outgoing channels: {outgoing}. Ask the privileged creature \
         to wire you via group_channel(action='wire', direction='send', channel='{channel}', creature_id='{}').",
        own.id
    ))
}

fn unknown(channel: &str, known: &[ChannelInfo]) -> Fault {
    let list = |shared: bool| {
        let names: Vec<String> = known
            .iter()
            .filter(|it| it.shared == shared)
            .map(|it| format!("`{}` ({})", it.name, it.kind))
            .collect();
        let word = if shared { "shared" } else { "private" };
        (!names.is_empty()).then(|| format!("{word}: {}", names.join(", ")))
    };
    let available: Vec<String> = [true, false].into_iter().filter_map(list).collect();
    let available = if available.is_empty() { "none".to_owned() } else { available.join(" | ") };
    Fault::not_found(format!(
        "Channel '{channel}' does not exist. Available channels — {available}. Pick one of the listed channels exactly as \
         written; do NOT invent a name (the tool will keep rejecting invented names). If you genuinely need a new channel, \
         ask the person to create it."
    ))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use kit::testing::Wired;

    use super::*;

    fn says(arguments: &Value) -> String {
        let channel = |name: &str, kind, shared, may_send| ChannelInfo {
            name: name.to_owned(),
            kind,
            description: String::new(),
            shared,
            may_send,
        };
        let channels = vec![
            channel("tasks", "broadcast", true, true),
            channel("results", "broadcast", true, false),
            channel("mine", "queue", false, true),
        ];
        let wired = Wired { name: "me".to_owned(), privileged: false, others: Vec::new(), channels };
        wired.workspace().says::<SendMessage>(arguments)
    }

    #[test]
    fn texts_are_those_of_kohakuterrarium() {
        let long = "a line\n".repeat(20);
        expect![[r#"Delivered to 'mine' (id: msg_1). Content: "a line a line a line a line a line a line a line a line a li...". Message delivered successfully, no further action needed for this send."#]]
            .assert_eq(&says(&json!({"channel": "mine", "content": long, "channel_type": "queue", "metadata": "{\"a\": 1}"})));
        expect!["bad_args: Channel name is required"].assert_eq(&says(&json!({"message": "x"})));
        expect!["bad_args: Message content is required"].assert_eq(&says(&json!({"channel": "mine"})));
        expect!["not_found: Channel 'x' does not exist. Available channels — shared: `tasks` (broadcast), `results` (broadcast) | private: `mine` (queue). Pick one of the listed channels exactly as written; do NOT invent a name (the tool will keep rejecting invented names). If you genuinely need a new channel, ask the person to create it."]
            .assert_eq(&says(&json!({"channel": "x", "message": "x"})));
        expect!["denied: You are not wired as sender on channel 'results'. Your outgoing channels: ['tasks']. Ask the privileged creature to wire you via group_channel(action='wire', direction='send', channel='results', creature_id='me_id')."]
            .assert_eq(&says(&json!({"channel": "results", "message": "x"})));
    }
}

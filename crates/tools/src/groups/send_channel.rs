//! `send_channel`: sends a message to a channel of the group.

use kit::{
    prelude::*,
    services::{ChannelInfo, Outgoing, OwnIdentity, Undelivered},
};
use serde_json::{Value, json};

use super::{MESSAGES, quoted};

/// Send a message to a channel in your group: everybody who listens gets it. Not for one agent in
/// particular[?: that is `tool:group_send`?].
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SendChannel {
    /// Channel's name.
    channel: String,
    /// The text.
    message: String,
    /// Data for the receivers.
    metadata: Option<serde_json::Map<String, Value>>,
    /// Id of the message that this one answers.
    reply_to: Option<String>,
}

impl Tool for SendChannel {
    const NAME: &str = "send_channel";
    const AT_MOST: Kinds = Kinds::SESSION;
    const ONLY_AMONG_AGENTS: bool = true;

    fn touches(&self) -> Touches {
        Touches::session(MESSAGES)
    }

    fn title(&self) -> String {
        format!("to channel {}", self.channel)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let channel = self.channel.trim().to_owned();
        if channel.is_empty() || self.message.is_empty() {
            return Err(Fault::bad_args("'channel' and 'message' are required"));
        }
        let messages = cx.services().messages.clone();
        let (own, known) = cx.blocking(move |_| Ok((messages.own()?, messages.channels()?))).await?;
        let Some(environment) = &own.environment else {
            return Err(Fault::new(Kind::Unavailable, "you are in no group")
                .next("A group is started with `haft group run`."));
        };
        let outgoing = Outgoing {
            channel: channel.clone(),
            content: Value::String(self.message),
            metadata: self.metadata.map(Value::Object).unwrap_or_default(),
            reply_to: self.reply_to.filter(|it| !it.is_empty()),
            shared_only: true,
        };
        match cx.services().messages.send(outgoing).await? {
            Ok(sent) => Ok(Output::text(
                json!({"channel": channel, "message_id": sent.message_id, "caller_graph_id": graph_of(environment)})
                    .to_string(),
            )),
            Err(Undelivered::NotWired) => Err(not_wired(&channel, &own, &known)),
            Err(Undelivered::Full(session)) => {
                let what = format!("the inbox of '{session}', who listens on '{channel}', is full");
                Err(Fault::new(Kind::Unavailable, what).next("Send again once it has read its messages."))
            }
            Err(Undelivered::Unknown | Undelivered::Stopped) => Err(unknown(&channel, &known)),
        }
    }
}

/// Returns the id of the graph to which an environment belongs.
fn graph_of(environment: &str) -> &str {
    environment.strip_prefix("env_").unwrap_or(environment)
}

fn not_wired(channel: &str, own: &OwnIdentity, known: &[ChannelInfo]) -> Fault {
    let outgoing = quoted(known.iter().filter(|it| it.shared && it.may_send).map(|it| it.name.as_str()));
    let call = format!(
        "group_channel(action='wire', direction='send', channel='{channel}', creature_id='{}')",
        own.id
    );
    let how = if own.privileged {
        format!("Self-wire via {call}.")
    } else {
        format!("Ask the privileged creature to wire you via {call}.")
    };
    Fault::denied(format!(
        "you are not wired as sender on '{channel}'; your outgoing channels: {outgoing}. {how}"
    ))
}

fn unknown(channel: &str, known: &[ChannelInfo]) -> Fault {
    let available = quoted(known.iter().filter(|it| it.shared).map(|it| it.name.as_str()));
    Fault::not_found(format!(
        "channel '{channel}' does not exist in your graph; no channel was created. available: {available}. Either create \
         it first with group_channel(action='create', channel='{channel}'), or message the creature directly by name with \
         group_send(to='<creature name>', message=...)."
    ))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use kit::testing::Wired;

    use super::*;

    #[test]
    fn texts_are_those_of_kohakuterrarium() {
        let channel = |name: &str, may_send| ChannelInfo {
            name: name.to_owned(),
            kind: "broadcast",
            description: String::new(),
            shared: true,
            may_send,
        };
        let says = |privileged, name: &str| {
            let channels = vec![channel("tasks", true), channel("results", false)];
            let wired = Wired { name: "me".to_owned(), privileged, others: Vec::new(), channels };
            let test_ws = wired.workspace();
            test_ws.says::<SendChannel>(&json!({"channel": name, "message": "hi"}))
        };
        expect![[r#"{"channel":"tasks","message_id":"msg_1","caller_graph_id":"graph_1"}"#]]
            .assert_eq(&says(false, "tasks"));
        expect!["denied: you are not wired as sender on 'results'; your outgoing channels: ['tasks']. Ask the privileged creature to wire you via group_channel(action='wire', direction='send', channel='results', creature_id='me_id')."]
            .assert_eq(&says(false, "results"));
        expect!["denied: you are not wired as sender on 'results'; your outgoing channels: ['tasks']. Self-wire via group_channel(action='wire', direction='send', channel='results', creature_id='me_id')."]
            .assert_eq(&says(true, "results"));
        expect!["not_found: channel 'x' does not exist in your graph; no channel was created. available: ['results', 'tasks']. Either create it first with group_channel(action='create', channel='x'), or message the creature directly by name with group_send(to='<creature name>', message=...)."]
            .assert_eq(&says(false, "x"));
    }
}

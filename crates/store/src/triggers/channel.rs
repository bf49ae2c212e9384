//! Triggers that watch a channel: they fire in the transaction of the message.

use jiff::{Timestamp, tz::TimeZone};
use rusqlite::{Connection, params};
use serde_json::Value;

use super::{Fire, Fired, Then, row, whole_fire};
use crate::{
    inbox::{NewMessage, Source},
    now_ms,
};

/// A message on a channel, as triggers see it.
pub(crate) struct OnChannel<'a> {
    /// The key of the channel's scope.
    pub(crate) scope: &'a str,
    pub(crate) channel: &'a str,
    pub(crate) sender: &'a str,
    pub(crate) sender_session: Option<&'a str>,
    pub(crate) content: &'a Value,
    pub(crate) metadata: &'a Value,
    pub(crate) message: &'a str,
    pub(crate) reply_to: Option<&'a str>,
}

/// The prompt of a trigger that has none.
const PROMPT: &str = "[Channel '{channel}' from {sender}]: {content}";

/// Fires the triggers that watch this channel. Returns their sessions, whether they fired or not: the message reaches them by
/// their triggers alone.
pub(crate) fn watchers_of(database: &Connection, post: &OnChannel<'_>) -> rusqlite::Result<Vec<String>> {
    let (scope, message) = (post.scope, post.message);
    // The private channels of a session are its own; those of a group belong to all members.
    let found: Vec<(String, String)> = database
        .prepare_cached(
            "SELECT session, id FROM triggers t WHERE channel = ?1 AND state <> 'done' AND (
               ?2 IN ('session ' || session, 'environment env_' || session)
               OR EXISTS (SELECT 1 FROM members m WHERE m.session = t.session AND 'environment ' || m.environment = ?2))
             ORDER BY session, id",
        )?
        .query_map(params![post.channel, scope], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let mut watchers = Vec::new();
    for (session, id) in found {
        if post.sender_session == Some(&*session) {
            continue;
        }
        let Some(trigger) = row::get(database, &session, &id)? else { continue };
        let text = |key: &str| trigger.body.get(key).and_then(Value::as_str).filter(|it| !it.is_empty());
        let is_from = |wanted: &str| wanted == post.sender || post.sender_session == Some(wanted);
        if text("filter_sender").is_some_and(|wanted| !is_from(wanted)) {
            continue;
        }
        let prompt = filled(text("prompt").unwrap_or(PROMPT), post);
        let grants = trigger.body.get("grants").and_then(|it| serde_json::from_value(it.clone()).ok());
        let fire = Fire {
            session: session.clone(),
            id: id.clone(),
            expected: None,
            at_ms: now_ms(),
            day: today(text("zone")),
            then: Then::Same,
            overlaps: true,
            max_per_day: trigger.body.get("max_per_day").and_then(Value::as_u64),
            by_person: false,
            delivery: Some(format!("{scope} {message}")),
            message: NewMessage {
                sender_session: post.sender_session.map(str::to_owned),
                channel: Some(post.channel.to_owned()),
                message: Some(message.to_owned()),
                reply_to: post.reply_to.map(str::to_owned),
                grants: Some(grants.unwrap_or_default()),
                ..NewMessage::new(&session, Source::Trigger, &id, prompt)
            },
            note: format!("message {message} of {}", post.sender),
        };
        let fired = whole_fire(database, &fire, &fire.message, true)?;
        if !matches!(fired, Fired::Gone | Fired::Known) && !watchers.contains(&session) {
            watchers.push(session);
        }
    }
    Ok(watchers)
}

/// Returns the day of this moment in a time zone; the machine's, where none is named.
fn today(zone: Option<&str>) -> String {
    let zone = zone.and_then(|it| TimeZone::get(it).ok()).unwrap_or_else(TimeZone::system);
    zone.to_datetime(Timestamp::now()).date().to_string()
}

/// Fills the placeholders of a prompt: `{content}`, `{channel}`, `{sender}`, `{message_id}`, `{reply_to}`, `{sender_id}` and the
/// keys of the metadata. One without a value is empty; other braces stay.
fn filled(prompt: &str, post: &OnChannel<'_>) -> String {
    let of = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    let value = |name: &str| match name {
        "content" => of(post.content),
        "channel" => post.channel.to_owned(),
        "sender" => post.sender.to_owned(),
        "message_id" => post.message.to_owned(),
        "reply_to" => post.reply_to.unwrap_or_default().to_owned(),
        "sender_id" => post.sender_session.unwrap_or_default().to_owned(),
        other => post.metadata.get(other).map(of).unwrap_or_default(),
    };
    let is_name = |name: &str| {
        name.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_')
            && name.chars().all(|it| it.is_ascii_alphanumeric() || it == '_')
    };
    let mut text = String::with_capacity(prompt.len());
    let mut rest = prompt;
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        match after.split_once('}').filter(|(name, _)| is_name(name)) {
            Some((name, left)) => {
                text.push_str(&value(name));
                rest = left;
            }
            None => {
                text.push('{');
                rest = after;
            }
        }
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn placeholders_are_filled_and_other_braces_stay() {
        let post = OnChannel {
            scope: "session s",
            channel: "news",
            sender: "ann",
            sender_session: Some("s_ann"),
            content: &json!("a {channel} b"),
            metadata: &json!({"topic": "x", "n": 3}),
            message: "msg_1",
            reply_to: None,
        };
        assert_eq!(filled(PROMPT, &post), "[Channel 'news' from ann]: a {channel} b");
        assert_eq!(
            filled("{topic} {n} [{reply_to}] {sender_id} {message_id} {\"a\": {}} {no such} {", &post),
            "x 3 [] s_ann msg_1 {\"a\": {}} {no such} {"
        );
    }
}

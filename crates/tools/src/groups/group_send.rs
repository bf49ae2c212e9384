//! `group_send`: sends a message to one agent.

use kit::{
    prelude::*,
    services::{Kin, OtherAgent, Undelivered},
};
use serde_json::json;

use super::MESSAGES;

/// Send a message to one agent: a member of your group, a running agent that you started, or `parent`, who started you. It
/// reads it before its next step.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupSend {
    /// Its id or name.
    to: String,
    /// The text.
    message: String,
}

impl Tool for GroupSend {
    const NAME: &str = "group_send";
    const AT_MOST: Kinds = Kinds::SESSION;
    const ONLY_AMONG_AGENTS: bool = true;

    fn touches(&self) -> Touches {
        Touches::session(MESSAGES)
    }

    fn title(&self) -> String {
        format!("to {}", self.to)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let to = self.to.trim().to_owned();
        if to.is_empty() || self.message.is_empty() {
            return Err(Fault::bad_args("'to' and 'message' are required"));
        }
        let messages = cx.services().messages.clone();
        let (own, others) = cx.blocking(move |_| Ok((messages.own()?, messages.others()?))).await?;
        let target = found(&to, &others)?;
        if target.id == own.id {
            return Err(Fault::bad_args("group_send cannot target the caller itself"));
        }
        if !target.running {
            return Err(not_running(&target.name, &others));
        }
        if target.kin == Kin::Member && !own.privileged && !target.privileged {
            let what = format!(
                "non-privileged creatures can only group_send to privileged creatures; '{}' is not privileged",
                target.name
            );
            return Err(Fault::denied(what));
        }
        let (id, name) = (target.id.clone(), target.name.clone());
        match cx.services().messages.send_direct(target.clone(), self.message).await? {
            Ok(message_id) => {
                let to = if target.kin == Kin::Member { id } else { name };
                Ok(Output::text(json!({"delivered": true, "to": to, "message_id": message_id}).to_string()))
            }
            Err(Undelivered::Full(_)) => {
                let what = format!("the inbox of '{name}' is full: it has not read its messages");
                Err(Fault::new(Kind::Unavailable, what).next("Send again once it has read them."))
            }
            Err(_) => Err(not_running(&name, &others)),
        }
    }
}

/// Returns the agent of this id, or of this name where only one has it.
fn found<'a>(to: &str, others: &'a [OtherAgent]) -> Result<&'a OtherAgent, Fault> {
    if let Some(it) = others.iter().find(|it| it.id == to) {
        return Ok(it);
    }
    let mut named = others.iter().filter(|it| it.name == to);
    match (named.next(), named.next()) {
        (Some(it), None) => Ok(it),
        (Some(_), Some(_)) => {
            let ids: Vec<&str> = others.iter().filter(|it| it.name == to).map(|it| it.id.as_str()).collect();
            Err(Fault::bad_args(format!("several agents are called '{to}'"))
                .next(format!("Give an id: {}.", ids.join(", "))))
        }
        (None, _) => Err(Fault::not_found(format!("creature '{to}' not in your group")).next(there(others))),
    }
}

fn not_running(name: &str, others: &[OtherAgent]) -> Fault {
    let others: Vec<OtherAgent> = others.iter().filter(|it| it.name != name).cloned().collect();
    Fault::new(Kind::Unavailable, format!("target '{name}' is not running")).next(there(&others))
}

/// Returns a sentence on who can be reached.
fn there(others: &[OtherAgent]) -> String {
    let mut names: Vec<&str> = others.iter().filter(|it| it.running).map(|it| it.name.as_str()).collect();
    names.dedup();
    match names.as_slice() {
        [] => "Nobody else is running.".to_owned(),
        names => format!("Running: {}.", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use kit::testing::Wired;
    use serde_json::json;

    use super::*;

    fn other(name: &str, kin: Kin, running: bool) -> OtherAgent {
        OtherAgent {
            session: name.to_owned(),
            id: format!("{name}_id"),
            name: name.to_owned(),
            kin,
            privileged: false,
            running,
        }
    }

    fn workspace(privileged: bool) -> kit::testing::TestWorkspace {
        let others = vec![
            other("bob", Kin::Member, true),
            other("stopped", Kin::Member, false),
            other("explore_1", Kin::Child, true),
            other("me", Kin::Member, true),
        ];
        let wired = Wired { name: "me".to_owned(), privileged, others, channels: Vec::new() };
        wired.workspace()
    }

    #[test]
    fn message_is_delivered_or_refused_with_who_is_there() {
        let says = |privileged, to: &str| {
            workspace(privileged).says::<GroupSend>(&json!({"to": to, "message": "hi"}))
        };
        expect![[r#"{"delivered":true,"to":"bob_id","message_id":"direct_1"}"#]]
            .assert_eq(&says(true, "bob"));
        expect![[r#"{"delivered":true,"to":"explore_1","message_id":"direct_1"}"#]]
            .assert_eq(&says(false, "explore_1"));
        expect!["denied: non-privileged creatures can only group_send to privileged creatures; 'bob' is not privileged"]
            .assert_eq(&says(false, "bob_id"));
        expect![[r#"
            not_found: creature 'eve' not in your group
            Running: bob, explore_1, me."#]]
        .assert_eq(&says(true, "eve"));
        expect![[r#"
            unavailable: target 'stopped' is not running
            Running: bob, explore_1, me."#]]
        .assert_eq(&says(true, "stopped"));
        expect!["bad_args: group_send cannot target the caller itself"].assert_eq(&says(true, "me"));
        expect!["bad_args: 'to' and 'message' are required"].assert_eq(&says(true, " "));
    }
}

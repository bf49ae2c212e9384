//! Approval through a client: asks its person by elicitation, or on the page of a server that has one.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use kit::effect::Scope;
use runtime::{Approver, Request, Verdict};
use serde_json::{Value, json};
use serve::Filled;
use tokio::time::timeout;

use super::ClientSlots;
use crate::ask;

/// The timeout of an answer.
const TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// A question shows at most so many lines of diffs.
const DIFF: usize = 200;

/// The person behind the client of a call.
pub(super) struct AtClient(pub(super) Arc<ClientSlots>);

impl Approver for AtClient {
    fn approve(&self, request: Request) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>> {
        Box::pin(async move {
            let lasts = !request.offers.is_empty();
            let (message, schema) =
                (quoted(&ask::question(&ask::AboutCall::from(request.clone()), DIFF, "")), schema(lasts));
            let call = request.call.as_deref();
            let asked = self.0.through(
                call,
                |offers| offers.forms,
                |client| {
                    let (message, schema) = (message.clone(), schema.clone());
                    async move { client.form(message, schema).await }
                },
            );
            let Ok(answer) = timeout(TIMEOUT, asked).await else { return Verdict::NobodyThere };
            match answer {
                Some(Ok(Filled::Accepted(filled))) => verdict(&filled, lasts),
                // Whatever kept the client from asking, nobody approved.
                Some(Ok(Filled::Declined | Filled::Cancelled) | Err(_)) => Verdict::No,
                None => self.0.ask_on_page(request).await,
            }
        })
    }

    /// Asks questions concurrently: one that nobody answers must not block others, and the client orders them.
    fn asks_together(&self) -> bool {
        true
    }

    fn is_attended(&self, call: &str) -> bool {
        self.0.has_page() || self.0.of(Some(call), |offers| offers.forms).is_some()
    }
}

fn schema(lasting: bool) -> Value {
    let choices: &[(&str, &str)] = if lasting {
        &[
            ("once", "Allow it once"),
            ("session", "Allow it for this session"),
            ("project", "Allow it for this project"),
            ("no", "Don't allow it"),
        ]
    } else {
        &[("once", "Allow it once"), ("no", "Don't allow it")]
    };
    let choices: Vec<Value> =
        choices.iter().map(|(value, title)| json!({"const": value, "title": title})).collect();
    json!({
        "type": "object",
        "properties": {
            "decision": {"type": "string", "title": "Decision", "oneOf": choices},
            "instead": {"type": "string", "title": "If not: what to do instead"},
        },
        "required": ["decision"],
    })
}

/// Returns an approval only for an unambiguous yes.
fn verdict(filled: &Value, lasting: bool) -> Verdict {
    match filled.get("decision").and_then(Value::as_str) {
        Some("once") => Verdict::Yes(Scope::Once),
        Some("session") if lasting => Verdict::Yes(Scope::Session),
        Some("project") if lasting => Verdict::Yes(Scope::Project),
        _ => match filled.get("instead").and_then(Value::as_str).map(str::trim) {
            Some(words) if !words.is_empty() => Verdict::Instead(words.to_owned()),
            _ => Verdict::No,
        },
    }
}

/// Quotes the texts of a call as code blocks: a client that renders Markdown shows them literally.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::new();
    let mut in_block = false;
    for line in text.trim().lines() {
        let is_said = line.starts_with("  ");
        if is_said != in_block && !quoted.is_empty() {
            quoted.push('\n');
        }
        in_block = is_said;
        if is_said {
            quoted.push_str("  ");
        }
        quoted.push_str(line);
        quoted.push('\n');
    }
    quoted.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_offered_and_chosen_is_allowed() {
        let said = |decision: Value, lasting| verdict(&json!({"decision": decision}), lasting);
        assert_eq!(said(json!("once"), false), Verdict::Yes(Scope::Once));
        assert_eq!(said(json!("session"), true), Verdict::Yes(Scope::Session));
        assert_eq!(said(json!("project"), true), Verdict::Yes(Scope::Project));
        for (decision, lasting) in
            [(json!("session"), false), (json!("no"), true), (json!("yes"), true), (json!(true), true)]
        {
            assert_eq!(said(decision, lasting), Verdict::No);
        }
        assert_eq!(verdict(&json!({}), true), Verdict::No);
        let words = json!({"decision": "no", "instead": " use tabs "});
        assert_eq!(verdict(&words, true), Verdict::Instead("use tabs".to_owned()));
        let yes = json!({"decision": "once", "instead": "use tabs"});
        assert_eq!(verdict(&yes, true), Verdict::Yes(Scope::Once));
    }

    #[test]
    fn what_a_call_says_stands_in_blocks_of_its_own() {
        assert_eq!(
            quoted("\nAllow `shell` to do this?\n  run [x](y)\n  write z\nReason: it asks\n  run x\n"),
            "Allow `shell` to do this?\n\n    run [x](y)\n    write z\n\nReason: it asks\n\n    run x"
        );
    }
}

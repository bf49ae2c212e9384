//! Questions of a model to the person behind a client, by elicitation.

use std::{sync::Arc, time::Duration};

use agent::{Asker, nobody};
use kit::{
    Fault,
    services::{Question, Soon},
};
use serde_json::{Map, Value, json};
use serve::Filled;
use tokio::time::timeout;

use super::{ClientSlots, approver::quoted};
use crate::ask;

/// The person behind a client whose call is under way.
pub(super) struct AtClient(pub(super) Arc<ClientSlots>);

impl Asker for AtClient {
    fn ask(&self, question: Question) -> Soon<'_, Result<String, Fault>> {
        Box::pin(async move {
            let (message, schema) = (message(&question), schema(&question));
            let asked = self.0.through(
                None,
                |offers| offers.forms,
                |client| {
                    let (message, schema) = (message.clone(), schema.clone());
                    async move { client.form(message, schema).await }
                },
            );
            match asked.await.ok_or_else(nobody)?? {
                Filled::Accepted(filled) => answer(&question, &filled).ok_or_else(ask::unanswered),
                Filled::Declined | Filled::Cancelled => Err(ask::unanswered()),
            }
        })
    }

    /// Shows the text as a form without fields: a client need not display other messages of a server.
    fn show(&self, text: String) -> Soon<'_, Result<(), Fault>> {
        Box::pin(async move {
            let message = message_that_shows(&text);
            let schema = json!({"type": "object", "properties": {}});
            let shown = self.0.through(
                None,
                |offers| offers.forms,
                |client| {
                    let (message, schema) = (message.clone(), schema.clone());
                    async move { client.form(message, schema).await }
                },
            );
            match timeout(STANDS, shown).await {
                // However the person closes the form, they have seen it.
                Ok(Some(put_away)) => put_away.map(drop),
                Ok(None) => Err(nobody()),
                Err(_) => Ok(()),
            }
        })
    }
}

/// The time that a text is shown if the person does not close it.
const STANDS: Duration = Duration::from_secs(60);

/// Returns a text as the person reads it.
fn message_that_shows(text: &str) -> String {
    let lines: String = text.trim().lines().map(|it| format!("  {}\n", ask::shown(it))).collect();
    quoted(&format!("The model shows:\n{lines}"))
}

/// Returns the message of a form with this question.
pub(crate) fn message(question: &Question) -> String {
    // Several lines are quoted: none of them can pass for one of the answers below.
    let lines: Vec<String> = question.text.trim().lines().map(ask::shown).collect();
    let mark = if lines.len() > 1 { "| " } else { "" };
    let mut text = "The model asks:\n".to_owned();
    for line in lines {
        text.push_str(&format!("  {mark}{line}\n"));
    }
    for (at, option) in question.options.iter().enumerate() {
        text.push_str(&format!("  {}. {}\n", at + 1, ask::shown(option)));
    }
    quoted(&text)
}

/// Returns the schema of the answer: one of the offered ones, by its number, or any other text.
pub(crate) fn schema(question: &Question) -> Value {
    let mut fields = Map::new();
    let offered: Vec<Value> = question
        .options
        .iter()
        .enumerate()
        .map(|(at, option)| json!({"const": (at + 1).to_string(), "title": ask::shown(option)}))
        .collect();
    let required = if offered.is_empty() {
        fields.insert("answer".to_owned(), json!({"type": "string", "title": "Your answer"}));
        vec!["answer"]
    } else {
        fields
            .insert("choice".to_owned(), json!({"type": "string", "title": "Your choice", "oneOf": offered}));
        fields.insert("answer".to_owned(), json!({"type": "string", "title": "Or in your own words"}));
        Vec::new()
    };
    json!({"type": "object", "properties": fields, "required": required})
}

/// Returns the person's answer: their own text takes precedence over a choice.
pub(crate) fn answer(question: &Question, filled: &Value) -> Option<String> {
    let field =
        |name: &str| filled.get(name).and_then(Value::as_str).map(str::trim).filter(|it| !it.is_empty());
    match field("answer") {
        Some(words) => Some(words.to_owned()),
        None => ask::chosen(question, field("choice")?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_in_own_words_or_one_of_those_offered() {
        let question = Question {
            text: "Which?\n1. none".to_owned(),
            options: vec!["main".to_owned(), "dev".to_owned()],
            ..Question::default()
        };
        assert_eq!(
            message(&question),
            "The model asks:\n\n    | Which?\n    | 1. none\n    1. main\n    2. dev"
        );
        let said = |filled: Value| answer(&question, &filled);
        assert_eq!(said(json!({"choice": "2"})).as_deref(), Some("dev"));
        assert_eq!(said(json!({"choice": "2", "answer": " another "})).as_deref(), Some("another"));
        assert_eq!(said(json!({"answer": " "})), None);
        assert_eq!(schema(&question).get("required"), Some(&json!([])));
        assert_eq!(schema(&Question::default()).get("required"), Some(&json!(["answer"])));
    }
}

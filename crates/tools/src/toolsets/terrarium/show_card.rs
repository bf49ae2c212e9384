//! `show_card` as KohakuTerrarium has it: a card with actions is a question with answers to choose from.

use std::time::Duration;

use kit::prelude::*;
use serde_json::Value;

use crate::agents::ask_user;

/// Show the user a card; with actions, wait for the one that they choose.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShowCard {
    /// Its title.
    title: String,
    /// A line below the title.
    #[serde(default)]
    subtitle: String,
    /// Icon before the title.
    #[serde(default)]
    icon: String,
    /// Text of the card.
    #[serde(default)]
    body: String,
    /// A last line.
    #[serde(default)]
    footer: String,
    /// primary, info, success, warning, danger or neutral. It has no effect here.
    #[serde(default)]
    #[expect(dead_code, reason = "a text has no colours")]
    accent: String,
    /// Labels and values.
    #[serde(default)]
    #[schemars(with = "Vec<Field>")]
    fields: Vec<Value>,
    /// Choices for the user.
    #[serde(default)]
    #[schemars(with = "Vec<Action>")]
    actions: Vec<Value>,
    /// Wait for the choice. Default: if there are actions.
    wait_for_reply: Option<bool>,
    /// Seconds to wait; 0 for as long as it takes.
    timeout_s: Option<f64>,
    /// Where it is shown. It has no effect here.
    #[serde(default)]
    #[expect(dead_code, reason = "there is one place")]
    surface: String,
}

/// A label and its value.
#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is used: what is no field is left out")]
struct Field {
    /// Its name.
    label: String,
    /// Its value.
    value: String,
    /// Beside the one before it.
    #[serde(default)]
    inline: bool,
}

/// Something to choose.
#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is used: what is no action is left out")]
struct Action {
    /// The answer names it.
    id: String,
    /// Text for the user.
    label: String,
    /// primary, secondary, danger or link.
    style: Option<String>,
    /// The address of a link.
    url: Option<String>,
}

/// An action as the user sees it.
struct Choice {
    id: String,
    label: String,
    url: Option<String>,
}

impl Tool for ShowCard {
    const NAME: &str = "show_card";
    const AT_MOST: Kinds = Kinds::NONE;

    fn touches(&self) -> Touches {
        Touches::none()
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(ask_user::time_limit(self.within()))
    }

    fn title(&self) -> String {
        self.title.clone()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        if self.title.trim().is_empty() {
            return Err(Fault::bad_args("show_card requires a 'title' string"));
        }
        let choices = choices(&self.actions);
        if choices.is_empty() || self.wait_for_reply == Some(false) {
            let text = self.text(&choices);
            return Ok(Output::text(match cx.agents().show(text.clone(), cx).await {
                Ok(()) => "card displayed".to_owned(),
                // If no person can see it, the model at least gets the text.
                Err(_) => text,
            }));
        }
        let links: Vec<Choice> = choices.iter().filter(|it| it.url.is_some()).map(Choice::again).collect();
        let labels = choices.iter().map(|it| it.label.clone()).collect();
        match ask_user::ask(self.text(&links), labels, self.within(), cx).await {
            Ok(answer) => {
                let answer = answer.as_text();
                let chosen =
                    choices.iter().find(|it| it.label == answer).map_or(answer.as_str(), |it| &it.id);
                Ok(Output::text(format!("action: {chosen}")))
            }
            Err(fault) if fault.kind == Kind::Timeout => Ok(Output::text("card timed out without reply")),
            Err(fault) => Err(fault),
        }
    }
}

impl ShowCard {
    fn within(&self) -> Option<u32> {
        // In whole seconds, rounded up.
        self.timeout_s.filter(|it| *it > 0.0).map(|it| it.ceil() as u32)
    }

    /// Formats the card as lines.
    fn text(&self, actions: &[Choice]) -> String {
        let title = [self.icon.trim(), self.title.trim()].join(" ");
        let mut text = format!("# {}", title.trim());
        let mut part = |between: &str, it: &str| {
            if !it.is_empty() {
                text.push_str(between);
                text.push_str(it);
            }
        };
        part("\n", &self.subtitle);
        part("\n\n", &self.body);
        part("\n", &fields(&self.fields).join("\n"));
        let actions: Vec<String> = actions.iter().map(Choice::shown).collect();
        if !actions.is_empty() {
            part("\n\n", &format!("Actions: {}", actions.join(" / ")));
        }
        part("\n\n", &self.footer);
        text
    }
}

/// Formats `- label: value` of each, on the line before if it is inline; incomplete ones are left out.
fn fields(given: &[Value]) -> Vec<String> {
    let word = |field: &Value, name: &str| match field.get(name)? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    let mut lines: Vec<String> = Vec::new();
    for field in given {
        let (Some(label), Some(value)) = (word(field, "label"), word(field, "value")) else { continue };
        match lines.last_mut() {
            Some(line) if field.get("inline") == Some(&Value::Bool(true)) => {
                line.push_str(&format!("; {label}: {value}"));
            }
            _ => lines.push(format!("- {label}: {value}")),
        }
    }
    lines
}

/// Returns the objects with an id. If two have one label, their ids are shown.
fn choices(given: &[Value]) -> Vec<Choice> {
    let text = |it: &Value, name: &str| it.get(name).and_then(Value::as_str).map(str::to_owned);
    let mut choices: Vec<Choice> = Vec::new();
    for it in given {
        let Some(id) = text(it, "id").filter(|it| !it.is_empty()) else { continue };
        let label = text(it, "label").filter(|it| !it.trim().is_empty()).unwrap_or_else(|| id.clone());
        let is_taken = choices.iter().any(|it| it.label == label);
        let label = if is_taken { format!("{label} ({id})") } else { label };
        let url = text(it, "url").filter(|_| text(it, "style").as_deref() == Some("link"));
        choices.push(Choice { id, label, url });
    }
    choices
}

impl Choice {
    fn again(&self) -> Self {
        Self { id: self.id.clone(), label: self.label.clone(), url: self.url.clone() }
    }

    fn shown(&self) -> String {
        match &self.url {
            Some(url) => format!("{} ({url})", self.label),
            None => self.label.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kit::{
        services::{Agents, NoAgent, Profiles, Question, Report, Soon, Task},
        testing::TestWorkspace,
    };
    use parking_lot::Mutex;
    use serde_json::json;

    use super::*;
    use crate::toolsets::terrarium::ask_user::AskUser;

    /// Records what is shown, and answers with the first option, or with the question.
    #[derive(Default)]
    struct Person(Mutex<Vec<String>>);

    impl Agents for Person {
        fn profiles(&self) -> Profiles {
            Profiles::default()
        }

        fn switch(&self, profile: &str) -> Result<String, Fault> {
            NoAgent.switch(profile)
        }

        fn delegate<'a>(&'a self, task: Task, cx: &'a Cx) -> Soon<'a, Result<Report, Fault>> {
            NoAgent.delegate(task, cx)
        }

        fn ask<'a>(&'a self, question: Question, _: &'a Cx) -> Soon<'a, Result<String, Fault>> {
            self.0.lock().push(question.text.clone());
            let answer = question.options.first().cloned().unwrap_or(question.text);
            Box::pin(std::future::ready(Ok(answer)))
        }

        fn show<'a>(&'a self, text: String, _: &'a Cx) -> Soon<'a, Result<(), Fault>> {
            self.0.lock().push(text);
            Box::pin(std::future::ready(Ok(())))
        }

        fn think<'a>(&'a self, system: &'a str, prompt: &'a str) -> Soon<'a, Result<String, Fault>> {
            NoAgent.think(system, prompt)
        }
    }

    fn card(more: &Value) -> Value {
        let mut card = json!({"title": "Plan", "subtitle": "first", "icon": "*", "body": "Two steps.", "footer": "end",
            "accent": "info", "surface": "chat", "fields": [{"label": "cost", "value": 3}, {"label": "lost"}],
            "actions": ["dropped", {"id": "go", "label": "Go on", "style": "primary"}, {"id": ""}]});
        if let (Some(card), Some(more)) = (card.as_object_mut(), more.as_object()) {
            card.extend(more.clone());
        }
        card
    }

    const CARD: &str = "# * Plan\nfirst\n\nTwo steps.\n- cost: 3\n\nend";

    #[test]
    fn the_id_of_the_chosen_action_is_answered() {
        let mut test_ws = TestWorkspace::empty();
        let person = Arc::new(Person::default());
        test_ws.agents = person.clone();
        assert_eq!(test_ws.says::<ShowCard>(&card(&json!({}))), "action: go");
        assert_eq!(*person.0.lock(), [CARD]);
    }

    #[test]
    fn a_card_that_waits_for_nothing_is_displayed_or_given_as_text() {
        let with_actions = CARD.replace("\n\nend", "\n\nActions: Go on\n\nend");
        let mut test_ws = TestWorkspace::empty();
        assert_eq!(test_ws.says::<ShowCard>(&card(&json!({"wait_for_reply": false}))), with_actions);
        assert_eq!(test_ws.says::<ShowCard>(&card(&json!({"actions": ["dropped"]}))), CARD);
        let person = Arc::new(Person::default());
        test_ws.agents = person.clone();
        assert_eq!(test_ws.says::<ShowCard>(&card(&json!({"wait_for_reply": false}))), "card displayed");
        assert_eq!(test_ws.says::<ShowCard>(&json!({"title": "Done"})), "card displayed");
        assert_eq!(*person.0.lock(), [with_actions.as_str(), "# Done"]);
    }

    #[test]
    fn a_placeholder_is_an_example_below_the_question() {
        let mut test_ws = TestWorkspace::empty();
        test_ws.agents = Arc::new(Person::default());
        let said = test_ws.says::<AskUser>(&json!({"question": "Which?", "placeholder": "main"}));
        assert_eq!(said, "Which?\n(such as: main)");
    }
}

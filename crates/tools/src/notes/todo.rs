//! `todo`: a list of tasks, kept for the session. Accepts tasks in the various forms in which models write them.

use std::fmt;

use kit::prelude::*;
use serde::{
    Deserializer, Serialize,
    de::{Error, IgnoredAny, IntoDeserializer, MapAccess, Visitor, value},
};
use serde_json::Value;

use super::clipped;

/// The key of the list among the notes of a session.
const KEY: &str = "todo";

/// Limits: tasks of a list, characters of a task.
const TASKS: usize = 100;
const CHARS: usize = 500;

/// Your list of tasks.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Todo {
    /// `set` replaces the list. Default: read.
    #[serde(default, alias = "op")]
    action: Action,
    /// For `set`, in order.
    #[serde(default, alias = "todos", alias = "items")]
    #[schemars(with = "Vec<String>")]
    tasks: Vec<Given>,
    /// For `update`: its number.
    #[serde(default, alias = "index")]
    task: Option<usize>,
    /// For `update`.
    #[serde(default)]
    status: Option<Status>,
}

/// The action.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    Set,
    Update,
    #[default]
    #[serde(alias = "view", alias = "list")]
    Read,
    Clear,
}

/// The status of a task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Status {
    #[default]
    #[serde(alias = "todo", alias = "open", alias = "not_started")]
    Pending,
    #[serde(alias = "doing", alias = "in-progress", alias = "active", alias = "started")]
    InProgress,
    #[serde(alias = "completed", alias = "complete", alias = "finished")]
    Done,
    Failed,
    #[serde(alias = "cancelled", alias = "canceled")]
    Skipped,
}

impl Status {
    fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

/// A task as models write it: a text, or an object with the text and its status. Other fields are ignored.
struct Given {
    task: String,
    status: Status,
}

/// The form of a task, for the fault of a wrong one.
const FORM: &str = "a text, or {\"task\": \"…\", \"status\": \"pending\"}";

/// The names of the field with a task's text.
const TEXTS: [&str; 7] = ["task", "content", "text", "title", "description", "subject", "name"];

impl<'de> Deserialize<'de> for Given {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OfTask)
    }
}

struct OfTask;

impl<'de> Visitor<'de> for OfTask {
    type Value = Given;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(FORM)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Given, E> {
        Ok(Given { task: text.to_owned(), status: Status::default() })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Given, A::Error> {
        let (mut task, mut status) = (None, Status::default());
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "status" | "state" => status = status_of(&map.next_value::<Value>()?)?,
                // The first of these names takes precedence, whatever the order of the fields.
                name => match TEXTS.iter().position(|it| *it == name) {
                    Some(rank) => {
                        let text = text_of(name, &map.next_value::<Value>()?)?;
                        if task.as_ref().is_none_or(|(other, _)| rank < *other) {
                            task = Some((rank, text));
                        }
                    }
                    None => drop(map.next_value::<IgnoredAny>()?),
                },
            }
        }
        match task {
            Some((_, task)) => Ok(Given { task, status }),
            None => Err(A::Error::custom(format!("the task has no text; a task is {FORM}"))),
        }
    }
}

fn text_of<E: Error>(name: &str, value: &Value) -> Result<String, E> {
    let text = value.as_str().map(str::to_owned);
    text.ok_or_else(|| E::custom(format!("`{name}` is {value} and must be a string; a task is {FORM}")))
}

fn status_of<E: Error>(value: &Value) -> Result<Status, E> {
    let written = value.as_str().unwrap_or_default().trim().to_ascii_lowercase().replace([' ', '-'], "_");
    let known: Result<Status, value::Error> = Status::deserialize(written.as_str().into_deserializer());
    known.map_err(|_| {
        E::custom(format!(
            "the status {value} is unknown; it is one of pending, in_progress, done, failed, skipped"
        ))
    })
}

/// A stored task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Item {
    task: String,
    status: Status,
}

impl From<Given> for Item {
    fn from(given: Given) -> Self {
        let Given { task, status } = given;
        // One line each, so that the list stays one task per line.
        let task = task.split_whitespace().collect::<Vec<_>>().join(" ");
        Self { task: clipped(&task, CHARS), status }
    }
}

impl Tool for Todo {
    const NAME: &str = "todo";
    const AT_MOST: Kinds = Kinds::SESSION;

    fn touches(&self) -> Touches {
        if self.action() == Action::Read { Touches::none() } else { Touches::session(KEY) }
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.blocking(move |cx| {
            let list = match self.action() {
                Action::Read => read(cx.notes().get(KEY)?),
                Action::Clear => {
                    cx.notes().put(KEY, None)?;
                    Vec::new()
                }
                Action::Set | Action::Update => {
                    read(cx.notes().change(KEY, Box::new(move |kept| self.changed(kept)))?)
                }
            };
            Ok(Output::text(shown(&list)))
        })
        .await
    }
}

impl Todo {
    /// Returns the action: a list without an action is set.
    fn action(&self) -> Action {
        if self.action == Action::Read && !self.tasks.is_empty() { Action::Set } else { self.action }
    }

    fn changed(self, kept: Option<String>) -> Result<Option<String>, Fault> {
        let list = if self.action() == Action::Set { self.set()? } else { self.update(read(kept))? };
        serde_json::to_string(&list).map(Some).or_fault(Kind::Bug, "the list can't be written")
    }

    fn set(self) -> Result<Vec<Item>, Fault> {
        if self.tasks.is_empty() {
            return Err(Fault::bad_args("`set` needs `tasks`").next("`clear` empties the list."));
        }
        if self.tasks.len() > TASKS {
            let count = self.tasks.len();
            return Err(Fault::new(Kind::TooBig, format!("{count} tasks are too many; {TASKS} is the most"))
                .next("Put small ones together."));
        }
        let list: Vec<Item> = self.tasks.into_iter().map(Item::from).collect();
        match list.iter().position(|it| it.task.is_empty()) {
            Some(at) => Err(Fault::bad_args(format!("task {} of `tasks` is empty", at + 1))),
            None => Ok(list),
        }
    }

    fn update(self, mut list: Vec<Item>) -> Result<Vec<Item>, Fault> {
        let (Some(task), Some(status)) = (self.task, self.status) else {
            return Err(Fault::bad_args("`update` needs `task`, a number of the list, and `status`"));
        };
        let count = list.len();
        let Some(item) = task.checked_sub(1).and_then(|at| list.get_mut(at)) else {
            let fault = Fault::not_found(format!("there is no task {task}; the list has {count}"));
            return Err(if count == 0 {
                fault.next("Begin a list with `set`.")
            } else {
                fault.next(format!("The list:\n{}", shown(&list)))
            });
        };
        item.status = status;
        Ok(list)
    }
}

fn read(kept: Option<String>) -> Vec<Item> {
    kept.and_then(|it| serde_json::from_str(&it).ok()).unwrap_or_default()
}

fn shown(list: &[Item]) -> String {
    if list.is_empty() {
        return "no tasks".to_owned();
    }
    let done = list.iter().filter(|it| it.status == Status::Done).count();
    let lines =
        list.iter().enumerate().map(|(at, it)| format!("{}. [{}] {}\n", at + 1, it.status.name(), it.task));
    format!("{}{done} of {} done", lines.collect::<String>(), list.len())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_without_an_action_is_set_and_nothing_at_all_reads() {
        let action = |arguments| serde_json::from_value::<Todo>(arguments).unwrap().action();
        assert_eq!(action(json!({"tasks": ["a", "b"]})), Action::Set);
        assert_eq!(action(json!({})), Action::Read);
        assert_eq!(action(json!({"action": "clear"})), Action::Clear);
    }

    fn set(tasks: &serde_json::Value) -> Result<Vec<(String, &'static str)>, String> {
        let tool = kit::erase::<Todo>();
        tool.prepare(json!({ "todos": tasks })).map_err(|fault| fault.what)?;
        let list = serde_json::from_value::<Todo>(json!({ "todos": tasks })).unwrap().set().unwrap();
        Ok(list.into_iter().map(|it| (it.task, it.status.name())).collect())
    }

    #[test]
    fn tasks_are_accepted_as_models_write_them() {
        let tasks = json!([
            "read it",
            {"content": "mend it", "status": "in_progress", "activeForm": "Mending it", "id": 1},
            {"text": "run it", "status": "doing"},
            {"title": "look", "description": "at all of it", "status": "In Progress"},
            {"task": "say it", "status": "completed", "priority": "high"},
            {"name": "rest"},
        ]);
        let expected = [
            ("read it", "pending"),
            ("mend it", "in_progress"),
            ("run it", "in_progress"),
            ("look", "in_progress"),
            ("say it", "done"),
            ("rest", "pending"),
        ];
        assert_eq!(set(&tasks).unwrap(), expected.map(|(task, status)| (task.to_owned(), status)));
    }

    #[test]
    fn an_invalid_task_is_named_with_the_right_form() {
        for (tasks, says) in [
            (
                json!([{"text": "a", "status": "blocked"}]),
                "`todos[0]`: the status \"blocked\" is unknown; it is one of pending, in_progress",
            ),
            (
                json!(["a", {"status": "done"}]),
                "`todos[1]`: the task has no text; a task is a text, or {\"task\": ",
            ),
            (json!([{"text": 3}]), "`todos[0]`: `text` is 3 and must be a string"),
            (json!([3]), "`todos[0]`: "),
        ] {
            let what = set(&tasks).unwrap_err();
            assert!(what.starts_with(says), "{what}");
            assert!(!what.contains("variant") && !what.contains("untagged"), "{what}");
            assert!(what.contains("pending"), "it shows what is right: {what}");
        }
    }
}

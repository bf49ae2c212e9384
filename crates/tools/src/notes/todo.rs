//! `todo`: what is still to be done?

use kit::prelude::*;
use serde::Serialize;

use super::clipped;

/// Where the list lies among the notes of a session.
const KEY: &str = "todo";

/// A list has at most so many tasks, and a task so many characters.
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

/// What to do.
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

/// How far a task has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Status {
    #[default]
    Pending,
    InProgress,
    #[serde(alias = "completed")]
    Done,
    Failed,
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

/// A task as models write it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Given {
    Text(String),
    Task {
        #[serde(alias = "content", alias = "title", alias = "text", alias = "description")]
        task: String,
        #[serde(default)]
        status: Status,
    },
}

/// A task as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Item {
    task: String,
    status: Status,
}

impl From<Given> for Item {
    fn from(given: Given) -> Self {
        let (task, status) = match given {
            Given::Text(task) => (task, Status::default()),
            Given::Task { task, status } => (task, status),
        };
        // One line each, so that the list stays one.
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
    /// Who gives a list means to set it.
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
}

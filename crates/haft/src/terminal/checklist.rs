//! The model's plan as a checklist: parses the answer of `todo` and similar tools, item by item.

use super::row::{Row, Style, harmless};

/// Tools whose answer is a list of tasks, of haft and of other programs.
const TOOLS: [&str; 6] = ["todo", "todo_write", "todowrite", "update_plan", "task_list", "tasks"];

/// Maximum number of tasks that are shown during a turn.
const SHOWN: usize = 6;

/// A task of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Task {
    text: String,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Active,
    Done,
    Failed,
    Skipped,
}

impl Task {
    /// Returns the text of the task.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether the task is in progress.
    pub(crate) fn is_active(&self) -> bool {
        self.state == State::Active
    }

    /// Returns whether the task is still open.
    pub(crate) fn is_open(&self) -> bool {
        self.state == State::Open
    }
}

/// Returns whether the answer of this tool is a list of tasks.
pub(crate) fn is_list(tool: &str) -> bool {
    TOOLS.contains(&tool.to_ascii_lowercase().as_str())
}

/// Parses the tasks of an answer: `1. [in_progress] write the test`, or `- [x] write the test`.
pub(crate) fn read(text: &str) -> Vec<Task> {
    text.lines().filter_map(task).collect()
}

fn task(line: &str) -> Option<Task> {
    let line = line.trim();
    let rest = match line.split_once(". ") {
        Some((number, rest)) if number.chars().all(|it| it.is_ascii_digit()) => rest,
        _ => line.strip_prefix("- ").or_else(|| line.strip_prefix("* ")).unwrap_or(line),
    };
    let (mark, text) = rest.strip_prefix('[')?.split_once("] ")?;
    let state = match mark {
        " " | "pending" | "open" => State::Open,
        "in_progress" | "active" | "doing" | "~" | ">" => State::Active,
        "x" | "X" | "done" | "completed" => State::Done,
        "failed" | "!" => State::Failed,
        "skipped" | "cancelled" | "-" => State::Skipped,
        _ => return None,
    };
    Some(Task { text: text.trim().to_owned(), state })
}

/// Returns the tasks to show after a change: all of them if their texts or number changed, otherwise those whose state changed.
pub(crate) fn changed<'a>(before: &[Task], now: &'a [Task]) -> Vec<&'a Task> {
    let is_same =
        before.len() == now.len() && before.iter().zip(now).all(|(one, other)| one.text == other.text);
    if !is_same {
        return now.iter().collect();
    }
    before.iter().zip(now).filter(|(one, other)| one != other).map(|(_, it)| it).collect()
}

/// Returns the progress in words.
pub(crate) fn summary(tasks: &[Task]) -> String {
    match tasks.len() {
        0 => "no tasks".to_owned(),
        all => format!("{} of {all} done", count(tasks, State::Done)),
    }
}

/// Returns the tasks in rows of `columns` columns.
pub(crate) fn rows<'a>(tasks: impl IntoIterator<Item = &'a Task>, columns: usize) -> Vec<Row> {
    tasks.into_iter().flat_map(|it| it.row().wrapped(columns, 2)).collect()
}

/// Returns the live list during a turn: the tasks around the current one. Empty if nothing is left to do.
pub(crate) fn live(tasks: &[Task], columns: usize) -> Vec<Row> {
    let is_over = |it: &Task| !matches!(it.state, State::Open | State::Active);
    if tasks.iter().all(is_over) {
        return Vec::new();
    }
    let next = tasks.iter().position(|it| it.state == State::Active);
    let next = next.or_else(|| tasks.iter().position(|it| !is_over(it))).unwrap_or(0);
    // The task before is shown as well: it was just done.
    let first = next.saturating_sub(1).min(tasks.len().saturating_sub(SHOWN));
    let shown = tasks.get(first..).unwrap_or_default().iter().take(SHOWN);
    let mut rows = vec![Row::new(format!("Tasks: {}", summary(tasks)), Style::DIM).cut(columns)];
    rows.extend(shown.map(|it| Row::new("  ", Style::PLAIN).and(it.row()).cut(columns)));
    let hidden = tasks.len().saturating_sub(SHOWN);
    if hidden > 0 {
        rows.push(Row::new(format!("  and {hidden} more"), Style::DIM).cut(columns));
    }
    rows
}

fn count(tasks: &[Task], state: State) -> usize {
    tasks.iter().filter(|it| it.state == state).count()
}

impl Task {
    /// Returns the task as plain text: `[x] write the test`.
    pub(crate) fn plain(&self) -> String {
        let mark = match self.state {
            State::Open => " ",
            State::Active => ">",
            State::Done => "x",
            State::Failed => "!",
            State::Skipped => "-",
        };
        harmless(&format!("[{mark}] {}", self.text))
    }

    fn row(&self) -> Row {
        let (mark, sign, style) = match self.state {
            State::Open => ("☐ ", Style::PLAIN, Style::PLAIN),
            State::Active => ("▶ ", Style::ASKS, Style::BOLD),
            State::Done => ("☑ ", Style::GOOD, Style::DIM),
            State::Failed => ("☒ ", Style::BAD, Style::PLAIN),
            State::Skipped => ("– ", Style::DIM, Style::DIM),
        };
        Row::new(mark, sign).with(self.text.clone(), style)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "1. [done] read\n2. [in_progress] write the code\n3. [pending] test [x]\n4. [failed] ship\n1 of 4 done";

    fn text(rows: &[Row]) -> Vec<String> {
        rows.iter().map(Row::text).collect()
    }

    #[test]
    fn an_answer_becomes_a_checklist() {
        let tasks = read(LIST);
        assert_eq!(text(&rows(&tasks, 40)), ["☑ read", "▶ write the code", "☐ test [x]", "☒ ship"]);
        assert_eq!(summary(&tasks), "1 of 4 done");
        assert_eq!(text(&rows(&read("- [x] a\n- [ ] b\nno task\n[what] ever"), 40)), ["☑ a", "☐ b"]);
        assert!(is_list("TodoWrite") && !is_list("read"));
    }

    #[test]
    fn of_a_list_that_is_known_only_what_changed_stays() {
        let before = read(LIST);
        let now = read(&LIST.replace("[in_progress]", "[done]"));
        let seen = |before: &[Task], now: &[Task]| text(&rows(changed(before, now), 40));
        assert_eq!(seen(&before, &now), ["☑ write the code"]);
        assert_eq!(seen(&[], &now).len(), 4);
        assert_eq!(seen(&before, &before), [""; 0]);
    }

    #[test]
    fn a_long_list_is_seen_around_what_is_being_done() {
        let all: Vec<String> = (1..=20)
            .map(|at| format!("{at}. [{}] task {at}", if at < 9 { "done" } else { "pending" }))
            .collect();
        let seen = text(&live(&read(&all.join("\n")), 30));
        assert_eq!(seen.first().map(String::as_str), Some("Tasks: 8 of 20 done"));
        assert_eq!(seen.get(1).map(String::as_str), Some("  ☑ task 8"));
        assert_eq!((seen.len(), seen.last().map(String::as_str)), (SHOWN + 2, Some("  and 14 more")));
        assert!(live(&read("1. [done] a"), 30).is_empty());
    }
}

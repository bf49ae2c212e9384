//! Output of `haft group run`: one line for each event, with the agent's name before it.

use groups::service::Seen;
use serde_json::{Value, json};
use sessions::{Event, Row};
use store::groups::NewGroupEvent;

use crate::print;

/// The longest line of a call, in characters.
const LONGEST: usize = 160;

/// Prints what happens in a group.
pub(super) struct Lines {
    pub(super) is_json: bool,
}

impl Lines {
    /// Prints one event.
    pub(super) fn show(&self, seen: &Seen) {
        match seen {
            Seen::Row { member, session, row } => self.row(member, session, row),
            Seen::Event { member, event } => self.event(member.as_deref(), event),
        }
    }

    fn row(&self, member: &str, session: &str, row: &Row) {
        if self.is_json {
            // Pieces of texts and calls are for those that watch the session itself.
            let is_piece = row.event.of_agent().is_some_and(|it| {
                use agent::Event as E;
                matches!(it.1, E::Text { .. } | E::Reasoning { .. } | E::Writing { .. } | E::Progress { .. })
            });
            if !is_piece {
                print::json(&json!({"agent": member, "session": session, "seq": row.seq, "row": row.event}));
            }
            return;
        }
        if let Some(line) = line_of(member, session, &row.event) {
            print::err(&line);
        }
    }

    fn event(&self, member: Option<&str>, event: &NewGroupEvent) {
        if self.is_json {
            let (kind, body) = (&event.kind, &event.body);
            print::json(
                &json!({"group_event": kind, "agent": member, "creature_id": event.member, "body": body}),
            );
            return;
        }
        if let Some(line) = line_of_group(member, event) {
            print::err(&line);
        }
    }
}

fn line_of(member: &str, session: &str, event: &Event) -> Option<String> {
    Some(match event {
        Event::ApprovalOpened(approval) => {
            let what = if approval.about.is_empty() { &approval.tool } else { &approval.about };
            format!("[{member}] waits for approval of {what}: haft chat --attach {session}")
        }
        Event::QuestionOpened(_) => format!("[{member}] asks you something: haft chat --attach {session}"),
        other => match other.of_agent()? {
            (_, agent::Event::Called { tool, arguments, .. }) => {
                format!("[{member}] {tool} {}", short(&arguments.to_string()))
            }
            (_, agent::Event::Answered { tool, ok: false, text, .. }) => {
                format!("[{member}] {tool} failed: {}", short(text.lines().next().unwrap_or_default()))
            }
            (_, agent::Event::MessageShown { from, channel, text, .. }) => {
                let by = channel.as_ref().map_or_else(String::new, |it| format!(" on {it}"));
                format!("[{member}] got from {from}{by}: {}", short(text))
            }
            (_, agent::Event::Note { text }) => format!("[{member}] {text}"),
            _ => return None,
        },
    })
}

fn line_of_group(member: Option<&str>, event: &NewGroupEvent) -> Option<String> {
    let who = member.unwrap_or("group");
    let text = |key: &str| event.body.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    Some(match event.kind.as_str() {
        "creature_output" if text("text").trim().is_empty() => return None,
        "creature_output" => prefixed(who, &text("text")),
        "creature_failed" => format!("[{who}] failed: {}", short(&text("why"))),
        "creature_added" => format!("[{who}] added to the group"),
        "creature_removed" => format!("[group] {} removed", text("name")),
        "creature_stopped" if event.body.get("killed") == Some(&Value::Bool(true)) => {
            format!("[{who}] killed")
        }
        "creature_stopped" => format!("[{who}] stopped"),
        "creature_paused" => format!("[{who}] paused"),
        "creature_resumed" => format!("[{who}] resumed"),
        "topology_changed" if text("kind") != "nothing" => format!("[group] graph {}", text("kind")),
        "output_wire_added" => format!("[{who}] output wire to {}", text("to")),
        "output_wire_removed" => format!("[{who}] output wire removed"),
        "loop_paused" => {
            let names: Vec<&str> =
                event.body.get("members")?.as_array()?.iter().filter_map(Value::as_str).collect();
            let times = event.body.get("exchanges").and_then(Value::as_u64).unwrap_or_default();
            format!(
                "[group] paused {}: they answered each other {times} times and changed nothing else",
                names.join(", ")
            )
        }
        "budget_exhausted" => format!("[group] budget used up: {}", text("limit")),
        _ => return None,
    })
}

pub(super) fn prefixed(who: &str, text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|it| format!("[{who}] {it}")).collect();
    lines.join("\n")
}

pub(super) fn short(text: &str) -> String {
    let line = text.replace('\n', " ");
    if line.chars().count() <= LONGEST {
        return line;
    }
    line.chars().take(LONGEST).chain(['…']).collect()
}

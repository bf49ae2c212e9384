//! A subagent's result as a model reads it.

use kit::{
    Output,
    services::{Report, TaskEnd},
};

/// Formats how it ended, what it took, its last message, and its notes.
pub(crate) fn whole(report: &Report) -> Output {
    let Report { agent, steps, tokens, took, .. } = report;
    let ended = match &report.ended {
        TaskEnd::Completed => "done".to_owned(),
        TaskEnd::Limit(which) => format!("stopped at a limit, {which}; this may not be all"),
    };
    let answers = if *steps == 1 { "answer" } else { "answers" };
    // A model that does not report tokens has still used some.
    let tokens = if *tokens == 0 { String::new() } else { format!(", {tokens} tokens") };
    let head = format!("{agent}: {ended} ({steps} {answers}{tokens}, {:.1} s)", took.as_secs_f32());
    Output::text(format!("{head}\n{}", message_and_notes(report)))
}

/// Formats its last message and its notes.
pub(crate) fn message_and_notes(report: &Report) -> String {
    let mut text = report.text.trim_end().to_owned();
    if text.is_empty() {
        text.push_str("(it said nothing)");
    }
    for note in &report.notes {
        text.push_str(&format!("\nnote: {note}"));
    }
    text
}

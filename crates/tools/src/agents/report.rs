//! A subagent's result as a model reads it.

use kit::{
    Output,
    services::{Report, TaskEnd},
};

/// How it ended and what it took, what it said, and what should be known besides.
pub(crate) fn told(report: &Report) -> Output {
    let Report { agent, steps, tokens, took, .. } = report;
    let ended = match &report.ended {
        TaskEnd::Completed => "done".to_owned(),
        TaskEnd::Limit(which) => format!("stopped at a limit, {which}; this may not be all"),
    };
    let answers = if *steps == 1 { "answer" } else { "answers" };
    // A model that does not say what it took did not take nothing.
    let tokens = if *tokens == 0 { String::new() } else { format!(", {tokens} tokens") };
    let head = format!("{agent}: {ended} ({steps} {answers}{tokens}, {:.1} s)", took.as_secs_f32());
    Output::text(format!("{head}\n{}", said(report)))
}

/// What it said, and what should be known besides.
pub(crate) fn said(report: &Report) -> String {
    let mut text = report.text.trim_end().to_owned();
    if text.is_empty() {
        text.push_str("(it said nothing)");
    }
    for note in &report.notes {
        text.push_str(&format!("\nnote: {note}"));
    }
    text
}

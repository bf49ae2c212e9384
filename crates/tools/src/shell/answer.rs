//! A command's result as a model reads it.

use std::time::Duration;

use kit::{
    Cx, Output,
    procs::{Exit, Left, Recording, signal_name},
    references::{call, inert},
};
use serde_json::json;

/// Maximum bytes of output that are shown; the runtime's own limit is higher.
pub(crate) const SHOWN: usize = 30 << 10;

/// Bytes at the end of an output that are searched for the reason of a failure.
const REASON: usize = 4096;

/// Formats a command's output from byte `from` on, and how it ended.
pub(super) fn of_exit(cx: &Cx, recording: &Recording, from: u64, exit: Exit) -> Output {
    let text = recording.since(from, SHOWN).text;
    let mut notes = Vec::new();
    if !exit.is_success() {
        notes.push(ended(exit));
        let tail = recording.tail(REASON).text;
        notes.extend(asked(&tail).map(|it| cx.named(&it)));
    }
    // A successful command may have made a file that a person should know of.
    notes.extend(cx.denials(exit, &recording.tail(REASON).text));
    Output { exit: Some(exit.code()), ..Output::text(with(&text, &notes)) }
}

/// Formats an output, with notes below it, line by line.
pub(crate) fn with(text: &str, notes: &[String]) -> String {
    let text = text.trim_end_matches('\n');
    let mut whole = if text.is_empty() { "(no output)" } else { text }.to_owned();
    for note in notes {
        whole.push('\n');
        whole.push_str(note);
    }
    whole
}

/// Lists the next steps for a command that goes on as this job.
pub(crate) fn next(cx: &Cx, job: &str) -> String {
    let wait = call("wait", &json!({"job": job}));
    cx.named(&format!("[next: {wait}, or `tool:read_job`, or `tool:stop_task`]"))
}

/// Formats how a command ended, on a line of its own.
pub(crate) fn ended(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("[exit {code}]"),
        Exit::Signal(signal) => format!("[exit {}: ended by {}]", exit.code(), signal_name(signal)),
        Exit::Lost => "[exit unknown: whoever watched the command is gone]".to_owned(),
    }
}

/// Formats the processes that a command left running: `sleep 60 (pid 12), python3 (pid 14) on :8000`.
pub(super) fn left(left: &Left) -> String {
    const MOST: usize = 5;
    let mut names: Vec<String> =
        left.processes.iter().take(MOST).map(|(pid, command)| format!("{command} (pid {pid})")).collect();
    if left.processes.len() > MOST {
        names.push(format!("{} more", left.processes.len() - MOST));
    }
    names.join(", ")
}

/// Formats listening ports: `:3000 :8080`.
pub(super) fn ports(left: &Left) -> Option<String> {
    let ports: Vec<String> = left.ports.iter().map(|port| format!(":{port}")).collect();
    (!ports.is_empty()).then(|| ports.join(" "))
}

/// Formats a duration for people.
pub(crate) fn time(took: Duration) -> String {
    match took.as_secs() {
        0..10 => format!("{:.1} s", took.as_secs_f32()),
        seconds @ 10..600 => format!("{seconds} s"),
        seconds => format!("{} min", seconds / 60),
    }
}

/// Returns a note that a command prompted for input, if its last line looks like a prompt.
pub(super) fn asked(output: &str) -> Option<String> {
    let last = output.lines().next_back()?.trim();
    let lower = last.to_lowercase();
    let open = !output.ends_with('\n');
    let secret = ["password", "passphrase", "username", "login"].iter().any(|it| lower.contains(it));
    let choice = ["[y/n]", "(y/n)", "[yes/no]", "(yes/no)", "(yes/no/[fingerprint])?"];
    let choice =
        choice.iter().any(|it| lower.trim_end_matches([':', '?', ' ']).ends_with(it.trim_end_matches('?')));
    let asks = choice || (open && ((secret && lower.ends_with(':')) || lower.ends_with('?')));
    let shown: String = last.chars().take(200).collect();
    asks.then(|| {
        format!(
            "[it asked `{}` and nobody answers here: use a form that asks nothing (`--yes`, `sudo -n`)[?, or `tool:interact`?]]",
            inert(&shown)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_a_question_from_a_report() {
        let questions = [
            "Password: ",
            "[sudo] password for me: ",
            "Enter passphrase for key '/k': ",
            "Username for 'https://example.org': ",
            "Proceed ([y]/n)? ",
            "Do you want to continue? [Y/n] ",
            "Do you want to continue? [Y/n] \n",
            "fine so far\nOverwrite? (y/N)",
            "Are you sure you want to continue connecting (yes/no/[fingerprint])? ",
            "package name?",
        ];
        for question in questions {
            assert!(asked(question).is_some(), "{question}");
        }
        for report in
            ["", "done", "done\n", "error: no password given\n", "why?\n", "a: b", "Password: \nSorry.\n"]
        {
            assert_eq!(asked(report), None, "{report}");
        }
    }

    #[test]
    fn notes_about_an_output_follow_it() {
        assert_eq!(with("", &[]), "(no output)");
        assert_eq!(with("a\n", &[]), "a");
        assert_eq!(with("a", &[ended(Exit::Code(3))]), "a\n[exit 3]");
        assert_eq!(with("", &[ended(Exit::Signal(9))]), "(no output)\n[exit 137: ended by SIGKILL]");
    }
}

//! A conversation as Markdown, for `haft sessions export` and `/export`.

use std::{fs::OpenOptions, io::Write as _, path::Path};

use agent::{CUT_OFF, Message};
use kit::{Fault, Kind};

use crate::terminal::abbreviate;

/// Returns a conversation as Markdown.
pub(in crate::verbs) fn markdown(title: &str, session: &str, said: &[Message]) -> String {
    let mut text = format!("# {title}\n\nA conversation with haft, session `{session}`.\n");
    let mut calls = false;
    // A call right after a message of the person needs the heading of the model.
    let mut is_person = true;
    for message in said {
        let is_call = matches!(message, Message::Tool { .. });
        if !(calls && is_call) {
            text.push('\n');
        }
        calls = is_call;
        match message {
            Message::Person { text: said, attached } => {
                is_person = true;
                text.push_str("## You\n\n");
                text.push_str(said.trim_end());
                text.push('\n');
                attached.iter().for_each(|it| text.push_str(&format!("\n*attached: {it}*\n")));
            }
            Message::Model { text: said, cut_off } => {
                is_person = false;
                text.push_str("## Model\n\n");
                text.push_str(said.trim_end());
                text.push('\n');
                if *cut_off {
                    text.push_str(&format!("\n> {CUT_OFF}\n"));
                }
            }
            Message::Tool { tool, title, ok, exit, line, .. } => {
                if std::mem::take(&mut is_person) {
                    text.push_str("## Model\n\n");
                }
                let arguments = serde_json::from_str(title).unwrap_or_else(|_| title.clone().into());
                let what = format!("{tool} {}", abbreviate::arguments(&arguments, 200));
                let how = abbreviate::how_of_line(*ok, *exit, line);
                let line =
                    if line.trim().is_empty() { String::new() } else { format!(" — {}", line.trim()) };
                text.push_str(&format!("- {} ({how}){line}\n", code(what.trim_end())));
            }
            Message::Note { text: note } => text.push_str(&format!("> {note}\n")),
        }
    }
    text
}

/// Returns a text as inline code, even if it contains backticks.
fn code(text: &str) -> String {
    let longest = text.split(|it| it != '`').map(str::len).max().unwrap_or(0);
    let mark = "`".repeat(longest + 1);
    let blank = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{mark}{blank}{text}{blank}{mark}")
}

/// Writes a text to a file, which must not exist.
///
/// # Errors
/// When the file exists, or can't be written.
pub(in crate::verbs) fn write(path: &Path, text: &str) -> Result<(), Fault> {
    let failed = |error: std::io::Error| {
        if error.kind() == std::io::ErrorKind::AlreadyExists {
            return Fault::bad_args(format!("`{}` is there already", path.display()));
        }
        Fault::new(Kind::Unavailable, format!("`{}` can't be written: {error}", path.display()))
    };
    // haft never overwrites an existing file, and never writes through a symlink.
    let mut file = OpenOptions::new().create_new(true).write(true).open(path).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use expect_test::expect;
    use serde_json::json;

    use super::*;

    fn said() -> Vec<Message> {
        let of = |value| serde_json::from_value(value).unwrap();
        vec![
            of(json!({"who": "person", "text": "fix it", "attached": ["@a.py"]})),
            of(json!({"who": "model", "text": "I look."})),
            of(
                json!({"who": "tool", "tool": "read", "title": "{\"path\":\"a.py\"}", "ok": true, "line": "1:ab|x", "ms": 3.0}),
            ),
            of(
                json!({"who": "tool", "tool": "shell", "title": "{\"command\":\"echo `x`\"}", "ok": true, "exit": 1, "line": "", "ms": 3.0}),
            ),
            of(json!({"who": "model", "text": "Done:\n```py\nprint(1)\n```\nand\n~~~\na\n```\n~~~\n"})),
        ]
    }

    #[test]
    fn a_conversation_is_written_as_markdown() {
        expect![[r#"
            # Fix it

            A conversation with haft, session `s_1`.

            ## You

            fix it

            *attached: @a.py*

            ## Model

            I look.

            - `read a.py` (ok) — 1:ab|x
            - `` shell echo `x` `` (exit 1)

            ## Model

            Done:
            ```py
            print(1)
            ```
            and
            ~~~
            a
            ```
            ~~~
        "#]]
        .assert_eq(&markdown("Fix it", "s_1", &said()));
    }

    #[test]
    fn calls_without_words_before_them_are_the_model_s() {
        let of = |value| serde_json::from_value(value).unwrap();
        let said = [
            of(json!({"who": "person", "text": "go"})),
            of(
                json!({"who": "tool", "tool": "write", "title": "{\"path\":\"a\"}", "ok": false, "line": "it asks (rule `ask_edits`): a; the person said no", "ms": 3.0}),
            ),
        ];
        expect![[r#"
            # t

            A conversation with haft, session `s_1`.

            ## You

            go

            ## Model

            - `write a` (denied) — it asks (rule `ask_edits`): a; the person said no
        "#]]
        .assert_eq(&markdown("t", "s_1", &said));
    }

    #[test]
    fn a_file_that_is_there_is_not_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.md");
        write(&path, "one").unwrap();
        assert!(write(&path, "two").unwrap_err().what.contains("is there already"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one");
    }
}

//! `/export` and `/copy`: the conversation as a Markdown file, the last answer in the clipboard.

use std::path::PathBuf;

use agent::{Message, conversation};
use kit::Fault;
use runtime::Runtime;
use sessions::lines;

use super::{conversation::Conversation, front_end::Face};
use crate::{
    terminal::abbreviate,
    verbs::sessions::markdown::{markdown, write},
};

impl<F: Face> Conversation<F> {
    /// Writes the conversation to a file, which must not exist.
    pub(super) fn export(&mut self, given: &str) -> Result<String, Fault> {
        written(&self.factory.opened.runtime, self.agent.session().name(), given)
    }

    /// Copies the last answer, or one of its code blocks.
    pub(super) fn copy(&mut self, given: &str) -> Result<String, Fault> {
        let said = self.agent.transcript().messages()?;
        let last = last_answer(&said).ok_or_else(|| Fault::not_found("the model has said nothing yet"))?;
        let (text, what) = if given.is_empty() {
            (last, "the last answer".to_owned())
        } else {
            let blocks = code_blocks(&last);
            let number = given.parse::<usize>().ok().filter(|it| *it > 0);
            let number = number.ok_or_else(|| {
                Fault::bad_args(format!("`/copy {given}` needs the number of a code block, from 1"))
            })?;
            let block = blocks.get(number - 1).cloned().ok_or_else(|| {
                let count = match blocks.len() {
                    0 => "no code blocks".to_owned(),
                    1 => "1 code block".to_owned(),
                    count => format!("{count} code blocks"),
                };
                Fault::not_found(format!("the last answer has {count}"))
            })?;
            (block, format!("code block {number} of the last answer"))
        };
        self.face.copy(&text)?;
        Ok(format!(
            "Copied {what} ({} bytes), if the terminal takes it (OSC 52).",
            abbreviate::count(text.len() as u64)
        ))
    }
}

/// Writes the conversation of a session to a file, which must not exist. Returns a line with the path and the size.
///
/// # Errors
/// When the session has no messages, or the file can't be written.
pub(super) fn written(runtime: &Runtime, session: &str, given: &str) -> Result<String, Fault> {
    let said: Vec<Message> = lines(runtime, session)?.into_iter().map(|it| it.message).collect();
    if said.is_empty() {
        return Err(Fault::not_found("nothing was said yet"));
    }
    let path =
        if given.is_empty() { PathBuf::from(format!("haft-{session}.md")) } else { PathBuf::from(given) };
    let path = runtime.roots().workspace().join(path);
    let title = conversation(runtime, session).map_or_else(|_| session.to_owned(), |it| it.title);
    let text = markdown(&title, session, &said);
    write(&path, &text).map_err(|fault| fault.next("Name another file: /export FILE"))?;
    Ok(format!("Written: {} ({} bytes).", path.display(), abbreviate::count(text.len() as u64)))
}

/// Returns the last text of the model.
fn last_answer(said: &[Message]) -> Option<String> {
    said.iter().rev().find_map(|it| match it {
        Message::Model { text, .. } => Some(text.clone()),
        _ => None,
    })
}

/// Returns the code blocks of a Markdown text, without their fences.
fn code_blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in text.lines() {
        let trimmed = line.trim_start();
        let fence: String = trimmed.chars().take_while(|it| matches!(it, '`' | '~')).collect();
        match &mut open {
            Some((mark, block)) => {
                if fence.len() >= mark.len()
                    && fence.starts_with(mark.as_str())
                    && trimmed.trim_end() == fence
                {
                    blocks.extend(open.take().map(|it| it.1));
                } else {
                    block.push_str(line);
                    block.push('\n');
                }
            }
            None if fence.len() >= 3 => open = Some((fence, String::new())),
            None => {}
        }
    }
    // An answer that was cut short has no end of its block.
    blocks.extend(open.map(|it| it.1));
    blocks
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

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
    fn the_last_answer_and_its_code_blocks_can_be_copied() {
        let last = last_answer(&said()).unwrap();
        assert!(last.starts_with("Done:"));
        assert_eq!(code_blocks(&last), ["print(1)\n", "a\n```\n"]);
        assert_eq!(code_blocks("no code"), [""; 0]);
        assert_eq!(code_blocks("```\ncut"), ["cut\n"]);
    }
}

//! Conversations as text: in full, for storing, and as a digest without a model.

use std::fmt::Write as _;

use crate::model::{Item, MessagePart, Piece};

/// Maximum length of a text in a digest, in bytes.
const GIST: usize = 200;

/// Maximum number of lines of a digest.
const LINES: usize = 60;

/// Returns the whole conversation, for reading and searching.
pub(super) fn whole(items: &[Item]) -> String {
    let mut text = String::new();
    for item in items {
        match item {
            Item::Person { pieces } => {
                let _ = writeln!(text, "## person\n{}\n", Piece::lines(pieces));
            }
            Item::Model { said } => {
                text.push_str("## model\n");
                for said in said {
                    let _ = match said {
                        MessagePart::Text { text: said } => writeln!(text, "{said}"),
                        MessagePart::Call { tool, arguments, .. } => writeln!(text, "> {tool} {arguments}"),
                        MessagePart::Opaque { .. } => Ok(()),
                    };
                }
                text.push('\n');
            }
            Item::Results { results } => {
                for result in results {
                    let how = if result.ok { "ok" } else { "failed" };
                    let _ = writeln!(
                        text,
                        "## result of {}: {how}\n{}\n",
                        result.tool,
                        Piece::lines(&result.pieces)
                    );
                }
            }
        }
    }
    text
}

/// Returns the person's words: the first message, and the newest of the others, of at most `most` bytes.
pub(super) fn words(items: &[Item], most: usize) -> String {
    let mut said = items
        .iter()
        .filter_map(|it| if let Item::Person { pieces } = it { Some(Piece::lines(pieces)) } else { None });
    let first = said.next().unwrap_or_default();
    let mut text = middle_cut(&first, most / 2);
    let mut newest = Vec::new();
    let mut left = most.saturating_sub(text.len());
    let rest: Vec<String> = said.collect();
    for words in rest.iter().rev() {
        let words = middle_cut(words, most / 4);
        if words.len() > left {
            newest.push("…".to_owned());
            break;
        }
        left -= words.len();
        newest.push(words);
    }
    for words in newest.iter().rev() {
        let _ = write!(text, "\n- {words}");
    }
    text
}

/// Returns a digest by rule: what was done, line by line.
pub(super) fn digest(items: &[Item]) -> String {
    let mut lines = Vec::new();
    for item in items {
        match item {
            Item::Person { .. } => {}
            Item::Model { said } => {
                for said in said {
                    match said {
                        MessagePart::Text { text } => lines.push(format!("said: {}", gist(text))),
                        MessagePart::Call { tool, arguments, .. } => {
                            lines.push(format!("called {tool} {}", gist(arguments)));
                        }
                        MessagePart::Opaque { .. } => {}
                    }
                }
            }
            Item::Results { results } => {
                for result in results {
                    let how = if result.ok { "came to" } else { "failed" };
                    lines.push(format!("{} {how}: {}", result.tool, gist(&Piece::lines(&result.pieces))));
                }
            }
        }
    }
    let left_out = lines.len().saturating_sub(LINES);
    let mut text = String::new();
    if left_out > 0 {
        let _ = writeln!(text, "({left_out} earlier lines are left out)");
    }
    text.push_str(&lines.get(left_out..).unwrap_or_default().join("\n"));
    text
}

/// Returns the text without its middle, if it is longer than `most` bytes.
pub(super) fn middle_cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let head = text.get(..text.floor_char_boundary(most / 3 * 2)).unwrap_or_default();
    let tail = text.get(text.ceil_char_boundary(text.len() - most / 3)..).unwrap_or_default();
    format!("{head}\n[… {} bytes are left out here …]\n{tail}", text.len() - head.len() - tail.len())
}

fn gist(text: &str) -> String {
    let line = text.lines().find(|it| !it.trim().is_empty()).unwrap_or_default();
    let short = line.get(..line.floor_char_boundary(GIST)).unwrap_or_default();
    if short.len() < line.len() { format!("{short}…") } else { short.to_owned() }
}
